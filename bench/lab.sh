#!/bin/bash
# lab.sh [collectives]: times AllReduce, or the other collectives and steps of sharded training, with Banyan, Gloo and
# Open MPI on topologies that `banyan lab` builds, and prints tables. Needs root. README.md documents what is measured.
#
# Environment: BANYAN (the command; default build/banyan), CASES (names separated by commas; default all), ROUNDS (4),
# CALLS timed in each round (5), BYTES (16M), PEERS=0 (Banyan alone), KEEP=1 (add to earlier runs), OUT (default
# bench/out); for collectives also COLLECTIVES (names separated by commas; default all) and MODEL (bytes of the units
# that are sharded, separated by commas; default GPT-2 small with two bytes for each parameter).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
BANYAN=$(realpath -m "${BANYAN:-$here/../build/banyan}")
export BANYAN
# shellcheck source=bench/peers.sh
. "$here/peers.sh"

[ "$(id -u)" = 0 ] || { echo "bench: labs need root's rights: use sudo" >&2; exit 1; }
build_peers
case "${1:-}" in
  "") exec python3 "$here/lab.py" ;;
  collectives) exec python3 "$here/lab_collectives.py" ;;
  *) echo "usage: lab.sh [collectives]" >&2; exit 2 ;;
esac
