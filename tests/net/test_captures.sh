#!/bin/bash
# All packets of jobs pass a router that looks into them. In jobs as they are by default it finds neither the payload nor a
# job's key, nor plans, handles and names: among ranks over several trees, helpers, and a server, in groups whose
# processes change and give a newcomer their state, also where these find each other through agents, and between ranks,
# agents, a helper that an agent starts, and a manager. In plain text it finds the payload and handles of the same jobs, so
# the router does see what there is.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/attacked_lab.sh"
unset BANYAN_TOPOLOGY # jobs measure the network and plan for it, as they do by default
secret=$BANYAN_BUILD/tests/net/secret
payload='nobody else may read this payload. '
name=a-job-of-confidential-name
run=("$BANYAN" run --ssh "$scratch/ssh" --remote "$BANYAN" -i 10.8.0.0/16 -H "a:1,b:1,c:1")

# watched TEXT... : what passes r until seen, which leaves what was found in $scratch/seen.
watched() {
  rm -f "$scratch/stop"
  mkfifo "$scratch/stop"
  on r "$secret" watch all "$@" <"$scratch/stop" >"$scratch/seen" 2>"$scratch/err" &
  watcher=$!
  exec 7>"$scratch/stop"
  comes grep -q ready "$scratch/seen" || skip "packets may not be watched here: $(cat "$scratch/err")"
}
seen() { # WHAT
  exec 7>&-
  wait "$watcher"
  echo "$SECONDS s, $1: $(tail -n +2 "$scratch/seen" | tr '\n' ';')"
}
nothing_in() { # WHAT
  seen "$1"
  [[ $(tail -n 1 "$scratch/seen") == *' 0 with the text' ]] || fail "$1: $(cat "$scratch/seen")"
  [[ $(tail -n 1 "$scratch/seen") =~ ^([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 100 ] || fail "$1: packets are not seen"
}

job() { # COMMAND...: from host a
  on a timeout 100 "$@" >"$scratch/out" 2>"$scratch/job" </dev/null 7>&- || fail "the job ended with $?: $(cat "$scratch/job")"
  ! has '^(\[.*\] )?[1-9][0-9]* wrong' out || fail "results are wrong"
}
elastic() { # OPTION...
  rm -f "$scratch/mark"
  job "${run[@]}" --min 2 --restarts 5 "$@" -- "$secret" member 8 "$scratch/mark"
  shows 'received [0-9]+ bytes of state' out
}
cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "watched", "ranks": 3, "vertices": {"h": {"kind": "helper"}},
 "trees": [{"share": 0.5, "root": "0", "up": {"1": "0", "2": "1"}},
           {"share": 0.5, "root": "h", "up": {"0": "h", "1": "h", "2": "h"}}]}
PLAN

# In plain text.
watched "$payload" banyan2:
elastic -x BANYAN_ENCRYPT=off
seen 'a group in plain text'
shows "$payload" seen
shows banyan2: seen

# As jobs are. The key is known when the job has begun, so the packets are searched for what begins all keys. What a
# manager and agents say is JSON.
texts=("$payload" banyan_key_ helper: banyan2: banyan-plan banyan-topology '"type":' "$name")
watched "${texts[@]}"
job "${run[@]}" --helpers h:1 --plan "$scratch/plan.json" -x "BANYAN_JOB=$name" -- "$secret" send
nothing_in 'ranks and a helper'
watched "${texts[@]}"
job "${run[@]}" -x "BANYAN_JOB=$name" -- "$secret" send 3
nothing_in 'a job that measures its network'
watched "${texts[@]}"
elastic -x "BANYAN_JOB=$name"
nothing_in 'a group, with a newcomer'

# With a manager, which plans for the job.
make_keys
watched "${texts[@]}"
start_cluster
# shellcheck disable=SC2016 # of the hosts' shells
job "${run[@]}" -x "BANYAN_JOB=$name" -x BANYAN_LOG=info -x scratch="$scratch" -- \
  sh -c 'BANYAN_AGENT=$scratch/$(hostname).sock exec "$0" "$@"' "$secret" send 20
nothing_in 'manager and agents'
shows "$name" state.db-wal || shows "$name" state.db
grep -aq banyan-plan "$scratch"/state.db* || fail "the manager has made no plan"
shows 'helper 0 \(host h\) has joined' job

# A group whose processes find each other through the agents of their hosts.
"$BANYAN" keys job "$scratch/group.key"
watched "${texts[@]}"
rm -f "$scratch/mark" # members have the text from the start
members=()
for host in a b c; do
  start "member.$host" $host env BANYAN_KEY_FILE="$scratch/group.key" BANYAN_MEMBERS=agent BANYAN_SIZE=3 BANYAN_HOST=$host \
    BANYAN_AGENT="$scratch/$host.sock" BANYAN_IFACE=10.8.0.0/16 "BANYAN_JOB=$name" "$secret" member 8 "$scratch/mark"
  members+=("$!")
done
for member in "${members[@]}"; do wait "$member" || fail "a member failed: $(cat "$scratch"/member.*)"; done
nothing_in 'a group that agents introduce'

# Switches have to read sums, but a key of theirs, or of the job, is in no packet either.
start_switch
cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "watched", "ranks": 3, "vertices": {"h/0": {"kind": "server"}, "r": {"kind": "switch"}},
 "trees": [{"share": 0.5, "root": "0", "up": {"1": "0", "2": "1"}},
           {"share": 0.5, "root": "h/0", "up": {"r": "h/0", "0": "r", "1": "r", "2": "r"},
            "ports": {"r": {"h/0": "ph", "0": "pf", "1": "pb", "2": "pc"}}}]}
PLAN
watched banyan_key_ helper: "${BANYAN_SWITCH_KEY:11:64}"
BANYAN_SWITCHES=r=10.8.0.1:7613 job "${run[@]}" --servers h:1 --plan "$scratch/plan.json" -- "$BANYAN_BUILD/tests/net/sum_until" \
  "$scratch/done" "$scratch/sums" 1
nothing_in 'a server and a switch'
on r "$BANYAN" status "$scratch/switch.sock" --json >"$scratch/status"
shows '"completed": *[1-9]' status
