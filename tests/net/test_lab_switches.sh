#!/bin/bash
# Sums through switches in labs: right, and added on the way (which the links' bytes say), through one, two and three
# switches, in XDP and in user space; without cells, and with switches that end in the middle. Two jobs at one switch.
. "$BANYAN_SOURCE/tests/shell.sh"

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"
examples=$BANYAN_SOURCE/examples/topologies

wants 2 "$BANYAN" lab star:4 --switches user -- true
shows 'no switch of the topology adds' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --server w0 -- true
shows '--server says where' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --switches user --server s0 -- true
shows 'there is no "s0"' err
wants 2 "$BANYAN" lab "$examples/adding-1.json" --switches xdp --mtu 9000 -- true
shows 'packets of at most 3506' err
wants 0 "$BANYAN" lab "$examples/adding-2.json" --switches xdp --dry-run
shows '^switch +root +10\.77\.0\.10 +3 interfaces, adds' out
shows '^13 network namespaces, 20 pairs' out

"$BANYAN" lab "$examples/adding-1.json" --switches none -- true 2>"$scratch/err" || {
  grep -qE 'CONFIG_NET|rights' "$scratch/err" && skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# What a rank finds: the switch's name, and a plan with its tree.
wants 0 "$BANYAN" lab "$examples/adding-1.json" --switches none -- sh -c 'getent hosts s; grep -c "\"switch\"" "$BANYAN_PLAN"'
shows '^\[w3\] 10\.77\.0\.6 +s' out
shows '^\[w0\] 1$' out

# sums WAY TOPOLOGY WORKERS merged|apart [OPTION...]: three calls of 256 KiB, one of which is checked, are right. What comes into
# the server for each byte that a worker has is about one byte, or one from each worker. (Short calls send a header more for each
# packet of data.)
sums() {
  local way=$1 topology=$2 workers=$3 how=$4
  shift 4
  wants 0 "$BANYAN" lab "$topology" --switches "$way" --json -o rank0 --scale 3 "$@" -- \
    banyan bench allreduce -s 256K --iterations 2 --warmup 0 --json
  python3 - "$scratch/out" "$workers" "$how" <<'END' || fail "$way $topology: $(cat "$scratch/out" "$scratch/err")"
import json, sys
row, lab = [json.loads(line) for line in open(sys.argv[1])]
workers, merged = int(sys.argv[2]), sys.argv[3] == "merged"
assert row["wrong"] == 0 and row["ranks"] == workers, row
into = sum(link["bytes"] for link in lab["links"] if link["to"] == "server") / (3 * row["bytes"])
assert into < 2 if merged else into > 0.9 * workers, into
END
}

ways=user
"$BANYAN" lab "$examples/adding-1.json" --switches xdp -- true 2>"$scratch/err" && ways="user xdp"
[ "$ways" != user ] || grep -vE '^\[' "$scratch/err" >&2
# Switches start, and start again.
for way in $ways; do
  "$BANYAN" lab "$examples/adding-2.json" --switches "$way" -- sleep "$odd" 2>"$scratch/said" &
  lab=$!
  left 6
  keeper=$(sed -n 's/^banyan lab: switch leaf1: kill -HUP \([0-9]*\) .*/\1/p' "$scratch/said")
  asks() { nsenter -m -n -u -t "$keeper" "$BANYAN" status 2>&1; }
  [ "$(nsenter -u -t "$keeper" hostname)" = leaf1 ] || fail "the keeper is not in its switch's place: $(cat "$scratch/said")"
  asks | grep -q "$way" || fail "$(asks)"
  kill -KILL "$(pgrep -P "$keeper")"
  for ((i = 0; i < 100; i++)); do asks >"$scratch/out" || break; sleep 0.1; done
  kill -HUP "$keeper"
  for ((i = 0; i < 100; i++)); do asks >"$scratch/out" && break; sleep 0.1; done
  grep -q "$way" "$scratch/out" || fail "$(cat "$scratch/out" "$scratch/said")"
  kill -TERM "$lab"
  wait "$lab" || true
  [ ! -e "/proc/$keeper" ] || fail "the keeper is left"
done

# Through one, two and three switches, also with one in between that only forwards.
for way in $ways; do
  sums "$way" "$examples/adding-1.json" 4 merged
  sums "$way" "$examples/adding-2.json" 6 merged
  sums "$way" "$examples/adding-3.json" 8 merged
done

# NaN, infinities, values near FLT_MAX and denormals come out as IEEE addition gives them, with the same bits in all runs: of
# fixed point wherever they are added, of float32 by the tree of the switches that add, whatever gets lost.
special() { # way, topology, options of the lab; the bits
  wants 0 "$BANYAN" lab "$2" --switches "$1" --scale 3 "${@:3}" -- "$BANYAN_BUILD/tests/net/special_values"
  [ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 6 ] || fail "$1: $(cat "$scratch/out" "$scratch/err")"
  sed 's/.*bits //' "$scratch/out" | sort -u >"$scratch/bits"
  [ "$(wc -l <"$scratch/bits")" = 1 ] || fail "$1: workers have other bits: $(cat "$scratch/out")"
  cat "$scratch/bits"
}
lossy=$scratch/lossy.json
sed 's/"capacity"/"loss": 0.02, "capacity"/' "$examples/adding-2.json" >"$lossy"
fixed=$(special none "$lossy")
for way in $ways; do [ "$(special "$way" "$examples/adding-2.json")" = "$fixed" ] || fail "$way: other bits in fixed point"; done
floats=$(special user "$examples/adding-2.json" -x BANYAN_SUMS=float32)
[ "$(special user "$lossy" -x BANYAN_SUMS=float32)" = "$floats" ] || fail "losses change the bits of float32"
[ "$floats" != "$fixed" ] || fail "float32 and fixed point give the same bits: these numbers show nothing"

# A switch that is killed in mid-call and started again, or replaced: sums are right, and made on the way again.
for way in $ways; do
  : >"$scratch/said"
  "$BANYAN" lab "$examples/adding-2.json" --switches "$way" --json -o rank0 -- \
    banyan bench allreduce -s 4M --iterations 8 --warmup 0 --check all --json >"$scratch/out" 2>"$scratch/said" &
  lab=$!
  until grep -q 'switch root: .*goes there' "$scratch/said"; do kill -0 "$lab" || fail "$(cat "$scratch/said")"; sleep 0.1; done
  keeper=$(sed -n 's/^banyan lab: switch root: kill -HUP \([0-9]*\) .*/\1/p' "$scratch/said")
  sleep 1.5
  kill -KILL "$(pgrep -P "$keeper")"
  sleep 0.3
  kill -HUP "$keeper"
  sleep 1
  kill -HUP "$keeper"
  wait "$lab" || fail "$way: $(cat "$scratch/out" "$scratch/said")"
  python3 - "$scratch/out" <<'END' || fail "$way: $(cat "$scratch/out" "$scratch/said")"
import json, sys
row, lab = [json.loads(line) for line in open(sys.argv[1])]
assert row["wrong"] == 0 and row["ranks"] == 6, row
into = sum(link["bytes"] for link in lab["links"] if link["to"] == "server") / (9 * row["bytes"])
assert into < 4, into
END
done

# Nobody adds, or nobody can: all of it comes to the server.
sums none "$examples/adding-2.json" 6 apart
sed 's/"aggregates": true/"aggregates": true, "memory": 1/' "$examples/adding-1.json" >"$scratch/poor.json"
for way in $ways; do sums "$way" "$scratch/poor.json" 4 apart; done

# A job that the switches do not know: they do not add for it.
for way in $ways; do sums "$way" "$examples/adding-1.json" 4 apart -x BANYAN_SWITCH_KEY=wrong; done

# Two jobs at one switch at the same time: neither gets anything of the other's, and both are added for.
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
for way in $ways; do
  wants 0 "$BANYAN" lab "$scratch/both.json" --switches "$way" -p ring --json -o raw -x SCRATCH="$scratch" \
    -x BANYAN_COMMAND="$BANYAN" -- "$scratch/role"
  python3 - "$scratch/out" <<'END' || fail "$(cat "$scratch/out" "$scratch/err")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
lab, jobs = rows[-1], [row for row in rows if "wrong" in row]
assert len(jobs) == 2 and all(job["wrong"] == 0 and job["ranks"] == 2 for job in jobs), jobs
for server in ("as", "bs"):
    into = sum(link["bytes"] for link in lab["links"] if link["to"] == server) / (5 << 20)
    assert into < 1.7, into
END
done
