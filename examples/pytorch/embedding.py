#!/usr/bin/env python3
"""Which page of a manual is a passage from? Two embeddings with sparse gradients, data-parallel: of their tables only
the rows that a batch touched travel.

    banyan run -n 2 -- python3 embedding.py
    banyan run -n 2 -- python3 embedding.py --backend gloo          # for comparison

As in fastText, a passage is the mean of the vectors of its words and of its pairs of words, which are hashed into a
table of a fixed size. The text is the manual of Perl (apt-get install perl-doc), or whatever --text names; each file
is a page.
"""
import argparse
import re

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan.torch
from common import TEXT, Progress, add_options, check_replicas, read_text

LENGTH = 24  # words of a passage


class Classifier(nn.Module):
    def __init__(self, words, pairs, width, pages):
        super().__init__()
        self.words = nn.EmbeddingBag(words, width, mode="mean", sparse=True)
        self.pairs = nn.EmbeddingBag(pairs, width, mode="mean", sparse=True)
        self.page = nn.Linear(2 * width, pages)

    def forward(self, words, pairs):
        return self.page(torch.cat([self.words(words), self.pairs(pairs)], dim=1))


class Passages:
    """Passages of pages, and their words by number. Every tenth passage is kept for the test at the end."""

    def __init__(self, options):
        numbers, passages, pages = {}, [], []
        for page, text in enumerate(read_text(options.text)):
            words = [numbers.setdefault(word, len(numbers)) for word in re.findall(rb"[a-z]+", text.lower())]
            words = torch.tensor(words[:len(words) // LENGTH * LENGTH], dtype=torch.int64).view(-1, LENGTH)
            passages.append(words)
            pages.append(torch.full((len(words),), page))
        self.words, self.pages, self.different = torch.cat(passages), torch.cat(pages), len(numbers)
        self.pairs = (self.words[:, :-1] * 1000003 + self.words[:, 1:]) % options.pairs
        every = torch.arange(len(self.words))
        self.trained, self.kept = every[every % 10 > 0], every[every % 10 == 0]
        self.batch, self.generator = options.batch, torch.Generator().manual_seed(options.seed)

    def draw(self):
        """This rank's part of a batch of all ranks. All draw the same numbers, so no rank has to tell another."""
        size = dist.get_world_size()
        drawn = torch.randint(len(self.trained), (size * self.batch,), generator=self.generator)
        return self.trained[drawn[dist.get_rank()::size]]

    def accuracy(self, model):
        """Over the kept passages, of which each rank tries its part."""
        mine = self.kept[dist.get_rank()::dist.get_world_size()]
        with torch.no_grad():
            right = sum((model(self.words[p], self.pairs[p]).argmax(1) == self.pages[p]).sum() for p in mine.split(1000))
        dist.all_reduce(right)
        return right.item() / len(self.kept)


def train(options):
    data = Passages(options)
    network = Classifier(data.different, options.pairs, options.width, int(data.pages.max()) + 1)
    tables = {"words.weight": network.words.weight, "pairs.weight": network.pairs.weight}
    together = options.backend == "banyan"
    if together:
        # DDP would sum the gradients of the tables one after the other. It leaves them to one exchange of both.
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, list(tables))
    model = DistributedDataParallel(network)
    optimisers = [torch.optim.Adagrad(tables.values(), lr=0.5), torch.optim.SGD(network.page.parameters(), lr=0.5)]
    if together:
        banyan.torch.communicator().expect(options.steps)  # for who manages jobs

    progress = Progress(options, "passages", dist.get_world_size() * options.batch)
    for _ in range(options.steps):
        batch = data.draw()
        loss = nn.functional.cross_entropy(model(data.words[batch], data.pairs[batch]), data.pages[batch])
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        if together:
            banyan.torch.allreduce_sparse_gradients(tables.values())
        for optimiser in optimisers:
            optimiser.step()
        progress.step(loss)

    reached = data.accuracy(network)
    if dist.get_rank() == 0:
        print(f"{100 * reached:.1f} % of the passages that were not trained with are assigned to their page", flush=True)
        if together:
            sent = banyan.torch.communicator().counters()["bytes_sent"] / options.steps
            size = sum(table.numel() * 4 for table in tables.values())
            print(f"{sent / 1e6:.2f} MB sent a step, beside tables of {size / 1e6:.1f} MB", flush=True)
    check_replicas(network.parameters())
    progress.check(network.page.out_features)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default=TEXT, help="files, as a pattern; default: %(default)s")
    parser.add_argument("--pairs", type=int, default=100000, help="rows of the table of pairs")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=128, help="passages of a rank and step")
    add_options(parser, steps=1000)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)  # so that all ranks begin with the same parameters
    torch.set_num_threads(1)
    if hasattr(torch.sparse, "check_sparse_tensor_invariants"):
        torch.sparse.check_sparse_tensor_invariants.disable()  # PyTorch 2 wants to be told, and warns otherwise
    dist.init_process_group(options.backend)
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
