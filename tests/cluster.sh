# shellcheck shell=bash disable=SC2034
# Sourced after tests/shell.sh by the tests that start a cluster on this machine: keys, a manager and agents, all on 127.0.0.1.
# What they start ends with the test.
started=()
declare -A processes=() # of agents, by host
at_end() {
  kill "${started[@]}" 2>/dev/null || true
  wait
}
start() { # NAME COMMAND...: in the background; its output is added to its log, and its process is $last
  "${@:2}" >>"$scratch/$1.log" 2>&1 </dev/null &
  last=$!
  started+=("$last")
}

unset BANYAN_AGENT BANYAN_MANAGER BANYAN_HOST BANYAN_LAUNCHER BANYAN_CLASS
export BANYAN_KEYS=$scratch/keys

cluster_keys() { # HOST...: keys of a manager and of agents of these names
  local host
  "$BANYAN" keys init >"$scratch/keys.log"
  "$BANYAN" keys make manager m0 --address 127.0.0.1 >>"$scratch/keys.log"
  for host; do "$BANYAN" keys make agent "$host" >>"$scratch/keys.log"; done
}

# cluster_manager TOPOLOGY [OPTION...]: starts it, and again with its $address as LISTEN, which is 127.0.0.1:0 otherwise. Sets
# $address, $page and $manager, its process.
cluster_manager() {
  : >"$scratch/manager.log"
  start manager "$BANYAN" manager "$1" --listen "${address:-127.0.0.1:0}" --state "$scratch/state.db" --interval 0.2 \
    --http 127.0.0.1:0 --token-file "$scratch/token" "${@:2}"
  manager=$last
  comes grep -q 'page at' "$scratch/manager.log" || fail "the manager does not come: $(cat "$scratch/manager.log")"
  address=$(sed -n 's/.* ready at \([^,]*\),.*/\1/p' "$scratch/manager.log")
  page=$(sed -n 's/.* page at //p' "$scratch/manager.log")
}

# count EXPRESSION: its value in Python, where s is the manager's state.
count() { "$BANYAN" status --manager "$page" --token-file "$scratch/token" --json | /usr/bin/python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"; }

# cluster_agents HOST...: starts an agent for each, with its socket in $scratch/agents, and waits until all have connected.
cluster_agents() {
  local host
  mkdir -p "$scratch/agents"
  for host; do
    : >"$scratch/agent-$host.log"
    start "agent-$host" "$BANYAN" agent --name "$host" --manager "$address" --socket "$scratch/agents/$host" --queues none --interval 0.2
    processes[$host]=$last
  done
  for host; do comes grep -q 'the manager at .* is there' "$scratch/agent-$host.log" || fail "agent $host does not connect"; done
}
