#!/bin/bash
# `banyan topo --measure` in labs finds the topology again that a lab was built from. Rates are compared only roughly
# because the machine may be busy.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
examples=$BANYAN_SOURCE/examples/topologies

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
"$BANYAN" lab star:2,nic=50m -- true 2>"$scratch/err" || { grep -q 'CONFIG_NET_SCH_HTB' "$scratch/err" &&
  skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# found TOPOLOGY SCALE: measures a lab of the topology and writes the result to $scratch/found.json.
found() {
  rm -f "$scratch/found.json"
  wants 0 "$BANYAN" lab "$1" --scale "$2" --timeout 120 -- banyan topo --measure -o "$scratch/found.json"
  shows 'banyan topo: .* hosts measured, .* experiments' err
  wants 0 "$BANYAN" plan "$scratch/found.json"
}
# check CODE: runs Python code that checks `rate`, a function of two hosts that returns the rate over their links.
check() {
  python3 - "$scratch/found.json" "$1" <<'END' || fail "$(cat "$scratch/found.json")"
import json, sys
t = json.load(open(sys.argv[1]))
hosts = [n["name"] for n in t["nodes"] if n.get("kind", "host") == "host"]
def way(capacity, there):
    return capacity["ab" if there else "ba"] if isinstance(capacity, dict) else capacity
def rate(a, b):
    best = {a: float("inf")}
    for _ in t["nodes"]:
        for link in t["links"]:
            for x, y, there in ((link["a"], link["b"], True), (link["b"], link["a"], False)):
                best[y] = max(best.get(y, 0), min(best.get(x, 0), way(link["capacity"], there)))
    return best[b]
exec(sys.argv[2])
END
}

# 100, 100, 100 and 20 Mbit/s: three equal rates and one that is far slower.
found "$examples/star-unequal.json" 1/10
check '
assert hosts == ["h0", "h1", "h2", "h3"], hosts
for a in "h0", "h1", "h2":
    assert rate(a, "h3") < 0.6 * max(rate(a, b) for b in ("h0", "h1", "h2") if b != a), a'

# Two sites: the line between them is slower than the links inside them.
found "$examples/two-sites.json" 1/10
check '
assert sorted(hosts) == ["a0", "a1", "b0", "b1"], hosts
assert rate("a0", "b0") < 0.6 * rate("a0", "a1") and rate("b1", "a1") < 0.6 * rate("b1", "b0")'

# Ranks on the same host count as one.
wants 0 "$BANYAN" lab star:3,nic=50m -n 2 --timeout 120 -- banyan topo --measure --json
python3 -c 'import json, sys
nodes = json.load(sys.stdin)["nodes"]
assert sum(n.get("kind", "host") == "host" for n in nodes) == 3, nodes' <"$scratch/out" || fail "$(cat "$scratch/out")"

# A rank that dies during a measurement ends it for all ranks with an error that names it.
"$BANYAN" lab star:3,nic=50m --keep-going --timeout 120 -- sh -c \
  '"$0" topo --measure & p=$!; [ "$BANYAN_RANK" != 2 ] || { sleep 1; kill -9 $p; }; wait $p' "$BANYAN" \
  >"$scratch/out" 2>"$scratch/err" && fail "measured with a dead rank: $(cat "$scratch/out")"
shows '\[h0\] banyan topo: .*rank 2 \(host h2\)' err
