#!/bin/bash
# Tests `banyan bench`: every collective, type and operation, with every element checked, with ranks of its own and as
# a rank.
. "$BANYAN_SOURCE/tests/shell.sh"

quick=(--iterations 3 --warmup 1)
# rows N: $scratch/out has N JSON objects with all keys, their figures are consistent, and nothing was wrong.
rows() {
  python3 - "$1" "$scratch/out" <<'END' || fail "the JSON is not as promised"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
assert len(rows) == int(sys.argv[1]), (len(rows), sys.argv[1])
for row in rows:
    assert {"impl", "collective", "bytes", "dtype", "op", "ranks", "transport", "plan", "registered", "calls", "time_us",
            "min_us", "max_us", "algbw", "busbw", "wrong", "sleeps_per_call", "wakes_per_call", "cc", "plan_name",
            "plan_source", "plan_part"} <= set(row), row
    assert row["wrong"] == 0 and 0 < row["min_us"] <= row["time_us"] <= row["max_us"], row
    assert abs(row["algbw"] - 8e6 * row["bytes"] / row["time_us"]) <= 1e-4 * row["algbw"], row
    n = row["ranks"]
    factor = {"allreduce": 2 * (n - 1) / n, "reduce": 1, "broadcast": 1, "sendrecv": 1, "barrier": 1}
    assert abs(row["busbw"] - row["algbw"] * factor.get(row["collective"], (n - 1) / n)) <= 1e-4 * row["busbw"], row
END
}

for collective in allreduce reduce broadcast reduce_scatter allgather gather scatter alltoall sendrecv; do
  wants 0 "$BANYAN" bench "$collective" -n 3 --root 2 --sizes 4,1000,300K --json "${quick[@]}"
  rows 3
  shows "\"collective\": \"$collective\"" out
done
wants 0 "$BANYAN" bench barrier -n 3 --json "${quick[@]}"
rows 1
for collective in allreduce reduce_scatter allgather gather; do
  wants 0 "$BANYAN" bench "$collective" -n 3 --in-place --root 1 --sizes 1000,300K --json "${quick[@]}"
  rows 2
  shows '"in_place": true' out
done
for dtype in f64 f16 bf16 i8 u8 i32 i64; do
  wants 0 "$BANYAN" bench allreduce -n 2 --dtype "$dtype" --sizes 8,100K --json "${quick[@]}"
  rows 2
done
for op in avg min max prod; do wants 0 "$BANYAN" bench allreduce -n 3 --op $op --sizes 5000 --json "${quick[@]}"; done
for op in and or xor sum avg; do
  wants 0 "$BANYAN" bench allreduce -n 3 --op $op --dtype i32 --sizes 5000 --json "${quick[@]}"
  rows 1
done
wants 0 "$BANYAN" bench -n 2 --transport tcp --plan ring --registered --pin --sizes 8..64 --check off --json "${quick[@]}"
rows 4
shows '"transport": "tcp", "plan": "ring", "registered": true' out
wants 0 "$BANYAN" bench -n 2 --transport shm --budget 0.01 --sizes 64K --json
rows 1

# Without warm-up calls the bench still finds the number of calls that the budget allows: the minimum.
wants 0 "$BANYAN" bench -n 2 --sizes 1M --warmup 0 --budget 0.00001 --json
shows '"calls": 8,' out

# The output is a table for users.
wants 0 "$BANYAN" bench -n 2 --sizes 8,1K --counters "${quick[@]}"
shows '^# allreduce, f32, sum; 2 ranks on 1 host' out
[ "$(grep -cE '^ +(8|1024) +3 ' "$scratch/out")" -eq 2 ] || fail "rows of the table"

