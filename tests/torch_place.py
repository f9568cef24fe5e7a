"""A rank of `banyan run` that meets the others where PyTorch's store would be: rank 0 listens as the store does, the others
connect to it. They print what PyTorch's programs read."""
import errno
import os
import socket
import time

place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
until = time.monotonic() + 60
if rank == 0:
    with socket.socket() as other:  # of a program to which the system gives a port
        try:
            other.bind(("", place[1]))
            raise SystemExit("nobody holds MASTER_PORT")
        except OSError as error:
            assert error.errno == errno.EADDRINUSE, error
    with socket.create_server(("", place[1]), family=socket.AF_INET6, dualstack_ipv6=True, backlog=size) as server:
        server.settimeout(60)
        for _ in range(size - 1):
            server.accept()[0].close()
while rank:
    try:
        socket.create_connection(place, 5).close()
        break
    except ConnectionRefusedError:  # rank 0 does not listen yet
        assert time.monotonic() < until, place
        time.sleep(0.01)
print("met at", place[0], *(f"{name} {os.environ[name]}" for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")))
