#!/bin/bash
# Tests of `banyan run`: files for the output of each rank, jobs that go on when a rank fails, and dry runs.
. "$BANYAN_SOURCE/tests/shell.sh"
cd "$scratch" || exit
unset OMP_NUM_THREADS # which is set where there is none

# --- a folder: the output as it is, beside what the terminal shows
wants 0 "$BANYAN" run -n 3 --helpers 1 --output-files logs/today -- sh -c 'printf "a\rb %s" $BANYAN_RANK; echo bad >&2'
for rank in 0 1 2; do
  [ "$(od -An -c "logs/today/rank-$rank.out" | tr -d ' ')" = "a\\rb$rank" ] || fail "rank-$rank.out is not what it printed"
  [ "$(cat "logs/today/rank-$rank.err")" = bad ] || fail "rank-$rank.err is not what it printed"
  shows "^\\[$rank\\] bad$" err
done
[ "$(ls logs/today)" = "$(printf '%s\n' helper-0.err helper-0.out rank-{0,1,2}.{err,out})" ] || fail "other files: $(ls logs/today)"
# Files of an earlier run are replaced; with -o none nothing is shown.
wants 0 "$BANYAN" run -n 2 -o none --output-files logs/today/ -- sh -c 'echo $BANYAN_SIZE'
[ ! -s out ] && [ ! -s err ] || fail "-o none shows something"
[ "$(cat logs/today/rank-1.out)" = 2 ] && [ ! -s logs/today/rank-1.err ] || fail "a file was not replaced"

# --- what a program printed before it crashed is not lost, and is no other for it
unset PYTHONUNBUFFERED _STDBUF_O
seq -f 'line %g' 5 >five
python='import os; [print("line", i) for i in range(1, 6)]; os.kill(os.getpid(), 9)'
keeps_lines() { # keeps_lines COMMAND...: what it prints is shown, and is in a file
  wants 137 "$BANYAN" run -n 1 -o rank0 --output-files crash -- "$@"
  cmp five out && cmp five crash/rank-0.out || fail "lines are lost that $1 printed"
}
keeps_lines "$CRASH" lines
keeps_lines python3 -c "$python"
wants 137 "$BANYAN" run -H localhost,127.0.0.1 -k -- sh -c 'echo bad >&2; "$CRASH" lines; kill -9 $$'
for rank in 0 1; do
  [ "$(grep -c "^\\[$rank\\] line .$" out)" = 5 ] && shows "^\\[$rank\\] bad$" err || fail "lines of rank $rank are lost"
done
{ head -c $((10 << 20)) /dev/urandom; echo; } >bytes
wants 137 "$BANYAN" run -n 1 -o rank0 --output-files crash -- "$CRASH" bytes bytes
cmp bytes out && cmp bytes crash/rank-0.out || fail "bytes are changed"
# On a terminal, a line is begun whose end does not come.
script -qec '"$BANYAN" run -n 1 -- sh -c "printf 1..; until [ -e go ]; do sleep 0.05; done; echo .2"' /dev/null >shown </dev/null &
comes grep -q '^\[0\] 1\.\.$' shown || fail "the beginning of a line is not shown"
touch go
wait "$!"
grep -q '^\[0\] 1\.\.\.2' shown || fail "a line was cut"
# What the user has set stays, and the other libraries come first.
variables='$_STDBUF_O,$PYTHONUNBUFFERED,$LD_PRELOAD,$ASAN_OPTIONS'
wants 0 "$BANYAN" run -n 1 -o raw -x LD_PRELOAD=libm.so.6 -x ASAN_OPTIONS=a=1 -- sh -c "echo $variables"
shows '^L,1,libm.so.6:/.*/libstdbuf.so,verify_asan_link_order=0:a=1$' out
wants 0 "$BANYAN" run -n 1 -o raw -x LD_PRELOAD= -x ASAN_OPTIONS= -x PYTHONUNBUFFERED= -x _STDBUF_O=9 -- sh -c "echo $variables"
shows '^9,,,$' out

