#!/bin/bash
# Measures how much a host that forges fragments slows a job with in-network aggregation: the time within which 99 % of
# the calls complete, while each field of fragments is forged in turn, compared with the same number of packets with a
# wrong magic number; and how many sums are wrong in exact mode when it makes checks with the publicly known key. Prints
# tables. Needs root, and libbpf for XDP.
#
# Environment: BANYAN_BUILD (default build), FORGED packets of a start (10000), RATE per second (1000), STARTS of a job
# for each figure (5).
BANYAN_SOURCE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
BANYAN_BUILD=$(realpath "${BANYAN_BUILD:-$BANYAN_SOURCE/build}")
BANYAN=$BANYAN_BUILD/banyan
export BANYAN_SOURCE BANYAN_BUILD BANYAN
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/forged_lab.sh"
scratch=${scratch:?}

# measure OPTION of forge_fragments, OPTION... of banyan run: prints rank 0's line.
measure() {
  local how=$1
  shift
  begin_job "$@" >&2
  forge --fragments "${FORGED:-10000}" --rate "${RATE:-1000}" ${how:+"$how"} >&2
  end_job >&2 || true
  sed -n 's/^\[0\] //p' "$scratch/out"
}

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

compare() { # --user or --xdp
  start_switch "$1" || { echo "no $1: $(cat "$scratch/switch")"; return 0; }
  rm -f "$scratch/magic" "$scratch/fields"
  for ((start = 0; start < ${STARTS:-5}; start++)); do
    measure --magic | tee -a "$scratch/magic" >&2
    measure '' | tee -a "$scratch/fields" >&2
  done
  stop_switch
  local magic fields
  magic=$(sed 's/.*p99 \([0-9.]*\) ms/\1/' "$scratch/magic" | median)
  fields=$(sed 's/.*p99 \([0-9.]*\) ms/\1/' "$scratch/fields" | median)
  echo "| ${1#--} | $(grep -vc '^0 wrong' "$scratch/fields" || true) | $magic | $fields | $(awk "BEGIN { printf \"%.2f\", $fields / $magic }") |"
}

echo "| switch | starts with a wrong sum | p99 with a wrong magic number, ms | p99 with forged fields, ms | ratio |"
echo "| --- | ---: | ---: | ---: | ---: |"
compare --user
compare --xdp
start_switch --user
count=count
echo "exact mode, checks made with the open key: $(measure --open -x BANYAN_SUMS=float32)"
