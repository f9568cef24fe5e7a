"""What the examples share, and what is no part of training over several processes: a text, a log of the progress, and
the comparison of replicas."""
import glob
import gzip
import math
import sys
import time

import torch
import torch.distributed as dist

TEXT = "/usr/share/perl/5.*/pod/*.pod"


def read_text(pattern):
    """The files of a pattern, as a list of bytes in the order of their names."""
    names = sorted(glob.glob(pattern))
    if not names:
        sys.exit(f"no text at {pattern}; on Debian: apt-get install perl-doc, or give files with --text")
    texts = []
    for name in names:
        with gzip.open(name) if name.endswith(".gz") else open(name, "rb") as file:
            texts.append(file.read())
    return texts


def add_options(parser, steps):
    """The options that all examples have."""
    parser.add_argument("--backend", default="banyan", help="or gloo, to compare")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=1, help="of the first parameters and of the order of the data")
    parser.add_argument("--every", type=int, default=10, help="steps from one line of progress to the next")
    parser.add_argument("--log", help="file to which rank 0 writes the progress, for plot.py")


class Progress:
    """Prints the loss and the throughput of all ranks together, and writes them to a file."""

    def __init__(self, options, unit, per_step, first=0):
        """All ranks together process `per_step` of `unit` in a step. `first` steps were made before."""
        self.every, self.unit, self.per_step = options.every, unit, per_step
        self.steps, self.loss, self.begun = first, None, None
        self.sum, self.added = torch.zeros(()), 0
        self.file = open(options.log, "a", encoding="utf-8") if options.log and dist.get_rank() == 0 else None
        if self.file and not self.file.tell():
            self.file.write("time,step,loss,done,ranks\n")

    def step(self, loss):
        """After each step of the optimiser, with this rank's mean loss. The time of the first step does not count, since
        PyTorch and the backend prepare themselves in it."""
        self.steps += 1
        self.sum += loss.detach()
        self.added += 1
        if self.begun is None:
            self.began, self.begun = time.time(), self.steps
        if self.steps % self.every == 0:
            self.report()

    def report(self):
        """The losses of all ranks since the last line are averaged, which is one small AllReduce."""
        dist.all_reduce(self.sum)
        now, ranks = time.time(), dist.get_world_size()
        self.loss = self.sum.item() / self.added / ranks
        rate = (self.steps - self.begun) * self.per_step / max(now - self.began, 1e-9)
        if dist.get_rank() == 0:
            print(f"step {self.steps}: loss {self.loss:.4f}, {rate:,.0f} {self.unit}/s", flush=True)
        if self.file:
            self.file.write(f"{now:.3f},{self.steps},{self.loss:.6f},{self.steps * self.per_step},{ranks}\n")
            self.file.flush()
        self.sum, self.added, self.began, self.begun = torch.zeros(()), 0, now, self.steps

    def check(self, classes):
        """Ends the program unless the loss is below that of guessing among so many classes, with which it began."""
        if self.added:
            self.report()
        if self.file:
            self.file.close()
        if self.loss is not None and not self.loss < math.log(classes):
            sys.exit(f"nothing was learned: the loss is {self.loss:.4f}, and {math.log(classes):.4f} by guessing")


def check_replicas(tensors, group=None):
    """Ends the program unless all ranks have the same bits in these tensors."""
    own = torch.stack([tensor.detach().contiguous().view(torch.int32).sum(dtype=torch.int64) for tensor in tensors])
    all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_ranks, own, group)
    different = [rank for rank, sums in enumerate(all_ranks) if not torch.equal(sums, all_ranks[0])]
    if different:
        sys.exit(f"ranks {different} have other parameters than rank 0")
    if dist.get_rank(group) == 0:
        print("all ranks have the same parameters", flush=True)
