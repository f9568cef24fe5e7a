#!/usr/bin/env python3
"""Trains on Fashion-MNIST while the job's key and all certificates of its cluster are replaced again and again.

    BANYAN=build/banyan /usr/bin/python3 bench/rotation.py

The interpreter that runs it also runs the training, and needs PyTorch.

An elastic job of --ranks processes runs under `banyan run` with a key file, on hosts with agents and a manager. Each
--every seconds `banyan keys rotate` replaces the key, and the manager and the agents get new certificates; some seconds later
a process is killed where --join is given, which comes back with the new key. Reports the steps during and without replacements,
and ends with 1 if a call failed, a key or certificate was not taken, or steps took more than twice the usual during replacements
only. With deaths, steps between one change of members and the next count. On a machine that does other work start it with chrt -r 1.
"""
import argparse
import atexit
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 600  # seconds of all replacements
STALL = 60  # seconds without a step after which the training is taken to hang
AROUND = 2.0  # seconds after a replacement in which steps count as those during it
OVERLAP = 3  # seconds for which an old key is accepted


def wait_for(what, condition, seconds=60, log=None):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what}: not after {seconds} s" + (f"; the end of its log:\n{log()[-2000:]}" if log else ""))
        time.sleep(0.05)


class Cluster:
    """A manager and an agent on this machine, whose keys are made anew."""

    def __init__(self, banyan, folder, times):
        self.banyan, self.folder, self.processes = banyan, folder, []
        atexit.register(self.end)  # also where it does not come to a training
        self.keys = folder / "keys"
        self.socket = folder / "agent.sock"
        self.run("keys", "init", str(self.keys))
        for i in range(times + 1):  # as on another machine, before they are copied
            for role, name in ("manager", "m0"), ("agent", "h0"):
                self.run("keys", "make", role, name, "--address", "127.0.0.1", "--force")
                shutil.copy2(self.keys / f"{role}-{name}.pem", folder / f"{role}-{i}")
        self.run("keys", "job", str(folder / "job.key"))
        self.manager = self.start("manager", "star:2,nic=10g", "--listen", "127.0.0.1:0", "--state", str(folder / "state"))
        wait_for("the manager", lambda: "ready at" in self.log("manager"))
        address = self.log("manager").split("ready at ")[1].split(",")[0]
        self.agent = self.start("agent", "--name", "h0", "--manager", address, "--socket", str(self.socket), "--queues", "none")
        wait_for("the agent", self.socket.exists)
        wait_for("the agent's connection", self.connected)

    def environment(self):
        return {**os.environ, "BANYAN_KEYS": str(self.keys), "BANYAN_LOG": "info"}

    def run(self, *command):
        done = subprocess.run([self.banyan, *command], env=self.environment(), capture_output=True, text=True, timeout=60,
                              check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def start(self, service, *arguments):
        with open(self.folder / f"{service}.log", "wb") as log:
            process = subprocess.Popen([self.banyan, service, *arguments, "--keys", str(self.keys)], stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, env=self.environment())
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def connected(self):
        return json.loads(self.run("agent", "status", "--json", "--socket", str(self.socket)))["manager"]["connected"]

    def replace(self, i):
        """Certificates that neither has had, which they take at once, and a new key of the job."""
        self.run("keys", "rotate", str(self.folder / "job.key"), "--overlap", str(OVERLAP))
        os.rename(self.folder / f"manager-{i}", self.keys / "manager-m0.pem")
        os.rename(self.folder / f"agent-{i}", self.keys / "agent-h0.pem")
        for process in (self.manager, self.agent):
            process.send_signal(signal.SIGHUP)

    def taken(self):
        """How often each has read a new certificate, and the launcher passed on a new key."""
        return (self.log("manager").count("the keys of manager m0 were read again"),
                self.log("agent").count("the keys of agent h0 were read again"),
                self.log("job").count("the ranks get the new key"))

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def events(trace):
    """(time, event, step, processes, process number)"""
    lines = [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []
    return [(float(p[0]), p[1], int(p[2]), int(p[3]), int(p[4])) for p in lines if len(p) == 5]


def steps_of(trace):
    """(end, seconds) of each step after another one of the same members."""
    took, before = [], None
    for at, event, *_ in events(trace):
        if event == "change":
            before = None
        elif event == "step":
            if before is not None:
                took.append((at, at - before))
            before = at
    return took


def lives(number):
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def drive(given, cluster, job, trace):
    """Replaces everything `given.times` times while the job trains; the times at which that was done."""
    replaced, begun = [], time.monotonic()
    wait_for("the first step", lambda: job.poll() is not None or any(e[1] == "step" for e in events(trace)), 120,
             lambda: cluster.log("job"))
    time.sleep(given.every)
    while job.poll() is None and len(replaced) < given.times:
        replaced.append(time.monotonic())
        cluster.replace(len(replaced) - 1)
        wait_for("new keys", lambda: job.poll() is not None or min(cluster.taken()) >= len(replaced), 30,
                 lambda: f"{cluster.log('job')}\ntaken by manager, agent and job: {cluster.taken()}")
        if min(cluster.taken()) < len(replaced):  # the training has ended meanwhile
            replaced.pop()
            break
        if given.join:
            time.sleep(max(0, replaced[-1] + OVERLAP + 1 - time.monotonic()))
            members = sorted({e[4] for e in events(trace) if e[1] == "change" and lives(e[4])})
            os.kill(members[-1], signal.SIGKILL)
            died = time.monotonic()
            wait_for("the process that was killed", lambda: any(
                e[1] == "change" and e[0] > died and e[3] == given.ranks for e in events(trace)))
        time.sleep(max(0, replaced[-1] + given.every - time.monotonic()))
        if time.monotonic() - begun > LIMIT:
            sys.exit(f"not done after {LIMIT} s")
    return replaced


def wait_for_end(job, trace):
    """Waits for the end of the training, as long as it makes steps."""
    size, since = trace.stat().st_size, time.monotonic()
    while job.poll() is None:
        time.sleep(0.2)
        if trace.stat().st_size > size:
            size, since = trace.stat().st_size, time.monotonic()
        if time.monotonic() - since > STALL:
            sys.exit(f"the training has made no step for {STALL} s")


def train(given, folder):
    cluster = Cluster(given.banyan, folder, given.times)
    trace = folder / "trace"
    environment = {**cluster.environment(), "BANYAN_AGENT": str(cluster.socket), "OMP_NUM_THREADS": "1",
                   "BANYAN_HOST": "h0", "BANYAN_TRANSPORT": "tcp", "BANYAN_ENCRYPT": "always"}
    library = Path(given.banyan).resolve().parent / "libbanyan.so.0"
    if library.exists():  # a build, which need not be installed
        environment |= {"PYTHONPATH": str(ROOT / "bindings" / "python"), "BANYAN_LIBRARY": str(library)}
    with open(folder / "job.log", "wb") as log:
        job = subprocess.Popen(
            [given.banyan, "run", f"-n{given.ranks}", "-x", f"BANYAN_KEY_FILE={folder / 'job.key'}", "--min=1",
             "--restarts=1000", "--", sys.executable, str(ROOT / "examples" / "elastic" / "train.py"), f"--epochs={given.epochs}",
             f"--batch={given.batch}", f"--trace={trace}"], stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        replaced = drive(given, cluster, job, trace)
        if len(replaced) < given.times:
            sys.exit(f"the training ended after {len(replaced)} of {given.times} replacements; give --epochs more\n"
                     + cluster.log("job")[-3000:])
        wait_for_end(job, trace)
        return replaced, steps_of(trace), job.returncode, cluster.log("job"), cluster.connected()
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGTERM)
            job.wait()
        cluster.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--every", type=float, default=4, help="seconds from one replacement to the next")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=2400, help="images in a step")
    parser.add_argument("--join", action="store_true", help="kill a process after each, which joins with the new key")
    given = parser.parse_args()
    given.banyan = os.environ.get("BANYAN", "banyan")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        replaced, steps, code, log, connected = train(given, folder)
    during = [took for at, took in steps if any(0 <= at - r <= AROUND for r in replaced)]
    quiet = [took for at, took in steps if not any(0 <= at - r <= AROUND for r in replaced)]
    usual = statistics.median(took for _, took in steps)
    long = [took for _, took in steps if took > 2 * usual]
    long_during = sum(took > 2 * usual for took in during)
    print(f"{given.ranks} processes, {len(steps)} steps, {len(replaced)} replacements of key and certificates; load "
          f"{os.getloadavg()[0]:.1f}")
    for name, values in (("within 2 s after a replacement", during), ("otherwise", quiet)):
        ordered = sorted(values)
        print(f"  {name}: {len(ordered)} steps, median {1e3 * statistics.median(ordered):.2f} ms, 99th percentile "
              f"{1e3 * ordered[int(0.99 * len(ordered))]:.2f} ms, longest {1e3 * ordered[-1]:.2f} ms")
    print(f"  longer than twice the usual {1e3 * usual:.2f} ms: {len(long)} steps, {long_during} of them after a replacement")
    failed = [line for line in log.splitlines() if "failed" in line or "Error" in line]
    print(f"  the job ended with {code}, {len(failed)} calls failed; the agent {'is' if connected else 'IS NOT'} connected")
    for line in failed[:5]:
        print(f"  {line}")
    unsteady = len(long) > long_during
    if long and unsteady:
        print("  steps vary that much without replacements, too: this machine does not show what these cost")
    sys.exit(1 if code or failed or not connected or (long and not unsteady) else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # The job has a session of its own and would go on.
    main()
