"""What a State consists of: arrays and tensors, which are buffers of the library, and other values, which are JSON.

Objects with state_dict() and load_state_dict(), and dictionaries, are taken apart: their arrays become buffers, named by
the keys on the way to them, and the rest becomes one value. Buffers are read and written where they lie.
"""
from __future__ import annotations

import hashlib
import json
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .buffers import DTYPES, SIZES, memory
from .errors import RequestError

Path = Tuple[Any, ...]  # keys of dictionaries, and indices of lists as [index]


class Buffer(NamedTuple):
    """Memory of an array. What the library cannot read in place has a copy, which is kept equal by `pull` and `push`."""
    name: str
    address: Optional[int]
    n: int
    dtype: int
    owner: Any
    pull: Optional[Callable[[], Any]] = None
    push: Optional[Callable[[], Any]] = None


def is_tensor(leaf: Any) -> bool:
    return hasattr(leaf, "data_ptr") and hasattr(leaf, "element_size")


def is_array(leaf: Any) -> bool:
    """Of NumPy; its scalars are none, since they cannot be written to."""
    return hasattr(leaf, "__array_interface__") and hasattr(leaf, "__setitem__")


_tensor_dtypes: Dict[Any, int] = {}


def _dtype_of(dtype: Any) -> int:
    """Types that the library does not know are bytes."""
    if dtype not in _tensor_dtypes:
        _tensor_dtypes[dtype] = DTYPES.get(str(dtype).replace("torch.", ""), DTYPES["uint8"])
    return _tensor_dtypes[dtype]


def _of_tensor(name: str, tensor: Any) -> Buffer:
    if tensor.is_sparse or str(tensor.layout) != "torch.strided":
        raise RequestError(f"{name}: sparse tensors are not supported")
    tensor = tensor.detach()
    held, pull, push = tensor, None, None
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        held = tensor.cpu().contiguous()
        if held.data_ptr() == tensor.data_ptr():
            held = held.clone()
        pull, push = (lambda: held.copy_(tensor)), (lambda: tensor.copy_(held))
    dtype = _dtype_of(held.dtype)
    count = held.numel() * held.element_size() // SIZES[dtype]
    return Buffer(name, held.data_ptr() or None, count, dtype, held, pull, push)


def buffer_of(name: str, leaf: Any) -> Buffer:
    if is_tensor(leaf):
        return _of_tensor(name, leaf)
    try:
        found = memory(leaf, write=True, what=name)
    except RequestError:
        found = memory(leaf, "uint8", write=True, what=name)
    return Buffer(name, found.address, found.n, found.dtype, found.owner)


# ---- nested dictionaries and lists


