#!/bin/bash
# `banyan lab --cluster`: a manager, agents and switches, and two jobs that come and go, from one command. The jobs, one
# of them with two ranks on each host, get plans of the manager, which is asked from this machine, and the sums are
# right while the manager, an agent and a switch are killed and started. Groups of a third job get plans, too. Nothing is
# left behind.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
wants 2 "$BANYAN" lab star:2 --http 127.0.0.1:0 -- true
shows 'are for --cluster' err
wants 2 "$BANYAN" lab star:2 --cluster --manager switch -- true
shows '"switch" is not a host' err
wants 1 "$BANYAN" lab star:2 --cluster --http nowhere -- true
shows '--http' err
"$BANYAN" lab clos:racks=2,hosts=1,nic=50m,adds=all --cluster -- true 2>"$scratch/err" || {
  grep -qE 'CONFIG_NET|rights|libmicrohttpd' "$scratch/err" && skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

sum="$BANYAN_BUILD/tests/net/sum_until $scratch/done"
# Without IPv4: reports, the found network, the manager's plan, its servers and its trees through switches, two in place
# of one as their work is to be for two cores of each switch.
if [ -e /proc/sys/net/ipv6 ]; then
  "$BANYAN" lab clos:racks=2,hosts=2,nic=100m,adds=all --cluster --ipv6 --manager-options "--interval 0.2 --replan 1 --queues 2" \
    --env BANYAN_LOG=info -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/six" >"$scratch/sums" 2>&1 &
  lab=$!
  trees() { sed -n 's/.* as tree \([0-9]*\),.*/\1/p' "$scratch/sums" | sort -u | wc -l; }
  sums() { has 'sums over [1-9] switches with server' sums && [ "$(trees)" -ge 2 ] && has "plan 'cluster' from call" sums; }
  comes sums || fail "no tree through switches over IPv6: $(cat "$scratch/sums")"
  touch "$scratch/done"
  wait "$lab" || fail "the lab of IPv6 ended with $?: $(cat "$scratch/sums")"
  [ "$(grep -cE '^\[r[01]h[01]\] 0 wrong, ' "$scratch/sums")" = 4 ] || fail "$(cat "$scratch/sums")"
  rm "$scratch/done"
fi

"$BANYAN" lab clos:racks=2,hosts=2,nic=100m,adds=all --cluster --manager r1h1 --manager-options "--interval 0.2 --replan 1" \
  --job "one: $sum $scratch/one" --job "two from=0.5s hosts=r0h0,r1h0 ranks=2: $sum $scratch/two" \
  --job "short from=0.2s until=1s hosts=r0h1,r1h1: $sum $scratch/short" \
  --job "groups: $BANYAN bench groups -s 16K --rounds 1 --wait 20s" \
  --at '1s kill switch leaf0' --at '1.5s start switch leaf0' --at '1.2s kill manager' --at '1.7s start manager' \
  --at '2s kill agent r0h1' --at '2.5s start agent r0h1' --at '2.6s kill server r0h0' >"$scratch/sums" 2>"$scratch/messages" &
lab=$!
at_end() { touch "$scratch/done" && kill "$lab" 2>/dev/null; wait; }
starts() { has 'banyan lab: page at http://127.0.0.1:[0-9]+/\?token=' messages; }
comes starts || fail "the lab does not start"
# shellcheck disable=SC2207 # words without blanks
status=($(sed -n 's/^banyan lab: state by banyan //p' "$scratch/messages"))
folder=$(dirname "${status[4]}")
killed() { has 'banyan lab: (server r0h0 does not run|server r0h0 is killed)' messages; }
comes killed || fail "not all was killed: $(cat "$scratch/messages")"
for what in 'switch leaf0' manager 'agent r0h1'; do
  shows "banyan lab: $what is killed" messages
  shows "banyan lab: $what starts" messages
done
# Each job has a plan, and everything that was killed is back.
agrees() {
  "$BANYAN" "${status[@]}" >"$scratch/state" 2>&1 && has '8 of 8 hosts connected; 2 jobs run' state &&
    has '^  one +running +[0-3] +4 .* [1-9][0-9]* +[0-9.]+[MG] ' state && has '^  two +running +[0-3] +4 ' state
}
comes agrees || fail "the manager does not know all: $(cat "$scratch/state")"
# The network is found, not told.
"$BANYAN" "${status[@]}" --json | python3 -c 'import json, sys
topology = json.load(sys.stdin)["topology"]
links = {tuple(sorted((link["a"], link["b"]))) for link in topology["links"]}
assert links == {("leaf0", "r0h0"), ("leaf0", "r0h1"), ("leaf1", "r1h0"), ("leaf1", "r1h1"), ("leaf0", "spine0"),
                 ("leaf1", "spine0"), ("leaf0", "spine1"), ("leaf1", "spine1")}, links
assert all(0.9e8 < link["capacity"] < 1.1e8 for link in topology["links"]), topology'
touch "$scratch/done"
wait "$lab" || fail "it ended with $?: $(cat "$scratch/sums" "$scratch/messages")"
[ "$(grep -cE '^\[(one|two) r[01]h[01](:[01])?\] 0 wrong, ' "$scratch/sums")" = 8 ] || fail "$(cat "$scratch/sums")"
# Rank 0 has planned for the job's groups, by what the manager knows of the network.
[ "$(grep -cE '^\[groups r0h0\] .* 0  [0-3],[0-3]: .*\(topology' "$scratch/sums")" = 4 ] || fail "$(grep groups "$scratch/sums")"
[ ! -e "$folder" ] || fail "$folder is left"
nothing_runs() { ! pgrep -f "$folder" >/dev/null; }
comes nothing_runs || fail "something runs on: $(pgrep -fa "$folder")"

# Controllers follow the network: operations that are submitted under a manager's plan go along the tree that the network
# suggests, which crosses between the racks twice; by their numbers, five of the ten hosts would have a parent in the
# other rack. The log has each rank's parent.
rm "$scratch/done"
"$BANYAN" lab clos:racks=2,hosts=5,nic=100m --cluster --tell-topology --manager-options "--interval 0.2 --replan 1" \
  --env BANYAN_LOG=negotiate:debug --env BANYAN_TEST_SUBMITS=1 -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/ten" \
  >"$scratch/sums" 2>&1 &
lab=$!
moved() { [ "$(grep -c 'negotiate: control tree [1-9]' "$scratch/sums")" -ge 10 ]; }
comes moved || fail "controllers keep their tree: $(tail -n 50 "$scratch/sums")"
touch "$scratch/done"
wait "$lab" || fail "it ended with $?: $(tail -n 50 "$scratch/sums")"
"$BANYAN" plan clos:racks=2,hosts=5,nic=100m --json >"$scratch/planned" || fail "no plan of the two racks"
python3 - "$scratch/planned" "$scratch/sums" <<'PYTHON' || fail "the control tree: $(grep 'control tree' "$scratch/sums")"
import json, re, sys
control = json.load(open(sys.argv[1], encoding="utf-8"))["control"]
sent = re.findall(r"^\[(\w+)\].* control tree \d+ of communicator 0+: sends to rank \d+ \(host (\w+)\)",
                  open(sys.argv[2], encoding="utf-8").read(), re.MULTILINE)
assert dict(sent) == {control["root"]: control["root"], **control["parent"]}, sent
assert sum(child[:2] != parent[:2] for child, parent in dict(sent).items()) == 2, sent
PYTHON
