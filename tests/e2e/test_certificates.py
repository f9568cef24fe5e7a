#!/usr/bin/env python3
"""A manager and an agent whose certificates are renewed, damaged and revoked while they run. SIGHUP makes them read
the files."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BANYAN = os.environ["BANYAN"]
TIMEOUT = 240
NET = {"format": "banyan-topology 1", "nodes": [{"name": "h1"}, {"name": "h2"}],
       "links": [{"a": "h1", "b": "h2", "capacity": 1e9}]}
started = []  # processes, which end with the test


def until(what, is_so):
    """Waits until is_so returns a value, and returns it."""
    end = time.monotonic() + TIMEOUT
    while not (found := is_so()):
        assert time.monotonic() < end, what()
        time.sleep(0.02)
    return found


class Service:
    def __init__(self, folder, name, *command):
        self.path = folder / f"{name}.log"
        with open(self.path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([BANYAN, *command], stderr=log, stdin=subprocess.DEVNULL,
                                            env={**os.environ, "BANYAN_LOG": "info"})
        started.append(self.process)

    def output(self):
        return self.path.read_text(encoding="utf-8")

    def prints(self, text):
        return until(self.output, lambda: re.search(text, self.output()))

    def read_again(self):
        self.process.send_signal(signal.SIGHUP)

    def end(self):
        self.process.terminate()
        assert self.process.wait(TIMEOUT) == 0, self.output()


class Cluster:
    """The folder in which certificates are made, and those of two hosts."""

    def __init__(self, folder):
        self.folder, self.socket = folder, str(folder / "agent.sock")
        self.keys("init", str(folder / "keys"))
        self.keys("make", "manager", "m0")
        self.keys("make", "agent", "h1")
        self.give("manager", "ca.crt", "manager-m0.pem")
        self.give("agent", "ca.crt", "agent-h1.pem")
        (folder / "net.json").write_text(json.dumps(NET), encoding="utf-8")
        self.manager = self.start_manager("state.db")
        self.page = self.manager.prints("page at (https://[0-9.:]+)/")[1]
        at = self.manager.prints("ready at ([0-9.:]+),")[1]
        self.agent = Service(folder, "agent.log", "agent", "--manager", at, "--keys", str(folder / "agent"), "--socket",
                             self.socket, "--name", "h1", "--interfaces", "lo", "--queues", "none")
        self.agent.prints("ready: host h1")
        self.meets()

    def start_manager(self, state):
        pem = str(self.folder / "manager" / "manager-m0.pem")
        return Service(self.folder, "manager.log", "manager", str(self.folder / "net.json"), "--keys",
                       str(self.folder / "manager"), "--listen", "127.0.0.1:0", "--state", str(self.folder / state),
                       "--interval", "100ms", "--http", "127.0.0.1:0", "--token-file", str(self.folder / "token"),
                       "--http-certificate", pem, "--http-key", pem)

    def keys(self, *command):
        subprocess.run([BANYAN, "keys", *command], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT,
                       env={**os.environ, "BANYAN_KEYS": str(self.folder / "keys")})

    def give(self, host, *files):
        (self.folder / host).mkdir(exist_ok=True)
        for file in files:
            shutil.copy(self.folder / "keys" / file, self.folder / host / file)

    def status(self):
        out = subprocess.run([BANYAN, "agent", "status", "--json", "--socket", self.socket], check=True,
                             stdout=subprocess.PIPE, timeout=TIMEOUT)
        return json.loads(out.stdout)["manager"]

    def meets(self):
        return until(self.status, lambda: self.status()["connected"])

    def metric(self, sample):
        anybody = ssl._create_unverified_context()
        with urllib.request.urlopen(self.page + "/metrics", timeout=TIMEOUT, context=anybody) as answer:
            found = re.search(f"^banyan_{re.escape(sample)} (.*)$", answer.read().decode(), re.M)
        return float(found[1]) if found else None

    def shown(self):
        host, port = self.page[len("https://"):].split(":")
        return ssl.get_server_certificate((host, int(port)), timeout=TIMEOUT)

    def end(self):
        self.agent.end()
        self.manager.end()


def test_renewed(cluster):
    """A new certificate is shown on a new connection, and both sides report how long it is valid."""
    days = 'certificate_days_left{role="agent",name="h1"}'
    until(cluster.manager.output, lambda: 364 < (cluster.metric(days) or 0) < 366)
    assert 364 < cluster.metric('certificate_days_left{role="manager",name="m0"}') < 366
    cluster.keys("make", "agent", "h1", "--force", "--days", "20")
    cluster.give("agent", "agent-h1.pem")
    cluster.agent.read_again()
    until(cluster.agent.output, lambda: (cluster.metric(days) or 365) < 21)
    cluster.agent.prints("certificate of agent h1 expires in (19|20) days")
    cluster.meets()
    assert cluster.status()["certificate_expires"] < time.time() + 21 * 86400
    shown = subprocess.run([BANYAN, "agent", "status", "--socket", cluster.socket], check=True, stdout=subprocess.PIPE,
                           text=True, timeout=TIMEOUT).stdout
    assert re.search("the certificate is valid for (19|20) days; `banyan keys renew`", shown), shown


def test_many_silent_peers(cluster):
    """Unauthenticated peers keep no peer with a certificate out, and take a few lines of the log."""
    host, port = cluster.manager.prints("ready at ([0-9.:]+),")[1].split(":")
    silent = [socket.create_connection((host, int(port)), TIMEOUT) for _ in range(400)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cluster.folder / "agent" / "ca.crt")
    context.load_cert_chain(cluster.folder / "agent" / "agent-h1.pem")
    with context.wrap_socket(socket.create_connection((host, int(port)), TIMEOUT)) as agent:
        agent.sendall(b"what?\n")
        assert b"refused" in agent.recv(1000)
    for connection in silent:
        connection.close()
    cluster.manager.prints("make room")
    assert 1 <= cluster.manager.output().count("make room") <= 8, cluster.manager.output()
    cluster.meets()


def test_damaged(cluster):
    """Invalid files are reported, and the previous certificates remain in use."""
    pem = cluster.folder / "manager" / "manager-m0.pem"
    pem.write_bytes(pem.read_bytes()[:300])
    cluster.manager.read_again()
    cluster.manager.prints("the previous ones stay in use: .*manager-m0.pem: there is no certificate in it")
    cluster.give("manager", "manager-m0.pem")
    assert cluster.status()["connected"]


def test_revoked(cluster):
    """The agent is notified on its connection, refused on later ones, and accepted with another certificate."""
    cluster.keys("revoke", "agent", "h1")
    cluster.give("manager", "ca.crl")
    cluster.manager.read_again()
    cluster.manager.prints(r"is refused: the peer's certificate \(agent h1\) was revoked")
    until(cluster.status, lambda: "our certificate (agent h1) was revoked" in cluster.status().get("why", ""))
    until(cluster.manager.output, lambda: cluster.metric("certificates_revoked") == 2)
    until(cluster.manager.output, lambda: cluster.metric('host_connected{host="h1"}') == 0)
    cluster.keys("make", "agent", "h1")
    cluster.give("agent", "agent-h1.pem")
    cluster.agent.read_again()
    cluster.meets()


def test_revoked_manager(cluster):
    """An agent that receives the list leaves. The page shows the manager's certificate too."""
    cluster.keys("revoke", "m0")
    cluster.give("agent", "ca.crl")
    cluster.agent.read_again()
    until(cluster.status, lambda: "(manager m0) was revoked" in cluster.status().get("why", ""))
    cluster.keys("make", "manager", "m0")
    before = cluster.shown()
    cluster.give("manager", "ca.crl", "manager-m0.pem")
    cluster.manager.read_again()
    cluster.meets()
    assert cluster.shown() != before and cluster.shown() in (cluster.folder / "keys" / "manager-m0.pem").read_text()


