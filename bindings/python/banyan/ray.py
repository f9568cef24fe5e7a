"""Communicators of Ray's actors, and Ray Train over Banyan.

    banyan.ray.join(actors)                  # in the driver; then in methods of the actors:
    banyan.ray.communicator().allreduce(gradient)

    TorchTrainer(train, torch_config=banyan.ray.TorchConfig(), scaling_config=ScalingConfig(num_workers=2))

docs/ray.md says more.
"""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import ray

from .comm import Communicator
from .errors import RequestError
from .library import key_create, root_choose

_comm: Optional[Communicator] = None


def _leave() -> None:
    global _comm
    comm, _comm = _comm, None
    if comm is not None:
        comm.close()


def _place(_: Any) -> str:
    """Where the actor that will be rank 0 listens, and its fingerprint."""
    _leave()  # A process has another fingerprint with its next job.
    return root_choose()


def _join(_: Any, options: Dict[str, Any]) -> None:
    global _comm
    _leave()
    _comm = Communicator(**options)


def join(actors: Sequence[Any], timeout: float = 120, **options: Any) -> None:
    """Makes a communicator in each of these actors, of which the i-th becomes rank i; called by their driver. `options` are
    those of banyan.Communicator, such as plan= or deadline=. An actor that has a communicator already leaves that one, so
    the remaining actors of a job that has failed may join anew, with others."""
    if not actors:
        raise RequestError("join: there must be at least one actor")
    if len(set(actors)) < len(actors):
        raise RequestError("join: an actor is given twice: each one becomes one rank")
    place = ray.get(actors[0].__ray_call__.remote(_place), timeout=timeout)
    all_ = {"size": len(actors), "root": place, "key": key_create(), **options}
    ray.get([actor.__ray_call__.remote(_join, {**all_, "rank": rank}) for rank, actor in enumerate(actors)],
            timeout=timeout)


def communicator() -> Communicator:
    """In an actor: the communicator that join() made."""
    if _comm is None:
        raise RequestError("this process has no communicator: call banyan.ray.join(actors) in the driver first")
    return _comm


def __getattr__(name: str) -> Any:
    if name != "TorchConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .ray_train import TorchConfig  # which needs what `pip install ray[train]` installs, and PyTorch
    return TorchConfig
