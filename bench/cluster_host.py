"""Two jobs on the same two hosts, joined by a link of 100 Mbit/s: how the hosts' queues schedule their operations
together.

Started by cluster.sh. Each job computes (sleeps) for a while, sums 1 MiB, and so on, as training does. There are
three ways: no classes (an ordinary queue of the link's rate), `banyan agent --order share`, and `--order first`,
on both hosts and without a manager. Prints the time of an iteration while both jobs run, and how much of the
link they use.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BANYAN = os.environ["BANYAN"]
HOSTS = {"a": "10.11.0.1", "b": "10.11.0.2"}
RATE, BYTES, PORT = 100e6, 1 << 20, 7700
JOBS = ("earlier", "later")
APART = 1.3  # seconds
ITERATIONS, FIRST = 60, 10  # iterations of a job; after FIRST they are in order
PAUSES = (0.05, 0.1, 0.2)  # seconds for which a job computes; alone it sums for 0.09 s
WAYS = ("none", "share", "first")


def be_rank():
    """Prints the time at which each iteration ended."""
    import numpy
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python"))
    import banyan

    pause, gradients, ends = float(sys.argv[2]), numpy.ones(BYTES // 4, numpy.float32), []
    with banyan.Communicator() as comm:
        for i in range(ITERATIONS):
            comm.step(i)
            time.sleep(pause)
            comm.allreduce(gradients, op="average")
            ends.append(time.time())
        if comm.rank == 0:
            print(json.dumps(ends))


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def space(host):
    return f"banyan-host-{os.getpid()}-{host}"


def inside(host, words, **more):
    return subprocess.Popen(["ip", "netns", "exec", space(host), *words], text=True, **more)


def build(way):
    for host in HOSTS:
        ip("netns", "add", space(host))
    ip("link", "add", "nic", "netns", space("a"), "type", "veth", "peer", "name", "nic", "netns", space("b"))
    for host, address in HOSTS.items():
        ip("-n", space(host), "addr", "add", f"{address}/24", "dev", "nic")
        ip("-n", space(host), "link", "set", "nic", "up")
        ip("-n", space(host), "link", "set", "lo", "up")
        if way == "none":
            subprocess.run(["tc", "-n", space(host), "qdisc", "add", "dev", "nic", "root", "tbf", "rate", f"{RATE:.0f}",
                            "burst", "32k", "latency", "20ms"], check=True)


def pull_down():
    """Ends everything that still runs there, as when the bench is interrupted."""
    for host in HOSTS:
        pids = subprocess.run(["ip", "netns", "pids", space(host)], capture_output=True, text=True, check=False).stdout
        for pid in pids.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", space(host)], check=False)


def start_agents(way, folder):
    agents = []
    for host in HOSTS if way != "none" else ():
        words = [BANYAN, "agent", "--socket", os.path.join(folder, f"{host}.sock"), "--name", host,
                 "--rate", f"{RATE:.0f}", "--queues", "nic", "--order", way, "--interval", "500ms", "--no-helpers"]
        agents.append(inside(host, words, stderr=subprocess.DEVNULL))
    end = time.monotonic() + 10
    while way != "none" and not all(os.path.exists(os.path.join(folder, f"{host}.sock")) for host in HOSTS):
        if time.monotonic() > end:
            sys.exit("cluster_host.py: no agents after 10 s")
        time.sleep(0.02)
    return agents


def start_job(name, way, pause, folder):
    key = subprocess.run([BANYAN, "keys", "job"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    ranks = []
    for rank, host in enumerate(HOSTS):
        environment = dict(os.environ, BANYAN_RANK=str(rank), BANYAN_SIZE=str(len(HOSTS)), BANYAN_JOB=name,
                           BANYAN_HOST=host,
                           BANYAN_ROOT=f"{HOSTS['a']}:{PORT + JOBS.index(name)}", BANYAN_KEY=key,
                           BANYAN_LIBRARY=os.path.join(os.path.dirname(BANYAN), "libbanyan.so.0"),
                           BANYAN_AGENT="off" if way == "none" else os.path.join(folder, f"{host}.sock"))
        ranks.append(inside(host, [sys.executable, os.path.abspath(__file__), "rank", str(pause)], env=environment,
                            stdout=subprocess.PIPE))
    return ranks


def run(way, pause, jobs):
    """Returns the times at which each job's iterations ended."""
    with tempfile.TemporaryDirectory(prefix="banyan-host-") as folder:
        try:
            build(way)
            agents, ranks = start_agents(way, folder), {}
            for name in jobs:
                ranks[name] = start_job(name, way, pause, folder)
                time.sleep(APART)
            outputs = {name: [rank.communicate()[0] for rank in of_job][0] for name, of_job in ranks.items()}
            for agent in agents:
                agent.send_signal(signal.SIGTERM)
                agent.wait()
        finally:
            pull_down()
    return {name: json.loads(text) for name, text in outputs.items()}


def within(ends, begin, end):
    return [b - a for a, b in zip(ends, ends[1:]) if a >= begin and b <= end]


def measure(way, pause):
    ends = run(way, pause, JOBS)
    begin = max(of_job[FIRST + 5] for of_job in ends.values())
    end = min(of_job[-1] for of_job in ends.values())
    times = {name: within(of_job, begin, end) for name, of_job in ends.items()}
    done = sum(len(of_job) for of_job in times.values())
    return {"way": way, "pause": pause, "seconds": end - begin, "used": done * BYTES * 8 / RATE / (end - begin),
            **{name: statistics.mean(of_job) if of_job else None for name, of_job in times.items()}}


def shown(value):
    return f"{value * 1e3:.0f} ms" if value else "-"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("cluster_host.py: told to end"))
    rows = []
    with open(os.path.join(os.environ["BENCH_OUT"], "cluster_host.jsonl"), "w", encoding="utf-8") as out:
        for pause in PAUSES:
            ends = run("none", pause, JOBS[:1])[JOBS[0]]
            alone = statistics.mean(within(ends, ends[FIRST], ends[-1]))
            for way in WAYS:
                row = {**measure(way, pause), "alone": alone}
                rows.append(row)
                out.write(json.dumps(row) + "\n")
                out.flush()
    print("| computes | alone | way | earlier | later | mean | of the link |\n|---:|---:|---|---:|---:|---:|---:|")
    for row in rows:
        mean = statistics.mean(row[name] or row["seconds"] for name in JOBS)
        print(f"| {shown(row['pause'])} | {shown(row['alone'])} | {row['way']} | {shown(row['earlier'])} | "
              f"{shown(row['later'])} | {shown(mean)} | {row['used'] * 100:.0f} % |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        be_rank()
    else:
        main()
