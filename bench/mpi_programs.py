"""Runs programs of MPI with Open MPI alone and under `banyan mpirun`, in turn, and compares what they compute and how long
they take: hpcc, LAMMPS and GROMACS as Debian has them (packages hpcc, lammps, gromacs), and bench/peer_mpi.c, which checks its sums,
compiled for MPICH, with two ranks. Those that are not installed are left out.

Environment: BANYAN (the command; default build/banyan), RANKS (4), ROUNDS (3), PROGRAMS (default
hpcc,lammps,gromacs,mpich).
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BANYAN = os.path.abspath(os.environ.get("BANYAN") or os.path.join(HERE, "../build/banyan"))
RANKS = int(os.environ.get("RANKS") or 4)
ROUNDS = int(os.environ.get("ROUNDS") or 3)
PROGRAMS = (os.environ.get("PROGRAMS") or "hpcc,lammps,gromacs,mpich").split(",")
TIME_LIMIT = 300  # seconds of one run
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")

LAMMPS = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 16 0 16 0 16
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 10
run 200
"""
GROMACS = """integrator = md
nsteps = 200
dt = 0.001
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
nstlist = 10
gen-vel = yes
gen-seed = 1
ld-seed = 1
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 300
nstenergy = 10
nstlog = 50
constraints = all-bonds
"""
WATER = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def quietly(*command, cwd):
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# Each program: what it needs, what is prepared in its folder, the command, the numbers it computed, how much they may
# differ.

def prepare_hpcc(folder):
    """For a grid of RANKS processes in one row, and a small matrix."""
    text = read("/usr/share/doc/hpcc/examples/_hpccinf.txt")
    text = re.sub(r"^\d+( +Ns)", r"600\1", text, flags=re.MULTILINE)
    text = re.sub(r"^\d+( +Ps)", r"1\1", text, flags=re.MULTILINE)
    write(f"{folder}/hpccinf.txt", re.sub(r"^\d+( +Qs)", rf"{RANKS}\1", text, flags=re.MULTILINE))


def results_of_hpcc(folder, _):
    """All checks of its seven benchmarks, which are relative to their own tolerance."""
    text = read(f"{folder}/hpccoutf.txt")
    if "FAILED" in text or "Success=1" not in text:
        sys.exit("bench: hpcc failed; see its hpccoutf.txt")
    names = "PTRANS_residual|MPIRandomAccess_Errors|MPIRandomAccess_LCG_Errors|MPIFFT_maxErr"
    return [float(value) for value in re.findall(rf"^(?:{names})=(\S+)$", text, re.MULTILINE)]


def prepare_lammps(folder):
    write(f"{folder}/melt.in", LAMMPS)


def results_of_lammps(_, printed):
    return [float(n) for n in NUMBER.findall(printed.split("Press", 1)[1].split("Loop time", 1)[0])]


def prepare_gromacs(folder):
    write(f"{folder}/topol.top", WATER)
    write(f"{folder}/grompp.mdp", GROMACS)
    quietly("gmx", "solvate", "-cs", "spc216.gro", "-box", "3", "3", "3", "-o", "conf.gro", "-p", "topol.top", cwd=folder)
    quietly("gmx", "grompp", "-f", "grompp.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "topol.tpr", "-maxwarn", "3",
            cwd=folder)


def results_of_gromacs(folder, _):
    """Energies, temperature and pressure at steps 50, 100, ..., not the averages."""
    found = []
    for block in re.findall(r"Energies \(kJ/mol\)\n(.*?)\n\n", read(f"{folder}/md.log"), re.DOTALL):
        found += [float(n) for n in NUMBER.findall(" ".join(block.split("\n")[1::2]))]
    return found


def prepare_mpich(folder):
    quietly("mpicc.mpich", "-O2", "-I", HERE, os.path.join(HERE, "peer_mpi.c"), "-lm", "-o", "peer", cwd=folder)


def results_of_mpich(_, printed):
    """Elements that were wrong, of each size."""
    return [float(n) for n in re.findall(r'"wrong": *(\d+)', printed)]


TABLE = {
    "hpcc": ("hpcc", "openmpi", prepare_hpcc, ["hpcc"], results_of_hpcc, 1e-12),
    "lammps": ("lmp", "openmpi", prepare_lammps, ["lmp", "-in", "melt.in"], results_of_lammps, 1e-5),
    "gromacs": ("gmx_mpi", "openmpi", prepare_gromacs,
                ["gmx_mpi", "mdrun", "-s", "topol.tpr", "-reprod", "-ntomp", "1", "-pin", "off"], results_of_gromacs, 1e-3),
    "mpich": ("mpicc.mpich", "mpich", prepare_mpich, ["./peer", "--sizes", "8,256K,4M", "--calls", "10"], results_of_mpich, 0),
}


def run(folder, launcher, ranks, command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_hwloc_base_binding_policy": "none"}
    for name in ("hpccoutf.txt", "md.log"):
        if os.path.exists(f"{folder}/{name}"):
            os.remove(f"{folder}/{name}")
    begin = time.monotonic()
    done = subprocess.run([*launcher, "-n", str(ranks), *command], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT)
    took = time.monotonic() - begin
    if done.returncode or "left to MPI" in done.stdout:
        sys.exit(f"bench: {' '.join(command)}: exit code {done.returncode}: {done.stdout[-600:]}")
    return took, done.stdout


def difference(ours, plain):
    """The largest difference, relative to the larger of the number and 1."""
    if len(ours) != len(plain) or not ours:
        return float("inf")
    return max(abs(a - b) / max(1, abs(a), abs(b)) for a, b in zip(ours, plain))


def compare(name):
    _, abi, prepare, command, results, tolerance = TABLE[name]
    ranks = RANKS if abi == "openmpi" else 2  # MPICH waits without yielding
    times, values, worst = {False: [], True: []}, {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for number in range(ROUNDS):
            for banyan in (False, True) if number % 2 == 0 else (True, False):
                took, printed = run(folder, [BANYAN, "mpirun"] if banyan else [f"mpirun.{abi}"], ranks, command)
                times[banyan].append(took)
                values[banyan] = results(folder, printed)
            worst = max(worst, difference(values[True], values[False]))
    print(f"| {name} | {len(values[True])} | {worst:.1e} | {statistics.median(times[False]):.2f} | "
          f"{statistics.median(times[True]):.2f} |", flush=True)
    return worst <= tolerance


def main():
    print(f"{RANKS} ranks on this host, medians of {ROUNDS} runs\n\n"
          "| program | results compared | largest relative difference | MPI library, s | Banyan, s |\n|---|---:|---:|---:|---:|")
    wrong = [name for name in PROGRAMS if shutil.which(TABLE[name][0]) and not compare(name)]
    if wrong:
        sys.exit(f"bench: other results than without Banyan: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
