#!/bin/bash
# Tests the HTTPS service of a manager with its own certificate: for a terminal, for Prometheus, and refused without
# the token.
. "$BANYAN_SOURCE/tests/shell.sh"

keys=$scratch/keys
wants 0 "$BANYAN" keys init --keys "$keys"
wants 0 "$BANYAN" keys make manager m0 --address 127.0.0.1 --keys "$keys"
wants 0 "$BANYAN" keys init --keys "$scratch/others"
pem=$keys/manager-m0.pem

"$BANYAN" manager clos:racks=2,hosts=2 --keys "$keys" --listen 127.0.0.1:0 --state "$scratch/state" --http 127.0.0.1:0 \
  --token-file "$scratch/token" --http-certificate "$pem" --http-key "$pem" 2>"$scratch/log" &
manager=$!
at_end() { kill "$manager" 2>/dev/null; }
comes has 'https://[0-9.:]+[^0-9.:]' log || fail "the manager does not report where its page is"
url=$(grep -oE -m 1 'https://[0-9.:]+' "$scratch/log")

status() { "$BANYAN" status --manager "$url" "$@"; }
wants 0 status --token-file "$scratch/token" --ca-file "$keys/ca.crt"
shows '^manager .*: 0 of 4 hosts connected; 0 jobs run' out
shows '^  r1h1 +no agent ' out
wants 0 status --token-file "$scratch/token" --ca-file "$keys/ca.crt" --json
shows '^\{"time":.*"hosts":\[\{"name":"r0h0"' out
wants 1 status --token-file "$scratch/token"
shows 'is not trusted: .*; is it the page.s address' err
wants 1 status --token-file "$scratch/token" --ca-file "$scratch/others/ca.crt"
shows 'is not trusted' err
wants 1 status --ca-file "$keys/ca.crt"
shows 'requires its token: give --token-file with the file that .*, which is /var/lib/banyan/token if none is named' err
[ "$(stat -c %a "$scratch/token")" = 600 ] || fail "others may read the token"

python3 - "$url" "$keys/ca.crt" >"$scratch/out" <<'PY'
import ssl, sys, urllib.request
url, authority = sys.argv[1:]
trusted = ssl.create_default_context(cafile=authority)
for path in "/healthz", "/metrics":
    print(urllib.request.urlopen(url + path, context=trusted, timeout=20).read().decode())
PY
shows '^ok$' out
shows '^banyan_host_connected\{host="r0h0"\} 0$' out
