# shellcheck shell=bash
# Sourced by the scripts of tests/net and tests/e2e: `. "$BANYAN_SOURCE/tests/shell.sh"`.
# Gives them a folder $scratch of their own, gone when they end, and the words below.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Ends the test: it failed, or it cannot run here and why.
fail() { echo "failed: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

# wants STATUS COMMAND...: runs it into $scratch/out and $scratch/err; its exit code must be STATUS.
wants() {
  local wanted=$1 got=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
  [ "$got" -eq "$wanted" ] && return
  sed 's/^/  out: /' "$scratch/out"
  sed 's/^/  err: /' "$scratch/err"
  fail "$* ended with $got, not $wanted"
}

# A process of a test of launchers is known by the number of seconds it sleeps.
odd=$((100000 + $$))
# left N: so many of these sleepers live, waiting up to 10 s for that.
left() {
  local n i
  for ((i = 0; i < 100; i++)); do
    n=$(pgrep -fc "^sleep $odd" || true)
    [ "$n" -eq "$1" ] && return
    sleep 0.1
  done
  pgrep -fa "sleep $odd" >&2 || true
  fail "$n processes are there, not $1"
}

# shows PATTERN FILE: some line of $scratch/FILE matches.
shows() {
  grep -qE -- "$1" "$scratch/$2" && return
  sed "s/^/  $2: /" "$scratch/$2"
  fail "$2 does not show: $1"
}
