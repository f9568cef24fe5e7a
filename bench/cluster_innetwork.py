"""What a manager makes of switches that aggregate, in labs that `banyan lab --cluster` builds. Every figure is a ratio
between runs of this program, beside the limit that it should keep.

Started by cluster.sh, which documents the environment. INNETWORK names the parts:

  own     three ranks at 300 Mbit/s with an in-network plan of their own, with a manager and without one
  racks   two jobs over four racks, 4:1 oversubscribed: in-network trees, host trees only, and rings
  faults  the same two jobs: when they get in-network trees, a switch that is killed and comes back, and a third job
  wide    one job of 24 workers: in-network trees, and host trees only
  small   calls of 8 bytes of a job with a manager and without one
  beside  an aggregator beside four workers at 100 Mbit/s, without a switch that adds: beside what its plan predicts
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import cluster_lab
from cluster_lab import BANYAN, Lab, adding_switches, goodput, longest, note, sums, trees_through_switches, wait_until, with_memory

SWITCHES = os.environ.get("SWITCHES") or "user"
ROUNDS = int(os.environ.get("ROUNDS") or 3)
failures = []


def row(text, value, limit="", kept=True):
    print(f"| {text} | {value} | {limit}{'' if kept else ' MISSED'} |", flush=True)
    if not kept:
        failures.append(text)


def run_to_end(lab):
    status = lab.wait()
    if status or lab.wrong():
        raise RuntimeError(f"the lab ended with {status}, {lab.wrong()} wrong elements: "
                           + "; ".join(line for _, line in lab.lines[-5:]))


# ---- a plan of the job's own


def star(folder):
    """Writes a topology of three ranks, a server and a manager's host at one switch, and the in-network plan."""
    hosts = ["a0", "a1", "a2", "s", "m"]
    nodes = [{"name": host, "takes_part": host[0] == "a", "helps": host == "s"} for host in hosts]
    nodes.append({"name": "leaf", "kind": "switch", "aggregates": True, "memory": 512 * 3432})
    links = [{"a": host, "b": "leaf", "capacity": "300m"} for host in hosts]
    paths = [os.path.join(folder, name) for name in ("star.json", "plan.json")]
    with open(paths[0], "w", encoding="utf-8") as file:
        json.dump({"format": "banyan-topology 1", "nodes": nodes, "links": links}, file)
    with open(paths[1], "w", encoding="utf-8") as file:
        subprocess.run([BANYAN, "plan", paths[0], "--method", "in-network", "--json"], check=True, stdout=file)
    return paths


def measure_own():
    size, seconds = 4 << 20, 6
    rates = {"": [], "alone": []}
    freed = []
    with tempfile.TemporaryDirectory() as folder:
        topology, plan = star(folder)
        for _ in range(ROUNDS):
            for kind in rates:
                options = ["--switches", SWITCHES, *(["--manager", "m"] if not kind else [])]
                with Lab(topology, [sums("own", size, seconds, plan=plan)], None if kind else "--interval 1",
                         options) as lab:
                    if not kind:
                        wait_until(lambda: given(lab) > 0, "cells of the job")
                        wait_until(lambda: len(lab.ended.get("own", ())) == 3 or not lab.job("own"), "end of the job")
                    run_to_end(lab)
                calls = lab.calls["own"]
                rates[kind].append(goodput(calls, size, calls[0][0], calls[-1][0]))
        freed = free_again(topology, plan)
    ratio = statistics.median(rates[""]) / statistics.median(rates["alone"])
    row("own plan, managed : unmanaged", f"{ratio:.3f}", ">= 0.97", ratio >= 0.97)
    row("its cells are free after the plan was changed", f"{freed:.2f} s", "<= 1 interval (1 s)", freed <= 1.0)


def given(lab):
    state = lab.state()
    return sum(switch["given"] for switch in state["switches"]) if state else -1


