# shellcheck shell=bash
# Functions that test_forged_fragments.sh and bench/forged.sh source after tests/shell.sh. They run a job of three
# workers a, b and c and the server h around a switch s1. The host x has no part in the job and shares the port of a.
# Each host is a network namespace.
scratch=${scratch:?}

needs_namespaces
unshare -n ip tuntap add dev t0 mode tun 2>/dev/null || skip "no TUN device may be made here"
BANYAN_SWITCH_KEY=$("$BANYAN" keys job)
export BANYAN_SWITCH_KEY
id=bf$$
hosts=(a b c h)
others=() # the namespaces at the other ends of the ports
passing=()
switch=

at_end() {
  for program in "${passing[@]}"; do kill "$program" 2>/dev/null; done
  [ -z "$switch" ] || kill -KILL "$switch" 2>/dev/null
  for name in s w x "${hosts[@]}"; do ip netns del "$id$name" 2>/dev/null; done
}

at() { ip netns exec "$id$1" "${@:2}"; }

host() { # NAME INTERFACE ADDRESS ROUTER: configures an existing interface
  at "$1" ip link set lo up
  at "$1" ip addr add "$3/24" dev "$2"
  at "$1" ip link set "$2" up
  at "$1" ip route add default via "$4"
}

ip netns add "${id}s"
at s sysctl -qw net.ipv4.ip_forward=1
at s ip link set lo up
for name in w x "${hosts[@]}"; do ip netns add "$id$name"; done
at w ip link add name br0 type bridge
for i in "${!hosts[@]}"; do
  name=${hosts[i]}
  other=$name
  [ "$i" != 0 ] || other=w
  ip link add "p$i" netns "${id}s" type veth peer name "q$i" netns "$id$other"
  at s ip addr add "10.7.$i.1/24" dev "p$i"
  at s ip link set "p$i" up
  others+=("$other")
  [ "$i" = 0 ] || host "$name" "q$i" "10.7.$i.2" "10.7.$i.1"
done
for name in a x; do
  ip link add "w$name" netns "${id}w" type veth peer name eth netns "$id$name"
  at w ip link set "w$name" master br0
  at w ip link set "w$name" up
done
at w ip link set q0 master br0
at w ip link set q0 up
at w ip link set br0 up
host a eth 10.7.0.2 10.7.0.1
host x eth 10.7.0.9 10.7.0.1
is_up() { at "$1" ip link show "$2" | grep -q 'state UP'; }
for name in a x; do comes is_up "$name" eth || fail "$name is not connected"; done
for i in 1 2 3; do comes is_up "${hosts[i]}" "q$i" || fail "${hosts[i]} is not connected"; done
comes is_up w br0 || fail "the bridge is not connected"

cat >"$scratch/ssh" <<SSH
#!/bin/sh
# Runs "ssh HOST COMMAND" in the host's namespace.
host=\$1
shift
exec ip netns exec $id\$host env -i PATH="$PATH" sh -c "\$*"
SSH
chmod +x "$scratch/ssh"
cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "switched", "ranks": 3,
 "vertices": {"h/0": {"kind": "server"}, "s1": {"kind": "switch"}},
 "trees": [{"share": 1, "root": "h/0", "up": {"s1": "h/0", "0": "s1", "1": "s1", "2": "s1"},
            "ports": {"s1": {"h/0": "p3", "0": "p0", "1": "p1", "2": "p2"}}}]}
PLAN

# The other ends of XDP ports need a program. Without one they drop what XDP redirects to them.
let_pass() {
  local i
  [ "${#passing[@]}" = 0 ] || return 0
  for i in "${!others[@]}"; do
    ip netns exec "$id${others[i]}" "$BANYAN_BUILD/tests/net/let_pass" "q$i" >"$scratch/pass$i" 2>"$scratch/switch" &
    passing+=("$!")
    until has attached "pass$i"; do
      kill -0 "${passing[-1]}" 2>/dev/null || return 1
      sleep 0.05
    done
  done
}

start_switch() { # --user or --xdp
  [ "$1" != --xdp ] || let_pass || return 1
  ip netns exec "${id}s" "$BANYAN" switch "$1" p0,p1,p2,p3 --control 10.7.0.1 --control "$scratch/sock" 2>"$scratch/switch" &
  switch=$!
  until has ready switch; do
    kill -0 "$switch" 2>/dev/null || return 1
    sleep 0.05
  done
}
stop_switch() {
  kill -TERM "$switch"
  wait "$switch" || true
  switch=
}
event() { # NAME: prints how many fragments this event has happened to
  at s "$BANYAN" status "$scratch/sock" --json >"$scratch/status"
  python3 -c 'import json, sys; print(sum(j["events"].get(sys.argv[2], 0) for j in map(json.loads, open(sys.argv[1])) if "events" in j))' \
    "$scratch/status" "$1"
}

start_job() { # [OPTION...] of banyan run: computes sums until end_job
  rm -f "$scratch/done" "$scratch/sums"
  BANYAN_SWITCHES=s1=10.7.0.1:7613 at a "$BANYAN" run --ssh "$scratch/ssh" --remote "$BANYAN" -i 10.7.0.0/16 -H a:1,b:1,c:1 \
    --servers h:1 --plan "$scratch/plan.json" -x BANYAN_ENGINE=spin=0 "$@" -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" \
    "$scratch/sums" 500 ${count:+"$count"} >"$scratch/out" 2>"$scratch/err" &
  job=$!
}
# A switch that does not answer for seconds, as on a machine that stalls for so long, takes no part. Then the job is
# started again.
begin_job() { # [OPTION...] of banyan run
  for _ in 1 2 3 4 5; do
    start_job "$@"
    comes test -e "$scratch/sums" || fail "the job makes no sums"
    sleep 0.5
    has 'no part|is lost|is not there' err || return 0
    end_job || fail "the job has failed"
  done
  fail "the switch never has its part"
}
end_job() { # returns the job's exit code
  touch "$scratch/done"
  wait "$job"
}
forge() { # [OPTION...] of forge_fragments
  at x "$BANYAN_BUILD/tests/net/forge_fragments" "$@" "${id}a" eth 10.7.3.2 10.7.0.2 10.7.1.2 10.7.2.2
}
