#!/bin/bash
# Somebody between host a and the others flips one bit in a million of what passes, and makes checksums fit, or sends
# records again that have passed before. Whatever is altered is noticed: the connection ends, calls fail and say why, or
# are made again in a job whose processes may change; through a switch, fragments are sent again. No sum is wrong.
# BANYAN_ALTERED=N makes the job whose processes may change N steps long, and repeats the others N / 100 times.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/attacked_lab.sh"
steps=${BANYAN_ALTERED:-120}
seed=${BANYAN_TEST_SEED:-1}
run=("$BANYAN" run --ssh "$scratch/ssh" --remote "$BANYAN" -i 10.8.0.0/16 -H "a:1,b:1,c:1" -x BANYAN_ENGINE=spin=0)
why='altered in transit|is gone|closed the connection|broke|does not speak TLS'

# altered WHAT: how many of them there were, of the report's line for TCP or connections.
altered() { grep -oE "[0-9]+ $1" "$scratch/altered" | cut -d' ' -f1; }
noticed() {
  router_ends
  cat "$scratch/altered"
  [ "$(altered 'went on unnoticed')" = 0 ] || fail "connections went on: $(cat "$scratch/altered")"
}

# A job whose processes may change makes calls again.
elastic() { # OPTION... of alter_packets
  at_router --seed "$seed" "$@"
  on a timeout 600 "${run[@]}" --min 2 --restarts 1000 -- "$BANYAN_BUILD/tests/net/sum_elastic" "$steps" 0.001 \
    >"$scratch/out" 2>"$scratch/job" </dev/null || fail "the job has failed: $(tail -n 5 "$scratch/job")"
  noticed
  echo "$(grep -c 'banyan run: membership' "$scratch/job") memberships, $steps steps"
  [ "$(grep -c ' done as rank' "$scratch/out")" -ge 2 ] || fail "not all have done the steps: $(cat "$scratch/out")"
}
elastic --flip 1e-6
[ "$(altered 'bits flipped,' | head -n 1)" -gt 0 ] || fail "no bit was flipped"
shows 'altered in transit' job
elastic --replay 0.02
[ "$(altered 'segments replayed')" -gt 0 ] || fail "no segment was replayed"
shows 'altered in transit' job

# A job of the usual kind ends, and says why.
for ((i = 0; i < 1 + steps / 100; i++)); do
  at_router --flip 1e-6 --seed "$((seed + i))"
  code=0
  on a timeout 100 "${run[@]}" -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/sums" 60 >"$scratch/out" \
    2>"$scratch/job" </dev/null || code=$?
  noticed
  [ "$code" != 0 ] && [ "$code" != 124 ] || fail "the job ended with $code: $(cat "$scratch/out" "$scratch/job")"
  ! has '\] [1-9][0-9]* wrong' out || fail "sums are wrong: $(cat "$scratch/out")"
  has "$why" job || fail "the job does not say why: $(cat "$scratch/job")"
done

# Through a switch, what is altered is lost, and sent again.
start_switch
cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "switched", "ranks": 3,
 "vertices": {"h/0": {"kind": "server"}, "r": {"kind": "switch"}},
 "trees": [{"share": 1, "root": "h/0", "up": {"r": "h/0", "0": "r", "1": "r", "2": "r"},
            "ports": {"r": {"h/0": "ph", "0": "pf", "1": "pb", "2": "pc"}}}]}
PLAN
rm -f "$scratch/sums"
BANYAN_SWITCHES=r=10.8.0.1:7613 on a "${run[@]}" --servers h:1 --plan "$scratch/plan.json" \
  -x BANYAN_TEST_METRICS="$scratch/metrics" -- "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/sums" 600 >"$scratch/out" 2>"$scratch/job" </dev/null &
job=$!
comes test -e "$scratch/sums" || fail "the job makes no sums: $(cat "$scratch/job")"
# Behind the fields that say what a packet is and where it belongs, each altered bit is a forgery for the next one that
# receives it: the switch, or the rank on host a.
counts() { # sets $forged_there and $forged_here, and $dropped of what the kernel had no room for
  on r "$BANYAN" status "$scratch/switch.sock" --json >"$scratch/status"
  forged_there=$(grep -o '"forged":[0-9]*' "$scratch/status" | cut -d: -f2)
  forged_here=$(sed -n 's/^banyan_fragments_forged_total{.*} //p' "$scratch/metrics")
  dropped=$(for m in a r; do on $m cat /proc/net/snmp; done | awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { n += $6 } END { print n }')
}
all_counted() {
  counts
  [ $((forged_there + forged_here + dropped)) -ge "$fragments" ]
}
at_router --flip 1e-6 --ports 7612-7612 --skip 24 --seed "$seed"
sleep $((2 + steps / 100))
router_ends
cat "$scratch/altered"
fragments=$(altered 'packets$')
[ "$fragments" -gt 0 ] || fail "no fragment was altered"
comes all_counted || fail "of $fragments altered fragments the switch noticed $forged_there, and rank 0 $forged_here"
[ $((forged_there + forged_here)) -le "$fragments" ] || fail "$fragments were altered, but $forged_there and $forged_here noticed"
echo "of $fragments altered fragments the switch noticed $forged_there, rank 0 the other $forged_here; $dropped were dropped"

at_router --flip 1e-6 --ports 7612-7612 --seed "$seed"
sleep $((2 + steps / 100))
router_ends
touch "$scratch/done"
wait "$job" || fail "the job has failed: $(cat "$scratch/job")"
cat "$scratch/altered" "$scratch/out"
[ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 3 ] || fail "sums are wrong"
