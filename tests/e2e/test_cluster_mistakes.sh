#!/bin/bash
# Tests mistakes of new users with managers and agents: each is reported once, with what is wrong, where, and what to
# do.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
export BANYAN_KEYS=$scratch/keys
unset BANYAN_AGENT BANYAN_MANAGER BANYAN_HOST
manager=0 agent=0
at_end() { for process in "$manager" "$agent"; do [ "$process" = 0 ] || kill -9 "$process" 2>/dev/null || true; done; }

# refused CODE TEXT COMMAND...: the command ends with this code and reports this text.
refused() {
  wants "$1" "$BANYAN" "${@:3}"
  shows "$2" err
}

"$BANYAN" keys init >/dev/null
"$BANYAN" keys make manager m0 --address 127.0.0.1 >/dev/null
"$BANYAN" keys make agent h0 >/dev/null
state=$scratch/state.db

# The manager cannot start.
refused 1 'cannot open the manager.s state /nowhere/m.db: No such file or directory; --state names another' \
  manager star:2 --state /nowhere/m.db
refused 2 '\-\-ways: "rings" is not one of the ways ring,tree,helpers,switches' manager star:2 --ways rings
refused 2 '\-\-tree-penalty must be 0 to 1, is 2' manager star:2 --tree-penalty 2
refused 1 '"h7" is to serve, but is not in the topology' manager star:2 --state "$state" --listen 127.0.0.1:0 --servers h7
mkdir "$scratch/cache"
echo '{' >"$scratch/cache/costs-$(uname -n)-tls.json" # the costs of this machine are read before that
BANYAN_CACHE=$scratch/cache refused 1 'costs-.*the usual costs are used' \
  manager star:2 --state "$state" --listen 127.0.0.1:0 --servers h7
refused 1 '\-\-listen: "7650" is not an address: write host:port' manager star:2 --state "$state" --listen 7650
at=(--state "$state" --listen 127.0.0.1:0)
refused 1 '\-\-http: "8420" is not an address: write host:port' manager star:2 "${at[@]}" --http 8420 --token-file "$scratch/t"
refused 1 'cannot make token file /nowhere/token \(--token-file\): No such file' \
  manager star:2 "${at[@]}" --http 127.0.0.1:0 --token-file /nowhere/token

# The agent cannot start.
refused 2 '\-\-rate: "fast" is not a rate in bit/s' agent --rate fast
refused 2 '\-\-rate: "eth1" is not INTERFACE=RATE' agent --rate eth0=10g,eth1
refused 2 '\-\-rate: "fast" is not a rate in bit/s' agent --rate eth0=10g,eth1=fast
refused 2 '\-\-manager: "m0" is not an address: write host:port' agent --manager m0
refused 2 '\-\-group: there is no group "nosuch" on this machine' agent --group nosuch
refused 2 '\-\-json is for `banyan agent status`' agent --json
refused 1 'make agent h7. makes it where the cluster.s ca.key is' agent --manager 127.0.0.1:1 --name h7

# A switch cannot report to a manager.
refused 2 '\-\-keys, --name and --rate are for a switch with --manager' switch --user lo --rate 10g
refused 2 '\-\-manager: "m0" is not an address: write host:port' switch --user lo --manager m0
refused 2 '\-\-rate: "=1g" is not INTERFACE=RATE' switch --user lo --manager 127.0.0.1:1 --rate =1g
echo word >"$scratch/secret"
refused 2 'others may read or change this key \(mode 644\)' switch --user lo --control 10.0.0.1 --secret-file "$scratch/secret"
chmod 600 "$scratch/secret"
refused 2 'this secret of switches was not generated.*`banyan keys job FILE`' \
  switch --user lo --manager 127.0.0.1:1 --secret-file "$scratch/secret"
BANYAN_SWITCH_KEY=word refused 2 'BANYAN_SWITCH_KEY: this secret of switches was not generated' switch --user lo --manager 127.0.0.1:1

# So is a job that is to use switches. Its ranks get a descriptor, and could not say what is wrong.
BANYAN_SWITCH_KEY=word refused 2 '^banyan run: BANYAN_SWITCH_KEY: this secret of switches was not generated' run -n 2 -- true
BANYAN_SWITCH_KEY_FILE=$scratch/secret refused 2 'BANYAN_SWITCH_KEY_FILE: .*/secret: this secret of switches was not generated' run -n 2 -- true
refused 2 '_FILE: .*/secret: this secret of switches' run -n 2 -x "BANYAN_SWITCH_KEY_FILE=$scratch/secret" -- true
BANYAN_SWITCH_KEY_FILE=$scratch/secret refused 2 ': .*/secret: this secret of switches' bench -n 1

# The page is requested in the wrong way.
"$BANYAN" manager star:2 "${at[@]}" --http 127.0.0.1:0 --token-file "$scratch/token" 2>"$scratch/manager.log" &
manager=$!
comes has 'page at' manager.log || fail 'no manager'
page=$(sed -n 's,.*page at http://\(.*\)/$,\1,p' "$scratch/manager.log")
port=$(sed -n 's,.*ready at \([^,]*\)\, .*,\1,p' "$scratch/manager.log")
token=(--token-file "$scratch/token")
wants 0 "$BANYAN" status --manager "http://$page" "${token[@]}"
refused 1 'write http://$' status --manager "https://$page" "${token[@]}"
refused 1 'write http://$' status --manager "$page" "${token[@]}"
refused 1 'is it the page.s address, as the manager.s --http has it' status --manager "http://$port" "${token[@]}"
refused 1 'no agent, switch or manager runs on this machine .*--manager URL' status
refused 1 'banyan status: .*switch' switch status
refused 1 'cannot ask the manager at http://127.0.0.1:8420' manager status

# An agent that connects to a server without TLS reports it once, however often it tries. So does a manager without
# TLS.
BANYAN_AGENT=off "$BANYAN" agent --manager "$page" --name h0 --socket "$scratch/agent.sock" --interfaces lo --queues nosuch \
  --interval 10ms 2>"$scratch/agent.log" &
agent=$!
comes has 'does not speak TLS' agent.log || fail 'TLS is not mentioned'
for _ in 1 2 3; do wants 1 "$BANYAN" status --manager "http://$port" "${token[@]}"; done
sleep 1
[ "$(grep -c 'does not speak TLS' "$scratch/agent.log")" -eq 1 ] || fail "the agent repeats itself"
[ "$(grep -c 'speaks HTTP' "$scratch/manager.log")" -eq 1 ] || fail "the manager repeats itself"
shows '\-\-queues: there is no interface "nosuch" here now' agent.log

# A job on this machine alone uses the machine's name.
wants 0 env BANYAN_HOST=h0 "$BANYAN" run -n 1 -o raw -- sh -c 'echo "$BANYAN_HOST"'
shows '^h0$' out
wants 0 "$BANYAN" run -n 1 -o raw -x BANYAN_HOST=h1 -- sh -c 'echo "$BANYAN_HOST"'
shows '^h1$' out
