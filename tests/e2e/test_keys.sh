#!/bin/bash
# Tests banyan keys: an authority, certificates, their list and renewal, and mistakes of users.
. "$BANYAN_SOURCE/tests/shell.sh"
scratch=${scratch:?}
keys=$scratch/etc/banyan/keys
export BANYAN_KEYS=$keys

mode() { stat -c %a "$keys/$1"; }
# refused CODE TEXT ARGUMENTS...: the command ends with this code and reports this text.
refused() {
  wants "$1" "$BANYAN" keys "${@:3}"
  shows "$2" err
}

# No authority exists yet.
refused 1 "there is no $keys/ca.crt; \`banyan keys init\` makes an authority" make agent h1
refused 1 "cannot open the folder of keys $keys; --keys DIR or BANYAN_KEYS names another: No such file" show

# An authority is made, and a second one does not replace it by mistake.
wants 0 "$BANYAN" keys init
[ "$(mode ca.key) $(mode ca.crt)" = "600 644" ] || fail "modes of the authority: $(mode ca.key) $(mode ca.crt)"
cp "$keys/ca.crt" "$scratch/first.crt"
refused 1 "$keys/ca.crt exists already; --force replaces it" init
cmp "$scratch/first.crt" "$keys/ca.crt" || fail "init changed the authority without --force"

# Certificates are made for every role, whatever the umask.
(umask 000 && wants 0 "$BANYAN" keys make manager m0 --address 10.0.0.1 --address manager.example --address fd00::1)
shows "^$keys/manager-m0.pem: manager m0, until 20[0-9-]+$" out
for role in agent job client; do wants 0 "$BANYAN" keys make $role h1; done
for file in manager-m0 agent-h1 job-h1 client-h1; do [ "$(mode $file.pem)" = 600 ] || fail "$file.pem: $(mode $file.pem)"; done
cp "$keys/agent-h1.pem" "$scratch/agent.pem"
refused 1 "$keys/agent-h1.pem exists already; --force replaces it" make agent h1
cmp "$scratch/agent.pem" "$keys/agent-h1.pem" || fail "make changed a certificate without --force"
wants 0 "$BANYAN" keys make agent h1 --force
cmp -s "$scratch/agent.pem" "$keys/agent-h1.pem" && fail "--force made nothing new"
[ "$(find "$keys" -maxdepth 1 -type f | wc -l)" -eq 6 ] || fail "more files than there should be: $(ls -A "$keys")"
[ "$(find "$keys/issued" -type f | wc -l)" -eq 5 ] || fail "not what was signed: $(ls -A "$keys/issued")"
mv "$keys/issued" "$scratch/issued" && touch "$keys/issued" # A certificate is made only with a record to revoke it by.
refused 1 "cannot write $keys/issued/.*: Not a directory" make client h5
[ ! -e "$keys/client-h5.pem" ] || fail "a certificate without a record"
rm "$keys/issued" && mv "$scratch/issued" "$keys/issued"
grep -r 'PRIVATE KEY' "$keys/issued" && fail "a private key among what was signed"
wants 0 "$BANYAN" keys show
shows '^ca.crt +the authority +until 20[0-9-]+ +3650 days$' out
shows '^ca.key +signs certificates; keep it on one machine$' out
shows '^manager-m0.pem +manager m0 10.0.0.1 manager.example fd00::1 until 20[0-9-]+ +365 days$' out

# OpenSSL agrees.
if command -v openssl >/dev/null; then
  for use in sslserver sslclient; do
    wants 0 openssl verify -x509_strict -purpose $use -CAfile "$keys/ca.crt" -verify_hostname manager.example \
      "$keys/manager-m0.pem"
  done
  wants 0 openssl verify -x509_strict -purpose sslserver -CAfile "$keys/ca.crt" -verify_ip 10.0.0.1 "$keys/manager-m0.pem"
  wants 2 openssl verify -CAfile "$keys/ca.crt" -verify_hostname other.example "$keys/manager-m0.pem"
fi

