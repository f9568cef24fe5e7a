#!/bin/bash
# Tests bench/negotiate_bench.c: the number of messages of each rank, which does not depend on time.
. "$BANYAN_SOURCE/tests/shell.sh"

# check CHILDREN: checks the figures of a tree in the first JSON line and those of a star in the second.
check() {
  python3 - "$scratch/out" "$1" <<'END' || fail "the figures are not as promised"
import json, sys
tree, star = [json.loads(line) for line in open(sys.argv[1])]
n, children = tree["ranks"], int(sys.argv[2])
assert tree["children"] == children and star["children"] == n - 1, (tree, star)
assert tree["up"] == tree["down"] == children, tree
assert star["up"] == star["down"] == n - 1, star
assert tree["idle"] == star["idle"] == 0, (tree, star)
assert 0 < tree["by_bits"] and 0 < tree["cold"] and 0 < tree["round"], tree
END
}

wants 0 "$NEGOTIATE_BENCH" -n 20 --operations 30 --rounds 6 --fan-out 4 --idle 0.1 --json
check 4
wants 0 "$NEGOTIATE_BENCH" -n 300 --operations 30 --rounds 5 --fan-out 7 --simulated --json
check 7
wants 0 "$BANYAN" run -n 3 --output rank0 -- "$NEGOTIATE_BENCH" --job --operations 20 --rounds 5 --idle 1 --json
grep -q '"shape": "job", "ranks": 3, "operations": 20, .*"children": 2, .*"up": 2.000, "down": 2.000, "messages": 4.000, "idle": 0, ' "$scratch/out" ||
  fail "a job's figures are not as promised"
wants 2 "$NEGOTIATE_BENCH" -n 1
wants 2 "$NEGOTIATE_BENCH" --rounds 3
