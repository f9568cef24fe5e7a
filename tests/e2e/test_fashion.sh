#!/bin/bash
# Tests the training example, and thus the library in a user's program: all ranks hold the same bits, a second run
# reproduces them, the loss of four ranks equals that of one within rounding, and errors are reported.
. "$BANYAN_SOURCE/tests/shell.sh"

fashion=$BANYAN_BUILD/examples/fashion
images=/usr/share/datasets/fashion-mnist
[ -x "$fashion" ] || skip "examples/fashion is not built: it needs libopenblas-dev and zlib1g-dev"
[ -f $images/train-images-idx3-ubyte.gz ] || skip "no images: apt-get install dataset-fashion-mnist"

# train RANKS NAME OPTION...: a short run. Its losses go to NAME.loss, JSON to NAME.json, text to NAME.text.
# The 250 images of a step are not a multiple of four, and neither is the rest in the last step.
train() {
  local ranks=$1 name=$2
  shift 2
  wants 0 "$BANYAN" run -n "$ranks" -- "$fashion" --epochs 1 --limit 6100 --batch 250 --hidden 128,64 --json \
    --loss-log "$scratch/$name.loss" "$@"
  mv "$scratch/out" "$scratch/$name.json"
  mv "$scratch/err" "$scratch/$name.text"
}
# Prints a value of the summary, after checking that every line is JSON and that the summary is the last of two.
value() {
  python3 - "$1" "$scratch/$2.json" <<'END'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
assert [line.get("epoch") for line in lines] == [1, None] and lines[1]["summary"], lines
print(lines[1][sys.argv[1]])
END
}
same_bits() { [ "$(value checksum "$1")" = "$(value checksum "$2")" ]; }

train 4 four
shows 'checksum [0-9a-f]{16}, identical on all 4 ranks' four.text
awk -v got="$(value test_accuracy four)" 'BEGIN { exit !(got > 0.6) }' || fail "learnt nothing: $(value test_accuracy four)"

train 4 again
same_bits four again || fail "a second run gave other parameters"
cmp "$scratch/four.loss" "$scratch/again.loss" || fail "a second run gave other losses"
train 4 other --seed 2
same_bits four other && fail "the checksum does not depend on the parameters"

train 1 one
train 3 three
follows() { # follows NAME: its losses equal those of one rank, within rounding.
  paste "$scratch/one.loss" "$scratch/$1.loss" | awk '
    { d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > most) most = d; wrong += NF != 4 || $1 != NR - 1 || $3 != NR - 1 }
    END { print NR " steps, largest difference " most; exit !(NR == 25 && !wrong && most < 1e-5) }' ||
    fail "the losses of $1 ranks and of one part"
}
follows three
follows four

# A rank with other steps than the rest ends with other parameters, and is named.
cat >"$scratch/odd" <<END
#!/bin/sh
exec "$fashion" --epochs 1 --limit 500 --quiet --lr 0.0\$((BANYAN_RANK == 2 ? 4 : 5))
END
chmod +x "$scratch/odd"
wants 1 "$BANYAN" run -n 4 -- "$scratch/odd"
shows 'the parameters of rank 2 on .* differ' err
grep -E 'parameters of rank [013]' "$scratch/err" && fail "more than rank 2 is named"

# Missing images and damaged images are reported.
wants 1 "$BANYAN" run -n 2 -- "$fashion" --data "$scratch"
shows 'no .*/train-images-idx3-ubyte.gz; .*apt-get install dataset-fashion-mnist' err
printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\2abcdefg' | gzip >"$scratch/train-images-idx3-ubyte.gz"
wants 1 "$BANYAN" run -n 2 -- "$fashion" --data "$scratch"
shows 'train-images-idx3-ubyte.gz: ends after 23 unpacked bytes, in the pixels, which should end at byte 24' err
wants 2 "$fashion" --epochs 0
