#!/bin/bash
# Tests the example of sparse gradients: it learns which words occur together, by every algorithm of exchanging rows,
# with the same table on all ranks, which it checks itself. Errors are reported.
. "$BANYAN_SOURCE/tests/shell.sh"

wordvec=$BANYAN_BUILD/examples/wordvec
# The text has paragraphs of four hundred words of one of four kinds.
awk 'BEGIN {
  srand(1)
  split("cat dog mouse horse cow sheep", k1); split("red green blue yellow white black", k2)
  split("one two three four five six", k3); split("piano violin flute drum harp horn", k4)
  for (i = 0; i < 90; i++) {
    kind = int(rand() * 4)
    for (j = 0; j < 400; j++) {
      w = 1 + int(rand() * 6)
      printf "%s ", kind == 0 ? k1[w] : kind == 1 ? k2[w] : kind == 2 ? k3[w] : k4[w]
    }
    print "once"
  }
}' >"$scratch/text"

learns() { # learns RANKS OPTION...
  local ranks=$1
  shift
  wants 0 "$BANYAN" run -n "$ranks" -o rank0 -- "$wordvec" --width 16 --batch 200 --tokens 300000 --words cat,piano,nothing "$@" "$scratch/text"
  shows "36090 words, 25 of them different, a table of 50 x 16, $ranks ranks" out
  shows 'nothing +is not in the text' out
  # The loss falls, and the five nearest words of each are of its kind.
  awk '/loss/ { sub(",", "", $4); if (!first) first = $4; last = $4 } END { exit !(last < first - 0.1) }' "$scratch/out" ||
    fail "the loss does not fall: $(cat "$scratch/out")"
  for word in dog mouse horse cow sheep; do shows "^  cat +([a-z]+ ){0,4}$word" out; done
  for word in violin flute drum harp horn; do shows "^  piano +([a-z]+ ){0,4}$word" out; done
}

learns 1
learns 3
for way in padded gather broadcast merge dense; do learns 2 --way $way; done

wants 2 "$wordvec"
shows 'usage: wordvec' err
wants 1 "$wordvec" "$scratch/nowhere"
shows 'nowhere: No such file' err
wants 1 "$wordvec" --way sideways "$scratch/text"
shows 'no way of sparse rows is called "sideways"' err
wants 2 "$wordvec" --width none "$scratch/text"
shows 'width is "none", must be a number' err