def free_again(topology, plan):
    """Returns how long the manager counts cells of a job after its user has set another plan."""
    sum_until = os.path.join(cluster_lab.BUILD, "tests", "net", "sum_until")
    with tempfile.TemporaryDirectory() as folder:
        done, chosen = os.path.join(folder, "done"), os.path.join(folder, "plan")
        job = f"own plan={plan}: exec env BANYAN_TEST_PLAN={chosen} {sum_until} {done} {folder}/sums"
        with Lab(topology, [job], "--interval 1", ["--switches", SWITCHES, "--manager", "m"]) as lab:
            wait_until(lambda: given(lab) > 0, "cells of the job")
            with open(chosen + ".draft", "w", encoding="utf-8") as file:
                file.write("ring")
            os.rename(chosen + ".draft", chosen)
            begun = time.monotonic()
            wait_until(lambda: given(lab) == 0, "free cells")
            took = time.monotonic() - begun
            with open(done, "w", encoding="utf-8"):
                pass
            lab.wait()
    return took


# ---- two jobs over all racks

RACKS = "clos:racks=4,hosts=2,nic=100m,oversub=4,adds=all"
SIZE = 1 << 20
WARM, MEASURED = 8, 16  # seconds before what is measured, and of it
# New jobs have no priority, which would starve the others as long as it lasts.
MANAGER = "--interval 0.5 --replan 5 --first-iterations 0"


def rate_of(cluster, plan=None):
    """Returns the bit/s of two jobs together, each of which sums over all hosts."""
    jobs = [sums(name, SIZE, WARM + MEASURED + 4, plan=plan) for name in ("a", "b")]
    with Lab(RACKS, jobs, cluster, ["--tos", *(["--switches", SWITCHES] if cluster is not None else [])]) as lab:
        run_to_end(lab)
    start = max(calls[0][0] for calls in lab.calls.values())
    return sum(goodput(calls, SIZE, start + WARM, start + WARM + MEASURED) for calls in lab.calls.values())


def measure_racks():
    ways = {"all": (MANAGER, None), "hosts": (MANAGER + " --ways ring,tree,helpers", None), "rings": (None, "ring")}
    rates = {kind: [] for kind in ways}
    for _ in range(ROUNDS):
        for kind, (cluster, plan) in ways.items():
            rates[kind].append(rate_of(cluster, plan))
            note(f"{kind}: {rates[kind][-1] / 1e6:.1f} Mbit/s")
    medians = {kind: statistics.median(values) for kind, values in rates.items()}
    for kind, rate in medians.items():
        row(f"two jobs, {kind}", f"{rate / 1e6:.1f} Mbit/s")
    for kind, limit in (("hosts", 1.35), ("rings", 1.55)):
        ratio = medians["all"] / medians[kind]
        row(f"all ways : {kind}", f"{ratio:.2f}", f">= {limit}", ratio >= limit)


# ---- what these jobs notice


def when(ready, limit):
    """Returns how many seconds it takes until it is so, or infinity."""
    begun = time.monotonic()
    try:
        wait_until(ready, "", limit)
        return time.monotonic() - begun
    except TimeoutError:
        return float("inf")


def uses_switch(lab, switch):
    """Whether trees of a job's plan add at the switch."""
    return any(switch in adding_switches(job) for job in (lab.state() or {"jobs": []})["jobs"] if job["state"] != "left")


def usual(lab):
    return statistics.median(took for name in ("a", "b") for _, took in lab.calls[name])


def watch_switch(lab):
    """Kills a switch that the jobs use, and starts it again."""
    killed = next((switch for switch in ("spine0", "leaf0", "leaf1") if uses_switch(lab, switch)), None)
    if not killed:
        row("a switch that is killed", "none is used", "", False)
        return
    begun = time.time()
    lab.kill("switch", killed)
    replaced = when(lambda: not uses_switch(lab, killed), 10)
    row(f"{killed} is killed: no tree adds there after", f"{replaced:.1f} s", "<= 2 s", replaced <= 2)
    time.sleep(4)
    lab.start("switch", killed)
    again = when(lambda: uses_switch(lab, killed), 12)
    row("it is back: used again after", f"{again:.1f} s", "<= 5 s", again <= 5)
    time.sleep(3)
    row("longest call meanwhile", f"{max(longest(lab.calls[name], begun, time.time()) for name in 'ab'):.2f} s")


