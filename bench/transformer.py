#!/usr/bin/env python3
"""Times steps of examples/pytorch/transformer.py over Banyan and over Gloo, in turns, each training a job of its own.

    BANYAN=build/banyan python3 bench/transformer.py --sharded
    BANYAN=build/banyan python3 bench/transformer.py --sharded --lab star:2,nic=1g          # as root

Prints the seconds of a step in each round, their medians, and the ratio of both in each round. Further options are
those of the example.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "pytorch" / "transformer.py"
BACKENDS = ("banyan", "gloo")
LIMIT = 600  # seconds of one training


def step_time(backend, options, others):
    """The median over the lines of progress of one training, each of which is the mean of some steps."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        start = ["lab", options.lab] if options.lab else ["run", "-n", str(options.ranks)]
        command = [options.banyan, *start, "--", sys.executable, str(EXAMPLE), f"--backend={backend}", f"--log={log}",
                   f"--every={options.every}", f"--steps={options.steps}", *others]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        with open(log, encoding="utf-8") as file:
            rows = [(float(row["time"]), int(row["step"])) for row in csv.DictReader(file)]
    return statistics.median((t2 - t1) / (s2 - s1) for (t1, s1), (t2, s2) in zip(rows, rows[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banyan", default=os.environ.get("BANYAN", "banyan"))
    parser.add_argument("--lab", help="a topology to run on; default: this machine")
    parser.add_argument("--ranks", type=int, default=2, help="without --lab")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--every", type=int, default=5)
    options, others = parser.parse_known_args()
    times = {backend: [] for backend in BACKENDS}
    for i in range(options.rounds):
        for backend in BACKENDS if i % 2 else BACKENDS[::-1]:
            times[backend].append(step_time(backend, options, others))
        print(f"round {i + 1}: " + ", ".join(f"{backend} {times[backend][-1] * 1e3:.1f} ms" for backend in BACKENDS),
              flush=True)
    ours, theirs = (statistics.median(times[backend]) for backend in BACKENDS)
    ratios = [own / gloo for own, gloo in zip(times["banyan"], times["gloo"])]
    print(f"median: banyan {ours * 1e3:.1f} ms, gloo {theirs * 1e3:.1f} ms; banyan / gloo {ours / theirs:.3f}, "
          f"of a round {min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