# Certificates that expire soon are shown and renewed with the same names, and the others remain.
wants 0 "$BANYAN" keys make manager m0 --force --days 20 --address 10.0.0.1 --address manager.example
cp "$keys/agent-h1.pem" "$scratch/agent.pem"
wants 1 "$BANYAN" keys show
shows '^manager-m0.pem .* 20 days$' out
shows 'certificates and keys that need attention: 1; `banyan keys renew`' err
wants 0 "$BANYAN" keys renew --within 10
[ "$(cat "$scratch/out")" = "nothing in $keys expires within 10 days" ] || fail "renewed what holds for 20 days"
wants 0 "$BANYAN" keys renew
shows "^$keys/manager-m0.pem: manager m0, until 20[0-9-]+$" out
[ "$(wc -l <"$scratch/out")" -eq 1 ] || fail "renewed more than it should: $(cat "$scratch/out")"
cmp "$scratch/agent.pem" "$keys/agent-h1.pem" || fail "renewed what holds for a year"
wants 0 "$BANYAN" keys show
shows '^manager-m0.pem +manager m0 10.0.0.1 manager.example until .* 365 days$' out

# A renewed authority keeps what it has signed, and no certificate outlives its authority.
short=$scratch/short
wants 0 "$BANYAN" keys init "$short" --days 10
wants 0 "$BANYAN" keys make job h1 --keys "$short"
wants 1 "$BANYAN" keys show --keys "$short"
shows '^job-h1.pem .* 10 days$' out
cp "$short/job-h1.pem" "$scratch/job.pem"
wants 0 "$BANYAN" keys renew --keys "$short"
shows "^$short/ca.crt: the authority, until" out
mv "$scratch/job.pem" "$short/job-h1.pem"
wants 1 "$BANYAN" keys show --keys "$short"
shows '^ca.crt .* 3650 days$' out
shows '^job-h1.pem .* 10 days$' out

# Certificates that would be rejected are reported.
chmod 640 "$keys/agent-h1.pem"
cp -p "$keys/client-h1.pem" "$keys/client-h2.pem"
cp "$short/job-h1.pem" "$keys/job-h9.pem"
head -c 300 "$keys/job-h1.pem" >"$keys/job-h8.pem"
wants 1 "$BANYAN" keys show
shows '^agent-h1.pem .* REFUSED: others may read it \(mode 640\)$' out
shows "^client-h2.pem .* REFUSED: the file's name is not that of its owner\$" out
shows '^job-h9.pem .* REFUSED: it is not from the authority in ca.crt beside it' out
shows '^job-h8.pem +there is no certificate in it$' out
shows 'certificates and keys that need attention: 4;' err
chmod 644 "$keys/ca.key"
refused 1 "private key in $keys/ca.key: others may read or change this key \(mode 644\)" make agent h2
chmod 600 "$keys/ca.key"
cp "$short/ca.key" "$keys/ca.key"
refused 1 "the authority's certificate and key do not belong together" make agent h2
[ ! -e "$keys/agent-h2.pem" ] || fail "a certificate of a broken authority"