def slots_at(lab, switch):
    """Returns how many slots each job has at a switch, by name."""
    jobs = [job for job in (lab.state() or {"jobs": []})["jobs"] if job["state"] != "left"]
    return {job["name"]: sum(c["slots"] for c in job["cells"] if c["switch"] == switch) for job in jobs}


def watch_third(lab):
    earlier = slots_at(lab, "spine0")
    wait_until(lambda: "c" in lab.calls, "third job", 60)
    third, before = lab.calls["c"][0][0] - lab.calls["c"][0][1], usual(lab)
    time.sleep(10)
    cells = slots_at(lab, "spine0")
    stall = max(longest(lab.calls[name], third, third + 10) for name in "ab") - 1.5 * before
    text = "; ".join(", ".join(f"{name} {n}" for name, n in sorted(one.items())) for one in (earlier, cells))
    row("slots at spine0, 640 in all: two jobs; three", text, "all have some", len(cells) == 3 and all(cells.values()))
    row("longest call of the others, above 1.5 of its median", f"{stall:.2f} s", "<= 1 s", stall <= 1)


def measure_faults():
    with tempfile.TemporaryDirectory() as folder:  # Memory that does not suffice for all that three jobs request.
        watch_faults(with_memory(RACKS, 640, os.path.join(folder, "racks.json")))


def watch_faults(topology):
    jobs = [sums(name, SIZE, 45) for name in "ab"] + [sums("c", SIZE, 12, **{"from": "32s"})]
    with Lab(topology, jobs, MANAGER, ["--switches", SWITCHES]) as lab:
        wait_until(lambda: len(lab.calls) == 2, "first calls")
        start = min(calls[0][0] - calls[0][1] for calls in lab.calls.values())
        found = when(lambda: all(trees_through_switches(lab.job(name)) for name in "ab"), 15)
        found = found if found == float("inf") else time.time() - start
        row("two jobs begin: both have in-network trees after", f"{found:.1f} s", "<= 3 s", found <= 3)
        time.sleep(6)
        row("call, median", f"{usual(lab):.2f} s")
        watch_switch(lab)
        watch_third(lab)
        run_to_end(lab)


# ---- many workers

WIDE = "clos:racks=6,hosts=4,nic=20m,oversub=4,adds=all"


def measure_wide():
    size, rates = 512 << 10, {}
    for kind, ways in (("all", ""), ("hosts", " --ways ring,tree,helpers")):
        with Lab(WIDE, [sums("a", size, 20)], MANAGER + ways, ["--switches", SWITCHES]) as lab:
            wait_until(lambda: lab.job("a") and lab.job("a")["plan"], "plan")
            trees = trees_through_switches(lab.job("a"))
            run_to_end(lab)
        calls = lab.calls["a"]
        rates[kind] = goodput(calls, size, calls[0][0] + 5, calls[-1][0])
        if kind == "all":
            row("24 workers: trees through switches", str(trees), ">= 1", trees >= 1)
    row("24 workers, all ways : hosts", f"{rates['all'] / rates['hosts']:.2f}")


# ---- small calls


def measure_small():
    medians = {"managed": [], "alone": []}
    for _ in range(ROUNDS):
        for kind, all_medians in medians.items():
            bench = "banyan bench allreduce -s 8 --iterations 2000 --warmup 200 --check off --json"
            with Lab("clos:racks=2,hosts=2,nic=100m,adds=all", [f"small: exec {bench}"],
                     None if kind == "alone" else MANAGER, ["--output", "prefix"]) as lab:
                run_to_end(lab)
            line = next(line for _, line in lab.lines if '"time_us"' in line)
            all_medians.append(json.loads(line[line.index("{"):])["time_us"])
    ratio = statistics.median(medians["managed"]) / statistics.median(medians["alone"])
    row("8 bytes, managed : unmanaged", f"{ratio:.3f}", "<= 1.1", ratio <= 1.1)


# ---- an aggregator beside the path

HEADERS = 1408 / 1538  # what fragments carry of what they take on a wire


