#!/bin/bash
# Times AllReduce with Banyan, Gloo and Open MPI on the topologies of lab.py, each built by `banyan lab`, and prints
# tables. Needs root. README.md documents what is measured.
#
# Environment: BANYAN (the command; default build/banyan), CASES (names separated by commas; default all), ROUNDS (4),
# CALLS timed in each round (5), BYTES (16M), PEERS=0 (Banyan alone), KEEP=1 (add to earlier runs), OUT (default
# bench/out).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
BANYAN=$(realpath -m "${BANYAN:-$here/../build/banyan}")
export BANYAN
# shellcheck source=bench/peers.sh
. "$here/peers.sh"

[ "$(id -u)" = 0 ] || { echo "bench: labs need root's rights: use sudo" >&2; exit 1; }
build_peers
exec python3 "$here/lab.py"
