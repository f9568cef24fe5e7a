#!/bin/bash
# The plans of ranks in a lab: trees that are planned from the topology the lab was built from, at its rates there,
# unless a plan or another topology is given.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
unequal=$BANYAN_SOURCE/examples/topologies/star-unequal.json # h0, h1, h2: 1000 Mbit/s; h3: 200 Mbit/s

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
"$BANYAN" lab star:2,nic=50m -- true 2>"$scratch/err" || { grep -q 'CONFIG_NET_SCH_HTB' "$scratch/err" &&
  skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# sums LAB-OPTION... -- BENCH-OPTION...: runs four sums of 1 MiB and writes how often h3 sends its buffer to
# $scratch/sent.
sums() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  wants 0 "$BANYAN" lab "$unequal" --json "${options[@]}" -- \
    banyan bench -s 1M --iterations 4 --warmup 0 --check off --json "$@"
  python3 -c 'import json, sys
links = json.loads(open(sys.argv[1]).read().splitlines()[-1])["links"]
print(next(link["bytes"] for link in links if link["from"] == "h3") / (4 << 20))' "$scratch/out" >"$scratch/sent"
}
# planned, fixed: h3 sends everything once, as in trees in which it is a leaf, or 1.5 times, as in a ring.
planned() { python3 -c "assert 1 < $(cat "$scratch/sent") < 1.25" || fail "h3 sent its buffer $(cat "$scratch/sent") times"; }
fixed() { python3 -c "assert 1.4 < $(cat "$scratch/sent") < 1.8" || fail "h3 sent its buffer $(cat "$scratch/sent") times"; }

sums -x BANYAN_LOG=plan:info --
planned
shows '\[h0\] .*planned from the topology in .* s: ' err

# The planner's settings apply: a ring, which is slower here.
sums -x BANYAN_PLANNER=method=cluster,ways=ring --
fixed

# An explicit option takes precedence over "default", which takes precedence over the environment.
sums --plan ring --
fixed
sums -- --plan ring
fixed
sums -x BANYAN_PLAN=ring --
fixed
BANYAN_PLAN=ring sums --
fixed
BANYAN_PLAN=$unequal BANYAN_TOPOLOGY=nosuch sums --plan default -x BANYAN_LOG=plan:info --
fixed
! has 'planned from' err || fail "it was planned though the default was asked for"
BANYAN_TOPOLOGY=nosuch wants 1 "$BANYAN" lab "$unequal" -- banyan bench -s 8
shows 'could not plan from the topology: there is no topology "nosuch"' err
wants 1 "$BANYAN" lab "$unequal" -x BANYAN_TOPOLOGY=star:3 -- banyan bench -s 8
shows 'the topology has no node "h3", which is a host of the job' err

# Ranks find the topology as it was built: reduced by the load of others, scaled, and without delay where that is
# omitted.
cat >"$scratch/used.json" <<'END'
{"format": "banyan-topology 1", "nodes": ["a", "b", {"name": "c", "capacity": "40m"}], "links": [
  {"a": "a", "b": "b", "capacity": "100m", "used": {"ba": "60m"}, "delay": "1ms"},
  {"a": "b", "b": "c", "capacity": "100m"}]}
END
# built CODE LAB-OPTION...: runs Python code that checks the lab's topology, t.
built() {
  wants 0 "$BANYAN" lab "$scratch/used.json" "${@:2}" -o rank0 -- sh -c 'cat "$BANYAN_TOPOLOGY"'
  python3 -c "import json, sys; t = json.load(open(sys.argv[1])); $1" "$scratch/out" || fail "$(cat "$scratch/out")"
}
built 'l = t["links"]; assert l[0]["capacity"] == {"ab": 1e7, "ba": 4e6} and l[0]["delay"] == 1e-3, l
assert l[1]["capacity"] == 1e7 and t["nodes"][2]["capacity"] == 4e6, t' --scale 1/10
built 'l = t["links"]; assert l[0]["capacity"] == 1e8 and "delay" not in l[0] and "used" not in l[0], l' --whole --plain

# Several ranks share a host, also where each counts as a host of its own. Ranks on one host have nothing to plan.
for transport in auto tcp; do
  wants 0 "$BANYAN" lab star:3,nic=200m -n 2 -x BANYAN_LOG=plan:info -x BANYAN_TRANSPORT=$transport -- \
    banyan bench -s 64K --iterations 2 --check all
  shows 'planned from the topology' err
  wants 0 "$BANYAN" lab star:1,nic=200m -n 2 -x BANYAN_TRANSPORT=$transport -- banyan bench -s 64K --iterations 2 --check all
done

# Programs of other users than root read the topology, too. It is removed with the lab.
wants 0 "$BANYAN" lab "$scratch/used.json" -o rank0 -- setpriv --reuid 65534 --clear-groups sh -c \
  'cat "$BANYAN_TOPOLOGY" && echo "$BANYAN_TOPOLOGY"'
shows '"banyan-topology 1"' out
file=$(tail -n 1 "$scratch/out")
[ -n "$file" ] && [ ! -e "$file" ] || fail "the lab's topology is left in '$file'"
"$BANYAN" lab star:2 -- sh -c "echo \"\$BANYAN_TOPOLOGY\" >$scratch/name.\$BANYAN_RANK; exec sleep $odd" &
lab=$!
left 2
kill -KILL "$lab"
wait "$lab" || true
file=$(cat "$scratch/name.0")
is_gone() { [ ! -e "$file" ]; }
[ -n "$file" ] && comes is_gone || fail "the lab's topology is left in '$file'"
left 0

