"""Three training jobs on two racks that share one uplink each, 4:1 oversubscribed: under `banyan manager`, and the
same jobs with plain rings and no manager, with ranks in the order of the racks and in a random one.

Started by cluster.sh, which documents the environment. Every run is a lab of its own. The measurements go into
cluster.jsonl, a table to standard output, notes to standard error.
"""

import json
import os
import random
import re
import statistics
import sys

from cluster_lab import BUILD, Lab, note

FASHION = os.path.join(BUILD, "examples", "fashion")
TOPOLOGY = "clos:racks=2,hosts=4,nic=25m,oversub=4"
HOSTS = [f"r{rack}h{host}" for rack in range(2) for host in range(4)]
FIRST = 10  # After these iterations users know whether the job works. It is also the length of an epoch.
TIME_LIMIT = 300  # seconds of one run

# Rates are low and models small, so that links are the limit, not this machine's cores. Ranks are placed rack by rack,
# which is the best order for a ring. Iterations are of `batch` images over all ranks.
CHOSEN = {
    "large": {"at": 0, "hosts": HOSTS, "hidden": "256,256", "iterations": 50},
    "middle": {"at": 10, "hosts": ["r0h0", "r0h1", "r1h0", "r1h1"], "hidden": "192,192", "iterations": 50},
    "late": {"at": 15, "hosts": ["r0h2", "r0h3", "r1h2", "r1h3"], "hidden": "192,64", "iterations": 50},
}


def mix_of(seed):
    """Returns three random jobs: the seed determines their times, places, sizes and lengths."""
    chance, jobs = random.Random(seed), {}
    for name, at in zip(("first", "second", "third"), (0, *sorted(chance.randint(1, 20) for _ in range(2)))):
        places = chance.choice(("0123", "01", "23"))  # places in each rack
        widths = f"{chance.choice((128, 192, 256))},{chance.choice((64, 128, 192, 256))}"
        jobs[name] = {"at": at, "hosts": [host for host in HOSTS if host[-1] in places], "hidden": widths,
                      "iterations": FIRST * chance.randint(3, 5)}
    return jobs


SEED = int(os.environ.get("SEED") or 0)
JOBS = mix_of(SEED) if SEED else CHOSEN
BATCH = 64
MODES = ["rings", "shuffled", "manager"]  # shuffled: rings of ranks that are not placed rack by rack
# Options of `banyan manager` beside its usual rules, such as --order share.
RULES = os.environ.get("RULES") or ""
LINE = re.compile(r"\[(\S+) \S+\] (\{.*\})$")


def text_of(name, job, mode):
    """Returns a job as --job takes it."""
    hosts = list(job["hosts"])
    if mode == "shuffled":  # an order that is not rack by rack, as a scheduler may choose
        random.Random(5).shuffle(hosts)
    plan = "" if mode == "manager" else " plan=ring"  # The manager replaces no explicit plan.
    words = [FASHION, "--hidden", job["hidden"], "--batch", str(BATCH), "--limit", str(BATCH * FIRST),
             "--epochs", str(job["iterations"] // FIRST), "--quiet", "--json"]
    return f"{name} from={job['at']}s hosts={','.join(hosts)}{plan}: exec {' '.join(words)}"


def run_once(mode, names):
    """Runs the jobs. Returns the times of each and the loads of the links, or None after a failure, which is noted."""
    cluster = f"--interval 1 --replan 10 {RULES}" if mode == "manager" else None
    with Lab(TOPOLOGY, [text_of(name, JOBS[name], mode) for name in names], cluster,
             ["--tos", "--timeout", str(TIME_LIMIT), "--json", "--output", "prefix"]) as lab:
        status = lab.wait()
    if status:
        note(f"exit status {status}: {' '.join(line for _, line in lab.lines)[-400:]}")
        return None
    start = next((at for at, line in lab.lines if "banyan lab: page" in line), lab.begun)
    record = {"mode": mode, "jobs": {}}
    for name in names:  # Each epoch has FIRST steps, and rank 0 prints a line at its end.
        rows = [at for at, line in lab.lines if (found := LINE.match(line)) and found[1] == name and '"epoch"' in line]
        epochs = [at - start - JOBS[name]["at"] for at in rows]
        record["jobs"][name] = {"job": name, "seconds": epochs[-1], "epochs": epochs}
    took = ", ".join(f"{name} {job['seconds']:.1f} s, first {FIRST} {job['epochs'][0]:.1f} s"
                     for name, job in record["jobs"].items())
    note(f"{mode:8}  {took}")
    report = json.loads(next(line for _, line in lab.lines if line.startswith("{") and "links" in line))
    return {**record, "seconds": report["seconds"], "links": report["links"]}


def print_table(records, modes):
    """Prints medians over the rounds, and in brackets the ratio to the time under the manager."""
    everyone = list(JOBS)
    last = everyone[-1]

    def median(mode, jobs, value):
        values = [value(r) for r in records if r["mode"] == mode and list(r["jobs"]) == jobs]
        return statistics.median(values) if values else None

    def row(text, unit, value, jobs):
        values = {mode: median(mode, jobs, value) for mode in modes}
        least = values.get("manager")
        cells = ["" if v is None else f"{v:.1f} {unit}" if mode == "manager" or not least else
                 f"{v:.1f} {unit} ({v / least:.2f})" for mode, v in values.items()]
        print(f"| {text} | {' | '.join(cells)} |")

    def uplinks(record):
        return sum(link["bytes"] for link in record["links"] if "spine0" in (link["from"], link["to"])) / 1e6

    def used(record):
        return uplinks(record) * 8e6 / sum(link["rate"] for link in record["links"]
                                           if "spine0" in (link["from"], link["to"])) / record["seconds"] * 100

    print(f"| | {' | '.join(modes)} |\n|---|{'---:|' * len(modes)}")
    for name in everyone:
        row(f"{name}: completed after", "s", lambda r, name=name: r["jobs"][name]["seconds"], everyone)
    row("average", "s", lambda r: statistics.mean(job["seconds"] for job in r["jobs"].values()), everyone)
    row("worst", "s", lambda r: max(job["seconds"] for job in r["jobs"].values()), everyone)
    row(f"{last}: first {FIRST} iterations", "s", lambda r: r["jobs"][last]["epochs"][0], everyone)
    if not SEED:
        row("the same, alone", "s", lambda r: r["jobs"][last]["epochs"][0], [last])
    row("over the uplinks", "MB", uplinks, everyone)
    row("of what they carry", "%", used, everyone)


def main():
    modes = (os.environ.get("MODES") or " ".join(MODES)).split()
    if not set(modes) <= set(MODES):
        sys.exit(f"cluster.py: MODES may be {' '.join(MODES)}")
    records = []
    with open(os.path.join(os.environ["BENCH_OUT"], "cluster.jsonl"), "w", encoding="utf-8") as out:
        for _ in range(int(os.environ.get("ROUNDS") or 1)):
            for mode in modes:
                for jobs in [list(JOBS)] if mode == "shuffled" or SEED else [list(JOBS)[-1:], list(JOBS)]:
                    record = run_once(mode, jobs)
                    if not record:
                        sys.exit(1)
                    records.append(record)
                    out.write(json.dumps(record) + "\n")
    print_table(records, modes)


if __name__ == "__main__":
    main()