# The output names the plan in use: by size, or by the name in a file, with the throughput that the planner expects.
shows '^# plan default \(built-in, by size, see the last column\)$' out
[ "$(grep -cE '^ +(8|1024) .*  (star|exchange)$' "$scratch/out")" -eq 2 ] || fail "the rows do not name the plan"
"$BANYAN" plan star:3,nic=1g --json >"$scratch/some.file"
wants 0 "$BANYAN" bench -n 3 --plan "$scratch/some.file" --sizes 8,1K "${quick[@]}"
shows '^# plan star:3,nic=1g \(file\), expected to carry 750 Mbit/s, bound 750 Mbit/s$' out
[ "$(grep -cE '^ +(8|1024) .*  star:3,nic=1g$' "$scratch/out")" -eq 2 ] || fail "the rows do not name the plan"
wants 0 "$BANYAN" bench -n 3 --plan "$scratch/some.file" --sizes 8 --json "${quick[@]}"
shows '"plan_name": "star:3,nic=1g", "plan_source": "file", "plan_part": "", .*"plan_bound": 7.5e\+?0?8' out
# Throughput and bound are those of the collective, where the plan has them.
wants 0 "$BANYAN" bench broadcast -n 3 --plan "$scratch/some.file" --sizes 8,64K --json "${quick[@]}"
[ "$(grep -cE '"plan_bound": (1(\.0)?e\+?0?9|1000000000)' "$scratch/out")" -eq 2 ] || fail "the broadcast's bound"
wants 0 "$BANYAN" bench alltoall -n 3 --plan "$scratch/some.file" --sizes 12 --json "${quick[@]}"
[ "$(grep -c plan_bound "$scratch/out")" -eq 0 ] || fail "alltoall has the bound of another collective"

# The bench runs as ranks of a job, on two apparent hosts.
wants 0 "$BANYAN" run -H localhost:2,127.0.0.1:1 -- "$BANYAN" bench --sizes 1000 --json "${quick[@]}"
rows 1
shows '"ranks": 3' out
wants 0 "$BANYAN" run -H localhost:1,127.0.0.1:1 -- "$BANYAN" bench --sizes 1000 "${quick[@]}"
shows '^\[0\] # allreduce, .* 2 ranks on 2 hosts' out

# Sparse rows: every method, forced and chosen, gives the right sum.
wants 0 "$BANYAN" bench sparse -n 3 --height 1000 --rows 100 --width 5 --rounds 3 --warmup 0 --json
python3 - "$scratch/out" <<'END' || fail "the JSON of sparse rows is not as promised"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert [row["method"] for row in rows] == ["chosen", "padded", "gather", "broadcast", "merge", "dense"], rows
assert rows[0]["taken"] in [row["method"] for row in rows[1:]], rows[0]
for row in rows:
    assert row["wrong"] == 0 and row["ranks"] == 3 and 100 < row["union"] <= 200, row
    assert 0 < row["min_us"] <= row["time_us"] and row["of_best"] > 0, row
assert min(row["of_best"] for row in rows[1:]) == 1, rows
END
wants 0 "$BANYAN" bench sparse -n 2 --height 1000 --rows 100 --tables 30 --rounds 2 --warmup 0
[ "$(grep -cE '^  (chosen|padded|gather|broadcast|merge|dense|one table) .* 0(  [a-z]+ [0-9])*$' "$scratch/out")" -eq 7 ] ||
  fail "the rows of 30 tables, and of one"
wants 2 "$BANYAN" bench sparse --height 10 --rows 5 --tables 11
wants 0 "$BANYAN" bench sparse -n 2 --transport tcp --method merge --rows 0 --rounds 1 --warmup 1
[ "$(grep -cE '^ +merge .* 0$' "$scratch/out")" -eq 1 ] || fail "the row of the method that was asked for"
wants 0 "$BANYAN" run -n 2 -- "$BANYAN" bench sparse --height 50 --rows 50 --rounds 1
shows 'union 50; 1 table$' out
wants 2 "$BANYAN" bench sparse --height 10 --rows 11
shows '^banyan bench sparse: --rows is 11, but the table has 10' err
wants 2 "$BANYAN" bench sparse --method fastest
shows 'no way of sparse rows is called "fastest"; there are chosen, padded' err

# Groups: rows and columns of a mesh, with plans of their own where the job has a topology; and others.
wants 0 env BANYAN_TOPOLOGY="sites:2x2,lan=1g,wan=200m,rtt=2ms" "$BANYAN" bench groups -n 4 -t tcp -s 64K --rounds 2 --wait 30s --json
python3 - "$scratch/out" <<'END' || fail "the JSON of groups is not as promised"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert [row["group"] for row in rows] == ["0,1", "2,3", "0,2", "1,3"], rows
for row in rows:
    assert row["wrong"] == 0 and row["plan_source"] == "topology" and row["bytes"] == 65536, row
    assert row["alone_us"] > 0 and 0 < row["together_us"] <= 1.0001 * row["all_us"], row
