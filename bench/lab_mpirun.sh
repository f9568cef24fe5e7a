#!/bin/bash
# lab_mpirun.sh MEET ARGUMENTS...: runs Open MPI's mpirun under `banyan lab`, one process on each host. The host of
# rank 0 runs mpirun, or BENCH_MPIRUN in its place, with a rank on each host; with BENCH_RANKS=N on the first and the
# N - 1 last hosts. What it would start through ssh on another host is written into the directory MEET, where the
# lab's process on that host waits for it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
subnet=10.77.0.0/16

# mpirun calls this in place of ssh: --agent HOST COMMAND...
start_there() {
  local host=$1
  shift
  echo "$*" >"$BENCH_MEET/$host.new"
  mv "$BENCH_MEET/$host.new" "$BENCH_MEET/$host.command"
  until [ -e "$BENCH_MEET/$host.done" ]; do sleep 0.1; done
  exit "$(cat "$BENCH_MEET/$host.done")"
}

wait_for_command() {
  local host status=0
  host=$(hostname)
  until [ -e "$BENCH_MEET/$host.command" ]; do
    [ ! -e "$BENCH_MEET/over" ] || exit 0
    sleep 0.05
  done
  sh -c "$(cat "$BENCH_MEET/$host.command")" || status=$?
  echo "$status" >"$BENCH_MEET/$host.new"
  mv "$BENCH_MEET/$host.new" "$BENCH_MEET/$host.done"
  exit "$status"
}

if [ "$1" = --agent ]; then start_there "${@:2}"; fi

export BENCH_MEET=$1 TMPDIR=$1
shift
if [ "$BANYAN_RANK" != 0 ]; then wait_for_command; fi
trap 'touch "$BENCH_MEET/over"' EXIT
ranks=${BENCH_RANKS:-$BANYAN_SIZE}
hosts=$(awk -v n="$ranks" '/^10\.77\./ { host[k++] = $2 }
  END { printf "%s:1", host[0]; for (i = k - n + 1; i < k; i++) printf ",%s:1", host[i] }' /etc/hosts)
${BENCH_MPIRUN:-mpirun.openmpi} --allow-run-as-root --bind-to none -H "$hosts" -n "$ranks" \
  --leave-session-attached --mca plm_rsh_agent "$here/lab_mpirun.sh --agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include "$subnet" --mca oob_tcp_if_include "$subnet" \
  --mca mpi_yield_when_idle 1 "$@"