def _has_arrays(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(_has_arrays(value) for value in tree.values())
    if isinstance(tree, (list, tuple)):
        return any(_has_arrays(value) for value in tree)
    return is_tensor(tree) or is_array(tree)


def leaves(tree: Any, path: Path = ()) -> Iterator[Tuple[Path, Any]]:
    """All that is no dictionary and no list with arrays in it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not isinstance(key, (str, int)):
                raise RequestError(f"key {key!r} is neither a string nor a number")
            yield from leaves(value, path + (key,))
    elif isinstance(tree, (list, tuple)) and _has_arrays(tree):
        for i, value in enumerate(tree):
            yield from leaves(value, path + ((i,),))
    else:
        yield path, tree


def name_of(prefix: str, path: Path) -> str:
    """At most 255 bytes."""
    name = "/".join([prefix] + [str(key[0]) if isinstance(key, tuple) else str(key) for key in path])
    if len(name.encode()) > 255:
        name = name[:60] + "..." + hashlib.sha256(name.encode()).hexdigest()
    return name


def _put(tree: Any, path: Path, leaf: Any) -> None:
    for i, key in enumerate(path):
        key = key[0] if isinstance(key, tuple) else key
        if i == len(path) - 1:
            if isinstance(tree[key] if isinstance(tree, list) else tree.get(key), tuple):
                leaf = tuple(leaf)
            tree[key] = leaf
        else:
            tree = tree[key] if isinstance(tree, list) else tree.setdefault(key, {})


def _remove(tree: Any, path: Path) -> None:
    for key in path[:-1]:
        tree = tree[key[0] if isinstance(key, tuple) else key]
    if isinstance(tree, dict):
        tree.pop(path[-1], None)


def to_json(what: str, value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True).encode()
    except (TypeError, ValueError):
        raise RequestError(f"{what}: a {type(value).__name__} cannot be kept; arrays, tensors, numbers, texts, lists and "
                           "dictionaries of these can, and objects with state_dict() that consist of these") from None


# ---- items of a state


class Plain:
    """A value."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def look(self) -> Tuple[List[Buffer], bytes]:
        """Its arrays as they are now, and the rest as text."""
        return [], to_json(self.name, self.value)

    def fit(self, wanted: Set[str]) -> None:
        """Prepares for buffers of a version that others have."""

    def parse(self, text: bytes) -> None:
        """Makes the rest that of the text."""
        self.value = json.loads(text)


class Array(Plain):
    """A NumPy array or tensor."""

    def look(self) -> Tuple[List[Buffer], bytes]:
        return [buffer_of(self.name, self.value)], b""

    def parse(self, text: bytes) -> None:
        pass


class Dictionary(Plain):
    """A dictionary of arrays and values, or something that gives one and loads it."""

    def _get(self) -> Any:
        return self.value

    def _load(self, tree: Any) -> None:
        pass  # it was changed in place

    def _split(self) -> Tuple[Any, Dict[Path, Any], Dict[Path, Any]]:
        tree = self._get()
        arrays: Dict[Path, Any] = {}
        others: Dict[Path, Any] = {}
        for path, leaf in leaves(tree):
            (arrays if is_tensor(leaf) or is_array(leaf) else others)[path] = leaf
        return tree, arrays, others

    def _print(self, others: Dict[Path, Any]) -> bytes:
        return to_json(self.name, [[path, leaf] for path, leaf in others.items()])

    def look(self) -> Tuple[List[Buffer], bytes]:
        _, arrays, others = self._split()
        return [buffer_of(name_of(self.name, path), leaf) for path, leaf in arrays.items()], self._print(others)

    def parse(self, text: bytes) -> None:
        tree, _, others = self._split()
        if text == self._print(others):
            return
        wanted = {tuple(tuple(key) if isinstance(key, list) else key for key in path): leaf
                  for path, leaf in json.loads(text)}
        for path in others:
            if path not in wanted:
                _remove(tree, path)
        for path, leaf in wanted.items():
            _put(tree, path, leaf)
        self._load(tree)


class Stateful(Dictionary):
    """An object with state_dict() and load_state_dict(): a module, an optimiser, a scheduler."""

    def _get(self) -> Any:
        return self.value.state_dict()

    def _load(self, tree: Any) -> None:
        self.value.load_state_dict(tree)


class Optimizer(Stateful):
    """An optimiser of PyTorch, whose state of a parameter appears with its first step."""

    def _parameters(self) -> List[Any]:
        return [p for group in self.value.param_groups for p in group["params"]]

    def fit(self, wanted: Set[str]) -> None:
        parameters, before = self._parameters(), f"{self.name}/state/"
        numbers = {name[len(before):].split("/")[0] for name in wanted if name.startswith(before)}
        has = [str(i) in numbers for i in range(len(parameters))]
        if any(h and not self.value.state.get(p) for h, p in zip(has, parameters)):
            _make_state(self.value, parameters)
        for h, p in zip(has, parameters):
            if not h:
                self.value.state.pop(p, None)


def _make_state(optimizer: Any, parameters: List[Any]) -> None:
    """Makes an optimiser's state by a step with gradients of zero and no learning rate, as PyTorch's own checkpoints do.
    The state that there is, is replaced, so this is for those who receive it."""
    import torch
    before = [(p.grad, p.detach().clone()) for p in parameters]
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros_like(group["lr"]) if is_tensor(group["lr"]) else 0.0
    with torch.no_grad():
        for p in parameters:
            p.grad = torch.zeros_like(p) if p.requires_grad else None
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    with torch.no_grad():
        for p, (gradient, value) in zip(parameters, before):
            p.grad = gradient
            p.copy_(value)


def item(name: str, value: Any) -> Plain:
    if is_tensor(value) or is_array(value):
        return Array(name, value)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        has_groups = hasattr(value, "param_groups") and hasattr(value, "step") and hasattr(value, "state")
        return Optimizer(name, value) if has_groups else Stateful(name, value)
    return Dictionary(name, value) if isinstance(value, dict) else Plain(name, value)
