#!/bin/bash
# Tests the command line: help, unknown names and suggestions, and bad values. All misuse ends with code 2.
. "$BANYAN_SOURCE/tests/shell.sh"

wants 0 "$BANYAN" help
for name in run plan bench doctor version help; do shows "^  $name +[a-z]" out; done
if grep -q run-host "$scratch/out"; then fail "help lists a command that is not for people"; fi
wants 0 "$BANYAN" --help
wants 0 "$BANYAN" version
shows '^banyan [0-9]+\.[0-9]+\.[0-9]+' out
wants 0 "$BANYAN" --version
wants 0 "$BANYAN" version --json
python3 -c 'import json, sys; print(json.load(sys.stdin)["banyan"])' <"$scratch/out" >/dev/null || fail "version is no JSON"

# Every listed command explains itself, and prints the same through help.
for name in $("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
  wants 0 "$BANYAN" "$name" --help
  shows '^usage: banyan' out
  cp "$scratch/out" "$scratch/first"
  [ "$name" = help ] && continue
  shows '--help' out
  wants 0 "$BANYAN" help "$name"
  cmp -s "$scratch/first" "$scratch/out" || fail "help $name is not $name --help"
done

wants 0 "$BANYAN" help variables
for name in RANK SIZE ROOT KEY HOST TRANSPORT PLAN LOG; do shows "^BANYAN_$name +[^ ]+ +[A-Za-z0-9]" out; done

wants 2 "$BANYAN"
shows '^usage' err
wants 2 "$BANYAN" rum
shows 'did you mean "run"' err
wants 2 "$BANYAN" xyzzy
shows 'no command "xyzzy"$' err

wants 2 "$BANYAN" run --transprot tcp -n 1 true
shows 'unknown option --transprot; did you mean --transport\?' err
wants 2 "$BANYAN" run --time=3 -n 1 true
shows 'did you mean --timeout' err
wants 2 "$BANYAN" run --xyzzy
shows 'unknown option --xyzzy$' err
wants 2 "$BANYAN" run -Z
shows 'unknown option -Z' err
wants 2 "$BANYAN" run -n
shows '--ranks needs a value \(N\)' err
wants 2 "$BANYAN" run -n four true
shows '^banyan run: --ranks: "four" is not a whole number$' err
wants 2 "$BANYAN" run -n 0 true
shows '^banyan run: --ranks is 0, must be 1 to 65536$' err
wants 2 "$BANYAN" run -n 1 --transport udp true
shows '"udp" is not one of auto\|shm\|tcp' err
wants 2 "$BANYAN" run -n 99999999999999999999 true
wants 2 "$BANYAN" run -n 1 --timeout soon true
shows 'soon' err
wants 2 "$BANYAN" run -n 1 --output loud true
shows '"loud" is not one of auto\|prefix\|rank0\|raw' err
wants 2 "$BANYAN" run --pin=yes -n 1 true
shows '--pin takes no value' err
wants 2 "$BANYAN" run -n 2
shows 'no command for the ranks' err
wants 2 "$BANYAN" version surplus
shows '"surplus" is one argument too many; usage: banyan version \[--json\]$' err
for option in -np --np --nproc_per_node=2 --log-dir; do
  wants 2 "$BANYAN" run $option 2 -- true
  shows "^banyan run: ${option%=*} is not an option here: give --?[no]" err
done

# Every command has the common options. Only errors of a quiet one are left, and a verbose one passes its level on.
for name in $("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
  wants 0 "$BANYAN" "$name" --help
  for option in '-q, --quiet' '-v, --verbose' '--version'; do shows "^ +$option " out; done
  wants 0 "$BANYAN" "$name" --version
  shows '^banyan [0-9]+\.[0-9]+\.[0-9]+$' out
  [ "$name" != mpirun ] || continue # which hands on what it does not know
  wants 2 "$BANYAN" "$name" --verbos
  shows 'did you mean --verbose\?' err
done
wants 2 "$BANYAN" doctor -qv
shows '^banyan doctor: --quiet and --verbose exclude each other: give one$' err
wants 2 "$BANYAN" -v run -n 1 true
shows 'options follow the command' err
wants 0 "$BANYAN" run -n 1 -o raw -v -- printenv BANYAN_LOG
shows '^info$' out
wants 0 env BANYAN_LOG=plan:debug "$BANYAN" run -qn1 -o raw -- printenv BANYAN_LOG
shows '^plan:debug,error$' out
wants 0 "$BANYAN" run -vvn 2 -- "$BANYAN_BUILD/examples/hello"
shows '\[rank 1\] net: ' err
wants 0 env BANYAN_RANKS=2 "$BANYAN" run -n 1 -- "$BANYAN_BUILD/examples/hello"
shows 'BANYAN_RANKS is not a variable' err
wants 0 env BANYAN_RANKS=2 "$BANYAN" run --quiet -n 1 -- "$BANYAN_BUILD/examples/hello"
[ ! -s "$scratch/err" ] || fail "a quiet command is not: $(cat "$scratch/err")"
wants 3 "$BANYAN" run -qn 2 -- sh -c 'exit 3'
shows 'rank [01] .*: exit code 3$' err

# Values may be attached, options after the command belong to the command, and -- ends Banyan's options.
wants 0 "$BANYAN" run -n2 --output=raw echo --pin -n
[ "$(sort -u "$scratch/out")" = "--pin -n" ] || fail "the command's own options were taken"
wants 0 "$BANYAN" run -n 1 -o raw -- echo a b
shows '^a b$' out

# The hidden part is not for terminals, and rejects input that is not a frame.
wants 0 bash -c 'echo nonsense-that-is-long-enough | "$1" run-host' - "$BANYAN"
shows 'no connection to banyan run' out

# Failed output is an error of every command, and a closed descriptor is not used for the command's pipes.
for command in --help "help variables" version doctor "plan --list" "plan -n 4" "bench -n 2 --sizes 8 --iterations 1" \
  "run -n 2 -- echo"; do
  # shellcheck disable=SC2086 # The command consists of separate words.
  wants 1 bash -c '"$@" >/dev/full' - "$BANYAN" $command
  shows 'cannot write to standard output' err
done
for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
  wants 0 timeout 60 bash -c "\"\$@\" $closed" - "$BANYAN" run -n 2 -- "$BANYAN" bench --sizes 8 --iterations 1
  wants 0 timeout 60 bash -c "\"\$@\" $closed" - "$BANYAN" bench -n 2 --sizes 8 --iterations 1
done

# A short option means the same in all commands. Those that do not exist any more, and those of other programs, are
# answered with what to write.
while read -r command option instead; do
  wants 2 "$BANYAN" $command $option 2
  shows "^banyan $command: $option is not an option here: give $instead" err
done <<'END'
plan -k --trees K
plan -f --file FILE
plan -s --schedule RANK
plan -m --method NAME
topo -m --measure
topo -s --svg FILE
topo -t --title TEXT
simulate -t --trace FILE
keys -k --keys DIR
keys -a --address A
keys -f --force
manager -l --listen ADDRESS:PORT
run --host -H LIST
bench -b --sizes MIN..MAX
bench -f --sizes MIN..MAX
END
wants 2 "$BANYAN" plan star:4 -k4
shows 'give --trees K$' err
wants 2 "$BANYAN" run -n 2 --oversubscribe true
shows 'not an option here: leave it out' err
wants 2 "$BANYAN" run -n 2 --mca btl self true
shows 'not an option here: leave it out; `banyan help variables`' err
"$BANYAN" help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -v '^help$' | while read -r name; do
  "$BANYAN" "$name" --help | sed -nE 's/^  (-[a-zA-Z]), --([a-z-]+).*/\1 \2/p'
done | sort -u >"$scratch/letters"
# -n is a number of ranks, and the lab's on each host.
twice=$(grep -v ' per-host$' "$scratch/letters" | cut -d' ' -f1 | uniq -d)
[ -z "$twice" ] || fail "short options that mean several things: $twice"
