#!/bin/bash
# Tests banyan plan: its output, rejected inputs, and the examples of the documentation.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

wants 0 "$BANYAN" plan --list
for name in star sharded ring chain tree double-tree halving doubling exchange ring2d; do shows "^$name" out; done

# Plans are drawn.
wants 0 "$BANYAN" plan --builtin ring -n 4
shows '^plan ring: 4 ranks, version [0-9a-f]{8}$' out
shows 'up:   0 ─── 3 ─── 2 ─── 1$' out
wants 0 "$BANYAN" plan --builtin ring --hosts 2x2
shows 'order: 1 3$' out
shows 'first up and last down: 1→0 3→2' out
wants 0 "$BANYAN" plan --hosts 2,3
shows '^plan default: 5 ranks' out
wants 0 "$BANYAN" plan -n 1
wants 0 "$BANYAN" plan -b ring -n 3 --schedule 1 --collective reduce --root 2
shows '^reduce, rank 1 of 3' out

# A size class without switches has schedules, whatever switches the trees of another class pass.
wants 0 "$BANYAN" plan --file "$BANYAN_SOURCE/tests/fuzz/corpus/plan/everything.json" --schedule 0 --bytes 4K
shows '^allreduce, rank 0 of 3' out

# A schedule as JSON equals the drawn one.
wants 0 "$BANYAN" plan -b star -n 80 --schedule 0
cp "$scratch/out" "$scratch/drawn"
wants 0 "$BANYAN" plan -b star -n 80 --schedule 0 --json
python3 - "$scratch/out" "$scratch/drawn" <<'EOF' || fail "the schedule's JSON"
import json, re, sys
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
assert len(lines) == 2 and not lines[1], len(lines)
schedule = json.loads(lines[0])
drawn = open(sys.argv[2], encoding="utf-8").read().split("\n")[2:-1]
assert (schedule["collective"], schedule["rank"], schedule["ranks"], schedule["pieces"]) == ("allreduce", 0, 80, 1)
assert len(schedule["steps"]) == len(drawn)
taken = set()
for number, (step, line) in enumerate(zip(schedule["steps"], drawn)):
    assert re.match(rf" *{number} +{step['level']}  {step['kind']} ", line), line
    for rank, tag in step.get("takes", []):
        assert f"rank {rank} #{tag}" in line, line
        taken.add(rank)
    if "after" in step:
        assert line.endswith("after " + ", ".join(map(str, step["after"]))), line
    assert ("divide" in line) == step.get("divide", False), line
    if step["kind"] == "send":
        assert f"to rank {step['rank']} #{step['tag']}" in line, line
assert taken == set(range(1, 80))
EOF

# JSON is one line, and is parsed as the same plan.
wants 0 "$BANYAN" plan -b double-tree -n 6 --json
[ "$(wc -l <"$scratch/out")" -eq 1 ] || fail "--json prints more than a line"
cp "$scratch/out" "$scratch/plan.json"
wants 0 "$BANYAN" plan -b double-tree -n 6
cp "$scratch/out" "$scratch/drawn"
wants 0 "$BANYAN" plan --file "$scratch/plan.json"
cmp "$scratch/out" "$scratch/drawn" || fail "the file is drawn differently"
wants 0 "$BANYAN" plan --file "$scratch/plan.json" -n 6
wants 0 "$BANYAN" plan --file "$scratch/plan.json" --hosts 6x2
shows ': 12 ranks' out
wants 1 "$BANYAN" plan --file "$scratch/plan.json" -n 7
shows 'is for 6 ranks, not for 7$' err

