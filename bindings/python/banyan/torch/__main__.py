"""python3 -m banyan.torch: compiles the C++ part for the PyTorch that is there, and says where it lies."""
from . import _extension

print(_extension.__file__)
