#!/bin/bash
# Tests Fortran programs under `banyan mpirun`, with the modules mpi and mpi_f08, and that Banyan made their calls.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"
command -v gfortran >/dev/null || skip "there is no gfortran"

tried=0
for abi in openmpi mpich; do
  has_abi $abi && command -v mpif90.$abi >/dev/null || continue
  for module in -UF08 -DF08; do
    mpif90.$abi -cpp -w "$module" -J "$scratch" -o "$scratch/sums" "$BANYAN_SOURCE/tests/mpi/sums.f90"
    BANYAN_TIMELINE=$scratch/timeline wants 0 timeout 60 "$BANYAN" mpirun -n 2 "$scratch/sums"
    shows '^all sums are right$' out
    for call in allreduce reduce broadcast allgather barrier; do shows "\"$call" timeline; done
    rm "$scratch/timeline"
    tried=$((tried + 1))
  done
done
[ $tried -gt 0 ] || skip "no MPI library has a Fortran compiler"