# Misuse ends with 2 and a bad file with 1. Both are reported on standard error only.
refuses() {
  local status=$1 pattern=$2
  shift 2
  wants "$status" "$BANYAN" plan "$@"
  shows "$pattern" err
  [ ! -s "$scratch/out" ] || fail "$* prints to standard output"
}
refuses 2 'the number of ranks is missing' --builtin ring
refuses 2 'there is no built-in plan "rng"; did you mean ring\? There are star' --builtin rng -n 3
refuses 2 'there is no built-in plan "xyzzy"; there are star' --builtin xyzzy -n 3
refuses 2 '"ring" is a built-in plan: give --builtin ring' ring -n 4
refuses 2 'must be 0 to 2' --builtin star:3 -n 3
refuses 2 'neither like 2x4 nor like 4,2' --hosts 2x
refuses 2 'neither like 2x4 nor like 4,2' --hosts 4,,2
refuses 2 'at least one on each' --hosts 4,0
refuses 2 'gives 3 ranks, --hosts 4' --hosts 2x2 -n 3
refuses 2 'TOPOLOGY, --builtin and --file exclude each other' --builtin ring --file x
refuses 2 'there is no rank 4' --builtin ring -n 4 --schedule 4
refuses 2 'there is no rank 9' --builtin ring -n 4 --schedule 1 --root 9
refuses 1 'cannot open plan' --file "$scratch/nothing.json"
printf '{"format": "banyan-plan 1",\n "ranks": 2,}' >"$scratch/bad.json"
refuses 1 'bad.json:2:' --file "$scratch/bad.json"
printf '{"format": "banyan-plan 1", "ranks": 3, "trees": [{"share": 1, "root": "0", "up": {"1": "2", "2": "1"}}]}' \
  >"$scratch/bad.json"
refuses 1 'bad.json: tree 0: edges up: vertex "1" lies on a cycle' --file "$scratch/bad.json"

# Every example of the documentation is a plan, and the first is drawn as documented.
python3 - "$BANYAN_SOURCE/docs/plan-format.md" "$scratch" <<'EOF'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
for i, block in enumerate(re.findall(r"```json\n(.*?)```", text, re.DOTALL)):
    open(f"{sys.argv[2]}/example-{i}.json", "w", encoding="utf-8").write(block)
drawing = re.search(r"^    plan two trees:.*?(?=^## )", text, re.DOTALL | re.MULTILINE).group(0)
lines = [line[4:] for line in drawing.rstrip().split("\n")]
open(f"{sys.argv[2]}/drawing", "w", encoding="utf-8").write("\n".join(lines) + "\n")
EOF
examples=0
for file in "$scratch"/example-*.json; do
  wants 0 "$BANYAN" plan --file "$file"
  examples=$((examples + 1))
done
[ "$examples" -eq 7 ] || fail "$examples examples in the documentation, not 7"
wants 0 "$BANYAN" plan --file "$scratch/example-0.json"
diff "$scratch/drawing" "$scratch/out" || fail "the documentation's drawing is not what is drawn"
wants 0 "$BANYAN" plan --file "$scratch/example-2.json" --json
cp "$scratch/out" "$scratch/ring"
wants 0 "$BANYAN" plan --builtin ring -n 4 --json
cmp "$scratch/ring" "$scratch/out" || fail "the documentation's ring is not the built-in one"

# The largest possible rate of other collectives is explained, with the ranks of each host, and the links that limit it.
wants 0 "$BANYAN" plan "$BANYAN_SOURCE/examples/topologies/two-sites.json" --collective allgather --explain --hosts 1,1,1,2
shows '^allgather: no algorithm exceeds 333 Mbit/s of the whole buffer\.$' err
shows '^60 % of it must leave b0, b1 over$' err
shows '^  link router-b to router-a: 200 Mbit/s$' err
wants 0 "$BANYAN" plan star:4,nic=1g --collective alltoall --explain
shows '^alltoall: no algorithm without relaying exceeds 1\.33 Gbit/s of the whole buffer\.$' err
# The same as JSON, beside the plan's.
wants 0 "$BANYAN" plan "$BANYAN_SOURCE/examples/topologies/two-sites.json" --collective allgather --explain --hosts 1,1,1,2 --json
python3 - "$scratch/out" "$scratch/err" <<'END' || fail "the JSON of the explanation is not as promised"
import json, sys
plan, explained = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
assert (explained["throughput"], explained["bound"]) == (plan["throughput"], plan["bound"]), explained
assert {"a": "router-b", "b": "router-a", "capacity": 2e8} in explained["full"] or \
       {"a": "router-a", "b": "router-b", "capacity": 2e8} in explained["full"], explained["full"]
