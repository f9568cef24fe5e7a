#!/usr/bin/env python3
"""An agent as jobs and a manager meet it: ranks over its socket, a manager over TLS. Both are played here, line by line;
the interface is the loopback's, where nothing needs privileges."""
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BANYAN = os.environ["BANYAN"]
JOB = "0123456789abcdef" * 2
PATIENCE = 60
started = []  # agents, which end with the test


class Lines:
    """One end of a connection of lines."""

    def __init__(self, connection):
        connection.settimeout(PATIENCE)
        self.connection = connection
        self.file = connection.makefile("rb")

    def say(self, what):
        self.connection.sendall((what if isinstance(what, str) else json.dumps(what)).encode() + b"\n")

    def hear(self, kind=None):
        """The next line of that kind; None when the other end has closed."""
        while line := self.file.readline():
            said = json.loads(line)
            if kind in (None, said.get("type")):
                return said
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
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, self.said()
                time.sleep(0.02)

    def said(self):
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
        lines.say({"type": "hello", "version": 2, "host": "h1", "job": job, "rank": number})
        assert lines.hear()["type"] == "welcome"
        assert lines.hear() == {"type": "classes", "jobs": [{"job": job, "class": 0}]}
        return lines

    def status(self):
        out = subprocess.run([BANYAN, "agent", "status", "--json", "--socket", self.socket], check=True,
                             stdout=subprocess.PIPE, timeout=PATIENCE)
        return json.loads(out.stdout)

    def status_has(self, test):
        """Sooner or later."""
        until = time.monotonic() + PATIENCE
        while not test(status := self.status()):
            assert time.monotonic() < until, status
            time.sleep(0.02)
        return status

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.last = self.said()
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
    ranks[0].say(job_line())
    for i, rank in enumerate(ranks):
        rank.say(report(i, 100, 6 * 10**9))
    for rank in ranks:
        while rank.hear("classes")["jobs"][0]["class"] != 2:  # 12 GB, once both have reported
            pass
    status = agent.status()
    assert status["jobs"][0]["name"] == "train" and status["jobs"][0]["ranks"] == [0, 1], status
    assert status["interfaces"][0]["name"] == "lo", status
    shown = subprocess.run([BANYAN, "agent", "status", "--socket", agent.socket], check=True, stdout=subprocess.PIPE,
                           text=True, timeout=PATIENCE).stdout
    assert f"{JOB} train: class 2 (by the agent), 100 iterations" in shown, shown
    ranks[1].close()
    agent.status_has(lambda status: status["jobs"][0]["ranks"] == [0])
    # Strangers do no harm.
    for line in ["what?", json.dumps(report(0, 1, 1)), '{"type":"dance"}', '{"say":"hello","version":1,"host":"h1"}', "x" * (1 << 20), "[" * 70000]:
        stranger = agent.connect()
        stranger.say(line)
        assert stranger.hear()["type"] == "refused"
        assert stranger.hear() is None
        stranger.close()
    flood = agent.connect()
    try:
        for _ in range(40):
            flood.connection.sendall(b"x" * (1 << 16))
    except OSError:
        pass
    else:
        assert flood.hear() is None
    flood.close()
    ranks[0].say(report(0, 101, 6 * 10**9))
    agent.status_has(lambda status: status["jobs"][0]["iterations"] == 101)
    # A second agent; one that was killed.
    second = subprocess.run([BANYAN, "agent", "--socket", agent.socket, "--name", "h1"], stderr=subprocess.PIPE,
                            text=True, check=False, timeout=PATIENCE)
    assert second.returncode == 1 and "one runs here already" in second.stderr, second
    assert agent.status()["jobs"]
    agent.end(signal.SIGKILL)
    assert ranks[0].hear() is None
    agent = Agent(folder)
    rank = agent.rank(0)
    rank.say(job_line())
    rank.say(report(0, 200, 9 * 10**9))
    agent.status_has(lambda status: status["jobs"] and status["jobs"][0]["iterations"] == 200)
    assert agent.end() == 0
    assert not os.path.exists(agent.socket)
    nobody = subprocess.run([BANYAN, "agent", "status", "--socket", agent.socket], stderr=subprocess.PIPE, text=True,
                            check=False, timeout=PATIENCE)
    assert nobody.returncode == 1 and "no agent at" in nobody.stderr, nobody


