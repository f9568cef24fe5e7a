#!/bin/bash
# Jobs whose trees go through a switch: five namespaces, the hosts a, b, c and the server's h around s1. The test runs
# with the switch in user space, and in XDP where this machine supports it. Sums are right and are made at the switch. A
# switch that is killed and started again takes part again. With the switch gone for good, or never started, the job
# goes on without it.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

needs_namespaces
unshare -n ip tuntap add dev t0 mode tun 2>/dev/null || skip "no TUN device may be made here"
BANYAN_SWITCH_KEY=$("$BANYAN" keys job)
export BANYAN_SWITCH_KEY
id=by$$
hosts=(a b c h)
switch=
passing=() # programs at the hosts

at_end() {
  for process in "${passing[@]}" $switch; do kill -KILL "$process" 2>/dev/null; done
  for name in s "${hosts[@]}"; do ip netns del "$id$name" 2>/dev/null; done
}

at() { ip netns exec "$id$1" "${@:2}"; }
ip netns add "${id}s"
at s sysctl -qw net.ipv4.ip_forward=1
at s ip link set lo up
for i in "${!hosts[@]}"; do
  name=${hosts[i]}
  ip netns add "$id$name"
  ip link add "p$i" netns "${id}s" type veth peer name "q$i" netns "$id$name"
  at s ip addr add "10.7.$i.1/24" dev "p$i"
  at s ip link set "p$i" up
  at "$name" ip link set lo up
  at "$name" ip addr add "10.7.$i.2/24" dev "q$i"
  at "$name" ip link set "q$i" up
  at "$name" ip route add default via "10.7.$i.1"
done
for i in "${!hosts[@]}"; do
  until at "${hosts[i]}" ip link show "q$i" | grep -q 'state UP'; do sleep 0.01; done
done

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
 "trees": [{"share": 0.7, "root": "h/0", "up": {"s1": "h/0", "0": "s1", "1": "s1", "2": "s1"},
            "ports": {"s1": {"h/0": "p3", "0": "p0", "1": "p1", "2": "p2"}}},
           {"share": 0.3, "root": "1", "up": {"0": "1", "2": "1"}}]}
PLAN
job() { # the options of a benchmark
  BANYAN_SWITCHES=s1=10.7.0.1:7613 at a "$BANYAN" run --ssh "$scratch/ssh" --remote "$BANYAN" -i 10.7.0.0/16 -H a:1,b:1,c:1 \
    --servers h:1 --plan "$scratch/plan.json" -x BANYAN_ENGINE=spin=0 -- "$BANYAN" bench allreduce --check all "$@"
}
# Hosts' ends need a program, or they drop what XDP redirects to them. One that merges packets (GRO) in place of that
# keeps the last ones for 100 ms and more.
let_pass() {
  local i
  for i in "${!hosts[@]}"; do
    ip netns exec "$id${hosts[i]}" "$BANYAN_BUILD/tests/net/let_pass" "q$i" >"$scratch/pass$i" 2>"$scratch/switch" &
    passing+=("$!")
    until has attached "pass$i"; do
      kill -0 "${passing[-1]}" 2>/dev/null || return 1
      sleep 0.05
    done
  done
}

start_switch() { # --user or --xdp
  ip netns exec "${id}s" "$BANYAN" switch "$1" p0,p1,p2,p3 --control 10.7.0.1 --control "$scratch/sock" 2>"$scratch/switch" &
  switch=$!
  until has ready switch; do
    kill -0 "$switch" 2>/dev/null || return 1
    sleep 0.05
  done
}
merged() { # prints how many sums the switch has made
  at s "$BANYAN" status "$scratch/sock" --json >"$scratch/status"
  python3 -c 'import json, sys; print(sum(j["events"].get("completed", 0) for j in map(json.loads, open(sys.argv[1])) if "events" in j))' \
    "$scratch/status"
}
has_merged() { [ "$(merged)" -gt "$1" ]; }
until_merged() { # waits until the switch has made more than this many additional sums
  local before
  before=$(merged)
  comes has_merged "$((before + $1))" || fail "the switch adds nothing"
}
stop_switch() { # ends the switch with this signal
  kill "-$1" "$switch"
  wait "$switch" || true
  switch=
}

