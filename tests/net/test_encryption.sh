#!/bin/bash
# Two "machines" that a cable connects, and one that watches it: a known payload is in packets of a job in plain text,
# and in none of a job as it is by default. Jobs whose processes disagree, or have different keys, do not start, and say why.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/machines.sh"
unset BANYAN_HOST
secret=$BANYAN_BUILD/tests/net/secret
key=$("$BANYAN" keys job)
machine a a
machine b b
wire a eth0 10.9.9.1/24 b eth0 10.9.9.2/24

# ranks SETTING-OF-0 SETTING-OF-1: starts a rank on each machine, with a variable each. $codes: their exit codes.
ranks() {
  local common="BANYAN_SIZE=2 BANYAN_ROOT=10.9.9.1:29500 BANYAN_KEY=$key BANYAN_JOIN_DEADLINE=6" pid
  # shellcheck disable=SC2086
  on a env $common BANYAN_RANK=0 "$1" timeout 60 "$secret" send >"$scratch/out.0" 2>"$scratch/err.0" &
  pid=$!
  codes=0
  # shellcheck disable=SC2086
  on b env $common BANYAN_RANK=1 "$2" timeout 60 "$secret" send >"$scratch/out.1" 2>"$scratch/err.1" || codes=$?
  wait "$pid" || codes=$?
}

# watched SETTING: runs a job while b's end is watched; $seen: what the watcher printed.
watched() {
  local watcher
  mkfifo "$scratch/stop"
  on b "$secret" watch eth0 <"$scratch/stop" >"$scratch/seen" 2>"$scratch/err" &
  watcher=$!
  exec 7>"$scratch/stop"
  comes grep -q ready "$scratch/seen" || skip "packets may not be watched here: $(cat "$scratch/err")"
  ranks "$1" "$1"
  exec 7>&-
  wait "$watcher"
  rm "$scratch/stop"
  seen=$(tail -n 1 "$scratch/seen")
  echo "$1: $seen"
  [ "$codes" = 0 ] || fail "the job ended with $codes: $(cat "$scratch/err.0" "$scratch/err.1")"
}

watched BANYAN_ENCRYPT=off
[[ $seen != *' 0 with the text' ]] || fail "the watcher does not see what is in plain text: $seen"
grep -q 'BANYAN_ENCRYPT=off: whoever' "$scratch/err.0" || fail "it is not reported: $(cat "$scratch/err.0")"
watched BANYAN_ENCRYPT=auto
[[ $seen == *' 0 with the text' && $seen != '0 packets'* ]] || fail "the payload can be read: $seen"

# differ SETTING-OF-0 SETTING-OF-1 TEXT-OF-0 TEXT-OF-1: the job ends, and both say why.
differ() {
  ranks "$1" "$2"
  [ "$codes" != 0 ] || fail "$1 and $2 make a job"
  grep -q "$3" "$scratch/err.0" || fail "rank 0 with $1 does not say \"$3\": $(cat "$scratch/err.0")"
  grep -q "$4" "$scratch/err.1" || fail "rank 1 with $2 does not say \"$4\": $(cat "$scratch/err.1")"
}
differ BANYAN_ENCRYPT=off BANYAN_ENCRYPT=auto 'the peer encrypts' 'does not encrypt'
differ BANYAN_ENCRYPT=auto BANYAN_ENCRYPT=off 'does not encrypt' 'accepts only encrypted'
differ "BANYAN_KEY=$key" "BANYAN_KEY=$("$BANYAN" keys job)" "another job's key" "another job's key"
