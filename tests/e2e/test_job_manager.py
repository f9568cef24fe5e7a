#!/usr/bin/env python3
"""A job on a host without an agent: rank 0 communicates with a simulated manager over TLS, and forwards its class
to the other ranks."""
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BANYAN = os.environ["BANYAN"]
SUM_UNTIL = os.path.join(os.environ["BANYAN_BUILD"], "tests", "net", "sum_until")
TIMEOUT = 60
RANKS = 3
CALLS = 5000 if os.environ.get("BANYAN_SANITIZED", "none") == "none" else 2000  # Classes change meanwhile.
started = []  # jobs, which end with the test


def make_keys(folder):
    keys = folder / "keys"
    env = {**os.environ, "BANYAN_KEYS": str(keys)}
    for command in (["init", str(keys)], ["make", "job", "h1"], ["make", "manager", "m", "--address", "127.0.0.1"]):
        subprocess.run([BANYAN, "keys", *command], check=True, env=env, stdout=subprocess.DEVNULL, timeout=TIMEOUT)
    return keys


class Manager:
    def __init__(self, keys):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(keys / "manager-m.pem")
        self.context.load_verify_locations(keys / "ca.crt")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(TIMEOUT)
        self.port = self.listener.getsockname()[1]

    def meet(self):
        connection, _ = self.listener.accept()
        connection.settimeout(TIMEOUT)
        self.connection = self.context.wrap_socket(connection, server_side=True)
        self.file = self.connection.makefile("rb")

    def send(self, what):
        self.connection.sendall(json.dumps(what).encode() + b"\n")

    def receive(self, kind):
        while line := self.file.readline():
            message = json.loads(line)
            if message["type"] == kind:
                return message
        raise AssertionError(f"no {kind}")

    def await_state(self, cells, own_plan):
        """Receives until the last reservation request and the last job message are these. Others may come before,
        such as a request that was repeated while the plans changed. The socket's timeout ends the wait."""
        last = {"reserve": {}, "job": {"own_plan": 0}}
        while (last["reserve"].get("cells"), last["job"].get("own_plan")) != (cells, own_plan):
            line = self.file.readline()
            assert line, f"the job has hung up after {last}"
            message = json.loads(line)
            last[message["type"]] = message

    def hang_up(self):
        self.file.close()
        self.connection.close()


