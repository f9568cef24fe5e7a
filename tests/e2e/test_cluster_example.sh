#!/bin/bash
# The small cluster of the examples: two jobs with plans of a manager, shown; and nothing of it is left.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
export TMPDIR=$scratch
wants 0 "$BANYAN_SOURCE/examples/cluster/cluster.sh" 0
shows '4 of 4 hosts connected; 2 jobs run' out
for job in large small; do shows "^  $job +running +[0-3] +4 .* 1 +6.67G" out; done
shows 'A page shows the same: +http://127.0.0.1:[0-9]+/\?token=' out
[ -z "$(find "$scratch" -mindepth 1 ! -name out ! -name err)" ] || fail "something is left: $(ls "$scratch")"
! pgrep -f "$scratch" >/dev/null || fail "something runs on: $(pgrep -af "$scratch")"

# Ctrl-C
"$BANYAN_SOURCE/examples/cluster/cluster.sh" >"$scratch/out" 2>"$scratch/err" &
script=$!
comes has 'Ctrl-C ends all' out || fail "it does not come"
kill -TERM "$script"
wait "$script" || fail "it ended with $?"
! pgrep -f "$scratch" >/dev/null || fail "something runs on: $(pgrep -af "$scratch")"
