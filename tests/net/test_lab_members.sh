#!/bin/bash
# Trees through switches of groups whose processes change. The server follows into each membership, and rank 0 plans trees
# for the new members and reserves cells for them: when rank 0 has died, when members are well, and when the server dies
# with a rank. Sums must be right, and switches must add them.
. "$BANYAN_SOURCE/tests/shell.sh"

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"

python3 - "$BANYAN_SOURCE/examples/topologies/adding-1.json" >"$scratch/all.json" <<'END'
import json, sys
topology = json.load(open(sys.argv[1]))
for node in topology["nodes"]:
    node.pop("takes_part", None)
print(json.dumps(topology))
END
"$BANYAN" lab "$scratch/all.json" --switches none -- true 2>"$scratch/err" || {
  grep -qE 'CONFIG_NET|rights' "$scratch/err" && skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# What each host runs: a member, or on the host "server" the server, which ends with the first rank if $dies is set. When
# the job is over that host prints what the switch has done.
cat >"$scratch/host.sh" <<'END'
export BANYAN_TOPOLOGY=$topology BANYAN_CACHE=off BANYAN_HELPERS=servers=1
if [ "$BANYAN_HOST" != server ]; then
  "$BANYAN_BUILD/tests/net/sum_memberships" "$handles" 1048576 3 "$@" || [ $? = 137 ]
  exit
fi
for i in 0 1 2 3; do
  until [ -e "$handles/handle$i" ]; do sleep 0.02; done
  members=$members${members:+,}$(cat "$handles/handle$i")
done
unset BANYAN_ROOT
BANYAN_MEMBERS=$members "$BANYAN" server &
server=$!
if [ -n "$dies" ]; then
  until [ -e "$handles/time1" ]; do sleep 0.001; done
  kill -KILL $server
  wait $server
  exit 0
fi
wait $server || exit 1
"$BANYAN" status s --json
END

dies= # 1: the server dies with the first rank

# members MEMBERSHIP...: in a lab with a switch in user space.
members() {
  rm -rf "$scratch/handles" && mkdir "$scratch/handles"
  wants 0 "$BANYAN" lab "$scratch/all.json" --switches user --plan default -k -o prefix -x BANYAN_LOG=info \
    -x handles="$scratch/handles" -x topology="$scratch/all.json" -x dies="$dies" -x BANYAN="$BANYAN" \
    -x BANYAN_BUILD="$BANYAN_BUILD" -- sh "$scratch/host.sh" "$@"
}

# Rank 0 dies; then rank 0 moves. Each membership has a tree of its own, whose terms come to the server as sums.
members 0123 123 312
for membership in 0123:w0 123:w1 312:w3; do
  shows "^\[${membership#*:}\] ${membership%:*}: first .* plan four workers at one switch that adds" out
done
python3 - "$scratch/out" "$scratch/err" <<'END'
import json, re, sys
out, err = (open(name).read() for name in sys.argv[1:])
trees = re.findall(r"server of tree (\d+) .*; (\d+) terms, of them (\d+) sums, (\d+) unmerged", err)
assert len(trees) == 3 and len({tree for tree, *_ in trees}) == 3, trees
for tree, terms, sums, unmerged in trees:  # three sums of 1 MiB each, and what ends with a death
    assert int(sums) > 2000 and int(unmerged) < int(sums) / 10, trees
status = json.loads(re.search(r"^\[server\] (\{.*)", out, re.M).group(1))
assert status["events"]["completed"] > 6000, status
assert status["cells"]["used"] == 0, status  # also what the dead rank 0 had, which else lapses after 30 s
END

# The server dies with rank 0, and sums go among ranks.
dies=1 members 0123 123 312
shows '^\[w1\] 123: first .*, plan ' out
shows '^\[w3\] 312: first .*, plan ' out
[ "$(grep -c 'sums over 1 switches' "$scratch/err")" = 4 ] || fail "$(cat "$scratch/err")"
