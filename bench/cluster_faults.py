"""Measures how faults affect a job, in labs: a link between switches that loses 80 % of its capacity during the
run; and a helper, the manager and an agent that are killed.

Started by cluster.sh, which documents the environment. Every run is a lab of its own, on each of whose hosts
this file runs once more (`cluster_faults.py host`), with the host's agent and, where the job is, its rank. The
first host has the manager too, and kills what is to be killed. A table goes to standard output, notes to
standard error.
"""

import array
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python")]
from cluster import BANYAN, HOSTS, PORT, certificates, meet, note, start_service, wait_until  # noqa: E402

TOPOLOGY = "clos:racks=2,hosts=4,nic=100m,oversub=4,spines=2"
LINK, RATE, LOST = ("leaf0", "spine0"), 50e6, 0.8
INTERVAL = 2.0
ELEMENTS = 1 << 19  # float32 elements, summed in each iteration
SETTLED = 20  # seconds after which a job has its final plan
WATCHED = 30  # seconds after a fault
TAIL = 10  # seconds over which the median iteration is taken


# ---- on a host of the lab


def train(run, host):
    """Iterates until the run is over. Rank 0 writes down when each iteration ended, and how long it took."""
    import banyan  # The import is here because the outside works without the library.

    rows, buffer = [], array.array("f", bytes(4 * ELEMENTS))
    with banyan.Communicator() as comm:
        for i in range(1 << 30):
            buffer[0] = float(comm.rank == 0 and time.time() > run["end"])
            comm.step(i)
            begun = time.time()
            comm.allreduce(buffer)
            rows.append([time.time(), time.time() - begun])
            if buffer[0]:
                break
    if host == run["hosts"][0]:
        with open(os.path.join(run["folder"], "iterations.json"), "w", encoding="utf-8") as file:
            json.dump(rows, file)


def start_manager(run):
    words = [BANYAN, "manager", run["known"], "--listen", f"{HOSTS[0]}:{PORT}", "--interval", str(INTERVAL),
             "--http", "127.0.0.1:8420", "--token-file", os.path.join(run["folder"], "token"),
             "--state", os.path.join(run["folder"], "manager.db")]
    os.environ["BANYAN_LOG"] = "manager:info"
    return start_service(words, os.path.join(run["folder"], f"manager.{time.time():.0f}.log"))


def socket_of(run, host):
    return os.path.join(run["folder"], f"{host}.sock")


def start_agent(run, host):
    words = [BANYAN, "agent", "--socket", socket_of(run, host), "--manager", f"{HOSTS[0]}:{PORT}", "--name", host,
             "--queues", "none"]
    return start_service(words, os.path.join(run["folder"], f"{host}.{time.time():.0f}.log"))


def be_rank(run, host):
    os.environ.update(BANYAN_RANK=str(run["hosts"].index(host)), BANYAN_SIZE=str(len(run["hosts"])),
                      BANYAN_ROOT=f"{run['hosts'][0]}:{PORT + 1}", BANYAN_KEY=run["key"], BANYAN_JOB="train",
                      BANYAN_TOPOLOGY="", BANYAN_AGENT=socket_of(run, host),
                      BANYAN_LIBRARY=os.path.join(os.path.dirname(BANYAN), "libbanyan.so.0"))
    for name in [name for name in os.environ if name.startswith("BANYAN_LOCAL_")]:
        del os.environ[name]
    sys.stderr = open(os.path.join(run["folder"], f"rank-{host}.err"), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), 2)
    train(run, host)


def state_of(run):
    """Returns the manager's state, or None."""
    try:
        with open(os.path.join(run["folder"], "token"), encoding="utf-8") as file:
            header = {"Authorization": f"Bearer {file.read().strip()}"}
        request = urllib.request.Request("http://127.0.0.1:8420/state", headers=header)
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer)
    except (OSError, urllib.error.URLError, json.JSONDecodeError):
        return None


def agrees(run, number):
    """Returns whether the manager knows all agents, and the job runs the plan of this number or a later one."""
    state = state_of(run)
    jobs = [job for job in state["jobs"] if job["state"] != "left"] if state else []
    if len(jobs) != 1 or not jobs[0]["connected"] or not jobs[0]["plan"]:
        return False
    hosts = {host["name"]: host["connected"] for host in state["hosts"]}
    return jobs[0]["plan"]["number"] >= number and all(hosts[host] for host in HOSTS)


