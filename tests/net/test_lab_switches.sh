#!/bin/bash
# Sums through switches in labs. Sums must be right and be aggregated on the way, which the links' byte counts show. The
# tests use one, two and three switches, in XDP and in user space, without cells, with switches that end in the middle,
# and with two jobs at one switch.
. "$BANYAN_SOURCE/tests/shell.sh"

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
examples=$BANYAN_SOURCE/examples/topologies

wants 2 "$BANYAN" lab star:4 --switches user -- true
shows 'no switch of the topology aggregates' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --server w0 -- true
shows '--server selects hosts for servers' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --switches user --server s0 -- true
shows 'which has no "s0"' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --switches xdp --mtu 9000 -- true
shows 'packets of at most 3506' err
wants 0 "$BANYAN" lab "$examples/adding-2.json" --switches xdp --dry-run
shows '^switch +root +10\.77\.0\.10 +3 interfaces, adds' out
shows '^13 network namespaces, 20 pairs' out
wants 0 "$BANYAN" lab "$examples/adding-2.json" --ipv6 --dry-run
shows '^switch +root +fd62:616e:7961:6e00::a +3 interfaces, adds' out
wants 2 "$BANYAN" lab star:4 --ipv6 --mtu 1200 -- true
shows 'IPv6 may have at least 1280 bytes' err

