#!/bin/bash
# Tests `banyan run`: the environment of ranks, the attribution of output, the end of a job, and that nothing is left
# over.
. "$BANYAN_SOURCE/tests/shell.sh"

alive() { left "$1"; }

# --- environment of ranks
wants 0 "$BANYAN" run -n 3 --plan ring --transport tcp --iface lo --port-range 21000-21999 -- \
  sh -c 'echo $BANYAN_SIZE $BANYAN_LOCAL_RANK/$BANYAN_LOCAL_SIZE $BANYAN_PLAN $BANYAN_TRANSPORT $BANYAN_IFACE $BANYAN_PORTS $BANYAN_ROOT'
for r in 0 1 2; do shows "^\[$r\] 3 $r/3 ring tcp lo 21000-21999 127\.0\.0\.1:21[0-9]{3}(,\[::1\]:21[0-9]{3})?#[0-9a-f]{64}$" out; done
wants 0 "$BANYAN" run -n 2 -- sh -c 'echo $(cat $BANYAN_KEY_FILE) $BANYAN_ROOT $BANYAN_HOST'
[ "$(cut -d' ' -f2- "$scratch/out" | sort -u | wc -l)" -eq 1 ] || fail "ranks have different environments"
shows "^\[1\] banyan_key_[0-9a-f]{64}_[0-9a-f]{8} 127\.0\.0\.1:[0-9]+#[0-9a-f]{64} $(hostname)$" out
key=$(awk 'NR == 1 {print $2}' "$scratch/out")
wants 0 "$BANYAN" run -n 1 -o raw -- sh -c 'cat $BANYAN_KEY_FILE'
[ "$(cat "$scratch/out")" != "$key" ] || fail "two jobs have the same key"
wants 0 env TOLD=here "$BANYAN" run -n 1 -x MORE=there -o raw -- sh -c 'echo $TOLD $MORE'
shows '^here there$' out

# Ranks that share a host do not each start a thread for every core, unless the user asks for it.
omp() { # omp WANTED RUN-OPTIONS...
  wants 0 env BANYAN_LOG=info "$BANYAN" run -o raw "${@:2}" -- sh -c 'echo threads=$OMP_NUM_THREADS'
  [ "$(sort -u "$scratch/out")" = "threads=$1" ] || fail "OMP_NUM_THREADS is not $1 with $*"
}
unset OMP_NUM_THREADS
omp 1 -n 2
shows 'OMP_NUM_THREADS=1, because 2 ranks share this host' err
omp '' -n 1
omp 3 -n 2 -x OMP_NUM_THREADS=3
OMP_NUM_THREADS=2 omp 2 -n 2

long=$(printf '%05000d' 7)
wants 0 env LONG="$long" "$BANYAN" run -n 1 -o raw -x LONG -x COPY="$long" -- sh -c 'echo ${#LONG} ${#COPY}'
shows '^5000 5000$' out

# --- mistakes that are reported once, before anything is started
hello=$BANYAN_BUILD/examples/hello
wants 0 "$BANYAN" run -n 4 -- "$hello"
tr "\n" " " <"$BANYAN_SOURCE/README.md" | grep -qF "prints \`$(cat "$scratch/out")\`" || fail "the README promises another line"
wants 2 "$BANYAN" run -n 2 --plan rnig -- "$hello"
shows '^banyan run: there is no built-in plan "rnig"; did you mean ring\?' err
wants 2 "$BANYAN" run -n 2 --plan star:2 -- "$hello"
shows 'must be 0 to 1' err
wants 2 "$BANYAN" run -n 2 --plan "$scratch/none.json" -- "$hello"
shows '^banyan run: cannot open plan' err
echo '{"format": "banyan-plan 1", "ranks": 2,' >"$scratch/cut.json"
wants 2 "$BANYAN" run -n 2 --plan "$scratch/cut.json" -- "$hello"
shows '^banyan run: .*cut.json:2:' err
# A file that is damaged for only one rank is reported by this rank, and the job ends.
"$BANYAN" plan --builtin ring -n 3 --json >"$scratch/ring.json"
wants 1 "$BANYAN" run -n 3 --plan "$scratch/ring.json" -- \
  sh -c "[ \$BANYAN_RANK = 1 ] && export BANYAN_PLAN=$scratch/cut.json; exec $hello"