def plan_number(run):
    return state_of(run)["jobs"][0]["plan"]["number"]


def helpers_of(run):
    return {host["name"] for host in state_of(run)["hosts"] if host["helping"]}


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


def pid_of_agent(run, host):
    with open(os.path.join(run["folder"], f"{host}.pid"), encoding="utf-8") as file:
        return int(file.read())


def kill_all(run, mine):
    """Kills a helper, the manager and this host's agent in turn. Returns the time of each, and how long it took
    until all agreed."""
    faults = {}

    def at(seconds):
        time.sleep(max(0.0, run["start"] + seconds - time.time()))

    at(SETTLED)
    helpers = helpers_of(run)
    if helpers:
        victim = children_of(pid_of_agent(run, sorted(helpers)[0]))[0]
        os.kill(victim, signal.SIGKILL)
        faults["helper"] = {"at": time.time()}
    at(SETTLED + WATCHED)
    number = plan_number(run)
    mine["manager"].kill()
    mine["manager"].wait()
    faults["manager"] = {"at": time.time()}
    time.sleep(5)
    mine["manager"] = start_manager(run)
    wait_until(lambda: state_of(run) is not None, "manager")
    back = time.time()
    wait_until(lambda: agrees(run, number), "agreement with the manager")
    faults["manager"]["agreed"] = time.time() - back
    at(SETTLED + 2 * WATCHED)
    mine["agent"].kill()
    mine["agent"].wait()
    faults["agent"] = {"at": time.time()}
    time.sleep(2)
    mine["agent"] = start_agent(run, HOSTS[0])
    back = time.time()
    wait_until(lambda: agrees(run, number), "agreement with the agent")
    faults["agent"]["agreed"] = time.time() - back
    with open(os.path.join(run["folder"], "faults.json"), "w", encoding="utf-8") as file:
        json.dump(faults, file)


