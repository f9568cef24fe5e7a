#!/bin/bash
# Times AllReduce with in-network aggregation in labs, and prints tables. Needs root, and libbpf for XDP.
#
# Environment: BANYAN (the command; default build/banyan), PARTS (of switches.py, separated by commas; default all),
# STARTS of a lab for each figure (4), CALLS timed in each (5), MIB summed in each call (8), OUT (default bench/out).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
BANYAN=$(realpath -m "${BANYAN:-$here/../build/banyan}")
export BANYAN

[ "$(id -u)" = 0 ] || { echo "bench: labs need root's rights: use sudo" >&2; exit 1; }
exec python3 "$here/switches.py"
