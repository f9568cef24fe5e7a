#!/bin/bash
# Tests `banyan run` through ssh, with a script in place of ssh that runs the command here: starting, a key that stays
# secret, and all kinds of ends.
. "$BANYAN_SOURCE/tests/shell.sh"

cat >"$scratch/ssh" <<'END'
#!/bin/sh
# This replaces ssh -p 22 HOST COMMAND, and behaves as sshd does, with a clean environment and in the home folder.
[ "$1 $2" = "-p 22" ] || { echo "called with $*" >&2; exit 255; }
shift 2
host=$1
shift
[ "$host" = refused ] && { echo "ssh: connect to host refused: Connection refused" >&2; exit 255; }
[ "$host" = deaf ] && exec sleep 600
echo "Welcome to $host."
cd / && exec env -i PATH="$PATH" HOME=/ LOGIN="$host" sh -c "$*"
END
chmod +x "$scratch/ssh"
ssh="$scratch/ssh -p 22"

wants 0 env NOT_SENT=1 SENT=2 BANYAN_LOG=warn "$BANYAN" run --ssh "$ssh" -H a:2,user@b:1,localhost:1 -x SENT -x SPACE='x  y' -- \
  sh -c 'echo "$BANYAN_RANK/$BANYAN_SIZE $BANYAN_HOST $LOGIN $BANYAN_LOCAL_RANK/$BANYAN_LOCAL_SIZE $PWD .$NOT_SENT.$SENT.$SPACE.$BANYAN_LOG ${BANYAN_ROOT%%:*}"' \
  </dev/null
shows "^\[0\] 0/4 a a 0/2 $PWD \.\.2\.x  y\.warn a$" out
shows "^\[1\] 1/4 a a 1/2 $PWD \.\.2\.x  y\.warn a$" out
shows "^\[2\] 2/4 b user@b 0/1 $PWD \.\.2\.x  y\.warn a$" out
shows "^\[3\] 3/4 localhost  0/1 $PWD \.1\.2\.x  y\.warn a$" out
shows '^\[a\] Welcome to a\.$' err
# On other hosts "localhost" would mean another machine: they get the machine's addresses, and finally its name.
wants 0 "$BANYAN" run --ssh "$ssh" -H localhost,a -- sh -c 'echo $BANYAN_ROOT'
shows "^\[1\] .+:([0-9]+),$(hostname):\1#[0-9a-f]{64}$" out
! has '[ ,]localhost:' out || fail "ranks are to meet at localhost"

# The key is in no command line and in no environment, and all ranks have the same key.
"$BANYAN" run --ssh "$ssh" -H a:1,b:1 -- sh -c "echo \$(cat \$BANYAN_KEY_FILE); exec sleep $odd" >"$scratch/out" 2>"$scratch/err" &
job=$!
left 2
has_lines() { [ "$(wc -l <"$scratch/out")" -eq "$1" ]; }
comes has_lines 2 || fail "the ranks print nothing"
[ "$(cut -d' ' -f2 "$scratch/out" | sort -u | wc -l)" -eq 1 ] || fail "different keys"
key=$(awk 'NR == 1 {print $2}' "$scratch/out")
[ ${#key} -eq 84 ] || fail "no key"
seen=0
for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do
  text=$( (tr '\0' ' ' <"$file") 2>/dev/null || true)
  case $text in
  *run-host*) seen=1 ;;
  esac
  case $text in
  *"$key"*) fail "the key is visible: $text" ;;
  esac
done
[ $seen = 1 ] || fail "looked at the wrong processes"
kill -TERM "$job"
wait "$job" || true
left 0