def test_refused_client(folder):
    """It is not read any more, so that it cannot keep the agent busy."""
    agent = Agent(folder)
    client = agent.connect()
    client.say("what?")
    assert client.hear()["type"] == "refused"
    client.connection.setblocking(False)
    sent, most = 0, 1 << 26
    until = time.monotonic() + PATIENCE
    while sent < most and time.monotonic() < until:
        try:
            sent += client.connection.send(b"x\n" * 32768)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:  # closed after a while
            break
    assert sent < most and time.monotonic() < until, sent
    client.close()
    for i in range(300):  # each wrong in another way
        client = agent.connect()
        client.say(f"what? {i}")
        assert client.hear()["type"] == "refused"
        client.close()
    assert 1 <= agent.said().count("\n") < 40, agent.said()
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
    rank.say(report(0, 1, 5000))
    agent.status_has(lambda status: status["jobs"][0]["iterations"] == 1)
    time.sleep(0.2)  # two intervals
    assert agent.status()["jobs"][0]["class"] == 0
    rank.say(report(0, 2, 5000))
    assert rank.hear("classes")["jobs"] == [{"job": JOB, "class": 3}]
    assert agent.end() == 0


class Manager:
    """Listens with TLS, for agents of the cluster's authority."""

    def __init__(self, keys, port=0):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(keys / "manager-m.pem")
        self.context.load_verify_locations(keys / "ca.crt")
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", port))
        self.listener.settimeout(PATIENCE)
        self.port = self.listener.getsockname()[1]

    def meet(self):
        connection, _ = self.listener.accept()
        return Lines(self.context.wrap_socket(connection, server_side=True))

    def welcome(self):
        lines = self.meet()
        hello = lines.hear()
        assert hello["type"] == "hello" and hello["host"] == "h1" and hello["may_help"], hello
        assert hello["interfaces"][0]["address"] == "127.0.0.1", hello
        lines.say({"type": "welcome", "version": 2, "interval": 0.2, "rate": 1e9})
        return lines

    def close(self):
        self.listener.close()


def local_name():
    """A name of this machine; its address where libc knows no name, as in a chroot without /etc/hosts."""
    try:
        socket.getaddrinfo("localhost", None)
        return "localhost"
    except socket.gaierror:
        return "127.0.0.1"


