"""Times reduce_scatter, allgather, broadcast, alltoall and steps of sharded training on networks that `banyan lab`
builds: Banyan with the plan for the topology, Gloo and Open MPI, in turn.

Started by lab.sh, which documents the environment. Every start of a program is a lab of its own. Open MPI is tried
once with every algorithm, and the fastest is timed in the rounds; Gloo has one of each collective. The measurements go
into collectives.jsonl, the tables into collectives.md. Notes go to standard error.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

import lab_cases
import lab_start
import machine
from lab_cases import Variant
from lab_start import note

OUT = os.environ["BENCH_OUT"]
BANYAN = os.environ["BANYAN"]
BYTES = lab_cases.parse_size(os.environ.get("BYTES") or "16M")
ROUNDS = int(os.environ.get("ROUNDS") or 4)
CALLS = int(os.environ.get("CALLS") or 5)
PEERS = os.environ.get("PEERS") != "0"
RECORDS = os.path.join(OUT, "collectives.jsonl")
GOAL = 0.9  # of the bound
SLOW = 1.9  # seconds of a call from which on two calls in each round suffice
SHARDED_LIMIT = 600  # seconds of one start with two steps

# GPT-2 small, two bytes for each parameter: embeddings of 50257 words and 1024 positions with the last norm, 12 blocks.
WIDTH, BLOCKS = 768, 12
MODEL = os.environ.get("MODEL") or ",".join(
    str(2 * count) for count in [(50257 + 1024 + 2) * WIDTH, *[12 * WIDTH * WIDTH + 13 * WIDTH] * BLOCKS])

COLLECTIVES = ["reduce_scatter", "allgather", "broadcast", "alltoall"]
CASES = {"star-unequal": ("star-unequal", 1), "two-sites": ("two-sites", 1), "sparse-12-half": ("sparse-12", 2)}
SHARDED_CASES = ["star-unequal"]

SEGMENTS = ["--mca", "coll_tuned_bcast_algorithm_segmentsize", "64K"]
OPENMPI = {  # by the numbers of `ompi_info --param coll tuned --level 9`
    "reduce_scatter": {"non-overlapping": 1, "recursive_halving": 2, "ring": 3, "butterfly": 4},
    "allgather": {"bruck": 2, "recursive_doubling": 3, "ring": 4, "neighbor": 5},
    "broadcast": {"chain": 2, "pipeline": 3, "split_binary_tree": 4, "binomial": 6, "scatter_allgather_ring": 9},
    "alltoall": {"linear": 1, "pairwise": 2, "modified_bruck": 3, "linear_sync": 4},
}


def tuned(collective, algorithm):
    """Arguments of mpirun; "default" lets Open MPI choose."""
    if algorithm == "default":
        return []
    name = {"broadcast": "bcast"}.get(collective, collective)
    return ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", f"coll_tuned_{name}_algorithm",
            str(OPENMPI[collective][algorithm]), *(SEGMENTS if collective == "broadcast" else [])]


def openmpi(collective, algorithm):
    return Variant("openmpi", algorithm, "peer_openmpi", tuned(collective, algorithm))


class Case:
    def __init__(self, name, scratch):
        topology, self.scale = CASES[name]
        self.name, self.topology = name, os.path.join(lab_cases.TOPOLOGIES, topology + ".json")
        self.plan = os.path.join(scratch, name + ".json")
        self.bounds = {collective: self.bound(collective) for collective in COLLECTIVES}

    def bound(self, collective):
        """Returns bit/s of the whole buffer, and keeps the plan."""
        done = subprocess.run([BANYAN, "plan", self.topology, "--collective", collective, "--explain", "--json"],
                              check=True, capture_output=True, text=True)
        with open(self.plan, "w") as file:
            file.write(done.stdout)
        return json.loads(done.stderr)["collective"]["bound"] / self.scale

    def least(self, collective, size):
        """Returns the seconds that the payload takes at the bound, without headers."""
        return 8 * size / self.bounds[collective]


class Bench:
    def __init__(self):
        self.records = []
        if os.environ.get("KEEP") == "1" and os.path.exists(RECORDS):
            with open(RECORDS) as file:
                self.records = [json.loads(line) for line in file]

    def keep(self, case, collective, what, impl, algorithm, rows):
        for row in rows:
            if "time_us" not in row:
                continue
            self.records.append({"case": case.name, "collective": collective, "what": what, "impl": impl,
                                 "algorithm": algorithm, "calls": row["calls"], "wrong": row["wrong"],
                                 "bytes": row["bytes"], "seconds": row["time_us"] / 1e6, "least": row["min_us"] / 1e6,
                                 "most": row["max_us"] / 1e6})
            note(f"{case.name}: {collective}, {impl} {algorithm} {row['time_us'] / 1e3:.0f} ms" +
                 (", WRONG" if row["wrong"] else ""))
        with open(RECORDS, "w") as file:
            file.writelines(json.dumps(one) + "\n" for one in self.records)

    def find(self, case, collective, what, impl, algorithm=None):
        return [r for r in self.records
                if (r["case"], r["collective"], r["what"], r["impl"]) == (case.name, collective, what, impl)
                and algorithm in (None, r["algorithm"])]

    def run(self, case, collective, what, variant, calls):
        rows = lab_start.run_peer(case.topology, case.scale, variant, "--collective", collective, "--sizes", str(BYTES),
                                  "--barrier", "--calls", str(calls))
        self.keep(case, collective, what, variant.impl, variant.algorithm, rows)

    def try_peers(self, case, collective):
        for algorithm in ["default", *OPENMPI[collective]]:
            if not self.find(case, collective, "trial", "openmpi", algorithm):
                self.run(case, collective, "trial", openmpi(collective, algorithm), 1)

    def best(self, case, collective):
        tried = self.find(case, collective, "trial", "openmpi")
        return min(tried, key=lambda r: r["seconds"])["algorithm"] if tried else "default"

    def calls_for(self, case, collective):
        tried = self.find(case, collective, "trial", "openmpi")
        return min(CALLS, 2) if tried and min(r["seconds"] for r in tried) > SLOW else CALLS

    def round(self, case, collective, number):
        calls = self.calls_for(case, collective)
        turns = [None]
        if PEERS:
            turns += [Variant("gloo", "", "peer_gloo"), openmpi(collective, self.best(case, collective))]
        for variant in turns if number % 2 == 0 else turns[::-1]:
            if variant:
                self.run(case, collective, "round", variant, calls)
                continue
            rows = lab_start.in_lab(case.topology, case.scale,
                                    ["banyan", "bench", collective, "--sizes", str(BYTES), "--plan", case.plan,
                                     "--barrier", "--iterations", str(calls), "--warmup", "1", "--json"])
            self.keep(case, collective, "round", "banyan", "", rows)

    def sharded_turn(self, case, impl):
        steps = ["--collective", "sharded", "--sizes", MODEL, "--calls", "1"]
        if impl == "banyan":
            return lab_start.in_lab(case.topology, case.scale, [lab_start.program("peer_banyan"), *steps],
                                    ("-x", f"BANYAN_PLAN={case.plan}"), SHARDED_LIMIT)
        variant = Variant("gloo", "", "peer_gloo")
        if impl == "openmpi":
            variant = Variant(impl, "", "peer_openmpi", [word for collective in ("allgather", "reduce_scatter")
                                                         for word in tuned(collective, self.best(case, collective))])
        return lab_start.run_peer(case.topology, case.scale, variant, *steps, limit=SHARDED_LIMIT)

    def sharded(self, case, number):
        turns = ["banyan", "gloo", "openmpi"] if PEERS else ["banyan"]
        for impl in turns if number % 2 == 0 else turns[::-1]:
            self.keep(case, "sharded", "round", impl, "", self.sharded_turn(case, impl))


def figure(records):
    if not records:
        return None, "-"
    median = statistics.median(r["seconds"] for r in records)
    spread = f"{1e3 * min(r['least'] for r in records):.0f} to {1e3 * max(r['most'] for r in records):.0f}"
    return median, f"{1e3 * median:.0f} ({spread}) {records[0]['algorithm']}".rstrip()


def row(bench, case, collective, least):
    (mine, text), *others = (figure(bench.find(case, collective, "round", impl)) for impl in
                             ("banyan", "gloo", "openmpi"))
    best = min((median for median, _ in others if median), default=None)
    share = least / mine if mine else 0
    missed = " **missed**" if collective not in ("alltoall", "sharded") and share < GOAL else ""
    return (f"| {case.name} | {collective} | {text} | {others[0][1]} | {others[1][1]} | {1e3 * least:.0f} | "
            f"{share:.3f}{missed} | " + (f"{mine / best:.2f} |" if mine and best else "- |"))


def document(cases, bench, wanted):
    about = machine.describe()
    yield (f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, {about['date']}, commit "
           f"{about['commit']}; {BYTES >> 20} MiB of float32, reno; Open MPI {about['openmpi']}, Gloo {about['gloo']}; "
           f"load before: {about['load_before']:.1f}.")
    yield ("\nMilliseconds: median of the rounds, and in brackets the least and the greatest of all calls. The bound is "
           "the certified one, without headers, which take 4.4 %.\n")
    yield "| network | collective | plan | Gloo | Open MPI | bound | bound / plan | plan / best peer |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
        for collective in wanted:
            if collective in COLLECTIVES and bench.find(case, collective, "round", "banyan"):
                yield row(bench, case, collective, case.least(collective, BYTES))
        if bench.find(case, "sharded", "round", "banyan"):
            size = bench.find(case, "sharded", "round", "banyan")[0]["bytes"]
            yield row(bench, case, "sharded", 2 * case.least("allgather", size) + case.least("reduce_scatter", size))


def main():
    os.makedirs(OUT, exist_ok=True)
    names = (os.environ.get("CASES") or ",".join(CASES)).split(",")
    wanted = (os.environ.get("COLLECTIVES") or ",".join([*COLLECTIVES, "sharded"])).split(",")
    unknown = [name for name in names if name not in CASES] + \
              [name for name in wanted if name not in COLLECTIVES and name != "sharded"]
    if unknown:
        sys.exit(f"bench: there is no {', '.join(unknown)}; CASES: {', '.join(CASES)}; COLLECTIVES: "
                 f"{', '.join(COLLECTIVES)}, sharded")
    bench = Bench()
    with tempfile.TemporaryDirectory(dir=OUT) as scratch:
        cases = [Case(name, scratch) for name in names]
        for case in cases if PEERS else []:
            for collective in [name for name in wanted if name in COLLECTIVES]:
                bench.try_peers(case, collective)
        for number in range(ROUNDS):
            for case in cases:
                for collective in [name for name in wanted if name in COLLECTIVES]:
                    bench.round(case, collective, number)
                if "sharded" in wanted and case.name in SHARDED_CASES:
                    bench.sharded(case, number)
        text = "\n".join(document(cases, bench, wanted))
    with open(os.path.join(OUT, "collectives.md"), "w") as file:
        file.write(text + "\n")
    print(text)
    return 1 if any(record["wrong"] for record in bench.records) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