# Ranks end when their connection does, and ranks on other hosts end when a rank does.
"$BANYAN" run --ssh "$ssh" -H a:2,b:2 -- bash -c "setsid sleep $odd & exec sleep $odd" >"$scratch/out" 2>"$scratch/err" &
job=$!
left 8
kill -KILL "$job"
wait "$job" || true
left 0
wants 137 "$BANYAN" run --ssh "$ssh" -H a:2,b:2 -- sh -c "[ \$BANYAN_RANK = 3 ] && kill -9 \$\$; exec sleep $odd"
shows '^banyan run: rank 3 on host b: killed by signal 9 \(Killed\)$' err
left 0

# Ranks that ignore signals end when they have had their time, and on hosts that do not answer any more.
for frozen in 0 1; do
  "$BANYAN" run --ssh "$ssh" -H a:1,b:1 --grace 0.3 -- sh -c "trap '' HUP INT TERM; sleep $odd; sleep $odd" >"$scratch/out" 2>"$scratch/err" &
  job=$!
  left 2
  [ $frozen = 0 ] || kill -STOP $(pgrep -P "$job")
  kill -HUP "$job"
  got=0
  wait "$job" || got=$?
  [ $got = 129 ] && shows '2 ranks did not end within 0.3 s' err || fail "ended with $got"
  left 0
done

# Unusable hosts are named, and nothing is left over.
wants 1 "$BANYAN" run --ssh "$ssh" -H a:2,refused:2 -- sleep "$odd"
shows '^\[refused\] ssh: connect to host refused: Connection refused$' err
shows '^banyan run: host refused: could not be reached.*exit code 255' err
left 0
wants 1 "$BANYAN" run --ssh "$ssh" -H a:2 --remote "$scratch/no banyan's here" -- sleep "$odd"
shows '^banyan run: host a: banyan could not be started there.*--remote' err
wants 1 "$BANYAN" run --ssh "$ssh" -H a:2 --remote true -- sleep "$odd"
shows '^banyan run: host a: the command there ended without an answer.*--remote' err
wants 1 "$BANYAN" run --ssh "$scratch/no-ssh -v" -H a:2 -- sleep "$odd"
shows 'cannot run .*/no-ssh: No such file' err
shows '^banyan run: host a: could not be reached; see the messages above' err
wants 1 "$BANYAN" run --ssh "$ssh" -H a:1,deaf:1 --start-timeout 3 -- sleep "$odd"
shows 'host deaf: no answer \(--start-timeout\)' err
left 0
wants 2 "$BANYAN" run --ssh " " -H a:1 -- true
# Rank 0's host leaves when it has no such command: until then the others have found its address.
wants 127 "$BANYAN" run --ssh "$ssh" -H a:1,b:1,c:1 -- no-such-command
shows '^banyan run: host [abc]: cannot run no-such-command' err
! has 'was not reached' err || fail "a host looked for rank 0's host too late"
# A shell would split this path.
mkdir "$scratch/it's a folder"
ln -s "$BANYAN" "$scratch/it's a folder/banyan"
wants 0 "$BANYAN" run --ssh "$ssh" -H a:1 --remote "$scratch/it's a folder/banyan" -- echo fine
shows '^\[0\] fine$' out
# Much output travels through frames.
wants 0 "$BANYAN" run --ssh "$ssh" -H a:2,b:2 -- sh -c 'seq 1 50000'
awk '{if ($2 != ++n[$1]) exit 1} END {if (NR != 200000) exit 1}' "$scratch/out" || fail "lines"
# So does what a rank printed before it crashed, line by line.
wants 137 "$BANYAN" run --ssh "$ssh" -H a:1 -- "$CRASH" lines
[ "$(grep -c '^\[0\] line .$' "$scratch/out")" = 5 ] || fail "lines are lost"
# An address of this machine is here, also where its interface carries nothing just now.
if unshare -rn ip link add one type veth peer name two 2>/dev/null; then
  wants 0 unshare -rn sh -c 'ip link set lo up && ip link add one type veth peer name two &&
    ip addr add 192.0.2.9/24 dev one && exec "$@"' sh "$BANYAN" run --ssh false -H 192.0.2.9 -- echo here
  shows '^\[0\] here$' out
fi
