#!/bin/bash
# Times AllReduce with Banyan, Open MPI, MPICH and Gloo in one run and prints tables. README.md describes the protocol.
#
# Environment: BANYAN (the command; default build/banyan, omitted if it does not exist), QUICK=1 (two minutes), ROUNDS,
# SIZES, RANKS, TRANSPORTS (lists with commas), IN_PLACE=1, TUNED=1 (also peers' settings beyond their algorithms),
# EVERY=1 (every variant at every size), REALTIME=0, CONGESTION (default reno), OUT (default bench/out). Everything
# runs in namespaces of its own where that is permitted, so that nothing of it outlives the run: no process, no shared
# memory, no change of a setting.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
export BANYAN=${BANYAN:-$here/../build/banyan}
BANYAN=$(realpath -m "$BANYAN")
export CONGESTION=${CONGESTION:-reno}

# shellcheck source=bench/peers.sh
. "$here/peers.sh"

# The namespaces have loopback up, one congestion control for all, and a clean /dev/shm and /tmp.
inside() {
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount -t tmpfs -o mode=1777 tmpfs "$BENCH_TMP"
  ip link set lo up
  sysctl -qw "net.ipv4.tcp_congestion_control=$CONGESTION" ||
    echo "bench: no congestion control '$CONGESTION' here; the tables say what was in force" >&2
  run
}

run() {
  realtime=()
  if [ "${REALTIME:-1}" = 1 ] && chrt -r 5 true 2>/dev/null; then realtime=(chrt -r 5); fi
  export BENCH_REALTIME="${realtime[*]}"
  exec python3 "$here/compare.py"
}

if [ "${1:-}" = --inside ]; then inside; fi

# A namespace is killed: `unshare` ignores gentler signals, and the kernel ends all processes in it together with it.
finish() {
  if [ -n "${worker:-}" ]; then
    kill "-$signal" "$worker" 2>/dev/null || true
    wait "$worker" 2>/dev/null || true
  fi
  rm -rf "$BENCH_TMP"
}

build_peers
BENCH_TMP=$(mktemp -d)
export BENCH_TMP TMPDIR=$BENCH_TMP
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

spaces=(unshare --net --mount --pid --fork --kill-child --mount-proc)
if ! "${spaces[@]}" true 2>/dev/null; then spaces=(unshare --map-root-user "${spaces[@]:1}"); fi
if "${spaces[@]}" true 2>/dev/null; then
  export BENCH_NAMESPACE=own
  signal=KILL
  "${spaces[@]}" "${BASH_SOURCE[0]}" --inside &
else
  echo "bench: no namespaces permitted here: the congestion control of this machine is used as it is" >&2
  export BENCH_NAMESPACE=none
  signal=TERM
  run &
fi
worker=$!
wait "$worker"
