/* One end of a TLS connection in memory, on OpenSSL. */
#include "tls.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "refusal.h"
#include "tls_identity.h"

/* RFC 8446 allows 2^24.5 records under one key of AES-GCM. */
enum { RENEW_RECORDS = 1 << 23, RECORD = 16384, EXPORTED = 32 };
#define RENEW_AFTER (3000 * BY_SECOND)

static void set_state(struct by_tls *tls, enum by_tls_state to) {
  static const char *const names[] = {"shaking hands", "refused", "open", "closed by the peer", "broken"};
  bool allowed = tls->state == BY_TLS_SHAKING ? to == BY_TLS_REFUSED || to == BY_TLS_OPEN
                                              : to > tls->state && tls->state >= BY_TLS_OPEN;
  assert(allowed);
  by_debug("net", "TLS of %s %s: %s, was %s", tls->between_processes ? "a process" : by_tls_role_name(tls->own.role),
           tls->own.name, names[to], names[tls->state]);
  tls->state = to;
}

/* ---- what went wrong, for people */

/* Notes what is wrong with the peer's certificate. */
static void BY_PRINTF(2, 3) note_fault(struct by_tls *tls, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(tls->why, sizeof tls->why, format, values);
  va_end(values);
}

static void explain_role(struct by_tls *tls) {
  char wanted[64];
  size_t n = 0;
  for (unsigned role = BY_TLS_MANAGER; role <= BY_TLS_CLIENT; role <<= 1)
    if (tls->peers & role)
      n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%s", n ? " or " : "", by_tls_role_name(role));
  note_fault(
      tls,
      "the peer's certificate is for %s %s, and only %s is accepted here; `banyan keys make` makes one for each role",
      by_tls_role_name(tls->peer.role), tls->peer.name, n ? wanted : "nobody");
}

enum { ALERT = SSL_AD_REASON_OFFSET };

