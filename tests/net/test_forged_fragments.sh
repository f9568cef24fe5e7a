#!/bin/bash
# A host that has no part in a job sees what a worker sends but does not hold the job's secret. It forges every field of
# fragments in turn and sends them to the switch, the server and the workers. Sums must be right, and calls, job and
# server must continue. The test runs with the switch in user space, and in XDP where this machine supports it.
# BANYAN_FORGED=N sets the number of forged packets, which are sent at 1,000 per second.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/net/forged_lab.sh"
fragments=${BANYAN_FORGED:-2000}

more() { [ "$(event "$1")" -gt "$2" ]; }
adds() { # whether more sums were added than before
  local before
  before=$(event completed)
  comes more completed $((before + 300)) || fail "the switch adds nothing${1:+ $1}"
}

attacked() { # [OPTION...] of banyan run
  begin_job "$@"
  adds
  forge --fragments "$fragments" || fail "nothing was forged"
  kill -0 "$job" || fail "the job has ended"
  adds "after the forger has stopped"
  end_job || fail "the job has failed"
  [ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 3 ] || fail "sums are wrong"
  ! has 'is lost|is gone' err || fail "the server or the switch was lost"
  cat "$scratch/out"
}

start_switch --user || fail "$(cat "$scratch/switch")"
attacked
attacked -x BANYAN_SUMS=float32
stop_switch
if start_switch --xdp; then
  attacked
else
  echo "without XDP: $(cat "$scratch/switch")"
fi
