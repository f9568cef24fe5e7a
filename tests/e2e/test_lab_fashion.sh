#!/bin/bash
# Tests the training example in a lab, with gradients aggregated by two levels of switches in XDP (or in user space
# where XDP is not available): all workers hold the same bits, a second run reproduces them, and it learns what a ring
# learns.
. "$BANYAN_SOURCE/tests/shell.sh"

fashion=$BANYAN_BUILD/examples/fashion
[ -x "$fashion" ] || skip "examples/fashion is not built: it needs libopenblas-dev and zlib1g-dev"
[ -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || skip "no images: apt-get install dataset-fashion-mnist"
topology=$BANYAN_SOURCE/examples/topologies/adding-2.json
way=xdp
"$BANYAN" lab "$topology" --switches $way -- true 2>"$scratch/err" || way=user
"$BANYAN" lab "$topology" --switches $way -- true 2>"$scratch/err" || skip "$(grep -v '^\[' "$scratch/err")"

# train NAME LAB-OPTION...: 25 steps of six workers. Values go to NAME.json, the links' bytes to NAME.lab.
train() {
  local name=$1
  shift
  wants 0 "$BANYAN" lab "$topology" --scale 3 --json -o rank0 -x OPENBLAS_NUM_THREADS=1 "$@" -- \
    "$fashion" --epochs 1 --limit 6100 --batch 250 --hidden 128,64 --json
  grep '"summary"' "$scratch/out" >"$scratch/$name.json" || fail "$(cat "$scratch/out" "$scratch/err")"
  tail -n 1 "$scratch/out" >"$scratch/$name.lab"
  mv "$scratch/err" "$scratch/$name.text"
}
value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "$scratch/$2.json"; }

train switches --switches $way
shows 'checksum [0-9a-f]{16}, identical on all 6 ranks' switches.text
train again --switches $way
[ "$(value checksum switches)" = "$(value checksum again)" ] || fail "a second run gave other parameters"
train ring -p ring
python3 - "$scratch/switches.json" "$scratch/ring.json" "$scratch/switches.lab" <<'END' || fail "see above"
import json, os, sys
switches, ring, lab = [json.load(open(path)) for path in sys.argv[1:]]
print("accuracy", switches["test_accuracy"], "over a ring", ring["test_accuracy"])
assert abs(switches["test_accuracy"] - ring["test_accuracy"]) < 0.005
into = sum(link["bytes"] for link in lab["links"] if link["to"] == "server")
sent = sum(link["bytes"] for link in lab["links"] if link["from"].startswith("w"))
print("of what six workers send, into the server:", into / sent)
# Retransmissions bypass the switches. There are many of them where a sanitizer makes everything slow.
assert into / sent < 0.3 or os.environ.get("BANYAN_SANITIZED", "none") != "none"
END
