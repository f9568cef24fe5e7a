#!/bin/bash
# Tests `banyan mpirun`: results of programs of both MPI libraries, that Banyan made the calls, which library is chosen,
# and mistakes.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/mpi/common.sh"

for abi in openmpi mpich; do
  has_abi $abi || continue
  program=COLLECTIVES_${abi^^} recorder=RECORDER_${abi^^}
  # Ranks of MPICH wait without yielding: with more of them than cores, that takes long.
  if [ $abi = openmpi ]; then ranks=4; else ranks=2; fi
  for bytes in 8 20000; do
    BANYAN_TIMELINE=$scratch/timeline wants 0 timeout 100 "$BANYAN" mpirun -n $ranks "${!program}" $bytes
    shows '^[0-9]+ checks passed' out
    # Small calls are left to MPI.
    [ $bytes -gt 8 ] || continue
    for call in allreduce reduce broadcast reduce_scatter allgather alltoall barrier; do
      shows "\"$call" timeline
    done
    rm -f "$scratch/timeline"
  done
  # One line of the job says how many calls Banyan made, and why the others were MPI's.
  wants 0 timeout 60 "$BANYAN" mpirun -v -n 2 "${!program}" 20000
  [ "$(grep -c 'collective calls Banyan made' "$scratch/err")" = 1 ] || fail "there is not one line about the calls of the job"
  read -r all made small unsuitable others < <(sed -nE '/Banyan made/{s/[^0-9]+/ /g;s/^ 0 //;p}' "$scratch/err")
  [ "$made" -gt 0 ] && [ "$small" -gt 0 ] && [ "$unsuitable" -gt 0 ] && [ "$all" -eq $((made + small + unsuitable + others)) ] ||
    fail "the numbers of calls are wrong: $(grep 'Banyan made' "$scratch/err")"
  program=THREADS_${abi^^}
  wants 0 timeout 60 "$BANYAN" mpirun -n 2 "${!program}"
  shows ' are right' out
  program=COLLECTIVES_${abi^^}
  # Rank 0 cannot be reached: all ranks leave the calls to MPI.
  BANYAN_ROOT=192.0.2.1:1 BANYAN_JOIN_DEADLINE=1 wants 0 timeout 100 "$BANYAN" mpirun -n 2 "${!program}" 80
  shows '^banyan\[rank [01]\] mpi: collective calls are left to MPI: ' err
  # A reason that all ranks have is printed once.
  BANYAN_PLAN=none wants 0 timeout 100 "$BANYAN" mpirun -n 2 "${!program}" 80
  [ "$(grep -c 'are left to MPI: there is no built-in plan "none"' "$scratch/err")" = 1 ] || fail "there is not one reason"
  # An interpreter is none of MPI's programs: its library is that of --abi.
  wants 0 "$BANYAN" mpirun --abi $abi -n 2 sh -c "echo \$LD_PRELOAD"
  shows "^/.*/libbanyan-$abi.so$" out
  LD_PRELOAD=libm.so.6 wants 0 "$BANYAN" mpirun --abi=$abi -n 1 sh -c "echo \$LD_PRELOAD"
  shows "^libm.so.6:/.*/libbanyan-$abi.so$" out
  LD_PRELOAD=${!recorder} wants 0 timeout 60 "$BANYAN" mpirun -n 2 "${!program}" 80
  shows '^[0-9]+ checks passed' out
  shows '^[1-9][0-9]* calls of MPI_Allreduce' out
  # Several programs in one job.
  wants 0 timeout 60 "$BANYAN" mpirun -n 1 "${!program}" 80 : -n 1 "${!program}" 80
  shows '^[0-9]+ checks passed' out
done

# Short options that its help lists are Banyan's, too.
wants 0 "$BANYAN" mpirun -h
shows '^usage: banyan mpirun' out
wants 2 "$BANYAN" mpirun -q
shows 'arguments are missing' err
wants 2 "$BANYAN" mpirun
shows 'arguments are missing' err
wants 2 "$BANYAN" mpirun --abi lam -n 2 true
shows '"lam" is not one of openmpi\|mpich' err
wants 1 "$BANYAN" mpirun --mpirun "$scratch/none" -n 2 true
shows "$scratch/none is not there" err
wants 1 "$BANYAN" mpirun --mpirun true -n 2 true
shows 'neither of Open MPI nor of MPICH; use --abi' err
wants 2 "$BANYAN" mpirun -n 2 -x LD_PRELOAD=libm.so.6 true
shows "mpirun's LD_PRELOAD would take the place of Banyan's" err
if has_abi openmpi && has_abi mpich; then
  wants 1 "$BANYAN" mpirun --abi mpich -n 1 sh -c "exec $COLLECTIVES_OPENMPI"
  shows 'this program is one of Open MPI, not of MPICH; use `banyan mpirun --abi openmpi`' err
  wants 1 "$BANYAN" mpirun --mpirun mpirun.mpich -n 2 "$COLLECTIVES_OPENMPI"
  shows 'the program is one of Open MPI, and .* of MPICH; choose with --mpirun' err
  wants 1 "$BANYAN" mpirun --abi mpich -n 2 "$COLLECTIVES_OPENMPI"
  shows 'the program is one of Open MPI; leave out --abi' err
fi
