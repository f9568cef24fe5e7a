#!/bin/bash
# Tests processes that are killed at random moments, as test_recovery_soak.c does, in groups under a manager: four
# agents stand for hosts. The manager plans for each membership, and leaves none behind.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/cluster.sh"

hosts=(h0 h1 h2 h3)
cluster_keys "${hosts[@]}"
cluster_manager star:4,nic=10g
cluster_agents "${hosts[@]}"
export BANYAN_TEST_CLUSTER=$scratch/agents

"$BANYAN_BUILD/tests/net/test_job_recovery_soak" 2>&1 | tee "$scratch/soak.log" | grep --line-buffered ' kills, ' ||
  fail "$(grep -E 'seed|slot|process' "$scratch/soak.log" | tail -n 12)"
# Each membership is a job of its own, for which the manager plans; in the end all have left.
count '"%d memberships; planned %d times, %d plans, %d plan switches" % (len(s["jobs"]), *(s["counters"][c] for c in ("planned", "plans", "plan_switches")))'
[ "$(count 's["counters"]["plan_switches"]')" -gt 0 ] || fail "no plan of the manager was used: $(count 's["counters"]')"
[ "$(count 's["counters"]["refused"]')" = 0 ] || fail "the manager refused messages: $(cat "$scratch/manager.log")"
all_left() { [ "$(count 'sum(j["state"] != "left" for j in s["jobs"])')" = 0 ]; }
comes all_left || fail "jobs that nobody runs are left: $(count '[(j["id"], j["state"], j["why"]) for j in s["jobs"] if j["state"] != "left"]')"