shows '^\[1\] hello: .*cut.json:2:' err
shows '^banyan run: rank 1 on host' err
# The name of a built-in plan means the built-in plan, even if a file has the same name.
mkdir "$scratch/folder" "$scratch/folder/ring"
wants 0 env -C "$scratch/folder" "$BANYAN" run -n 2 --plan ring -- "$hello"
shows '1 \+ \.\.\. \+ 2 = 3$' out
wants 1 env BANYAN_RANK=1 BANYAN_KEY=x "$hello"
shows '^hello: .* but only the rank is given' err
# A misspelt variable is reported once, and an unrelated one is ignored.
wants 0 env BANYAN_TRANSPROT=tcp BANYAN_MY_OWN=1 "$BANYAN" run -n 2 -- "$hello"
shows 'BANYAN_TRANSPROT is not a variable .*did you mean BANYAN_TRANSPORT\?$' err
[ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "more than one line on a misspelt variable"
wants 2 "$BANYAN" run -H localhost:65000,127.0.0.1:65000 -- true
shows 'more than 65536 slots' err
wants 2 "$BANYAN" run -n 2 --port-range 21000-21001 -- true
shows '21000-21001 has 2 ports, but host .* needs 4: 1 for each process, and 2 for the meeting point' err
wants 2 "$BANYAN" run -H localhost:1,far.example:1 --port-range 21000-21002 -- true
shows 'host localhost needs 4: 1 for each process, and 3 for the meeting point' err
# A range with as many ports as are needed, soon after other jobs: connections of theirs are not gone yet. No rank takes
# the port where they meet before rank 0 listens there.
low=$((22001 + $$ % 1000 * 8))
for _ in 1 2 3 4 5; do
  wants 0 "$BANYAN" run -n 4 --port-range $low-$((low + 5)) --transport tcp -- "$hello"
done
# One port for two ranks.
wants 1 env BANYAN_PORTS=21000 "$BANYAN" run -n 2 --transport tcp -- "$hello"
shows 'BANYAN_PORTS: cannot listen on .* port 21000: Address already in use: choose another' err

# --- what PyTorch's programs read: their store has a port, also where others listen on every second one of the range
low=$((20001 + $$ % 5000 * 2))
python3 -c 'import socket, sys, time
held = []
for port in range(int(sys.argv[1]), int(sys.argv[1]) + 40, 2):
    try: held.append(socket.create_server(("", port)))
    except OSError: pass
print("ready", flush=True); time.sleep(120)' $low >"$scratch/listens" 2>&1 &
listens=$!
comes has ready listens || fail "nobody listens"
for _ in 1 2 3 4 5; do
  wants 0 "$BANYAN" run -n 3 --port-range $((low - 1))-$((low + 39)) -- python3 "$BANYAN_SOURCE/tests/torch_place.py"
  for r in 0 1 2; do shows "^\\[$r\\] met at 127\\.0\\.0\\.1 LOCAL_RANK $r LOCAL_WORLD_SIZE 3 GROUP_RANK 0$" out; done
done
kill "$listens"
# -x takes precedence; what is inherited, as from another launcher, does not.
wants 0 env RANK=7 LOCAL_RANK=7 MASTER_ADDR=elsewhere MASTER_PORT=7 "$BANYAN" run -n 1 -o raw -x LOCAL_RANK=0 -x MASTER_PORT=29500 -- \
  sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $GROUP_RANK $NODE_RANK'
shows '^0/1 0/1 127\.0\.0\.1 29500 0 0$' out

# --- several hosts that are all this machine
wants 0 "$BANYAN" run -H "localhost:2,127.0.0.1:1,$(hostname):2" -n 4 -- \
  sh -c 'echo $BANYAN_HOST $BANYAN_LOCAL_RANK $BANYAN_LOCAL_SIZE $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $BANYAN_ROOT'
shows '^\[0\] localhost 0 2 0/4 0/2 0 127\.0\.0\.1:' out
shows '^\[1\] localhost 1 2 1/4 1/2 0 127\.0\.0\.1:' out
shows '^\[2\] 127\.0\.0\.1 0 1 2/4 0/1 1 127\.0\.0\.1:' out
shows "^\[3\] $(hostname) 0 1 3/4 0/1 2 127\.0\.0\.1:" out
printf '# two\nlocalhost slots=2\n\n127.0.0.1:3 # more\n' >"$scratch/hosts"
wants 0 "$BANYAN" run --hostfile "$scratch/hosts" -- sh -c 'echo $BANYAN_HOST'
[ "$(grep -c 'localhost$' "$scratch/out")/$(grep -c '127.0.0.1$' "$scratch/out")" = 2/3 ] || fail "host file"
printf 'localhost\nlocalhost slot=2\n' >"$scratch/hosts"
wants 2 "$BANYAN" run --hostfile "$scratch/hosts" -- true
shows "hosts:2: \"slot=2\" after the host is unknown: there are slots=N, max_slots=N, " err
wants 2 "$BANYAN" run --hostfile /dev/zero -- true
shows '/dev/zero is too large: at most 16777216 bytes' err
printf 'localhost\nlocal\0host\n127.0.0.1\n' >"$scratch/hosts"
wants 2 "$BANYAN" run --hostfile "$scratch/hosts" -- true
shows 'hosts: line 2 has a NUL byte' err
# Readers of topologies, plans, keys and lists of hosts refuse it, too.
printf '2 1\n0 1 1 1\0\n' >"$scratch/net.el"
printf '{"format":"banyan-plan-1"}\0\n' >"$scratch/plan.json"
(umask 077 && printf '%s\0more' "$key" >"$scratch/job.key")
for options in "--topology $scratch/net.el" "--plan $scratch/plan.json" "-x BANYAN_KEY_FILE=$scratch/job.key"; do
  # shellcheck disable=SC2086 # options and their values
  ! "$BANYAN" run -n 2 $options -- "$hello" >"$scratch/out" 2>"$scratch/err" || fail "$options: a NUL byte is accepted"
  shows 'line [12] has a NUL byte' err
done
wants 2 "$BANYAN" run --hostfile "$scratch/none" -- true
wants 2 "$BANYAN" run -H localhost:2 -n 3 -- true
shows 'have 2 slots for 3 ranks' err
wants 2 "$BANYAN" run -H -oProxyCommand=x -- true
wants 2 "$BANYAN" run -H 'a;b' -- true
shows '"a;b" is not a host' err
wants 2 "$BANYAN" run -- true
shows 'the number of ranks is missing' err
wants 2 "$BANYAN" run -n 1 --port-range 9-3 -- true
wants 1 "$BANYAN" run -n 1 --iface nonesuch0 -- true
shows 'nonesuch0' err

# --- output: whole lines, separate streams, last lines without newline, long and binary output
wants 0 "$BANYAN" run -n 4 -- bash -c 'for i in {1..500}; do printf "%s" "out $BANYAN_RANK "; echo "$i"; echo "err $i" >&2; done; printf end'
for r in 0 1 2 3; do
  sed -n "s/^\[$r\] //p" "$scratch/out" >"$scratch/rank"
  diff <(seq -f "out $r %g" 500; echo end) "$scratch/rank" >/dev/null || fail "lines of rank $r"
  diff <(seq -f "err %g" 500) <(sed -n "s/^\[$r\] //p" "$scratch/err") >/dev/null || fail "error lines of rank $r"
done
[ "$(wc -l <"$scratch/out")" -eq 2004 ] || fail "number of lines"
wants 0 "$BANYAN" run -n 8 -- sh -c 'head -c 1000000 /dev/zero | tr "\0" "x"; echo; head -c 1000000 /dev/zero >&2'
[ "$(wc -c <"$scratch/out")" -eq $((8 * (1000000 + 5))) ] || fail "a megabyte from each rank"
[ "$(sort -u "$scratch/out" | cut -c1-5 | paste -sd,)" = "[0] x,[1] x,[2] x,[3] x,[4] x,[5] x,[6] x,[7] x" ] || fail "mixed lines"
[ "$(tr -dc '\0' <"$scratch/err" | wc -c)" -eq 8000000 ] || fail "binary output"
wants 0 "$BANYAN" run -n 2 -o rank0 -- sh -c 'echo "line $BANYAN_RANK"'
[ "$(cat "$scratch/out")" = "line 0" ] || fail "rank0"
shows '^\[1\] line 1$' err
wants 0 "$BANYAN" run -n 2 -- sh -c 'printf "{\"rank\": %d}" $BANYAN_RANK' - --json
[ "$(cat "$scratch/out")" = '{"rank": 0}' ] || fail "--json does not make rank 0's output bare"
wants 0 "$BANYAN" run -n 1 -- printf 'one\rtwo\r\nthree'
[ "$(od -c -An "$scratch/out" | tr -d ' \n')" = '[0]one\r[0]two\r\n[0]three\n' ] || fail "carriage returns"

# --- the end of a job
wants 0 "$BANYAN" run -n 100 -- /bin/true
wants 3 "$BANYAN" run -n 3 -- sh -c "[ \$BANYAN_RANK = 1 ] && exit 3; exec sleep $odd"
shows "^banyan run: rank 1 on host $(hostname): exit code 3$" err
shows '^banyan run: ending the other 2 ranks after the failure; with --min N an elastic job goes on$' err
[ "$(wc -l <"$scratch/err")" -eq 2 ] || fail "ranks that we ended are reported"
left 0
wants 137 "$BANYAN" run -H localhost:2,127.0.0.1:2 -- sh -c "[ \$BANYAN_RANK = 2 ] && kill -9 \$\$; exec sleep $odd"
shows '^banyan run: rank 2 on host 127\.0\.0\.1: killed by signal 9 \(Killed\)$' err
wants 139 "$BANYAN" run -n 2 -- sh -c "ulimit -c 0; [ \$BANYAN_RANK = 0 ] && kill -SEGV \$\$; exec sleep $odd"
shows 'rank 0 .* killed by signal 11 \(Segmentation fault\)' err
for hosts in localhost:3 localhost:2,127.0.0.1:2; do
  wants 127 "$BANYAN" run -H $hosts -- "$scratch/nonesuch"
  shows "^banyan run: host [a-z0-9.]+: cannot run $scratch/nonesuch: No such file or directory$" err
  [ "$(cat "$scratch/out" "$scratch/err" | wc -l)" -eq 1 ] || fail "a missing command is reported more than once"
done
wants 126 "$BANYAN" run -n 1 -- "$scratch"
shows "cannot run $scratch: Permission denied: it is a folder; give a program$" err
wants 124 "$BANYAN" run -n 2 --timeout 0.3 -- sleep "$odd"
shows 'not done after 0.3 s' err
# A process that ignores SIGTERM is killed.
wants 1 "$BANYAN" run -n 2 --grace 0.3 -- sh -c "[ \$BANYAN_RANK = 1 ] && sleep 0.2 && exit 1; trap '' TERM; sleep $odd; sleep $odd"
left 0
wants 0 "$BANYAN" run -n 1 -- bash -c "ulimit -n | grep -qx $(ulimit -n)"
wants 0 "$BANYAN" run -n 2 -- sh -c 'read line || echo nothing'
[ "$(grep -c nothing "$scratch/out")" -eq 2 ] || fail "standard input is not empty"

# A closed reader ends everything quietly.
"$BANYAN" run -n 2 -- sh -c "yes & sleep $odd" 2>"$scratch/err" | head -1 >"$scratch/out" || true
shows '^\[[01]\] y$' out
[ ! -s "$scratch/err" ] || fail "a closed reader is reported: $(cat "$scratch/err")"
left 0
# A slow reader loses nothing, and delays neither the order nor Ctrl-C.
"$BANYAN" run -n 4 -- bash -c 'seq 1 40000' | (sleep 0.5; cat) >"$scratch/out"
awk '{if ($2 != ++n[$1]) exit 1} END {for (r in n) if (n[r] != 40000) exit 1; if (NR != 160000) exit 1}' "$scratch/out" ||
  fail "a slow reader"

# --- signals
start() { # starts a job in the background as $job, through Python because background jobs of a script ignore SIGINT
  python3 -c 'import os, signal, sys
for s in (signal.SIGINT, signal.SIGQUIT): signal.signal(s, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
}
ends() { # ends STATUS: the job ends with this status.
  local got=0
  wait "$job" || got=$?
  [ "$got" -eq "$1" ] || { cat "$scratch/err" >&2; fail "the job ended with $got, not $1"; }
}
start "$BANYAN" run -n 2 -- sleep "$odd"
alive 2
kill -INT "$job"
ends 130
shows '^banyan run: ended by signal 2 \(Interrupt\)$' err
start "$BANYAN" run -n 2 -- sleep "$odd"
alive 2
kill -TERM "$job"
ends 143
# Ranks may handle a signal and end well.
start "$BANYAN" run -n 2 -- bash -c "trap 'echo got it; kill %1; exit 0' INT USR1; sleep $odd & echo ready; wait; wait"
alive 2
are_ready() { [ "$(grep -c ready "$scratch/out")" -eq 2 ]; }
comes are_ready || fail "the ranks are not ready"
kill -USR1 "$job"
ends 0
[ "$(grep -c 'got it' "$scratch/out")" -eq 2 ] || fail "SIGUSR1 did not reach both ranks"
# The second Ctrl-C kills a process that ignores the first.
start "$BANYAN" run -n 2 -- sh -c "trap '' INT; echo ready; sleep $odd; sleep $odd"
alive 2
kill -INT "$job"
sleep 0.3
alive 2
kill -INT "$job"
ends 130
left 0
# So does the time of --grace, whichever signal it was, also what has left the ranks' process groups.
for signal in 1 2 15; do
  start "$BANYAN" run -n 2 --grace 0.3 -- sh -c "trap '' HUP INT TERM; setsid sleep $odd & sleep $odd; sleep $odd"
  alive 4
  kill -$signal "$job"
  ends $((128 + signal))
  shows '^banyan run: 2 ranks did not end within 0.3 s \(--grace\): killing them$' err
  shows "^banyan run: ended by signal $signal " err
  left 0
done
# A rank that is stopped, and a host whose banyan run-host is.
for which in rank host; do
  start "$BANYAN" run -n 1 --grace 0.3 -- sleep "$odd"
  alive 1
  case $which in
  rank) kill -STOP "$(pgrep -f "^sleep $odd")" ;;
  host) kill -STOP "$(pgrep -P "$job")" ;;
  esac
  kill -TERM "$job"
  ends 143
  left 0
