#!/bin/bash
# Tests what the shells complete, by calling their functions, and the manual pages, which say what --help says.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/dist/banyan.bash-completion"
compopt() { :; } # It only works while a shell completes.

# in_bash WORD...: prints what bash offers for the last word.
in_bash() {
  COMP_WORDS=("$BANYAN" "$@")
  COMP_CWORD=$#
  _banyan
  printf '%s\n' "${COMPREPLY[@]}"
}

# in_zsh WORD...: the same with zsh.
in_zsh() {
  zsh -f -c '
    compadd() { while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -S ]] && shift; shift; done; shift; print -rl -- $@; }
    _default() { :; }
    _files() { :; }
    file=$1; shift
    words=("$@"); CURRENT=$#; PREFIX=$words[CURRENT]
    . $file' - "$BANYAN_SOURCE/dist/_banyan" "$BANYAN" "$@" | grep -E -- "^${*: -1}" || true
}

# offers SHELL WORD...: what the shell completes has these lines, which standard input lists, each a whole line.
offers() {
  local shell=$1 word
  shift
  "in_$shell" "$@" >"$scratch/offered"
  while read -r word; do
    grep -qxF -- "$word" "$scratch/offered" || fail "$shell does not offer $word for: $* but: $(tr '\n' ' ' <"$scratch/offered")"
  done
}

shells=bash
command -v zsh >/dev/null && shells="bash zsh"
for shell in $shells; do
  offers "$shell" '' < <("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
  offers "$shell" help '' <<<variables
  printf '%s\n' init make show renew revoke job rotate | offers "$shell" keys ''
  printf '%s\n' allreduce sendrecv groups sparse | offers "$shell" bench ''
  offers "$shell" agent '' <<<status
  offers "$shell" manager '' <<<status
  offers "$shell" switch '' <<<status
  offers "$shell" bench groups -- <<<--groups
  offers "$shell" bench sparse -- <<<--height
  printf '%s\n' --sizes --format | offers "$shell" bench --
  printf '%s\n' auto shm tcp | offers "$shell" bench --transport ''
  printf '%s\n' table json nccl-tests | offers "$shell" bench --format ''
  printf '%s\n' ring tree halving | offers "$shell" run --plan ''
  offers "$shell" bench -p ri <<<ring
  printf '%s\n' ring double-tree | offers "$shell" plan --builtin ''
  printf '%s\n' star: clos: torus: | offers "$shell" lab ''
  printf '%s\n' star: clos: | offers "$shell" plan ''
done

# Every command has a page with the usual sections, in the order of man-pages(7), and no tool complains about it.
pages=$BANYAN_BUILD/docs/man
for page in "$pages"/banyan*.1; do
  if command -v man >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" >"$scratch/set" 2>"$scratch/complaints" || fail "man: $page"
    [ ! -s "$scratch/complaints" ] || fail "man on $page: $(head -3 "$scratch/complaints")"
  fi
  if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning "$page" >"$scratch/complaints" || true
    ! grep -v 'missing date' "$scratch/complaints" || fail "mandoc on $page"
  fi
done
for name in $("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | grep -vE '^(help|version)$'); do
  page=$pages/banyan-$name.1
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' ENVIRONMENT 'SEE ALSO'; do
    grep -qx "\.SH $section" "$page" || fail "$page has no section $section"
  done
  for option in $("$BANYAN" "$name" --help | sed -nE 's/^  (-.,|   ) (--[a-z-]+).*/\2/p'); do
    grep -qF -- "${option//-/\\-}" "$page" || fail "$page lacks $option"
  done
done
for name in run plan bench lab; do
  wants 0 "$BANYAN" "$name" --help
  shows '^examples:$' out
  shows "^  banyan $name .*" out
  grep -qx '\.SH EXAMPLES' "$pages/banyan-$name.1" || fail "the page of $name has no examples"
done

# The examples are accepted.
while read -r _ words; do
  # shellcheck disable=SC2086 # The command consists of separate words.
  (cd "$scratch" && wants 0 "$BANYAN" $words)
done < <("$BANYAN" plan --help | sed -n 's/^  banyan/banyan/p' | grep -v net.json)
