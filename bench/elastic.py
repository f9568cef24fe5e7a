#!/usr/bin/env python3
"""Trains on Fashion-MNIST while a process is killed every few seconds and started again, and without that.

    BANYAN=build/banyan python3 bench/elastic.py

Reports the accuracy of each seed and their medians, and the time from each death to the next step of those that are left.
Beside it, in the same run, torchrun starts all ranks of the same training again from their last checkpoint
(bench/elastic_checkpoint.py), when one is killed; the next death comes as long after its next step as with Banyan.
By default it takes some 10 minutes, with 8 deaths or more of each seed. On a machine that does other work start it with chrt -r 1.
"""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 900  # seconds of one training


class Log:
    """What the processes of a training have written."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        """(time, event, step, processes, process number)"""
        if not self.path.exists():
            return []
        parts = [line.split() for line in self.path.read_text().splitlines()]
        return [(float(p[0]), p[1], int(p[2]), int(p[3]), int(p[4])) for p in parts if len(p) == 5]

    def members(self):
        """Processes that have been in a membership, and live."""
        return [number for number in {line[4] for line in self.lines() if line[1] == "change"} if lives(number)]

    def progress(self, death):
        """The time of the first step in a membership that began after the death; None: there is none yet."""
        change = next((t for t, event, *_ in self.lines() if event == "change" and t > death), None)
        return change and next((t for t, event, *_ in self.lines() if event == "step" and t > change), None)

    def accuracy(self):
        found = [line[1] for line in self.lines() if line[1].startswith("accuracy=")]
        return float(found[-1].split("=")[1]) if found else None


def lives(number):
    try:
        with open(f"/proc/{number}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def command(kind, given, seed, folder):
    common = [f"--epochs={given.epochs}", f"--seed={seed}", f"--trace={folder / 'log'}"]
    if kind == "torchrun":
        script = [str(ROOT / "bench" / "elastic_checkpoint.py"), f"--checkpoint={folder / 'checkpoint'}"]
        return [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={given.ranks}", "--max_restarts=1000",
                "--monitor_interval=0.1", "--standalone", *script, *common]
    script = [sys.executable, str(ROOT / "examples" / "elastic" / "train.py")]
    return [given.banyan, "run", f"-n{given.ranks}", "--min=1", "--restarts=1000", "--", *script, *common]


def train(kind, given, seed, kill, deaths_most=None):
    """One training: its accuracy, and the seconds from each death to progress."""
    took = []
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        log = Log(folder / "log")
        with open(folder / "output", "wb") as output:
            job = subprocess.Popen(command(kind, given, seed, folder), stdout=output, stderr=output,
                                   start_new_session=True)
        begun, death, next_kill = time.monotonic(), None, None
        try:
            while job.poll() is None:
                time.sleep(0.02)
                now = time.monotonic()
                if now - begun > LIMIT:
                    raise TimeoutError(f"{kind}, seed {seed}: not done after {LIMIT} s")
                if death is not None:
                    progress = log.progress(death)
                    if progress:
                        took.append(progress - death)
                        death = None
                        if kind == "torchrun":
                            next_kill = progress + given.every
                        if deaths_most and len(took) >= deaths_most:
                            return None, took
                elif kill and any(line[1] == "step" for line in log.lines()):
                    next_kill = next_kill or now + given.every
                    members = log.members()
                    if now >= next_kill and len(members) > 1:
                        death = time.monotonic()
                        os.kill(draw.choice(members), signal.SIGKILL)
                        next_kill = max(next_kill + given.every, now)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGTERM)
                job.wait()
        reached = log.accuracy()
        if reached is None:  # one that was killed at the very end makes the job fail, after its result
            sys.exit(f"{kind}, seed {seed}: ended with {job.returncode}:\n" + (folder / "output").read_text()[-4000:])
        return reached, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--every", type=float, default=5, help="seconds from one death to the next")
    parser.add_argument("--torchrun", type=int, default=3, help="deaths under torchrun")
    given = parser.parse_args()
    given.banyan = os.environ.get("BANYAN", "banyan")
    os.environ["OMP_NUM_THREADS"] = "1"
    quiet, disturbed, deaths = [], [], []
    print(f"{given.ranks} processes, {given.epochs} epochs, a death each {given.every:g} s; load {os.getloadavg()[0]:.1f} "
          "before", flush=True)
    for seed in range(1, given.seeds + 1):
        quiet.append(train("banyan", given, seed, False)[0])
        print(f"seed {seed}: accuracy {100 * quiet[-1]:.2f} % without deaths", flush=True)
        reached, took = train("banyan", given, seed, True)
        disturbed.append(reached)
        deaths += took
        print(f"seed {seed}: accuracy {100 * reached:.2f} % with {len(took)} deaths, progress after "
              f"{' '.join(f'{seconds:.3f}' for seconds in took)} s", flush=True)
    restarts = train("torchrun", given, 1, True, given.torchrun)[1] if given.torchrun else []
    difference = 100 * (statistics.median(disturbed) - statistics.median(quiet))
    print(f"median of {given.seeds} seeds: {100 * statistics.median(quiet):.2f} % without deaths, "
          f"{100 * statistics.median(disturbed):.2f} % with, {difference:+.2f} points")
    ours = statistics.median(deaths)
    print(f"from death to progress: median {ours:.3f} s, at most {max(deaths):.3f} s, of {len(deaths)} deaths")
    if restarts:
        theirs = statistics.median(restarts)
        print(f"torchrun from checkpoints: median {theirs:.3f} s, at least {min(restarts):.3f} s, of {len(restarts)} "
              f"deaths: {theirs / ours:.0f} times as long")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # The job has a session of its own and would go on.
    main()
