#!/bin/bash
# Tests that processes of a job find each other through agents and a manager: the first ones form a group, later ones join it,
# also after the manager and the agents were started again, and after all members have ended others begin anew.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/cluster.sh"
mkdir "$scratch/steps"
cluster_keys h0 h1
cluster_manager star:2,nic=10g
cluster_agents h0 h1

process() { # NAME HOST [VARIABLE=VALUE...]: 2 such form the first group
  start "$1" env BANYAN_KEY_FILE="$scratch/${key:-one}" BANYAN_MEMBERS=agent BANYAN_SIZE=2 BANYAN_HOST="$2" BANYAN_AGENT="$scratch/agents/$2" \
    BANYAN_TEST_TOUCH="$scratch/steps" "${@:3}" "$BANYAN_BUILD/tests/net/sum_elastic" 1000000 0.01 50
}
in_group() { grep -qE "^rank [0-9]+ of $2\$" "$scratch/$1.log" 2>/dev/null; }

for key in one two; do "$BANYAN" keys job "$scratch/$key"; done
unset key

# --- mistakes
wants 1 env BANYAN_MEMBERS=agent BANYAN_SIZE=2 BANYAN_AGENT="$scratch/agents/h0" "$BANYAN_BUILD/tests/net/sum_elastic" 1
shows 'set BANYAN_KEY_FILE' err
wants 1 env BANYAN_MEMBERS=agent BANYAN_KEY_FILE="$scratch/one" BANYAN_AGENT="$scratch/agents/h0" "$BANYAN_BUILD/tests/net/sum_elastic" 1
shows 'needs BANYAN_SIZE' err
wants 1 env BANYAN_MEMBERS=agent BANYAN_KEY_FILE="$scratch/one" BANYAN_SIZE=2 BANYAN_AGENT=off "$BANYAN_BUILD/tests/net/sum_elastic" 1
shows 'BANYAN_AGENT is off' err
wants 1 env BANYAN_MEMBERS=agent BANYAN_KEY_FILE="$scratch/one" BANYAN_SIZE=2 BANYAN_AGENT="$scratch/agents/h0" "$BANYAN_BUILD/tests/net/sum_elastic" 1 0.01 0.5
shows 'did not come to the manager within .* s: 2 form the first group' err

# --- the first group, and one that comes later; a job with another key is another one
process a h0
process b h1
for name in a b; do comes in_group "$name" 2 || fail "$name is in no group of 2"; done
key=two process x h0
process c h1
c=$last
comes in_group c 3 || fail "c does not join"

# --- one that was killed is not asked; a manager that was started again knows the others from their agents
kill -KILL "$c"
kill -KILL "$manager"
wait "$manager" || true # its port is free then
cluster_manager star:2,nic=10g
process d h0
comes in_group d 3 || fail "d does not join: $(tail -n 3 "$scratch"/{a,b,d,manager}.log)"
! in_group x 2 || fail "a process of another job is in a group"

# --- nobody remembers the members when the manager and all agents are started again: they come again by themselves
kill -KILL "$manager" "${processes[@]}"
wait "$manager" "${processes[@]}" || true
cluster_manager star:2,nic=10g
cluster_agents h0 h1
process g h1
comes in_group g 4 || fail "g does not join: $(tail -n 3 "$scratch"/{a,b,d,g,manager}.log)"

# --- all are killed: the next ones begin anew
kill -KILL "${started[@]}" 2>/dev/null || true
wait
started=()
cluster_manager star:2,nic=10g
cluster_agents h0 h1
process e h1
process f h0
for name in e f; do comes in_group "$name" 2 || fail "$name is in no new group of 2"; done

# --- ranks of another user, which can read no key of an agent, belong to the cluster by their host's agent all the same
if [ "$(id -u)" = 0 ]; then
  mkdir -m 777 "$scratch/theirs"
  chmod 711 "$scratch" "$scratch/agents"
  as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  for key in "$BANYAN_KEYS"/*.pem; do ! "${as_nobody[@]}" test -r "$key" || fail "others may read $key"; done
  if "${as_nobody[@]}" test -x "$BANYAN"; then
    "${as_nobody[@]}" "$BANYAN" keys job "$scratch/theirs/key"
    for name in n o; do
      start $name "${as_nobody[@]}" env -u BANYAN_KEYS BANYAN_KEY_FILE="$scratch/theirs/key" BANYAN_MEMBERS=agent BANYAN_SIZE=2 BANYAN_HOST=h0 \
        BANYAN_AGENT="$scratch/agents/h0" BANYAN_TEST_TOUCH="$scratch/theirs" XDG_CACHE_HOME="$scratch/theirs" \
        "$BANYAN_BUILD/tests/net/sum_elastic" 1000000 0.01 50
    done
    for name in n o; do comes in_group $name 2 || fail "$name is in no group: $(tail -n 3 "$scratch/$name.log")"; done
  fi
fi
