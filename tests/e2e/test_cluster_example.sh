#!/bin/bash
# Tests the example of a small cluster: two jobs with plans of a manager are shown, and nothing is left over.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
export TMPDIR=$scratch
# Ranks have the folder in their environment, not in their command.
running() { grep -lsz "^folder=$scratch/" /proc/[0-9]*/environ || true; }
nothing_runs() { [ -z "$(running)" ]; }
# The example runs from another directory, and with the command that lies beside it.
tree=$scratch/tree
mkdir -p "$tree/examples/cluster" "$tree/build"
cp "$BANYAN_SOURCE/examples/cluster/cluster.sh" "$tree/examples/cluster/"
ln -s "$BANYAN" "$tree/build/banyan"
wants 0 env -C / -u BANYAN "$tree/examples/cluster/cluster.sh" 0
rm -r "$tree"
shows '^The network is invented: .* its rate of 10 Gbit/s' out
shows '4 of 4 hosts connected; 2 jobs run' out
# Jobs carry less where this machine limits them, not the network: the manager takes the links for slow.
for job in large small; do shows "^  $job +running +[0-3] +4 .* [1-9][0-9]* +[0-9.]+[MG] " out; done
shows 'A page shows the same: +http://127.0.0.1:[0-9]+/\?token=' out
[ -z "$(find "$scratch" -mindepth 1 ! -name out ! -name err)" ] || fail "something is left: $(ls "$scratch")"
comes nothing_runs || fail "something runs on: $(running)"

# Ctrl-C ends the example.
at_end() {
  kill "$script" 2>/dev/null || true
  wait
}
: >"$scratch/out" # Otherwise the old output is taken for this one's.
"$BANYAN_SOURCE/examples/cluster/cluster.sh" >"$scratch/out" 2>"$scratch/err" &
script=$!
comes has 'Ctrl-C ends all' out || fail "it does not come"
[ "$(running | wc -l)" -ge 15 ] || fail "of 5 services and 2 jobs of 4 ranks there run: $(running)"
kill -TERM "$script"
wait "$script" || fail "it ended with $?"
comes nothing_runs || fail "something runs on: $(running)"
