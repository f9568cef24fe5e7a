#!/bin/bash
# An agent's queues and its view of interfaces, in a separate network namespace. The agent sets queues, takes them over
# from an agent that was killed, and removes them. It reports when it lacks the privilege.
. "$BANYAN_SOURCE/tests/shell.sh"

if [ "${1:-}" != inside ]; then
  unshare -n true 2>/dev/null || skip "no network namespace without privileges"
  rm -rf "$scratch"
  exec unshare -n "$0" inside
fi

ip link add p type veth peer name q
ip link set lo up
ip link set p up
ip link set q up
ip addr add 10.9.0.1/24 dev p
socket=$scratch/agent.sock
agent=0
at_end() { [ "$agent" = 0 ] || kill -9 "$agent" 2>/dev/null; }

status() { "$BANYAN" agent status --json --socket "$socket" >"$scratch/out" 2>"$scratch/messages"; }
# start OPTION...: starts the agent and waits until its socket exists.
start() {
  "$@" "$BANYAN" agent --socket "$socket" --name h1 --interfaces p --interval 100ms "${options[@]}" 2>"$scratch/err" &
  agent=$!
  comes status || fail "the agent did not start"
}

# status_has TEXT: waits until the status shows TEXT.
shown() { status && grep -qF -- "$1" "$scratch/out"; }
status_has() { comes shown "$1" || fail "status does not show $1"; }

ends() {
  kill "-$1" "$agent"
  wait "$agent" 2>/dev/null || true
  agent=0
}

# has_queues N: waits until the agent has N classes.
queues() { tc class show dev p | grep -c 'htb ba11:' || true; }
are_queues() { [ "$(queues)" -eq "$1" ]; }
has_queues() { comes are_queues "$1" || fail "there are $(queues) classes, not $1"; }

options=(--queues p --rate 1g)
start env
status_has '"name":"p","address":"10.9.0.1","rate":1000000000'
status_has '"queues":true'
has_queues 6

wants 1 "$BANYAN" agent --socket "$socket" --queues p --rate 2g
shows 'one runs here already' err
has_queues 6

ends KILL
has_queues 6
start env # takes over the queues and the socket
status_has '"queues":true'
ip link set p down
status_has '"interfaces":[]'
ip link set p up
status_has '"name":"p"'
# Queues that another program removes are set again. Queues that another program replaces are not used for counting.
tc qdisc del dev p root
has_queues 6
tc qdisc replace dev p root tbf rate 40mbit burst 32k latency 10ms
status_has '"queues":false'
ends TERM
tc qdisc del dev p root
start env
status_has '"queues":true'
ip link set p down # the interface stays down when the agent ends
status_has '"interfaces":[]'
ends TERM
has_queues 0
ip link set p up
[ ! -e "$socket" ] || fail "the socket is left"

# A queue made by another program stays, and its rate is taken as the link's rate.
tc qdisc add dev p root tbf rate 50mbit burst 32k latency 10ms
start env
status_has '"rate":50000000'
comes has 'another program has made one there' err || fail "it does not report that it leaves others' queues alone"
tc qdisc replace dev p root tbf rate 20mbit burst 32k latency 10ms
status_has '"rate":20000000'
ends TERM
tc qdisc show dev p >"$scratch/out"
has tbf out || fail "it removed another program's queue"
tc qdisc del dev p root
tc qdisc add dev p root handle 1: htb default 3
tc class add dev p parent 1: classid 1:1 htb rate 30mbit
tc class add dev p parent 1:1 classid 1:3 htb rate 1mbit ceil 30mbit
start env
status_has '"rate":30000000'
ends TERM
tc qdisc del dev p root

# Without the privilege, the agent reports this and continues.
start setpriv --bounding-set -net_admin --inh-caps -net_admin --
status_has '"queues":false'
comes has CAP_NET_ADMIN err || fail "it does not report which privilege it lacks"
has_queues 0
ends TERM

options=(--queues none --rate 1g)
start env
status_has '"queues":false'
has_queues 0
ends TERM
