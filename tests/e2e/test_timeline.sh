#!/bin/bash
# BANYAN_TIMELINE: a file that others can read, in one time though the ranks' clocks differ.
. "$BANYAN_SOURCE/tests/shell.sh"
hello=$BANYAN_BUILD/examples/hello

# check RANKS MARGIN: every rank has its one AllReduce, and none ends more than MARGIN us before all have begun.
check() {
  python3 - "$scratch/timeline.json" "$@" <<'END' || fail "the timeline is not as promised"
import json, sys
file = json.load(open(sys.argv[1]))
ranks, margin = int(sys.argv[2]), float(sys.argv[3])
spans = {}
for event in file["traceEvents"]:
    if event["name"] == "allreduce":
        spans.setdefault(event["pid"], {})[event["ph"]] = event["ts"]
assert len(spans) == ranks, spans
margin += 2 * max(rank["clock_error_us"] for rank in file["otherData"].values())
first_end, last_begin = min(s["e"] for s in spans.values()), max(s["b"] for s in spans.values())
assert last_begin <= first_end + margin, (spans, margin)
assert len(file["otherData"]) == ranks
names = [e["args"]["name"] for e in file["traceEvents"] if e["name"] == "process_name"]
assert [n.split(" (")[0] for n in names] == [f"rank {r}" for r in range(ranks)], names
END
}

wants 0 env BANYAN_TIMELINE="$scratch/timeline.json" "$BANYAN" run -n 5 -- "$hello"
check 5 0
wants 1 env BANYAN_TIMELINE=/nonexistent/t.json "$BANYAN" run -n 2 -- "$hello"
shows 'BANYAN_TIMELINE: cannot open the timeline /nonexistent/t.json' err

# A rank whose clock is two days ahead: known to the kernel as another machine's would be.
unshare --time --monotonic 172800 true 2>/dev/null || { echo "no time namespaces here: clocks that differ were not tried"; exit 0; }
wants 0 env BANYAN_TIMELINE="$scratch/timeline.json" "$BANYAN" run -n 3 --transport tcp -- \
  sh -c "[ \$BANYAN_RANK = 1 ] && exec unshare --time --monotonic 172800 $hello; exec $hello"
check 3 0
