#!/bin/bash
# PyTorch Lightning and Hugging Face Accelerate: the examples train with two ranks, and check what they have learned.
set -euo pipefail
. "$BANYAN_SOURCE/tests/integrations/python_packages.sh"
python_with trainers torch==2.13.0 numpy lightning accelerate setuptools ninja
export BANYAN_TORCH_CACHE=$BANYAN_BUILD/integrations-trainers/cache
"$python" -m banyan.torch
for trainer in lightning accelerate; do
  timeout 200 "$BANYAN" run -n 2 -- "$python" "$BANYAN_SOURCE/examples/trainers/${trainer}_ddp.py"
done
