"""Times AllReduce on networks that `banyan lab` builds: plans of the planner, the best ring, Gloo and Open MPI, in
turn.

Started by lab.sh, which documents the environment. Every start of a program is a lab of its own. Peers are tried
once with every algorithm, and the fastest of each is timed in the rounds. The measurements go into lab.jsonl,
the tables into lab.md. Notes go to standard error.
"""

import json
import os
import signal
import statistics
import sys
import tempfile

import lab_cases
import lab_start
import lab_tables
import machine
from lab_start import note

OUT = os.environ["BENCH_OUT"]
BANYAN = os.environ["BANYAN"]
BYTES = lab_cases.parse_size(os.environ.get("BYTES") or "16M")
ROUNDS = int(os.environ.get("ROUNDS") or 4)
CALLS = int(os.environ.get("CALLS") or 5)
PEERS = os.environ.get("PEERS") != "0"
SLOW = 1.9  # seconds of a call from which on two calls in each round suffice
RECORDS = os.path.join(OUT, "lab.jsonl")

def run_banyan(case, plan, calls, warmup=("--warmup", "1")):
    return lab_start.in_lab(case.topology, case.scale,
                            ["banyan", "bench", "allreduce", "--sizes", str(BYTES), "--plan", plan, "--iterations",
                             str(calls), *warmup, "--json"])


def run_peer(case, variant, calls):
    return lab_start.run_peer(case.topology, case.scale, variant, "--sizes", str(BYTES), "--calls", str(calls))


class Bench:
    def __init__(self):
        self.records = []
        if os.environ.get("KEEP") == "1" and os.path.exists(RECORDS):
            with open(RECORDS) as file:
                self.records = [json.loads(line) for line in file]

    def keep(self, **record):
        self.records.append(record)
        with open(RECORDS, "w") as file:
            file.writelines(json.dumps(one) + "\n" for one in self.records)

    def times(self, case, what, key):
        return [r["seconds"] for r in self.records if (r["case"], r["what"], r["key"]) == (case.name, what, key)]

    def note_times(self, case, what, impl, key, rows):
        for row in rows:
            if "time_us" not in row:
                continue
            self.keep(case=case.name, what=what, impl=impl, key=key, calls=row["calls"], wrong=row["wrong"],
                      seconds=row["time_us"] / 1e6, least=row["min_us"] / 1e6, most=row["max_us"] / 1e6)
            note(f"{case.name}: {key} {row['time_us'] / 1e3:.0f} ms" + (", WRONG" if row["wrong"] else ""))

    def try_peers(self, case):
        for variant in lab_cases.VARIANTS:
            exists = os.access(os.path.join(OUT, "bin", variant.program), os.X_OK)
            if exists and not self.times(case, "trial", variant.key):
                self.note_times(case, "trial", variant.impl, variant.key, run_peer(case, variant, 1))

    def best_peers(self, case):
        for impl in sorted({variant.impl for variant in lab_cases.VARIANTS}):
            mine = [(min(times), variant) for variant in lab_cases.VARIANTS if variant.impl == impl
                    for times in [self.times(case, "trial", variant.key)] if times]
            if mine:
                yield min(mine, key=lambda one: one[0])[1]

    def calls_for(self, case, key):
        known = self.times(case, "round", key) + self.times(case, "trial", key)
        return 2 if known and statistics.median(known) > SLOW else CALLS

    def round(self, case, number):
        turns = [("banyan", "banyan, plan", case.plan), ("banyan", "banyan, ring", case.ring)]
        if case.peers and PEERS:
            turns += [(variant.impl, variant.key, variant) for variant in self.best_peers(case)]
        for impl, key, how in turns if number % 2 == 0 else turns[::-1]:
            calls = self.calls_for(case, key)
            rows = run_banyan(case, how, calls) if impl == "banyan" else run_peer(case, how, calls)
            self.note_times(case, "round", impl, key, rows)

    def count_links(self, case):
        """Measures what one call sends over every link: the difference between six and two calls."""
        if any(r["case"] == case.name and r["what"] == "links" for r in self.records):
            return
        few, many = (run_banyan(case, case.plan, calls, ("--warmup", "0"))[-1]["links"] for calls in (2, 6))
        self.keep(case=case.name, what="links", key="", seconds=0,
                  links=[{"from": a["from"], "to": a["to"], "bytes": (b["bytes"] - a["bytes"]) / 4}
                         for a, b in zip(few, many)])


def main():
    os.makedirs(OUT, exist_ok=True)
    about = machine.describe()
    wanted = os.environ.get("CASES")
    bench = Bench()
    with tempfile.TemporaryDirectory(dir=OUT) as scratch:
        cases = [case for case in lab_cases.make_all(BANYAN, scratch) if not wanted or case.name in wanted.split(",")]
        if PEERS:
            for case in cases:
                if case.peers:
                    bench.try_peers(case)
        for number in range(ROUNDS):
            for case in cases:
                bench.round(case, number)
        for case in cases:
            bench.count_links(case)
        text = lab_tables.document(cases, bench.records, about, BYTES)
    with open(os.path.join(OUT, "lab.md"), "w") as file:
        file.write(text + "\n")
    print(text)
    return 1 if any(record.get("wrong") for record in bench.records) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
