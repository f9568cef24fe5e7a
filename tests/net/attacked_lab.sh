# shellcheck shell=bash
# Functions that the tests about attackers source after tests/shell.sh: "machines" around a router r. Between r and host a
# stands f, where somebody could read and alter all that a sends and receives. Hosts b, c and h are at r, as are m, where
# a manager may run, and x, which has no part in any job.
# shellcheck disable=SC2154 # $scratch is of tests/shell.sh
. "$BANYAN_SOURCE/tests/machines.sh"
unset BANYAN_HOST BANYAN_AGENT BANYAN_MANAGER BANYAN_CLASS
for name in a b c h m x r f; do machine $name $name; done
at_end() {
  local m
  disown -a # what is killed is not worth a line
  for m in "${!machine_pid[@]}"; do
    ip netns pids "banyan-$m-$$" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "banyan-$m-$$" 2>/dev/null
  done
  true
}
wire a eth0 10.8.1.2/24 f fa 10.8.1.1/24
wire f fr 10.8.0.2/24 r pf 10.8.0.1/24
subnet=2
for name in b c h m x; do
  wire $name eth0 10.8.$subnet.2/24 r p$name 10.8.$subnet.1/24
  on $name ip route add default via 10.8.$subnet.1
  subnet=$((subnet + 1))
done
on a ip route add default via 10.8.1.1
on f ip route add default via 10.8.0.1
on r ip route add 10.8.1.0/24 via 10.8.0.2
for name in r f; do on $name sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.{all,default}.rp_filter=0; done
declare -A address=([a]=10.8.1.2 [b]=10.8.2.2 [c]=10.8.3.2 [h]=10.8.4.2 [m]=10.8.5.2 [x]=10.8.6.2)
for name in "${!address[@]}"; do
  for other in "${!address[@]}"; do [ "$name" = "$other" ] || echo "${address[$other]} $other"; done >>"$scratch/hosts.$name"
done

{
  echo '#!/bin/bash'
  echo '# Runs "ssh HOST COMMAND" on that machine.'
  declare -p machine_pid
  cat <<'END'
host=$1
shift
exec nsenter -t "${machine_pid[$host]}" -m -n -u -- env -i PATH="$PATH" sh -c "$*"
END
} >"$scratch/ssh"
chmod +x "$scratch/ssh"

# start NAME HOST COMMAND...: in the background on that machine, with its output in $scratch/NAME. $!: its process.
start() {
  nsenter -t "${machine_pid[$2]}" -m -n -u -- "${@:3}" >"$scratch/$1" 2>&1 </dev/null 7>&- 8>&- &
}

# at_router OPTION...: alter_packets on f, until router_ends. Its report is then in $scratch/altered.
at_router() {
  rm -f "$scratch/stop"
  mkfifo "$scratch/stop"
  on f "$BANYAN_BUILD/tests/net/alter_packets" "$@" <"$scratch/stop" >"$scratch/altered" 2>"$scratch/err" &
  router=$!
  exec 8>"$scratch/stop"
  comes grep -qs ready "$scratch/altered" || skip "packets cannot be altered here: $(cat "$scratch/err")"
}
router_ends() {
  exec 8>&-
  wait "$router"
}

# make_keys: of the manager and the agents.
make_keys() {
  local host
  export BANYAN_KEYS=$scratch/keys
  "$BANYAN" keys init >"$scratch/keys.log"
  "$BANYAN" keys make manager m --address "${address[m]}" >>"$scratch/keys.log"
  for host in a b c h; do "$BANYAN" keys make agent $host >>"$scratch/keys.log"; done
}

# start_cluster: a manager on m, and agents on a, b, c and h, which helps others, where ranks find them as BANYAN_AGENT=$scratch/HOST.sock.
start_cluster() {
  local host
  printf '%s' '{"format": "banyan-topology 1", "name": "attacked", "nodes": [' >"$scratch/net.json"
  printf '{"name": "%s"}, ' a b c >>"$scratch/net.json"
  printf '%s' '{"name": "h", "takes_part": false, "helps": true}, ' >>"$scratch/net.json"
  printf '%s' '{"name": "r", "kind": "switch"}], "links": [{"a": "r", "b": "a", "capacity": "1g"}' >>"$scratch/net.json"
  printf ', {"a": "r", "b": "%s", "capacity": "1g"}' b c h >>"$scratch/net.json"
  echo ']}' >>"$scratch/net.json"
  start manager m "$BANYAN" manager "$scratch/net.json" --listen "${address[m]}:7650" --state "$scratch/state.db" \
    --interval 0.5
  comes grep -qs 'ready at' "$scratch/manager" || fail "the manager does not come: $(cat "$scratch/manager")"
  for host in a b c h; do
    start "agent.$host" $host "$BANYAN" agent --name $host --manager "${address[m]}:7650" --socket "$scratch/$host.sock" \
      --queues none
    comes is_connected $host || fail "an agent does not connect: $(cat "$scratch/agent.$host")"
  done
}

is_connected() { "$BANYAN" agent status --socket "$scratch/$1.sock" --json 2>/dev/null | grep -q '"connected": *true'; }

# start_switch: one in user space on the router.
start_switch() {
  export BANYAN_SWITCH_KEY
  BANYAN_SWITCH_KEY=$("$BANYAN" keys job)
  start switch r "$BANYAN" switch --user pf,pb,pc,ph --control 10.8.0.1 --control "$scratch/switch.sock"
  comes grep -qs ready "$scratch/switch" || skip "no switch in user space here: $(cat "$scratch/switch")"
}

# ports_of HOST: prints the TCP ports where processes there listen for other hosts, as ADDRESS:PORT.
ports_of() {
  local at=${address[$1]:-10.8.0.1}
  on "$1" ss -Hltn | awk -v host="$at" '$4 !~ /^127\./ && $4 !~ /^\[::1\]/ { sub(/.*:/, "", $4); print host ":" $4 }' |
    sort -u
}

# job_key: prints the key that `banyan run` has made for its job, which root can read, from what a rank on host a was given.
job_key() {
  local pid path
  for pid in $(ip netns pids "banyan-a-$$"); do
    path=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^BANYAN_KEY_FILE=//p')
    [ -z "$path" ] || [ "$(cat "/proc/$pid/comm")" = banyan ] || { cat "$path" && return; }
  done
  fail "no rank has a key"
}

# memory: prints name, process and resident KiB of each process of the job and cluster.
memory() {
  local m pid
  for m in a b c h m r; do
    for pid in $(ip netns pids "banyan-$m-$$"); do
      awk -v m=$m -v pid="$pid" '$1 == "Name:" { name = $2 } $1 == "VmRSS:" && name ~ /^(banyan|sum_until|flood)/ { print m, name, pid, $2 }' \
        "/proc/$pid/status" 2>/dev/null || true
    done
  done
}
# log_lines: prints how many lines and bytes all logs together have.
log_lines() { cat "$scratch"/{err,manager,switch,agent.*} | wc -lc; }