done
# A reader that does not read.
mkfifo "$scratch/fifo"
exec 9<>"$scratch/fifo"
"$BANYAN" run -n 2 --grace 0.3 -- sh -c "trap '' TERM; yes & sleep $odd" >&9 2>"$scratch/err" </dev/null &
job=$!
alive 2
kill -TERM "$job"
ends 143
exec 9>&-
left 0
# timeout(1) sends its signal to its child and to its process group: that is one request.
start timeout 100 "$BANYAN" run -n 1 -- sh -c "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; sleep $odd & wait"
is_ready() { has ready out; }
comes is_ready || fail "the rank is not ready"
kill -TERM "$job"
wait "$job" || true
shows 'saved$' out
left 0
# nohup
start nohup "$BANYAN" run -n 1 -- sleep "$odd"
alive 1
kill -HUP "$job"
kill -TERM "$job"
ends 143

# --- nothing is left over
family="sleep $odd & setsid sleep $odd & (setsid sh -c 'sleep $odd; true' &) ; sleep $odd"
start "$BANYAN" run -n 2 -- bash -c "$family"
alive 8
kill -KILL "$job"
ends 137
left 0
start "$BANYAN" run -n 2 -- bash -c "$family"
alive 8
kill -TERM "$job"
wait "$job" || true
left 0
wants 0 "$BANYAN" run -n 2 -- bash -c "setsid sleep $odd & sleep $odd & sleep 0.2"
left 0
# If the helper process of a host is killed, its ranks die with it and the launcher reports it.
start "$BANYAN" run -n 2 -- sleep "$odd"
alive 2
kill -KILL "$(pgrep -P "$job")"
ends 1
shows 'connection lost \(killed by signal 9' err
left 0
# So do the processes that the ranks have started, whichever of the two helper processes is killed.
for generation in 1 2; do
  start "$BANYAN" run -n 2 -- bash -c "$family"
  alive 8
  helper=$(pgrep -P "$job")
  [ $generation -eq 1 ] || helper=$(pgrep -P "$helper")
  kill -KILL "$helper"
  ends 1
  shows 'connection lost \(killed by signal 9' err
  left 0
