"""Ray Train over Banyan: TorchConfig of banyan.ray."""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Optional, Type

from ray.train import torch as ray_torch


def _register() -> None:
    importlib.import_module("banyan.torch")


class _Backend:
    """Makes banyan known to the workers' torch.distributed before Ray's own backend creates the group."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(_register)
        super().on_start(worker_group, backend_config)  # type: ignore[misc]


@dataclass
class TorchConfig(ray_torch.TorchConfig):  # type: ignore[misc]
    """Ray Train's TorchConfig with Banyan as the backend of torch.distributed."""

    backend: Optional[str] = "banyan"

    @property
    def backend_cls(self) -> Type[Any]:
        return type("BanyanBackend", (_Backend, super().backend_cls), {})
