"""python3 -m banyan.torch: compiles the C++ part for the PyTorch that is there, unless that was done, and prints where it lies.
`python3 -m banyan.torch FOLDER` copies it there for a package, which has it in banyan/torch/compiled."""
import shutil
import sys
from pathlib import Path

from .extension import _abi, load_compiled

made = str(load_compiled().__file__)
if len(sys.argv) > 1:
    place = Path(sys.argv[1]) / _abi()
    place.mkdir(parents=True, exist_ok=True)
    made = shutil.copy(made, place)
print(made)
