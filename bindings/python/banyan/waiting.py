"""Calls that block in C, made so that Python runs handlers of signals meanwhile."""
from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional

from .library import SLICE


class _Call:
    """A call that a thread of its own makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: Optional[BaseException] = None
        self._lock, self._has_ended = threading.Lock(), threading.Event()
        self._afterwards: List[Callable[[], None]] = []
        # The program may end while this thread waits.
        threading.Thread(target=self._run, args=(make,), daemon=True, name="banyan wait").start()

    def _run(self, make: Callable[[], Any]) -> None:
        try:
            self.result = make()
        except BaseException as error:
            self.error = error
        with self._lock:
            self._has_ended.set()
        for step in self._afterwards:
            step()

    def wait(self) -> None:
        """Blocks until the call has ended. Handlers of signals run meanwhile, and their exceptions leave this function."""
        while not self._has_ended.wait(SLICE):
            pass

    def afterwards(self, step: Callable[[], None]) -> None:
        """Calls step() once the call has ended: now, or later in the call's thread."""
        with self._lock:
            if not self._has_ended.is_set():
                self._afterwards.append(step)
                return
        step()


class Waits:
    """The blocking calls on one object of the library, such as a communicator."""

    def __init__(self) -> None:
        self._last: Optional[_Call] = None

    def make(self, call: Callable[[], Any], drop: Callable[[Any], None] = lambda _: None,
             also: Optional["Waits"] = None) -> Any:
        """Returns call(), and raises what it raises. Where a handler of a signal raises an exception meanwhile, as for
        Ctrl-C, that exception is raised within SLICE seconds. The call goes on then, and drop() gets its result; the next
        one on the object waits for its end first. `also` are the calls on another object that this call uses."""
        users = [self] if also is None else [self, also]
        for waits in users:
            if waits._last:
                waits._last.wait()
        if threading.current_thread() is not threading.main_thread():  # Handlers run in the main thread only.
            return call()
        made = _Call(call)
        for waits in users:
            waits._last = made
        try:
            made.wait()
        except BaseException:
            made.afterwards(lambda: None if made.error else drop(made.result))
            raise
        for waits in users:
            waits._last = None
        if made.error:
            raise made.error
        return made.result

    def end(self, close: Callable[[], None]) -> None:
        """Calls close() when no call uses the object any more: now, or when the one that goes on has ended."""
        if self._last:
            self._last.afterwards(close)
        else:
            close()


def interruptible(call: Callable[[], Any], drop: Callable[[Any], None] = lambda _: None) -> Any:
    """Waits.make() for a call on an object that nothing else uses."""
    return Waits().make(call, drop)
