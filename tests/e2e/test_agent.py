#!/usr/bin/env python3
"""An agent with its peers: ranks over its socket, and a manager over TLS. Both are simulated here, line by line.
The interface is the loopback interface, where nothing needs privileges."""
import hashlib
import hmac
import json
import os
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BANYAN = os.environ["BANYAN"]
JOB = "0123456789abcdef" * 2
TIMEOUT = 60
started = []  # agents, which end with the test


def ticket(key, kind, name):
    """A manager's ticket for a helper (1) or server (2), as docs/wire.md describes it."""
    head = struct.pack("<Q", int(time.time()) + 3600) + os.urandom(8) + hashlib.sha256(bytes([kind]) + name.encode()).digest()
    secret = hmac.digest(hashlib.sha256(key.encode()).digest(), b"banyan ticket\0\0\0" + head, "sha256")
    return "banyan_ticket_" + head.hex() + secret.hex()


class Lines:
    """One end of a connection that carries lines."""

    def __init__(self, connection):
        connection.settimeout(TIMEOUT)
        self.connection = connection
        self.file = connection.makefile("rb")

    def send(self, what):
        self.connection.sendall((what if isinstance(what, str) else json.dumps(what)).encode() + b"\n")

    def receive(self, kind=None):
        """Returns the next line of this type, or None when the other end has closed."""
        while line := self.file.readline():
            message = json.loads(line)
            if kind in (None, message.get("type")):
                return message
        return None

    def close(self):
        self.file.close()
        self.connection.close()


class Agent:
    def __init__(self, folder, *options, env=None):
        self.socket = str(folder / "agent.sock")
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [BANYAN, "agent", "--socket", self.socket, "--name", "h1", "--interfaces", "lo", "--queues", "none",
             "--interval", "100ms", *options], stderr=self.log, stdin=subprocess.DEVNULL,
            env={**os.environ, "BANYAN_LOG": "info", **(env or {})})
        started.append(self.process)
        until = time.monotonic() + TIMEOUT
        while True:
            try:
                self.connect().close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, self.message()
                time.sleep(0.02)

    def message(self):
        self.log.seek(0)
        return self.log.read()

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.socket)
        except OSError:
            connection.close()
            raise
        return Lines(connection)

    def rank(self, number, job=JOB):
        lines = self.connect()
        lines.send({"type": "hello", "version": 3, "host": "h1", "job": job, "rank": number})
        assert lines.receive()["type"] == "welcome"
        assert lines.receive() == {"type": "classes", "jobs": [{"job": job, "class": 0}]}
        return lines

    def status(self):
        out = subprocess.run([BANYAN, "agent", "status", "--json", "--socket", self.socket], check=True,
                             stdout=subprocess.PIPE, timeout=TIMEOUT)
        return json.loads(out.stdout)

    def status_has(self, test):
        """Waits until the condition holds."""
        until = time.monotonic() + TIMEOUT
        while not test(status := self.status()):
            assert time.monotonic() < until, status
            time.sleep(0.02)
        return status

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(TIMEOUT)
        self.last = self.message()
        self.log.close()
        return self.process.returncode


def report(number, iterations, sent):
    return {"type": "report", "jobs": [{"job": JOB, "ranks": [number], "iterations": iterations, "iteration_time": 0.5,
                                       "sent": sent, "input": 1, "calls": iterations, "sizes": [[20, iterations]]}]}


def job_line(root="127.0.0.1:9"):
    return {"type": "job", "job": JOB, "name": "train", "size": 2, "hosts": ["h1", "h1"], "root": root, "key": "secret"}