AUTHORITY = """[ca]
default_ca = cluster
[cluster]
database = {0}/index
new_certs_dir = {0}
certificate = {1}/ca.crt
private_key = {1}/ca.key
default_md = sha256
rand_serial = yes
policy = subject
x509_extensions = extensions
[subject]
organizationalUnitName = supplied
commonName = supplied
[extensions]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = DNS:{2}
"""


def make_brief(cluster, host, role, name, seconds):
    """Gives the host a certificate that `banyan keys`, which counts in days, does not make."""
    folder = Path(tempfile.mkdtemp(dir=cluster.folder))
    (folder / "index").touch()
    (folder / "authority").write_text(AUTHORITY.format(folder, cluster.folder / "keys", name), encoding="ascii")
    end = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
    for command in (f"req -new -newkey rsa:2048 -nodes -subj /OU={role}/CN={name} -keyout {folder}/key -out {folder}/request",
                    f"ca -batch -notext -config {folder}/authority -in {folder}/request -out {folder}/made -enddate {end}"):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True, timeout=TIMEOUT)
    made = folder / "pem"
    made.touch(0o600)
    made.write_text((folder / "made").read_text() + (folder / "key").read_text())
    made.rename(cluster.folder / host / f"{role}-{name}.pem")


def test_expired(cluster):
    """Connections end that were made with a certificate which expires then, by either end, and without a signal."""
    if not shutil.which("openssl"):
        print("test_expired: openssl is missing", flush=True)
        return
    make_brief(cluster, "agent", "agent", "h1", 20)  # seconds, in which a busy machine connects, too
    cluster.agent.read_again()
    until(cluster.status, lambda: cluster.status()["certificate_expires"] < time.time() + 60 and cluster.meets())
    cluster.manager.prints(r"is refused: the peer's certificate \(agent h1\) expired on .*if this host's clock is right")
    until(cluster.status, lambda: "our certificate (agent h1) has expired" in cluster.status().get("why", ""))
    make_brief(cluster, "manager", "manager", "m0", 24)
    cluster.manager.read_again()
    cluster.manager.prints("certificate of manager m0 expires in 0 days")
    cluster.keys("make", "agent", "h1", "--force")
    cluster.give("agent", "agent-h1.pem")
    cluster.agent.read_again()
    cluster.meets()
    cluster.agent.prints(r"the peer's certificate \(manager m0\) expired on .*if this host's clock is right")
    cluster.keys("make", "manager", "m0", "--force")
    cluster.give("manager", "manager-m0.pem")
    cluster.meets()


