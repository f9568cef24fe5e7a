#!/bin/bash
# Each kind of peer sends as much as it can: a rank to rank 0 and to others, a helper, a process of another user to an
# agent, an agent to the manager, a client to a switch, and a host without a key to all of them. No process's memory and no
# log grow any more after a third of the time. Whoever sends what nobody may send ends the job by its name, and a helper
# costs the job that helper.
# BANYAN_FLOOD_SECONDS=N floods for N s each; with less than 30, memory may grow by what a connection may hold at most.
# BANYAN_FLOODS="NAME..." chooses floods; "all": of those below.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/attacked_lab.sh"
seconds=${BANYAN_FLOOD_SECONDS:-2}
floods=${BANYAN_FLOODS:-rank-control rank-unmade helper-unmade}
[ "$floods" != all ] || floods="rank-control rank-garbage rank-names rank-unmade helper-control helper-unmade user-agent
  agent-manager client-switch stranger-job stranger-cluster"
flood=$BANYAN_BUILD/tests/net/flood
chmod 711 "$scratch"
make_keys
"$BANYAN" keys make agent attacker >>"$scratch/keys.log"
start_cluster
start_switch
cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "flooded", "ranks": 3, "vertices": {"h": {"kind": "helper"}},
 "trees": [{"share": 1, "root": "h", "up": {"0": "h", "1": "h", "2": "h"}}]}
PLAN
for ((i = 0; i < 200; i++)); do
  echo "  {\"do\": \"grant\", \"holder\": \"h$((i / 20))\", \"job\": $((i % 90 + 1)), \"key\": $i, \"place\": 0, \"slots\": $((i * 8 + 1)), \"up\": \"ph\", \"server\": \"10.8.4.2:7612\", \"below\": [{\"interface\": \"pf\", \"switch\": false, \"workers\": [\"10.8.1.2:7612\"]}, {\"interface\": \"pb\", \"switch\": false, \"workers\": [\"10.8.2.2:7612\"]}]}"
  echo "  {\"do\": \"revoke\", \"holder\": \"h$((i / 20))\", \"job\": $((i % 90 + 1))}"
  echo '  {"do": "status"}'
done >"$scratch/requests"

# Whether a rank that floods with this kind of message has to end the job.
ends_job() { # KIND
  [ "$1" = unmade ] || [ "$1" = names ]
}
start_job() { # KIND: in which the last rank, on host c, floods
  local on_a="$BANYAN run --ssh $scratch/ssh --remote $BANYAN -i 10.8.0.0/16 -H a:1,b:1,c:1 --helpers h:1 --plan $scratch/plan.json -x BANYAN_ENGINE=spin=0"
  local limit=$((seconds + 2))
  if ends_job "$1" && [ $limit -lt 60 ]; then limit=60; fi # on a slow machine the flood takes long to reach the limit
  # shellcheck disable=SC2086,SC2016 # its words; of the hosts' shells
  on a $on_a -x scratch="$scratch" -- sh -c 'BANYAN_AGENT=$scratch/$(hostname).sock exec "$0" "$@"' \
    "$flood" rank "$1" $limit >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
  comes has 'flood begins' err || fail "the job does not begin: $(cat "$scratch/err")"
}
rank_0() { # the process
  local pid
  for pid in $(ip netns pids "banyan-a-$$"); do
    [ "$(cat "/proc/$pid/comm")" = flood ] && echo "$pid" && return
  done
}
environment() { tr '\0' '\n' <"/proc/$(rank_0)/environ" | sed -n "s/^$1=//p"; }
attacks() { # ADDRESS:PORT...
  start flooder x "$BANYAN_BUILD/tests/net/attack" --key "$scratch/job.key" --ranks 3 --count $((seconds * 400)) --rate 400 "$@"
}

