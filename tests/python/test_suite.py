#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed on 2 and 4 ranks: the listed ones pass. suite/distributed.py runs more."""
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ranks

ranks.need_torch()

FOLDER = Path(__file__).parent / "suite"


def passes(size):
    command = [sys.executable, str(FOLDER / "distributed.py"), "--ranks", str(size), "--passes", str(FOLDER / f"passes-{size}.txt")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        for line in run.stdout:
            if not line.startswith("passed "):
                print(f"{size} ranks: {line.rstrip()}", flush=True)
    return run.returncode == 0


def main():
    """Both run at once, since a test mostly waits for processes."""
    with ThreadPoolExecutor() as pool:
        return 0 if all(list(pool.map(passes, (2, 4)))) else 1


if __name__ == "__main__":
    sys.exit(main())
