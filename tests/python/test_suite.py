#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed on several numbers of ranks: those listed for this version pass.
suite/distributed.py runs more. RANKS="2" chooses among the lists."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ranks

ranks.need_torch()
import torch  # noqa: E402

FOLDER = Path(__file__).parent / "suite"
VERSION = ".".join(torch.__version__.split(".")[:2])


def passes(path):
    size = path.stem.rsplit("-", 1)[1]
    command = [sys.executable, str(FOLDER / "distributed.py"), "--ranks", size, "--passes", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        for line in run.stdout:
            if not line.startswith("passed "):
                print(f"{size} ranks: {line.rstrip()}", flush=True)
    return run.returncode == 0


def main():
    """All run at once, since a test mostly waits for processes."""
    sizes = os.environ.get("RANKS", "").split()
    lists = [path for path in sorted(FOLDER.glob(f"passes-{VERSION}-*.txt"))
             if not sizes or path.stem.rsplit("-", 1)[1] in sizes]
    if not lists:
        print(f"skipped: {FOLDER} has no list of passes for PyTorch {VERSION} with {os.environ.get('RANKS', 'any')} ranks")
        return 77
    with ThreadPoolExecutor() as pool:
        return 0 if all(list(pool.map(passes, lists))) else 1


if __name__ == "__main__":
    sys.exit(main())