names = [candidate["name"] for candidate in explained["candidates"]]
assert all(size["used"] in names for size in explained["sizes"]), explained["sizes"]
for candidate in explained["candidates"]:
    for size, seconds in zip(explained["sizes"], candidate["seconds"], strict=True):
        assert size["used"] != candidate["name"] or size["seconds"] == seconds, (size, candidate)
allgather = explained["collective"]
assert allgather["collective"] == "allgather" and allgather["leaves"] and allgather["side"] == ["b0", "b1"], allgather
assert allgather["limits"] == [{"from": "router-b", "to": "router-a", "capacity": 2e8}], allgather
assert abs(allgather["bound"] * allgather["part"] / 2e8 - 1) < 1e-6, allgather
END
wants 0 "$BANYAN" plan star:4,nic=1g,adds=all --method cluster --collective alltoall --explain --json
python3 -c 'import json, sys; assert abs(json.load(open(sys.argv[1]))["collective"]["bound"] / 4e9 * 3 - 1) < 1e-6' "$scratch/err" ||
  fail "the JSON of the cluster's explanation"
# What the plan reaches is no more, and in a star all of it.
wants 0 "$BANYAN" plan star:4,nic=1g --collective allgather --explain
shows '^With this plan it reaches 1\.33 Gbit/s, 100\.0 % of that' err
for case in ring:5/broadcast torus:3x3/reduce_scatter clos:racks=2,hosts=3,oversub=4/allgather mesh:4/scatter; do
  wants 0 "$BANYAN" plan "${case%/*}" --collective "${case##*/}" --explain
  shows '^With this plan it reaches .* (100\.0|[1-9][0-9]\.[0-9]) % of that' err
done
wants 2 "$BANYAN" plan star:4 --collective allgathers --explain
shows 'allgathers' err
wants 2 "$BANYAN" plan star:4 --collective broadcast --root 4 --explain
shows 'no root 4 among 4 hosts' err

# Plans are made from topologies.
wants 0 "$BANYAN" plan "$BANYAN_SOURCE/examples/topologies/star-unequal.json" --explain
shows '^4 ranks: 1 tree carries 200 Mbit/s, 100.0 % of the 200 Mbit/s' err
shows 'link h3 - switch: 200 Mbit/s left' err
shows 'tree 0: 100 %, 200 Mbit/s, height 1' out
wants 0 "$BANYAN" plan torus:3x3 --trees 8 --json
cp "$scratch/out" "$scratch/torus.json"
python3 - "$scratch/torus.json" <<'EOF' || fail "the planner's JSON"
import json, sys
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
assert len(lines) == 2 and not lines[1], len(lines)
plan = json.loads(lines[0])
assert 0.9 <= plan["ratio"] <= 1 and plan["throughput"] <= plan["bound"] and plan["seconds"] > 0
assert 1 <= len(plan["trees"]) <= 8
assert abs(sum(tree["share"] for tree in plan["trees"]) - 1) < 1e-9
assert abs(sum(tree["rate"] for tree in plan["trees"]) - plan["throughput"]) < 1
for tree in plan["trees"]:
    assert len(tree["up"]) == 8 and tree["up"] == tree["down"] and tree["root"] not in tree["up"]
    def hops(vertex): return 0 if vertex == tree["root"] else 1 + hops(tree["up"][vertex])
    assert max(hops(vertex) for vertex in tree["up"]) == tree["height"]