class Switch:
    """A switch's end of its control connection. Packets do not go through it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(TIMEOUT)
        self.port = self.listener.getsockname()[1]

    def grant(self, slots):
        """Accepts a new connection and returns it with the request."""
        connection, _ = self.listener.accept()
        connection.settimeout(TIMEOUT)
        for line in connection.makefile():
            asked = json.loads(line)
            if asked["do"] == "grant":
                break
        self.reply(connection, asked, slots)
        return connection, asked

    @staticmethod
    def reply(connection, asked, slots):
        reply = {"done": "grant", "job": asked["job"], "key": asked["key"], "slots": slots, "up": 0, "below": [1, 2, 3]}
        connection.sendall(json.dumps(reply).encode() + b"\n")


def local_name():
    """Returns a name of this machine, or its address where libc knows no name, as in a chroot without /etc/hosts."""
    try:
        socket.getaddrinfo("localhost", None)
        return "localhost"
    except socket.gaierror:
        return "127.0.0.1"


def start_job(folder, manager, keys, iterations, *options, switch_port=1, transport="tcp", command=None,
              **more):
    log = open(folder / "log", "w+", encoding="utf-8")
    env = {**os.environ, "BANYAN_AGENT": "off", "BANYAN_MANAGER": f"{local_name()}:{manager.port}", "BANYAN_KEYS": str(keys),
           "BANYAN_JOB": "sums", "BANYAN_SWITCHES": f"s1=127.0.0.1:{switch_port}",
           "BANYAN_LOG": "warn,cluster:debug", "BANYAN_ITERATIONS": "123456",
           "BANYAN_END_TIME": str(int(time.time()) + 5000), **more}
    command = command or [BANYAN, "bench", "-s", "256K", "--iterations", str(iterations), "--check", "off"]
    run = [BANYAN, "run", "-n", str(RANKS), "--transport", transport, *options, "--", *command]
    started.append(subprocess.Popen(run, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
    return started[-1], log


def output_of(log):
    log.seek(0)
    return log.read()


def wait_for(log, text, times):
    until = time.monotonic() + TIMEOUT
    while output_of(log).count(text) < times:
        assert time.monotonic() < until, output_of(log)
        time.sleep(0.02)


def greet(manager, own_plan=None):
    manager.meet()
    hello = manager.receive("hello")
    assert hello["rank"] == 0 and not hello.get("interfaces") and not hello.get("may_help"), hello
    job = manager.receive("job")
    assert job["job"] == hello["job"] and job["name"] == "sums" and job["size"] == len(job["hosts"]) == RANKS, job
    assert job["hosts"] == [hello["host"]] * RANKS and job["key"] and ":" in job["root"], job
    assert job.get("own_plan") == own_plan, job
    manager.send({"type": "welcome", "version": 3, "interval": 0.05, "rate": 0})
    return job["job"], hello["host"]


def test_class_and_end(folder):
    keys = make_keys(folder)
    manager = Manager(keys)
    run, log = start_job(folder, manager, keys, CALLS)
    name, _ = greet(manager)
    report = manager.receive("report")["jobs"][0]
    assert report["job"] == name and report["ranks"] == [0] and report["calls"] > 0, report
    assert report["expected"] == 123456, report
    assert 4000 < report["ends_in"] <= 5000, report
    manager.send({"type": "classes", "jobs": [{"job": name, "class": 2}]})
    wait_for(log, "sends in class 2 from now on", RANKS)
    before = manager.connection.getpeercert()["serialNumber"]
    subprocess.run([BANYAN, "keys", "make", "job", "h1", "--force"], check=True, timeout=TIMEOUT,
                   env={**os.environ, "BANYAN_KEYS": str(keys)}, stdout=subprocess.DEVNULL)
    manager.hang_up()
    assert greet(manager)[0] == name  # The job sends everything again, with its current certificate.
    assert manager.connection.getpeercert()["serialNumber"] != before
    manager.send({"type": "classes", "jobs": [{"job": name, "class": 1}]})
    wait_for(log, "sends in class 1 from now on", RANKS)
    assert manager.receive("left") == {"type": "left", "job": name, "rank": 0}
    assert run.wait(TIMEOUT) == 0, output_of(log)
    assert output_of(log).count("continues without it") == 1, output_of(log)


PLAN = {"format": "banyan-plan 1", "name": "switched", "ranks": RANKS,
        "vertices": {"h/0": {"kind": "server"}, "s1": {"kind": "switch"}},
        "trees": [{"share": 1, "root": "h/0", "up": {"s1": "h/0", "0": "s1", "1": "s1", "2": "s1"},
                   "ports": {"s1": {"h/0": "p3", "0": "p0", "1": "p1", "2": "p2"}}}]}


def test_cells(folder):
    """The manager receives the job's reservation request, and ends before it has answered. The job continues, and
    reports its cells there. No manager answers either."""
    keys = make_keys(folder)
    manager = Manager(keys)
    (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    run, log = start_job(folder, manager, keys, 1000, "--servers", "1", "--plan", str(folder / "plan.json"))
    name, _ = greet(manager, "switched")
    reserved = manager.receive("reserve")
    cells = reserved["cells"]
    assert reserved["job"] == name and len(cells) == 1 and cells[0]["switch"] == "s1", reserved
    assert cells[0]["slots"] == 512 and cells[0]["bytes"] > 3000 and "given" not in cells[0], reserved
    manager.hang_up()
    greet(manager, "switched")
    while "given" not in (got := manager.receive("reserve")["cells"][0]):
        pass
    assert got == {**cells[0], "given": 0}, got
    assert run.wait(TIMEOUT) == 0, output_of(log)
    assert output_of(log).count("the manager has not granted this job memory") == 1, output_of(log)


def test_switch_grants_less(folder):
    """A switch restarts with too few cells for the job: the manager is notified that the job has none."""
    keys = make_keys(folder)
    manager, switch = Manager(keys), Switch()
    (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    run, log = start_job(folder, manager, keys, 100 * CALLS, "--servers", "1", "--plan", str(folder / "plan.json"),
                         switch_port=switch.port)
    name, _ = greet(manager, "switched")
    reserved = manager.receive("reserve")["cells"]
    manager.send({"type": "cells", "job": name, "cells": reserved})
    connection, asked = switch.grant(300)
    assert asked["slots"] == 512, asked
    assert manager.receive("reserve")["cells"] == [{**reserved[0], "given": 300}]
    connection.close()
    connection, again = switch.grant(200)
    assert again == asked, again
    assert manager.receive("reserve")["cells"] == [{**reserved[0], "given": 0}]
    wait_for(log, "it forwards from here on", 1)
    run.terminate()
    run.wait(TIMEOUT)


def set_plan(folder, plan):
    (folder / "new").write_text(f"{plan}\n", encoding="utf-8")
    (folder / "new").rename(folder / "set")


def next_of(connection, request):
    for line in connection:
        asked = json.loads(line)
        if asked["do"] == request:
            return asked
    raise AssertionError(f"no {request}")


def test_cells_are_given_back(folder):
    """A job whose user sets another plan returns the switch's cells, and gets them again with the first plan. No
    plan of the manager is used while the user's is set."""
    keys = make_keys(folder)
    manager, switch = Manager(keys), Switch()
    switched = folder / "plan.json"
    switched.write_text(json.dumps(PLAN), encoding="utf-8")
    run, log = start_job(folder, manager, keys, 0, "--servers", "1", "--plan", str(switched), switch_port=switch.port,
                         transport="auto", command=[SUM_UNTIL, str(folder / "done"), str(folder / "sums")],
                         BANYAN_TEST_PLAN=str(folder / "set"))
    name, host = greet(manager, "switched")
    reserved = manager.receive("reserve")["cells"]
    manager.send({"type": "cells", "job": name, "cells": reserved})
    connection, asked = switch.grant(300)
    orders = connection.makefile()
    assert manager.receive("reserve")["cells"] == [{**reserved[0], "given": 300}]
    set_plan(folder, "ring")
    revoked = next_of(orders, "revoke")
    assert revoked["job"] == asked["job"], revoked
    manager.await_state([], "ring")
    set_plan(folder, switched)
    manager.await_state(reserved, "switched")
    manager.send({"type": "cells", "job": name, "cells": reserved})
    again = next_of(orders, "grant")
    assert again["job"] != asked["job"] and again["slots"] == 512, again  # Trees of another plan have their own number.
    switch.reply(connection, again, 300)
    while "given" not in (got := manager.receive("reserve")["cells"][0]):
        pass
    assert got == {**reserved[0], "given": 300}, got
    plan = {"format": "banyan-plan 1", "name": "managers", "ranks": 1, "vertices": {host: {"kind": "rank", "rank": 0}},
            "trees": [{"share": 1, "root": host, "up": {}}]}
    manager.send({"type": "plan", "job": name, "number": 1, "plan": plan})
    kept = manager.receive("kept")
    assert kept["number"] == 1 and "the user has set plan 'switched'" in kept["why"], kept
    set_plan(folder, "default")
    next_of(orders, "revoke")
    manager.await_state([], None)
    manager.send({"type": "plan", "job": name, "number": 2, "plan": plan})
    assert manager.receive("switched")["number"] == 2
    (folder / "done").touch()
    assert run.wait(TIMEOUT) == 0 and output_of(log).count("0 wrong") == RANKS, output_of(log)


def test_late_certificate(folder):
    """The job continues, reports once what is missing, and uses the certificate when it appears."""
    keys = make_keys(folder)
    manager = Manager(keys)
    pem = keys / "job-h1.pem"
    pem.rename(folder / "later")
    run, log = start_job(folder, manager, keys, 100 * CALLS)
    wait_for(log, "is not reachable", 1)
    assert re.search(r"manager at \S+ is not reachable: there is no \S+job-NAME.pem", output_of(log)), output_of(log)
    (folder / "later").rename(pem)
    greet(manager)
    run.terminate()
    run.wait(TIMEOUT)
    assert output_of(log).count("is not reachable") == 1, output_of(log)


def main():
    for test in (test_class_and_end, test_cells, test_switch_grants_less, test_cells_are_given_back,
                 test_late_certificate):
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Path(folder))
            finally:
                for job in started:
                    job.terminate()
        print(f"{test.__name__}: ok")


if __name__ == "__main__":
    sys.exit(main())
