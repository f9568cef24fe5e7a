"""What both examples train: a linear model on made-up data, and the check that it was learned."""
import torch

WANTED = torch.tensor([[1.0, -2.0, 3.0, -4.0]])


def dataset(n=512):
    """Inputs and outputs of the wanted model; the same on all ranks, which read different parts of it."""
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(x, x @ WANTED.T)


def check(model, rank):
    """Ends the program with an error unless the group is Banyan's, and all ranks have learned the same model."""
    import torch.distributed as dist
    assert dist.get_backend() == "banyan", dist.get_backend()
    weight = model.weight.detach()
    all_ranks = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, weight)
    assert all(torch.equal(weight, other) for other in all_ranks), all_ranks
    assert torch.allclose(weight, WANTED, atol=0.01), weight
    print(f"rank {rank} of {dist.get_world_size()}: learned {weight.flatten().tolist()} over {dist.get_backend()}", flush=True)
