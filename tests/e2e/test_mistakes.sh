#!/bin/bash
# Tests mistakes of new users with topologies: each command reports what is wrong, where, and what to do.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

# file NAME NODES LINKS: writes a topology to $scratch/NAME.json.
file() { printf '{"format": "banyan-topology 1", "nodes": [%s], "links": [%s]}' "$2" "$3" >"$scratch/$1.json"; }
file apart '"a", "b", "c"' '{"a": "a", "b": "b", "capacity": 1e9}'
file twice '"a", "b", "b"' '{"a": "a", "b": "b", "capacity": 1e9}'
file zero '"a", "b"' '{"a": "a", "b": "b", "capacity": 0}'
file negative '"a", "b"' '{"a": "a", "b": "b", "capacity": -1e9}'
file tiny '"a", "b"' '{"a": "a", "b": "b", "capacity": 1e-300}'
head -c 60 "$scratch/zero.json" >"$scratch/cut.json"

# refused CODE TEXT COMMAND...: the command ends with this code and reports this text.
refused() {
  wants "$1" "$BANYAN" "${@:3}"
  shows "$2" err
}

# Every command that reads a topology names the file and the place.
for command in topo plan simulate; do
  refused 1 'cannot open topology nosuch.json: No such file' "$command" nosuch.json
  refused 1 'apart.json: "a" and "c" take part but cannot reach each other' "$command" "$scratch/apart.json"
  refused 1 'twice.json: nodes\[2\]: two nodes are named "b"' "$command" "$scratch/twice.json"
  refused 1 'zero.json: links\[0\].capacity: is 0, must be more than 0' "$command" "$scratch/zero.json"
  refused 1 'negative.json: links\[0\].capacity: ' "$command" "$scratch/negative.json"
  refused 1 'tiny.json: links\[0\].capacity: is 1e-300 bit/s, must be 1 to 1e\+18 bit/s' "$command" "$scratch/tiny.json"
  refused 1 'cut.json:1:60: .*near end of file' "$command" "$scratch/cut.json"
  refused 2 'there is no topology "sta"; did you mean star\?' "$command" sta:4
  refused 2 'the size is 99999999, must be 1 to 65536' "$command" star:99999999
  refused 2 'nic: "1x" is not a rate in bit/s' "$command" star:4,nic=1x
done
refused 1 'cannot open topology nosuch.json: No such file' lab nosuch.json -- true
refused 1 'zero.json: links\[0\].capacity: is 0, must be more than 0' lab "$scratch/zero.json" -- true
refused 2 'there is no topology "sta"; did you mean star\?' lab sta:4 -- true
refused 1 'tiny.json: links\[0\].capacity: is 1e-300 bit/s' lab "$scratch/tiny.json" -- true
refused 2 '\-\-scale 1e-12: the link "h0" - "switch" is 0.01 bit/s, must be 1 to' lab star:4 --scale 1e-12 -- true
refused 2 '\-\-at: with --scale, the rate in "1s rate h0 switch 9" is 0.9 bit/s' lab star:4 --scale 0.1 --at '1s rate h0 switch 9' -- true
refused 2 'grain: is 0 bytes, must be more' plan star:4 --cost grain=0

# One link of a backbone carries next to nothing: it is neither planned for nor drawn.
sed '0,/"capacity": "[0-9a-z]*"/s//"capacity": 1e-300/' "$BANYAN_SOURCE/examples/topologies/backbone-14.json" \
  >"$scratch/backbone.json"
grep -q 'capacity": 1e-300' "$scratch/backbone.json" || fail "the backbone has no slow link"
refused 1 'backbone.json: links\[0\].capacity: is 1e-300 bit/s' plan "$scratch/backbone.json"
refused 1 'backbone.json: links\[0\].capacity: is 1e-300 bit/s' simulate "$scratch/backbone.json"
refused 1 'backbone.json: links\[0\].capacity: is 1e-300 bit/s' simulate "$scratch/backbone.json" --builtin ring --no-bound
refused 2 'no topology: give a file, or a text such as star:4; usage: banyan simulate TOPOLOGY' simulate
refused 2 'no topology: give a file, or a text such as star:4; usage: banyan lab TOPOLOGY' lab
refused 2 '\-\-chunk is 0, must be 1 byte or more' simulate star:4 --chunk 0

# These are names and numbers of plan.
refused 2 '\-\-ranks names nodes of the topology, which has no "h9"; its first node is h0' plan star:4 --ranks h9
# Options without effect are not passed over.
refused 2 '\-\-trees only affects plans for a topology' plan --builtin ring -n 4 --trees 2
refused 2 '\-\-explain only affects plans for a topology' plan -n 4 --explain
refused 2 '\-\-collective only affects --schedule RANK and --explain' plan star:4 --collective broadcast
refused 2 '\-\-root only affects --schedule RANK and --explain' plan star:4 --root 9
refused 2 '\-\-ranks: "switch" is a switch; give hosts' plan star:4 --ranks h0,switch
refused 2 '\-\-helpers: "switch" is a switch that does not aggregate' plan star:4 --helpers switch
refused 2 '\-\-max-height is "0"; it is a number of hops, 1 to' plan star:4 --max-height 0
refused 2 'or a time with --height-metric delay' plan star:4 --max-height 20ms
refused 2 '\-\-max-height is "3x"; by delay it is a time' plan star:4 --max-height 3x --height-metric delay
refused 2 '\-\-min-rate: "fast" is not a rate' plan star:4 --min-rate fast
refused 2 '\-\-trees is 0, must be 1 to' plan star:4 --trees 0