def test_ranks(folder):
    agent = Agent(folder)
    assert stat.S_IMODE(os.stat(agent.socket).st_mode) == 0o666
    ranks = [agent.rank(i) for i in range(2)]
    ranks[0].send(job_line())
    for i, rank in enumerate(ranks):
        rank.send(report(i, 100, 6 * 10**9))
    for rank in ranks:
        while rank.receive("classes")["jobs"][0]["class"] != 2:  # The job has sent 12 GB once both have reported.
            pass
    status = agent.status()
    assert status["jobs"][0]["name"] == "train" and status["jobs"][0]["ranks"] == [0, 1], status
    assert status["interfaces"][0]["name"] == "lo", status
    shown = subprocess.run([BANYAN, "agent", "status", "--socket", agent.socket], check=True, stdout=subprocess.PIPE,
                           text=True, timeout=TIMEOUT).stdout
    assert f"{JOB} train: class 2 (by the agent), 100 iterations" in shown, shown
    ranks[1].close()
    agent.status_has(lambda status: status["jobs"][0]["ranks"] == [0])
    # Unauthenticated peers do no harm.
    for line in ["what?", json.dumps(report(0, 1, 1)), '{"type":"dance"}', '{"say":"hello","version":1,"host":"h1"}', "x" * (1 << 20), "[" * 70000]:
        intruder = agent.connect()
        intruder.send(line)
        assert intruder.receive()["type"] == "refused"
        assert intruder.receive() is None
        intruder.close()
    flood = agent.connect()
    try:
        for _ in range(40):
            flood.connection.sendall(b"x" * (1 << 16))
    except OSError:
        pass
    else:
        assert flood.receive() is None
    flood.close()
    ranks[0].send(report(0, 101, 6 * 10**9))
    agent.status_has(lambda status: status["jobs"][0]["iterations"] == 101)
    # A second agent on the same socket fails, and a socket of a killed agent is replaced.
    second = subprocess.run([BANYAN, "agent", "--socket", agent.socket, "--name", "h1"], stderr=subprocess.PIPE,
                            text=True, check=False, timeout=TIMEOUT)
    assert second.returncode == 1 and "one runs here already" in second.stderr, second
    assert agent.status()["jobs"]
    agent.end(signal.SIGKILL)
    assert ranks[0].receive() is None
    agent = Agent(folder)
    rank = agent.rank(0)
    rank.send(job_line())
    rank.send(report(0, 200, 9 * 10**9))
    agent.status_has(lambda status: status["jobs"] and status["jobs"][0]["iterations"] == 200)
    assert agent.end() == 0
    assert not os.path.exists(agent.socket)
    missing = subprocess.run([BANYAN, "agent", "status", "--socket", agent.socket], stderr=subprocess.PIPE, text=True,
                            check=False, timeout=TIMEOUT)
    assert missing.returncode == 1 and "no agent at" in missing.stderr, missing


def test_refused_client(folder):
    """The agent stops reading this connection, so that it cannot keep the agent busy."""
    agent = Agent(folder)
    client = agent.connect()
    client.send("what?")
    assert client.receive()["type"] == "refused"
    client.connection.setblocking(False)
    sent, most = 0, 1 << 26
    until = time.monotonic() + TIMEOUT
    while sent < most and time.monotonic() < until:
        try:
            sent += client.connection.send(b"x\n" * 32768)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # The connection is closed after a while.
            break
    assert sent < most and time.monotonic() < until, sent
    client.close()
    for i in range(300):  # Each connection is invalid in another way.
        client = agent.connect()
        client.send(f"what? {i}")
        assert client.receive()["type"] == "refused"
        client.close()
    assert 1 <= agent.message().count("\n") < 40, agent.message()
    assert agent.end() == 0
    assert "further connections were rejected" in agent.last


def test_group(folder):
    agent = Agent(folder, "--group", "root")
    assert stat.S_IMODE(os.stat(agent.socket).st_mode) == 0o660
    assert os.stat(agent.socket).st_gid == 0
    assert agent.end() == 0


def test_rules(folder):
    agent = Agent(folder, "--first-iterations", "2", "--threshold", "1K")
    rank = agent.rank(0)
    rank.send(report(0, 1, 5000))
    agent.status_has(lambda status: status["jobs"][0]["iterations"] == 1)
    time.sleep(0.2)  # two intervals
    assert agent.status()["jobs"][0]["class"] == 0
    rank.send(report(0, 2, 5000))
    assert rank.receive("classes")["jobs"] == [{"job": JOB, "class": 3}]
    assert agent.end() == 0


class Manager:
    """Listens with TLS, for agents of the cluster's authority."""

    def __init__(self, keys, port=0):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(keys / "manager-m.pem")
        self.context.load_verify_locations(keys / "ca.crt")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", port))
        self.listener.settimeout(TIMEOUT)
        self.port = self.listener.getsockname()[1]

    def meet(self):
        connection, _ = self.listener.accept()
        return Lines(self.context.wrap_socket(connection, server_side=True))

    def welcome(self):
        lines = self.meet()
        hello = lines.receive()
        assert hello["type"] == "hello" and hello["host"] == "h1" and hello["may_help"], hello
        assert hello["interfaces"][0]["address"] == "127.0.0.1", hello
        lines.send({"type": "welcome", "version": 3, "interval": 0.2, "rate": 1e9})
        return lines

    def close(self):
        self.listener.close()


