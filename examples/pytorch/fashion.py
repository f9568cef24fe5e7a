#!/usr/bin/env python3
"""A small convolutional network or a perceptron on Fashion-MNIST, data-parallel with DDP.

    banyan run -n 2 -- python3 fashion.py
    banyan run -n 2 -- python3 fashion.py --backend gloo --model mlp
"""
import argparse
import gzip
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan.torch  # registers the backend, and tells torch.distributed what `banyan run` knows

IMAGES = "/usr/share/datasets/fashion-mnist"


def images(folder, part):
    """Images from 0 to 1 and their labels."""
    def read(kind, skip):
        path = os.path.join(folder, f"{part}-{kind}-ubyte.gz")
        if not os.path.exists(path):
            sys.exit(f"no {path}; on Debian: apt-get install dataset-fashion-mnist")
        with gzip.open(path) as file:
            return numpy.frombuffer(file.read(), numpy.uint8, offset=skip)
    pixels = torch.from_numpy(read("images-idx3", 16).astype(numpy.float32) / 255)
    return pixels.reshape(-1, 1, 28, 28), torch.from_numpy(read("labels-idx1", 8).astype(numpy.int64))


def network(name):
    """cnn: 0.2 M parameters; mlp: 2 M; wide: 12 M."""
    if name == "cnn":
        return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                             nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(),
                             nn.Linear(128, 10))
    hidden = {"mlp": 1000, "wide": 3000}[name]
    return nn.Sequential(nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, 10))


def accuracy(model, pixels, labels):
    """The part of this rank's test images that it gets right, over all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.no_grad():
        right = sum((model(p).argmax(1) == y).sum() for p, y in zip(pixels[rank::size].split(500),
                                                                     labels[rank::size].split(500)))
    total = torch.tensor([int(right), len(labels[rank::size])])
    dist.all_reduce(total)
    return total[0].item() / total[1].item()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="banyan")
    parser.add_argument("--model", default="cnn", choices=("cnn", "mlp", "wide"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="images of a rank and step")
    parser.add_argument("--limit", type=int, default=60000, help="images to train with")
    parser.add_argument("--rate", type=float, default=0.08, help="of learning, at the start; it falls to 0 by the end")
    parser.add_argument("--data", default=IMAGES)
    options = parser.parse_args(arguments)
    torch.manual_seed(1)
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    pixels, labels = images(options.data, "train")
    model = DistributedDataParallel(network(options.model), gradient_as_bucket_view=True)
    optimiser = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    per_epoch = options.limit // size // options.batch
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / (options.epochs * per_epoch))
    if options.backend == "banyan":
        banyan.torch.communicator().expect(options.epochs * per_epoch)  # for who manages jobs
    for epoch in range(options.epochs):
        order = torch.randperm(options.limit, generator=torch.Generator().manual_seed(epoch))[rank::size]
        begun, steps = time.monotonic(), order.split(options.batch)[:per_epoch]
        for batch in steps:
            loss = nn.functional.cross_entropy(model(pixels[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()
        took = (time.monotonic() - begun) / len(steps)
        reached = accuracy(model.module, *images(options.data, "t10k"))
        if rank == 0:
            print(f"epoch {epoch + 1}: accuracy {reached:.4f}, {took * 1000:.2f} ms a step, {options.backend}, {size} ranks",
                  flush=True)
    if rank == 0 and options.backend == "banyan":
        print(f"{banyan.torch.communicator().counters()['calls']} calls of Banyan's")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
