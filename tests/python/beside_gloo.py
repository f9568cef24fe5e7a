"""Scenarios that run over Banyan and over Gloo, each in a job of its own. What they return must be the same."""
import os
import tempfile

import ranks
import torch
import torch.distributed as dist


def _job(scenarios, backend, folder):
    dist.init_process_group(backend)
    results = {run.__name__: run(os.path.join(folder, f"{backend}.{run.__name__}")) for run in scenarios}
    torch.save(results, os.path.join(folder, f"{backend}.{dist.get_rank()}"))
    dist.barrier()
    dist.destroy_process_group()


def compare(size, *scenarios, near=0.0):
    """Each scenario gets a path for files of its own and returns tensors. They are the same bits on each rank, or with `near` the
    same to this relative and absolute error."""
    with tempfile.TemporaryDirectory() as folder:
        for backend in ("banyan", "gloo"):
            ranks.run(size, _job, scenarios, backend, folder)
        for rank in range(size):
            ours, theirs = (torch.load(os.path.join(folder, f"{backend}.{rank}")) for backend in ("banyan", "gloo"))
            for name, results in ours.items():
                assert len(results) == len(theirs[name]), name
                for mine, other in zip(results, theirs[name]):
                    assert torch.isfinite(mine).all(), (name, rank)
                    torch.testing.assert_close(mine, other, rtol=near, atol=near,
                                               msg=lambda text: f"{name}, rank {rank}: {text}")
