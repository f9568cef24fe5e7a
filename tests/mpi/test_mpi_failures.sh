#!/bin/bash
# Tests the errors that MPI programs get under `banyan mpirun`: MPI's own for wrong arguments, Banyan's for calls that
# differ between ranks, each through the error handler of the communicator.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"

for abi in openmpi mpich; do
  has_abi $abi || continue
  program=FAILURES_${abi^^}
  # Debian's MPICH is compiled without checks of arguments.
  if [ $abi = openmpi ]; then cases="wrong wrong-data overlap sizes mismatch"; else cases="overlap sizes mismatch"; fi
  for case in $cases; do
    wants 0 timeout 60 "$BANYAN" mpirun -n 2 "${!program}" "$case"
    shows '^as expected$' out
  done
  # Open MPI 4.1 with PMIx 4 may lose the text, because mpirun itself crashes when it prints it.
  for _ in 1 2 3 4 5; do
    code=0
    timeout 60 "$BANYAN" mpirun -n 2 "${!program}" fatal >"$scratch/out" 2>&1 || code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail "a fatal error ended with $code"
    if has 'banyan: call 0 differs between ranks' out; then break; fi
  done
  shows 'banyan: call 0 differs between ranks' out
done
