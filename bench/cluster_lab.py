"""A lab whose jobs and services are watched and killed from outside: `banyan lab`, with or without --cluster, as the
measurements of clusters use it. Lines of its output become calls of jobs and processes of services, with times."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

BANYAN = os.environ["BANYAN"]
BUILD = os.path.dirname(BANYAN)
SUM_CALLS = os.path.join(BUILD, "tests", "net", "sum_calls")
LONG = 1.0  # seconds of a call from which on it is kept among the lines
SLOT = 3432  # bytes of a switch's memory
SERVICE = re.compile(r"banyan lab: (switch|agent|manager) (\S+): kill -HUP (\d+) restarts it")
PAGE = re.compile(r"banyan lab: page at (\S+)\?token=(\S+)")
FOLDER = re.compile(r"banyan lab: state by .* (\S+)/token$")
CALL = re.compile(r"\[(\S+) \S+\] call (\S+) (\S+)$")
ENDED = re.compile(r"\[(\S+) (\S+)\] (\d+) wrong elements in (\d+) calls$")


def note(text):
    print(text, file=sys.stderr, flush=True)


def wait_until(ready, what, limit=60):
    end = time.monotonic() + limit
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {limit} s")
        time.sleep(0.02)


def children_of(pid):
    """Returns the children of a process, as pairs of the number and the word after `banyan` in their command."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            for child in map(int, file.read().split()):
                with open(f"/proc/{child}/cmdline", "rb") as line:
                    words = line.read().split(b"\0")
                found.append((child, words[1].decode() if len(words) > 1 else ""))
    except OSError:
        pass
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def sums(name, size, seconds, pause=0, ways="", **settings):
    """Returns the text of a job that sums `size` bytes for so many seconds, as --job takes it; ways: what its plans may use."""
    words = " ".join(f"{key}={value}" for key, value in settings.items() if value)
    only = f"env BANYAN_PLANNER=method=cluster,ways={ways.replace(',', '+')} " if ways else ""
    return f"{name} {words}: exec {only}{SUM_CALLS} {int(size)} {seconds} {pause}"


