#!/bin/bash
# LightGBM over Banyan, beside its own sockets.
set -euo pipefail
. "$BANYAN_SOURCE/tests/integrations/python_packages.sh"
python_with lightgbm lightgbm numpy scipy
timeout 200 "$python" "$BANYAN_SOURCE/tests/python/test_lightgbm.py"
