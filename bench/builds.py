#!/usr/bin/env python3
"""Compares two builds of the `banyan` command, cell by cell: ranks, transport, collective and size.

usage: bench/builds.py OLD NEW [--ranks 2,4] [--transports shm,tcp] [--collectives allreduce] [--sizes 8,64K,16M]
                       [--rounds 8] [--budget 0.2s] [--counters]

Rounds run OLD NEW NEW OLD and NEW OLD OLD NEW in turn, so that neither a machine that becomes slower or faster nor the
place in a round favours one of them. Of each cell the table
has the median times, the median over the rounds of NEW's time to OLD's, and the noise: what the median would be if both
were the same build, taken from the two runs of each build in a round. A cell is marked where the ratio is beyond the
noise; a few of many cells are so by chance. With --counters the table also has frames, sleeps and wake-ups a call, which
do not depend on the load as times do. Returns 1 if a cell is slower beyond the noise.
"""

import argparse
import itertools
import json
import math
import random
import statistics
import subprocess
import sys

COUNTERS = ("frames_per_call", "sleeps_per_call", "wakes_per_call")
RESAMPLED = 1000


def run(binary, cell, sizes, budget):
    """Returns {bytes: record} of one run of all sizes."""
    collective, ranks, transport = cell
    command = [binary, "bench", collective, "-n", str(ranks), "-t", transport, "-s", sizes, "--budget", budget,
               "--json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if found.returncode:
        sys.exit(f"{' '.join(command)}: exit code {found.returncode}: {found.stderr.strip()[-400:]}")
    records = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return {record["bytes"]: record for record in records if "time_us" in record}


def noise(pairs, rounds):
    """How far from 1 the median of so many ratios between runs of one build is in 95 of 100 samples."""
    draw = random.Random(1)
    off = sorted(abs(statistics.median(draw.choice((x, -x)) for x in draw.choices(pairs, k=rounds)))
                 for _ in range(RESAMPLED))
    return math.exp(off[int(0.95 * RESAMPLED)])


def judge(rounds):
    """Of a cell's rounds, each a pair of times of OLD and one of NEW: the medians, the ratio and the noise."""
    old = statistics.median(time for pair, _ in rounds for time in pair)
    new = statistics.median(time for _, pair in rounds for time in pair)
    ratios = [math.log(new1 * new2 / (old1 * old2)) / 2 for (old1, old2), (new1, new2) in rounds]
    # Two runs of one build differ by sqrt(2) times as much as the means of two runs do.
    same = [math.log(first / second) / math.sqrt(2) for pairs in rounds for first, second in pairs]
    return old, new, math.exp(statistics.median(ratios)), noise(same, len(rounds))


def words(text):
    return text.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--ranks", type=words, default=["2", "4"])
    parser.add_argument("--transports", type=words, default=["shm", "tcp"])
    parser.add_argument("--collectives", type=words, default=["allreduce"])
    parser.add_argument("--sizes", default="8,64K,16M")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--budget", default="0.2s")
    parser.add_argument("--counters", action="store_true")
    options = parser.parse_args()
    cells = list(itertools.product(options.collectives, options.ranks, options.transports))
    times, counts = {}, {}
    for number in range(options.rounds):
        for cell in cells:
            runs = {0: [], 1: []}  # of OLD and of NEW
            for build in (0, 1, 1, 0) if number % 2 == 0 else (1, 0, 0, 1):
                runs[build].append(run((options.old, options.new)[build], cell, options.sizes, options.budget))
            for size in runs[0][0]:
                times.setdefault((cell, size), []).append([[found[size]["time_us"] for found in runs[build]]
                                                           for build in (0, 1)])
                for build, name in itertools.product((0, 1), COUNTERS):
                    counts.setdefault((cell, size, name, build), []).extend(found[size][name] for found in runs[build])
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    slower = False
    print(f"{'collective':15} ranks transport      bytes     old us     new us  ratio  noise")
    for (cell, size), rounds in times.items():
        old, new, ratio, most = judge(rounds)
        mark = "slower" if ratio > most else "faster" if ratio < 1 / most else ""
        slower |= mark == "slower"
        print(f"{cell[0]:15} {cell[1]:>5} {cell[2]:9} {size:10} {old:10.1f} {new:10.1f} {ratio:6.3f} {most:6.3f}  {mark}")
        for name in COUNTERS if options.counters else ():
            old, new = (statistics.median(counts[cell, size, name, build]) for build in (0, 1))
            print(f"  {name}: {old:g}, {new:g}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