done

# --- plans that are made at the start
wants 0 env BANYAN_LOG=info "$BANYAN" run -n 4 --transport tcp --topology star:4,nic=1g -- "$BANYAN" bench -s 8,1M --iterations 2
shows 'planned from the topology in [0-9.]+ s: 667 Mbit/s of at most 667 Mbit/s' err
shows ' 1048576 +2 .* 0  .+$' out
wants 0 env BANYAN_LOG=info "$BANYAN" run -n 4 --transport tcp --topology star:4 --plan ring -- "$BANYAN" bench -s 8 --iterations 2
! grep -q "planned from the topology" "$scratch/err" || fail "a plan was given, but it planned"
wants 0 env BANYAN_LOG=info "$BANYAN" run -n 3 --transport tcp --topology measure -- "$BANYAN" bench -s 8,1M --iterations 2
shows '3 hosts measured, [0-9]+ experiments' err
shows 'planned from the topology in ' err
wants 0 "$BANYAN" run -n 2 --topology star:2 -- "$BANYAN" bench -s 8 --iterations 2
shows 'the topology is not used: all ranks are on one host' err
wants 1 "$BANYAN" run -n 3 --transport tcp --topology star:4 -- "$BANYAN" bench -s 8 --iterations 2
shows 'rank 0 .* could not plan from the topology: .*4 hosts take part in it, but the job has 3' err

