"""The networks of the lab's bench with their goals, and the algorithms of the peers."""

import itertools
import json
import os
import re
import subprocess
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
TOPOLOGIES = os.path.join(HERE, "..", "examples", "topologies")
HEADERS = 1514 / 1448  # bytes on the wire for each byte of TCP
RATES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def parse_size(text):
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1])
    return int(text[:-1]) * scale if scale else int(text)


def parse_rate(text):
    number, unit = text.split()
    return float(number) * RATES[unit[:-len("bit/s")]]


@dataclass
class Variant:
    impl: str
    algorithm: str
    program: str
    arguments: list = field(default_factory=list)

    @property
    def key(self):
        return f"{self.impl}, {self.algorithm}"


def openmpi(number, algorithm):
    tuned = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", str(number)]
    return Variant("openmpi", algorithm, "peer_openmpi", tuned if number else [])


VARIANTS = [Variant("gloo", name, "peer_gloo") for name in ("ring", "bcube", "class_halving_doubling", "class_bcube")]
VARIANTS += [openmpi(number, name) for number, name in
             ((0, "default"), (3, "recursive_doubling"), (4, "ring"), (5, "segmented_ring"), (6, "rabenseifner"))]


@dataclass
class Case:
    name: str
    topology: str  # files
    plan: str
    ring: str
    rate: float  # bit/s of input: the plan's rate, and the limit of any set of trees
    bound: float
    load: dict  # (from, to): bytes on the link for each byte of input
    goal: float = 0  # seconds for 16 MiB; 0: by `share`
    share: float = 0  # fraction of the bound that is to be reached
    peers: bool = True
    scale: int = 1  # All rates are divided by this.

    def least(self, size):
        """Returns the least number of seconds of any plan of this rate."""
        return 8 * size / self.rate * HEADERS * self.scale

    def most(self, size):
        """Returns the goal in seconds; 0: there is no goal for this size."""
        if self.share:
            return 8 * size / self.bound * HEADERS / self.share * self.scale
        return self.goal if size == 16 << 20 else 0


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ring_over(order):
    """Returns the ring's rotated tree over the ranks in this order."""
    n = len(order)
    names = [str(rank) for rank in order]
    return {"format": "banyan-plan 1", "name": "ring", "ranks": n, "trees": [{
        "kind": "rotated", "share": 1, "order": names, "radix": [n], "root": names[0],
        "up": {names[i]: names[(i + 1) % n] for i in range(1, n)},
        "down": {names[i]: names[i - 1] for i in range(1, n)}}]}


def limit_of(banyan, topology, plan):
    last = output(banyan, "topo", topology, "--plan", plan).strip().splitlines()[-1]
    return parse_rate(re.search(r"AllReduce at (\S+ \S*bit/s)", last).group(1))


def best_ring(banyan, topology, n, path):
    """Writes the best ring: of all orders if there are few, otherwise by reversing stretches as long as it helps."""
    def rate(order):
        with open(path, "w") as file:
            json.dump(ring_over(order), file)
        return limit_of(banyan, topology, path)

    def others(order):
        for i, j in itertools.combinations(range(1, n), 2):
            yield order[:i] + order[i:j + 1][::-1] + order[j + 1:]

    if n <= 5:
        best = max(([0, *rest] for rest in itertools.permutations(range(1, n))), key=rate)
    else:
        best, better = list(range(n)), True
        while better:
            order = max(others(best), key=rate)
            better = rate(order) > 1.001 * rate(best)
            best = order if better else best
    rate(best)
    return path


def loads(banyan, topology, plan):
    """Reads the table of `banyan topo --plan`, in which a link has one row for both directions or one for each."""
    rows, found = output(banyan, "topo", topology, "--all", "--plan", plan), {}
    rate = limit_of(banyan, topology, plan)
    for a, arrow, b, carried in re.findall(r"^  (\S+)\s+(<->|->)\s+(\S+)\s.*?(?:- |bit/s)\s+(-|\S+ \S*bit/s)\s+\d+ %",
                                           rows, re.M):
        load = 0 if carried == "-" else parse_rate(carried) / rate
        found[a, b] = load
        if arrow == "<->":
            found[b, a] = load
    return found


def make(banyan, scratch, name, topology, **goals):
    plan = os.path.join(scratch, name + ".plan.json")
    text = output(banyan, "plan", topology, "--json")
    with open(plan, "w") as file:
        file.write(text)
    value = json.loads(text)
    ring = best_ring(banyan, topology, value["ranks"], os.path.join(scratch, name + ".ring.json"))
    return Case(name, topology, plan, ring, value["throughput"], value["bound"], loads(banyan, topology, plan), **goals)


def reorder(topology, hosts, path):
    """Returns the same network with its ranks in another order."""
    with open(topology) as file:
        value = json.load(file)
    value["nodes"].sort(key=lambda node: hosts.index(node["name"]) if node["name"] in hosts else len(hosts))
    with open(path, "w") as file:
        json.dump(value, file)
    return path


def make_all(banyan, scratch):
    def named(name):
        return os.path.join(TOPOLOGIES, name + ".json")

    yield make(banyan, scratch, "star-even", named("star-even"), goal=1.02 * 0.421)
    yield make(banyan, scratch, "star-unequal", named("star-unequal"), goal=0.740)
    for hosts in (["a0", "a1", "b0", "b1"], ["a0", "b0", "a1", "b1"], ["a0", "b1", "b0", "a1"]):
        name = "two-sites-" + "-".join(hosts)
        path = reorder(named("two-sites"), hosts, os.path.join(scratch, name + ".json"))
        yield make(banyan, scratch, name, path, goal=0.740)
    # Twelve hosts whose links carry 4 Gbit/s together exceed two cores, so the goal applies to half the rates.
    yield make(banyan, scratch, "sparse-12-half", named("sparse-12"), share=0.85, peers=False, scale=2)
    yield make(banyan, scratch, "sparse-12", named("sparse-12"), peers=False)
