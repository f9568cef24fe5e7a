#!/bin/bash
# Tests banyan simulate: predictions, output, files, and rejected inputs.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
examples=$BANYAN_SOURCE/examples/topologies

# A ring on an even star sends 2 (n - 1) / n of the buffer over each link.
wants 0 "$BANYAN" simulate star:4,nic=1g --builtin ring --sizes 4M
shows '^plan ring over 4 ranks; no plan exceeds 667 Mbit/s$' out
shows '^ +4 MiB +50\.3 ms +667 Mbit/s +1 Gbit/s +100\.0 %$' out
shows '^  h0 +-> switch +6 MiB +100 %  \|(█)+\|$' out

# A note below the times explains what they include.
shows '^  Times are for one call on an idle network, in chunks of 32 KiB, including delays' out
shows 'They do not include headers \(TCP, Ethernet: x 1\.046\) or the work of hosts,$' out
wants 0 "$BANYAN" simulate star:4,nic=1g --builtin ring --sizes 4M --chunk 64K --chunk-cost 20us
shows '^  Times are .*, in chunks of 64 KiB,' out
shows "or hosts' work beyond 20 us a chunk,$" out

# Where headers and hosts cost nothing, the planner's prediction agrees with the simulation: the same plan, within 10
# %.
wants 0 "$BANYAN" plan star:4,nic=1g --explain
shows 'headers of TCP and$' err
shows '^Ethernet \(x 1\.046\), and the work of hosts: 5 us for a call, 25 us a hop, 5 us a message,$' err
free=wire=1,call=0,hop=0,link=0,message=0,byte=0
for name in star-even star-unequal two-sites sparse-12; do
  wants 0 "$BANYAN" plan "$examples/$name.json" --cost $free --explain --json
  cp "$scratch/out" "$scratch/free.json"
  cp "$scratch/err" "$scratch/explained"
  wants 0 "$BANYAN" simulate "$examples/$name.json" --plan "$scratch/free.json" --sizes 1M,16M,64M --json --no-bound
  command -v python3 >/dev/null || continue
  python3 - "$scratch/explained" "$scratch/out" <<'END' || fail "$name: $(cat "$scratch/explained")"
import json, sys
explained = json.load(open(sys.argv[1]))
assert explained["costs"] == {"wire": 1, "call": 0, "hop": 0, "message": 0, "byte": 0}, explained["costs"]
predicted = {size["bytes"]: size["seconds"] for size in explained["sizes"]}
for line in open(sys.argv[2]):
    simulated = json.loads(line)
    assert 0.9 < predicted[simulated["bytes"]] / simulated["seconds"] < 1.1, (predicted, simulated)
END
done

# The planner makes a plan, with several sizes, and links are cut short or printed in full.
wants 0 "$BANYAN" simulate "$examples/two-sites.json"
[ "$(grep -c '%$' "$scratch/out")" -eq 5 ] || fail 'not five sizes'
shows '^  router-a +-> router-b +64 MiB +100 %' out
wants 0 "$BANYAN" simulate star:8 --plan tree --size 64K..256K --all --no-bound
shows '^plan tree over 8 ranks$' out
[ "$(grep -c ' -> .*|$' "$scratch/out")" -eq 16 ] || fail '--all does not show all'

# A plan file is simulated, with costs of chunks, and smaller chunks.
wants 0 "$BANYAN" plan "$examples/star-unequal.json" --json
cp "$scratch/out" "$scratch/plan.json"
wants 0 "$BANYAN" simulate "$examples/star-unequal.json" --plan "$scratch/plan.json" -s 16M
shows '^ +16 MiB +67[0-9] ms ' out
wants 0 "$BANYAN" simulate star:5,nic=1g --plan "$scratch/plan.json" -s 1M
shows '^plan .* over 4 ranks; no plan exceeds 667 Mbit/s$' out
wants 0 "$BANYAN" simulate star:2,nic=1g -b star -s 64K --chunk 64K --chunk-cost 1ms --no-bound
shows '^ +64 KiB +3\.05 ms ' out