# A revocation covers all certificates that were ever made for a name, in one role or in all.
revoking=$scratch/revoking
export BANYAN_KEYS=$revoking
wants 0 "$BANYAN" keys init "$revoking"
for role in agent job client; do wants 0 "$BANYAN" keys make $role h1; done
cp "$revoking/agent-h1.pem" "$scratch/stolen.pem"
wants 0 "$BANYAN" keys make agent h1 --force
cp "$revoking/agent-h1.pem" "$scratch/agent.pem"
cp "$revoking/client-h1.pem" "$scratch/client.pem"
wants 0 "$BANYAN" keys make agent h2
wants 0 "$BANYAN" keys revoke agent h1
shows "^$revoking/agent-h1.pem: revoked and removed$" out
shows "^$revoking/ca.crl: names 2 revoked certificates; every host of the cluster needs it" out
[ "$(stat -c %a "$revoking/ca.crl")" = 644 ] || fail "mode of ca.crl"
wants 0 "$BANYAN" keys show
shows '^ca.crl +names 2 revoked certificates, of 20[0-9-]+$' out
wants 0 "$BANYAN" keys make agent h1
wants 0 "$BANYAN" keys show
shows '^agent-h1.pem .* 365 days$' out
cp "$scratch/stolen.pem" "$revoking/agent-h1.pem"
wants 1 "$BANYAN" keys show
shows '^agent-h1.pem .* REFUSED: it was revoked, says ca.crl' out
wants 0 "$BANYAN" keys revoke h1 # This includes the new certificate of the agent.
shows "^$revoking/ca.crl: names 5 " out
[ ! -e "$revoking/job-h1.pem" ] || fail "job-h1.pem stays"
[ -e "$revoking/agent-h2.pem" ] || fail "agent-h2.pem is gone"
wants 0 "$BANYAN" keys revoke "$scratch/client.pem" # It is revoked again.
shows "^$revoking/ca.crl: names 5 " out
if command -v openssl >/dev/null; then
  wants 0 openssl crl -in "$revoking/ca.crl" -CAfile "$revoking/ca.crt" -noout
  wants 2 openssl verify -crl_check -CAfile "$revoking/ca.crt" -CRLfile "$revoking/ca.crl" "$scratch/agent.pem"
  wants 0 openssl verify -crl_check -CAfile "$revoking/ca.crt" -CRLfile "$revoking/ca.crl" "$revoking/agent-h2.pem"
fi
refused 1 "no certificate for \"h3\" was made in $revoking; " revoke h3
refused 1 "no certificate for \"h1\" was made in $revoking; " revoke manager h1
refused 1 "$revoking/ca.key: there is no certificate in it" revoke "$revoking/ca.key"
refused 1 '"agnt" is not a role; .* did you mean "agent"\?' revoke agnt h1
cp "$revoking/ca.crl" "$scratch/ca.crl"
head -c 400 "$scratch/ca.crl" >"$revoking/ca.crl"
wants 1 "$BANYAN" keys show
shows '^ca.crl +there is no list of revoked certificates in it$' out
refused 1 "$revoking/ca.crl: there is no list of revoked certificates in it" revoke h2
cp "$scratch/ca.crl" "$revoking/ca.crl"
wants 0 "$BANYAN" keys renew --within 36500 # The list is renewed too, under the authority's new certificate.
wants 0 "$BANYAN" keys show
shows '^ca.crl +names 5 ' out

# A new authority signs the existing list, because a list of another authority would not be trusted.
wants 0 "$BANYAN" keys init --force
shows "^$revoking/ca.crl: signed by the new authority; every host that has one needs it$" out
rm "$revoking"/*-h?.pem
wants 0 "$BANYAN" keys make agent h2
wants 0 "$BANYAN" keys show
shows '^agent-h2.pem .* 365 days$' out
head -c 400 "$scratch/ca.crl" >"$revoking/ca.crl"
refused 1 "the new authority is made, but its list is not; remove that: $revoking/ca.crl: there is no list" init --force
export BANYAN_KEYS=$keys

# These are typing mistakes of users.
refused 2 'no action: give init, make, show, renew, revoke, job or rotate'
refused 2 '"shw" is not one of init, make, show, renew, revoke, job and rotate; did you mean "show"\?' shw
refused 2 'revoke needs a name, such as' revoke
refused 2 'make needs a role and a name, such as `banyan keys make agent host7`' make agent
refused 1 '"agnt" is not a role; .* did you mean "agent"\?' make agnt h1
refused 1 '"../h1" cannot be a name: ' make agent ../h1
refused 1 '"-h1" cannot be a name: ' make agent -- -h1
refused 1 '"a,IP:1.2.3.4" is neither an IP address nor a host' make agent h1 --force --address a,IP:1.2.3.4
refused 2 'show does not take "h1"' show h1
refused 2 '\-\-force has no effect on show' show --force
refused 2 '\-\-days is 0, must be' make agent h1 --days 0
