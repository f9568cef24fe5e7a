#!/bin/bash
# Tests that no process of a job shows a key, in its command line, its environment or its log: with ranks started here,
# through ssh, again after a death, and below programs that close descriptors; and of helpers and servers.
. "$BANYAN_SOURCE/tests/shell.sh"

cat >"$scratch/ssh" <<'SSH'
#!/bin/sh
shift
exec env -i PATH="$PATH" sh -c "$*"
SSH
# A rank that keeps the key's digits where the test finds them, and stays while the test looks.
cat >"$scratch/rank" <<'RANK'
#!/bin/sh
tr _ '\n' <"$BANYAN_KEY_FILE" | grep -E '^[0-9a-f]{64}$' >"$FOLDER/.key.$BANYAN_RANK" || exit 3
[ -z "$BANYAN_SWITCH_KEY_FILE" ] || tr _ '\n' <"$BANYAN_SWITCH_KEY_FILE" | grep -E '^[0-9a-f]{64}$' >"$FOLDER/switch.$BANYAN_RANK" || exit 3
[ -z "$BANYAN_IDENTITY_FILE" ] || tr _ '\n' <"$BANYAN_IDENTITY_FILE" | grep -E '^[0-9a-f]{64}$' >"$FOLDER/identity.$BANYAN_RANK" || exit 3
mv "$FOLDER/.key.$BANYAN_RANK" "$FOLDER/key.$BANYAN_RANK"
echo $$ >"$FOLDER/started.$BANYAN_RANK.$$"
"$@" || exit
until [ -e "$FOLDER/go" ]; do sleep 0.05; done
RANK
chmod +x "$scratch/ssh" "$scratch/rank"
export FOLDER=$scratch/job BANYAN_LOG=debug

links=()
at_end() {
  [ -z "${job-}" ] || kill "$job" 2>/dev/null || true
  rm -f "${links[@]}"
}
begin() { # RUN-OPTION...
  rm -rf "$FOLDER"
  mkdir "$FOLDER"
  "$BANYAN" run -x FOLDER -x BANYAN_LOG "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
}
started() { [ "$(find "$FOLDER" -name 'started.*' | wc -l)" -ge "$1" ]; }
# hidden WHAT: the key is nowhere to be seen, but in the ranks' own files.
hidden() {
  local found
  cat "$FOLDER"/key.* | sort -u >"$scratch/digits"
  [ "$(wc -l <"$scratch/digits")" -eq 1 ] || fail "$1: the ranks have different keys"
  # Only rank 0 has the secret of an identity.
  [ "$(cd "$FOLDER" && echo identity.*)" = identity.0 ] || fail "$1: there is more or less than one identity"
  cat "$FOLDER/identity.0" >>"$scratch/digits"
  [ ! -e "$FOLDER/switch.0" ] || cat "$FOLDER/switch.0" >>"$scratch/digits"
  # Without a match grep fails, and so it does where a process ends meanwhile.
  found=$(grep -slF -f "$scratch/digits" /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true)
  [ -z "$found" ] || fail "$1: the key is in $found"
  found=$(grep -slzE '^BANYAN_KEY=' /proc/[0-9]*/environ || true)
  for file in $found; do
    ! grep -qzxF "FOLDER=$FOLDER" "$file" 2>/dev/null || fail "$1: $file has BANYAN_KEY"
  done
  ! grep -qF -f "$scratch/digits" "$scratch/out" "$scratch/err" || fail "$1: the key is in the log"
  # Tickets, and the key of tickets, are found by what they begin with: none is anywhere.
  found=$(grep -slE 'banyan_ticket_[0-9a-f]{8}|tickets:[0-9a-f]{8}' /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true)
  [ -z "$found" ] || fail "$1: a ticket is in $found"
  ! grep -qE 'banyan_ticket_[0-9a-f]{8}|tickets:[0-9a-f]{8}' "$scratch/out" "$scratch/err" || fail "$1: a ticket is in the log"
}
ends() { # WHAT
  touch "$FOLDER/go"
  wait "$job" || fail "$1: the job failed"
  job=
  hidden "$1"
}
bench=("$BANYAN" bench allreduce -s 8 --iterations 3 --check all)

begin -n 2 -- "$scratch/rank" "${bench[@]}"
comes started 2 || fail "no ranks"
hidden "run"
# What looks finds what is to be seen: the ranks' variables.
grep -qzxE 'BANYAN_KEY_FILE=/proc/[0-9]+/fd/[0-9]+' "/proc/$(cat "$FOLDER"/started.0.*)/environ" || fail "no rank was looked at"
ends "run"
grep -q 'shaking hands' "$scratch/err" || fail "the log is not verbose"

begin --ssh "$scratch/ssh" -H a:1,b:1 -- "$scratch/rank" "${bench[@]}"
comes started 2 || fail "no ranks through ssh"
hidden "ssh"
ends "ssh"

# The secret of switches, which a job may have beside its key.
"$BANYAN" keys job "$scratch/switches.key"
begin -n 2 -x "BANYAN_SWITCH_KEY_FILE=$scratch/switches.key" -- "$scratch/rank" "${bench[@]}"
comes started 2 || fail "no ranks with a secret of switches"
for rank in 0 1; do grep -qF "$(cat "$FOLDER/switch.$rank")" "$scratch/switches.key" || fail "rank $rank has another secret"; done
hidden "the secret of switches"
ends "the secret of switches"

# A rank that is started again has the key, too.
begin -n 2 --restarts 1 -- "$scratch/rank" true
comes started 2 || fail "no ranks to restart"
kill -KILL "$(cat "$FOLDER"/started.1.*)"
comes started 3 || fail "the rank is not started again"
hidden "restarts"
ends "restarts"

