#!/bin/bash
# A host that has no part in a job attacks all its ports: of ranks, a helper, a server, the manager, and the control port
# of a switch. It knows the job's key, certificates that are revoked, expired or another authority's, and what others
# have sent. Fragments to and from the switch are forged and replayed, too. Nothing is accepted, sums are right, and neither
# memory nor logs grow with the number of attacks.
# BANYAN_ATTACKS=N makes N attacks, BANYAN_ATTACK_RATE=N a second. With BANYAN_ATTACK_PHASES=N attacks come in so many
# parts, with as much quiet time between them, and the medians of sums during both are printed. With BANYAN_ATTACK_STOPS=N
# one process after the other is stopped meanwhile, for up to N s: beyond 4, a server counts as lost. With BANYAN_ATTACK_FLOOD=N
# the manager and the switch get N connections of one kind at 1,500 a second, for each of four kinds.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/attacked_lab.sh"
attacks=${BANYAN_ATTACKS:-600} rate=${BANYAN_ATTACK_RATE:-150} phases=${BANYAN_ATTACK_PHASES:-1} flood=${BANYAN_ATTACK_FLOOD:-0} stops=${BANYAN_ATTACK_STOPS:-0}

# Certificates of every kind: of another authority, revoked, expired, for another role, and a good one.
make_keys
"$BANYAN" keys init --keys "$scratch/other" >>"$scratch/keys.log"
"$BANYAN" keys make agent attacker --keys "$scratch/other" >>"$scratch/keys.log"
for name in attacker lost; do "$BANYAN" keys make agent $name >>"$scratch/keys.log"; done
"$BANYAN" keys make client attacker >>"$scratch/keys.log"
cp "$BANYAN_KEYS/agent-lost.pem" "$scratch"
"$BANYAN" keys revoke lost >>"$scratch/keys.log"
openssl req -new -newkey ed25519 -nodes -subj /OU=agent/CN=attacker -keyout "$scratch/old.key" -out "$scratch/old.req" \
  2>"$scratch/err"
openssl x509 -req -in "$scratch/old.req" -CA "$BANYAN_KEYS/ca.crt" -CAkey "$BANYAN_KEYS/ca.key" -CAcreateserial -days -1 \
  -out "$scratch/old.crt" 2>"$scratch/err"
cat "$scratch/old.crt" "$scratch/old.key" >"$scratch/old.pem"
start_cluster
start_switch

cat >"$scratch/plan.json" <<'PLAN'
{"format": "banyan-plan 1", "name": "attacked", "ranks": 3,
 "vertices": {"h": {"kind": "helper"}, "h/0": {"kind": "server"}, "r": {"kind": "switch"}},
 "trees": [{"share": 0.4, "root": "0", "up": {"1": "0", "2": "1"}},
           {"share": 0.3, "root": "h", "up": {"0": "h", "1": "h", "2": "h"}},
           {"share": 0.3, "root": "h/0", "up": {"r": "h/0", "0": "r", "1": "r", "2": "r"},
            "ports": {"r": {"h/0": "ph", "0": "pf", "1": "pb", "2": "pc"}}}]}
PLAN
mkdir "$scratch/recorded"
at_router --record "$scratch/recorded"
# shellcheck disable=SC2016 # of the hosts' shells
BANYAN_SWITCHES=r=10.8.0.1:7613 on a "$BANYAN" run --ssh "$scratch/ssh" --remote "$BANYAN" \
  -i 10.8.0.0/16 -H a:1,b:1,c:1 --helpers h:1 --servers h:1 --plan "$scratch/plan.json" -x BANYAN_ENGINE=spin=0 \
  -x BANYAN_TEST_TIMES="$scratch/times" -x scratch="$scratch" -- sh -c 'BANYAN_AGENT=$scratch/$(hostname).sock exec "$0" "$@"' \
  "$BANYAN_BUILD/tests/net/sum_until" "$scratch/done" "$scratch/sums" 1000 >"$scratch/out" 2>"$scratch/err" </dev/null &
