#!/bin/bash
# Tests that random collective calls have the same results under `banyan mpirun` as under mpirun.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"
export OMPI_MCA_mpi_yield_when_idle=1

for abi in openmpi mpich; do
  has_abi $abi || continue
  program=RANDOM_CALLS_${abi^^}
  # As in test_mpirun.sh.
  if [ $abi = openmpi ]; then ranks=3; else ranks=2; fi
  for seed in 1 2; do
    wants 0 timeout 60 mpirun.$abi -n $ranks "${!program}" $seed 250
    cp "$scratch/out" "$scratch/without"
    for transport in shm tcp; do
      BANYAN_TRANSPORT=$transport BANYAN_TIMELINE=$scratch/timeline wants 0 timeout 60 \
        "$BANYAN" mpirun -n $ranks "${!program}" $seed 250
      cmp -s "$scratch/out" "$scratch/without" || fail "results differ with seed $seed, $abi and $transport"
      for call in allreduce reduce broadcast reduce_scatter allgather alltoall barrier; do shows "\"$call" timeline; done
      rm "$scratch/timeline"
    done
  done
done