def test_older_list(cluster):
    """A restarted manager accepts no list that is older than the last one, and no missing list, except with another
    state."""
    older = cluster.folder / "older.crl"
    shutil.copy(cluster.folder / "keys" / "ca.crl", older)
    cluster.keys("make", "agent", "h2")
    cluster.keys("revoke", "h2")
    cluster.give("manager", "ca.crl")
    cluster.manager.read_again()
    until(cluster.manager.output, lambda: cluster.metric("certificates_revoked") == 4)
    cluster.manager.process.kill()
    cluster.manager.process.wait(TIMEOUT)
    list_in_use = cluster.folder / "manager" / "ca.crl"
    for bad, error in (older, "ca.crl is number 2, and number 3 was in use"), (None, "there is no ca.crl"):
        list_in_use.unlink()
        if bad:
            shutil.copy(bad, list_in_use)
        refused = cluster.start_manager("state.db")
        assert refused.process.wait(TIMEOUT) == 1, refused.output()
        refused.prints(f"{error}.*another file with --state")
    cluster.start_manager("other.db").prints("ready at")
    started[-1].kill()
    cluster.give("manager", "ca.crl")
    cluster.manager = cluster.start_manager("state.db")
    cluster.manager.prints("ready at")


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            cluster = Cluster(Path(folder))
            for test in (test_renewed, test_many_silent_peers, test_damaged, test_revoked, test_revoked_manager,
                         test_expired, test_older_list):
                test(cluster)
                print(f"{test.__name__}: ok", flush=True)
            cluster.end()
        finally:
            for process in started:
                process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
