#!/usr/bin/env python3
"""An embedding with sparse gradients, data-parallel with DDP: of the table only the rows that a batch touched travel.

    banyan run -n 2 -- python3 embedding.py

The words are random, but each belongs to one of ten kinds, and the kind of a text is that of most of its words.
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan.torch

KINDS, LENGTH = 10, 12


class Texts(nn.Module):
    """The mean of a text's words, and what kind that is."""

    def __init__(self, words, width):
        super().__init__()
        self.table = nn.EmbeddingBag(words, width, mode="mean", sparse=True)
        self.kind = nn.Linear(width, KINDS)

    def forward(self, texts):
        return self.kind(self.table(texts))


def draw(generator, words, batch):
    """Texts of which two thirds of the words are of their kind."""
    kinds = torch.randint(KINDS, (batch,), generator=generator)
    texts = torch.randint(words, (batch, LENGTH), generator=generator)
    theirs = torch.rand(batch, LENGTH, generator=generator) < 2 / 3
    return torch.where(theirs, texts - texts % KINDS + kinds[:, None], texts), kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="banyan")
    parser.add_argument("--words", type=int, default=20000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    rank = dist.get_rank()
    model = DistributedDataParallel(Texts(options.words, options.width))
    optimisers = [torch.optim.Adagrad(model.module.table.parameters(), lr=0.3),
                  torch.optim.SGD(model.module.kind.parameters(), lr=0.5)]
    generator = torch.Generator().manual_seed(100 + rank)
    if options.backend == "banyan":
        banyan.torch.communicator().expect(options.steps)  # for who manages jobs
    for step in range(options.steps):
        texts, kinds = draw(generator, options.words, options.batch)
        loss = nn.functional.cross_entropy(model(texts), kinds)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
        if rank == 0 and (step + 1) % 100 == 0:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    if options.backend == "banyan" and rank == 0:
        sent = banyan.torch.communicator().counters()["bytes_sent"] / options.steps
        print(f"{sent / 1e6:.3f} MB sent a step, beside a table of {options.words * options.width * 4 / 1e6:.1f} MB")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