EOF
wants 0 "$BANYAN" plan --file "$scratch/torus.json"
wants 0 "$BANYAN" run -n 9 --plan "$scratch/torus.json" -- "$BANYAN" bench allreduce --sizes 100K --iterations 2
wants 0 "$BANYAN" plan "$BANYAN_SOURCE/examples/topologies/backbone-14.json" --explain --svg "$scratch/use.svg"
shows '^Buffers of up to ' err
shows '^  ring  +53.8 Mbit/s ' err
python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$scratch/use.svg" || fail "the SVG is no XML"
grep -q 'plan a backbone of fourteen cities, 64 MiB' "$scratch/use.svg" || fail "the SVG does not name the plan"
wants 0 "$BANYAN" plan star:4 --svg -
shows '^<svg' out

# --- drawings of trees
drawn() { # PANELS ARGUMENTS...: the drawing that `banyan plan` makes of these is readable
  local panels=$1
  shift
  wants 0 "$BANYAN" plan "$@" --svg "$scratch/trees.svg"
  /usr/bin/python3 "$BANYAN_SOURCE/tests/e2e/check_svg.py" "$scratch/trees.svg" "$BANYAN_SOURCE/src/cmd/cluster/page/banyan.css" \
    "$panels" || fail "the drawing of $*"
}
for topology in "$BANYAN_SOURCE"/examples/topologies/*.json; do
  wants 0 "$BANYAN" plan "$topology"
  panels=$(sed -n '/^\(larger\|all\) buffers$/,/^$/p' "$scratch/out" | grep -cE '^  tree |^    down: ')
  drawn "$panels" "$topology"
done
[ "$(grep -c '<circle class="w t' "$scratch/trees.svg")" = "$panels" ] || fail "the network does not show the roots of its trees"
drawn 1 "$BANYAN_SOURCE/examples/topologies/adding-3.json" --method in-network
drawn 2 clos:racks=8,hosts=8
drawn 1 -b tree:2 -n 64 --dark
! grep -q prefers-color-scheme "$scratch/trees.svg" || fail "--dark leaves the choice to the reader"
drawn 2 -b ring -n 300
shows '… 172 more' trees.svg
drawn 1 -b star -n 1
drawn 1 -n 64 --bytes 1K
grep -q prefers-color-scheme:dark "$scratch/trees.svg" || fail "there is no dark variant"
drawn 1 -n 5000 --bytes 64
drawn 8 -b ring -H 3x4
python3 - "$scratch/names.json" <<'END'
import json, sys
names = [f"<&\"'\u202e{'long ' * 45}{i}>" for i in range(7)] + ["gpu-node-with-a-long-name.cluster.example.org", "\uffff]]>"]
json.dump({"format": "banyan-topology 1", "name": "<title> & " + 60 * "long", "nodes": names + [{"name": "-->", "kind": "switch"}],
           "links": [{"a": name, "b": "-->", "capacity": "1g"} for name in names]}, open(sys.argv[1], "w"))
END
for method in cluster trees in-network; do
  "$BANYAN" plan "$scratch/names.json" --method $method --json >"$scratch/plan.json" 2>"$scratch/err" || continue
  wants 0 "$BANYAN" plan "$scratch/names.json" --method $method --svg "$scratch/trees.svg"
  python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$scratch/trees.svg" || fail "names make it no XML"
  wants 0 "$BANYAN" plan --file "$scratch/plan.json" --svg "$scratch/trees.svg"
  python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$scratch/trees.svg" || fail "names make it no XML"
done
shows 'gpu-n.*-name<' trees.svg
wants 1 "$BANYAN" plan -b ring -n 4 --svg "$scratch/no/such/folder.svg"
shows 'cannot open .*folder.svg for writing: No such file' err
wants 1 "$BANYAN" plan -b ring -n 4 --svg /dev/full
shows 'cannot write /dev/full: No space left on device' err
wants 2 "$BANYAN" plan -b ring -n 4 --dark
shows 'give --svg FILE, too' err
wants 2 "$BANYAN" topo star:4 --dark
wants 0 "$BANYAN" plan star:6 --cost hop=1s
wants 2 "$BANYAN" plan star:6 --cost hops=1s
shows 'there is no "hops" \(did you mean hop\?\); there are wire' err
cat >"$scratch/times.json" <<'END'
{"collective": "allreduce", "plan": "ring", "bytes": 1024, "time_us": 900}
{"collective": "allreduce", "plan": "tree:2", "bytes": 1024, "time_us": 400}
{"collective": "allreduce", "plan": "tree:2", "bytes": 4194304, "time_us": 8000}
{"collective": "barrier", "plan": "ring", "bytes": 0, "time_us": 1}
END
wants 0 "$BANYAN" plan star:6,nic=100g --cost link=1us --fit "$scratch/times.json"
shows '^link=1us,call=[0-9.]*us,hop=[0-9.]*us,message=[0-9.]*us,byte=[0-9.]*ns$' out
shows '^tree:2  *4194304  *8000 ' err
wants 0 "$BANYAN" plan star:6,nic=100g --cost "$(cat "$scratch/out")" --explain

# Costs that are saved for this machine are used, unless others are given, or they are damaged.
wants 0 "$BANYAN" plan star:6,nic=100g --cost hop=77us --fit "$scratch/times.json" --save
shows "^saved in $scratch/cache/banyan/costs-.*json$" err
saved=$(ls "$scratch"/cache/banyan/costs-*.json)
sed -i 's/hop=[0-9.]*us/hop=77us/g' "$saved"
wants 0 "$BANYAN" plan star:6,nic=100g --explain
shows '77 us a hop' err
wants 0 "$BANYAN" run -n 2 --transport tcp -x BANYAN_LOG=warn,plan:info -x BANYAN_TOPOLOGY=star:2,nic=1g -- \
  "$BANYAN_BUILD/examples/hello"
shows "costs are those of this machine, from $saved" err
wants 0 "$BANYAN" plan star:6,nic=100g --cost hop=5us --explain
! grep -q '77 us a hop' "$scratch/err" || fail "--cost is not used"
echo '{' >"$saved"
wants 0 "$BANYAN" plan star:6,nic=100g --explain
shows "$saved.*the usual costs are used" err
! grep -q '77 us a hop' "$scratch/err" || fail "damaged costs are used"
wants 2 "$BANYAN" plan star:6 --save
shows 'save stores the costs that --fit finds' err
unset XDG_CACHE_HOME
echo '{"collective": "allreduce", "plan": "ring", "bytes": 1024, "time_us": 0}' >"$scratch/times.json"
wants 1 "$BANYAN" plan star:6 --fit "$scratch/times.json"
shows 'times.json: .*time_us: must be more than 0' err
wants 2 "$BANYAN" plan --builtin ring -n 4 --fit "$scratch/times.json"
wants 0 "$BANYAN" plan star:6 --ranks h4,h1,h2
shows 'ranks: h4=0 h1=1 h2=2' out
wants 0 "$BANYAN" plan ring:8 --max-height 4 --method few
wants 0 "$BANYAN" plan clos:racks=2,hosts=4,nic=10g,oversub=4 --method cluster --json
wants 0 "$BANYAN" plan star:6,nic=1g,helpers=2 --method cluster --helpers helper0,helper1 --explain
shows '^6 workers and 2 that may help: [0-9]+ of [0-9]+ candidates carry .* that no set of trees exceeds here' err
shows '^  parameter server +200 Mbit/s +[0-9.]+$' err
wants 0 "$BANYAN" plan star:4,nic=1g,adds=all --method cluster --explain
shows '^ +100.0 %  in-network tree: 1 Gbit/s, server h0, height 2$' err
shows '^    h0/0 \(server\) ─┬─ h0$' out
wants 0 "$BANYAN" plan star:4,nic=1g,adds=all --method cluster --server h2 --steps 4 --tree-penalty 0.5
shows '^    h2/0 \(server\) ─┬─ h2$' out
names=h0,h1,h2,h3
wants 2 "$BANYAN" plan star:4,nic=1g,adds=all --method cluster --ranks $names --helpers $names,$names,$names,$names
shows 'node "h0" is chosen twice' err
wants 0 "$BANYAN" plan star:4,nic=1g,adds=all --method cluster --ways ring,tree --explain
shows '^4 workers: .* carry 667 Mbit/s' err
wants 1 "$BANYAN" plan star:4,nic=1g --method cluster --ways switches
shows 'none of the allowed methods \(switches\) connects the 4 workers' err
wants 2 "$BANYAN" plan star:4 --method cluster --ways rings
shows 'ways: "rings" is not one of the ways ring,tree,helpers,switches' err
wants 2 "$BANYAN" plan star:4 --ways ring
wants 2 "$BANYAN" plan star:4 --method cluster --tree-penalty 2
wants 2 "$BANYAN" plan star:4 --method cluster --max-height 1s --height-metric delay
shows 'in hops only' err
wants 1 "$BANYAN" plan ring:8 --max-height 3
wants 2 "$BANYAN" plan star:6 --ranks h4,nobody
shows 'which has no "nobody"' err
wants 2 "$BANYAN" plan star:6 --tolerance 7
# Five per cent are given up for lower trees, where many trees are allowed one.
wants 0 "$BANYAN" plan torus:8x8 --trees 16 --json
python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["ratio"] < 0.975)' <"$scratch/out" || fail "-k 16 gave too much away"
wants 2 "$BANYAN" plan star:6 --builtin ring
wants 1 "$BANYAN" plan nosuch.json

# The control tree is printed, and a ring if there is one.
wants 0 "$BANYAN" plan clos:racks=4,hosts=4 --control
shows '^control tree: 16 ranks, height 2, at most 4 children, 4 links to a parent at most' out
shows '^ring: .* round twice$' out
! has '^The tree is the ring' out || fail "the ring is cut open although the tree is faster"
wants 0 "$BANYAN" plan clos:racks=4,hosts=4 --control --fan-out 15 --json
python3 - "$scratch/out" <<'EOF' || fail "the control tree's JSON"
import json, sys
control = json.loads(open(sys.argv[1], encoding="utf-8").read())
tree, ring = control["tree"], control["ring"]
assert (control["ranks"], tree["height"], tree["fan_out"], control["relaxed"]) == (16, 1, 15, [])
assert set(tree["parent"].values()) == {tree["root"]} and len(tree["parent"]) == 15
assert ring["answer"] == "yes" and sorted(ring["order"]) == sorted({tree["root"], *tree["parent"]})
assert control["cut"] is False
EOF
wants 0 "$BANYAN" plan line:9 --control --fan-out 2 --control-height 3 --control-distance 1 --ranks h0,h1,h2,h3,h4,h5,h6,h7
shows 'The distance had to be raised to 2 links' out
shows '^ring: none: h0 has fewer than two neighbours$' out
wants 0 "$BANYAN" plan "$BANYAN_SOURCE/examples/topologies/sparse-12.json" --control --svg "$scratch/control.svg"
shows '^control tree: 12 ranks' out
! has 'had to be raised' out || fail "limits that nobody set are reported as raised"
grep -q 'control tree: height' "$scratch/control.svg" || fail "the control tree is not drawn"
wants 2 "$BANYAN" plan star:4,adds=all --in-network --svg "$scratch/none.svg"
shows '\-\-svg draws a plan or the control tree: leave it out with \-\-in-network' err
wants 2 "$BANYAN" plan star:4 --control --schedule 0
shows '\-\-schedule prints the schedule of a plan: leave out \-\-control' err

# The plan has the same tree, within the limits, and the ring.
wants 0 "$BANYAN" plan clos:racks=4,hosts=4 --fan-out 2 --control --json
cp "$scratch/out" "$scratch/control.json"
wants 0 "$BANYAN" plan clos:racks=4,hosts=4 --fan-out 2 --json
python3 - "$scratch/out" "$scratch/control.json" <<'EOF' || fail "the plan's control tree"
import json, sys
plan, control = (json.loads(open(name, encoding="utf-8").read()) for name in sys.argv[1:])
own, tree = plan["control"], control["tree"]
assert own == {"use": "tree", "fan_out": 2, "root": tree["root"], "parent": tree["parent"],
               "ring": control["ring"]["order"]}, own
EOF
wants 2 "$BANYAN" plan --control
shows 'needs a topology' err
wants 2 "$BANYAN" plan star:4 --control --control-distance far

# Switches aggregate.
wants 0 "$BANYAN" plan star:5,nic=100m,adds=all --in-network --ranks h0,h1,h2,h3 --server h4
shows '^in-network aggregation: 4 workers, 100 Mbit/s each; 25 Mbit/s with no switch adding, 100 Mbit/s at most$' out
shows '^  tree to h4: 100 %, 100 Mbit/s, 1 switch adds with cells of' out
shows 'h4 \(server\) ─── switch adds 4 ─┬─ h0$' out
wants 0 "$BANYAN" plan clos:racks=3,hosts=3,adds=leaf,oversub=2 --in-network --json
cp "$scratch/out" "$scratch/placement.json"
python3 - "$scratch/placement.json" "$scratch" <<'EOF' || fail "the placement's JSON"
import json, sys
placement = json.loads(open(sys.argv[1], encoding="utf-8").read())
assert abs(placement["rate"] - 7.5e9) < 1 and abs(placement["theta"] * placement["rate"] - 1) < 1e-9
[tree] = placement["trees"]
assert len(tree["workers"]) == 9 and tree["share"] == 1
for name, way in tree["workers"].items():
    assert [hop["switch"] for hop in way["up"]] == [hop["switch"] for hop in reversed(way["down"])]
    assert (name == tree["server"]) == (not way["up"])
    for hop in way["up"]:
        switch = tree["switches"][hop["switch"]]
        assert hop["adds"] == switch["adds"] and hop["expected"] == switch["expected"] and hop["port"] == switch["port"]
    if way["down"]:
        assert way["down"][-1]["port"]["to"] == name
assert sum(branch["workers"] for branch in tree["switches"]["leaf0"]["branches"]) == 8
json.dump(placement["plan"], open(sys.argv[2] + "/in-network.json", "w", encoding="utf-8"))
EOF
wants 0 "$BANYAN" plan --file "$scratch/in-network.json"
shows '^plan in-network: 9 ranks, 4 others, planned for 7.5 Gbit/s' out
wants 0 "$BANYAN" plan clos:racks=3,hosts=3,adds=leaf,oversub=2 --method in-network --json
mv "$scratch/out" "$scratch/method.json"
wants 0 "$BANYAN" plan --file "$scratch/method.json"
shows 'r0h0/0 \(server\) ─┬─ r0h0$' out
shows 'leaf0 \(switch\) ─┬─ r0h1$' out
python3 - "$scratch/method.json" "$scratch/in-network.json" <<'EOF' || fail "the plan of --method in-network"
import json, sys
plan, placed = (json.loads(open(name, encoding="utf-8").read()) for name in sys.argv[1:])
assert plan["trees"] == placed["trees"] and plan["vertices"] == placed["vertices"] and plan["throughput"] == 7.5e9
[tree] = plan["trees"]
assert len(plan["control"]["parent"]) == 8
edges = [*tree["up"].items(), *((above, below) for below, above in tree["up"].items())]
assert set(tree["ports"]) == {"leaf0", "leaf1", "leaf2"}
assert all(set(ports) == {there for here, there in edges if here == switch} for switch, ports in tree["ports"].items())
EOF
wants 0 "$BANYAN" plan clos:racks=3,hosts=3,adds=leaf,oversub=2 --method in-network --explain --svg "$scratch/placed.svg"
shows '^in-network aggregation: 9 workers, 7.5 Gbit/s each' err
wants 0 "$BANYAN" plan star:6,nic=1g --method in-network --ranks h0,h1,h2,h3 --server h4,h5
shows 'h5/0 \(server\)' out
wants 0 "$BANYAN" plan star:5,adds=all --method in-network --hosts 5x2 --schedule 2
shows 'recv\[0\] = send\[0\] [+] rank 3' out
shows 'recv\[0\] to vertex 10' out
wants 0 "$BANYAN" plan clos:racks=3,hosts=3,adds=leaf,oversub=2 --in-network --adding 0
shows '1.25 Gbit/s each' out
wants 0 "$BANYAN" plan star:6,nic=1g --in-network --ranks h0,h1,h2,h3 --server h4,h5
shows '500 Mbit/s each' out
wants 1 "$BANYAN" plan star:66,adds=all --in-network
shows 'at most 64' err
wants 2 "$BANYAN" plan star:6 --in-network --server switch
shows 'is a switch and cannot be a server' err
wants 2 "$BANYAN" plan star:6 --in-network --control
wants 2 "$BANYAN" plan --in-network
shows 'needs a topology' err

# The racks have different sizes, and the last one is the smaller.
printf '{"format": "banyan-topology 1", "nodes": [{"name": "a", "group": "x"}, {"name": "b", "group": "x"}, {"name": "c"},
  {"name": "s", "kind": "switch"}], "links": [{"a": "a", "b": "s", "capacity": "1g"}, {"a": "b", "b": "s", "capacity": "1g"},
  {"a": "c", "b": "s", "capacity": "1g"}]}' >"$scratch/racks.json"
wants 0 "$BANYAN" plan "$scratch/racks.json"

# A job plans with the same settings, here ranks of one host over TCP, each at a node of its own.
unequal=$BANYAN_SOURCE/examples/topologies/star-unequal.json
planned() {
  wants 0 "$BANYAN" run -n 4 --topology "$unequal" -x BANYAN_TRANSPORT=tcp -x BANYAN_LOG=plan:info "$@" -- \
    sh -c 'BANYAN_HOST=h$BANYAN_RANK exec "$0" bench -s 8 --iterations 2' "$BANYAN"
}
wants 0 "$BANYAN" plan "$unequal" --method cluster --ways ring --explain
shows 'candidates carry 133 Mbit/s, 66.7 % of the 200 Mbit/s' err
planned -x BANYAN_PLANNER=method=cluster,ways=ring
shows 'planned from the topology in .* s: 133 Mbit/s of at most 200 Mbit/s' err
planned
shows 'planned from the topology in .* s: 200 Mbit/s of at most 200 Mbit/s' err
# So does its control tree: as printed, and a limit that cannot be kept is reported.
wants 0 "$BANYAN" plan "$unequal" --control --fan-out 2
shows '^control tree: 4 ranks, height 2, at most 2 children' out
planned -x BANYAN_PLANNER=fan-out=2
shows 'controllers form a tree of height 2, with at most 2 children' err
! has 'keeps the limits' err || fail "limits that were kept were reported"
planned -x BANYAN_PLANNER=fan-out=2,control-height=1
shows 'no control tree over these hosts keeps the limits in BANYAN_PLANNER: it has height 2' err

# Options that the method ignores are refused by name.
refuses 2 'queues has no effect on plans of --method cluster' star:4 --method cluster --queues 2
refuses 2 'adding has no effect on plans of --method cluster' star:4 --method cluster --adding 2
refuses 2 'server has no effect on plans of --method few' star:4 --server h0

# One tree of several is drawn alone.
"$BANYAN" plan torus:4x4 --trees 4 --method few --json >"$scratch/several.json" 2>/dev/null
wants 0 "$BANYAN" plan --file "$scratch/several.json" --svg "$scratch/second.svg" --tree 1
[ "$(grep -o 'tree [0-9]*: ' "$scratch/second.svg" | sort -u)" = 'tree 1: ' ] || fail "not the second tree alone"
refuses 2 'there is no tree 99: the plan has' --file "$scratch/several.json" --svg "$scratch/none.svg" --tree 99
refuses 2 'tree is for drawings' --file "$scratch/several.json" --tree 1
