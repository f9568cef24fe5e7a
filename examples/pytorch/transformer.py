#!/usr/bin/env python3
"""A small transformer that learns to continue a text byte by byte, data-parallel with DDP, or with FSDP 2.

    banyan run -n 2 -- python3 transformer.py
    banyan run -n 2 -- python3 transformer.py --sharded             # FSDP 2, with PyTorch 2.6 and later
    banyan run -n 2 -- python3 transformer.py --backend gloo        # for comparison

The text is the manual of Perl (apt-get install perl-doc), 9 MB, or whatever --text names.
"""
import argparse
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan.torch  # registers the backend, and tells torch.distributed what `banyan run` knows
from common import TEXT, Progress, add_options, check_replicas, read_text


class Transformer(nn.Module):
    """Predicts each byte from those before it."""

    def __init__(self, width, layers, length):
        super().__init__()
        self.byte, self.position = nn.Embedding(256, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0, activation="gelu", batch_first=True,
                                       norm_first=True) for _ in range(layers))
        self.norm, self.next = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, text, following):
        """The mean loss, in nats, of the bytes that follow."""
        x = self.byte(text) + self.position.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        return nn.functional.cross_entropy(self.next(self.norm(x)).flatten(0, 1), following.flatten())


class Passages:
    """Random passages of a text. The last twentieth of the text is kept for the test at the end."""

    def __init__(self, options):
        self.text = torch.frombuffer(bytearray(b"".join(read_text(options.text))), dtype=torch.uint8)
        self.batch, self.length = options.batch, options.length
        self.kept = max(len(self.text) // 20, self.length + 1)
        self.generator = torch.Generator().manual_seed(options.seed)

    def passages(self, starts):
        bytes_ = self.text[starts[:, None] + torch.arange(self.length + 1)].long()
        return bytes_[:, :-1], bytes_[:, 1:]

    def draw(self):
        """This rank's part of a batch of all ranks. All draw the same numbers, so no rank has to tell another."""
        starts = torch.randint(len(self.text) - self.kept - self.length, (dist.get_world_size() * self.batch,),
                               generator=self.generator)
        return self.passages(starts[dist.get_rank()::dist.get_world_size()])

    def test(self):
        return self.passages(torch.linspace(len(self.text) - self.kept, len(self.text) - self.length - 1,
                                            self.batch).long())


def shard(model):
    """FSDP 2: each rank keeps a part of each layer's parameters, and of the optimiser's state. They are gathered when
    the layer computes, and its gradients are reduced to the rank that keeps them."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        sys.exit(f"PyTorch {torch.__version__} has no FSDP 2; it came with 2.6")
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def add_model_options(parser):
    parser.add_argument("--text", default=TEXT, help="files, as a pattern; default: %(default)s")
    parser.add_argument("--width", type=int, default=256, help="of a layer; divisible by 64")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=128, help="bytes of a passage")
    parser.add_argument("--batch", type=int, default=8, help="passages of a rank and step")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning")


def learn(model, optimiser, options):
    """Takes all steps. Returns the passages and the progress."""
    if options.backend == "banyan":
        banyan.torch.communicator().expect(options.steps)  # for who manages jobs
    data = Passages(options)
    progress = Progress(options, "bytes", dist.get_world_size() * options.batch * options.length)
    for _ in range(options.steps):
        loss = model(*data.draw())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        progress.step(loss)
    return data, progress


def train(options):
    network = Transformer(options.width, options.layers, options.length)
    model = shard(network) if options.sharded else DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate)
    data, progress = learn(model, optimiser, options)
    with torch.no_grad():
        loss = model(*data.test())
    if dist.get_rank() == 0:
        print(f"loss of text that was not trained with: {loss.item():.4f}", flush=True)
    # With FSDP no rank has all parameters, but what they compute must be the same.
    check_replicas([loss] if options.sharded else network.parameters())
    progress.check(classes=256)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sharded", action="store_true", help="with FSDP 2 in place of DDP")
    add_model_options(parser)
    add_options(parser, steps=300)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)  # so that all ranks begin with the same parameters
    torch.set_num_threads(1)         # raise it where ranks have several cores
    dist.init_process_group(options.backend)
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
