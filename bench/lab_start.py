"""Starts programs in labs: Banyan's, and those of the peers. lab.sh documents the environment."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ["BENCH_OUT"]
BANYAN = os.environ["BANYAN"]
TIME_LIMIT = 120  # seconds of one start
started = time.monotonic()


def note(text):
    print(f"[{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr, flush=True)


def program(name):
    return os.path.join(OUT, "bin", name)


def in_lab(topology, scale, command, options=(), limit=TIME_LIMIT):
    """Returns the JSON lines of a command that runs on every host of the topology, whose rates are divided by `scale`,
    and then those of the lab itself."""
    words = [BANYAN, "lab", topology, "--scale", f"1/{scale}", "--json", "--output", "rank0", "--timeout", str(limit),
             *options, "--", *command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=limit + 30)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()
    if process.returncode:
        note(f"exit status {process.returncode}: {' '.join(err.split())[-300:]}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def run_peer(topology, scale, variant, *arguments, limit=TIME_LIMIT):
    meet = tempfile.mkdtemp(dir=OUT)
    peer = [program(variant.program), "--algorithm", variant.algorithm, *arguments]
    try:
        if variant.impl == "gloo":
            return in_lab(topology, scale, [*peer, "--meet", meet], limit=limit)
        mpirun = [os.path.join(HERE, "lab_mpirun.sh"), meet, *variant.arguments]
        return in_lab(topology, scale, [*mpirun, *peer], limit=limit)
    finally:
        shutil.rmtree(meet, ignore_errors=True)
