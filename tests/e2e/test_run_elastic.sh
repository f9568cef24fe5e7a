#!/bin/bash
# Tests `banyan run` with processes that come and go: restarts, the host file, departure on signals and notices, Slurm,
# and all kinds of ends. Scripts in place of ssh and srun run the commands here.
. "$BANYAN_SOURCE/tests/shell.sh"

sum=$BANYAN_BUILD/tests/net/sum_elastic
mkdir "$scratch/bin" "$scratch/steps"
cat >"$scratch/bin/ssh" <<'END'
#!/bin/sh
[ "$*" != "${*#-o ServerAliveInterval=5 -o ServerAliveCountMax=3 }" ] || exit 255
shift 4
[ "$1" != refused ] && { [ "$1" != late ] || [ -e "$LATE" ]; } || { echo "ssh: Connection refused" >&2; exit 255; }
shift
cd / && exec env -i PATH="$PATH" HOME=/ sh -c "$*"
END
cat >"$scratch/bin/srun" <<'END'
#!/bin/bash
echo "srun $*" >>"$SRUN_LOG"
while [[ $1 == --* ]]; do
  [[ $1 != --nodelist=* ]] || export SLURMD_NODENAME=${1#*=}
  shift
done
exec "$@"
END
chmod +x "$scratch"/bin/*
export PATH=$scratch/bin:$PATH LATE=$scratch/late

begin() { # begin RUN-ARGUMENTS...: in the background, as $job
  rm -f "$scratch"/steps/*
  env BANYAN_TEST_TOUCH="$scratch/steps" "$BANYAN" run -x BANYAN_TEST_TOUCH "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
}
ends() { # ends STATUS: the job ends with this status.
  local got=0
  wait "$job" || got=$?
  [ "$got" -eq "$1" ] || fail "the job ended with $got, not $1"
}
reaches() { comes test -e "$scratch/steps/$1" || fail "no process reaches step $1"; }
counts() { [ "$(grep -cE -- "$2" "$scratch/$3")" -eq "$1" ] || fail "$3 does not show $1 times: $2"; }

# --- mistakes
wants 2 "$BANYAN" run -n 2 --min 3 -- true
shows '^banyan run: --min 3 is more than the 2 processes' err
wants 2 "$BANYAN" run -n 2 --max 1 -- true
shows '--max 1 is less than the 2 processes' err
wants 2 "$BANYAN" run -n 2 --preempt-command true -- true
shows '--preempt-command needs --min' err
wants 2 "$BANYAN" run -n 2 --restarts 1 --helpers 1 -- true
shows '--helpers and --servers cannot be combined' err
wants 2 "$BANYAN" run --slurm -- true
shows 'no Slurm allocation' err
wants 2 env SLURM_JOB_NODELIST='n[1-' SLURM_TASKS_PER_NODE=1 "$BANYAN" run --slurm -- true
shows 'SLURM_JOB_NODELIST: "n\[1-" is no list of hosts' err
wants 1 "$sum" 30
shows "needs the job's key: start it with .banyan run., or generate one" err

wants 2 "$BANYAN" run -n 3 --min 2 --port-range 21000-21010 -- true
shows '^banyan run: --port-range 21000-21010 has 11 ports, but host .* needs 14: 4 for each process, and 2 for the meeting point' err
wants 2 "$BANYAN" run -H a:1,b:4 -n 1 --max 3 --port-range 21000-21010 -- true
shows 'has 11 ports, but host b needs 12' err

# --- programs that know nothing of this: exit codes, pauses, and what ends a crash loop
wants 3 "$BANYAN" run -n 2 --restarts 2 -- sh -c "[ \$BANYAN_RANK = 1 ] && exit 3; exec sleep $odd"
shows '^banyan run: rank 1 on host .*: exit code 3: started again, 1 of 2 restarts$' err
shows '^banyan run: rank 1 on host .*: exit code 3: started again in 500 ms, 2 of 2 restarts$' err
shows '^banyan run: rank 1 on host .*: exit code 3: not started again, since all 2 restarts are used up$' err
shows '^banyan run: only 1 of --min 2 processes are left: ending the job$' err
left 0
wants 0 "$BANYAN" run -n 2 --restarts 1 -- sh -c 'echo "$BANYAN_RANK:${BANYAN_LAUNCHER##*:}"; case $BANYAN_LAUNCHER in
    *:1:0) kill -9 $$ ;;
    *:1:1) touch "$0" ;;
    esac
    until [ -e "$0" ]; do sleep 0.05; done' "$scratch/second"
for line in '\[0\] 0:0' '\[1\] 1:0' '\[1\] 1:1'; do shows "^$line$" out; done
wants 5 "$BANYAN" run -n 2 --min 1 --restarts 3 -- sh -c '[ $BANYAN_RANK = 0 ] || { sleep 1; exit 5; }' # 0 has finished
counts 1 'exit code 5$' err
wants 127 "$BANYAN" run -n 2 --restarts 3 -- "$scratch/nonesuch"
counts 1 . err
wants 124 "$BANYAN" run -n 2 --restarts 3 --timeout 0.3 -- sleep "$odd"
# A job in a job is one of its own.
wants 0 "$BANYAN" run -n 1 --restarts 1 -- "$BANYAN" run -n 1 -o raw -- sh -c 'echo "${BANYAN_LAUNCHER-none}"'
shows '^\[0\] none$' out
begin -n 2 --restarts 5 -- sleep "$odd"
left 2
kill -TERM "$job"
ends 143
left 0

# --- a process that dies is started again and joins the others, which go on
begin -n 3 --restarts 3 --port-range 21500-21513 -- "$sum" 30
reaches 20
kill -KILL "$(process_of 1)"
comes has '^\[1\] rank 2 of 3$' out || fail "rank 1 does not come back"
touch "$scratch/steps/go"
ends 0
shows '^banyan run: rank 1 on host .*: killed by signal 9 \(Killed\): started again, 1 of 3 restarts$' err
shows '^banyan run: membership "first-1": 3 processes$' err
counts 3 'done as rank [0-2] of 3$' out
shows '^\[1\] rank 2 of 3$' out # a newcomer comes last
# Rank 0 is like any other.
begin -n 3 --restarts 3 -- "$sum" 30
reaches 20
kill -KILL "$(process_of 0)"
comes has '^\[0\] rank 2 of 3$' out || fail "rank 0 does not come back"
touch "$scratch/steps/go"
ends 0
counts 3 'done as rank [0-2] of 3$' out
# Without restarts the others go on, unless there are too few.
begin -n 3 --min 2 -- "$sum" 30
reaches 20
kill -KILL "$(process_of 2)"
comes has '^\[0\] rank 0 of 2$' out || fail "the others do not go on"
touch "$scratch/steps/go"
ends 0
counts 2 'done as rank [01] of 2$' out
# All at once: those that are started again begin anew.
begin -n 2 --restarts 2 -- "$sum" 30
reaches 20
kill -KILL "$(process_of 0)" "$(process_of 1)"
comes has 'membership "first-2": 2 processes' err || fail "no new beginning"
touch "$scratch/steps/go"
ends 0
shows 'membership "first-2": 2 processes' err
counts 2 'done as rank [01] of 2$' out

# One that does not find the others in its time may try again, with the launcher and by rank.
for options in '--min 2' ''; do
  wants 0 "$BANYAN" run -n 2 $options -- sh -c '[ $BANYAN_RANK = 0 ] || sleep 1; exec "$0" 3 0.01 0.5 40' "$sum"
  counts 2 'done as rank [01] of 2$' out
  [ -z "$options" ] || shows '^\[0\] starts again$' out
done

# A process with another key is not taken: it would keep all from forming a group.
"$BANYAN" keys job "$scratch/another"
wants 0 "$BANYAN" run -n 2 --min 1 -- sh -c '[ $BANYAN_RANK = 0 ] || export BANYAN_KEY_FILE=$1; exec "$0" 20' "$sum" "$scratch/another"
shows '^\[1\] start: .*belongs to a job with another key' err
shows '^\[0\] done as rank 0 of 1$' out

# Hosts that cannot be reached are done without.
wants 0 "$BANYAN" run -H a:2,refused:2 --min 2 -- "$sum" 5
shows '^banyan run: host refused: could not be reached' err
counts 2 'done as rank [01] of 2$' out
wants 1 "$BANYAN" run -H a:2,refused:2 --min 3 -- "$sum" 5
shows '^banyan run: only 2 of --min 3 processes are left' err

# --- hosts come and go
printf 'a:2\n' >"$scratch/hosts"
begin --ssh ssh --hostfile "$scratch/hosts" --min 1 --max 4 -- "$sum" 1000000
reaches 10
printf 'a:2\nb:4\n' >"$scratch/hosts"
comes has '^\[[0-9]\] rank [0-9] of 4$' out || fail "no group of 4"
shows '^banyan run: 2 more processes on host b$' err
printf 'b:4\n' >"$scratch/hosts"
comes has 'rank 1 on host a has left$' err || fail "rank 1 has not left"
comes has 'rank 0 on host a has left$' err || fail "rank 0 has not left"
counts 2 '^\[[01]\] left at step ' out
comes has '^banyan run: 2 more processes on host b$' err
printf 'b:4 c\n' >"$scratch/hosts"
comes has 'the hosts remain as before: .*hosts:1: ' err || fail "the mistake is not reported"
# All leave on SIGUSR1.
comes has '^\[[0-9]\] rank 3 of 4$' out || fail "no second group of 4"
kill -USR1 "$job"
ends 75
shows '^banyan run: SIGUSR1: all processes, 4, are asked to leave$' err

# A host that is lost is tried again later, with the same local ranks.
printf 'a:2\nlate:2\n' >"$scratch/hosts"
begin --ssh ssh --hostfile "$scratch/hosts" --min 1 -- \
  sh -c 'echo "local $BANYAN_HOST $LOCAL_RANK of $LOCAL_WORLD_SIZE of $WORLD_SIZE in $GROUP_RANK"; exec "$0" 1000000' "$sum"
comes has 'host late: could not be reached' err || fail "host late is not refused"
touch "$LATE"
tries=0
until has '^banyan run: 2 more processes on host late, which was lost before$' err; do
  [ $((tries += 1)) -le 60 ] || fail "host late is not tried again"
  sleep 0.5
done
comes has '^\[4\] local late 0 of 2 of 6 in 1$' out && comes has '^\[5\] local late 1 of 2 of 6 in 1$' out || fail "local ranks of host late"
comes has '^\[[0-9]\] rank [0-9] of 4$' out || fail "host late takes no part"
# The least local rank that is free is used again.
printf 'a:1\nlate:2\n' >"$scratch/hosts"
comes has 'rank 1 on host a is asked to leave' err || fail "rank 1 is not asked to leave"
printf 'a:2\nlate:2\n' >"$scratch/hosts"
comes has '^\[6\] local a 1 of 2 of 7 in 0$' out || fail "no second process on host a"
kill -USR1 "$job"
ends 75 # also as a host was lost before

# Who leaves by itself keeps its slot: no other one takes its place there.
wants 0 "$BANYAN" run --ssh ssh -H a:2 --min 1 --restarts 1 -x BANYAN_TEST_LEAVE=0 -- "$sum" 60
shows '^banyan run: rank 0 on host a has left$' err
shows '^\[1\] done as rank 0 of 1$' out

# --- a host that is taken away, as its signal or its command says
begin --ssh ssh -H a:1,b:2 --min 1 --restarts 9 --preempt-command "test -e $scratch/notice && echo two minutes" -- "$sum" 1000000
reaches 10
kill -USR1 "$(pgrep -P "$job" | sed -n 2p)"
comes has '^banyan run: host b: it got SIGUSR1: 2 processes are asked to leave$' err || fail "the signal is not reported"
comes has '^\[0\] rank 0 of 1$' out || fail "the ranks of b have not left"
touch "$scratch/notice"
ends 75
shows '^banyan run: host a: two minutes: 1 process is asked to leave$' err

# --- Slurm: nodes and tasks from its variables, processes by srun
export SRUN_LOG=$scratch/srun
wants 0 env SLURM_JOB_NODELIST='n[1,03-04],gpu7' SLURM_TASKS_PER_NODE='2,1(x3)' "$BANYAN" run --slurm --restarts 1 -- \
  sh -c 'echo $BANYAN_RANK/$BANYAN_SIZE $BANYAN_HOST $SLURMD_NODENAME $BANYAN_LOCAL_RANK'
for line in '0/5 n1 n1 0' '1/5 n1 n1 1' '2/5 n03 n03 0' '3/5 n04 n04 0' '4/5 gpu7 gpu7 0'; do shows "^\[.\] $line$" out; done
[ "$(wc -l <"$SRUN_LOG")" -eq 4 ] || fail "srun was not called once for each node"

# --- without this launcher: by rank, and by a list of members
wants 0 "$BANYAN" run -n 3 -- "$sum" 5
counts 3 'done as rank [0-2] of 3$' out
wants 0 env BANYAN_KEY_FILE="$scratch/another" "$sum" 5
shows '^done as rank 0 of 1$' out
"$BANYAN" keys job "$scratch/key"
begin -n 2 --min 1 -x BANYAN_KEY_FILE="$scratch/key" -- "$sum" 20
comes test -e "$scratch/steps/members" || fail "no file of handles"
BANYAN_KEY_FILE=$scratch/key BANYAN_MEMBERS=$(cat "$scratch/steps/members") "$sum" 20 >"$scratch/other" 2>&1 &
other=$!
comes has '^\[[01]\] rank [01] of 3$' out || fail "the other one does not join: $(cat "$scratch/other")"
touch "$scratch/steps/go"
wait "$other" || fail "the other one: $(cat "$scratch/other")"
grep -qx 'done as rank 2 of 3' "$scratch/other" || fail "the other one is no member: $(cat "$scratch/other")"
ends 0
wants 1 env BANYAN_KEY_FILE="$scratch/another" BANYAN_MEMBERS=none "$sum" 5
shows '"none" is not the handle of a process' err
wants 1 env BANYAN_KEY_FILE="$scratch/another" BANYAN_LAUNCHER=nobody:0:0 "$sum" 5
shows 'banyan run cannot be reached' err
