"""Memory of arrays and other buffers, and the types of what lies in it."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, NamedTuple, Optional

from . import dlpack
from .errors import RequestError
from .jax_arrays import is_array as is_of_jax

# Python's names for an element's type, by the library's number, with their sizes.
DTYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int8": 4, "uint8": 5, "int32": 6, "int64": 7}
SIZES = (4, 8, 2, 2, 1, 1, 4, 8)
# As arrays and buffers (PEP 3118) say it.
_INTERFACE = {"<f4": 0, "<f8": 1, "<f2": 2, "|i1": 4, "|u1": 5, "|b1": 5, "<i4": 6, "<i8": 7}
_FORMATS: Dict[str, int] = {"f": 0, "d": 1, "e": 2, "b": 4, "B": 5, "c": 5, "?": 5, "i": 6, "q": 7, "l": 7}

_WRITABLE, _FORMAT, _ND, _C_CONTIGUOUS = 0x1, 0x4, 0x8, 0x20 | 0x10 | 0x8


class _View(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = [ctypes.py_object, ctypes.POINTER(_View), ctypes.c_int], ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.POINTER(_View)], None


class Memory(NamedTuple):
    """A buffer: where it lies, n elements of which type, and what keeps it alive."""
    address: Optional[int]
    n: int
    dtype: int
    owner: Any


NOTHING = Memory(None, 0, 5, None)


def _named(dtype: str, what: str) -> int:
    if dtype not in DTYPES:
        raise RequestError(f"{what}: there is no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _typed(address: int, size: int, found: Optional[int], dtype: Optional[str], owner: Any, what: str) -> Memory:
    kind = _named(dtype, what) if dtype else found
    if kind is None:
        raise RequestError(f"{what}: elements of this type cannot be summed or moved; give dtype= to say what they are")
    if size % SIZES[kind]:
        raise RequestError(f"{what}: {size} bytes are no whole number of elements of {SIZES[kind]} bytes")
    return Memory(address, size // SIZES[kind], kind, owner)


def _of_array(array: Any, interface: Dict[str, Any], dtype: Optional[str], write: bool, what: str) -> Memory:
    address, readonly = interface["data"]
    if readonly and write:
        raise RequestError(f"{what}: the array is read-only")
    if interface.get("strides") is not None and not array.flags.c_contiguous:
        raise RequestError(f"{what}: the array does not lie in one piece: give numpy.ascontiguousarray() of it")
    found = _INTERFACE.get(interface["typestr"])
    if found is None and array.dtype.name == "bfloat16":  # of the package ml_dtypes
        found = DTYPES["bfloat16"]
    return _typed(address, array.nbytes, found, dtype, array, what)


def _of_tensor(tensor: Any, dtype: Optional[str], write: bool, what: str) -> Memory:
    if is_of_jax(tensor):
        if write:
            raise RequestError(f"{what}: an array of JAX is read-only: receive into a NumPy array instead")
        if not hasattr(tensor, "block_until_ready"):
            raise RequestError(f"{what}: within jax.jit an array has no elements yet: make the call outside of it")
        tensor.block_until_ready()
    found = dlpack.read(tensor, what)
    if found.readonly and write:
        raise RequestError(f"{what}: the tensor is read-only")
    return _typed(found.address, found.size, found.dtype, dtype, found.capsule, what)


def memory(buffer: Any, dtype: Optional[str] = None, write: bool = False, what: str = "buffer") -> Memory:
    """The memory of a NumPy array, of a tensor that is exported through DLPack, as those of PyTorch and JAX are, or of
    anything else with the buffer protocol (bytearray, array, mmap, ctypes).

    `dtype` says what the elements are where the object does not, as with bfloat16 in an array of uint16.
    """
    interface = getattr(buffer, "__array_interface__", None)
    if interface is not None and hasattr(buffer, "flags"):
        return _of_array(buffer, interface, dtype, write, what)
    if hasattr(buffer, "__dlpack__"):
        return _of_tensor(buffer, dtype, write, what)
    view = _View()
    try:
        _get(buffer, view, _C_CONTIGUOUS | _FORMAT | (_WRITABLE if write else 0))
    except TypeError:
        raise RequestError(f"{what}: {'it is missing' if buffer is None else f'it is of type {type(buffer).__name__}'}: give "
                           "an array of NumPy, a tensor or a buffer such as a bytearray") from None
    except (BufferError, ValueError) as error:
        raise RequestError(f"{what}: {error}") from None
    found = _FORMATS.get((view.format or b"B").decode().lstrip("@=<"))
    if found is not None and SIZES[found] != view.itemsize:
        found = None
    owner = memoryview(buffer)  # keeps the exporter from moving it
    result = (view.buf or 0, view.len)
    _release(view)
    return _typed(result[0], result[1], found, dtype, owner, what)