# The plan goes through aggregating switches.
adding=$BANYAN_SOURCE/examples/topologies/adding-2.json
wants 0 "$BANYAN" plan "$adding" --method in-network --json
cp "$scratch/out" "$scratch/adding.json"
wants 0 "$BANYAN" simulate "$adding" --plan "$scratch/adding.json" -s 16M --all --trace "$scratch/added"
shows '^plan .* over 6 ranks, 3 switches, 1 server; no plan exceeds 100 Mbit/s$' out
shows '^ +16 MiB +1.34 s +99.9 Mbit/s +[0-9]+ Mbit/s +99.9 %$' out
shows '^  root +-> server +16 MiB +100 % ' out
shows '"name": "switch 2 -> server 3"' added

# The plan has a helper.
wants 0 "$BANYAN" plan star:4,nic=1g/1g/1g/1g/4g,helpers=1 --helpers helper0 --json
cp "$scratch/out" "$scratch/helped.json"
wants 0 "$BANYAN" simulate star:4,nic=1g/1g/1g/1g/4g,helpers=1 --plan "$scratch/helped.json" -s 64M --trace "$scratch/helped"
shows '^plan .* over 4 ranks, 1 helper; no plan exceeds 1 Gbit/s$' out
shows '^ +64 MiB +53[78] ms ' out
shows '"name": "rank 0 -> helper 0"' helped

# The output is JSON, a trace and a drawing.
wants 0 "$BANYAN" simulate star:4 -s 1M,2M --json --trace "$scratch/trace.json" --svg "$scratch/use.svg"
[ "$(wc -l <"$scratch/out")" -eq 2 ] || fail '--json prints not one line a size'
shows '"bytes": 2097152, "seconds": 0\.002516' out
shows '"from": "h0", "to": "switch", "link": 0, "rate": 10000000000, "bytes": 3145728, "use": (1|0.9999)' out
shows '"name": "h0 -> switch"' trace.json
shows '"ph": "X", "name": "rank 0 -> rank [1-3]", "pid": 1, ' trace.json
[ "$(tail -c 3 "$scratch/trace.json")" = ']}' ] || fail 'the trace has no end'
shows '<svg' use.svg
if command -v python3 >/dev/null; then
  python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]; json.load(open(sys.argv[2]))' \
    "$scratch/out" "$scratch/trace.json" || fail 'no JSON'
fi

# One rank represents all ranks, and large rings are fast.
wants 0 "$BANYAN" simulate ring:4096 --builtin ring -s 64M
shows '^ +64 MiB +107 ms ' out
shows '^  1 of 4096 ranks simulated' out

# A bound that is one on some plans only says so.
echo '{"format": "banyan-topology 1", "nodes": ["a", "b", "c"], "links": [{"a": "a", "b": "b", "capacity": {"ab": "10m", "ba": "1m"}},
  {"a": "b", "b": "c", "capacity": {"ab": "10m", "ba": "1m"}}, {"a": "c", "b": "a", "capacity": {"ab": "10m", "ba": "1m"}}]}' >"$scratch/round.json"
echo '{"format": "banyan-topology 1", "nodes": ["a", "b", {"name": "s", "kind": "switch"}, {"name": "t", "kind": "switch"}], "links": [
  {"a": "a", "b": "s", "capacity": "1g"}, {"a": "b", "b": "s", "capacity": "1g"}, {"a": "a", "b": "t", "capacity": "1g"},
  {"a": "b", "b": "t", "capacity": "1g"}]}' >"$scratch/rails.json"
for network in round rails; do
  wants 0 "$BANYAN" simulate "$scratch/$network.json" --builtin ring --sizes 64M
  shows '; plans of undirected trees over one path between hosts do not exceed ' out
  wants 0 "$BANYAN" plan "$scratch/$network.json" --explain
  shows 'refers to plans of undirected trees over one path between hosts' out
  shows '^The bound is one on plans of undirected trees over one path between hosts' err
done

# Mistakes are reported.
wants 2 "$BANYAN" simulate
wants 2 "$BANYAN" simulate star:4 --plan ring --builtin ring
shows 'exclude each other: give one' err
wants 2 "$BANYAN" simulate star:4 --builtin rng
wants 2 "$BANYAN" simulate star:4 --sizes x
wants 1 "$BANYAN" simulate star:3 --plan "$scratch/plan.json"
shows 'is for 4 ranks, but 3 hosts' err
wants 1 "$BANYAN" simulate star:4 -s 1M --trace /nowhere/trace.json
shows 'cannot open /nowhere/trace.json for writing' err
wants 1 "$BANYAN" simulate star:4 -s 1M --svg /nowhere/use.svg
