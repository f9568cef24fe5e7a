"""Runs the variants and prints the tables. Started by run.sh, which documents the environment.

First every variant runs once, shortly, which gives the fastest two for each peer and size. Then these and Banyan
run in alternation, several rounds, and the median over the rounds counts. Notes go to standard error.
"""

import json
import os
import signal
import sys
import time

import machine
import runner
import tables
from cell import Cell
from placement import Placement


def is_set(name):
    return os.environ.get(name, "") not in ("", "0")


def parse_size(text):
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1])
    return int(text[:-1]) * scale if scale else int(text)


def parse_settings():
    quick = is_set("QUICK")
    words = os.environ.get("SIZES") or ("8,64K,1M,16M" if quick else "8,1K,8K,64K,512K,1M,4M,16M,64M")
    return {
        "quick": quick,
        "tuned": is_set("TUNED"),
        "every": is_set("EVERY"),
        "in_place": is_set("IN_PLACE"),
        "rounds": int(os.environ.get("ROUNDS") or (1 if quick else 3)),
        "sizes": [parse_size(word) for word in words.split(",")],
        "ranks": [int(word) for word in os.environ.get("RANKS", "2,4").split(",")],
        "transports": os.environ.get("TRANSPORTS", "shm,tcp").split(","),
    }


def save(cells, about):
    directory = os.environ["BENCH_OUT"]
    with open(os.path.join(directory, "results.json"), "w") as file:
        records = [record for cell in cells for record in cell.records]
        json.dump({"environment": about, "records": records}, file, indent=1)
    text = tables.document(cells, about)
    with open(os.path.join(directory, "tables.md"), "w") as file:
        file.write(text + "\n")
    return text


def main():
    settings = parse_settings()
    about = machine.describe() | settings
    timeout = 30 if settings["quick"] else 200  # seconds, once for the trials and once for the rounds
    placement = Placement(timeout)
    cells = [Cell(ranks, transport, settings, placement)
             for ranks in settings["ranks"] for transport in settings["transports"]]
    for cell in cells:
        cell.screen()
    placement.left += timeout
    for number in range(settings["rounds"]):
        runner.note(f"round {number + 1} of {settings['rounds']}")
        for cell in cells:
            cell.round(number)
    about["seconds"] = round(time.monotonic() - runner.started)
    about["core_latency_ns"] = [placement.least, placement.greatest]
    print(save(cells, about))
    wrong = any(record["wrong"] for cell in cells for record in cell.records)
    return 1 if wrong or any(key.startswith("banyan ") for cell in cells for key in cell.failed) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
