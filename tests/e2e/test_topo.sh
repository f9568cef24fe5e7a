#!/bin/bash
# Tests banyan topo: its output, drawings and rejected inputs, and the examples and the documentation as inputs.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
examples=$BANYAN_SOURCE/examples/topologies

wants 0 "$BANYAN" topo --list
for word in star: clos: sites: json edges graphml pairs lldp nccl; do shows "^  $word" out; done

# Tables and the tree are printed.
wants 0 "$BANYAN" topo "$examples/two-sites.json"
shows '^topology two sites of two hosts, a slow line between: 4 hosts take part, 2 switches, 5 links$' out
shows '^  b1 +rank 3 +b +1  1 Gbit/s +1 Gbit/s$' out
shows '^  router-a <-> router-b  200 Mbit/s   -' out
shows '^     └─ b1  1 Gbit/s$' out
wants 0 "$BANYAN" topo clos:racks=8,hosts=8,nic=100g,oversub=4
shows '64 hosts take part, 10 switches, 80 links$' out
shows 'and 42 more nodes' out
wants 0 "$BANYAN" topo clos:8x8 --all
shows '^  r7h7 ' out

# The load of a plan is printed.
wants 0 "$BANYAN" topo "$examples/star-unequal.json" --plan ring
shows 'plan ring: AllReduce at 133 Mbit/s of input at most, limited by the link from "h3" to "switch"$' out
shows '^  h3     <-> switch  200 Mbit/s +- +200 Mbit/s +100 %' out
wants 0 "$BANYAN" topo "$examples/two-sites.json" -p tree
wants 1 "$BANYAN" topo "$examples/two-sites.json" --plan "$examples/two-sites.json"
wants 2 "$BANYAN" topo star:4 --plan rng
shows 'no built-in plan "rng"' err

# Other programs' formats are read, with options and from a folder.
corpus=$BANYAN_SOURCE/tests/fuzz/corpus
wants 0 "$BANYAN" topo "$corpus/topology_graphml/zoo.graphml"
shows '^topology: 4 hosts take part, 5 links$' out
shows 'topology: .*2 of 5 links have no speed; taken as 2.5 Gbit/s, the median of the others' err
wants 0 "$BANYAN" topo "$corpus/topology_graphml/utf16.graphml"
shows '^topology: 3 hosts take part, 3 links$' out
wants 0 "$BANYAN" topo "$corpus/topology_pairs/small.csv?select=aws:*+gcp:*,limits=gcp=2g"
shows '^topology: 2 hosts take part, 1 link$' out
shows '^  gcp:us +rank 1 +gcp +1  2 Gbit/s ' out
wants 2 "$BANYAN" topo "$corpus/topology_pairs/small.csv?regions=aws:*"
shows 'no option "regions"' err
wants 0 "$BANYAN" topo "$corpus/topology_nccl/server.xml"
shows '^topology: 2 hosts take part, 9 switches' out
mkdir "$scratch/lldp"
cp "$corpus/topology_lldp/one.json" "$scratch/lldp/a.json"
sed 's/"swp1"/"swp2"/g' "$corpus/topology_lldp/one.json" >"$scratch/lldp/b.json"
wants 0 "$BANYAN" topo "$scratch/lldp"
shows '^topology: 2 hosts take part, 1 switch, 2 links$' out
shows '^  a +rank 0 ' out

