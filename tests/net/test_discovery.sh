#!/bin/bash
# A manager that nobody tells the topology: two hosts, a switch in user space and a router without an agent that speaks
# LLDP, in network namespaces. The agents find out how they are linked, and the manager composes that. A restart changes
# nothing; a new host and a switch with other cells change it. A topology that contradicts the agents is rejected.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/machines.sh"

export BANYAN_KEYS=$scratch/keys
"$BANYAN" keys init >/dev/null
"$BANYAN" keys make manager m --address 10.9.1.1 >/dev/null
for name in h1 h2 h3 s1; do "$BANYAN" keys make agent "$name" >/dev/null; done

declare -A process
# start NAME MACHINE COMMAND...: runs it there; its messages go to $scratch/NAME.
start() {
  local name=$1 space=${machine_pid[$2]}
  shift 2
  nsenter -t "$space" -m -n -u -- "$@" </dev/null >"$scratch/$name.out" 2>"$scratch/$name" &
  process[$name]=$!
}
ends() { # SIGNAL NAME
  kill "-$1" "${process[$2]}" 2>/dev/null || true
  wait "${process[$2]}" 2>/dev/null || true
  unset "process[$2]"
}
stop_all() {
  local name
  for name in "${!process[@]}"; do kill -9 "${process[$name]}" 2>/dev/null; done
}
eval "undo_$(declare -f at_end)"
at_end() {
  stop_all
  undo_at_end
}

for m in h1 h2 h3 s1; do machine "$m" "$m"; done
wire h1 eth0 10.9.1.1/24 s1 p0 10.9.1.254/24
wire h2 eth0 10.9.2.1/24 s1 p1 10.9.2.254/24
wire h3 eth0 10.9.3.1/24 s1 p2 10.9.3.254/24
for m in h1 h2 h3; do on "$m" ip route add default via "10.9.${m#h}.254"; done
on s1 sysctl -qw net.ipv4.ip_forward=1
on s1 ip addr flush dev p2 # a port of a switch needs no address
on s1 ip addr add 10.9.3.254/32 dev lo
on s1 ip route add 10.9.3.0/24 dev p2

manager() {
  start manager h1 "$BANYAN" manager "$@" --listen 10.9.1.1:7650 --state "$scratch/state" --interval 200ms \
    --http 127.0.0.1:8420 --token-file "$scratch/token"
}
agent() {
  start "$1" "$1" "$BANYAN" agent --manager 10.9.1.1:7650 --socket "$scratch/$1.sock" --name "$1" --queues none \
    --rate "eth0=${2:-1g}"
}
switch() {
  start s1 s1 "$BANYAN" switch --user p0,p1,p2 --control "$scratch/s1.sock" --manager 10.9.1.1:7650 --name s1 --rate 2g "$@"
}
state() {
  on h1 "$BANYAN" status --manager http://127.0.0.1:8420 --token-file "$scratch/token" --json >"$scratch/state.json" \
    2>"$scratch/messages"
}
shown() { state && grep -qE -- "$1" "$scratch/state.json"; }
# state_has PATTERN: waits until the manager's state has it.
state_has() { comes shown "$1" || fail "the state does not show $1"; }
topology() { sed -E 's/.*"topology": ?(\{[^]]*\][^]]*\]).*/\1/' "$scratch/state.json"; }

manager
switch --cells 512
agent h1
agent h2 100m
# Both ends say the same, and the slower one counts.
state_has '"a": ?"h1", ?"b": ?"s1", ?"capacity": ?1000000000(\.0)?, ?"ports": ?\{"a": ?"eth0", ?"b": ?"p0"\}'
state_has '"a": ?"h2", ?"b": ?"s1", ?"capacity": ?100000000(\.0)?, ?"ports": ?\{"a": ?"eth0", ?"b": ?"p1"\}'
state_has '"name": ?"s1", ?"kind": ?"switch", ?"aggregates": ?true, ?"memory": ?[1-9]'
state_has '"discovered": ?true, ?"contradictions": ?\[\]'
state_has '"name": ?"s1"[^}]*"connected": ?true'
before=$(topology)

# An agent and the manager that are killed come back to the same network.
ends KILL h2
state_has '"name": ?"h2"[^}]*"connected": ?false'
[ "$(topology)" = "$before" ] || fail "the topology has changed because an agent was killed"
agent h2 100m
state_has '"name": ?"h2"[^}]*"connected": ?true'
[ "$(topology)" = "$before" ] || fail "the topology has changed because an agent is back"
for name in manager s1 h2; do ends KILL "$name"; done
manager
state_has '"a": ?"h2", ?"b": ?"s1"'
[ "$(topology)" = "$before" ] || fail "the manager has begun with another topology than it had"
switch --cells 512
agent h2 100m
state_has '"name": ?"h2"[^}]*"connected": ?true'
[ "$(topology)" = "$before" ] || fail "the topology has changed because all have come back"

# A host that comes, and a switch that offers other cells.
agent h3
state_has '"a": ?"h3", ?"b": ?"s1", ?"capacity": ?1000000000(\.0)?, ?"ports": ?\{"a": ?"eth0", ?"b": ?"p2"\}'
state && memory=$(grep -oE '"memory": ?[0-9]+' "$scratch/state.json" | head -n 1)
ends TERM s1
switch --cells 256
changed() { state && [ "$(grep -oE '"memory": ?[0-9]+' "$scratch/state.json" | head -n 1)" != "$memory" ]; }
comes changed || fail "the manager does not know the switch's new cells"

# A topology that people have written: what contradicts the agents is named, and it is used only if that is wanted.
ends TERM manager
cat >"$scratch/wrong.json" <<'END'
{"format": "banyan-topology 1", "nodes": ["h1", "h2", "h3", {"name": "s1", "kind": "switch", "aggregates": true}],
 "links": [{"a": "h1", "b": "s1", "capacity": "1g", "ports": {"a": "eth0", "b": "p1"}},
           {"a": "h2", "b": "s1", "capacity": "1g"}, {"a": "h3", "b": "s1", "capacity": "1g"}]}
END
manager "$scratch/wrong.json"
status=0
wait "${process[manager]}" || status=$?
unset "process[manager]"
[ "$status" -eq 1 ] || fail "the manager ended with $status, not 1, with a topology that agents contradict"
grep -q 'eth0 of h1 leads to p0 of s1, which is no link of the topology' "$scratch/manager" ||
  fail "the difference is not named"
manager "$scratch/wrong.json" --trust-topology
state_has '"discovered": ?false, ?"contradictions": ?\["eth0 of h1 leads to p0 of s1'
state_has '"name": ?"s1"[^}]*"connected": ?true'
for name in "${!process[@]}"; do ends TERM "$name"; done
for name in h1 h2 h3 s1 manager; do
  ! grep -E 'Assertion|Sanitizer|runtime error' "$scratch/$name" || fail "$name has ended badly"
done