def make_keys(folder):
    keys = folder / "keys"
    env = {**os.environ, "BANYAN_KEYS": str(keys)}
    for command in (["init", str(keys)], ["make", "agent", "h1"], ["make", "manager", "m", "-a", "127.0.0.1"]):
        subprocess.run([BANYAN, "keys", *command], check=True, env=env, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    return keys


def test_manager(folder):
    keys = make_keys(folder)
    manager = Manager(keys)
    agent = Agent(folder, "--manager", f"{local_name()}:{manager.port}", "--keys", str(keys))
    link = manager.welcome()
    rank = agent.rank(0)
    rank.say(job_line())
    assert link.hear("job") == job_line()
    rank.say(report(0, 3, 1000))
    while (said := link.hear("report")) and not (said["jobs"] and said["jobs"][0]["calls"] == 3):
        pass
    assert said["jobs"][0] == report(0, 3, 1000)["jobs"][0], said
    plan = {"type": "plan", "job": JOB, "number": 1, "plan": {"trees": [{"up": {}}]}}
    link.say(plan)
    assert rank.hear("plan") == plan
    rank.say({"type": "switched", "job": JOB, "number": 1, "at": 12})
    assert link.hear("switched") == {"type": "switched", "job": JOB, "number": 1, "at": 12}
    link.say({"type": "classes", "jobs": [{"job": JOB, "class": 3}]})
    assert rank.hear("classes")["jobs"] == [{"job": JOB, "class": 3}]
    # It is killed and comes back: everything is said again.
    port = manager.port
    manager.close()
    link.close()
    agent.status_has(lambda status: not status["manager"]["connected"])
    rank.say(report(0, 4, 2000))
    manager = Manager(keys, port)
    link = manager.welcome()
    assert link.hear() == job_line()
    assert link.hear()["type"] == "switched"
    assert link.hear()["jobs"][0]["calls"] == 4
    # Its ranks leave.
    rank.close()
    assert link.hear("left") == {"type": "left", "job": JOB, "rank": 0}
    # It is refused, says why, and comes again.
    link.say({"type": "refused", "why": "I do not like it"})
    assert link.hear("nothing") is None
    status = agent.status_has(lambda status: not status["manager"]["connected"])
    assert "I do not like it" in status["manager"]["why"], status
    link = manager.welcome()
    link.say("junk")
    agent.status_has(lambda status: "what no manager sends" in status["manager"].get("why", ""))
    assert agent.end() == 0
    manager.close()


def test_helpers(folder):
    """A root that is nobody's: the helper ends, or is told to rest, and the manager hears of both."""
    keys = make_keys(folder)
    manager = Manager(keys)
    agent = Agent(folder, "--manager", f"127.0.0.1:{manager.port}", "--keys", str(keys))
    link = manager.welcome()
    root = socket.create_server(("127.0.0.1", 0))
    ask = {"type": "help", "job": JOB, "root": f"127.0.0.1:{root.getsockname()[1]}", "key": "se cret", "helper": "h1"}
    link.say(ask)
    connection, _ = root.accept()
    status = agent.status_has(lambda status: status["helpers"])
    assert status["helpers"] == [{"job": JOB, "name": "h1", "joined": False}], status
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    assert len(children) == 1, children
    assert "se cret" not in Path(f"/proc/{children[0]}/cmdline").read_text(encoding="utf-8")
    link.say({"type": "release", "job": JOB})
    helping = link.hear("helping")
    assert helping["job"] == JOB and helping["helper"] == "h1" and not helping["joined"], helping
    connection.close()
    link.say(ask)
    connection, _ = root.accept()
    agent.status_has(lambda status: status["helpers"])
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    os.kill(int(children[0]), signal.SIGKILL)
    assert "killed by signal 9" in link.hear("helping")["why"]
    connection.close()
    link.say(ask)
    connection, _ = root.accept()
    children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text(encoding="ascii").split()
    agent.end(signal.SIGKILL)  # its helper dies with it
    connection.settimeout(PATIENCE)
    while connection.recv(4096):
        pass
    connection.close()
    root.close()
    manager.close()


def test_job(folder):
    """A real job: it is found, reported, helped while it runs, and goes on when agent and helper are killed."""
    keys = make_keys(folder)
    manager = Manager(keys)
    options = ("--manager", f"127.0.0.1:{manager.port}", "--keys", str(keys))
    agent = Agent(folder, *options)
    link = manager.welcome()
    env = {**os.environ, "BANYAN_AGENT": agent.socket, "BANYAN_SHARE_KEY": "1", "BANYAN_JOB": "a job"}
    job = subprocess.Popen([BANYAN, "run", "-n", "2", "--transport", "tcp", "--", BANYAN, "bench", "--sizes", "64K",
                            "--iterations", "1000000", "--warmup", "0", "--check", "off"], env=env,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    started.append(job)
    said = link.hear("job")
    assert said["name"] == "a job" and said["size"] == 2 and said["key"], said
    link.say({"type": "help", "job": said["job"], "root": said["root"], "key": said["key"], "helper": "h1"})
    helping = link.hear("helping")
    assert helping == {"type": "helping", "job": said["job"], "helper": "h1", "joined": True}, helping
    link.say({"type": "release", "job": said["job"]})
    helping = link.hear("helping")
    assert not helping["joined"] and helping["why"] == "it was told to rest", helping
    link.say({"type": "help", "job": said["job"], "root": said["root"], "key": said["key"], "helper": "h1"})
    assert link.hear("helping")["joined"]
    agent.end(signal.SIGKILL)  # and its helper
    link.close()
    agent = Agent(folder, *options)
    link = manager.welcome()
    while len((report := link.hear("report"))["jobs"]) == 0 or len(report["jobs"][0]["ranks"]) < 2:
        pass
    assert report["jobs"][0]["job"] == said["job"] and report["jobs"][0]["ranks"] == [0, 1], report
    calls = report["jobs"][0]["calls"]
    while (report := link.hear("report"))["jobs"][0]["calls"] <= calls:
        pass
    assert job.poll() is None
    job.terminate()
    job.wait(PATIENCE)
    assert {link.hear("left")["rank"], link.hear("left")["rank"]} == {0, 1}
    assert agent.end() == 0
    manager.close()


def test_certificates(folder):
    """Without a certificate it does not start; one of another cluster is told apart."""
    keys = make_keys(folder)
    (folder / "other").mkdir()
    others = make_keys(folder / "other")
    bare = subprocess.run([BANYAN, "agent", "--socket", str(folder / "a.sock"), "--manager", "127.0.0.1:9", "--keys",
                           str(keys), "--name", "h2"], stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
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
