#!/bin/bash
# Tests BANYAN_TIMELINE: the file is readable by other programs, in one time base although the ranks' clocks differ.
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

# --- killed jobs: the file is valid, and has all events before the end
sum_until=$BANYAN_BUILD/tests/net/sum_until

# holds RANKS [RANK...]: the file is JSON, each of the first RANKS ranks has a completed AllReduce, and the named ranks
# sent all their records.
holds() {
  python3 - "$scratch/timeline.json" "$@" <<'END' 2>"$scratch/holds"
import json, sys
file = json.load(open(sys.argv[1]))
ended = {e["pid"] for e in file["traceEvents"] if e["ph"] == "e" and e["name"] == "allreduce"}
assert ended >= set(range(int(sys.argv[2]))), ended
assert set(file["otherData"]) >= set(sys.argv[3:]), file["otherData"]
END
}

start_sums() { # starts a job of 3 ranks as $job, and returns when the file has something of each
  rm -f "$scratch"/{timeline.json,pid.*}
  # shellcheck disable=SC2016
  python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' \
    env BANYAN_TIMELINE="$scratch/timeline.json" "$BANYAN" run -n 3 "$@" -- \
    sh -c 'echo $$ >"$1/pid.$BANYAN_RANK"; exec "$2" "$1/over" "$1/sums"' - "$scratch" "$sum_until" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
  comes holds 3 || { cat "$scratch/holds" >&2; fail "the timeline stays empty while the job runs"; }
}
ends() { # STATUS
  local got=0
  wait "$job" || got=$?
  [ "$got" -eq "$1" ] || fail "the job ended with $got, not $1"
}

# If a rank is killed, the others have time to report which, and all their records are in the file.
start_sums
kill -KILL "$(cat "$scratch/pid.1")"
ends 137
shows '^\[0\] rank 1 \(host .*\) is gone' err
shows '^\[2\] rank 1 \(host .*\) is gone' err
shows '^banyan run: rank 1 on host .*: killed by signal 9' err
holds 3 0 2 || { cat "$scratch/holds" >&2; fail "rank 1 killed: the timeline"; }
# Ranks that do not end by themselves are ended after a configurable time.
wants 3 "$BANYAN" run -n 2 --report-time 0.2 -- sh -c "[ \$BANYAN_RANK = 1 ] && exit 3; exec sleep $odd"
left 0
# The rank that writes the file is killed, then the launcher, then Ctrl-C ends the job.
start_sums
kill -KILL "$(cat "$scratch/pid.0")"
ends 137
shows '^\[1\] rank 0 \(host .*\) is gone' err
holds 3 || { cat "$scratch/holds" >&2; fail "rank 0 killed: the timeline"; }
start_sums
kill -KILL "$job"
ends 137
holds 3 || { cat "$scratch/holds" >&2; fail "the launcher killed: the timeline"; }
start_sums --report-time 0
kill -INT "$job"
ends 130
holds 3 || { cat "$scratch/holds" >&2; fail "Ctrl-C: the timeline"; }

# The clock of a rank is two days ahead: the kernel knows it as it would know another machine's.
unshare --time --monotonic 172800 true 2>/dev/null || { echo "no time namespaces here: clocks that differ were not tried"; exit 0; }
wants 0 env BANYAN_TIMELINE="$scratch/timeline.json" "$BANYAN" run -n 3 --transport tcp -- \
  sh -c "[ \$BANYAN_RANK = 1 ] && exec unshare --time --monotonic 172800 $hello; exec $hello"
check 3 0