# Every example is read, prints as one line of JSON, and is parsed as the same topology.
for file in "$examples"/*.json star:3 /dev/stdin; do
  if [ "$file" = /dev/stdin ]; then
    printf '2 1\n0 1 10 1.5\n' | "$BANYAN" topo /dev/stdin --json >"$scratch/one.json"
  else
    wants 0 "$BANYAN" topo "$file" --json
    cp "$scratch/out" "$scratch/one.json"
  fi
  [ "$(wc -l <"$scratch/one.json")" -eq 1 ] || fail "--json prints not one line for $file"
  wants 0 "$BANYAN" topo "$scratch/one.json" --json
  cmp "$scratch/one.json" "$scratch/out" || fail "$file does not read back as it was printed"
done

# SVG is XML with everything in it.
for topology in "$examples/racks-14.json" "$examples/backbone-14.json" sparse clos:4x4 torus:4x4x2 random:30 star:1; do
  [ "$topology" = sparse ] && topology=$examples/sparse-12.json
  wants 0 "$BANYAN" topo "$topology" --plan ring --svg "$scratch/drawing.svg"
  [ ! -s "$scratch/out" ] || fail "--svg prints too"
  "$BANYAN" topo "$topology" --json >"$scratch/one.json"
  python3 - "$scratch/drawing.svg" "$scratch/one.json" <<'EOF' || fail "the SVG of $topology"
import json, sys
import xml.etree.ElementTree as tree
space = "{http://www.w3.org/2000/svg}"
root, topology = tree.parse(sys.argv[1]).getroot(), json.load(open(sys.argv[2], encoding="utf-8"))
width, height = (float(root.get(side)) for side in ("width", "height"))
tips = [tip.text for tip in root.iter(space + "title")]
assert len(tips) == len(topology["nodes"]) + len(topology["links"]), len(tips)
for node in topology["nodes"]:
    assert any(tip.startswith(node["name"] + ": ") for tip in tips), node
for link in topology["links"]:
    assert any(f"{link['a']} to {link['b']}: " in tip for tip in tips), link
for circle in root.iter(space + "circle"):
    assert 0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height
EOF
done
wants 0 "$BANYAN" topo ring:5 --svg -
shows '^</svg>$' out
wants 1 "$BANYAN" topo ring:5 --svg "$scratch/no/such/folder.svg"
shows 'cannot open .*folder.svg for writing: No such file' err

# JSON output can go to a file, too, and is parsed as the same topology.
wants 0 "$BANYAN" topo sites:2x2 -o "$scratch/sites.json"
[ ! -s "$scratch/out" ] || fail "-o prints to standard output"
wants 0 "$BANYAN" topo sites:2x2 --json
cmp -s "$scratch/out" "$scratch/sites.json" || fail "-o writes something else than --json prints"
wants 1 "$BANYAN" topo star:2 -o "$scratch/no/such/folder.json"
shows 'cannot open .*folder.json for writing' err

# A topology is measured with every rank as a host of its own, and the result can be planned for.
wants 0 "$BANYAN" run -n 3 --transport tcp -- "$BANYAN" topo --measure -o "$scratch/measured.json" --json
shows 'banyan topo: 3 hosts measured, [0-9]+ experiments' err
cmp -s "$scratch/out" "$scratch/measured.json" || fail "not only rank 0 prints: $(cat "$scratch/out")"
wants 0 "$BANYAN" topo "$scratch/measured.json"
shows '^topology measured: 3 hosts take part, ' out
wants 0 "$BANYAN" plan "$scratch/measured.json"
wants 0 "$BANYAN" run -n 2 --transport tcp -- "$BANYAN" topo --measure
shows '^\[0\] topology measured: 2 hosts take part, 1 link$' out
wants 1 "$BANYAN" run -n 2 -- "$BANYAN" topo --measure
shows 'all 2 ranks are on host .*no network to measure' err

# Misuse ends with 2 and a bad file with 1. Both are reported on standard error only.
refuses() {
  local status=$1 pattern=$2
  shift 2
  wants "$status" "$BANYAN" topo "$@"
  shows "$pattern" err
  [ ! -s "$scratch/out" ] || fail "$* prints to standard output"
}
refuses 2 'no topology' --json
refuses 2 'needs a job around it' --measure
refuses 2 '--measure finds the topology itself: give either --measure or "star:4"' --measure star:4
refuses 2 'there is no topology "strar"; did you mean star\?.*no file of that name' strar
refuses 2 'clos: there is no option "rack"; did you mean "racks"\?' clos:rack=4,hosts=2
refuses 2 'both --json and --svg -' star:2 --json --svg -
refuses 1 'cannot open topology .*nothing.json: No such file' "$scratch/nothing.json"
printf '{"format": "banyan-topology 1",\n "nodes": ["a",],}' >"$scratch/bad.json"
refuses 1 'bad.json:2:' "$scratch/bad.json"
printf '{"format": "banyan-topology 1", "nodes": ["a", "b"], "links": [{"a": "a", "b": "b", "capacity": -1}]}' \
  >"$scratch/bad.json"
refuses 1 'bad.json: links\[0\].capacity: is -1, must be 0 or more' "$scratch/bad.json"
printf '{"format": "banyan-topology 1", "nodes": ["a", "b"], "links": []}' >"$scratch/bad.json"
refuses 1 'bad.json: "a" and "b" take part but cannot reach each other' "$scratch/bad.json"
printf '2 2\n0 1 10 1\n' >"$scratch/cut.el"
refuses 1 'cut.el:2: ends after 1 of 2 links' "$scratch/cut.el"
head -c 60000 /dev/urandom >"$scratch/noise"
refuses 1 'noise' "$scratch/noise"

# The documentation's example is a topology, and its short texts mean what it documents.
python3 - "$BANYAN_SOURCE/docs/topology-format.md" "$scratch" <<'EOF'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
assert len(blocks) == 1
open(f"{sys.argv[2]}/example.json", "w", encoding="utf-8").write(blocks[0])
table = text.split("## Short texts")[1].split("\n\nWithout")[0]
words = [word for line in table.split("\n") if line.startswith("| `") for word in re.findall("`([^`]+)`", line.split("|")[1])]
assert len(words) >= 10
open(f"{sys.argv[2]}/texts", "w", encoding="utf-8").write("\n".join(words) + "\n")
EOF
wants 0 "$BANYAN" topo "$scratch/example.json"
while read -r word; do wants 0 "$BANYAN" topo "$word"; done <"$scratch/texts"

# Nodes at one place, and those without a place between the same neighbours, are drawn apart, and no name covers another.
cat >"$scratch/places.json" <<'END'
{"format": "banyan-topology 1", "nodes": [
  {"name": "london", "x": -0.1, "y": 51.5}, {"name": "london-two", "x": -0.1, "y": 51.5}, {"name": "paris", "x": 2.3, "y": 48.9},
  {"name": "vienna", "x": 16.4, "y": 48.2}, {"name": "madrid", "x": -3.7, "y": 40.4}, {"name": "athens", "x": 23.7, "y": 38.0},
  {"name": "rome", "x": 12.5, "y": 41.9}, {"name": "somewhere"}, {"name": "elsewhere"}],
 "links": [
  {"a": "london", "b": "london-two", "capacity": "10g"}, {"a": "london", "b": "paris", "capacity": "10g"},
  {"a": "paris", "b": "vienna", "capacity": "10g"}, {"a": "paris", "b": "madrid", "capacity": "10g"},
  {"a": "vienna", "b": "athens", "capacity": "10g"}, {"a": "vienna", "b": "rome", "capacity": "10g"},
  {"a": "paris", "b": "somewhere", "capacity": "10g"}, {"a": "somewhere", "b": "vienna", "capacity": "10g"},
  {"a": "paris", "b": "elsewhere", "capacity": "10g"}, {"a": "elsewhere", "b": "vienna", "capacity": "10g"}]}
END
wants 0 "$BANYAN" topo "$scratch/places.json" --svg "$scratch/places.svg"
python3 - "$scratch/places.svg" <<'END' || fail "nodes or names of a drawing hide each other"
import itertools, math, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
nodes = [tuple(map(float, found)) for found in re.findall(r'<circle class="[^"]*" cx="([-\d.]+)" cy="([-\d.]+)" r="([\d.]+)"', text)]
nodes = [node for node in nodes if node[2] == max(n[2] for n in nodes)]
assert len(nodes) >= 9, nodes
for a, b in itertools.combinations(nodes[:9], 2):
    assert math.dist(a[:2], b[:2]) > a[2], (a, b)
names = re.findall(r'<text class="n" x="([-\d.]+)" y="([-\d.]+)">([^<]+)</text>', text)
assert len(names) >= 7, names
for (x, y, name), (v, w, other) in itertools.combinations(names, 2):
    apart = abs(float(x) - float(v)) >= 2.5 * (len(name) + len(other)) or abs(float(y) - float(w)) >= 10
    assert apart, (name, other)
END