def local_name():
    """Returns a name of this machine, or its address where libc knows no name, as in a chroot without /etc/hosts."""
    try:
        socket.getaddrinfo("localhost", None)
        return "localhost"
    except socket.gaierror:
        return "127.0.0.1"


def make_keys(folder):
    keys = folder / "keys"
    env = {**os.environ, "BANYAN_KEYS": str(keys)}
    for command in (["init", str(keys)], ["make", "agent", "h1"], ["make", "manager", "m", "--address", "127.0.0.1"]):
        subprocess.run([BANYAN, "keys", *command], check=True, env=env, stdout=subprocess.DEVNULL, timeout=TIMEOUT)
    return keys


def test_manager(folder):
    keys = make_keys(folder)
    manager = Manager(keys)
    agent = Agent(folder, "--manager", f"{local_name()}:{manager.port}", "--keys", str(keys))
    link = manager.welcome()
    rank = agent.rank(0)
    rank.send(job_line())
    assert link.receive("job") == job_line()
    rank.send(report(0, 3, 1000))
    while (message := link.receive("report")) and not (message["jobs"] and message["jobs"][0]["calls"] == 3):
        pass
    assert message["jobs"][0] == report(0, 3, 1000)["jobs"][0], message
    plan = {"type": "plan", "job": JOB, "number": 1, "plan": {"trees": [{"up": {}}]}}
    link.send(plan)
    assert rank.receive("plan") == plan
    rank.send({"type": "switched", "job": JOB, "number": 1, "at": 12})
    assert link.receive("switched") == {"type": "switched", "job": JOB, "number": 1, "at": 12}
    link.send({"type": "classes", "jobs": [{"job": JOB, "class": 3}]})
    assert rank.receive("classes")["jobs"] == [{"job": JOB, "class": 3}]
    # The manager is killed and restarted: the agent sends everything again.
    port = manager.port
    manager.close()
    link.close()
    agent.status_has(lambda status: not status["manager"]["connected"])
    rank.send(report(0, 4, 2000))
    manager = Manager(keys, port)
    link = manager.welcome()
    assert link.receive() == job_line()
    assert link.receive()["type"] == "switched"
    assert link.receive()["jobs"][0]["calls"] == 4
    # The ranks of the agent leave.
    rank.close()
    assert link.receive("left") == {"type": "left", "job": JOB, "rank": 0}
    # A rejected agent logs the reason, and connects again.
    link.send({"type": "refused", "why": "I do not like it"})
    assert link.receive("nothing") is None
    status = agent.status_has(lambda status: not status["manager"]["connected"])
    assert "I do not like it" in status["manager"]["why"], status
    link = manager.welcome()
    link.send("junk")
    agent.status_has(lambda status: "unexpected messages" in status["manager"].get("why", ""))
    assert agent.end() == 0
    manager.close()


def test_helpers(folder):
    """A helper for an unused root ends, or is released, and the manager receives both."""
    keys = make_keys(folder)
    manager = Manager(keys)
    agent = Agent(folder, "--manager", f"127.0.0.1:{manager.port}", "--keys", str(keys))
    link = manager.welcome()
    root = socket.create_server(("127.0.0.1", 0))
    root.settimeout(TIMEOUT)
    key = subprocess.run([BANYAN, "keys", "job"], stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT).stdout.strip()
    ask = {"type": "help", "job": JOB, "root": f"127.0.0.1:{root.getsockname()[1]}", "key": key, "helper": "h1"}
    link.send(ask)
    connection, _ = root.accept()
    status = agent.status_has(lambda status: status["helpers"])
    assert status["helpers"] == [{"job": JOB, "name": "h1", "joined": False}], status
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    assert len(children) == 1, children
    for name in "cmdline", "environ":
        assert key not in Path(f"/proc/{children[0]}/{name}").read_text(encoding="utf-8"), name
    link.send({"type": "release", "job": JOB})
    helping = link.receive("helping")
    assert helping["job"] == JOB and helping["helper"] == "h1" and not helping["joined"], helping
    connection.close()
    link.send(ask)
    connection, _ = root.accept()
    agent.status_has(lambda status: status["helpers"])
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    os.kill(int(children[0]), signal.SIGKILL)
    assert "killed by signal 9" in link.receive("helping")["why"]
    connection.close()
    link.send(ask)
    connection, _ = root.accept()
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    agent.end(signal.SIGKILL)  # Its helper dies with it.
    connection.settimeout(TIMEOUT)
    while connection.recv(4096):
        pass
    connection.close()
    root.close()
    manager.close()


