#!/bin/bash
# Tests a program of mpi4py under `banyan mpirun`, which takes the library of `mpirun`.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"
has_abi openmpi || skip "mpi4py of Debian needs Open MPI"
/usr/bin/python3 -c 'import mpi4py, numpy' 2>/dev/null || skip "there is no mpi4py (python3-mpi4py)"

BANYAN_TIMELINE=$scratch/timeline wants 0 timeout 60 "$BANYAN" mpirun -n 4 /usr/bin/python3 "$BANYAN_SOURCE/tests/mpi/sums.py"
shows '^all sums are right, by Open$' out
for call in allreduce reduce_scatter broadcast allgather barrier; do shows "\"$call" timeline; done
