#!/bin/bash
# Tests processes that are killed at random moments, as test_recovery_soak.c does, in groups under a manager: four
# agents stand for hosts. The manager plans for each membership, and leaves none behind.
. "$BANYAN_SOURCE/tests/shell.sh"
started=()
at_end() {
  kill "${started[@]}" 2>/dev/null || true
  wait
}
start() { # NAME COMMAND...: in the background, with its log
  "${@:2}" >"$scratch/$1.log" 2>&1 </dev/null &
  started+=($!)
}

unset BANYAN_AGENT BANYAN_MANAGER BANYAN_HOST BANYAN_CLASS BANYAN_TOS
export BANYAN_KEYS=$scratch/keys
"$BANYAN" keys init >"$scratch/keys.log"
"$BANYAN" keys make manager m0 --address 127.0.0.1 >>"$scratch/keys.log"
for host in h0 h1 h2 h3; do "$BANYAN" keys make agent "$host" >>"$scratch/keys.log"; done
start manager "$BANYAN" manager star:4,nic=10g --listen 127.0.0.1:0 --state "$scratch/state.db" --interval 0.2 \
  --http 127.0.0.1:0 --token-file "$scratch/token"
comes grep -q 'page at' "$scratch/manager.log" || fail "the manager does not come: $(cat "$scratch/manager.log")"
address=$(sed -n 's/.* ready at \([^,]*\),.*/\1/p' "$scratch/manager.log")
page=$(sed -n 's/.* page at //p' "$scratch/manager.log")
state() { "$BANYAN" status --manager "$page" --token-file "$scratch/token" --json; }

count() { state | /usr/bin/python3 -c "import json, sys; s = json.load(sys.stdin); print($1)"; }

export BANYAN_TEST_CLUSTER=$scratch
for host in h0 h1 h2 h3; do
  start "$host" "$BANYAN" agent --name "$host" --manager "$address" --socket "$scratch/$host" --queues none
done
connected() { [ "$(count 'sum(h["connected"] for h in s["hosts"])')" = 4 ]; }
comes connected || fail "the agents do not connect"

"$BANYAN_BUILD/tests/net/test_job_recovery_soak" 2>&1 | tee "$scratch/soak.log" | grep --line-buffered ' kills, ' ||
  fail "$(grep -E 'seed|slot|process' "$scratch/soak.log" | tail -n 12)"
# Each membership is a job of its own, for which the manager plans; in the end all have left.
count '"%d memberships; planned %d times, %d plans, %d plan switches" % (len(s["jobs"]), *(s["counters"][c] for c in ("planned", "plans", "plan_switches")))'
[ "$(count 's["counters"]["plan_switches"]')" -gt 0 ] || fail "no plan of the manager was used: $(count 's["counters"]')"
[ "$(count 's["counters"]["refused"]')" = 0 ] || fail "the manager refused messages: $(cat "$scratch/manager.log")"
all_left() { [ "$(count 'sum(j["state"] != "left" for j in s["jobs"])')" = 0 ]; }
comes all_left || fail "jobs that nobody runs are left: $(count '[(j["id"], j["state"], j["why"]) for j in s["jobs"] if j["state"] != "left"]')"