def test_job(folder):
    """A real job is found, reported, and helped while it runs, and it continues when agent and helper are killed."""
    keys = make_keys(folder)
    manager = Manager(keys)
    options = ("--manager", f"127.0.0.1:{manager.port}", "--keys", str(keys))
    agent = Agent(folder, *options)
    link = manager.welcome()
    env = {**os.environ, "BANYAN_AGENT": agent.socket, "BANYAN_JOB": "a job"}
    job = subprocess.Popen([BANYAN, "run", "-n", "2", "--transport", "tcp", "--", BANYAN, "bench", "--sizes", "64K",
                            "--iterations", "1000000", "--warmup", "0", "--check", "off"], env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    started.append(job)
    message = link.receive("job")
    assert message["name"] == "a job" and message["size"] == 2 and message["key"], message
    link.send({"type": "help", "job": message["job"], "root": message["root"],
               "key": ticket(message["key"], 1, "h1"), "helper": "h1"})
    helping = link.receive("helping")
    assert helping == {"type": "helping", "job": message["job"], "helper": "h1", "joined": True}, helping
    link.send({"type": "release", "job": message["job"]})
    helping = link.receive("helping")
    assert not helping["joined"] and helping["why"] == "it was released", helping
    link.send({"type": "help", "job": message["job"], "root": message["root"], "key": ticket(message["key"], 2, "h1"), "helper": "h1",
               "server": True, "trees": 2})
    helping = link.receive("helping")
    assert helping == {"type": "helping", "job": message["job"], "helper": "h1", "server": True, "joined": True}, helping
    link.send({"type": "help", "job": message["job"], "root": message["root"],
               "key": ticket(message["key"], 1, "h1"), "helper": "h1"})
    helping = link.receive("helping")
    assert helping["joined"] and not helping.get("server"), helping
    link.send({"type": "release", "job": message["job"], "server": True})
    helping = link.receive("helping")
    assert helping["server"] and helping["why"] == "it was released", helping
    agent.end(signal.SIGKILL)  # The helper dies as well.
    link.close()
    agent = Agent(folder, *options)
    link = manager.welcome()
    while len((report := link.receive("report"))["jobs"]) == 0 or len(report["jobs"][0]["ranks"]) < 2:
        pass
    assert report["jobs"][0]["job"] == message["job"] and report["jobs"][0]["ranks"] == [0, 1], report
    calls = report["jobs"][0]["calls"]
    while (report := link.receive("report"))["jobs"][0]["calls"] <= calls:
        pass
    assert job.poll() is None
    job.terminate()
    job.wait(TIMEOUT)
    assert {link.receive("left")["rank"], link.receive("left")["rank"]} == {0, 1}
    assert agent.end() == 0
    manager.close()


def test_certificates(folder):
    """An agent without a certificate does not start, and one of another cluster is recognised as such."""
    keys = make_keys(folder)
    (folder / "other").mkdir()
    others = make_keys(folder / "other")
    bare = subprocess.run([BANYAN, "agent", "--socket", str(folder / "a.sock"), "--manager", "127.0.0.1:9", "--keys",
                           str(keys), "--name", "h2"], stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT)
    assert bare.returncode == 1 and "agent-h2.pem" in bare.stderr, bare
    manager = Manager(others)
    agent = Agent(folder, "--manager", f"127.0.0.1:{manager.port}", "--keys", str(keys))
    try:
        manager.meet().close()
    except OSError:
        pass
    status = agent.status_has(lambda status: "certificate" in status["manager"].get("why", ""))
    assert not status["manager"]["connected"], status
    assert agent.end() == 0
    manager.close()


def run(test):
    with tempfile.TemporaryDirectory() as folder:
        try:
            test(Path(folder))
        finally:
            for process in started:
                process.kill()
    print(f"{test.__name__}: ok", flush=True)


def main():
    for test in (test_ranks, test_refused_client, test_group, test_rules, test_manager, test_helpers, test_job, test_certificates):
        if test is not test_group or os.geteuid() == 0:
            run(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())
