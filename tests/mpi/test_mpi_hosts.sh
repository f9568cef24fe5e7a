#!/bin/bash
# Tests an MPI program on two hosts of a lab, with calls that are large enough for Banyan between hosts.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"
has_abi openmpi || skip "there is no Open MPI"
needs_namespaces

mkdir "$scratch/meet"
wants 0 timeout 100 "$BANYAN" lab star:2,nic=1g --output raw -x BENCH_MPIRUN="$BANYAN mpirun" -x BANYAN_TIMELINE="$scratch/timeline" -- \
  "$BANYAN_SOURCE/bench/lab_mpirun.sh" "$scratch/meet" "$COLLECTIVES_OPENMPI" 140000
shows '^[0-9]+ checks passed$' out
if has 'left to MPI' err; then fail "the ranks have not joined"; fi
for call in allreduce reduce broadcast reduce_scatter allgather alltoall; do shows "\"$call" timeline; done
