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

# So does the death of a site's leader while the sites of a job are measured, of which each is measured by itself. Where the
# machine is too busy for that, it is tried again.
for ((i = 0; i < 10; i++)); do
  rm -f "$scratch"/log.*
  "$BANYAN" lab sites:2x2,lan=100m,wan=20m,rtt=20ms --keep-going --timeout 120 -x BANYAN_TOPOLOGY= -x BANYAN_CACHE=off \
    -x BANYAN_LOG=plan:debug -- sh -c '"$0" bench --sizes 64K --iterations 1 2>"$1.$BANYAN_RANK" & p=$!
      until [ "$BANYAN_RANK" != 2 ] || grep -q "what each host sends" "$1.2" || ! kill -0 $p; do sleep 0.01; done
      [ "$BANYAN_RANK" != 2 ] || kill -9 $p; wait $p' "$BANYAN" "$scratch/log" >"$scratch/out" 2>"$scratch/err" || :
  ! grep -q 'what each host sends' "$scratch/log.2" || break
done
shows 'what each host sends' log.2
shows 'rank 2 \(host s1h0\) is gone' log.0
shows 'rank 2 \(host s1h0\) is gone' log.3

# A job that is given no topology finds a plan by itself. A busy machine may be too slow to measure in the time that it has
# for that, and probes may find another rate than before, so this is tried some times. What is refused is exact.
automatic() { # ARGUMENTS...: runs a job in a lab
  wants 0 "$BANYAN" lab "$examples/star-unequal.json" --scale 1/10 --timeout 120 -x BANYAN_TOPOLOGY= \
    -x BANYAN_CACHE="$scratch/cache" -x BANYAN_LOG=plan:info "$@" -- banyan bench --sizes 64K --iterations 1
}
until_shows() { # PATTERN: such a job logs it, sooner or later
  local i
  for ((i = 0; i < 10; i++)); do
    automatic
    ! has "$1" err || return 0
  done
  shows "$1" err
}
export XDG_CONFIG_HOME=$scratch/settings
until_shows 'measuring and planning took'
cached=$(echo "$scratch"/cache/network-*.json)
[ -s "$cached" ] || fail "nothing was cached: $(ls "$scratch/cache")"
cp "$cached" "$scratch/good"
until_shows 'is still like that, as probes found'

refused() { # PATTERN: the entry in the cache is refused with one line, and the job goes on
  automatic
  [ "$(grep -c 'the network is measured again' "$scratch/err")" = 1 ] || fail "not one line: $(cat "$scratch/err")"
  shows "$1" err
}
head -c 300 "$scratch/good" >"$cached"
refused 'the network is measured again: .*network-'
sed 's/10\.77\.0\.2/10.77.0.9/' "$scratch/good" >"$cached"
refused 'the network is measured again: .*of another network'
sed -E 's/"measured":[0-9]/"measured":9/' "$scratch/good" >"$cached"
refused 'the network is measured again: .*in the future'

# Nothing is measured where that is off, where there is a plan or a topology, or a site file.
unmeasured() { # ARGUMENTS...
  automatic "$@"
  ! has 'so far|probes found' err || fail "it was measured: $(cat "$scratch/err")"
}
unmeasured -x BANYAN_TOPOLOGY=off
unmeasured --plan ring
unmeasured -x BANYAN_TOPOLOGY="$examples/star-unequal.json"
mkdir -p "$scratch/settings/banyan"
cp "$examples/star-unequal.json" "$scratch/settings/banyan/topology.json"
unmeasured
shows "the network is that of $scratch/settings/banyan/topology.json" err

# A site file that lacks a host of the job, or cannot be read, is not used.
cp "$examples/two-sites.json" "$scratch/settings/banyan/topology.json"
automatic
shows 'topology.json is not used: the topology has no node "h0"' err
echo '{' >"$scratch/settings/banyan/topology.json"
automatic
shows 'topology.json is not used: ' err
rm "$scratch/settings/banyan/topology.json"

# A rank that dies while the job measures at its start ends it, and is named.
"$BANYAN" lab star:3,nic=50m --keep-going --timeout 120 -x BANYAN_TOPOLOGY= -- sh -c \
  '"$0" bench --sizes 8 & p=$!; [ "$BANYAN_RANK" != 2 ] || { sleep 0.3; kill -9 $p; }; wait $p' "$BANYAN" \
  >"$scratch/out" 2>"$scratch/err" && fail "went on with a dead rank: $(cat "$scratch/out")"
shows '\[h0\] banyan bench: .*rank 2 \(host h2\)' err

# Two sites with long round trips between them are measured one by one, then together, and each call of 4 MiB crosses the
# line between them once: 12.6 MB, and the measurement. The built-in plan crosses it twice.
far() {
  wants 0 "$BANYAN" lab sites:2x2,lan=400m,wan=100m,rtt=20ms --timeout 120 -x BANYAN_TOPOLOGY= -x BANYAN_CACHE=off \
    -x BANYAN_LOG=plan:info --json -- banyan bench --sizes 4M --iterations 2 --warmup 1
  has 'between sites, all at once' err && has "plan 'measured' from the next call on" err &&
    sed -n '/"lab"/p' "$scratch/out" | python3 -c '
import json, sys
sent = [l["bytes"] for l in json.load(sys.stdin)["links"] if l["from"] + l["to"] == "router0router1"]
sys.exit(not 12.5e6 < sent[0] < 20e6)'
}
for ((i = 0; i < 5; i++)); do ! far || break; done
[ $i -lt 5 ] || fail "no plan for two sites: $(cat "$scratch/out" "$scratch/err")"