def be_host(path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    host, mine = os.environ["BANYAN_HOST"], {}
    os.environ["BANYAN_KEYS"] = run["keys"]
    if host == HOSTS[0]:
        mine["manager"] = start_manager(run)
    mine["agent"] = start_agent(run, host)
    with open(os.path.join(run["folder"], f"{host}.pid"), "w", encoding="utf-8") as file:
        file.write(str(mine["agent"].pid))
    wait_until(lambda: os.path.exists(socket_of(run, host)), f"agent on {host}")
    run["start"] = meet(run, "ready", host, 30) + 1
    run["end"] = run["start"] + run["seconds"]
    time.sleep(max(0.0, run["start"] - time.time()))
    child = os.fork() if host in run["hosts"] else None
    if child == 0:
        be_rank(run, host)
        os._exit(0)
    failed = False
    if host == HOSTS[0] and run["kills"]:
        kill_all(run, mine)
    if child:
        failed = os.waitpid(child, 0)[1] != 0
    meet(run, "done", host, run["seconds"] + 60)
    for process in reversed(list(mine.values())):
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    sys.exit(1 if failed else 0)


# ---- outside the lab


def read_lines(stream, changed, output):
    """Collects the times at which the lab changed a link, and all other output."""
    for line in stream:
        if line.startswith("banyan lab: ") and " carries " in line:
            changed.append(time.time())
        else:
            output.append(line)


def run_lab(built, known, seconds, hosts, change=None, kills=False):
    """Runs one lab. Returns when iterations ended and how long they took, when the link changed, the plans'
    history, and the faults."""
    folder = tempfile.mkdtemp(prefix="banyan-faults-")
    run = {"folder": folder, "keys": certificates(folder), "known": known, "seconds": seconds, "hosts": hosts,
           "kills": kills, "key": os.urandom(16).hex()}
    description = os.path.join(folder, "run.json")
    with open(description, "w", encoding="utf-8") as file:
        json.dump(run, file)
    words = [BANYAN, "lab", built, "--tos", "--timeout", str(seconds + 90), *(["--at", change] if change else []),
             "--", sys.executable, os.path.abspath(__file__), "host", description]
    changed, output = [], []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as lab:
        reader = threading.Thread(target=read_lines, args=(lab.stderr, changed, output))
        reader.start()
        status = lab.wait()
        reader.join()
    try:
        if status:
            sys.exit(f"cluster_faults.py: the lab ended with {status}: {' '.join(output)[-600:]}; see {folder}")
        with open(os.path.join(folder, "iterations.json"), encoding="utf-8") as file:
            result = {"iterations": json.load(file), "changed": changed, "faults": {}}
        with sqlite3.connect(os.path.join(folder, "manager.db")) as store:
            result["history"] = store.execute("SELECT time, number, why, before, after FROM history ORDER BY time").fetchall()
        if kills:
            with open(os.path.join(folder, "faults.json"), encoding="utf-8") as file:
                result["faults"] = json.load(file)
        return result
    finally:
        if os.environ.get("KEEP") == "1":
            note(f"logs in {folder}")
        elif not status:
            shutil.rmtree(folder)


def median_between(rows, begin, end):
    return statistics.median(took for at, took in rows if begin < at <= end)


def write_topology(path, rate):
    """Writes the topology with this rate of the link that slows down."""
    words = [BANYAN, "topo", TOPOLOGY, "--json"]
    topology = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    for link in topology["links"]:
        if {link["a"], link["b"]} == set(LINK):
            link["capacity"] = rate
    with open(path, "w", encoding="utf-8") as file:
        json.dump(topology, file)
    return path


def measure_link(folder):
    slow = RATE * (1 - LOST)
    as_built = write_topology(os.path.join(folder, "whole.json"), RATE)
    as_left = write_topology(os.path.join(folder, "slow.json"), slow)
    change = f"{SETTLED + 5}s rate {LINK[0]} {LINK[1]} {slow / 1e6:g}m"
    run = run_lab(as_built, as_built, SETTLED + WATCHED, HOSTS, change=change)
    rows, at = run["iterations"], run["changed"][0]
    events = [(when - at, why, before, after) for when, _, why, before, after in run["history"] if when > at]
    optimum = run_lab(as_left, as_left, SETTLED + TAIL, HOSTS)["iterations"]
    best = median_between(optimum, optimum[-1][0] - TAIL, optimum[-1][0])
    before = median_between(rows, at - TAIL / 2, at)
    after = median_between(rows, rows[-1][0] - TAIL, rows[-1][0])
    worst = max(took for when, took in rows if when > at)
    print(f"\n| {LINK[0]} - {LINK[1]} loses {LOST:.0%} of {RATE / 1e6:g} Mbit/s; interval {INTERVAL:g} s | |\n|---|---:|")
    print(f"| iteration before | {before:.3f} s |\n| the longest after | {worst:.3f} s |")
    for when, why, rate, more in events:
        what = "not moved" if why.startswith(("kept: ", "no answer")) else "moved"
        print(f"| {what} after | {when:.1f} s, from {rate / 1e6:.1f} to {more / 1e6:.1f} Mbit/s: {why} |")
    print(f"| iteration in the last {TAIL} s | {after:.3f} s |\n| where the link was slow all along | {best:.3f} s |")
    print(f"| ratio | {after / best:.2f} (goal: 1.1) |")


def measure_kills(folder):
    built = write_topology(os.path.join(folder, "whole.json"), RATE)
    hosts = [host for host in HOSTS if host[-1] in "01"]
    run = run_lab(built, built, SETTLED + 3 * WATCHED, hosts, kills=True)
    rows = run["iterations"]
    print("\n| killed | iteration before | longest after | then | state agrees after |\n|---|---:|---:|---:|---:|")
    for what, fault in run["faults"].items():
        at = fault["at"]
        before, then = median_between(rows, at - TAIL, at), median_between(rows, at + TAIL, at + 2 * TAIL)
        worst = max(took for when, took in rows if at < when < at + WATCHED - 5)
        agreed = f"{fault['agreed']:.2f} s" if "agreed" in fault else "-"
        print(f"| {what} | {before:.3f} s | {worst:.3f} s | {then:.3f} s | {agreed} |")
    if "helper" not in run["faults"]:
        print("| helper | none had come | | | |")


def main():
    folder = tempfile.mkdtemp(prefix="banyan-faults-")
    try:
        for part, measure in (("link", measure_link), ("kills", measure_kills)):
            if part in (os.environ.get("FAULTS") or "link,kills").split(","):
                measure(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["host"]:
        be_host(sys.argv[2])
    else:
        main()
