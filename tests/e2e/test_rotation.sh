#!/bin/bash
# Tests that a job's key is replaced while the job runs: newcomers join with the new key, and with the old one until its time is
# over, where processes share the key file, have copies of it, or got the key from `banyan run`.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/cluster.sh"

sum=$BANYAN_BUILD/tests/net/sum_elastic
mkdir "$scratch/steps"
rotate() { wants 0 "$BANYAN" keys rotate "$1" --overlap "$2"; }
until_of() { sed -n 's/.* until //p' "$1"; }
# The time of the old key in a file is over.
over() { [ "$(date -u +%s)" -gt "$(date -u -d "$(until_of "$1")" +%s)" ]; }

# --- mistakes
"$BANYAN" keys job "$scratch/key"
cp -p "$scratch/key" "$scratch/first"
wants 2 "$BANYAN" keys rotate
wants 1 "$BANYAN" keys rotate "$scratch/none"
wants 2 "$BANYAN" keys rotate "$scratch/key" --overlap 0
echo word >"$scratch/word"
chmod 600 "$scratch/word"
wants 1 "$BANYAN" keys rotate "$scratch/word"
shows "key file $scratch/word: the job's key is not a generated one" err
rotate "$scratch/key" 100
shows "^$scratch/key: a new key; the old one is accepted until .* UTC" out
[ "$(stat -c %a "$scratch/key")" = 600 ] || fail "the mode of the new file is $(stat -c %a "$scratch/key")"
wants 1 "$BANYAN" keys rotate "$scratch/key" # processes may have no other key than the old one
shows "the key before this one is accepted for another [0-9]+ s" err
! grep -q 'banyan_key_' "$scratch/out" "$scratch/err" || fail "a key is shown"

# --- processes that find each other through agents; their job stays the same
cp -p "$scratch/first" "$scratch/key"
cluster_keys h0 h1
cluster_manager star:2,nic=10g
cluster_agents h0 h1
process() { # NAME HOST KEYFILE: 2 form the first group
  start "$1" env BANYAN_KEY_FILE="$scratch/$3" BANYAN_MEMBERS=agent BANYAN_SIZE=2 BANYAN_HOST="$2" BANYAN_LOG=net:info \
    BANYAN_ENCRYPT=always BANYAN_AGENT="$scratch/agents/$2" BANYAN_TEST_TOUCH="$scratch/steps" "$sum" 1000000 0.01 50
}
in_group() { grep -qE "^rank [0-9]+ of $2\$" "$scratch/$1.log" 2>/dev/null; }
joins() { comes in_group "$1" "$2" || fail "$1 does not join: $(tail -n 3 "$scratch/$1.log")"; }
for copy in copy.b copy.d; do cp -p "$scratch/key" "$scratch/$copy"; done
process a h0 key
process b h1 copy.b # copied in time, but later
joins a 2
joins b 2
rotate "$scratch/key" 20
process c h0 key # with both keys, to members of which one has no new one
joins c 3
process d h1 copy.d # with the old one only
joins d 4
for copy in copy.b copy.d; do # whoever has none before the old key ends is left out of the next group
  cp -p "$scratch/key" "$scratch/copy.new"
  mv "$scratch/copy.new" "$scratch/$copy"
done
comes over "$scratch/key" || fail "the old key does not end"
process e h1 copy.b
joins e 5
# Whoever has only the first key knows the job, and cannot join any more.
wants 1 env BANYAN_KEY_FILE="$scratch/first" BANYAN_MEMBERS=agent BANYAN_SIZE=2 BANYAN_HOST=h0 BANYAN_ENCRYPT=always \
  BANYAN_AGENT="$scratch/agents/h0" "$sum" 10 0.01 3
shows "another job's key, or one that has been replaced" err
for name in a b c d e; do ! grep -q 'wrong\|failed' "$scratch/$name.log" || fail "$name: $(grep 'wrong\|failed' "$scratch/$name.log")"; done
has 'the job.s key has been replaced by that of' a.log || fail "a has not taken the new key"
kill "${started[@]}"
wait
started=()

# --- banyan run gives the new key to ranks that run, and to those that it starts again
cp -p "$scratch/first" "$scratch/key"
rm -f "$scratch"/steps/*
start job env BANYAN_TEST_TOUCH="$scratch/steps" BANYAN_LOG=net:info "$BANYAN" run -x BANYAN_TEST_TOUCH -x BANYAN_LOG \
  -x BANYAN_KEY_FILE="$scratch/key" -n 3 --restarts 5 -- "$sum" 30
job=$last
comes test -e "$scratch/steps/20" || fail "the job does not begin: $(tail -n 3 "$scratch/job.log")"
passed_on() { [ "$(grep -c "the ranks get the new key of $scratch/key" "$scratch/job.log")" -eq "$1" ]; }
came_back() { [ "$(grep -cE "^\[$1\] rank 2 of 3$" "$scratch/job.log")" -ge "$2" ]; }
for round in 1 2; do
  rotate "$scratch/key" 2
  comes passed_on "$round" || fail "banyan run does not pass on key $round"
  comes over "$scratch/key"
  kill -KILL "$(process_of 1)"
  comes came_back 1 "$round" || fail "rank 1 does not come back after key $round: $(tail -n 5 "$scratch/job.log")"
done
touch "$scratch/steps/go"
wait "$job" || fail "the job failed: $(tail -n 5 "$scratch/job.log")"

# --- a key that banyan run generated is replaced by request, for ranks that run and those that are started again
wants 1 "$BANYAN" keys rotate $$
shows "process $$ is not a .banyan run" err
cp -p "$scratch/first" "$scratch/ticket"
echo "banyan_ticket_$(printf '0%.0s' {1..160})" >"$scratch/ticket"
wants 1 "$BANYAN" keys rotate "$scratch/ticket"
shows "this is the ticket of a helper or server" err
rm -f "$scratch"/steps/* "$scratch/job.log"
start job env BANYAN_TEST_TOUCH="$scratch/steps" BANYAN_LOG=net:info "$BANYAN" run -x BANYAN_TEST_TOUCH -x BANYAN_LOG \
  -n 3 --restarts 5 -- "$sum" 30
job=$last
comes test -e "$scratch/steps/20" || fail "the job does not begin: $(tail -n 3 "$scratch/job.log")"
says() { [ "$(grep -c "$2" "$scratch/job.log")" -eq "$1" ]; }
rotate "$job" 2
comes says 1 "the ranks get a new key; the old one is accepted for 2 s" || fail "banyan run does not replace its key"
rotate "$job" 2
comes says 1 "the job's key stays as it is: the key before this one is accepted for another" || fail "banyan run replaces a new key"
sleep 3 # the old key has ended
kill -KILL "$(process_of 1)"
comes came_back 1 1 || fail "rank 1 does not come back with the new key: $(tail -n 5 "$scratch/job.log")"
has 'the job.s key has been replaced by that of' job.log || fail "no rank has taken the new key"
! grep -q 'banyan_key_' "$scratch/job.log" || fail "a key is shown"
# Nobody keeps the old key that has ended: ranks read another text.
text=$(cat "$(tr '\0' '\n' <"/proc/$(process_of 1)/environ" | sed -n 's/^BANYAN_KEY_FILE=//p')")
[[ $text =~ ^banyan_key_[0-9a-f_]+\ job\ [0-9a-f]+$ ]] || fail "the old key is still in memory, or there is none"
touch "$scratch/steps/go"
wait "$job" || fail "the job failed: $(tail -n 5 "$scratch/job.log")"
