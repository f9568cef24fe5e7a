"""Requests: calls in progress."""
from __future__ import annotations

from ctypes import byref, c_bool, c_void_p
from typing import Any, Callable, List, Optional

from .errors import RequestError
from .library import SLICE, check, lib


class Request:
    """A call that goes on by itself. It keeps its buffers alive; wait() returns what the call returns."""

    def __init__(self, handle: c_void_p, result: Any, keep: Any, finish: Optional[Callable[[], Any]] = None) -> None:
        self._handle: Optional[c_void_p] = handle
        self._result, self._keep, self._finish = result, keep, finish
        self._error: Optional[BaseException] = None

    def _end(self, status: int) -> None:
        self._handle = None
        try:
            check(status)
            if self._finish:
                self._result = self._finish()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._keep = self._finish = None

    def _check_submitted(self) -> None:
        if self._handle is not None and not self._handle.value:
            raise RequestError("this operation is submitted at the end of its `with comm.together()` block")

    def _drop(self, error: Optional[BaseException]) -> None:
        """It was not submitted, because of `error`."""
        self._handle = self._keep = self._finish = None
        self._error = error or RequestError("the operation was not submitted")

    def wait(self) -> Any:
        """Blocks until the call has ended, moving its bytes meanwhile. Raises what it ended with."""
        self._check_submitted()
        if self._handle is not None:
            ended, handle, self._handle = c_bool(False), self._handle, None
            try:
                status = lib.banyan_wait_for(handle, SLICE, byref(ended))
                while not ended.value and not status:
                    status = lib.banyan_wait_for(handle, SLICE, byref(ended))
            except BaseException:  # raised by a signal's handler: the call goes on
                self._handle = None if ended.value else handle
                raise
            self._end(status)
        if self._error:
            raise self._error
        return self._result

    def done(self) -> bool:
        """Whether it has ended. Raises if it ended with an error."""
        self._check_submitted()
        if self._handle is not None:
            ended = c_bool(False)
            status = lib.banyan_test(self._handle, byref(ended))
            if ended.value:
                self._end(status)
        if self._error:
            raise self._error
        return self._handle is None

    def __del__(self) -> None:
        if self._handle:  # its buffers are in use until it has ended
            _abandoned.append(self)
            drop_ended()


_abandoned: List[Request] = []  # nobody waits for them any more


def drop_ended() -> None:
    """Frees the buffers of calls that nobody waited for, and that have ended."""
    for request in list(_abandoned):
        ended, handle = c_bool(False), request._handle
        status = lib.banyan_test(handle, byref(ended)) if handle else 1
        if ended.value or status:
            request._handle = None
            _abandoned.remove(request)
