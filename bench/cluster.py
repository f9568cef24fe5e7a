"""Three training jobs on two racks that share one uplink each, 4:1 oversubscribed: under `banyan manager`, and the
same jobs with plain rings and no manager, with ranks in the order of the racks and in a random one.

Started by cluster.sh, which documents the environment. Every run is a lab of its own, built by `banyan lab`. On
each of its hosts this file runs once more (`cluster.py host`), starts the host's agent, and each job's rank at
the job's time. The measurements go into cluster.jsonl, a table to standard output, notes to standard error.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BANYAN = os.environ["BANYAN"]
FASHION = os.path.join(os.path.dirname(BANYAN), "examples", "fashion")
TOPOLOGY = "clos:racks=2,hosts=4,nic=25m,oversub=4"
HOSTS = [f"r{rack}h{host}" for rack in range(2) for host in range(4)]
PORT = 7650
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
RULES = (os.environ.get("RULES") or "").split()


# ---- on a host of the lab


def wait_until(ready, what, limit=30):
    end = time.monotonic() + limit
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"cluster.py: no {what} after {limit} s")
        time.sleep(0.02)


def start_service(words, log):
    with open(log, "w", encoding="utf-8") as file:
        return subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)


def services(run, host):
    """Starts the manager on the first host, and this host's agent. Starts none without a manager."""
    if run["mode"] != "manager":
        return []
    os.environ["BANYAN_KEYS"] = run["keys"]
    folder, started = run["folder"], []
    if host == HOSTS[0]:
        words = [BANYAN, "manager", TOPOLOGY, "--listen", f"{host}:{PORT}", "--interval", "1", "--replan", "10",
                 "--state", os.path.join(folder, "manager.db"), *RULES]
        started.append(start_service(words, os.path.join(folder, "manager.log")))
    socket = os.path.join(folder, f"{host}.sock")
    words = [BANYAN, "agent", "--socket", socket, "--manager", f"{HOSTS[0]}:{PORT}", "--name", host, "--queues", "none"]
    started.append(start_service(words, os.path.join(folder, f"{host}.log")))
    wait_until(lambda: os.path.exists(socket), f"agent on {host}")
    return started


def order_of_ranks(run, job):
    """Returns an order that is not rack by rack, as a scheduler may choose."""
    hosts = list(job["hosts"])
    if run["mode"] == "shuffled":
        random.Random(5).shuffle(hosts)
    return hosts


def start_rank(run, name, job, host):
    folder, hosts = run["folder"], order_of_ranks(run, job)
    rank = hosts.index(host)
    port = PORT + 1 + list(JOBS).index(name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BANYAN_LOCAL_")}
    environment.update(BANYAN_RANK=str(rank), BANYAN_SIZE=str(len(job["hosts"])), BANYAN_JOB=name,
                       BANYAN_ROOT=f"{hosts[0]}:{port}", BANYAN_KEY=f"{run['key']}-{name}", BANYAN_TOPOLOGY="")
    if run["mode"] == "manager":  # The manager replaces no explicit plan.
        environment.update(BANYAN_AGENT=os.path.join(folder, f"{host}.sock"))
    else:
        environment.update(BANYAN_AGENT="off", BANYAN_PLAN="ring")
    words = [FASHION, "--hidden", job["hidden"], "--batch", str(BATCH), "--limit", str(BATCH * FIRST),
             "--epochs", str(job["iterations"] // FIRST), "--quiet", "--json"]
    with open(os.path.join(folder, f"{name}-{host}.err"), "w", encoding="utf-8") as errors:
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True)


def watch_job(run, name, job, host, start):
    """Starts this host's rank and waits for it. The first host writes down the time. Each epoch has FIRST steps,
    and rank 0 prints a line at its end."""
    time.sleep(max(0.0, start + job["at"] - time.time()))
    with start_rank(run, name, job, host) as process:
        epochs = [time.time() - start - job["at"] for line in process.stdout if '"epoch"' in line]
    if process.returncode:
        sys.exit(f"cluster.py: job {name} on {host} ended with {process.returncode}")
    if host == order_of_ranks(run, job)[0]:
        with open(os.path.join(run["folder"], f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump({"job": name, "seconds": time.time() - start - job["at"], "epochs": epochs}, file)


def meet(run, name, host, limit):
    """Waits until all hosts have arrived. Returns when the last one did."""
    folder = os.path.join(run["folder"], name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, host), "w", encoding="utf-8"):
        pass
    wait_until(lambda: len(os.listdir(folder)) == len(HOSTS), f"other hosts that are {name}", limit)
    return max(os.stat(os.path.join(folder, other)).st_mtime for other in HOSTS)


def be_host(path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    host = os.environ["BANYAN_HOST"]
    running = services(run, host)
    start = meet(run, "ready", host, 30) + (2 if run["mode"] == "manager" else 0.5)
    children = []
    for name, job in JOBS.items():
        if host in job["hosts"] and name in run["jobs"]:
            child = os.fork()
            if not child:
                watch_job(run, name, job, host, start)
                os._exit(0)
            children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    meet(run, "done", host, TIME_LIMIT)
    for process in reversed(running):
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    sys.exit(1 if failed else 0)


# ---- outside the lab


def note(text):
    print(text, file=sys.stderr, flush=True)


def certificates(folder):
    """Makes a small authority, and certificates of its manager and agents."""
    keys = os.path.join(folder, "keys")
    make = [BANYAN, "keys", "--keys", keys]
    for words in [["init"], ["make", "manager", HOSTS[0]], *(["make", "agent", host] for host in HOSTS)]:
        subprocess.run([*make, *words], check=True, stdout=subprocess.DEVNULL)
    return keys


def in_lab(folder, run):
    """Runs the jobs. Returns the times of each and the loads of the links, or None after a failure, which is noted."""
    description = os.path.join(folder, "run.json")
    with open(description, "w", encoding="utf-8") as file:
        json.dump(run, file)
    words = [BANYAN, "lab", TOPOLOGY, "--tos", "--json", "--timeout", str(TIME_LIMIT), "--output", "prefix", "--",
             sys.executable, os.path.abspath(__file__), "host", description]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        note(f"exit status {result.returncode}: {' '.join(result.stderr.split())[-400:]}")
        return None
    record = {"mode": run["mode"], "jobs": {}}
    for name in run["jobs"]:
        with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
            record["jobs"][name] = json.load(file)
    report = json.loads(next(line for line in result.stdout.splitlines() if line.startswith("{") and "links" in line))
    return {**record, "seconds": report["seconds"], "links": report["links"]}


def run_once(mode, jobs):
    folder = tempfile.mkdtemp(prefix="banyan-cluster-")
    run = {"mode": mode, "jobs": jobs, "folder": folder, "key": os.urandom(16).hex()}
    try:
        if mode == "manager":
            run["keys"] = certificates(folder)
        record = in_lab(folder, run)
        if record:
            took = ", ".join(f"{name} {job['seconds']:.1f} s, first {FIRST} {job['epochs'][0]:.1f} s"
                             for name, job in record["jobs"].items())
            note(f"{mode:8}  {took}")
        return record
    finally:
        if os.environ.get("KEEP") == "1":
            note(f"logs in {folder}")
        else:
            shutil.rmtree(folder)


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
    if sys.argv[1:2] == ["host"]:
        be_host(sys.argv[2])
    else:
        main()