job=$!
comes test -e "$scratch/sums" || fail "the job makes no sums"
! has 'no part|is lost|is not there' err || fail "the job is not whole: $(cat "$scratch/err")"
job_key >"$scratch/job.key"
chmod 600 "$scratch/job.key"
ports=()
for host in a b c h m r; do mapfile -t -O "${#ports[@]}" ports < <(ports_of $host); done
echo "attacked: ${ports[*]}"
[ "${#ports[@]}" -ge 7 ] || fail "there are only ${#ports[@]} ports"

# growth: prints by how many KiB the process has grown most that has grown most since $scratch/memory.before.
growth() {
  memory >"$scratch/memory.now"
  awk 'NR == FNR { before[$3] = $4; next } $4 - before[$3] > most { most = $4 - before[$3] } END { print most + 0 }' \
    "$scratch/memory.before" "$scratch/memory.now"
}

stop_some() { # until there is a file $scratch/attacked
  local pid n=0
  RANDOM=${BANYAN_TEST_SEED:-1}
  while [ ! -e "$scratch/attacked" ]; do
    pid=$(memory | awk '{ print $3 }' | shuf -n 1 --random-source=<(yes "$RANDOM"))
    kill -STOP "$pid"
    sleep $((RANDOM % stops)).$((RANDOM % 10))
    kill -CONT "$pid"
    n=$((n + 1))
    sleep 0.3
  done
  echo "$n times a process was stopped for up to $stops s"
}

attack() { # NUMBER RATE SEED ADDRESS:PORT... [OPTION...]
  on x "$BANYAN_BUILD/tests/net/attack" --key "$scratch/job.key" --ranks 3 --count "$1" --rate "$2" --seed "$3" \
    --recordings "$scratch/recorded" --certificate "no certificate=" --certificate "tls 1.2=" \
    --certificate "another authority's certificate=$scratch/other/agent-attacker.pem" \
    --certificate "a revoked certificate=$scratch/agent-lost.pem" --certificate "an expired certificate=$scratch/old.pem" \
    --certificate "a certificate of a client=$BANYAN_KEYS/client-attacker.pem" \
    --certificate "a certificate of another host=$BANYAN_KEYS/agent-attacker.pem" \
    --valid "a valid certificate=$BANYAN_KEYS/agent-attacker.pem" \
    --statement "a revoked agent's statement=$scratch/agent-lost.pem" --statement "an expired agent's statement=$scratch/old.pem" \
    --statement "another authority's statement=$scratch/other/agent-attacker.pem" \
    --statement "a client's statement=$BANYAN_KEYS/client-attacker.pem" --statement "=$BANYAN_KEYS/agent-attacker.pem" \
    "${@:4}"
}

fragments() { # NUMBER [OPTION]: a tenth of the attacks each, by f
  on f "$BANYAN_BUILD/tests/net/forge_fragments" --fragments "$1" --rate $((rate / 5 + 1)) "${@:2}" "banyan-a-$$" eth0 \
    "${address[h]}" "${address[a]}" "${address[b]}" "${address[c]}"
}

memory >"$scratch/memory.before"
read -r lines_before bytes_before < <(log_lines)
: >"$scratch/phases"
failed=0
[ "$stops" = 0 ] || stop_some >"$scratch/stops" &
stopper=$!
for ((phase = 1; phase <= phases; phase++)); do
  from=$EPOCHREALTIME
  { fragments $((attacks / phases / 10)) && fragments $((attacks / phases / 10)) --replay; } >"$scratch/forged.$phase" &
  forger=$!
  attack $((attacks / phases)) "$rate" $((${BANYAN_TEST_SEED:-1} + phase)) "${ports[@]}" >"$scratch/report.$phase" || failed=$?
  wait "$forger" || fail "no fragments were forged"
  seconds=$((attacks / phases / rate))
  echo "attacked $from $(awk "BEGIN { printf \"%.3f\", $from + $seconds }")" >>"$scratch/phases"
  [ "$phases" -gt 1 ] || continue
  # Whoever forges also watches host a, which takes time of this machine: so now without an effect.
  { fragments $((attacks / phases / 10)) --magic && fragments $((attacks / phases / 10)) --magic; } >"$scratch/magic" &
  forger=$!
  from=$EPOCHREALTIME
  sleep "$seconds"
  echo "quiet $from $EPOCHREALTIME" >>"$scratch/phases"
  wait "$forger"
