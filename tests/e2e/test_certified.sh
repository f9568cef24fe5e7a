#!/bin/bash
# Tests that ranks show each other what the agents of their hosts state about them: when the certificate of a host is revoked,
# its processes are members no more, in a job and in a group that changes; and where the site requires statements, nobody
# joins without.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/cluster.sh"

tests=$BANYAN_BUILD/tests/net
cluster_keys a b c d
cluster_manager star:4,nic=10g
cluster_agents a b c d
"$BANYAN" keys job "$scratch/key"
"$BANYAN" keys job "$scratch/group.key"
mkdir "$scratch/steps"
export BANYAN_KEY_FILE=$scratch/key BANYAN_ENCRYPT=always BANYAN_LOG=net:info,member:info BANYAN_SIZE=2
: $((port = 20000 + $$ % 10000))

# rank HOST RANK: the environment of a rank of the job at this $port.
rank() { echo "BANYAN_HOST=$1 BANYAN_AGENT=$scratch/agents/$1 BANYAN_RANK=$2 BANYAN_ROOT=127.0.0.1:$port"; }
# member NAME HOST: a process that finds others through agents; 3 form the first group.
member() {
  start "$1" env BANYAN_KEY_FILE="$scratch/group.key" BANYAN_MEMBERS=agent BANYAN_SIZE=3 BANYAN_HOST="$2" \
    BANYAN_AGENT="$scratch/agents/$2" BANYAN_TEST_TOUCH="$scratch/steps" "$tests/sum_elastic" 1000000 0.01 60
  members+=("$last")
}
in_group() { grep -qE "^rank [0-9]+ of $2\$" "$scratch/$1.log"; }
ended_with() { wait "$1" && got=0 || got=$?; [ "$got" -eq "$2" ] || fail "process $1 ended with $got, not $2"; }

# --- a certificate is revoked
members=()
member m1 a
member m2 b
member m3 d
# shellcheck disable=SC2046
start r0 env $(rank a 0) "$tests/sum_calls" 1000 100 0.01
r0=$last
# shellcheck disable=SC2046
start r1 env $(rank c 1) "$tests/sum_calls" 1000 100 0.01
r1=$last
for name in m1 m2 m3; do comes in_group "$name" 3 || fail "$name does not join: $(tail -n 3 "$scratch/$name.log")"; done
comes grep -q '^call' "$scratch/r0.log" || fail "the job does not begin: $(tail -n 3 "$scratch/r0.log")"
wants 0 "$BANYAN" keys revoke agent c
wants 0 "$BANYAN" keys revoke agent d
ended_with "$r0" 1
ended_with "$r1" 1
for name in r0 r1; do has 'rank 1 \(host c\) is gone: .*certificate \(agent c\) was revoked, says ca.crl' "$name.log" || fail "$name names another reason"; done
for name in m1 m2; do comes in_group "$name" 2 || fail "$name does not go on: $(tail -n 3 "$scratch/$name.log")"; done
has 'certificate \(agent d\) was revoked' m1.log || has 'certificate \(agent d\) was revoked' m2.log || fail "nobody names the reason"
kill "${members[@]}"

# --- it cannot join again, unless without its agent
: $((port++))
# shellcheck disable=SC2046
start again env $(rank a 0) "$tests/sum_calls" 1000 0.1
# shellcheck disable=SC2046
wants 1 env $(rank c 1) "$tests/sum_calls" 1000 0.1
shows 'certificate \(agent c\) was revoked, says ca.crl' err
# shellcheck disable=SC2046
wants 0 env $(rank c 1) BANYAN_AGENT=off "$tests/sum_calls" 1000 0.1
ended_with "$last" 0

# --- the site requires it
if ! unshare -m true 2>/dev/null; then exit 0; fi
made=
[ -e /etc/banyan ] || { mkdir /etc/banyan && made=1; } # where the policy is mounted
policy() { unshare -m sh -c 'mount -t tmpfs none /etc/banyan && echo "join certified" >/etc/banyan/policy && exec "$@"' sh "$@"; }
# shellcheck disable=SC2046
wants 1 policy env $(rank a 0) BANYAN_AGENT=off "$tests/sum_calls" 1000 0.1
shows 'must be certified by this host.s agent' err
# shellcheck disable=SC2046
wants 1 policy env $(rank a 0) BANYAN_ENCRYPT=off "$tests/sum_calls" 1000 0.1
shows 'which /etc/banyan/policy of this host forbids' err
: $((port++))
# shellcheck disable=SC2046
start strict policy env $(rank a 0) "$tests/sum_calls" 1000 0.1
# shellcheck disable=SC2046
wants 1 env $(rank b 1) BANYAN_AGENT=off "$tests/sum_calls" 1000 0.1
shows 'on host b is not certified by its host.s agent' err
# shellcheck disable=SC2046
wants 0 policy env $(rank b 1) "$tests/sum_calls" 1000 0.1
ended_with "$last" 0
[ -z "$made" ] || rmdir /etc/banyan
