"""Jobs of a few ranks for tests of the Python package: each rank runs a function in a process of its own."""
import importlib
import importlib.util
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import threading
import time
import traceback

LIMIT = 240  # seconds for all ranks


def need(*modules):
    """Skips the test with a reason where it cannot run."""
    if os.environ.get("BANYAN_SANITIZED", "none") != "none":
        print("skipped: the library has a sanitizer in it, which Python lacks")
        sys.exit(77)
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {sys.executable} has no module {module} (apt-get install python3-{module})")
            sys.exit(77)


def need_torch():
    """Skips tests of banyan.torch with a reason on a machine without a compiler or PyTorch's headers, which cannot
    compile it."""
    need("numpy", "torch")
    try:
        importlib.import_module("banyan.torch")
    except ImportError as error:
        if "has to be compiled" not in str(error):
            raise
        print(f"skipped: {error}")
        sys.exit(77)
    import_dynamo()


def import_dynamo():
    """PyTorch 2.x imports it, for seconds, where an optimiser is first used. Ranks are forked: here it is done once."""
    if int(importlib.import_module("torch").__version__.split(".", maxsplit=1)[0]) >= 2:
        importlib.import_module("torch._dynamo")


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_port():
    """Returns a port below those that kernels assign to connections, so that none takes it meanwhile. The next
    port is free as well: PyTorch's ranks meet there."""
    draw = secrets.SystemRandom()
    while True:
        port = draw.randrange(18000, 32000)
        if _is_free(port) and _is_free(port + 1):
            return port


def _rank(function, rank, size, port, key, arguments):
    os.environ.update(BANYAN_RANK=str(rank), BANYAN_SIZE=str(size), BANYAN_ROOT=f"127.0.0.1:{port}", BANYAN_KEY=key,
                      RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port + 1))
    try:
        function(*arguments)
    except BaseException:
        print(f"rank {rank}:", file=sys.stderr)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def run(size, function, *arguments, expected=None):
    """Runs function(*arguments) on this many ranks and waits. Fails unless all exit with 0, or as `expected`
    requires."""
    context = multiprocessing.get_context("fork")
    port, key = free_port(), importlib.import_module("banyan.library").key_create()
    ranks = [context.Process(target=_rank, args=(function, r, size, port, key, arguments)) for r in range(size)]
    for process in ranks:
        process.start()
    until = time.monotonic() + LIMIT
    for process in ranks:
        process.join(max(0.1, until - time.monotonic()))
    late = [r for r, process in enumerate(ranks) if process.is_alive()]
    for process in ranks:
        process.kill()
    exits = [process.exitcode for process in ranks]
    assert not late, f"{function.__name__}: ranks {late} did not end within {LIMIT} s"
    assert exits == (expected or [0] * size), f"{function.__name__}: the ranks exited with {exits}"


def check_signals(rank, folder, call):
    """On two ranks: `call()` makes a call in which rank 0 waits for rank 1, which comes only when a handler of a signal has
    run on rank 0. One that returns leaves the call as it is; after one that raises, the call goes on by itself."""
    def comes(name):
        until = time.monotonic() + LIMIT / 3
        while not os.path.exists(os.path.join(folder, name)):
            assert time.monotonic() < until, f"rank 0 has not handled {name}"
            time.sleep(0.01)

    def note(name):
        with open(os.path.join(folder, name), "w", encoding="utf-8"):
            pass

    if rank == 1:
        for name in ("SIGTERM", "SIGINT"):
            comes(name)
            call()
        return
    signal.signal(signal.SIGTERM, lambda *_: note("SIGTERM"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    call()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call()
        raise AssertionError("SIGINT has not raised KeyboardInterrupt")
    except KeyboardInterrupt:
        note("SIGINT")
