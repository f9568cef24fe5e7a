"""Results as arrays of JAX, which are never written once they are there: each is made after its call, from memory that
JAX takes over without a copy."""
from __future__ import annotations

import importlib
import sys
from typing import Any, Tuple

_ALIGNMENT = 64  # XLA copies what begins elsewhere.


def is_array(value: Any) -> bool:
    """Whether it is an array of JAX. Does not import JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and hasattr(jax, "Array") and isinstance(value, jax.Array)


class Result:
    """Memory of a result: `array` is NumPy's, for the call to write, and finish() JAX's, for the program."""

    def __init__(self, like: Any, shape: Tuple[int, ...]) -> None:
        numpy = importlib.import_module("numpy")
        dtype = numpy.dtype(like.dtype)
        size = int(numpy.prod(shape, dtype=int)) * dtype.itemsize
        room = numpy.empty(size + _ALIGNMENT, numpy.uint8)
        begin = -room.ctypes.data % _ALIGNMENT
        self.array = room[begin:begin + size].view(dtype).reshape(shape)
        self._like = like

    def finish(self) -> Any:
        """The array of JAX, in the same memory, on the device that was sent from."""
        device = self._like.sharding if self._like.committed else None
        return importlib.import_module("jax").device_put(self.array, device, may_alias=True)
