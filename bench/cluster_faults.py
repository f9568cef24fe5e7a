"""Measures how faults affect a job, in labs: a link between switches that loses 80 % of its capacity during the
run; and a helper, the manager and an agent that are killed.

Started by cluster.sh, which documents the environment. Every run is a lab of its own. A table goes to standard output,
notes to standard error.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from cluster_lab import BANYAN, Lab, hosts_of, sums, wait_until

TOPOLOGY = "clos:racks=2,hosts=4,nic=100m,oversub=4,spines=2"
LINK, RATE, LOST = ("leaf0", "spine0"), 50e6, 0.8
INTERVAL = 2.0
SIZE = 2 << 20  # bytes that are summed in each iteration
SETTLED = 20  # seconds after which a job has its final plan
WATCHED = 30  # seconds after a fault
TAIL = 10  # seconds over which the median iteration is taken


def run_lab(topology, seconds, hosts, change=None, watch=None):
    """Runs one job in a lab, and watch(lab, start) beside it. Returns the lab, and the history of the job's plans."""
    options = ["--tos", *(["--at", change] if change else [])]
    with Lab(topology, [sums("train", SIZE, seconds, hosts=",".join(hosts))], f"--interval {INTERVAL}", options) as lab:
        wait_until(lambda: "train" in lab.calls, "calls")
        start = time.time()
        if watch:
            watch(lab, start)
        time.sleep(max(0.0, start + seconds - 2 - time.time()))
        job = lab.job("train")
        if lab.wait() or lab.wrong():
            sys.exit(f"cluster_faults.py: the lab failed: {' '.join(line for _, line in lab.lines)[-600:]}")
    return lab, job["history"]


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
    lab, history = run_lab(as_built, SETTLED + WATCHED + 5, hosts_of(TOPOLOGY), change=change)
    rows = lab.calls["train"]
    at = next(when for when, line in lab.lines if line.startswith("banyan lab: ") and " carries " in line)
    optimum = run_lab(as_left, SETTLED + TAIL, hosts_of(TOPOLOGY))[0].calls["train"]
    best = median_between(optimum, optimum[-1][0] - TAIL, optimum[-1][0])
    before = median_between(rows, at - TAIL / 2, at)
    after = median_between(rows, rows[-1][0] - TAIL, rows[-1][0])
    worst = max(took for when, took in rows if when > at)
    print(f"\n| {LINK[0]} - {LINK[1]} loses {LOST:.0%} of {RATE / 1e6:g} Mbit/s; interval {INTERVAL:g} s | |\n|---|---:|")
    print(f"| iteration before | {before:.3f} s |\n| the longest after | {worst:.3f} s |")
    for plan in (plan for plan in history if plan["time"] > at):
        what = "not moved" if plan["why"].startswith(("kept: ", "no answer")) else "moved"
        print(f"| {what} after | {plan['time'] - at:.1f} s, from {plan['before'] / 1e6:.1f} to {plan['after'] / 1e6:.1f} "
              f"Mbit/s: {plan['why']} |")
    print(f"| iteration in the last {TAIL} s | {after:.3f} s |\n| where the link was slow all along | {best:.3f} s |")
    print(f"| ratio | {after / best:.2f} (goal: 1.1) |")


def agrees(lab, number):
    """Returns whether the manager knows all agents, and the job runs the plan of this number or a later one."""
    state, job = lab.state(), lab.job("train")
    return bool(job) and job["connected"] and (job["plan"] or {"number": -1})["number"] >= number and all(
        host["connected"] for host in state["hosts"])


def kill_all(lab, start):
    """Kills a helper, the manager and an agent in turn. Returns when, and how long it took until all agreed."""
    faults = {}

    def kill(role, node, seconds, away):
        time.sleep(max(0.0, start + seconds - time.time()))
        number = lab.job("train")["plan"]["number"]
        if not lab.kill(role, node):
            return
        faults[role] = {"at": time.time()}
        if away:
            time.sleep(away)
            lab.start(role, node)
            wait_until(lambda: lab.pid(role, node) and lab.state(), role)
            back = time.time()
            wait_until(lambda: agrees(lab, number), "agreement")
            faults[role]["agreed"] = time.time() - back

    time.sleep(max(0.0, start + SETTLED - time.time()))
    helping = sorted(host["name"] for host in lab.state()["hosts"] if host["helping"])
    if helping:
        kill("helper", helping[0], SETTLED, 0)
    kill("manager", None, SETTLED + WATCHED, 5)
    kill("agent", hosts_of(TOPOLOGY)[0], SETTLED + 2 * WATCHED, 2)
    return faults


def measure_kills(folder):
    built = write_topology(os.path.join(folder, "whole.json"), RATE)
    hosts = [host for host in hosts_of(TOPOLOGY) if host[-1] in "01"]
    faults = {}
    lab, _ = run_lab(built, SETTLED + 3 * WATCHED, hosts, watch=lambda lab, start: faults.update(kill_all(lab, start)))
    rows = lab.calls["train"]
    print("\n| killed | iteration before | longest after | then | state agrees after |\n|---|---:|---:|---:|---:|")
    for what, fault in faults.items():
        at = fault["at"]
        before, then = median_between(rows, at - TAIL, at), median_between(rows, at + TAIL, at + 2 * TAIL)
        worst = max(took for when, took in rows if at < when < at + WATCHED - 5)
        agreed = f"{fault['agreed']:.2f} s" if "agreed" in fault else "-"
        print(f"| {what} | {before:.3f} s | {worst:.3f} s | {then:.3f} s | {agreed} |")
    if "helper" not in faults:
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
    main()
