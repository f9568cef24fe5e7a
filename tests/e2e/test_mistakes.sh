#!/bin/bash
# What a new user gets wrong with topologies: each command says what is wrong, where, and what to do.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

# file NAME NODES LINKS: a topology in $scratch/NAME.json
file() { printf '{"format": "banyan-topology 1", "nodes": [%s], "links": [%s]}' "$2" "$3" >"$scratch/$1.json"; }
file apart '"a", "b", "c"' '{"a": "a", "b": "b", "capacity": 1e9}'
file twice '"a", "b", "b"' '{"a": "a", "b": "b", "capacity": 1e9}'
file zero '"a", "b"' '{"a": "a", "b": "b", "capacity": 0}'
file negative '"a", "b"' '{"a": "a", "b": "b", "capacity": -1e9}'
head -c 60 "$scratch/zero.json" >"$scratch/cut.json"

# refused CODE TEXT COMMAND...: that is how it ends, saying so
refused() {
  wants "$1" "$BANYAN" "${@:3}"
  shows "$2" err
}

# every command that reads a topology names the file and the place
for command in topo plan simulate; do
  refused 1 'cannot open topology nosuch.json: No such file' "$command" nosuch.json
  refused 1 'apart.json: "a" and "c" take part but cannot reach each other' "$command" "$scratch/apart.json"
  refused 1 'twice.json: nodes\[2\]: two nodes are named "b"' "$command" "$scratch/twice.json"
  refused 1 'zero.json: links\[0\].capacity: is 0, must be more than 0' "$command" "$scratch/zero.json"
  refused 1 'negative.json: links\[0\].capacity: ' "$command" "$scratch/negative.json"
  refused 1 'cut.json:1:60: .*near end of file' "$command" "$scratch/cut.json"
  refused 2 'there is no topology "sta"; did you mean star\?' "$command" sta:4
  refused 2 'the size is 99999999, must be 1 to 65536' "$command" star:99999999
  refused 2 'nic: "1x" is not a rate in bit/s' "$command" star:4,nic=1x
done
refused 2 'cannot open topology nosuch.json: No such file' lab nosuch.json -- true

# names and numbers of plan
refused 2 '\-\-ranks: there is no "h9" in the topology; its first node is h0' plan star:4 --ranks h9
refused 2 '\-\-ranks: "switch" is a switch; give hosts' plan star:4 --ranks h0,switch
refused 2 '\-\-helpers: "switch" is a switch that does not add' plan star:4 --helpers switch
refused 2 '\-\-max-height is "0"; it is a number of hops, 1 to' plan star:4 --max-height 0
refused 2 'or a time with --height-metric delay' plan star:4 --max-height 20ms
refused 2 '\-\-max-height is "3x"; by delay it is a time' plan star:4 --max-height 3x --height-metric delay
refused 2 '\-\-min-rate: "fast" is not a rate' plan star:4 --min-rate fast
refused 2 '\-\-trees is 0, must be 1 to' plan star:4 -k 0

# jobs: also one with all ranks on one host hears of a topology that is not there
refused 1 'rank 0 .*could not plan from the topology: there is no topology "nosuch"' run -n 2 --topology nosuch -- "$BANYAN" bench -s 8
refused 2 '\-\-measure needs a job around it: banyan run -H' topo --measure
refused 1 'there is no network to measure between them' run -n 2 -- "$BANYAN" topo --measure
refused 1 'which job to help\? Start the helper with `banyan run --helpers`' helper
