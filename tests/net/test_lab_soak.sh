#!/bin/bash
# Jobs in a lab's cluster go on, with right sums, while switches, agents, servers, helpers and the manager are killed at
# random and started again. When the jobs have ended, no switch's cells belong to anybody. bench/cluster_soak.py does the
# same for longer (`make bench-cluster PARTS=soak`), with a limit on the time of a call.
. "$BANYAN_SOURCE/tests/shell.sh"

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
"$BANYAN" lab clos:racks=2,hosts=1,nic=50m,adds=all --cluster -- true 2>"$scratch/err" || {
  grep -qE 'CONFIG_NET|rights|libmicrohttpd' "$scratch/err" && skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

seed=${BANYAN_TEST_SEED:-$RANDOM}
BENCH_OUT=$scratch STALL=100 SEED=$seed SOAK=$((15 * ${BANYAN_TEST_LONGER:-1})) SOAK_TOPOLOGY=clos:racks=2,hosts=2,nic=100m,adds=all \
  wants 0 python3 "$BANYAN_SOURCE/bench/cluster_soak.py"
shows '^\| killed: [a-z]+ \| [1-9]' out
shows '^\| ranks that ended, elements that were wrong \| [1-9][0-9]*, 0 \|' out
