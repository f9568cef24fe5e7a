#!/bin/bash
# Tests that a job which can use more hosts gets them from a manager: hosts with agents, that come later too, and on which
# no other job runs. A script in place of ssh runs the commands here.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/cluster.sh"
mkdir "$scratch/bin" "$scratch/steps"
cat >"$scratch/bin/ssh" <<'END'
#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
shift
cd / && exec env -i PATH="$PATH" HOME=/ sh -c "$*"
END
chmod +x "$scratch/bin/ssh"
export PATH=$scratch/bin:$PATH

# --- mistakes
wants 2 "$BANYAN" run -n 2 --manager-hosts 1 -- true
shows '^banyan run: --manager-hosts needs --max$' err
wants 2 env BANYAN_AGENT=off "$BANYAN" run -n 2 --max 4 --manager-hosts 1 -- true
shows 'BANYAN_AGENT is off' err

# --- a cluster of four hosts, the last of which has no agent yet
cluster_keys h0 h1 h2 h3
cluster_manager star:4,nic=10g
cluster_agents h0 h1 h2

# Another job is on h2.
on_host="BANYAN_AGENT=$scratch/agents/\$BANYAN_HOST exec \"\$@\""
start other "$BANYAN" run --ssh ssh -H h2:2 -- sh -c "$on_host" sh "$BANYAN" bench -s 64K --iterations 1000000
other=$last
runs() { [ "$(count 'sum(j["state"] == "running" for j in s["jobs"])')" = 1 ]; }
comes runs || fail "the other job does not run: $(cat "$scratch/other.log")"

BANYAN_AGENT=$scratch/agents/h0 BANYAN_TEST_TOUCH=$scratch/steps "$BANYAN" run --ssh ssh -x BANYAN_TEST_TOUCH -H h0:2 --min 1 --max 8 \
  --manager-hosts 2 -- sh -c "$on_host" sh "$BANYAN_BUILD/tests/net/sum_elastic" 1000000 >"$scratch/out" 2>"$scratch/err" </dev/null &
job=$!
started+=("$job")
comes has '^banyan run: the manager offers host h1$' err || fail "h1 is not offered"
shows '^banyan run: 2 more processes on host h1$' err
comes has '^\[[0-9]\] rank [0-9] of 4$' out || fail "no group of 4"

# A host that comes is used; then the other job's host, once that has ended.
cluster_agents h3
comes has '^\[[0-9]\] rank [0-9] of 6$' out || fail "no group of 6"
shows '^banyan run: 2 more processes on host h3$' err
! has "host h2$" err || fail "the host of another job is used"
kill "$other"
comes has '^\[[0-9]\] rank [0-9] of 8$' out || fail "no group of 8"
shows '^banyan run: 2 more processes on host h2$' err
is_one_job() { [ "$(count 'sorted(len(j["hosts"]) for j in s["jobs"] if j["state"] in ("running", "switching"))')" = '[4]' ]; }
comes is_one_job || fail "the manager does not see a job on 4 hosts: $(count '[(j["hosts"], j["state"], j["why"], j["helpers"], j["plan"] is None) for j in s["jobs"]]')"

# A host that is lost is offered again once its agent is there and no process is.
! has 'host h1: ' err || fail "h1 is lost too soon"
begun=$(grep -c 'the manager offers host h1$' "$scratch/err")
[ "$begun" = 1 ] || fail "h1 was offered $begun times"
kill -KILL "$(pgrep -P "$job" | sed -n 2p)"
comes has '^banyan run: host h1: connection lost' err || fail "h1 is not lost"
offered_again() { [ "$(grep -c 'the manager offers host h1$' "$scratch/err")" = 2 ]; }
comes offered_again || fail "h1 is not offered again"
comes eval '[ "$(grep -c "rank 7 of 8$" "$scratch/out")" = 2 ]' || fail "no second group of 8"
comes is_one_job || fail "the manager does not see a job on 4 hosts after the loss"
kill -USR1 "$job"
comes eval '[ "$(grep -c "^\[[0-9]*\] left at step " "$scratch/out")" = 8 ]' || fail "not all have left"
code=0
wait "$job" || code=$?
[ "$code" = 75 ] || fail "a job that has left on request ends with $code"
