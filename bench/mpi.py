"""Times collectives of MPI programs with Open MPI alone and under `banyan mpirun`, in turn, on networks that
`banyan lab` builds: the programs of the OSU micro-benchmarks, as they are. Needs root.

Environment: OSU (folder of their sources, version 5), BANYAN (the command; default build/banyan), CASES (default
star-unequal:2,star-unequal:4,two-sites:2,two-sites:4), COLLECTIVES (default allreduce,allgather,reduce_scatter,bcast),
ROUNDS (3), LARGEST (4194304 bytes), MEASURED=1 (plans come from what the job measures, in place of the lab's
topology). Prints a table in Markdown for each case, in microseconds: medians over the rounds of what the programs print,
which is the average of the ranks' times, and the time of the slowest rank.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BANYAN = os.path.abspath(os.environ.get("BANYAN") or os.path.join(HERE, "../build/banyan"))
CASES = (os.environ.get("CASES") or "star-unequal:2,star-unequal:4,two-sites:2,two-sites:4").split(",")
COLLECTIVES = (os.environ.get("COLLECTIVES") or "allreduce,allgather,reduce_scatter,bcast").split(",")
ROUNDS = int(os.environ.get("ROUNDS") or 3)
LARGEST = int(os.environ.get("LARGEST") or 4 << 20)
SMALL = 65536  # bytes up to which more calls are timed
TIME_LIMIT = 180  # seconds of one start


def compile_programs(source, folder):
    collective = os.path.join(source, "mpi/collective")
    for name in COLLECTIVES:
        subprocess.run(["mpicc.openmpi", "-O2", "-w", "-I", collective, os.path.join(collective, f"osu_{name}.c"),
                        os.path.join(collective, "osu_coll.c"), "-lm", "-o", os.path.join(folder, f"osu_{name}")],
                       check=True)


def run(topology, ranks, launcher, program, arguments):
    """{bytes: microseconds, of all ranks on average and of the slowest} of one start."""
    meet = tempfile.mkdtemp()
    command = [BANYAN, "lab", os.path.join(HERE, f"../examples/topologies/{topology}.json"), "--output", "rank0",
               "--timeout", str(TIME_LIMIT), "-x", f"BENCH_RANKS={ranks}", "-x", f"BENCH_MPIRUN={launcher}"]
    if os.environ.get("MEASURED") == "1":
        command += ["-x", "BANYAN_TOPOLOGY=", "-x", "BANYAN_CACHE=off"]
    command += ["--", os.path.join(HERE, "lab_mpirun.sh"), meet, program, "-f", *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIME_LIMIT + 30)
    finally:
        shutil.rmtree(meet, ignore_errors=True)
    if done.returncode or "left to MPI" in done.stderr:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-600:]}")
    rows = re.findall(r"^(\d+) +([\d.]+) +[\d.]+ +([\d.]+) +\d+$", done.stdout, re.MULTILINE)
    return {int(size): (float(average), float(slowest)) for size, average, slowest in rows}


def measure(topology, ranks, program):
    """{bytes: ([times of Open MPI], [of Banyan])}"""
    launchers = ["mpirun.openmpi", f"{BANYAN} mpirun"]
    times = {}
    for number in range(ROUNDS):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            for arguments in (["-m", f"8:{SMALL}", "-i", "50", "-x", "10"],
                              ["-m", f"{2 * SMALL}:{LARGEST}", "-i", "5", "-x", "1"]):
                for size, time in run(topology, ranks, launchers[which], program, arguments).items():
                    times.setdefault(size, ([], []))[which].append(time)
    return times


def medians(times):
    return [statistics.median(column) for column in zip(*times)]


def main():
    if not os.environ.get("OSU"):
        sys.exit("bench: OSU is to be the folder of the sources of the OSU micro-benchmarks")
    with tempfile.TemporaryDirectory() as folder:
        compile_programs(os.environ["OSU"], folder)
        for case in CASES:
            topology, _, ranks = case.partition(":")
            for collective in COLLECTIVES:
                print(f"\n{collective}, {ranks} ranks, {topology}\n\n"
                      "| bytes | Open MPI | Banyan | ratio | slowest rank: Open MPI | Banyan | ratio |\n"
                      "|---:|---:|---:|---:|---:|---:|---:|")
                for size, both in sorted(measure(topology, ranks, f"{folder}/osu_{collective}").items()):
                    (plain, plain_slowest), (ours, ours_slowest) = map(medians, both)
                    print(f"| {size} | {plain:.0f} | {ours:.0f} | {plain / ours:.2f} | {plain_slowest:.0f} | "
                          f"{ours_slowest:.0f} | {plain_slowest / ours_slowest:.2f} |", flush=True)


if __name__ == "__main__":
    main()
