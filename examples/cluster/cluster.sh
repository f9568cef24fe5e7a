#!/bin/bash
# cluster.sh [SECONDS]: a small cluster on this machine, to try a manager with: four agents that stand for hosts, `banyan
# manager` with its page, and two jobs. Needs no root; all hosts are this machine, so links and their rates are invented.
# Ends, with all that it started, on Ctrl-C or after SECONDS. $BANYAN is the command; default: build/banyan of this tree,
# or the one that is installed.
set -euo pipefail
built=$(dirname -- "$(realpath -- "$0")")/../../build/banyan
[ -x "$built" ] || built=$(command -v banyan || true)
banyan=$(realpath -e -- "${BANYAN:-$built}") || { echo "cluster.sh: no banyan command: run make, or set BANYAN" >&2; exit 1; }
topology=clos:racks=2,hosts=2
export hosts="r0h0 r0h1 r1h0 r1h1" folder
folder=$(mktemp -d)
started=()
unset BANYAN_AGENT BANYAN_MANAGER BANYAN_HOST BANYAN_CLASS
export BANYAN_KEYS=$folder/keys

end_all() {
  trap '' INT TERM
  kill "${started[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$folder"
}
trap end_all EXIT
trap 'exit 0' INT TERM

# start NAME COMMAND...: in the background, with its log; a key press at the terminal is for this script alone.
start() {
  setsid "${@:2}" >"$folder/$1.log" 2>&1 </dev/null &
  started+=($!)
}

# wait_for WHAT COMMAND...: until it succeeds, half a minute at most.
wait_for() {
  for _ in {1..300}; do
    "${@:2}" && return
    sleep 0.1
  done
  echo "cluster.sh: no $1; the logs:" >&2
  tail -n 5 "$folder"/*.log >&2
  exit 1
}

# Everybody needs a certificate: `banyan keys`.
"$banyan" keys init >"$folder/keys.log"
"$banyan" keys make manager m0 --address 127.0.0.1 >>"$folder/keys.log"
for host in $hosts; do "$banyan" keys make agent "$host" >>"$folder/keys.log"; done

start manager "$banyan" manager "$topology" --listen 127.0.0.1:0 --state "$folder/state.db" \
  --http 127.0.0.1:0 --token-file "$folder/token"
wait_for manager grep -q 'page at' "$folder/manager.log"
address=$(sed -n 's/.* ready at \([^,]*\),.*/\1/p' "$folder/manager.log")
page=$(sed -n 's/.* page at //p' "$folder/manager.log")
status=("$banyan" status --manager "$page" --token-file "$folder/token")

for host in $hosts; do
  start "$host" "$banyan" agent --name "$host" --manager "$address" --socket "$folder/$host.sock" --queues none
done
# Without -q: grep would not read on, and the command before it fail.
all_connected() { "${status[@]}" 2>/dev/null | grep '4 of 4 hosts connected' >/dev/null; }
wait_for agents all_connected

# Two jobs over all hosts, a rank on each. A rank on a host of its own needs neither variable: the host's name and the
# agent's usual socket are found.
# shellcheck disable=SC2016
on_host='set -- $hosts -- "$@"; shift "$BANYAN_RANK"; export BANYAN_HOST=$1 BANYAN_AGENT=$folder/$1.sock
  while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
job() { # NAME BYTES
  start "$1" env BANYAN_JOB="$1" "$banyan" run -n 4 -t tcp -- sh -c "$on_host" sh \
    "$banyan" bench -s "$2" --iterations 1000000
}
job large 1M
job small 64K
both_planned() { [ "$("${status[@]}" 2>/dev/null | grep -cE '^  (large|small) +running .* [0-9.]+ [mu]?s .* [0-9]+ +[0-9.]+[MG] ')" = 2 ]; }
both_run() { "${status[@]}" 2>/dev/null | grep ' 2 jobs run' >/dev/null; }
wait_for "jobs that run" both_run
for _ in {1..150}; do # so that there is something to see
  both_planned && break
  sleep 0.1
done

"${status[@]}"
cat <<END

The network is invented: all hosts are this machine, nothing limits a link to its rate of 10 Gbit/s, and so the
shares of links in use and the predictions do not tell how fast this machine is.

A page shows the same:  $page?token=$(<"$folder/token")
and so does a terminal: ${status[*]} --watch
What a host knows:      $banyan agent status --socket $folder/r0h0.sock
To see it survive:      kill -9 ${started[0]}, and the jobs go on; start it again with
                        BANYAN_KEYS=$BANYAN_KEYS $banyan manager $topology --listen $address \\
                          --state $folder/state.db --http ${page:7:-1} --token-file $folder/token
Logs:                   $folder
Ctrl-C ends all of it.
END
sleep "${1:-infinity}" &
started+=($!)
wait $!
