#!/bin/bash
# A host that has no part in a job sees what a worker sends but does not hold the job's secret. It forges every field of
# fragments in turn and sends them to the switch, the server and the workers, also from their addresses. None may be
# accepted: sums must be right, calls, job and server must continue, and what gets past MACs would count as wrong. In
# exact mode, whose check has a public key, MACs alone protect the sums. The test runs with the switch in user space, and
# in XDP where this machine supports it.
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

forging=
attacked() { # [OPTION...] of banyan run
  local before
  begin_job -x BANYAN_LOG=warn,innetwork:info "$@"
  adds
  before=$(event forged)
  forge --fragments "$fragments" $forging || fail "nothing was forged"
  [ "$(event forged)" -gt $((before + fragments / 20)) ] || fail "the switch has rejected nothing"
  kill -0 "$job" || fail "the job has ended"
  adds "after the forger has stopped"
  end_job || fail "the job has failed"
  [ "$(grep -c '\] 0 wrong, ' "$scratch/out")" = 3 ] || fail "sums are wrong"
  ! has 'is lost|is gone' err || fail "the server or the switch was lost"
  [ "$(grep -cE ' (worker|server) .* 0 wrong, [0-9]+ forged' "$scratch/err")" -ge 4 ] || fail "an end has accepted something"
  has ' server .* [1-9][0-9]* forged' err || fail "the server has rejected nothing"
  cat "$scratch/out"
}

start_switch --user || fail "$(cat "$scratch/switch")"
attacked
attacked -x BANYAN_SUMS=float32
forging=--open attacked -x BANYAN_SUMS=float32
stop_switch
if start_switch --xdp; then
  attacked
else
  echo "without XDP: $(cat "$scratch/switch")"
fi
