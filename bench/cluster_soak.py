"""Two jobs that must not stop, in a lab, while at random times the manager, agents, helpers and ranks of a third
job are killed (kill -9) and started again: what the jobs noticed of it, and how many files and how much memory
the processes had at the end.

Started by cluster.sh, which documents the environment. On each host of the lab this file runs once more
(`cluster_soak.py host`), starts the host's agent, the manager on the first host, and the ranks, and restarts
what was killed. The process outside kills, and watches everything. Ends with 1 if a job stopped, a sum was
wrong, ranks of the killed job did not end, or a process was left over.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from cluster import BANYAN, HOSTS, PORT, certificates, meet, note, start_service, wait_until
from cluster_faults import state_of

TOPOLOGY = "clos:racks=2,hosts=4,nic=100m,oversub=4,spines=2"
SUM = os.path.join(os.path.dirname(BANYAN), "tests", "net", "sum_until")
STEADY = {"one": ["r0h0", "r0h1", "r1h0", "r1h1"], "two": ["r0h0", "r0h2", "r1h0", "r1h2"]}
MORTAL = ["r0h1", "r0h2", "r1h2"]
INTERVAL = 0.5
STALL = 15.0  # seconds without a sum that count as stopped
END = 60.0  # seconds within which the ranks beside a killed one must end
CALM = 20.0  # seconds at the end in which nothing is killed


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


# ---- on a host of the lab


class Supervisor:
    """Starts what belongs on this host, and restarts what was killed."""

    def __init__(self, run, host):
        self.run, self.host, self.folder = run, host, run["folder"]
        self.services, self.steady, self.mortal, self.round, self.n = {}, {}, None, 0, 0
        os.environ.update(BANYAN_KEYS=run["keys"], BANYAN_LOG="info")
        for name in [name for name in os.environ if name.startswith("BANYAN_LOCAL_")]:
            del os.environ[name]

    def path(self, *words):
        return os.path.join(self.folder, "-".join(words))

    def over(self):
        return os.path.exists(self.path("done"))

    def start(self, role, words):
        self.n += 1
        process = start_service(words, self.path(role, self.host, f"{self.n}.log"))
        draft = self.path(role, self.host, "draft")
        with open(draft, "w", encoding="utf-8") as file:
            file.write(str(process.pid))
        os.replace(draft, self.path(role, self.host + ".pid"))
        return process

    def start_service(self, role):
        words = {"manager": [BANYAN, "manager", TOPOLOGY, "--listen", f"{HOSTS[0]}:{PORT}", "--interval", str(INTERVAL),
                             "--replan", "5", "--http", "127.0.0.1:8420", "--token-file", self.path("token"), "--state",
                             self.path("manager.db")],
                 "agent": [BANYAN, "agent", "--socket", self.path(self.host + ".sock"), "--manager",
                           f"{HOSTS[0]}:{PORT}", "--name", self.host, "--queues", "none"]}
        self.services[role] = self.start(role, words[role])

    def start_rank(self, job, hosts, port, done):
        os.environ.update(BANYAN_RANK=str(hosts.index(self.host)), BANYAN_SIZE=str(len(hosts)), BANYAN_JOB=job,
                          BANYAN_ROOT=f"{hosts[0]}:{port}", BANYAN_KEY=f"{self.run['key']}-{job}-{port}",
                          BANYAN_TOPOLOGY="", BANYAN_AGENT=self.path(self.host + ".sock"))
        return self.start(job, [SUM, done, self.path(job, self.host, "sums"), str(self.run["seconds"] + 120)])

    def start_mortal(self):
        port = PORT + 100 + self.round % 100
        self.mortal = self.start_rank("mortal", MORTAL, port, self.path("mortal.done"))

    def next_round(self):
        """Restarts the rank once the others of the job have ended too."""
        rounds = self.path("mortal", "round", str(self.round))
        os.makedirs(rounds, exist_ok=True)
        touch(os.path.join(rounds, self.host))
        if len(os.listdir(rounds)) == len(MORTAL) and not os.path.exists(self.path("mortal.done")):
            self.round += 1
            self.start_mortal()

    def look(self):
        for role, process in self.services.items():
            if process.poll() is not None and random.random() < 0.1:  # This takes half a second or more.
                self.start_service(role)
        for job, process in self.steady.items():
            if process.poll() is not None and not self.over():
                touch(self.path("stopped", f"{job} on {self.host} ended with {process.returncode}"))
        if self.host in MORTAL and self.mortal.poll() is not None:
            self.next_round()

    def keep_state(self):
        while not self.over():
            state = state_of(self.run)
            with open(self.path("state.draft"), "w", encoding="utf-8") as file:
                json.dump(state, file)
            os.replace(self.path("state.draft"), self.path("state.json"))
            time.sleep(1)

    def work(self):
        if self.host == HOSTS[0]:
            self.start_service("manager")
            threading.Thread(target=self.keep_state, daemon=True).start()
        self.start_service("agent")
        wait_until(lambda: os.path.exists(self.path(self.host + ".sock")), f"agent on {self.host}")
        meet(self.run, "ready", self.host, 60)
        for number, (job, hosts) in enumerate(STEADY.items()):
            if self.host in hosts:
                self.steady[job] = self.start_rank(job, hosts, PORT + 1 + number, self.path("done"))
        if self.host in MORTAL:
            self.start_mortal()
        while not self.over():
            self.look()
            time.sleep(0.05)
        codes = [process.wait(60) for process in self.steady.values()]
        meet(self.run, "ended", self.host, 90)
        for process in self.services.values():
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        return any(codes)


def be_host(path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    sys.exit(Supervisor(run, os.environ["BANYAN_HOST"]).work())


# ---- outside the lab


def read_pid(path):
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def uses(pid):
    """Returns the number of descriptors and the private memory in KiB, or None if the process has ended."""
    try:
        files = len(os.listdir(f"/proc/{pid}/fd"))
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file)
        return files, int(fields["RssAnon"].split()[0])
    except (OSError, KeyError):
        return None


class Soak:
    def __init__(self, folder, seconds, seed):
        self.folder, self.seconds, self.chance = folder, seconds, random.Random(seed)
        self.kills, self.samples, self.wrong, self.stalls = {}, {}, [], {}
        self.mortal_killed, self.begun = {}, time.monotonic()

    def path(self, name):
        return os.path.join(self.folder, name)

    def pids(self):
        """Returns all processes by role and host."""
        found = {}
        for name in os.listdir(self.folder):
            if not name.endswith(".pid"):
                continue
            role, host = name[:-len(".pid")].split("-")
            pid = read_pid(self.path(name))
            found[role, host] = pid
            if role == "agent":
                for child in children_of(pid):
                    found["helper", f"{host}/{child}"] = child
        return found

    def kill_one(self):
        pids = self.pids()
        role = self.chance.choice(("manager", "agent", "agent", "helper", "helper", "mortal"))
        able = sorted(key for key in pids if key[0] == role and uses(pids[key]))
        if not able:
            return
        victim = self.chance.choice(able)
        self.kills[role] = self.kills.get(role, 0) + 1
        try:
            os.kill(pids[victim], signal.SIGKILL)
        except ProcessLookupError:
            pass

    def look(self):
        now = time.monotonic() - self.begun
        for (role, host), pid in self.pids().items():
            used = uses(pid)
            if used:
                self.samples.setdefault((role, pid), []).append((now, *used))
        for job in STEADY:
            hosts = STEADY[job]
            try:
                age = time.time() - os.stat(self.path(f"{job}-{hosts[0]}-sums")).st_mtime
            except FileNotFoundError:
                continue
            self.stalls[job] = max(self.stalls.get(job, 0), age)
            if age > STALL:
                self.wrong.append(f"{now:.0f} s: no sum of job {job} for {age:.0f} s")
        self.wrong += [name.replace("-", ": ", 1) for name in os.listdir(self.folder) if name.startswith("stopped-")]
        self.look_at_mortal(now)

    def look_at_mortal(self, now):
        """Checks that all of its ranks end once one has."""
        alive = [uses(pid) is not None for (role, _), pid in self.pids().items() if role == "mortal"]
        if all(alive) or not any(alive):
            self.mortal_killed = {}
        elif now - self.mortal_killed.setdefault("at", now) > END:
            self.wrong.append(f"{now:.0f} s: ranks of the killed job run on for {END:.0f} s")

    def go(self):
        end, next_kill, next_look = self.begun + self.seconds, self.begun + 10, 0
        while time.monotonic() < end and not self.wrong:
            now = time.monotonic()
            if now > next_look:
                self.look()
                next_look = now + 1
            if now > next_kill and now < end - CALM:
                self.kill_one()
                next_kill = now + self.chance.uniform(0.2, 3)
            time.sleep(0.05)

    def agrees(self):
        with open(self.path("state.json"), encoding="utf-8") as file:
            state = json.load(file)
        if not state:
            return "the manager does not answer"
        away = [host["name"] for host in state["hosts"] if host["name"] in HOSTS and not host["connected"]]
        jobs = sorted(job["name"] for job in state["jobs"] if job["state"] != "left")
        return f"hosts away {away}, jobs {jobs}" if away or jobs != ["mortal", "one", "two"] else ""

    def print_uses(self):
        """Prints the use of the longest-lived process of each role, at the quarters of its life."""
        print("\n| | processes | the longest | descriptors | KiB of its own |\n|---|---:|---:|---:|---:|")
        for role in sorted({role for role, _ in self.samples}):
            rows = [samples for (of, _), samples in self.samples.items() if of == role]
            longest = max(rows, key=lambda samples: samples[-1][0] - samples[0][0])
            quarters = [longest[min(len(longest) - 1, max(3, quarter * len(longest) // 4))] for quarter in range(5)
                        if len(longest) > 3]
            files, memory = (", ".join(str(row[of]) for row in quarters) for of in (1, 2))
            print(f"| {role} | {len(rows)} | {longest[-1][0] - longest[0][0]:.0f} s | {files} | {memory} |")


def left_over(folder):
    """Returns processes that name the folder in their command line or environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if int(pid) != os.getpid() and folder.encode() in words + environment:
            found.append(f"{pid}: {words.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def main():
    seconds, seed = int(os.environ.get("SOAK") or 600), os.environ.get("SEED") or str(time.time_ns())
    folder = tempfile.mkdtemp(prefix="banyan-soak-")
    run = {"folder": folder, "keys": certificates(folder), "seconds": seconds, "key": os.urandom(16).hex()}
    description = os.path.join(folder, "run.json")
    with open(description, "w", encoding="utf-8") as file:
        json.dump(run, file)
    note(f"seed {seed}, logs in {folder}")
    soak = Soak(folder, seconds, seed)
    words = [BANYAN, "lab", TOPOLOGY, "--tos", "--timeout", str(seconds + 120), "--", sys.executable,
             os.path.abspath(__file__), "host", description]
    with open(os.path.join(folder, "lab.log"), "w", encoding="utf-8") as log, \
            subprocess.Popen(words, stdout=log, stderr=log) as lab:
        wait_until(lambda: len(soak.pids()) > len(HOSTS) or lab.poll() is not None, "job", 60)
        soak.go()
        disagrees = soak.agrees()
        touch(os.path.join(folder, "mortal.done"))
        touch(os.path.join(folder, "done"))
        status = lab.wait()
    wrong = soak.wrong + ([disagrees] if disagrees else []) + left_over(folder)
    if status:
        wrong.append(f"the lab ended with {status}")
    print(f"| {seconds} s, seed {seed} | |\n|---|---:|")
    for role, n in sorted(soak.kills.items()):
        print(f"| killed: {role} | {n} |")
    for job, age in soak.stalls.items():
        print(f"| job {job}: longest without a sum | {age:.1f} s |")
    rounds = sum(name.startswith("mortal-round-") for name in os.listdir(folder))
    print(f"| job that is killed: ended | {rounds} times |")
    soak.print_uses()
    for text in wrong:
        note(text)
    if not wrong and os.environ.get("KEEP") != "1":
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        be_host(sys.argv[2])
    else:
        sys.exit(main())
