"""Starts one variant and reads its output. Nothing that was started outlives the call."""

import json
import os
import signal
import subprocess
import sys
import time

TIME_LIMIT = 30  # seconds a variant may take for all sizes
SLICED_LIMIT = 15  # the same for a variant whose ranks wait for the kernel's time slices
started = time.monotonic()


def note(text):
    print(f"[{time.monotonic() - started:4.0f} s] {text}", file=sys.stderr, flush=True)


def stop(process):
    """Asks mpirun to end its ranks, and kills the group of a process that does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(variant, sizes, budget, in_place):
    """Returns the records of one start of the program, fewer than sizes if it failed; and the error, or ''."""
    command = variant.command + ["--sizes", ",".join(map(str, sizes)), "--budget", str(budget)]
    if variant.impl != "banyan":
        command += ["--algorithm", variant.algorithm]
    if in_place:
        command += ["--in-place"]
    environment = dict(os.environ, **variant.environment)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    trouble = ""
    limit = SLICED_LIMIT if variant.sliced else TIME_LIMIT
    try:
        out, err = process.communicate(timeout=limit)
        if process.returncode:
            words = " ".join(err.split())
            trouble = f"exit status {process.returncode}: {words[-200:]}"
    except subprocess.TimeoutExpired:
        stop(process)
        out, err = process.communicate()
        trouble = f"took more than {limit} s"
    finally:
        if process.poll() is None:
            stop(process)
    if trouble:
        note(f"{variant.key}: {trouble}")
    return [record for record in map(parse, out.splitlines()) if record], trouble


def parse(line):
    try:
        record = json.loads(line)
        return record if isinstance(record, dict) and "time_us" in record else None
    except ValueError:
        return None