assert all(0.95 < row["plan_bound"] / bound < 1.05 for row, bound in zip(rows, [1e9, 1e9, 2e8, 2e8])), rows
END
wants 0 "$BANYAN" bench groups -n 3 -g 0,1,2/2,0 -s 8 --rounds 1 --wait 0.01s
[ "$(grep -cE ' 0  (0,1,2|2,0): default \(built-in\)$' "$scratch/out")" -eq 2 ] || fail "the rows of two groups"
wants 1 "$BANYAN" bench groups -n 3
shows '3 ranks are no mesh of two rows' err
wants 1 "$BANYAN" bench groups -n 2 -g 0,2
shows 'has rank 2, but there are 2' err
for groups in 0 0,0 0,1/ "0,1," ,0,1 0,-1 0,x 0,99999999999; do
  wants 2 "$BANYAN" bench groups -g "$groups"
  shows 'it must be up to 64 lists of two or more different ranks' err
done
wants 2 "$BANYAN" bench groups --size 1K,2K

# Misuse is reported before anything starts where that is possible.
wants 2 "$BANYAN" bench alreduce
shows 'did you mean allreduce' err
wants 2 "$BANYAN" bench --sizes 0
wants 2 "$BANYAN" bench --op xor
wants 2 "$BANYAN" bench --dtype f33
wants 2 "$BANYAN" bench scatter --in-place
wants 2 "$BANYAN" bench --transport udp
wants 2 "$BANYAN" bench -n 2 --plan nonesuch --sizes 8
shows '^banyan bench: there is no built-in plan "nonesuch"' err
wants 1 "$BANYAN" bench reduce -n 2 --root 2 --sizes 8

# The format of nccl-tests: their columns and bus bandwidth, out of place and in place; none if there is no such call.
nccl() {
  python3 - "$scratch/out" "$@" <<'END' || fail "the format of nccl-tests is not as promised: $*"
import sys
path, kind, redop, root, n, count, forms = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
factor = float(sys.argv[8])
lines = open(path, encoding="utf-8").read().splitlines()
head = [line.split() for line in lines if line.startswith("#") and "algbw" in line]
assert head == [["#", "size", "count", "type", "redop", "root"] + 2 * ["time", "algbw", "busbw", "#wrong"]], head
rows = [line.split() for line in lines if not line.startswith("#")]
assert len(rows) == 2 and all(len(row) == 13 for row in rows), rows
assert [row[2:5] for row in rows] == 2 * [[kind, redop, str(root)]] and int(rows[1][1]) == count, rows
for size, *_ in rows:
    assert int(size) > 0
for row in rows:
    for result in (row[5:9], row[9:13])[:forms]:
        time, algbw, busbw, wrong = map(float, result)
        assert time > 0 and wrong == 0, row
        assert abs(algbw - int(row[0]) / time / 1e3) <= 0.02 * algbw + 0.02, row
        assert abs(busbw - factor * algbw) <= 0.02 * algbw + 0.02, row
    assert forms == 2 or row[9:] == 4 * ["N/A"], row
assert any(line.startswith("# Out of bounds values : 0 OK") for line in lines), lines
assert any(line.startswith("# Avg bus bandwidth    : ") for line in lines), lines
END
}
wants 0 "$BANYAN" bench -n 3 --format nccl-tests --sizes 12,300000 "${quick[@]}"
nccl float sum -1 3 75000 2 1.333333
wants 0 "$BANYAN" bench allgather -n 4 --format nccl-tests --dtype f16 --sizes 16,400000 "${quick[@]}"
nccl half none -1 4 50000 2 0.75
wants 0 "$BANYAN" bench reduce_scatter -n 4 --format nccl-tests --dtype i32 --op max --sizes 16,400000 "${quick[@]}"
nccl int32 max -1 4 25000 2 0.75
wants 0 "$BANYAN" bench broadcast -n 2 --root 1 --format nccl-tests --sizes 16,400000 "${quick[@]}"
nccl float none 1 2 100000 1 1
wants 0 "$BANYAN" bench alltoall -n 2 --format nccl-tests --sizes 16,400000 "${quick[@]}"
nccl float none -1 2 50000 1 0.5
wants 2 "$BANYAN" bench --json --format nccl-tests
shows 'exclude each other' err
wants 2 "$BANYAN" bench --in-place --format nccl-tests
wants 0 "$BANYAN" bench -n 2 --format json --sizes 8 "${quick[@]}"
rows 1

# Options of nccl-tests are answered with the equivalent.
wants 2 "$BANYAN" bench -b 8 -e 1M -f 2
shows '^banyan bench: -b is not an option here: give --sizes MIN\.\.MAX, as in -s 8\.\.1M for -b 8 -e 1M -f 2$' err
wants 2 "$BANYAN" bench -g 8
shows 'give -n N$' err