"$BANYAN" lab "$examples/adding-1.json" --switches none -- true 2>"$scratch/err" || {
  grep -qE 'CONFIG_NET|rights' "$scratch/err" && skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# A rank finds the switch's name and a plan with its tree.
wants 0 "$BANYAN" lab "$examples/adding-1.json" --switches none -- sh -c 'getent ahostsv4 s; grep -c "\"switch\"" "$BANYAN_PLAN"'
shows '^\[w3\] 10\.77\.0\.6 +STREAM s' out
shows '^\[w0\] 1$' out

# into MOST COMMAND...: runs a command that computes, checks and prints sums. The server must receive less than MOST
# bytes for each byte of a worker: about one byte where switches add, and as many as there are workers where they do
# not. Packets that are sent again add to this, and a machine that stalls for a moment causes many of them. So there are
# three attempts, and the limit does not apply under a sanitizer.
into() {
  local most=$1 got try
  shift
  for try in 1 2 3; do
    got=$("$@")
    ! sanitized || return 0
    awk -v got="$got" -v most="$most" 'BEGIN { exit !(got < most) }' && return
    echo "try $try: $got bytes come into the server for each of a worker's, not less than $most"
  done
  fail "$*: $got bytes come into the server for each of a worker's, not less than $most"
}

# made WAY TOPOLOGY WORKERS [OPTION...]: three calls of 256 KiB, one of which is checked, are right. (Short calls send
# one more header for each packet of data.)
made() {
  local way=$1 topology=$2 workers=$3
  shift 3
  wants 0 "$BANYAN" lab "$topology" --switches "$way" --json -o rank0 --scale 3 "$@" -- \
    banyan bench allreduce -s 256K --iterations 2 --warmup 0 --json
  python3 - "$scratch/out" "$workers" <<'END'
import json, sys
row, lab = [json.loads(line) for line in open(sys.argv[1])]
assert row["wrong"] == 0 and row["ranks"] == int(sys.argv[2]), row
print(sum(link["bytes"] for link in lab["links"] if link["to"] == "server") / (3 * row["bytes"]))
END
}
merged() { into 2 made "$@"; }
apart() { # as merged
  local got
  got=$(made "$@")
  sanitized || awk -v got="$got" -v least="$3" 'BEGIN { exit !(got > 0.9 * least) }' ||
    fail "$*: only $got bytes come into the server for each of a worker's"
}

ways=user
"$BANYAN" lab "$examples/adding-1.json" --switches xdp -- true 2>"$scratch/err" && ways="user xdp"
[ "$ways" != user ] || grep -vE '^\[' "$scratch/err" >&2 || true
# A lab is ready when it has printed how to enter the switch's namespaces and its ranks run. $supervisor starts the
# switch.
prints_how() { supervisor=$(sed -n "s/^banyan lab: switch $1: kill -HUP \([0-9]*\) .*enters its namespaces/\1/p" "$scratch/messages") && [ -n "$supervisor" ]; }
asks() { nsenter -m -r -n -u -t "$supervisor" "$BANYAN" status "$@" >"$scratch/out" 2>&1; }
no_answer() { ! asks; }
child() { pgrep -P "$supervisor" >"$scratch/child" && [ "$(wc -l <"$scratch/child")" = 1 ]; }
is_gone() { [ ! -e "/proc/$1" ]; }

# Switches start, and start again.
for way in $ways; do
  "$BANYAN" lab "$examples/adding-2.json" --switches "$way" -- sleep "$odd" 2>"$scratch/messages" &
  lab=$!
  left 6
  comes prints_how leaf1 || fail "the lab does not print how to enter its switch"
  [ "$(nsenter -u -t "$supervisor" hostname)" = leaf1 ] || fail "the supervisor is not in its switch's place"
  comes asks || fail "the switch does not answer"
  shows "$way" out
  comes child || fail "the supervisor has not one child"
  kill -KILL "$(cat "$scratch/child")"
  comes no_answer || fail "the switch was killed, and answers"
  kill -HUP "$supervisor"
  comes asks || fail "the switch does not start again"
  shows "$way" out
  kill -TERM "$lab"
  wait "$lab" || true
  comes is_gone "$supervisor" || fail "the supervisor is left"
done

# Sums go through one, two and three switches, also with a switch between them that only forwards, and through two trees
# of one job at one switch.
"$BANYAN" plan "$examples/adding-1.json" --method in-network --queues 2 --json >"$scratch/queues.json"
for way in $ways; do
  merged "$way" "$examples/adding-1.json" 4
  [ ! -e /proc/sys/net/ipv6 ] || merged "$way" "$examples/adding-1.json" 4 --ipv6
  merged "$way" "$examples/adding-2.json" 6
  merged "$way" "$examples/adding-1.json" 4 --plan "$scratch/queues.json"
  merged "$way" "$examples/adding-3.json" 8
done

# NaN, infinities, values near FLT_MAX and denormals come out as with IEEE addition, with the same bits in all runs.
# Fixed-point sums have the same bits wherever they are added; float32 sums depend only on the tree of the switches that
# add, whatever gets lost. A switch that does not answer when the job starts adds nothing, and floats would be added in
# another order; the run is then repeated.
special() { # way, topology, options of the lab; writes the bits to $bits
  for _ in 1 2 3 4 5; do
    wants 0 "$BANYAN" lab "$2" --switches "$1" --scale 3 "${@:3}" -- "$BANYAN_BUILD/tests/net/special_values"
    ! has 'has no part in tree|grants tree .* other slots' err || [ "$1" = none ] || continue
    [ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 6 ] || fail "$1: sums are wrong"
    bits=$(sed 's/.*bits //' "$scratch/out" | sort -u)
    [ "$(wc -l <<<"$bits")" = 1 ] || fail "$1: workers have other bits"
    return 0
  done
  fail "a switch never has its part"
}
lossy=$scratch/lossy.json
sed 's/"capacity"/"loss": 0.02, "capacity"/' "$examples/adding-2.json" >"$lossy"
special none "$lossy"
fixed=$bits
for way in $ways; do
  special "$way" "$examples/adding-2.json"
  [ "$bits" = "$fixed" ] || fail "$way: other bits in fixed point"
done
special user "$examples/adding-2.json" -x BANYAN_SUMS=float32
floats=$bits
special user "$lossy" -x BANYAN_SUMS=float32
[ "$bits" = "$floats" ] || fail "losses change the bits of float32: $floats, $bits"
[ "$floats" != "$fixed" ] || fail "float32 and fixed point give the same bits: these numbers show nothing"

# A switch is killed in the middle of calls and started again, and then replaced. Sums are right and are aggregated on
# the way again. If the job ends sooner, less is tested.
is_over() { ! kill -0 "$lab" 2>/dev/null; }
adds() { is_over || { asks --json && has '"completed": ?[1-9]' out; }; }
stopped() { is_over || no_answer; }
started() { is_over || asks; }
killed() { # way
  : >"$scratch/messages"
  "$BANYAN" lab "$examples/adding-2.json" --switches "$1" --json -o rank0 -- \
    banyan bench allreduce -s 4M --iterations 8 --warmup 0 --check all --json >"$scratch/rows" 2>"$scratch/messages" &
  lab=$!
  comes prints_how root || fail "the lab does not print how to enter its switch"
  comes adds || fail "the switch adds nothing"
  child && kill -KILL "$(cat "$scratch/child")" 2>/dev/null || is_over || fail "the supervisor has not one child"
  comes stopped || fail "the switch was killed, and answers"
  kill -HUP "$supervisor" 2>/dev/null || true
  comes started || fail "the switch does not start again"
  comes adds || fail "started again, the switch adds nothing"
  kill -HUP "$supervisor" 2>/dev/null || true
  wait "$lab" || fail "$1: the job has failed"
  python3 - "$scratch/rows" <<'END'
import json, sys
row, lab = [json.loads(line) for line in open(sys.argv[1])]
assert row["wrong"] == 0 and row["ranks"] == 6, row
print(sum(link["bytes"] for link in lab["links"] if link["to"] == "server") / (9 * row["bytes"]))
END
}
for way in $ways; do into 4 killed "$way"; done

# No switch adds, or no switch can. The server receives all terms.
apart none "$examples/adding-2.json" 6
sed 's/"aggregates": true/"aggregates": true, "memory": 1/' "$examples/adding-1.json" >"$scratch/poor.json"
for way in $ways; do apart "$way" "$scratch/poor.json" 4; done

# A plan combines a tree through a switch, which has cells for a part of the rate only, with trees among hosts: large
# calls use both, small calls do not come to the server.
python3 - "$examples/adding-1.json" >"$scratch/mixed.json" <<'END'
import json, sys
topology = json.load(open(sys.argv[1]))
topology["nodes"][-1]["memory"] = 900
print(json.dumps(topology))
END
wants 0 "$BANYAN" plan "$scratch/mixed.json" --method cluster --server server --json
cp "$scratch/out" "$scratch/mixed-plan.json"
python3 - "$scratch/mixed-plan.json" <<'END' || fail "the plan is not mixed: $(cat "$scratch/mixed-plan.json")"
import json, sys
plan = json.load(open(sys.argv[1]))
assert {tree.get("root") == "server/0" for tree in plan["trees"]} == {True, False}
assert plan["classes"] and not any("server" in str(part["trees"]) for part in plan["classes"])
END
mixed() { # bytes that come to the server for each of a worker's; the tree has three quarters of the buffer
  wants 0 "$BANYAN" lab "$examples/adding-1.json" --switches user --json -o rank0 --scale 3 --plan "$scratch/mixed-plan.json" -- \
    banyan bench allreduce -s 256K --iterations 2 --warmup 0 --json
  python3 - "$scratch/out" <<'END'
import json, sys
row, lab = [json.loads(line) for line in open(sys.argv[1])]
assert row["wrong"] == 0 and row["ranks"] == 4, row
print(sum(link["bytes"] for link in lab["links"] if link["to"] == "server") / (3 * row["bytes"]))
END
}
into 2 mixed
got=$(mixed)
awk -v got="$got" 'BEGIN { exit !(got > 0.5) }' || fail "only $got bytes come into the server for each of a worker's"

# The switches do not know the job, so they do not add for it.
"$BANYAN" keys job "$scratch/other.key"
for way in $ways; do apart "$way" "$examples/adding-1.json" 4 -x "BANYAN_SWITCH_KEY_FILE=$scratch/other.key"; done

# Two jobs use one switch at the same time. The switch adds for both, and neither receives data of the other.
python3 - "$scratch" <<'END'
import json, sys
def write(name, ours):
    nodes = [{"name": h, "takes_part": h in ours, "helps": h == ours[-1]} for h in ("a0", "a1", "as", "b0", "b1", "bs")]
    for node in nodes:
        node["takes_part"] &= not node["helps"]
    links = [{"a": node["name"], "b": "s", "capacity": "300m"} for node in nodes]
    nodes.append({"name": "s", "kind": "switch", "aggregates": True})
    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
        json.dump({"format": "banyan-topology 1", "nodes": nodes, "links": links}, file)
write("job-a", ["a0", "a1", "as"])
write("job-b", ["b0", "b1", "bs"])
write("both", ["a0", "a1", "as", "b0", "b1", "bs", ""])
END
for job in a b; do "$BANYAN" plan "$scratch/job-$job.json" --method in-network --json >"$scratch/plan-$job.json"; done
cat >"$scratch/role" <<'END'
#!/bin/sh
job=${BANYAN_HOST%?}
export BANYAN_ROOT="${job}0:7700" BANYAN_PLAN="$SCRATCH/plan-$job.json" BANYAN_SIZE=2 BANYAN_LOCAL_RANK=0 BANYAN_LOCAL_SIZE=1
[ "$BANYAN_HOST" != "${job}s" ] || exec "$BANYAN_COMMAND" server
export BANYAN_RANK="${BANYAN_HOST#?}"
exec "$BANYAN_COMMAND" bench allreduce -s 1M --iterations 4 --warmup 0 --json
END
chmod +x "$scratch/role"
both() { # way
  wants 0 "$BANYAN" lab "$scratch/both.json" --switches "$1" -p ring --json -o raw -x SCRATCH="$scratch" \
    -x BANYAN_COMMAND="$BANYAN" -- "$scratch/role"
  python3 - "$scratch/out" <<'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
lab, jobs = rows[-1], [row for row in rows if "wrong" in row]
assert len(jobs) == 2 and all(job["wrong"] == 0 and job["ranks"] == 2 for job in jobs), jobs
print(max(sum(link["bytes"] for link in lab["links"] if link["to"] == server) for server in ("as", "bs")) / (5 << 20))
END
}
for way in $ways; do into 1.7 both "$way"; done
