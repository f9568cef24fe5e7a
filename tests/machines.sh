# shellcheck shell=bash
# Sourced behind tests/shell.sh: "machines" of their own network namespace, host name and /etc/hosts on this one. Their
# boot id is the same, and so may be their names.
# shellcheck disable=SC2154 # $scratch and $odd are of tests/shell.sh

for tool in ip nsenter unshare; do command -v $tool >/dev/null || skip "no $tool here (iproute2, util-linux)"; done
needs_namespaces
declare -A machine_pid
export BANYAN_TOPOLOGY=off # the tests are about starting, and would leave what they measure in the user's cache
at_end() {
  local m
  for m in "${!machine_pid[@]}"; do
    kill "${machine_pid[$m]}" 2>/dev/null
    ip netns del "banyan-$m-$$" 2>/dev/null
  done
  true
}

# machine M NAME: a new one, which calls itself NAME; its own name means loopback, as on many a machine. It knows the names
# in $scratch/hosts.M and asks the servers in $scratch/resolv.M, of which there are none yet.
machine() {
  local space=banyan-$1-$$
  ip netns add "$space"
  machine_pid[$1]=0
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$2" >"$scratch/hosts.$1"
  echo 'nameserver 127.0.0.1' >"$scratch/resolv.$1"
  ip -n "$space" link set lo up
  mkfifo "$scratch/up.$1"
  ip netns exec "$space" unshare --uts --mount sh -c "hostname '$2' && mount --bind '$scratch/hosts.$1' /etc/hosts &&
    mount --bind '$scratch/resolv.$1' /etc/resolv.conf &&
    echo up >'$scratch/up.$1' && exec sleep $odd" </dev/null 2>"$scratch/err" &
  machine_pid[$1]=$!
  [ "$(timeout 60 cat "$scratch/up.$1")" = up ] || skip "a machine's names may not be set here: $(cat "$scratch/err")"
}

# wire ONE DEVICE ADDRESS/BITS TWO DEVICE ADDRESS/BITS: a cable between two machines.
wire() {
  ip link add "$2" netns "banyan-$1-$$" type veth peer name "$5" netns "banyan-$4-$$"
  plug "$1" "$2" "$3"
  plug "$4" "$5" "$6"
}
plug() {
  case $3 in
  *:*) ip -n "banyan-$1-$$" addr add "$3" dev "$2" nodad ;;
  *) ip -n "banyan-$1-$$" addr add "$3" dev "$2" ;;
  esac
  ip -n "banyan-$1-$$" link set "$2" up
}

# on M COMMAND...: runs it there, in this folder.
on() {
  local pid=${machine_pid[$1]}
  shift
  nsenter -t "$pid" -m -n -u -- "$@"
}
