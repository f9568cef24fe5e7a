#!/bin/bash
# demo.sh [BUILD]: trains on Fashion-MNIST with four ranks on this machine (`make demo`). BUILD is the build
# directory; $BANYAN and $RANKS choose another command and another number of ranks.
set -euo pipefail
build=${1:-build}
banyan=${BANYAN:-$build/banyan}
fashion=$build/examples/fashion
ranks=${RANKS:-4}

[ -x "$fashion" ] || {
  echo "demo: there is no $fashion: it needs OpenBLAS and zlib (apt-get install libopenblas-dev zlib1g-dev), then" \
    "\`meson setup --reconfigure $build && ninja -C $build\`" >&2
  exit 1
}

progress=()
[ -t 1 ] && progress=(--terminal)
"$banyan" run -n "$ranks" --output rank0 -- "$fashion" "${progress[@]}"

cat <<END

What to try next:
  the same batches on one rank; the loss follows within rounding
    $banyan run -n 1 -- $fashion
  another way to sum, through TCP instead of shared memory
    $banyan run -n $ranks --plan ring --transport tcp -- $fashion --epochs 3
  one JSON value for each epoch, and every step's loss in a file
    $banyan run -n $ranks -- $fashion --epochs 3 --json --loss-log loss.txt
  two machines with two ranks each (the same paths on both, ssh without a password)
    $banyan run -H this-host:2,other-host:2 -- $fashion
END