# --- patterns
wants 0 "$BANYAN" run -H localhost:1,127.0.0.1:1 --output-files 'by/%h/100%%-%r' -- sh -c 'echo $BANYAN_HOST'
[ "$(cat by/127.0.0.1/100%-1.out)" = 127.0.0.1 ] || fail "the pattern was not followed"
wants 0 "$BANYAN" run -H localhost:1,127.0.0.1:1 --output-files 'by/%h' -- sh -c 'echo $BANYAN_HOST'
[ "$(cat by/localhost.out)" = localhost ] || fail "one file a host"
wants 2 "$BANYAN" run -H localhost:2,127.0.0.1:1 --output-files 'by/%h' -- true
shows "several processes would overwrite each other's by/localhost.out; add %r" err
wants 2 "$BANYAN" run -n 1 --max 2 --output-files '%h' -- true
shows 'lacks %r' err
wants 2 "$BANYAN" run -n 1 --output-files 'a%x' -- true
shows '"%x" in "a%x" is unknown; there are %r .*%h .*%%' err
wants 2 "$BANYAN" run -n 1 --output-files 'a%' -- true
wants 2 "$BANYAN" run -n 1 --output-files '%r/' -- true
shows 'names no file: write %r/%r' err
wants 2 "$BANYAN" run -n 1 --output-files '' -- true
wants 2 "$BANYAN" run -n 1 -o none -- true
shows 'would lose what ranks print: give --output-files' err

