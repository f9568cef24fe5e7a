#!/bin/bash
# Times sparse AllReduce on batches of a real text over TCP loopback: every algorithm of Banyan beside the others, and
# all_reduce of PyTorch with both backends, if python3-torch is installed.
#
# Environment: BUILD (the folder of banyan and sparse_bench; default build), TEXT (a file; default the text of
# linux-doc-6.1), RANKS (2 4 8), WIDTHS (64 256), TOKENS of a rank (256), CONGESTION (reno). Runs in a network
# namespace of its own where that is permitted, so that no setting is changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "${BUILD:-$here/../build}")
docs=/usr/share/doc/linux-doc-6.1/Documentation

cell() { # RANKS WIDTH
  local run=("$build/banyan" run -o rank0 -n "$1" --transport tcp --)
  rm -rf "$folder/batches"
  mkdir "$folder/batches"
  "${run[@]}" "$build/sparse_bench" "$text" "$2" "${TOKENS:-256}" "$folder/batches"
  /usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "  no python3-torch here: nothing to compare with"; return; }
  BANYAN=$build/banyan BANYAN_LIBRARY=$build/libbanyan.so.0 PYTHONPATH=$here/../bindings/python \
    /usr/bin/python3 "$here/sparse_torch.py" --ranks "$1" --transport tcp --batches "$folder/batches"
}

if [ "${1:-}" != --inside ]; then
  spaces=(unshare --net --pid --fork --kill-child --mount-proc)
  "${spaces[@]}" true 2>/dev/null || spaces=(unshare --map-root-user "${spaces[@]:1}")
  "${spaces[@]}" true 2>/dev/null && exec "${spaces[@]}" "${BASH_SOURCE[0]}" --inside
  echo "bench: no namespaces permitted here: the congestion control of this machine is used as it is" >&2
else
  ip link set lo up
  sysctl -qw "net.ipv4.tcp_congestion_control=${CONGESTION:-reno}" || true
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
text=${TEXT:-$folder/text}
if [ -z "${TEXT:-}" ]; then
  [ -d "$docs" ] || { echo "bench: no $docs: install linux-doc-6.1, or set TEXT" >&2; exit 1; }
  find "$docs" -name '*.rst.gz' | sort | xargs zcat >"$text"
fi
for width in ${WIDTHS:-64 256}; do
  for ranks in ${RANKS:-2 4 8}; do cell "$ranks" "$width"; done
done
