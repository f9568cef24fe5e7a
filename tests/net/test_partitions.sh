#!/bin/bash
# Divides the network of four hosts with one member each, who sum all the time: at most one side goes on, as a group of
# its own members, and each member of the other ends with a text that says why. All divisions are tried side by side.
. "$BANYAN_SOURCE/tests/shell.sh"
command -v ip >/dev/null || skip "no ip here (iproute2)"
needs_namespaces

sum=$BANYAN_BUILD/tests/net/sum_elastic
divisions=(one first half sends)
at_end() {
  local d h
  for d in "${divisions[@]}"; do
    for h in 0 1 2 3 hub; do
      ip netns pids "by-$$-$d-$h" 2>/dev/null | xargs -r kill -9 2>/dev/null
      ip netns del "by-$$-$d-$h" 2>/dev/null
    done
  done
  true
}
at() { # at DIVISION HOST IP-ARGUMENTS...
  local space=by-$$-$1-$2
  shift 2
  ip -n "$space" "$@"
}
make_hosts() { # DIVISION
  local h
  ip netns add "by-$$-$1-hub"
  for h in main other; do at "$1" hub link add "$h" type bridge && at "$1" hub link set "$h" up; done
  for h in 0 1 2 3; do
    ip netns add "by-$$-$1-$h"
    at "$1" hub link add "p$h" type veth peer name eth0 netns "by-$$-$1-$h"
    at "$1" hub link set "p$h" master main up
    at "$1" "$h" link set lo up
    at "$1" "$h" addr add "10.67.0.1$h/24" dev eth0
    at "$1" "$h" link set eth0 up
  done
}
begin() { # DIVISION
  local r key
  key=$("$BANYAN" keys job)
  mkdir "$scratch/$1"
  for r in 0 1 2 3; do
    env BANYAN_TEST_TOUCH="$scratch/$1" BANYAN_SILENCE=2 BANYAN_TOPOLOGY=off BANYAN_KEY="$key" BANYAN_HOST="h$r" \
      BANYAN_RANK="$r" BANYAN_SIZE=4 BANYAN_ROOT=10.67.0.10:18500 \
      ip netns exec "by-$$-$1-$r" "$sum" 20 0.02 15 >"$scratch/$1.$r" 2>"$scratch/$1.$r.err" </dev/null &
    process[$1$r]=$!
  done
}
move() { # DIVISION HOST...: these hosts see each other alone.
  local d=$1 h
  shift
  for h in "$@"; do at "$d" hub link set "p$h" master other; done
}
misdirect() { # DIVISION HOST: all that it sends is lost.
  local h
  for h in 0 1 2 3; do
    [ "$h" = "$2" ] || at "$1" "$2" neigh replace "10.67.0.1$h" lladdr 02:00:00:00:00:99 nud permanent dev eth0
  done
}
# goes_on DIVISION RANK...: these ranks form a group of their own; then all are told to end.
goes_on() {
  local d=$1 r n=0
  shift
  for r in "$@"; do
    comes has "^rank $n of $#\$" "$d.$r" || fail "$d: rank $r does not go on: $(tail -n 3 "$scratch/$d.$r.err")"
    n=$((n + 1))
  done
}
# ends DIVISION RANK PATTERN: it ends by itself, and says why.
ends() {
  local status=0
  wait "${process[$1$2]}" || status=$?
  [ "$status" -eq 1 ] || fail "$1: rank $2 ended with $status: $(tail -n 3 "$scratch/$1.$2.err")"
  cat "$scratch/$1.$2.err" >>"$scratch/$1.$2"
  ! has 'of [123]$' "$1.$2" || fail "$1: rank $2 went on, too: $(cat "$scratch/$1.$2")"
  shows "$3" "$1.$2"
  echo "$1: rank $2: $(grep -E "$3" "$scratch/$1.$2" | tail -n 1)"
}
finish() { # DIVISION RANK...: they end well once they may.
  local d=$1 r
  shift
  touch "$scratch/$d/go"
  for r in "$@"; do wait "${process[$d$r]}" || fail "$d: rank $r failed: $(tail -n 3 "$scratch/$d.$r.err")"; done
}

declare -A process
for d in "${divisions[@]}"; do make_hosts "$d"; done
for d in "${divisions[@]}"; do begin "$d"; done
for d in "${divisions[@]}"; do comes test -e "$scratch/$d/20" || fail "$d: the members do not begin"; done
move one 3
move first 0
move half 2 3
misdirect sends 3
goes_on one 0 1 2
goes_on first 1 2 3
goes_on half 0 1
goes_on sends 0 1 2
alone='do(es)? not answer and may be alive'
ends one 3 "$alone"
ends first 0 "$alone"
ends half 2 "$alone"
ends half 3 "$alone"
ends sends 3 "$alone|without rank 3, this process"
finish one 0 1 2
finish first 1 2 3
finish half 0 1
finish sends 0 1 2