# A switch that does not answer for seconds, as on a machine that stalls for so long, takes no part. Then the job is
# started again.
until_part() { # the options of a benchmark
  for _ in 1 2 3 4 5; do
    wants 0 job "$@"
    shows '^\[0\] +2097152 .* 0  .+$' out
    ! has 'no part|is lost|is not there' err || continue
    return 0
  done
  fail "the switch never has its part"
}

adds() {
  # A user on another machine who asks without the secret is shown how to supply it.
  wants 1 at a env -u BANYAN_SWITCH_KEY "$BANYAN" status 10.7.0.1
  shows '^banyan status: the switch at 10\.7\.0\.1:7613 .* needs its secret: give --secret-file FILE or set BANYAN_SWITCH_KEY' err
  wants 0 at a "$BANYAN" status 10.7.0.1
  until_part -s 8,64K,2M --iterations 5
  [ "$(merged)" -gt 100 ] || fail "the switch has added little"
  wants 0 job -s 100K -d i32 --iterations 5
  wants 0 job -s 100K -d bf16 --iterations 3
  wants 0 job -s 100K -d f64 --iterations 3 # which switches do not add
  shows 'allreduce\(f64, sum\) goes among ranks and not over the switches of plan .switched.' err
  two_jobs
}

# Jobs on the same hosts, whose ends take different UDP ports. The switch makes the sums of both.
two_jobs() {
  local before alone both
  before=$(merged)
  until_part -s 2M --iterations 20
  alone=$(($(merged) - before))
  for _ in 1 2 3; do
    before=$(merged)
    job -s 2M --iterations 20 >"$scratch/out2" 2>"$scratch/err2" &
    local other=$!
    wants 0 job -s 2M --iterations 20
    wait "$other" || fail "the other job has failed"
    shows '^\[0\] +2097152 .* 0  .+$' out
    shows '^\[0\] +2097152 .* 0  .+$' out2
    both=$(($(merged) - before))
    # One of them may not have its part, as above.
    [ $((2 * both)) -le $((3 * alone)) ] || return 0
  done
  fail "the switch has made $both sums of two jobs, and $alone of one"
}

killed() { # the switch is killed in the middle of calls and started again a moment later
  job -s 2M --iterations 100 >"$scratch/out" 2>"$scratch/err" &
  local job=$!
  until_merged 500
  stop_switch KILL
  start_switch --user || fail "$(cat "$scratch/switch")"
  wait "$job" || fail "the job has failed"
  shows '^\[0\] +2097152 .* 0  .+$' out
}

floats() { # the switch adds float32 in the order of ranks
  export BANYAN_SUMS=float32
  if [ "$1" = --user ]; then
    until_part -s 8,64K,2M --iterations 5
    [ "$(merged)" -gt "$2" ] || fail "the switch has added little"
  else
    wants 0 job -s 8,64K,2M --iterations 5
    shows '^\[0\] +2097152 .* 0  .+$' out
    shows 'XDP cannot' err
  fi
  unset BANYAN_SUMS
}

gone() { # the switch ends for good
  local calls=150 # enough calls to outlast the switch
  ! sanitized || calls=40
  job -s 2M --iterations "$calls" >"$scratch/out" 2>"$scratch/err" &
  local job=$!
  until_merged 500
  stop_switch KILL
  wait "$job" || fail "the job has failed"
  shows '^\[0\] +2097152 .* 0  .+$' out
  shows 'switch s1 is lost to tree' err
}

# The switch never starts.
wants 0 job -s 8,1M --iterations 3
shows '^\[0\] +1048576 .* 0  .+$' out
shows 'switch s1 has no part in tree' err

start_switch --user || fail "$(cat "$scratch/switch")"
adds
floats --user $(($(merged) + 100))
killed
gone
if let_pass && start_switch --xdp; then
  adds
  floats --xdp
else
  echo "without XDP: $(cat "$scratch/switch")"
fi