# Jobs report a missing topology, also one with all ranks on one host.
refused 1 'rank 0 .*could not plan from the topology: there is no topology "nosuch"' run -n 2 --topology nosuch -- "$BANYAN" bench -s 8
refused 2 '\-\-measure needs a job around it: banyan run -H' topo --measure
refused 1 'rank 0 .*cannot use BANYAN_PLANNER: item 2: there is no "tres" \(did you mean trees\?\); there are trees, max-height, ' \
  run -n 2 -x BANYAN_PLANNER=method=few,tres=8 -- "$BANYAN" bench -s 8
refused 1 'method in-network is for `banyan plan --json`' run -n 2 --topology star:2 \
  -x BANYAN_TRANSPORT=tcp -x BANYAN_PLANNER=method=in-network -- "$BANYAN" bench -s 8
refused 1 'there is no network to measure between them' run -n 2 -- "$BANYAN" topo --measure
refused 1 'which job to help\? Start the helper with `banyan run --helpers`' helper

# These are hosts, variables and settings of a job.
refused 2 'no command for the ranks: give one, as in `banyan run -n 4 -- ./train`; usage: banyan run' run -n 4
refused 2 'host "a": slots: "x" is not a whole number' run -H b:2,a:x true
refused 2 '\-x: "BAD NAME=1" is not NAME=VALUE: names contain no spaces' run -n 1 -x 'BAD NAME=1' true
refused 2 '\-x: "=1" is not NAME=VALUE' run -n 1 -x =1 true
wants 0 "$BANYAN" run -n 1 -o raw -x 'GOOD=a b' -- sh -c 'echo $GOOD'
shows '^a b$' out
wants 2 env BANYAN_ENGINE=eager-limit=3K "$BANYAN" bench -n 2 -s 8
shows 'BANYAN_ENGINE: eager-limit is 3 KiB, must be a power of two from 4K to 64M' err
wants 2 env BANYAN_ENGINE=eager-limit=64K,credit=8K "$BANYAN" bench -n 2 -s 8
shows 'BANYAN_ENGINE: credit is 8 KiB, must be at least eager-limit' err
wants 2 env BANYAN_DEADLINE=0 "$BANYAN" bench -n 2 -s 8
shows 'BANYAN_DEADLINE is 0 s, must be more than 0' err
"$BANYAN" plan --builtin ring -n 4 --json >"$scratch/ring4.json"
refused 2 "plan 'ring' is for 4 ranks; this job has 2: start as many" \
  run -n 2 --plan "$scratch/ring4.json" -- touch "$scratch/started"
[ ! -e "$scratch/started" ] || fail "ranks were started with a plan for others"
refused 1 "plan 'ring' is for 4 ranks; this communicator has 2 ranks on 1 host: start as many" \
  run -n 2 -x BANYAN_PLAN="$scratch/ring4.json" -- "$BANYAN" bench -s 8
# A plan for hosts that only the ranks know is no mistake. Where the ranks name no hosts, they report it.
"$BANYAN" plan --builtin ring -n 2 --json >"$scratch/ring2.json"
wants 0 "$BANYAN" run -n 4 --plan "$scratch/ring2.json" -- \
  sh -c 'BANYAN_HOST=h$((BANYAN_RANK / 2)) exec "$0" bench -s 8 --iterations 2' "$BANYAN"
refused 1 "plan 'ring' is for 2 ranks; this communicator has 4 ranks on 1 host: start as many" \
  run -n 4 --plan "$scratch/ring2.json" -- "$BANYAN" bench -s 8
refused 2 "plan 'ring' is for 2 ranks; this job has 4: start as many" bench -n 4 --plan "$scratch/ring2.json" -s 8

# A rank that ends before it joins is named, with the reports of the others.
wants 1 "$BANYAN" run -n 3 -x BANYAN_JOIN_DEADLINE=5 -- \
  sh -c '[ $BANYAN_RANK = 1 ] || exec "$0" bench -s 8' "$BANYAN"
shows '2 of 3 ranks joined within 5 s; missing: 1; they must reach 127\.0\.0\.1:[0-9]+$' err
shows '^banyan run: ended before that, with exit code 0: rank 1$' err
# So is one that ends well while the others call it, whether it had left or not, also where it is a child of the rank.
unset BANYAN_JOINED_FILE
wants 1 "$BANYAN" run -n 3 -- "$LEAVE" leave
shows '^banyan run: ended before that, with exit code 0: rank 2$' err
wants 1 "$BANYAN" run -n 3 --report-time 10 -- sh -c '"$LEAVE" stay || exit 1; sleep 0.5'
shows '^banyan run: rank 2: exit code 0 without having left the job$' err
wants 0 "$BANYAN" run -n 1 -- "$LEAVE" stay
[ ! -s "$scratch/err" ] || fail "a job that has not failed is reported"

# Two processes are rank 0: the second one finds the port of the first.
"$BANYAN" keys job "$scratch/key" >"$scratch/out"
python3 -c 'import socket, time; s = socket.create_server(("", 0)); print(s.getsockname()[1], flush=True); time.sleep(60)' >"$scratch/port" &
comes test -s "$scratch/port"
wants 1 env BANYAN_KEY_FILE="$scratch/key" BANYAN_RANK=0 BANYAN_SIZE=2 BANYAN_ROOT="127.0.0.1:$(cat "$scratch/port")" "$BANYAN" bench -s 8
kill $!
shows 'BANYAN_ROOT is 127\.0\.0\.1:[0-9]+: rank 0 listens there, and only one process may be rank 0: cannot listen .*in use' err
