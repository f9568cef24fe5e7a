#!/bin/bash
# Tests helpers as a user starts them: a plan through helpers, local helpers and helpers through ssh, and the reports
# about missing ones.
. "$BANYAN_SOURCE/tests/shell.sh"

cat >"$scratch/ssh" <<'SSH'
#!/bin/sh
# This replaces ssh HOST COMMAND by a local command. The host "refused" cannot be reached.
host=$1
shift
[ "$host" = refused ] && { echo "ssh: connect to host refused: Connection refused" >&2; exit 255; }
exec env -i PATH="$PATH" sh -c "$*"
SSH
chmod +x "$scratch/ssh"

topology=star:3,nic=1g,helpers=2
"$BANYAN" plan "$topology" --helpers helper0,helper1 --json >"$scratch/helped.json"
job() { # OPTION...: the options of a run
  "$BANYAN" run --transport tcp --plan "$scratch/helped.json" "$@" -- \
    "$BANYAN" bench allreduce -s 8,1M --iterations 3 --check all
}

# Two helpers are started on this machine by number.
wants 0 job -n 3 --helpers 2
shows '^\[0\] +1048576 ' out
! grep -q 'is not there\|is lost' "$scratch/err" || fail "helpers that run were missed: $(cat "$scratch/err")"

# Helpers are started through ssh on the hosts that the plan names, and their output lines carry a name.
BANYAN_LOG=info wants 0 job --ssh "$scratch/ssh" -i 127.0.0.0/8 -H a:1,b:1,c:1 --helpers helper1,helper0
! grep -q 'is not there\|is lost' "$scratch/err" || fail "helpers that run were missed: $(cat "$scratch/err")"
shows '^\[helper [01]\] ' err

# With too few or no helpers, or unreachable hosts, ranks do the helpers' work.
export BANYAN_HELPERS=deadline=0.3
wants 0 job -n 3
shows 'helper "helper0" of plan .* is not there: its trees go among ranks alone' err
shows 'helper "helper1" of plan .* is not there: its trees go among ranks alone' err
export BANYAN_HELPERS=deadline=5 # The others come within this time.
wants 0 job -n 3 --helpers 1
[ "$(grep -c 'helper "helper[01]" of plan .* is not there' "$scratch/err")" -eq 1 ] || fail "not one is missed"
wants 0 job --ssh "$scratch/ssh" -i 127.0.0.0/8 -H a:1,b:1,c:1 --helpers helper0,refused
shows '^banyan run: host refused: could not be reached' err
shows 'helper "helper1" of plan .* is not there' err
unset BANYAN_HELPERS

# If a helper is killed during calls, the job ends well with the right sums.
: >"$scratch/out" # Otherwise old output may be taken for the job's output before the job has begun.
"$BANYAN" run -n 3 --helpers 2 --transport tcp --plan "$scratch/helped.json" -x BANYAN_ENGINE=spin=0 -- \
  "$BANYAN" bench allreduce -s 4M --iterations 400 --check all >"$scratch/out" 2>"$scratch/err" &
job=$!
comes has busbw out || fail "the job does not begin"
for host in $(pgrep -P "$(pgrep -d, -P "$job")"); do pgrep -P "$host" -f ' helper$' || true; done >"$scratch/helpers"
[ "$(wc -l <"$scratch/helpers")" -eq 2 ] || fail "not two helpers: $(cat "$scratch/helpers")"
kill -KILL "$(head -1 "$scratch/helpers")"
wait "$job" || fail "the job has failed"
shows 'helper [01] .* is lost .*goes among ranks from here on' err
shows '^\[0\] +4194304 .* 0  .+$' out

# The plan with helpers is made when the job starts, and one helper too many is started.
planned() { # HELPERS: their number
  BANYAN_LOG=info wants 0 "$BANYAN" run -n 3 --helpers "$1" --transport tcp --topology "$topology" -- \
    "$BANYAN" bench allreduce -s 8,1M --iterations 3 --check all
  shows '^\[0\] +1048576 .* 0  .+$' out
}
planned 2
shows 'planned from the topology in [0-9.]+ s: 917 Mbit/s of at most 917 Mbit/s' err
! grep -q 'is not there\|is lost\|goes without' "$scratch/err" || fail "helpers that run were missed: $(cat "$scratch/err")"
planned 3
shows 'helper 2 .*: the plan goes without it' err

# Impossible requests are reported.
wants 2 "$BANYAN" run -n 3 --helpers 0 -- true
shows 'helpers' err
wants 1 env BANYAN_JOIN_DEADLINE=0.3 "$BANYAN" helper --root 127.0.0.1:9
shows '^banyan helper: ' err
