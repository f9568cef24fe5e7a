#!/bin/bash
# banyan plan: what it prints, what it refuses, and that the documentation's examples are true.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}

wants 0 "$BANYAN" plan --list
for name in star sharded ring chain tree double-tree halving doubling exchange ring2d; do shows "^$name" out; done

# drawings
wants 0 "$BANYAN" plan --builtin ring -n 4
shows '^plan ring: 4 ranks, version [0-9a-f]{8}$' out
shows 'up:   0 ─── 3 ─── 2 ─── 1$' out
wants 0 "$BANYAN" plan --builtin ring --hosts 2x2
shows 'order: 1 3$' out
shows 'first up and last down: 1→0 3→2' out
wants 0 "$BANYAN" plan --hosts 2,3
shows '^plan default: 5 ranks' out
wants 0 "$BANYAN" plan -n 1
wants 0 "$BANYAN" plan -b ring -n 3 --schedule 1 --collective reduce --root 2
shows '^reduce, rank 1 of 3' out

# a schedule as JSON is the one that is drawn
wants 0 "$BANYAN" plan -b star -n 80 --schedule 0
cp "$scratch/out" "$scratch/drawn"
wants 0 "$BANYAN" plan -b star -n 80 --schedule 0 --json
python3 - "$scratch/out" "$scratch/drawn" <<'EOF' || fail "the schedule's JSON"
import json, re, sys
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
assert len(lines) == 2 and not lines[1], len(lines)
schedule = json.loads(lines[0])
drawn = open(sys.argv[2], encoding="utf-8").read().split("\n")[2:-1]
assert (schedule["collective"], schedule["rank"], schedule["ranks"], schedule["pieces"]) == ("allreduce", 0, 80, 1)
assert len(schedule["steps"]) == len(drawn)
taken = set()
for number, (step, line) in enumerate(zip(schedule["steps"], drawn)):
    assert re.match(rf" *{number} +{step['level']}  {step['kind']} ", line), line
    for rank, tag in step.get("takes", []):
        assert f"rank {rank} #{tag}" in line, line
        taken.add(rank)
    if "after" in step:
        assert line.endswith("after " + ", ".join(map(str, step["after"]))), line
    assert ("divide" in line) == step.get("divide", False), line
    if step["kind"] == "send":
        assert f"to rank {step['rank']} #{step['tag']}" in line, line
assert taken == set(range(1, 80))
EOF

# JSON is one line, and reads back as the same plan
wants 0 "$BANYAN" plan -b double-tree -n 6 --json
[ "$(wc -l <"$scratch/out")" -eq 1 ] || fail "--json prints more than a line"
cp "$scratch/out" "$scratch/plan.json"
wants 0 "$BANYAN" plan -b double-tree -n 6
cp "$scratch/out" "$scratch/drawn"
wants 0 "$BANYAN" plan --file "$scratch/plan.json"
cmp "$scratch/out" "$scratch/drawn" || fail "the file is drawn differently"
wants 0 "$BANYAN" plan --file "$scratch/plan.json" -n 6
wants 0 "$BANYAN" plan --file "$scratch/plan.json" --hosts 6x2
shows ': 12 ranks' out
wants 1 "$BANYAN" plan --file "$scratch/plan.json" -n 7
shows 'is for 6 ranks, not for 7$' err

# misuse is 2, a bad file is 1; both say what is wrong on standard error only
refuses() {
  local status=$1 pattern=$2
  shift 2
  wants "$status" "$BANYAN" plan "$@"
  shows "$pattern" err
  [ ! -s "$scratch/out" ] || fail "$* prints to standard output"
}
refuses 2 'how many ranks' --builtin ring
refuses 2 'there is no built-in plan "rng"; did you mean ring\? There are star' --builtin rng -n 3
refuses 2 'there is no built-in plan "xyzzy"; there are star' --builtin xyzzy -n 3
refuses 2 'what is "ring"\? A built-in plan is named with --builtin' ring -n 4
refuses 2 'must be 0 to 2' --builtin star:3 -n 3
refuses 2 'neither like 2x4 nor like 4,2' --hosts 2x
refuses 2 'neither like 2x4 nor like 4,2' --hosts 4,,2
refuses 2 'at least one on each' --hosts 4,0
refuses 2 'says 3 ranks, --hosts 4' --hosts 2x2 -n 3
refuses 2 'both' --builtin ring --file x
refuses 2 'there is no rank 4' --builtin ring -n 4 --schedule 4
refuses 2 'there is no rank 9' --builtin ring -n 4 --schedule 1 --root 9
refuses 1 'cannot open plan' --file "$scratch/nothing.json"
printf '{"format": "banyan-plan 1",\n "ranks": 2,}' >"$scratch/bad.json"
refuses 1 'bad.json:2:' --file "$scratch/bad.json"
printf '{"format": "banyan-plan 1", "ranks": 3, "trees": [{"share": 1, "root": "0", "up": {"1": "2", "2": "1"}}]}' \
  >"$scratch/bad.json"
refuses 1 'bad.json: tree 0: way up: vertex "1" lies on a cycle' --file "$scratch/bad.json"

# the documentation: every example is a plan, the first is drawn as it says
python3 - "$BANYAN_SOURCE/docs/plan-format.md" "$scratch" <<'EOF'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
for i, block in enumerate(re.findall(r"```json\n(.*?)```", text, re.DOTALL)):
    open(f"{sys.argv[2]}/example-{i}.json", "w", encoding="utf-8").write(block)
drawing = re.search(r"^    plan two trees:.*?(?=^## )", text, re.DOTALL | re.MULTILINE).group(0)
lines = [line[4:] for line in drawing.rstrip().split("\n")]
open(f"{sys.argv[2]}/drawing", "w", encoding="utf-8").write("\n".join(lines) + "\n")
EOF
examples=0
for file in "$scratch"/example-*.json; do
  wants 0 "$BANYAN" plan --file "$file"
  examples=$((examples + 1))
done
[ "$examples" -eq 3 ] || fail "$examples examples in the documentation, not 3"
wants 0 "$BANYAN" plan --file "$scratch/example-0.json"
diff "$scratch/drawing" "$scratch/out" || fail "the documentation's drawing is not what is drawn"
wants 0 "$BANYAN" plan --file "$scratch/example-1.json" --json
cp "$scratch/out" "$scratch/ring"
wants 0 "$BANYAN" plan --builtin ring -n 4 --json
cmp "$scratch/ring" "$scratch/out" || fail "the documentation's ring is not the built-in one"
