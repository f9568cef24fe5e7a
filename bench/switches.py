"""Times AllReduce with in-network aggregation in labs, beside the same without it and beside a ring.

Started by switches.sh, which documents the environment. Every start is a lab of its own. Each timed call counts
as a run. The measurements go into switches.jsonl, the tables into switches.md; notes go to standard error.
"""

import json
import os
import signal
import statistics
import sys
import time

import machine
from switches_lab import Start, example, star

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("BENCH_OUT") or os.path.join(HERE, "out")
SIZE = int(os.environ.get("MIB") or 8) << 20
STARTS = int(os.environ.get("STARTS") or 4)
CALLS = int(os.environ.get("CALLS") or 5)
PARTS = (os.environ.get("PARTS") or "sums,many,hops1,hops2,hops3,loss,killed,late").split(",")
# At the end of a call ranks send each other one packet over TCP. If it is lost Linux waits 200 ms, which does not
# concern switches.
SHORT_TIMEOUT = ["net.ipv4.tcp_rto_min_us=5000"]
started = time.monotonic()


def note(text):
    print(f"[{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr, flush=True)


def arguments(size=SIZE, calls=CALLS, warmup=1):
    return ["--sizes", str(size), "--iterations", str(calls), "--warmup", str(warmup)]


class Bench:
    def __init__(self):
        self.records = []

    def keep(self, part, network, way, lines, size=SIZE, **more):
        """`lines` are the output of one start. The lab's report comes last."""
        row = next((line for line in lines if "time_us" in line), None)
        links = next((line["links"] for line in lines if "links" in line), [])
        record = {"part": part, "network": network.name, "way": way, "bytes": size, "workers": network.workers,
                  "rate": network.rate, **more}
        if row:
            record |= {"calls": row["calls"], "wrong": row["wrong"], "median": row["time_us"] / 1e6,
                       "least": row["min_us"] / 1e6, "most": row["max_us"] / 1e6}
            record["into_server"] = sum(link["bytes"] for link in links if link["to"] == "server")
            record["lost"] = sum(link["drops"] for link in links)
            note(f"{network.name}, {way}: {row['time_us'] / 1e3:.0f} ms, at most {row['max_us'] / 1e3:.0f}, "
                 f"{8 * size / row['time_us']:.1f} Mbit/s, {row['wrong']} wrong")
        else:
            record["failed"] = True
            note(f"{network.name}, {way}: nothing was measured")
        self.records.append(record)
        with open(os.path.join(OUT, "switches.jsonl"), "a") as file:
            file.write(json.dumps(record) + "\n")
        return record

    def run(self, part, network, way, starts=STARTS, sysctls=()):
        """`way` is xdp, user, none or ring."""
        for _ in range(starts):
            ring = ["--plan", "ring"] if way == "ring" else []
            start = Start(network, None if way == "ring" else way, [*arguments(), *ring], sysctls=sysctls)
            lines = start.finish()
            if not any("time_us" in line for line in lines):
                note("\n".join(start.lines[-12:]))
            self.keep(part, network, way, lines)

    # ---- questions to switches

    def sums(self):
        """Measures the benefit of aggregating switches on the same links, in turns."""
        for _ in range(STARTS):
            for way in ("xdp", "user", "none", "ring"):
                self.run("sums", star(4), way, 1)
            self.run("sums", star(4).without_cells(), "xdp", 1)

    def many(self):
        """Measures with more workers."""
        for n in (6, 8):
            self.run("many", star(n), "xdp")

    def over(self, part, network):
        """Measures with different numbers of switches, at both rates, with both kinds."""
        for scale in (1, 3):
            for way in ("xdp", "user"):
                self.run(part, network(scale), way)

    def hops1(self):
        self.over("hops1", lambda scale: star(4, scale))

    def hops2(self):
        self.over("hops2", lambda scale: example("adding-2", scale))

    def hops3(self):
        self.over("hops3", lambda scale: example("adding-3", scale))

    def loss(self):
        for network in (star(4), example("adding-2")):
            for way in ("xdp", "user"):
                self.run("loss", network.with_loss(1e-9), way, 2)
                self.run("loss", network.with_loss(0.01), way, sysctls=SHORT_TIMEOUT)

    # ---- faults

    def disturb(self, part, network, way, text, act, size=32 << 20):
        start = Start(network, way, arguments(size, 3, 0))
        start.await_start(2)
        act(start)
        return self.keep(part, network, f"{way}, {text}", start.finish(), size, said=start.lines[-20:])

    def killed(self):
        for way in ("xdp", "user"):
            for network, name in ((star(4), "s"), (example("adding-2"), "leaf0"), (example("adding-2"), "root")):
                def again(start, pause=0.3, name=name):
                    start.kill_switch(name)
                    time.sleep(pause)
                    start.start_switch(name)

                self.disturb("killed", network, way, f"{name} killed and started again", again)
                self.disturb("killed", network, way, f"{name} replaced", lambda start, name=name: start.start_switch(name))
                self.disturb("killed", network, way, f"{name} killed for good",
                             lambda start, name=name: start.kill_switch(name))

    def late(self):
        """Suspends a rank for 2 s during a call."""
        def hold(start):
            victim = sorted(start.ranks())[-1]
            os.kill(victim, signal.SIGSTOP)
            time.sleep(2)
            os.kill(victim, signal.SIGCONT)

        for way in ("xdp", "user"):
            self.disturb("late", star(4), way, "undisturbed", lambda start: None)
            self.disturb("late", star(4), way, "a worker 2 s late", hold)


# ---- tables

def goodput(record):
    return 8 * record["bytes"] / record["median"] / 1e6


def rows_of(records, parts):
    keys = dict.fromkeys((r["network"], r["way"]) for r in records if r["part"] in parts)
    for key in keys:
        mine = [r for r in records if r["part"] in parts and (r["network"], r["way"]) == key]
        yield key, [r for r in mine if "median" in r], len(mine)


def table(records):
    yield ("| network | way | Mbit/s a worker | starts: worst, best | calls | slowest call | least slow | into the server, of all that was "
           "summed | wrong |")
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for (network, way), good, n in rows_of(records, ("sums", "many", "hops1", "hops2", "hops3", "loss")):
        if not good:
            yield f"| {network} | {way} | failed | | | | | | |"
            continue
        rates = sorted(map(goodput, good))
        calls = sum(r["calls"] for r in good)
        share = statistics.median(r["into_server"] / ((r["calls"] + 2) * r["bytes"] * r["workers"]) for r in good)
        yield (f"| {network} | {way} | {statistics.median(rates):.1f} | {rates[0]:.1f}, {rates[-1]:.1f} | {calls} "
               f"| {1e3 * max(r['most'] for r in good):.0f} ms | {1e3 * min(r['least'] for r in good):.0f} ms "
               f"| {'-' if way == 'ring' else f'{share:.3f}'} | {sum(r['wrong'] for r in good)}"
               f"{'' if len(good) == n else f', {n - len(good)} starts failed'} |")


def disturbances(records):
    yield "| network | what happens | median call | slowest call | into the server | wrong |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for record in records:
        if record["part"] not in ("killed", "late"):
            continue
        if "median" not in record:
            yield f"| {record['network']} | {record['way']} | failed | | | |"
            continue
        yield (f"| {record['network']} | {record['way']} | {record['median']:.2f} s | {record['most']:.2f} s "
               f"| {record['into_server'] / 2**20:.0f} MiB | {record['wrong']} |")


def summary(records):
    def median(network, way, part="sums"):
        values = [goodput(r) for r in records if (r["part"], r["network"], r["way"]) == (part, network, way)
                  and "median" in r]
        return statistics.median(values) if values else None

    name = star(4).name
    added = median(name, "xdp")
    for text, other, goal in (("switches that only forward", median(name, "none"), 3.5),
                              ("the ring", median(name, "ring"), 1.35)):
        if added and other:
            yield f"Times {text}: {added / other:.2f} (goal {goal}{'' if added / other >= goal else ', **missed**'})."
    for network in dict.fromkeys(r["network"] for r in records if r["part"] == "loss" and "1 %" in r["network"]):
        for way in ("xdp", "user"):
            lossy, plain = median(network, way, "loss"), median(network.replace(" 1 %", " 1e-07 %"), way, "loss")
            if lossy and plain:
                yield f"{network}, {way}: {100 * lossy / plain:.0f} % of the goodput without (goal 85 %)."


def main():
    os.makedirs(OUT, exist_ok=True)
    about = machine.describe()
    bench = Bench()
    for part in PARTS:
        getattr(bench, part)()
    head = (f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, {about['date']}, commit "
            f"{about['commit']}; float32 AllReduce of {SIZE >> 20} MiB.")
    text = "\n".join([head, "", *table(bench.records), "", *summary(bench.records), "", *disturbances(bench.records)])
    with open(os.path.join(OUT, "switches.md"), "w") as file:
        file.write(text + "\n")
    print(text)
    return 1 if any(r.get("wrong") or r.get("failed") for r in bench.records) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