/* %s: this end's role and name. */
static const struct {
  int reason;
  enum by_refusal refusal;
  enum banyan_status status;
  const char *text;
} causes[] = {
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, BY_REFUSED_ALTERED, BANYAN_ERR_PROTOCOL,
     "received data was altered in transit"},
    {ALERT + SSL_AD_BAD_RECORD_MAC, BY_REFUSED_ALTERED, BANYAN_ERR_PROTOCOL,
     "the peer reports that data was altered in transit"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer presents no certificate; it needs one from `banyan keys make`"},
    {SSL_R_WRONG_VERSION_NUMBER, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
     "the peer does not speak TLS; is the port right?"},
    {SSL_R_HTTP_REQUEST, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
     "the peer speaks HTTP, not the cluster's TLS; is the port right?"},
    {SSL_R_HTTPS_PROXY_REQUEST, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
     "the peer takes this for a proxy; is the port right?"},
    {SSL_R_UNSUPPORTED_PROTOCOL, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer speaks no TLS 1.3"},
    {SSL_R_NO_SHARED_CIPHER, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer shares no TLS 1.3 cipher"},
    {ALERT + SSL_AD_PROTOCOL_VERSION, BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer speaks no TLS 1.3"},
    {ALERT + SSL_AD_CERTIFICATE_EXPIRED, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer says that our certificate (%s) has expired; make a new one with `banyan keys`, if its clock is right"},
    {ALERT + SSL_AD_CERTIFICATE_REVOKED, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer says that our certificate (%s) was revoked; `banyan keys make` makes a new one"},
    {ALERT + SSL_AD_UNKNOWN_CA, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer knows another authority than that of our certificate (%s); all hosts of a cluster need files from the "
     "same `banyan keys init`"},
    {ALERT + SSL_AD_CERTIFICATE_REQUIRED, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer requires a certificate, and this process (%s) presented none"},
    {ALERT + SSL_AD_BAD_CERTIFICATE, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer rejects our certificate (%s): its clock is behind ours, or it expects another name"},
    {ALERT + SSL_AD_UNSUPPORTED_CERTIFICATE, BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
     "the peer does not accept our role (%s); is the address right, and is this the intended certificate?"},
};

/* Explains a failure between processes of a job, which have no authority. */
static enum banyan_status explain_process(int reason, const char *text) {
  switch (reason) {
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                     "the peer presents no identity: it is not a process of a Banyan job");
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case ALERT + SSL_AD_PROTOCOL_VERSION:
    return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer speaks no TLS 1.3");
  case ALERT + SSL_AD_HANDSHAKE_FAILURE:
  case ALERT + SSL_AD_BAD_CERTIFICATE:
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                     "the peer refuses the identity of this process: it expects another process here");
  case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
  case ALERT + SSL_AD_BAD_RECORD_MAC:
    return by_refuse(BY_REFUSED_ALTERED, BANYAN_ERR_AUTH, "received data was altered in transit");
  case SSL_R_UNEXPECTED_EOF_WHILE_READING: /* Processes that end do not announce it. */
    return by_fail(BANYAN_ERR_PEER_DEAD, "the peer closed the connection in the middle of a message of TLS");
  default:
    return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "the peer does not speak TLS as it should: %s",
                     text ? text : "unknown reason");
  }
}

static bool is_too_long(int reason) {
  return reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_DATA_LENGTH_TOO_LONG ||
         reason == SSL_R_ENCRYPTED_LENGTH_TOO_LONG || reason == SSL_R_EXCESSIVE_MESSAGE_SIZE ||
         reason == ALERT + SSL_AD_RECORD_OVERFLOW;
}

/* The error for OpenSSL's first queued failure; empties the queue. `error` is an SSL_ERROR_*. */
static enum banyan_status explain_failure(const struct by_tls *tls, int error) {
  unsigned long first = ERR_peek_error();
  int reason = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_GET_REASON(first) : 0;
  const char *text = ERR_reason_error_string(first);
  ERR_clear_error();
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && tls->why[0])
    return by_refuse(tls->between_processes ? BY_REFUSED_IDENTITY : BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH, "%s",
                     tls->why);
  if (is_too_long(reason))
    return by_refuse(BY_REFUSED_OVERSIZED, BANYAN_ERR_PROTOCOL, "a record or message of TLS is too long: %s", text);
  if (tls->between_processes) return explain_process(reason, text);
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
    if (causes[i].reason != reason) continue;
    const char *cause = causes[i].text, *gap = strstr(cause, "%s");
    by_refusal_count(causes[i].refusal);
    if (!gap) return by_fail(causes[i].status, "%s", cause);
    return by_fail(causes[i].status, "%.*s%s %s%s", (int)(gap - cause), cause, by_tls_role_name(tls->own.role),
                   tls->own.name, gap + 2);
  }
  by_refusal_count(BY_REFUSED_PROTOCOL);
  if (!text) return by_fail(BANYAN_ERR_PROTOCOL, "TLS failed (%d)", error);
  return by_fail(BANYAN_ERR_PROTOCOL, "the peer does not speak TLS as it should: %s", text);
}

enum banyan_status by_tls_ended(const struct by_tls *tls, bool late) {
  if (late || tls->received) by_refusal_count(late ? BY_REFUSED_LATE : BY_REFUSED_TRUNCATED);
  if (late)
    return by_fail(BANYAN_ERR_TIMEOUT, "the peer %s in time; does its port speak TLS, does it hang?",
                   tls->received ? "did not prove its identity" : "sent nothing");
  return by_fail(BANYAN_ERR_PEER_DEAD, "the peer closed the connection before it proved its identity%s",
                 tls->received ? "" : "; does its port speak TLS?");
}

/* ---- the connection */

/* OpenSSL's callback for each certificate of the peer's chain, its own last, and for each error. */
static int verify_certificate(int good, X509_STORE_CTX *chain) {
  SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct by_tls *tls = SSL_get_app_data(ssl);
  X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
  bool authority = X509_STORE_CTX_get_error_depth(chain) > 0;
  if (!good && by_tls_revoked_excuses(chain)) return 1;
  if (!good) by_tls_explain(certificate, X509_STORE_CTX_get_error(chain), authority, tls->why, sizeof tls->why);
  if (!good || authority) return good;
  bool named = by_tls_subject_read(certificate, &tls->peer) == BANYAN_OK, right = named && tls->peer.role & tls->peers;
  if (!named)
    note_fault(tls, "%s", banyan_error_text());
  else if (!right)
    explain_role(tls);
  /* The error makes OpenSSL send the peer the alert that its `causes` explain. */
  X509_STORE_CTX_set_error(chain, right ? X509_V_OK : X509_V_ERR_INVALID_PURPOSE);
  return right;
}

/* Replaces OpenSSL's check: of a process only its key counts, which the handshake proves. */
static int verify_process(X509_STORE_CTX *chain, void *unused) {
  (void)unused;
  SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct by_tls *tls = SSL_get_app_data(ssl);
  X509 *certificate = X509_STORE_CTX_get0_cert(chain);
  bool right = false;
  if (by_fingerprint_read(certificate, &tls->fingerprint) != BANYAN_OK)
    note_fault(tls, "%s", banyan_error_text());
  else if (tls->pinned && !by_fingerprint_equal(&tls->fingerprint, &tls->expected))
    note_fault(tls,
               "another process answers there than the one that is expected: its key is not the one in the list of "
               "members, or in BANYAN_ROOT");
  else
    right = true;
  X509_STORE_CTX_set_error(chain, right ? X509_V_OK : X509_V_ERR_CERT_REJECTED);
  return right;
}

static enum banyan_status no_memory(void) {
  ERR_clear_error();
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
}

static enum banyan_status prepare_context(struct by_tls *tls, const struct by_tls_options *options) {
  SSL_CTX *context = options->identity ? options->identity->context : NULL;
  if (!context) BY_TRY(by_process_identity_context(options->process, verify_process, &context));
  tls->ssl = SSL_new(context);
  tls->in = BIO_new(BIO_s_mem());
  tls->out = BIO_new(BIO_s_mem());
  if (!tls->ssl || !tls->in || !tls->out) {
    SSL_free(tls->ssl);
    BIO_free(tls->in);
    BIO_free(tls->out);
    return no_memory();
  }
  SSL_set_bio(tls->ssl, tls->in, tls->out);
  SSL_set_app_data(tls->ssl, tls);
  SSL_set_verify(tls->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                 options->identity ? verify_certificate : NULL);
  if (options->time) X509_VERIFY_PARAM_set_time(SSL_get0_param(tls->ssl), (time_t)options->time);
  if (tls->server)
    SSL_set_accept_state(tls->ssl);
  else
    SSL_set_connect_state(tls->ssl);
  return BANYAN_OK;
}

static enum banyan_status give_up(struct by_tls *tls, int result) {
  set_state(tls, by_tls_done(tls) ? BY_TLS_BROKEN : BY_TLS_REFUSED);
  return explain_failure(tls, SSL_get_error(tls->ssl, result));
}

/* Handles a call into OpenSSL that did not do all: it needs more bytes, the peer ended, or it failed. */
static enum banyan_status pause_or_fail(struct by_tls *tls, int result) {
  int error = SSL_get_error(tls->ssl, result);
  if (error == SSL_ERROR_WANT_READ) return BANYAN_OK;
  if (error != SSL_ERROR_ZERO_RETURN) return give_up(tls, result);
  if (tls->state == BY_TLS_OPEN) set_state(tls, BY_TLS_CLOSED);
  return BANYAN_OK;
}

static enum banyan_status continue_handshake(struct by_tls *tls) {
  ERR_clear_error();
  int result = SSL_do_handshake(tls->ssl);
  if (result != 1) return pause_or_fail(tls, result);
  set_state(tls, BY_TLS_OPEN);
  tls->renewed_at = by_clock_coarse();
  return BANYAN_OK;
}

enum banyan_status by_tls_init(struct by_tls *tls, const struct by_tls_options *options) {
  *tls = (struct by_tls){.server = options->server,
                         .peers = options->peers,
                         .between_processes = !options->identity,
                         .pinned = options->expected,
                         .renew_after = RENEW_RECORDS};
  if (options->identity) tls->own = options->identity->subject;
  if (options->expected) tls->expected = *options->expected;
  BY_TRY(prepare_context(tls, options));
  enum banyan_status status = tls->server ? BANYAN_OK : continue_handshake(tls);
  if (status != BANYAN_OK) by_tls_fini(tls);
  return status;
}

void by_tls_fini(struct by_tls *tls) {
  SSL_free(tls->ssl);
  *tls = (struct by_tls){0};
}

void by_tls_destroy(struct by_tls *tls) {
  if (!tls) return;
  by_tls_fini(tls);
  free(tls);
}

enum banyan_status by_tls_feed(struct by_tls *tls, const void *data, size_t length) {
  if (tls->state == BY_TLS_REFUSED || tls->state == BY_TLS_BROKEN)
    return by_fail(BANYAN_ERR_CLOSED, "the TLS connection has failed");
  size_t taken = 0;
  if (length && (BIO_write_ex(tls->in, data, length, &taken) != 1 || taken < length)) return no_memory();
  if (by_tls_done(tls)) return BANYAN_OK;
  tls->received += length;
  BY_TRY(continue_handshake(tls));
  if (by_tls_done(tls) || tls->received <= BY_TLS_UNAUTHENTICATED) return BANYAN_OK;
  set_state(tls, BY_TLS_REFUSED);
  return by_refuse(BY_REFUSED_OVERSIZED, BANYAN_ERR_PROTOCOL, "the peer sent %zu bytes without proving its identity",
                   tls->received);
}

enum banyan_status by_tls_read(struct by_tls *tls, void *to, size_t capacity, size_t *n) {
  *n = 0;
  if (tls->state != BY_TLS_OPEN) return BANYAN_OK;
  ERR_clear_error();
  int result = SSL_read_ex(tls->ssl, to, capacity, n);
  return result == 1 ? BANYAN_OK : pause_or_fail(tls, result);
}

/* Renews this end's keys; the peer renews its own. */
enum banyan_status by_tls_renew_keys(struct by_tls *tls, size_t length) {
  tls->records += (length + RECORD - 1) / RECORD;
  uint64_t now = by_clock_coarse();
  bool old = now > tls->renewed_at && now - tls->renewed_at >= RENEW_AFTER;
  if (tls->records < tls->renew_after && !old) return BANYAN_OK;
  tls->records = 0;
  tls->renewed_at = now;
  ERR_clear_error();
  int result = SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
  return result == 1 ? BANYAN_OK : give_up(tls, result);
}

enum banyan_status by_tls_export(const struct by_tls *tls, const char *label, uint8_t *out) {
  if (SSL_export_keying_material(tls->ssl, out, EXPORTED, label, strlen(label), NULL, 0, 0) == 1) return BANYAN_OK;
  ERR_clear_error();
  return by_fail(BANYAN_ERR_SYSTEM, "OpenSSL exports no key of a connection");
}

enum banyan_status by_tls_write(struct by_tls *tls, const void *data, size_t length) {
  size_t written;
  if (tls->state != BY_TLS_OPEN && tls->state != BY_TLS_CLOSED)
    return by_fail(BANYAN_ERR_CLOSED, "the TLS connection is not open");
  if (length == 0) return BANYAN_OK;
  BY_TRY(by_tls_renew_keys(tls, length));
  ERR_clear_error();
  int result = SSL_write_ex(tls->ssl, data, length, &written);
  return result == 1 ? BANYAN_OK : give_up(tls, result);
}

void by_tls_finish(struct by_tls *tls) {
  ERR_clear_error();
  bool sent = SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN;
  if ((tls->state == BY_TLS_OPEN || tls->state == BY_TLS_CLOSED) && !sent) (void)SSL_shutdown(tls->ssl);
  ERR_clear_error();
}

size_t by_tls_pending(const struct by_tls *tls) {
  return BIO_ctrl_pending(tls->out);
}

size_t by_tls_take(struct by_tls *tls, void *to, size_t capacity) {
  size_t n = 0;
  return capacity && BIO_read_ex(tls->out, to, capacity, &n) == 1 ? n : 0;
}

enum banyan_status by_tls_judge_again(struct by_tls *tls, const struct by_tls_identity *identity) {
  return by_tls_judge(identity, SSL_get0_peer_certificate(tls->ssl), SSL_get_peer_cert_chain(tls->ssl), 0, NULL);
}