# --- files that cannot be written: nothing is started; on a full disk the job goes on, and shows the rest
echo >file
wants 1 "$BANYAN" run -n 1 --output-files file/logs -- touch started
shows '^banyan run: cannot create the folder file/?.*: ' err
wants 1 "$BANYAN" run -n 1 --output-files logs/today/rank-0.out/%r -- touch started
wants 1 bash -c 'ulimit -n 24; exec "$0" run -n 40 --output-files many -- touch started' "$BANYAN"
shows 'Too many open files; each process needs two: raise the limit \(ulimit -n\)$' err
[ ! -e started ] || fail "a job was started whose output cannot be kept"
mkdir full
ln -s /dev/full full/rank-0.out
wants 1 "$BANYAN" run -n 2 -o none --output-files full -- sh -c 'echo one; sleep 0.1; echo two; [ $BANYAN_RANK = 0 ] || exit 0'
[ "$(grep -c 'cannot write full/rank-0.out: No space left on device; the file is incomplete: free space' err)" = 1 ] || fail "a full disk is not reported once"
[ "$(grep -c '^\[0\] ' out)" = 2 ] && ! grep -q '^\[1\]' out || fail "what the file lacks is not shown"
[ "$(cat full/rank-1.out)" = "one
two" ] || fail "the other file is not complete"
wants 5 "$BANYAN" run -n 1 --output-files full -- sh -c 'echo one; exit 5'

# --- the log of each rank in a file of its own
hello=$BANYAN_BUILD/examples/hello
wants 0 env BANYAN_LOG_FILE='log-%h-%r' "$BANYAN" run -v -n 2 -- "$hello"
for rank in 0 1; do grep -qE "^2[-0-9]{9}T[:0-9]{8}\.[0-9]{3}Z banyan\[rank $rank\] net: link" "log-$(hostname)-$rank" || fail "no log of rank $rank"; done
[ ! -s err ] || fail "lines of the log are not in its file: $(cat err)"
wants 0 "$BANYAN" run -v -n 2 -x BANYAN_LOG_FILE=none/%r -- "$hello"
shows 'BANYAN_LOG_FILE is not used: none/1: its folder does not exist: create it; standard error has the log$' err
shows '\[rank 1\] net: link' err
wants 0 "$BANYAN" run -n 1 -x BANYAN_LOGFILE=x -- "$hello"
shows 'did you mean BANYAN_LOG_FILE\?' err

# --- a level that is none is reported once, whoever would log
for level in foo info,foo; do
  wants 0 env BANYAN_LOG=$level "$BANYAN" run -v -n 3 --transport tcp -- "$hello"
  [ "$(grep -c 'log level "foo"' err)" = 1 ] || fail "a level that is none is not reported once: $(cat err)"
  shows '^banyan run: BANYAN_LOG: log level "foo": write .*; it is ignored$' err
  shows '\[rank 1\] net: link' err # -v counts all the same
done
wants 2 "$BANYAN" run -n 1 -x BANYAN_LOG=foo -- true
shows '^banyan run: -x: BANYAN_LOG: log level "foo": write error' err

# --- jobs that go on
wants 3 "$BANYAN" run -n 3 -k --report-time 0 -- sh -c '[ $BANYAN_RANK != 1 ] || exit 3; sleep 0.3; echo done; [ $BANYAN_RANK != 2 ] || kill -9 $$'
[ "$(grep -c 'done$' out)" = 2 ] || fail "the other ranks did not go on"
shows '^banyan run: rank 1 on host .*: exit code 3$' err
shows '^banyan run: rank 2 on host .*: killed by signal 9' err
wants 0 "$BANYAN" run -n 2 --keep-going -- true
wants 124 "$BANYAN" run -n 2 --keep-going --timeout 0.3 -- sh -c 'exec sleep 60'
# A lost host is a failure, too, and the others go on.
wants 1 "$BANYAN" run -H localhost:1,127.0.0.1:1 -k -- sh -c '[ $BANYAN_RANK = 0 ] && sleep 0.5 && echo done && exit
  kill -9 $PPID; sleep 60'
shows '^\[0\] done$' out
shows 'host 127.0.0.1: connection lost' err
for option in --min=1 --max=2 --restarts=1; do
  wants 2 "$BANYAN" run -n 1 $option --keep-going -- true
  shows 'keep-going and --min, --max or --restarts exclude each other' err
done

# --- commands that cannot be run
echo 'print(1)' >script.py
wants 126 "$BANYAN" run -n 2 -- ./script.py
shows 'cannot run ./script.py: Permission denied: it is not executable; chmod \+x it, or give its interpreter, as in: python3 FILE$' err
wants 127 "$BANYAN" run -n 2 -- no-such-command
shows 'cannot run no-such-command: No such file or directory: it is not in PATH$' err
wants 127 "$BANYAN" run -n 2 -- script.py
shows 'cannot run script.py: .*: it is not in PATH; write ./ in front of it for the one in this folder$' err
# As in labs, "banyan" is this program where there is no other one.
wants 0 env PATH=/usr/bin:/bin "$BANYAN" run -n 2 -o raw -- banyan --version
[ "$(grep -c '^banyan [0-9]' out)" -eq 2 ] || fail "banyan was not run twice"

# --- dry runs
wants 0 "$BANYAN" keys job switches.key
BANYAN_SWITCH_KEY=$(grep -v '^#' switches.key)
export BANYAN_SWITCH_KEY SITE_TOKEN=geheim BANYAN_PLAN=star BANYAN_HELPERS=deadline=20
wants 0 "$BANYAN" run -H localhost:2,far.example:1 --helpers 1 --pin --dry-run --output-files 'x/%r' -p ring -x SITE_TOKEN \
  -x "WORDS=two words" --ssh 'ssh -p 23' --remote "/opt/it's" -- touch started "an argument"
[ ! -e started ] && [ ! -e x ] || fail "a dry run did something"
! grep -qe geheim -e "$BANYAN_SWITCH_KEY" out || fail "a dry run shows a secret"
shows '^nothing is started: a dry run of 3 ranks on 2 hosts, and 1 process beside them$' out
for line in '  BANYAN_SWITCH_KEY_FILE=\(a descriptor .*\)' '  SITE_TOKEN=\(not shown\)' '  BANYAN_PLAN=ring' "  WORDS='two words'" '  BANYAN_HELPERS=helpers=1,deadline=20' \
  '  BANYAN_KEY_FILE=\(a descriptor .*\)' 'host localhost, this machine' "  command: touch started 'an argument'" \
  '  rank 1: BANYAN_RANK=1 RANK=1 BANYAN_SIZE=3 WORLD_SIZE=3 BANYAN_LOCAL_RANK=1 .*LOCAL_WORLD_SIZE=2 OMP_NUM_THREADS=1 \(core 1\) >x/1.out 2>x/1.err' \
  'host far.example, reached by: ssh -p 23 far.example .*it.*s.* run-host.' '  helper 0: .* >x/helper-0.out 2>x/helper-0.err'; do
  shows "^$line$" out
done
! grep -q BANYAN_PLAN=star out || fail "a variable is shown that another one replaces"
# It is what ranks get: their variables, but for those that are made at the start.
unset SITE_TOKEN BANYAN_SWITCH_KEY BANYAN_HELPERS
wants 0 "$BANYAN" run -n 2 --dry-run -x "WORDS=two words" -- env
{ sed -n "s/^  //p" out | grep -E '^(BANYAN_|MASTER_|[A-Z]+_RANK|WORDS)' | grep -v '=(' | tr -d "'"; sed -n 's/^  rank 1: //p' out | tr ' ' '\n'; } | sort >shown
wants 0 env -u OMP_NUM_THREADS "$BANYAN" run -n 2 -o none --output-files env -x "WORDS=two words" -- env
grep -E '^(BANYAN_(PLAN|HOST|RANK|SIZE|LOCAL_RANK|LOCAL_SIZE)|(|LOCAL_|GROUP_|NODE_)RANK|(LOCAL_)?WORLD_SIZE|WORDS|OMP_NUM_THREADS)=' env/rank-1.out | sort >got
grep -vE '^BANYAN_(BUILD|SOURCE|TEST|SANITIZED|LIBRARY)' shown | cmp -s - got || fail "ranks got others than shown: $(diff shown got)"
wants 2 "$BANYAN" run -n 3 --dry-run -p nonesuch -- true
wants 1 bash -c '"$0" run -n 2 --dry-run -- true >/dev/full' "$BANYAN"
