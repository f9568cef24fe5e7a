#!/bin/bash
# Tests `banyan doctor`: both output formats agree, the exit code follows from them, and deliberate defects are found.
. "$BANYAN_SOURCE/tests/shell.sh"

# Prints the status of a check in the JSON lines of $scratch/out, after checking all of them.
status_of() {
  python3 - "$1" "$scratch/out" <<'END'
import json, sys
found = None
for line in open(sys.argv[2], encoding="utf-8"):
    finding = json.loads(line)
    assert set(finding) == {"check", "status", "found", "fix"}, finding
    assert finding["status"] in ("ok", "warn", "fail") and finding["found"], finding
    assert (finding["fix"] is not None) == (finding["status"] != "ok"), finding
    if finding["check"] == sys.argv[1]:
        found = finding["status"]
print(found)
END
}
is() { # is CHECK STATUS
  local got
  got=$(status_of "$1")
  [ "$got" = "$2" ] || { cat "$scratch/out"; fail "$1 is $got, not $2"; }
}

code=0
"$BANYAN" doctor --json >"$scratch/out" 2>"$scratch/err" || code=$?
[ ! -s "$scratch/err" ] || fail "something on standard error"
status_of kernel >/dev/null
if grep -q '"status":"fail"' "$scratch/out"; then wanted=1; else wanted=0; fi
[ "$code" -eq "$wanted" ] || fail "exit code $code, but $wanted is right"
for check in kernel memfd events loopback congestion cores libraries hmac variables; do
  [ "$(status_of $check)" != None ] || fail "$check is not checked"
done
is loopback ok
is hmac ok
case $(cat /proc/sys/net/ipv4/tcp_congestion_control) in
bbr*) is congestion warn ;;
*) is congestion ok ;;
esac
lines=$(wc -l <"$scratch/out")
wants "$wanted" "$BANYAN" doctor
[ "$(grep -cE '^(ok|warn|FAIL) ' "$scratch/out")" -eq "$lines" ] || fail "the forms differ"
shows "^[0-9]+ ok, [0-9]+ to look at, [0-9]+ failed$" out

(ulimit -n 200 && "$BANYAN" doctor --json >"$scratch/out") || true
is 'open files' warn
wants 1 env BANYAN_IFACE=nonesuch0 "$BANYAN" doctor --json
is interfaces fail
shows 'nonesuch0' out
env BANYAN_KEY=deadbeef BANYAN_LOG=warn PATH=/nonexistent "$BANYAN" doctor --json >"$scratch/out" || true
is ssh warn
shows 'BANYAN_KEY=\.\.\.' out
shows 'BANYAN_LOG=warn' out
is variables ok
env BANYAN_IFCAE=eth0 "$BANYAN" doctor >"$scratch/out" || true
shows '^warn +variables +BANYAN_IFCAE is not a variable' out
shows '-> did you mean BANYAN_IFACE\?' out
if grep -q deadbeef "$scratch/out"; then fail "the key is shown"; fi
taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$BANYAN" doctor --json >"$scratch/out" || true
shows '"cores".*"1 of ' out

# The network lacks even a loopback interface.
if unshare -rn true 2>/dev/null; then
  code=0
  unshare -rn "$BANYAN" doctor --json >"$scratch/out" || code=$?
  [ $code -eq 1 ] || fail "no network, but exit code $code"
  is loopback fail
  shows 'ip link set lo up' out
fi
