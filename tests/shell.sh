# shellcheck shell=bash
# Sourced by the scripts of tests/net and tests/e2e: `. "$BANYAN_SOURCE/tests/shell.sh"`.
# Gives them a folder $scratch of their own, gone when they end, and the words below. A test that fails ends with what its
# commands wrote last and the line where it failed, also if that was in a $(...).
set -Eeuo pipefail
shopt -s inherit_errexit
scratch=$(mktemp -d)
export XDG_CACHE_HOME=$scratch/cache # what other tests measured must not change what this one plans
trap 'ended $?' EXIT
trap 'note "$BASH_COMMAND: exit code $?" "$LINENO"' ERR

# To be replaced by what undoes the test's deeds.
at_end() { :; }

# note TEXT [LINE]: why the test will have failed, if it does, with its lines that called each other.
note() {
  local i lines=${2-}
  for ((i = 0; i + 1 < ${#BASH_SOURCE[@]}; i++)); do
    [ "${BASH_SOURCE[i + 1]}" != "${BASH_SOURCE[0]}" ] || continue
    [ -n "${2-}" ] && [ "$i" -eq 0 ] || lines+=${lines:+ of }${BASH_LINENO[i]}
  done
  echo "failed: ${0##*/}:$lines: $1" >>"$scratch/.why"
}

last_lines() { # FILE: reports of sanitizers are long
  { grep -aEA 24 -m 1 'WARNING: ThreadSanitizer|ERROR: [A-Za-z]*Sanitizer|runtime error:' "$1" || tail -n 24 "$1"; } |
    cut -c1-400 | sed "s|^|  ${1##*/}: |"
}

ended() { # STATUS
  local file others
  trap - ERR
  set +e
  if [ "$1" -ne 0 ] && [ "$1" -ne 77 ]; then
    mapfile -t others < <(find "$scratch" -maxdepth 1 -type f ! -name '.*' ! -name out ! -name err -printf '%T@ %p\n' |
      sort -n | tail -n 2 | cut -d' ' -f2-)
    for file in "${others[@]}" "$scratch/out" "$scratch/err"; do [ ! -s "$file" ] || last_lines "$file"; done >&2
    [ ! -s "$scratch/.why" ] || cat "$scratch/.why" >&2
  fi
  at_end
  rm -rf "$scratch"
}

# Ends the test: it failed, or it cannot run here and why.
fail() { note "$*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

# needs_namespaces: skips the test unless network namespaces can be made and `ip` runs commands in them. In a chroot it does
# not, because it makes the mounts below "/" private, which is no mount point there.
needs_namespaces() {
  local name=banyan-try-$$ can=1
  ip netns add "$name" 2>"$scratch/err" || skip "network namespaces may not be made here: $(cat "$scratch/err")"
  ip netns exec "$name" true 2>"$scratch/err" || can=0
  ip netns del "$name"
  [ "$can" = 1 ] || skip "ip netns exec does not work here, as in a chroot: $(cat "$scratch/err")"
}

# Whether the build has a sanitizer in it, which makes it slow: then values are checked, but nothing that packets sent
# again, and so time, would change.
sanitized() { [ "${BANYAN_SANITIZED:-none}" != none ]; }

# comes COMMAND...: it succeeds sooner or later; in 240 s, which nothing takes but a fault.
comes() {
  local until=$((SECONDS + 240))
  until "$@"; do
    [ "$SECONDS" -lt "$until" ] || return
    sleep 0.05
  done
}

# wants STATUS COMMAND...: runs it into $scratch/out and $scratch/err; its exit code must be STATUS.
wants() {
  local wanted=$1 got=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
  [ "$got" -eq "$wanted" ] || fail "$* ended with $got, not $wanted"
}

# A process of a test of launchers is known by the number of seconds it sleeps.
odd=$((100000 + $$))
sleepers() { pgrep -fc "^sleep $odd" || true; }
are_left() { [ "$(sleepers)" -eq "$1" ]; }
# left N: so many of these sleepers live, sooner or later.
left() { comes are_left "$1" || fail "$(sleepers) processes are there, not $1: $(pgrep -fa "sleep $odd" || true)"; }

# has PATTERN FILE: some line of $scratch/FILE matches; shows: or the test fails.
has() { grep -qE -- "$1" "$scratch/$2" 2>/dev/null; }
shows() { has "$@" || fail "$2 does not show: $1"; }

# The process of a rank of this test's elastic job, whose ranks touch files in $scratch/steps.
process_of() { # RANK
  local file
  for file in $(grep -lzxE "BANYAN_LAUNCHER=.*:$1:[0-9]+" /proc/[0-9]*/environ 2>/dev/null || true); do
    ! grep -qzxF "BANYAN_TEST_TOUCH=$scratch/steps" "$file" 2>/dev/null || { basename "$(dirname "$file")"; return; }
  done
  fail "there is no rank $1"
}
