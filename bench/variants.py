"""All compared ways of running an AllReduce: program, algorithm, and transport.

A variant is one command line. `quick` marks those that were best at some size when all were tried; `tuned` those that
change a setting of the peer other than its algorithm or its own choice of transport. `least` and `most` are the sizes
in bytes between which a variant was ever within 1.3 of its library's best; `rare` ones never were, or duplicate
another.

EVERY=1 tries all at all sizes, except above `limit`, where a variant is known to hang.
"""

import os
import shlex
from dataclasses import dataclass, field

BIN = os.path.join(os.environ["BENCH_OUT"], "bin")
BANYAN = os.environ["BANYAN"]
REALTIME = shlex.split(os.environ.get("BENCH_REALTIME", ""))
K, M = 1 << 10, 1 << 20
CORES = len(os.sched_getaffinity(0))


@dataclass
class Variant:
    impl: str
    algorithm: str
    command: list
    environment: dict = field(default_factory=dict)
    quick: bool = False
    tuned: bool = False
    rare: bool = False
    least: int = 0
    most: int = 1 << 40
    limit: int = 1 << 40
    sliced: bool = False  # The variant's time is that of the kernel's time slices, wherever the cores are.

    @property
    def key(self):
        return f"{self.impl} {self.algorithm}"

    def fits(self, size, every):
        return size <= self.limit and (every or self.least <= size <= self.most)


def peer(program, *arguments):
    return [os.path.join(BIN, program), "--pin", *arguments]


def parameters(values):
    return [word for name, value in values.items() for word in ("--mca", name, str(value))]


OPENMPI_ALGORITHMS = ["default", "linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring",
                      "rabenseifner"]


OPENMPI_RANGES = {
    "linear": {"most": 8 * K},
    "nonoverlapping": {"most": 8 * K},
    "recursive_doubling": {"most": M},
    "ring": {"least": 8 * K},
    "segmented_ring": {"least": 8 * K},
    "rabenseifner": {"least": 8 * K},
}


