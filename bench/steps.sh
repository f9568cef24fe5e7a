#!/bin/bash
# Times steps of models whose gradients become ready one after the other: by name, one by one, and all at once
# (step_bench.c). Runs over loopback, and as root also over links of 1 Gbit/s in a lab.
#
# Environment: BUILD (default build), STEPS (default 10).
set -euo pipefail
build=${BUILD:-build}
steps=${STEPS:-10}

for model in 'resnet50 0.1' 'bert 0.3'; do
  read -r name seconds <<<"$model"
  for ranks in 2 4; do
    "$build/banyan" run -n "$ranks" --transport tcp -- "$build/step_bench" "$name" "$steps" "$seconds"
  done
done
if [ "$(id -u)" = 0 ]; then
  echo "# four hosts, links of 1 Gbit/s"
  "$build/banyan" lab star:4,nic=1g -- "$build/step_bench" resnet50 "$steps" 0.5
  "$build/banyan" lab star:4,nic=1g -- "$build/step_bench" bert 2 1
else
  echo "# no lab without root" >&2
fi
