#!/bin/bash
# Three training jobs under `banyan manager`, beside the same jobs with plain rings, in labs; prints a table. Needs root.
#
# Environment: BANYAN (the command; default build/banyan), MODES (rings shuffled manager), ROUNDS (1; each takes 6
# minutes), KEEP=1 (leave the logs), OUT (default bench/out).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
BANYAN=$(realpath -m "${BANYAN:-$here/../build/banyan}")
export BANYAN

[ "$(id -u)" = 0 ] || { echo "bench: labs need root's rights: use sudo" >&2; exit 1; }
mkdir -p "$BENCH_OUT"
exec python3 "$here/cluster.py"
