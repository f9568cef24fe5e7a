"""Reads tensors that are exported through DLPack, as those of PyTorch and JAX are, without copying their elements.

The structs are those of dlpack.h: a capsule contains a DLManagedTensor, or since DLPack 1.0 a DLManagedTensorVersioned,
which also says whether the tensor may be written. The capsule is kept, and not consumed, while the memory is in use. It
frees the exported tensor when it is deleted.
"""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional

from .errors import RequestError

_HOST_MEMORY = {1, 3, 11}  # of the CPU, also where it is pinned for CUDA or ROCm
# The library's numbers of types, by DLPack's code and number of bits.
_TYPES = {(2, 32): 0, (2, 64): 1, (2, 16): 2, (4, 16): 3, (0, 8): 4, (1, 8): 5, (6, 8): 5, (0, 32): 6, (0, 64): 7}
_READ_ONLY = 1


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.argtypes, _get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class Tensor(NamedTuple):
    """A tensor's memory: `size` bytes of elements of which type (None: one that the library lacks), and the capsule that
    keeps them."""
    address: int
    size: int
    dtype: Optional[int]
    readonly: bool
    capsule: Any


def _capsule(exporter: Any) -> Any:
    try:
        return exporter.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0 does not know the argument
        return exporter.__dlpack__()


def _is_contiguous(tensor: _Tensor) -> bool:
    if not tensor.strides:
        return True
    expected = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.shape[i] != 1 and tensor.strides[i] != expected:
            return False
        expected *= tensor.shape[i]
    return True


def read(exporter: Any, what: str) -> Tensor:
    """The memory of what has __dlpack__ and __dlpack_device__. Raises RequestError where it is not in the host's memory or
    not in one piece."""
    try:
        device = int(exporter.__dlpack_device__()[0])
        if device not in _HOST_MEMORY:
            raise RequestError(f"{what}: the tensor is on a device (number {device} of DLPack's kinds), not in the host's memory")
        capsule = _capsule(exporter)
    except RequestError:
        raise
    except Exception as error:  # Exporters raise what they like.
        raise RequestError(f"{what}: the tensor cannot be exported: {error}") from error
    readonly = False
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_get(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise RequestError(f"{what}: the tensor is exported by version {managed.major} of DLPack; 1 is known")
        tensor, readonly = managed.tensor, bool(managed.flags & _READ_ONLY)
    elif _is_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_get(capsule, b"dltensor"))
    else:
        raise RequestError(f"{what}: what is exported is no tensor")
    elements = 1
    for i in range(tensor.ndim):
        elements *= tensor.shape[i]
    if elements and not _is_contiguous(tensor):
        raise RequestError(f"{what}: the tensor does not lie in one piece: give contiguous() of it")
    dtype = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    size = elements * ((tensor.bits * tensor.lanes + 7) // 8)
    return Tensor((tensor.data or 0) + tensor.byte_offset, size, dtype, readonly, capsule)