def beside(folder, rate):
    """Writes a topology of four workers, an aggregator with a link of `rate` and a server at one router; returns its path."""
    hosts = ["w0", "w1", "w2", "w3", "e", "d"]
    nodes = [{"name": host, "takes_part": host[0] == "w", "helps": host[0] != "w"} for host in hosts]
    links = [{"a": host, "b": "s", "capacity": rate if host == "e" else "100m"} for host in hosts]
    path = os.path.join(folder, f"beside-{rate}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": "banyan-topology 1", "nodes": [*nodes, {"name": "s", "kind": "switch"}], "links": links}, file)
    return path


def off_path(folder):
    """Writes a plan whose workers all send to the aggregator, and returns its path."""
    up = {"e/0": "d/0", **{str(rank): "e/0" for rank in range(4)}}
    path = os.path.join(folder, "off-path.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": "banyan-plan 1", "name": "off path", "ranks": 4,
                   "vertices": {name: {"kind": "server"} for name in ("d/0", "e/0")},
                   "trees": [{"share": 1, "root": "d/0", "up": up}]}, file)
    return path


def racks(folder):
    """Writes a topology of two racks of two workers and a helper, whose uplinks have half a host's rate; returns its path."""
    hosts = ["w0", "w1", "d", "w2", "w3", "e"]
    nodes = [{"name": host, "takes_part": host[0] == "w", "helps": host[0] != "w"} for host in hosts]
    nodes += [{"name": switch, "kind": "switch"} for switch in ("leaf0", "leaf1", "spine")]
    links = [{"a": host, "b": f"leaf{i // 3}", "capacity": "100m"} for i, host in enumerate(hosts)]
    links += [{"a": f"leaf{i}", "b": "spine", "capacity": "50m"} for i in range(2)]
    path = os.path.join(folder, "racks.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": "banyan-topology 1", "nodes": nodes, "links": links}, file)
    return path


def planned(folder, topology):
    """Writes the plan that is made for the topology with its server on d, and returns its path."""
    path = os.path.join(folder, "planned.json")
    with open(path, "w", encoding="utf-8") as file:
        subprocess.run([BANYAN, "plan", topology, "--method", "in-network", "--server", "d", "--json"], check=True,
                       stdout=file)
    return path


def predicted(topology, plan):
    """Returns bit/s of input that the plan's loads allow, less headers."""
    text = subprocess.run([BANYAN, "topo", topology, "--plan", plan], check=True, stdout=subprocess.PIPE, text=True).stdout
    number, unit = re.search(r"AllReduce at (\S+) (\S)bit/s of input at most", text).groups()
    return float(number) * {"M": 1e6, "G": 1e9}[unit] * HEADERS


def measure_beside():
    size, seconds = 4 << 20, 12
    with tempfile.TemporaryDirectory() as folder:
        slow, fast, two = beside(folder, "100m"), beside(folder, "500m"), racks(folder)
        for text, topology, plan in (("all links 100 Mbit/s", slow, off_path(folder)),
                                     ("its link 500 Mbit/s", fast, off_path(folder)),
                                     ("in one of two racks, as planned", two, planned(folder, two))):
            ratios = []
            for _ in range(ROUNDS):
                with Lab(topology, [sums("beside", size, seconds, plan=plan)], None) as lab:
                    run_to_end(lab)
                calls = lab.calls["beside"]
                ratios.append(goodput(calls, size, calls[0][0], calls[-1][0]) / predicted(topology, plan))
            ratio = statistics.median(ratios)
            row(f"off-path aggregator, {text}: measured : predicted {predicted(topology, plan) / 1e6:.1f} Mbit/s",
                f"{ratio:.3f}", "0.9 to 1.1", 0.9 <= ratio <= 1.1)


PARTS = {"own": measure_own, "racks": measure_racks, "faults": measure_faults, "wide": measure_wide, "small": measure_small,
         "beside": measure_beside}


def main():
    parts = (os.environ.get("INNETWORK") or ",".join(PARTS)).split(",")
    if not set(parts) <= set(PARTS):
        sys.exit(f"cluster_innetwork.py: INNETWORK may be {','.join(PARTS)}")
    print("| | measured | limit |\n|---|---:|---:|")
    for part in parts:
        PARTS[part]()
    if failures:
        note(f"missed: {'; '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
