#!/bin/bash
# Hosts whose interfaces have a larger MTU than the path between them, which drops larger packets and says nothing: jobs
# name that, both hosts and what to do. Where a path is slow or loses packets of all sizes, or a rank is stopped, they do not.
# All jobs run side by side.
. "$BANYAN_SOURCE/tests/shell.sh"
command -v ip >/dev/null || skip "no ip here (iproute2)"
needs_namespaces

networks=(narrow tiny slow lossy well)
at_end() {
  local n h
  for n in "${networks[@]}"; do
    for h in a b hub; do
      ip netns pids "by-$$-$n-$h" 2>/dev/null | xargs -r kill -9 2>/dev/null
      ip netns del "by-$$-$n-$h" 2>/dev/null
    done
  done
  true
}
# make_network NAME MTU: of the link between two bridges, one for each of two hosts with 9000. Segments are cut by the
# hosts, before they get there.
make_network() {
  local h n=1 hub=by-$$-$1-hub
  ip netns add "$hub"
  ip -n "$hub" link add to-a type veth peer name to-b
  for h in a b; do
    ip netns add "by-$$-$1-$h"
    ip -n "$hub" link add "bridge-$h" type bridge
    ip -n "$hub" link set "bridge-$h" up
    ip -n "$hub" link set "to-$h" mtu "$2" master "bridge-$h" up
    ip -n "$hub" link add "port-$h" type veth peer name eth0 netns "by-$$-$1-$h"
    ip -n "$hub" link set "port-$h" mtu 9000 master "bridge-$h" up
    ip -n "by-$$-$1-$h" link set lo up
    ip netns exec "by-$$-$1-$h" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null || true
    ip -n "by-$$-$1-$h" addr add "10.68.0.$n/24" dev eth0
    ip -n "by-$$-$1-$h" link set eth0 mtu 9000 gso_max_segs 1
    ip -n "by-$$-$1-$h" link set eth0 up
    n=$((n + 1))
  done
}
declare -A process
port=18600 key=$("$BANYAN" keys job)
# begin JOB NETWORK SETTING... -- ARGUMENTS OF bench...
begin() {
  local job=$1 network=$2 r h at settings=()
  shift 2
  while [ "$1" != -- ]; do settings+=("$1") && shift; done
  shift
  port=$((port + 1))
  for r in 0 1; do
    h=a && [ "$r" = 0 ] || h=b
    at=(ip netns exec "by-$$-$network-$h") # which becomes the command
    "${at[@]}" env BANYAN_KEY="$key" BANYAN_RANK=$r BANYAN_SIZE=2 BANYAN_ROOT=10.68.0.1:$port BANYAN_HOST=$h \
      BANYAN_DEADLINE=8s BANYAN_JOIN_DEADLINE=9s BANYAN_TOPOLOGY=off "${settings[@]}" "$BANYAN" bench "$@" \
      >"$scratch/$job.$r" 2>&1 </dev/null &
    process[$job.$r]=$!
  done
}
finish() { # JOB
  local r
  for r in 0 1; do wait "${process[$1.$r]}" || true; done
  cat "$scratch/$1.0" "$scratch/$1.1" >"$scratch/$1"
}

make_network narrow 1500
make_network tiny 600
for n in slow lossy well; do make_network "$n" 9000; done
ip netns exec "by-$$-slow-a" tc qdisc add dev eth0 root tbf rate 2mbit burst 16k latency 2s 2>"$scratch/err" ||
  skip "no tc or tbf here: $(cat "$scratch/err")"
ip netns exec "by-$$-lossy-b" tc qdisc add dev eth0 root tbf rate 4mbit burst 10k limit 12k

# The connection of an ssh that does not get beyond its greeting.
cat >"$scratch/ssh" <<'END'
#!/usr/bin/env python3
import socket, time
connection = socket.create_connection(("10.68.0.2", 18599))
connection.sendall(b"greeting")
connection.recv(8)
connection.sendall(bytes(4000))
time.sleep(20)
END
cat >"$scratch/sshd" <<'END'
import socket, time
server = socket.create_server(("10.68.0.2", 18599))
connection, _ = server.accept()
connection.sendall(b"greeting")
time.sleep(20)
END
chmod +x "$scratch/ssh"
ip netns exec "by-$$-narrow-b" python3 "$scratch/sshd" &
comes eval 'ip netns exec "by-$$-narrow-b" bash -c "cat /proc/net/tcp" | grep -q :48A7' || fail "nobody listens"
ip netns exec "by-$$-narrow-a" "$BANYAN" run --ssh "$scratch/ssh" --start-timeout 10s -H b:1 -- true \
  >"$scratch/run" 2>&1 </dev/null &
run=$!

begin large narrow -- allreduce -s 8,1M --iterations 2
begin one-way narrow -- reduce -s 8,1M --iterations 2
begin measured narrow BANYAN_TOPOLOGY=auto -- allreduce -s 8 --iterations 2
begin encrypted tiny BANYAN_ENCRYPT=always -- allreduce -s 8 --iterations 2
begin slow slow -- allreduce -s 8,4M --iterations 2
begin lossy lossy -- allreduce -s 8,8M --iterations 2
begin stopped well -- allreduce -s 64M --iterations 100000
comes has '^# ' stopped.0 || fail "no job runs on the network without faults"
kill -STOP "${process[stopped.1]}"

pair='rank [01] \(host [ab]\) and rank [01] \(host [ab]\) lose large packets, though small ones pass: on the connection from '
pair+='10.68.0.[12]:[0-9]+ to 10.68.0.[12]:[0-9]+ \(MTU 9000\), packets with [0-9]+ bytes of data'
for job in large one-way measured; do
  finish "$job"
  shows "banyan bench.*$pair.*lower the MTU" "$job"
  shows "control: $pair.*calls wait for it" "$job" # before the deadline
done
wait "$run" && fail "a host answered that could not"
shows 'host b does not answer yet: packets with [0-9]+ bytes of data were sent .*lower the MTU' run
finish encrypted
shows 'packets with [0-9]+ bytes of data were sent [0-9]+ times without an answer \(MTU 9000\).*lower the MTU' encrypted
kill -CONT "${process[stopped.1]}"
for job in slow lossy stopped; do
  finish "$job"
  ! grep -E 'large packets|without an answer' "$scratch/$job" || fail "$job: large packets are not lost there alone"
done