# Hosts are the nodes of their names, without case and by the first label; which ones they are by position is reported.
echo '{"format": "banyan-topology 1", "nodes": ["gpu-b", "gpu-a.x.org", "gpu-c", "gpu-d.x.org", "gpu-d.y.org"], "links": [
  {"a": "gpu-b", "b": "gpu-a.x.org", "capacity": "1g"}, {"a": "gpu-b", "b": "gpu-c", "capacity": "1g"},
  {"a": "gpu-b", "b": "gpu-d.x.org", "capacity": "1g"}, {"a": "gpu-b", "b": "gpu-d.y.org", "capacity": "1g"}]}' >"$scratch/gpus.json"
# named HOST...: runs a rank of each host over this topology.
named() {
  local names=$*
  # shellcheck disable=SC2016 # the ranks' shells expand it
  NAMES=$names "$BANYAN" run -n $# --topology "$scratch/gpus.json" -- \
    sh -c 'set -- "$0" $NAMES; eval "BANYAN_HOST=\${$((BANYAN_RANK + 2))}" exec "$1" bench -s 8 --iterations 2' "$BANYAN"
}
BANYAN_LOG=info wants 0 named GPU-A gpu-b.x.org GPU-C
shows 'planned from the topology in ' err
! grep -q 'taken in order' "$scratch/err" || fail "hosts are not known by their names"
wants 0 named a b c d e
shows 'they are taken in order: a is gpu-b, b is gpu-a.x.org, c is gpu-c, d is gpu-d.x.org, e is gpu-d.y.org' err
wants 1 named gpu-a GPU-D
shows '"GPU-D", a host of the job, may be several nodes of the topology' err
wants 1 named gpu-c.x gpu-c.y gpu-b
shows '"gpu-c.x" and "gpu-c.y" would both be node "gpu-c" of the topology' err