# Starts what floods, as $scratch/flooder, whose process is $flooder, beside a job where it does not do so itself.
start_flood() {
  local who=${1%-*} what=${1#*-} ports=()
  if [ "$who" = rank ]; then
    start_job "$what"
    flooder=$(ip netns pids "banyan-c-$$" | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != flood ] || echo "$pid"; done)
    return
  fi
  start_job none
  job_key >"$scratch/job.key"
  chmod 600 "$scratch/job.key"
  case $1 in
  helper-*) start flooder x env BANYAN_ROOT="$(environment BANYAN_ROOT)" BANYAN_KEY_FILE="$scratch/job.key" "$flood" helper "$what" "$seconds" ;;
  user-agent) start flooder a setpriv --reuid 65534 --regid 65534 --clear-groups "$flood" lines "$scratch/a.sock" "$seconds" "$BANYAN_SOURCE/tests/golden/lines.txt" ;;
  agent-manager) start flooder x "$flood" lines "${address[m]}:7650=$BANYAN_KEYS/agent-attacker.pem" "$seconds" "$BANYAN_SOURCE/tests/golden/lines.txt" ;;
  client-switch) start flooder r "$flood" lines "$scratch/switch.sock" "$seconds" "$scratch/requests" ;;
  stranger-job) for host in a b c h; do mapfile -t -O "${#ports[@]}" ports < <(ports_of $host); done && attacks "${ports[@]}" ;;
  stranger-cluster) attacks "${address[m]}:7650" 10.8.0.1:7613 ;;
  *) fail "there is no flood $1" ;;
  esac
  flooder=$!
}

# By how many KiB that process has grown most, and which.
grown() { # FROM TO
  awk -v not="$flooder" 'NR == FNR { before[$3] = $4; next } $3 != not && $3 in before && $4 - before[$3] > most { most = $4 - before[$3]; name = $2 " on " $1 }
    END { printf "%d %s\n", most, name }' "$scratch/$1" "$scratch/$2"
}

printf '%-18s %28s %28s %12s %s\n' flood "KiB more at $((seconds / 3)) s" "and later" "lines" "and later"
for name in $floods; do
  : >"$scratch/err"
  : >"$scratch/flooder"
  read -r lines_begun _ < <(log_lines)
  start_flood "$name"
  memory >"$scratch/begun"
  sleep $((seconds / 3)).5
  memory >"$scratch/early"
  read -r lines_early _ < <(log_lines)
  sleep $((seconds - seconds / 3 - 1))
  memory >"$scratch/late"
  read -r lines_late _ < <(log_lines)
  code=0
  wait "$job" || code=$?
  [ "${name%-*}" = rank ] || wait "$flooder" || true
  read -r first where < <(grown begun early)
  read -r later there < <(grown early late)
  printf '%-18s %28s %28s %12s %s\n' "$name" "$first $where" "$later $there" $((lines_early - lines_begun)) $((lines_late - lines_early))
  grep -E 'messages|attacks,' "$scratch/flooder" || grep 'messages' "$scratch/out" || true
  if [ "${name%-*}" = rank ] && ends_job "${name#*-}"; then
    [ "$code" -ne 0 ] || fail "the job goes on whatever a rank sends"
    grep -m 1 'ended after' "$scratch/err"
    has 'rank 2' err || fail "no error names the rank: $(cat "$scratch/err")"
  else
    [ "$code" -eq 0 ] || fail "the job has ended: $(tail -n 12 "$scratch/err")"
  fi
  [ "$name" != helper-unmade ] || has 'helper 1 .* is lost .*helpers neither send nor take' err || fail "the helper is not lost: $(cat "$scratch/err")"
  [ $((lines_late - lines_begun)) -lt 200 ] || fail "$((lines_late - lines_begun)) lines"
  limit=$((seconds < 30 ? 64 << 10 : 2 << 10))
  sanitized || [ "$later" -lt $limit ] || fail "$there has grown by $later KiB more"
  [ "$seconds" -lt 30 ] || [ $((lines_late - lines_early)) -lt 100 ] || fail "$((lines_late - lines_early)) lines more"
done
