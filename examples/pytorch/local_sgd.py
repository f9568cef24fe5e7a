#!/usr/bin/env python3
"""The transformer of transformer.py at sites with a slow line between them, by local SGD: in each step gradients are
averaged within a site, and only every few steps parameters between all.

    banyan run -n 4 -- python3 local_sgd.py --sites 2 --period 8
    banyan run -n 4 -- python3 local_sgd.py --sites 2 --period 1    # plain DDP, to compare
"""
import argparse
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

from common import add_options, check_replicas
from transformer import Transformer, add_model_options, learn  # which registers the backend


def train(options):
    if dist.get_world_size() % options.sites:
        sys.exit(f"{dist.get_world_size()} ranks cannot be divided equally between {options.sites} sites")

    network = Transformer(options.width, options.layers, options.length)
    model = DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate)
    if options.period > 1:
        # DDP's hook averages gradients over the site, and the optimiser averages parameters over all ranks after its
        # step. In the first steps parameters change fastest: until then gradients are averaged over all.
        size = dist.get_world_size() // options.sites
        sites = [dist.new_group(list(range(first, first + size))) for first in range(0, dist.get_world_size(), size)]
        model.register_comm_hook(PostLocalSGDState(None, sites[dist.get_rank() // size], options.warmup), post_localSGD_hook)
        averager = PeriodicModelAverager(options.period, warmup_steps=options.warmup)
        optimiser = PostLocalSGDOptimizer(optimiser, averager)

    data, progress = learn(model, optimiser, options)
    if options.period > 1:  # the parameters of sites have differed since the last average
        average_parameters(network.parameters(), dist.group.WORLD)
    with torch.no_grad():
        loss = network(*data.test())
    if dist.get_rank() == 0:
        print(f"loss of text that was not trained with: {loss.item():.4f}", flush=True)
    check_replicas(network.parameters())
    progress.check(classes=256)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=2, help="each has the same number of ranks, the first ones first")
    parser.add_argument("--period", type=int, default=8, help="steps between two averages over all sites")
    parser.add_argument("--warmup", type=int, default=16, help="steps at the start that average gradients over all sites")
    add_model_options(parser)
    add_options(parser, steps=304)
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