done
touch "$scratch/attacked"
wait "$stopper" || fail "a process that was to be stopped has ended"
[ "$stops" = 0 ] || cat "$scratch/stops"
for kind in half-open garbage "oversized record" "TLS, and no proof of the key"; do
  [ "$flood" -gt 0 ] || continue
  attack "$flood" 1500 "${BANYAN_TEST_SEED:-1}" "${address[m]}:7650" 10.8.0.1:7613 --only "$kind" >"$scratch/flood" &
  flooding=$!
  most=0
  while kill -0 "$flooding" 2>/dev/null; do
    now=$(growth)
    [ "$now" -le "$most" ] || most=$now
    sleep 0.2
  done
  wait "$flooding" || fail "flood of $kind: $(cat "$scratch/flood")"
  echo "flood of $kind: $(tail -n 1 "$scratch/flood"); $((most / 1024)) MiB more at most"
  sanitized || [ "$most" -lt $((64 * 1024)) ] || fail "a process took $((most / 1024)) MiB more"
done
memory >"$scratch/memory.after"
read -r lines bytes < <(log_lines)
# The tables of all phases as one.
awk '/^attack / { print; next }
  match($0, /^[^0-9].* +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+/) { name = substr($0, 1, 32); if (!(name in made)) names[++n] = name
    split(substr($0, 33), of, " "); made[name] += of[1]; refused[name] += of[2]; accepted[name] += of[3]; none[name] += of[4]
    genuine[name] += of[6]; next }
  /attacks, / { attacks += $1; all += $3; if ($(NF - 3) > longest) longest = $(NF - 3) }
  END { for (i = 1; i <= n; i++) printf "%s %8d %8d %8d %8d%s\n", names[i], made[names[i]], refused[names[i]], accepted[names[i]],
          none[names[i]], genuine[names[i]] ? "  and " genuine[names[i]] " genuine ones, accepted" : ""
        print attacks " attacks, " all " accepted; a connection was kept for " longest " s at most" }' "$scratch"/report.* |
  awk '!seen[$0]++'
[ "$failed" = 0 ] || fail "an attack was accepted, or none was made: $failed"
grown=$(awk 'NR == FNR { before[$3] = $4; next }
  { printf "memory of %s on %s: %.1f MiB, then %.1f\n", $2, $1, before[$3] / 1024, $4 / 1024 >"/dev/stderr"
    if ($4 - before[$3] > most) most = $4 - before[$3] } END { print int(most / 1024) }' "$scratch/memory.before" "$scratch/memory.after")
echo "logs: $((lines - lines_before)) lines, $((bytes - bytes_before)) bytes more"
sanitized || [ "$grown" -lt 24 ] || fail "a process took $grown MiB more"
[ $((lines - lines_before)) -lt $((attacks / 2 + 300)) ] || fail "$attacks attacks have made $((lines - lines_before)) lines in the logs"

awk '{ n += $1 } END { print n " fragments forged or replayed" }' "$scratch"/forged.*
on r "$BANYAN" status "$scratch/switch.sock" --json >"$scratch/status"
grep -o '"events":{.*}' "$scratch/status"
kill -0 "$job" || fail "the job has ended: $(cat "$scratch/err")"
touch "$scratch/done"
wait "$job" || fail "the job has failed: $(cat "$scratch/err")"
router_ends
cat "$scratch/out"
[ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 3 ] || fail "sums are wrong"
! has 'is lost|is gone' err || fail "a helper, the server or the switch was lost: $(cat "$scratch/err")"
[ "$phases" -gt 1 ] || exit 0
python3 - "$scratch/times" "$scratch/phases" <<'END'
import statistics, sys
sums = [tuple(map(float, line.split())) for line in open(sys.argv[1])]
of = {"attacked": [], "quiet": []}
for line in open(sys.argv[2]):
    what, begin, end = line.split()
    of[what] += [ms for at, ms in sums if at - ms / 1000 >= float(begin) and at <= float(end)]
medians = {what: statistics.median(times) for what, times in of.items()}
print("; ".join(f"{what}: {len(of[what])} sums, median {medians[what]:.2f} ms" for what in of))
print(f"ratio {medians['attacked'] / medians['quiet']:.3f}")
END
