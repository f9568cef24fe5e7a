#!/bin/bash
# Servers of trees through switches as a person starts them: a tree that goes through a server beside one among ranks,
# servers here and through ssh, killed and missing ones. No switch is on the way.
. "$BANYAN_SOURCE/tests/shell.sh"

cat >"$scratch/ssh" <<'SSH'
#!/bin/sh
# ssh HOST COMMAND, but here.
shift
exec env -i PATH="$PATH" sh -c "$*"
SSH
chmod +x "$scratch/ssh"

star() { # server share
  echo "{\"share\": $2, \"root\": \"$1\", \"up\": {\"0\": \"$1\", \"1\": \"$1\", \"2\": \"$1\", \"3\": \"$1\"}}"
}
chain='"root": "0", "up": {"1": "0", "2": "1", "3": "2"}}'
cat >"$scratch/one.json" <<PLAN
{"format": "banyan-plan 1", "name": "one", "ranks": 4, "vertices": {"h/0": {"kind": "server"}},
 "trees": [$(star h/0 0.6), {"share": 0.4, $chain]}
PLAN
cat >"$scratch/two.json" <<PLAN
{"format": "banyan-plan 1", "name": "two", "ranks": 4,
 "vertices": {"h/0": {"kind": "server"}, "h/1": {"kind": "server"}},
 "trees": [$(star h/0 0.3), $(star h/1 0.3), {"share": 0.4, $chain]}
PLAN
sed 's|"share": 0.3, "root": "h/0"|"share": 0.45, "root": "h/0"|; s|"share": 0.3, "root": "h/1"|"share": 0.15, "root": "h/1"|' \
  "$scratch/two.json" >"$scratch/unequal.json"
job() { # plan, the options of a run
  "$BANYAN" run --plan "$scratch/$1.json" "${@:2}" -- "$BANYAN" bench allreduce -s 8,64K,1M --iterations 3 --check all
}
well() {
  shows '^\[0\] +1048576 .* 0  .+$' out
  ! grep -q 'is not there\|is lost' "$scratch/err" || fail "servers that run were missed: $(cat "$scratch/err")"
}

# Here, one and two of them, and on hosts of the plan's names.
BANYAN_LOG=info wants 0 job one -n 4 --servers 1
well
shows 'sums over 0 switches with server 0 ' err
wants 0 job two -n 4 --servers 2
well
wants 0 job two --transport tcp --ssh "$scratch/ssh" -i 127.0.0.0/8 -H a:1,b:1,c:1,d:1 --servers h:2
well

# Each server has its tree's share of the sums.
BANYAN_LOG=info wants 0 job unequal -n 4 --servers 2
well
read -r less more <<<"$(sed -n 's/.*server of tree [0-9]*: \([0-9]*\) results.*/\1/p' "$scratch/err" | sort -n | xargs)"
[ "$((10 * more))" -gt "$((25 * less))" ] && [ "$((10 * more))" -lt "$((35 * less))" ] ||
  fail "of three times the share: $more of $less results"

# Other types and operations, averages among them, and what is no AllReduce.
for what in 'allreduce -d i32' 'allreduce -d f16' 'allreduce -d f64' 'allreduce --op max' 'reduce' 'allgather' 'broadcast'; do
  # shellcheck disable=SC2086
  wants 0 "$BANYAN" run -n 4 --servers 1 --plan "$scratch/one.json" -- "$BANYAN" bench $what -s 8,100K --iterations 2 --check all
done

# Too few, none: ranks do what servers would have done.
export BANYAN_HELPER_DEADLINE=0.3
wants 0 job one -n 4
shows "server \"h/0\" of plan .* is not there: its trees go among ranks alone" err
export BANYAN_HELPER_DEADLINE=5 # in which the other one comes
wants 0 job two -n 4 --servers 1
shows "server \"h/1\" of plan .* is not there: its trees go among ranks alone" err
unset BANYAN_HELPER_DEADLINE

# Started by hand, by the shell of a rank: rank 0 waits for those that the plan names.
by_hand='[ "$BANYAN_RANK" -ne 0 ] || "$0" server --trees 2 & exec "$0" bench allreduce -s 8,64K,1M --iterations 3 --check all'
BANYAN_HELPER_DEADLINE=60 BANYAN_LOG=info wants 0 "$BANYAN" run -n 4 --plan "$scratch/two.json" -- sh -c "$by_hand" "$BANYAN"
well
shows 'sums over 0 switches with server 1 ' err

# Another number than the plan has: one of two servers has nothing to do; nobody is waited for.
wants 0 job one -n 4 --servers 2
well
BANYAN_HELPER_DEADLINE=60 wants 0 job two -n 4 -x BANYAN_SERVERS=0
shows "server \"h/0\" of plan .* is not there: its trees go among ranks alone" err

# Killed in the middle of calls, the job ends well, with the right sums.
: >"$scratch/out" # else what stood there may be taken for what the job says, before that has begun
"$BANYAN" run -n 4 --servers 1 --plan "$scratch/one.json" -x BANYAN_SPIN=0 -- \
  "$BANYAN" bench allreduce -s 4M --iterations 100 --check all >"$scratch/out" 2>"$scratch/err" &
job=$!
comes has busbw out || fail "the job does not begin"
for host in $(pgrep -P "$job"); do pgrep -P "$host" -f ' server --trees' || true; done >"$scratch/servers"
[ "$(wc -l <"$scratch/servers")" -eq 1 ] || fail "not one server: $(cat "$scratch/servers")"
kill -KILL "$(cat "$scratch/servers")"
wait "$job" || fail "the job has failed"
shows 'server 0 .* is lost .*goes among ranks from here on' err
shows '^\[0\] +4194304 .* 0  .+$' out

# What cannot be is said.
wants 2 "$BANYAN" run -n 4 --servers 0 -- true
shows 'servers' err
wants 1 env BANYAN_JOIN_DEADLINE=0.3 "$BANYAN" server --root 127.0.0.1:9
shows '^banyan server: ' err
wants 2 "$BANYAN" server --trees 65
shows 'trees' err