def openmpi(ranks, pml, algorithm, name, settings, environment=None, **flags):
    """`pml` is the layer that carries messages: Open MPI's own (ob1) or UCX."""
    number = OPENMPI_ALGORITHMS.index(algorithm)  # The parameter has this numbering.
    values = dict(settings, mpi_yield_when_idle=int(ranks > CORES))
    if number:
        values |= {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": number}
    if algorithm == "segmented_ring":
        values["coll_tuned_allreduce_algorithm_segmentsize"] = 128 << 10
    if pml == "ucx":
        values |= {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
    else:
        values["pml"] = "ob1"
    launcher = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    command = REALTIME + launcher + parameters(values) + peer("peer_openmpi")
    return Variant("openmpi", name, command, environment or {}, **OPENMPI_RANGES.get(algorithm, {}), **flags)


def openmpi_shm(ranks):
    own = {"btl": "self,vader"}
    for algorithm in OPENMPI_ALGORITHMS:
        quick = algorithm in ("default", "linear", "segmented_ring")
        yield openmpi(ranks, "ob1", algorithm, algorithm, own, quick=quick)
    sm = dict(own, coll_sm_priority=100)
    yield openmpi(ranks, "ob1", "default", "coll_sm", sm, quick=True)
    for size in (128, 1024):
        larger = dict(sm, coll_sm_fragment_size=size << 10)
        yield openmpi(ranks, "ob1", "default", f"coll_sm/{size}K", larger, tuned=True)
    for algorithm in ("default", "recursive_doubling", "ring", "rabenseifner"):
        yield openmpi(ranks, "ucx", algorithm, f"ucx+cma/{algorithm}", {}, {"UCX_TLS": "posix,cma,self"},
                      quick=algorithm == "default")
    for algorithm in ("default", "ring"):
        yield openmpi(ranks, "ucx", algorithm, f"ucx/{algorithm}", {}, {"UCX_TLS": "sysv,self"},
                      quick=algorithm == "default")


def openmpi_tcp(ranks):
    own = {"btl": "self,tcp", "btl_tcp_if_include": "lo"}
    for algorithm in OPENMPI_ALGORITHMS:
        quick = algorithm in ("default", "linear", "rabenseifner")
        yield openmpi(ranks, "ob1", algorithm, algorithm, own, quick=quick)
    for algorithm in ("default", "ring"):
        twice = dict(own, btl_tcp_links=2)
        yield openmpi(ranks, "ob1", algorithm, f"two links/{algorithm}", twice, tuned=True)
    for algorithm in ("default", "recursive_doubling", "ring"):
        yield openmpi(ranks, "ucx", algorithm, f"ucx/{algorithm}", {}, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"},
                      quick=algorithm == "default")


MPICH_ALGORITHMS = ["auto", "recursive_doubling", "reduce_scatter_allgather"]
MPICH_RANGES = {"recursive_doubling": {"most": M}, "reduce_scatter_allgather": {"least": 8 * K}}


def mpich_algorithms(ranks):
    """Where ranks share a core MPICH's time consists of time slices, whatever the algorithm, so one algorithm
    suffices."""
    return MPICH_ALGORITHMS if ranks <= CORES else MPICH_ALGORITHMS[:1]


def mpich(ranks, algorithm, name, environment, **flags):
    """MPICH spins and never yields: where ranks share a core, real-time slices would make it ten times slower
    still."""
    priority = REALTIME if ranks <= CORES else []
    environment = dict(environment, MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=algorithm)
    command = priority + ["mpirun.mpich", "-n", str(ranks)] + peer("peer_mpich")
    ranges = MPICH_RANGES.get(algorithm, {})
    return Variant("mpich", name, command, environment, sliced=ranks > CORES, **ranges, **flags)


def mpich_shm(ranks):
    for algorithm in mpich_algorithms(ranks):
        yield mpich(ranks, algorithm, algorithm, {"MPIR_CVAR_DEVICE_COLLECTIVES": "none"}, quick=algorithm == "auto")
    if ranks > CORES:
        return
    gather = {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather"}
    yield mpich(ranks, "auto", "release_gather", gather, rare=True)
    for algorithm in MPICH_ALGORITHMS:
        yield mpich(ranks, algorithm, f"ucx/{algorithm}", {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "sysv,self"},
                    quick=algorithm == "recursive_doubling", rare=algorithm == "reduce_scatter_allgather")


def mpich_tcp(ranks):
    environment = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
    for algorithm in mpich_algorithms(ranks):
        yield mpich(ranks, algorithm, algorithm, environment, quick=True)


def gloo(ranks, algorithm, **flags):
    return Variant("gloo", algorithm, REALTIME + peer("peer_gloo", "-n", str(ranks)), **flags)


def gloo_tcp(ranks):
    yield gloo(ranks, "ring", least=M, quick=True)
    yield gloo(ranks, "bcube", least=512 * K)
    yield gloo(ranks, "class_ring", rare=True)
    # All ends of a ring write before they read, so blocking writes need space for a message in the sockets.
    yield gloo(ranks, "class_ring+sync", limit=512 * K, quick=ranks > CORES)
    if ranks <= CORES:
        yield gloo(ranks, "class_ring+poll", limit=512 * K, quick=True)
    for name, least in (("class_ring_chunked", 4 * M), ("class_halving_doubling", 64 * K), ("class_bcube", 64 * K)):
        whole = name != "class_ring_chunked"
        yield gloo(ranks, name, least=least)
        yield gloo(ranks, f"{name}+sync", least=least, quick=ranks > CORES and whole)
        if ranks <= CORES:
            yield gloo(ranks, f"{name}+poll", least=least, quick=whole)


def banyan(ranks, transport, registered):
    command = REALTIME + [BANYAN, "bench", "allreduce", "-n", str(ranks), "--transport", transport, "--json", "--pin"]
    if registered:
        return Variant("banyan", "registered", command + ["--registered"], quick=True)
    return Variant("banyan", "ordinary", command, quick=True)


def banyan_variants(ranks, transport):
    if os.access(BANYAN, os.X_OK):
        yield banyan(ranks, transport, False)
        if transport == "shm":  # A socket has no use for pages that all ranks share.
            yield banyan(ranks, transport, True)


def all_variants(ranks, transport):
    lists = {"shm": [openmpi_shm, mpich_shm], "tcp": [openmpi_tcp, mpich_tcp, gloo_tcp]}[transport]
    for variants in lists:
        for variant in variants(ranks):
            program = next(word for word in variant.command if word.startswith(BIN))
            if os.access(program, os.X_OK):
                yield variant
