#!/bin/bash
# Tests servers of in-network trees as a user starts them: a tree through a server beside one among ranks, local
# servers and servers through ssh, killed and missing ones. There is no switch on the path.
. "$BANYAN_SOURCE/tests/shell.sh"

cat >"$scratch/ssh" <<'SSH'
#!/bin/sh
# This replaces ssh HOST COMMAND by a local command.
shift
exec env -i PATH="$PATH" sh -c "$*"
SSH
chmod +x "$scratch/ssh"

star() { # SERVER SHARE
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
job() { # PLAN OPTION...: the options of a run
  "$BANYAN" run --plan "$scratch/$1.json" "${@:2}" -- "$BANYAN" bench allreduce -s 8,64K,1M --iterations 3 --check all
}
well() {
  shows '^\[0\] +1048576 .* 0  .+$' out
  ! grep -q 'is not there\|is lost' "$scratch/err" || fail "servers that run were missed: $(cat "$scratch/err")"
}

# One and two servers run on this machine, and on the hosts that the plan names. A process has a UDP port for each tree.
BANYAN_LOG=info wants 0 job one -n 4 --servers 1
well
shows 'sums over 0 switches with server 0 ' err
wants 0 job two -n 4 --servers 2
well
wants 0 job two --transport tcp --ssh "$scratch/ssh" -i 127.0.0.0/8 -H a:1,b:1,c:1,d:1 --servers h:2 -x BANYAN_LOG=info
well
ports=$(sed -n 's/.*server of tree [0-9]* at UDP port \([0-9]*\): .*/\1/p' "$scratch/err" | sort -u | wc -l)
[ "$ports" = 2 ] || fail "a process that serves two trees uses $ports UDP ports"

# Each server computes its tree's share of the sums.
BANYAN_LOG=info wants 0 job unequal -n 4 --servers 2
well
read -r less more <<<"$(sed -n 's/.*server of tree [0-9]* at UDP port [0-9]*: \([0-9]*\) results.*/\1/p' "$scratch/err" | sort -n | xargs)"
[ "$((10 * more))" -gt "$((25 * less))" ] && [ "$((10 * more))" -lt "$((35 * less))" ] ||
  fail "of three times the share: $more of $less results"

# The calls use other types and operations, averages among them, and other collectives than AllReduce.
for what in 'allreduce -d i32' 'allreduce -d f16' 'allreduce -d f64' 'allreduce --op max' 'reduce' 'allgather' 'broadcast'; do
  # shellcheck disable=SC2086
  wants 0 "$BANYAN" run -n 4 --servers 1 --plan "$scratch/one.json" -- "$BANYAN" bench $what -s 8,100K --iterations 2 --check all
done

# With too few or no servers, ranks do the servers' work.
export BANYAN_HELPERS=deadline=0.3
wants 0 job one -n 4
shows "server \"h/0\" of plan .* is not there: its trees go among ranks alone" err
export BANYAN_HELPERS=deadline=5 # The other server comes within this time.
wants 0 job two -n 4 --servers 1
shows "server \"h/1\" of plan .* is not there: its trees go among ranks alone" err
unset BANYAN_HELPERS

# Servers are started manually by the shell of a rank: rank 0 waits for those that the plan names.
by_hand='[ "$BANYAN_RANK" -ne 0 ] || "$0" server --trees 2 & exec "$0" bench allreduce -s 8,64K,1M --iterations 3 --check all'
BANYAN_HELPERS=deadline=60 BANYAN_LOG=info wants 0 "$BANYAN" run -n 4 --plan "$scratch/two.json" -- sh -c "$by_hand" "$BANYAN"
well
shows 'sums over 0 switches with server 1 ' err

# The number of servers differs from the plan: one of two servers is idle, and rank 0 waits for no missing one.
wants 0 job one -n 4 --servers 2
well
wants 0 job two -n 4 -x BANYAN_HELPERS=servers=0,deadline=60
shows "server \"h/0\" of plan .* is not there: its trees go among ranks alone" err

# If a server is killed during calls, the job ends well with the right sums.
: >"$scratch/out" # Otherwise old output may be taken for the job's output before the job has begun.
"$BANYAN" run -n 4 --servers 1 --plan "$scratch/one.json" -x BANYAN_ENGINE=spin=0 -- \
  "$BANYAN" bench allreduce -s 4M --iterations 100 --check all >"$scratch/out" 2>"$scratch/err" &
job=$!
comes has busbw out || fail "the job does not begin"
for host in $(pgrep -P "$(pgrep -d, -P "$job")"); do pgrep -P "$host" -f ' server --trees' || true; done >"$scratch/servers"
[ "$(wc -l <"$scratch/servers")" -eq 1 ] || fail "not one server: $(cat "$scratch/servers")"
kill -KILL "$(cat "$scratch/servers")"
wait "$job" || fail "the job has failed"
shows 'server 0 .* is lost .*goes among ranks from here on' err
shows '^\[0\] +4194304 .* 0  .+$' out

# Ranks 0 to 2 send to an aggregator, a server with a parent server. If it is killed, they send to that, and the sums go on.
cat >"$scratch/off_path.json" <<PLAN
{"format": "banyan-plan 1", "name": "off path", "ranks": 4,
 "vertices": {"h/0": {"kind": "server"}, "e/0": {"kind": "server"}},
 "trees": [{"share": 1, "root": "h/0", "up": {"e/0": "h/0", "0": "e/0", "1": "e/0", "2": "e/0", "3": "h/0"}}]}
PLAN
for sums in fixed float32; do
  wants 0 job off_path --transport tcp --ssh "$scratch/ssh" -i 127.0.0.0/8 -H a:1,b:1,c:1,d:1 --servers h,e \
    -x BANYAN_LOG=info -x BANYAN_SUMS=$sums
  well
  shows 'sums over 1 aggregator with server ' err
  added=$(sed -n 's/.*aggregator of tree [0-9]* at UDP port [0-9]*: \([0-9]*\) terms, .* \([0-9]*\) wrong.*/\1 \2/p' "$scratch/err")
  [ "${added#* }" = 0 ] && [ "${added% *}" -gt 1000 ] || fail "terms at the aggregator, and wrong ones: $added"
done
BANYAN_HELPERS=deadline=0.3 wants 0 job off_path -n 4 --servers 1 -x BANYAN_LOG=info # It finishes the tree.
shows 'aggregator "e/0" is not there: its workers of tree [0-9]* send to the server' err
shows 'sums over 0 switches with server ' err
! grep -q 'go among ranks' "$scratch/err" || fail "the tree has its server: $(cat "$scratch/err")"
ends='[ "$BANYAN_RANK" -ne 0 ] || { "$0" server --name h & "$0" server --name e & echo $! >"$pid_file"; }; exec "$0" "$@"'
: >"$scratch/out"
pid_file=$scratch/aggregator BANYAN_HELPERS=deadline=60 "$BANYAN" run -n 4 --plan "$scratch/off_path.json" -x BANYAN_ENGINE=spin=0 -- \
  sh -c "$ends" "$BANYAN" bench allreduce -s 8,1M --iterations 300 --check all >"$scratch/out" 2>"$scratch/err" &
job=$!
comes has '^\[0\] +8 ' out || fail "the job does not begin"
kill -KILL "$(cat "$scratch/aggregator")"
wait "$job" || fail "the job has failed"
shows 'server [01] .* is lost .*or if it was an aggregator, to its parent server' err
shows 'the aggregator of tree [0-9]* is lost: sending to the server' err
shows 'an aggregator of tree [0-9]* is lost: its workers get their results from here' err
shows '^\[0\] +1048576 .* 0  .+$' out

# Impossible requests are reported.
wants 2 "$BANYAN" run -n 4 --servers 0 -- true
shows 'servers' err
wants 1 env BANYAN_JOIN_DEADLINE=0.3 "$BANYAN" server --root 127.0.0.1:9
shows '^banyan server: ' err
wants 2 "$BANYAN" server --trees 65
shows 'trees' err