# Rank 0 reports the plan in use once, and different plans of ranks are reported by rank and plan.
BANYAN_LOG=plan:info wants 0 "$BANYAN" run -n 3 --plan ring -- "$BANYAN" bench --sizes 8 --iterations 1 --warmup 0
[ "$(grep -c "plan 'ring' (built-in, supplied by the user)" "$scratch/err")" -eq 1 ] || fail "the log does not name the plan"
BANYAN_LOG=plan:info wants 0 "$BANYAN" run -n 3 -- "$BANYAN" bench --sizes 8 --iterations 1 --warmup 0
[ "$(grep -c "plan 'default' (built-in; .* beyond)" "$scratch/err")" -eq 1 ] || fail "the log does not describe the default plan"
wants 1 "$BANYAN" run -n 3 -- sh -c 'BANYAN_PLAN=ring; [ "$BANYAN_RANK" != 2 ] || BANYAN_PLAN=star; export BANYAN_PLAN
  exec "$0" bench --sizes 8 --iterations 1' "$BANYAN"
shows "plans differ between ranks: rank 2 \(host .*\) was given plan 'star' \(version .*\), rank 0 \(host .*\) plan 'ring'" err
wants 1 "$BANYAN" run -n 3 -- sh -c '[ "$BANYAN_RANK" = 1 ] || export BANYAN_PLAN=ring
  exec "$0" bench --sizes 8 --iterations 1' "$BANYAN"
shows "plans differ between ranks: rank 1 \(host .*\) was given no plan, rank 0 \(host .*\) plan 'ring'" err

# MPI makes each rank of an MPI program a job of its own under `banyan run`, which says so.
program=$BANYAN_BUILD/tests/mpi/collectives_openmpi
if [ -x "$program" ]; then
  "$BANYAN" run -n 2 --timeout 20s -- "$program" >"$scratch/out" 2>"$scratch/err"
  shows "^banyan run: $program is an MPI program: .*start it with .banyan mpirun -n 2 $program.$" err
fi
wants 0 "$BANYAN" run -n 2 -- true
! grep -q 'MPI program' "$scratch/err" || fail "true is taken for an MPI program"
