"""The command `banyan` of a wheel, which contains it."""
import os
import sys
from pathlib import Path


def main() -> None:
    program = str(Path(__file__).parent / "bin" / "banyan")
    os.execv(program, ["banyan", *sys.argv[1:]])