# Whether a host's second process has started this command of ours.
runs() { # COMMAND
  pgrep -P "$(pgrep -d, -P "$(pgrep -d, -P "$job")")" -f "^/proc/self/exe $1" >/dev/null
}

# Helpers, whose key is another one.
"$BANYAN" plan star:2,nic=1g,helpers=1 --helpers helper0 --json >"$scratch/helped.json"
begin -n 2 --helpers 1 --transport tcp --plan "$scratch/helped.json" -- \
  "$scratch/rank" "$BANYAN" bench allreduce -s 8 --iterations 20000 --check all
comes started 2 || fail "no ranks with a helper"
comes runs helper || fail "no helper"
hidden "helpers"
ends "helpers"

# Servers, likewise.
cat >"$scratch/served.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "served", "ranks": 2, "vertices": {"h/0": {"kind": "server"}},
 "trees": [{"share": 0.5, "root": "h/0", "up": {"0": "h/0", "1": "h/0"}}, {"share": 0.5, "root": "0", "up": {"1": "0"}}]}
PLAN
begin -n 2 --servers 1 --transport tcp --plan "$scratch/served.json" -- \
  "$scratch/rank" "$BANYAN" bench allreduce -s 8 --iterations 500 --check all
comes started 2 || fail "no ranks with a server"
comes runs server || fail "no server"
hidden "servers"
ends "servers"

# Switches, which have a secret together with the job. Its sums go through one.
if unshare -n ip tuntap add dev t0 mode tun 2>/dev/null && command -v python3 >/dev/null; then
  rm -rf "$FOLDER"
  mkdir "$FOLDER"
  "$BANYAN" lab "$BANYAN_SOURCE/examples/topologies/adding-1.json" --switches user -x FOLDER -x BANYAN_LOG -x BANYAN_CACHE=off -- \
    "$scratch/rank" "$BANYAN" bench allreduce -s 256K --iterations 3 --check all >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
  comes started 4 || fail "no ranks at a switch: $(cat "$scratch/err")"
  pgrep -P "$(pgrep -d, -P "$job")" -f ' switch --user' >/dev/null || fail "no switch"
  for rank in 0 1 2 3; do [ -s "$FOLDER/switch.$rank" ] || fail "rank $rank has no secret of switches"; done
  hidden "switches"
  ends "switches"
  grep -q 'sums over .* as tree ' "$scratch/err" || fail "no sums at the switch"
fi

# Python closes descriptors that its children do not ask for.
if command -v python3 >/dev/null; then
  begin -n 2 -- python3 -c 'import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))' "$scratch/rank" "${bench[@]}"
  comes started 2 || fail "no ranks below Python"
  hidden "python"
  ends "python"
fi

# Ranks that torchrun started on one host need no setting; on several, they ask for a file. Links of other users do not
# matter, nor what a process left that was killed.
torch() { # RANK LOCAL-SIZE COMMAND...
  env RANK="$1" WORLD_SIZE=2 LOCAL_WORLD_SIZE="$2" MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) \
    TORCHELASTIC_RUN_ID="test $$" BANYAN_LOG=warn "${@:3}"
}
"$BANYAN" keys job "$scratch/foreign"
digest=$(printf 'torchrun test %d %d ' $$ $((20000 + $$ % 10000)) | sha256sum | cut -c1-16)
links=("/dev/shm/banyan-$(id -u)-$digest"-{0,f}000000000000000)
ln -s /proc/1/fd/999999 "${links[0]}"
if [ "$(id -u)" = 0 ]; then
  ln -s "$scratch/foreign" "${links[1]}"
  chown -h 65534 "${links[1]}"
  touch -h -d '+1 hour' "${links[1]}" # newer than rank 0's
fi
torch 1 2 "${bench[@]}" >"$scratch/other" 2>&1 &
other=$!
wants 0 torch 0 2 "${bench[@]}"
wait "$other" || fail "rank 1 of torchrun: $(cat "$scratch/other")"
for r in 0 1; do
  wants 1 torch $r 1 "${bench[@]}"
  shows 'this job has 2 ranks but no key.*BANYAN_KEY_FILE=FILE' err
done

# --- key files
"$BANYAN" keys job "$scratch/key"
[ "$(stat -c %a "$scratch/key")" = 600 ] || fail "the file is open to others"
wants 1 "$BANYAN" keys job "$scratch/key"
shows 'force' err
wants 0 "$BANYAN" run -n 2 -x BANYAN_KEY_FILE="$scratch/key" -- sh -c 'tr -d "\n" <"$0" | cmp - "$BANYAN_KEY_FILE"' "$scratch/key"
chmod 640 "$scratch/key"
wants 2 "$BANYAN" run -n 2 -x BANYAN_KEY_FILE="$scratch/key" -- true
shows "key file $scratch/key: others may read .*mode 640.*chmod 600" err
wants 2 "$BANYAN" run -n 2 -x BANYAN_KEY=secret -- true
shows '^banyan run: .*all users of this host can read command lines' err
wants 1 env BANYAN_RANK=0 BANYAN_SIZE=2 BANYAN_ROOT=127.0.0.1:1 BANYAN_KEY=secret "${bench[@]}"
shows 'not a generated one.*banyan keys job FILE' err
wants 1 env BANYAN_RANK=0 BANYAN_SIZE=2 BANYAN_ROOT=127.0.0.1:1 "${bench[@]}"
shows 'this job has 2 ranks but no key.*banyan keys job FILE' err
