#!/bin/bash
# Measures a cluster's manager in parts, and prints a table for each. Needs root.
#
#   jobs      three training jobs under `banyan manager`, beside the same jobs with plain rings, in labs
#   faults    a link that becomes slow, and a helper, the manager and an agent that are killed under a job, in labs
#   host      two jobs on the same two hosts, scheduled together by the hosts' queues
#   priority  two streams through an agent's queues that change classes
#   manager   a manager, a thousand simulated agents and 200 jobs
#   innetwork what a manager makes of switches that aggregate, in labs
#   soak      jobs, while switches, agents, servers, helpers and the manager are killed at random; only on request
#
# Environment: PARTS (separated by commas), BANYAN (the command; default build/banyan; the other programs are beside
# it), FAULTS (link,kills: those of part faults; 2 minutes each), INNETWORK (own,racks,faults,wide,small,beside: those of
# part innetwork; 11 minutes), SWITCHES (of innetwork and soak: user or xdp), MODES (of jobs: rings shuffled manager), ROUNDS (of
# jobs: 1; each takes 6 minutes), SEED (of jobs: three that this seed selects, in place of the predefined ones; of
# soak: its kills), RULES (of jobs: options for the manager, such as "--threshold 60M"), SOAK (seconds of it: 600),
# SOAK_TOPOLOGY, STALL (seconds that a call of the soak may take: 3), KEEP=1 (leave the logs), OUT (default bench/out).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export BENCH_OUT=${OUT:-$here/out}
BANYAN=$(realpath -m "${BANYAN:-$here/../build/banyan}")
export BANYAN

[ "$(id -u)" = 0 ] || { echo "bench: labs need root's rights: use sudo" >&2; exit 1; }
mkdir -p "$BENCH_OUT"
for part in $(tr , ' ' <<<"${PARTS:-jobs,faults,innetwork,host,priority,manager}"); do
  case $part in
    jobs) python3 "$here/cluster.py" ;;
    faults) python3 "$here/cluster_faults.py" ;;
    innetwork) python3 "$here/cluster_innetwork.py" ;;
    host) /usr/bin/python3 "$here/cluster_host.py" ;; # This Python has Debian's NumPy.
    priority) "$(dirname "$BANYAN")/priority_bench" ;;
    soak) python3 "$here/cluster_soak.py" ;;
    manager) "$(dirname "$BANYAN")/cluster_bench" ;;
    *) echo "bench: no part \"$part\": see $0" >&2; exit 1 ;;
  esac
done