def hosts_of(topology):
    """Returns the names of the hosts that take part in jobs."""
    text = subprocess.run([BANYAN, "topo", topology, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    nodes = [node if isinstance(node, dict) else {"name": node} for node in json.loads(text)["nodes"]]
    return [node["name"] for node in nodes if node.get("kind") != "switch" and node.get("takes_part", True)]


def with_memory(topology, slots, path):
    """Writes a topology whose aggregating switches have memory for so many slots, and returns the path."""
    text = subprocess.run([BANYAN, "topo", topology, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    value = json.loads(text)
    for node in value["nodes"]:
        if isinstance(node, dict) and node.get("aggregates"):
            node["memory"] = slots * SLOT
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return path


class Lab:
    """Runs while it is entered. `jobs` are texts of --job; `cluster` are options of `banyan manager`, None: no cluster."""

    def __init__(self, topology, jobs, cluster="", options=()):
        self.words = [BANYAN, "lab", topology, *options]
        for job in jobs:
            self.words += ["--job", job]
        if cluster is not None:
            self.words += ["--cluster", "--manager-options", cluster]
        self.services, self.page, self.token, self.folder = {}, None, None, None
        self.calls, self.ended, self.lines = {}, {}, []

    def __enter__(self):
        self.begun = time.time()
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.readers = [threading.Thread(target=self.read, args=(stream,), daemon=True)
                        for stream in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        for reader in self.readers:
            reader.join()
        if kind or os.environ.get("KEEP") == "1":
            path = os.path.join(os.environ.get("BENCH_OUT", "/tmp"), f"cluster-{os.getpid()}-{self.begun:.0f}.log")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{at - self.begun:8.3f} {line}\n" for at, line in self.lines)
            note(f"the lab's output is in {path}")

    def read(self, stream):
        for line in stream:
            line = line.rstrip("\n")
            call, ended, service, page, folder = (p.match(line) for p in (CALL, ENDED, SERVICE, PAGE, FOLDER))
            if call:
                self.calls.setdefault(call[1], []).append((float(call[2]), float(call[3])))
                if float(call[3]) < LONG:
                    continue
            if ended:
                self.ended.setdefault(ended[1], {})[ended[2]] = (int(ended[3]), int(ended[4]))
            elif service:
                self.services[service[1], service[2]] = int(service[3])
            elif page:
                self.page, self.token = page[1], page[2]
            elif folder:
                self.folder = folder[1]
            self.lines.append((time.time(), line))

    def wait(self):
        """Waits until all jobs have ended. Returns the exit code."""
        status = self.process.wait()
        for reader in self.readers:
            reader.join()
        return status

    def wrong(self):
        """Returns how many elements were wrong, by the ranks that have ended."""
        return sum(wrong for ranks in self.ended.values() for wrong, _ in ranks.values())

    # ---- services

    def pid(self, role, node=None):
        """Returns the process of a service: of `banyan switch`, `agent` or `manager`; None if it does not run."""
        for (of, name), supervisor in self.services.items():
            if of == role and node in (None, name):
                for child, _ in children_of(supervisor):
                    return child
        return None

    def started_by_agent(self, word, node):
        """Returns the processes of servers, or helpers, that the agent of a host has started."""
        agent = self.pid("agent", node)
        return [child for child, command in children_of(agent) if command == word] if agent else []

    def kill(self, role, node=None):
        """Kills a service, or all servers or helpers of a host. Returns whether there was one."""
        pids = self.started_by_agent(role, node) if role in ("server", "helper") else [self.pid(role, node)]
        for pid in filter(None, pids):
            send(pid, signal.SIGKILL)
        return any(pids)

    def start(self, role, node=None):
        for (of, name), supervisor in self.services.items():
            if of == role and node in (None, name):
                send(supervisor, signal.SIGHUP)

    def cells_in_use(self, switch):
        """Returns how many cells of a switch belong to jobs, by its own word; None if it does not answer."""
        enter = ["nsenter", "-m", "-n", "-t", str(self.services["switch", switch])]
        done = subprocess.run([*enter, BANYAN, "status", "--json"], capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["cells"]["used"] if done.returncode == 0 else None

    # ---- the manager's state

    def state(self):
        """Returns the manager's state, or None if it does not answer."""
        if not self.page:
            return None
        request = urllib.request.Request(self.page + "state", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return None

    def job(self, name):
        """Returns the state of a job that has not left, or None."""
        for job in (self.state() or {"jobs": []})["jobs"]:
            if job["name"] == name and job["state"] != "left":
                return job
        return None


def trees_of(job):
    """Returns the trees of the job's plan, and the kinds of its vertices by their names."""
    plan = ((job or {}).get("plan") or {}).get("plan") or {}
    kinds = {name: vertex.get("kind") for name, vertex in plan.get("vertices", {}).items()}
    return [tree for one in [plan, *plan.get("classes", [])] for tree in one.get("trees", [])], kinds


def trees_through_switches(job):
    """Returns how many trees of the job's plan have servers as roots."""
    trees, kinds = trees_of(job)
    return sum(kinds.get(tree.get("root")) == "server" for tree in trees)


def adding_switches(job):
    """Returns the switches at which trees of the job's plan add."""
    trees, kinds = trees_of(job)
    return {name for tree in trees for name in tree.get("up", {})
            if kinds.get(name) == "switch" and name not in tree.get("forwards", [])}


def goodput(calls, size, begin, end):
    """Returns the bit/s between two times; a call counts as far as it was made between them."""
    shares = (max(0.0, min(at, end) - max(at - took, begin)) / took for at, took in calls)
    return 8 * size * sum(shares) / (end - begin)


def longest(calls, begin, end):
    """Returns the longest call of those that ended between two times."""
    return max((took for at, took in calls if begin < at <= end), default=0.0)
