#!/bin/bash
# Tests the errors that MPI programs get under `banyan mpirun`: MPI's own for wrong arguments, Banyan's for calls that
# differ between ranks, each through the error handler of the communicator.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"

# A rank without Banyan's library: the others would wait without a word.
if has_abi openmpi; then
  timeout 30 "$BANYAN" mpirun -n 1 "$FAILURES_OPENMPI" overlap : -n 1 env -u LD_PRELOAD "$FAILURES_OPENMPI" overlap \
    >"$scratch/without" 2>&1 &
  without=$!
fi

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

if has_abi openmpi; then
  for _ in {1..250}; do
    if has "waiting for ranks that have not loaded Banyan's library" without; then break; fi
    sleep 0.1
  done
  kill $without
  wait $without || true
  shows "waiting for ranks that have not loaded Banyan's library" without
fi