# A link becomes slow while a job runs, and fast again: rank 0 plans anew each time, also for a communicator that was
# made before and for a duplicate of the job's, and all sums are right. The link is hardly used in between, and is probed.
link() { echo "{\"a\": \"$1\", \"b\": \"$2\", \"capacity\": \"50m\"}"; }
mesh="{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", \"d\"], \"links\": [$(link a b), $(link a c),
  $(link a d), $(link b c), $(link b d), $(link c d)]}"
"$BANYAN" lab "$mesh" --at '1s rate a b 5m' --at '6s rate a b 50m' -x BANYAN_LOG=plan:debug -x BANYAN_TEST_SPLIT=3 \
  -x BANYAN_TEST_DUPLICATE=1 \
  -o prefix -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/sums" >"$scratch/out" 2>"$scratch/err" &
lab=$!
slow() { has 'from "[ab]" to "[ab]" the link carries .* as far as is seen, no longer 50 Mbit/s' err; }
comes slow || fail "a slow link was not noticed: $(cat "$scratch/err")"
switched() { has 'replanning: proposes -> watches' err; }
comes switched || fail "a slow link did not change the plan: $(cat "$scratch/err")"
whole() { has 'the link carries 50 Mbit/s, no longer' err; }
comes whole || fail "a link that is fast again was not noticed: $(cat "$scratch/err")"
shows 'probing the way from rank' err
# The duplicate is asked for the first time then; the other one was when it made its first call.
followed() {
  local asked
  asked=$(sed -n 's/.*of communicator \([1-9][0-9]*\): .* -> asked/\1/p' "$scratch/err")
  [ "$(sort -u <<<"$asked" | wc -l)" = 2 ] && [ "$(wc -l <<<"$asked")" -ge 3 ]
}
comes followed || fail "a communicator kept its plan: $(cat "$scratch/err")"
touch "$scratch/done"
wait "$lab" || fail "the job failed: $(cat "$scratch/out" "$scratch/err")"
has '0 wrong, in 0 of' out || fail "$(cat "$scratch/out")"

# Rank 0 watches the network and tries plans that are predicted to be nearly as fast, but not where nothing that is
# measured may decide. Then it does not measure the network either.
calls=(-- banyan bench -s 64K --iterations 60 --warmup 0)
wants 0 "$BANYAN" lab "$mesh" -x BANYAN_LOG=plan:debug "${calls[@]}"
shows 'replanning: watches the network' err
shows 'trial calls: idle -> finds' err
wants 0 "$BANYAN" lab "$mesh" -x BANYAN_LOG=plan:debug -x BANYAN_DETERMINISTIC=1 "${calls[@]}"
shows 'planned from the topology' err
! has 'replanning|trial|from call' err || fail "a job that is to be deterministic decides by measurement: $(cat "$scratch/err")"
wants 0 "$BANYAN" lab "$mesh" -x BANYAN_LOG=plan:debug -x BANYAN_DETERMINISTIC=1 -x BANYAN_TOPOLOGY= -- banyan bench -s 8
! has 'measur|planned' err || fail "a job that is to be deterministic measures its network: $(cat "$scratch/err")"

# A plan that was saved gives the same bits in every run, other bits than another plan, and stays.
saved() { # PLAN; writes the bits to $bits
  wants 0 "$BANYAN" lab "$mesh" -x BANYAN_LOG=plan:debug -x BANYAN_PLAN="$1" -- "$BANYAN_BUILD/tests/net/special_values"
  ! has 'replanning|trial' err || fail "a job with a plan of the user's watches its network"
  bits=$(sed 's/.*bits //' "$scratch/out" | sort -u)
  [ "$(wc -l <<<"$bits")" = 1 ] || fail "ranks have other bits: $bits"
}
wants 0 "$BANYAN" plan "$mesh" --json
cp "$scratch/out" "$scratch/saved.json"
saved "$scratch/saved.json"
first=$bits
saved "$scratch/saved.json"
[ "$bits" = "$first" ] || fail "a saved plan gives other bits in another run: $first, $bits"
saved chain
[ "$bits" != "$first" ] || fail "these numbers show nothing: $bits"

# memberships LAB-OPTION... : ranks 0, 1 and 2, of which 0 dies; then rank 3 comes. $start goes before the program.
memberships() {
  rm -rf "$scratch/handles" && mkdir "$scratch/handles"
  wants 0 "$BANYAN" lab "$unequal" -x BANYAN_CACHE=off -x BANYAN_LOG=plan:info "$@" -- \
    sh -c "$start '$BANYAN_BUILD/tests/net/sum_memberships' '$scratch/handles' 1048576 2 012 12 312 || true"
  shows '^\[h1\] 12: first ' out
  shows '^\[h3\] 312: first ' out
}
# It measures its network once: when rank 0 has died, the others plan from what is known. Rank 3's host is not known.
start='' memberships -x BANYAN_TOPOLOGY=
shows '\[h0\] .*delays: ' err
shows '\[h1\] .*(is known from|keeps its built-in plans, as in) the membership before' err
! has '\[h1\] .*(delays: |hosts measured)' err || fail "it was measured again: $(cat "$scratch/err")"
shows '\[h3\] .*h3 was in no membership before: the network is looked for anew' err
# The topology that rank 0 has read goes on without it, and has rank 3's host.
start='[ $BANYAN_RANK = 0 ] || export BANYAN_TOPOLOGY=/nosuch.json;' memberships
[ "$(grep -c 'the network is known from the membership before' "$scratch/err")" = 2 ] || fail "$(cat "$scratch/err")"
[ "$(grep -c 'planned from the topology' "$scratch/err")" = 3 ] || fail "$(cat "$scratch/err")"
