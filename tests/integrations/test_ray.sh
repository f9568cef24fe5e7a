#!/bin/bash
# Ray's actors, Ray Train, and arrays of JAX and of a PyTorch of today.
set -euo pipefail
. "$BANYAN_SOURCE/tests/integrations/python_packages.sh"
python_with ray 'ray[train]' torch==2.13.0 numpy jax setuptools ninja
export BANYAN_TORCH_CACHE=$BANYAN_BUILD/integrations-ray/cache
"$python" -m banyan.torch
timeout 120 "$python" "$BANYAN_SOURCE/tests/python/test_arrays.py"
timeout 300 "$python" "$BANYAN_SOURCE/tests/python/test_ray.py"
RAY_USAGE_STATS_ENABLED=0 timeout 200 "$python" "$BANYAN_SOURCE/examples/ray/collective.py"
