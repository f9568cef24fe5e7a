#!/bin/bash
# Two hosts (namespaces) with two networks of 100 Mbit/s between them. The interfaces have different names on each host.
# A link of two connections uses both networks. Then one of the hosts vanishes.
. "$BANYAN_SOURCE/tests/shell.sh"

for tool in ip tc; do command -v "$tool" >/dev/null || skip "no $tool here"; done
one=banyan-1-$$ two=banyan-2-$$
needs_namespaces
ip netns add "$one"
at_end() { ip netns del "$one" 2>/dev/null; ip netns del "$two" 2>/dev/null; }
ip netns add "$two"

shape() { # NAMESPACE DEVICE ADDRESS
  ip -n "$1" addr add "$3/24" dev "$2"
  ip -n "$1" link set "$2" up
  tc -n "$1" qdisc add dev "$2" root tbf rate 100mbit burst 64k latency 50ms 2>"$scratch/err" ||
    skip "tc cannot shape here: $(cat "$scratch/err")"
}
for n in "$one" "$two"; do ip -n "$n" link set lo up; done
for i in 0 1; do
  ip link add "eth$i" netns "$one" type veth peer name "port$i" netns "$two"
  shape "$one" "eth$i" "10.77.$i.1"
  shape "$two" "port$i" "10.77.$i.2"
done

# sent I: prints the bytes that both ends of network I have sent. (Inside, /sys is mounted anew and shows the
# namespace's devices.)
sent() {
  local at_one at_two
  at_one=$(ip netns exec "$one" cat "/sys/class/net/eth$1/statistics/tx_bytes")
  at_two=$(ip netns exec "$two" cat "/sys/class/net/port$1/statistics/tx_bytes")
  echo $((at_one + at_two))
}

key=$("$BANYAN" keys job)

# run CONNECTIONS: sends 8 MiB several times between the two hosts. $a and $b are the bytes that each network carried.
run() {
  local at_0 at_1 other
  at_0=$(sent 0) at_1=$(sent 1)
  export BANYAN_SIZE=2 BANYAN_ROOT=10.77.0.1:29777 BANYAN_KEY=$key BANYAN_CONNECTIONS=$1 BANYAN_JOIN_DEADLINE=30
  BANYAN_RANK=1 BANYAN_HOST=two timeout 120 ip netns exec "$two" "$BANYAN" bench -s 8M --iterations 2 --warmup 0 \
    >"$scratch/other" 2>&1 &
  other=$!
  BANYAN_RANK=0 BANYAN_HOST=one wants 0 timeout 120 ip netns exec "$one" "$BANYAN" bench -s 8M --iterations 2 --warmup 0
  wait "$other" || fail "rank 1 has failed"
  a=$(($(sent 0) - at_0)) b=$(($(sent 1) - at_1))
  [ $((a + b)) -gt $((2 * 8 << 20)) ] || fail "only $a and $b bytes were carried"
  least=$((a < b ? a : b))
}

run 2 # where the networks are slower than the processor, each carries half
[ $((20 * least)) -ge $((a + b)) ] ||
  fail "two connections carried $a bytes over one network and $b over the other"
run 1
[ $((20 * least)) -lt $((a + b)) ] ||
  fail "one connection carried $a bytes over one network and $b over the other"

# A network that loses everything causes no wait: both connections use the other network.
ip -n "$one" route add blackhole 10.77.1.2/32
run 2
[ $((20 * b)) -lt $((a + b)) ] || fail "$b of $((a + b)) bytes went over a network that answers nothing"

# Rank 1's host vanishes in the middle of a call. Rank 0 reports this long before the call's deadline. (The test removes
# the host's address, which then answers nothing, like a host without power. An interface that goes down would be
# noticed.)
export BANYAN_CONNECTIONS=1 BANYAN_DEADLINE=100
start() { # RANK NAMESPACE HOST
  BANYAN_RANK=$1 BANYAN_HOST=$3 timeout 120 ip netns exec "$2" "$BANYAN" bench -s 64M --iterations 1000 --warmup 0 \
    >"$scratch/$3.out" 2>"$scratch/$3.err" &
}
at=$(sent 0)
start 0 "$one" one
first=$!
start 1 "$two" two
other=$!
are_at_it() { [ $(($(sent 0) - at)) -ge $((4 << 20)) ]; }
comes are_at_it || fail "the ranks do not begin"
ip -n "$two" addr del 10.77.0.2/24 dev port0
if wait "$first"; then fail "rank 0 went on without rank 1"; fi
wait "$other" || true
shows 'rank 1 \(host two\) is gone' one.err
