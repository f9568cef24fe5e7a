#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tls_explain.h"
#include "tls_revoked.h"

static void note(struct by_tls *tls, const char *text) {
  snprintf(tls->why, sizeof tls->why, "%s", text);
}

/* X509_V_OK, or what makes OpenSSL tell the peer the alert that tls_explain.c reads. */
static int judge(struct by_tls *tls, const X509 *certificate) {
  if (by_tls_who_read(certificate, &tls->peer) != BANYAN_OK) {
    note(tls, banyan_error_text());
    return X509_V_ERR_INVALID_PURPOSE;
  }
  if (tls->peer.role & tls->peers) return X509_V_OK;
  by_tls_explain_role(tls);
  return X509_V_ERR_INVALID_PURPOSE;
}

/* Called for each certificate of the peer's chain, its own last; and for what is wrong. */
static int verify(int good, X509_STORE_CTX *chain) {
  SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct by_tls *tls = SSL_get_app_data(ssl);
  X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
  bool authority = X509_STORE_CTX_get_error_depth(chain) > 0;
  if (!good && by_tls_revoked_excuses(chain)) return 1;
  if (!good) by_tls_explain_certificate(tls, certificate, X509_STORE_CTX_get_error(chain), authority);
  if (!good || authority) return good;
  int judged = judge(tls, certificate);
  X509_STORE_CTX_set_error(chain, judged);
  return judged == X509_V_OK;
}

static enum banyan_status no_memory(void) {
  ERR_clear_error();
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
}

static enum banyan_status prepare(struct by_tls *tls, const struct by_tls_options *options) {
  tls->ssl = SSL_new(by_tls_identity_context(options->identity));
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
  SSL_set_verify(tls->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
  if (options->time) X509_VERIFY_PARAM_set_time(SSL_get0_param(tls->ssl), (time_t)options->time);
  if (tls->server)
    SSL_set_accept_state(tls->ssl);
  else
    SSL_set_connect_state(tls->ssl);
  return BANYAN_OK;
}

static enum banyan_status give_up(struct by_tls *tls, int result) {
  tls->failed = true;
  return by_tls_explain(tls, SSL_get_error(tls->ssl, result));
}

/* After a call into OpenSSL that did not do all: nothing to do before more comes, the peer's end, or a failure. */
static enum banyan_status pause_or_fail(struct by_tls *tls, int result) {
  int error = SSL_get_error(tls->ssl, result);
  if (error == SSL_ERROR_WANT_READ) return BANYAN_OK;
  if (error != SSL_ERROR_ZERO_RETURN) return give_up(tls, result);
  tls->closed = true;
  return BANYAN_OK;
}

static enum banyan_status shake(struct by_tls *tls) {
  ERR_clear_error();
  int result = SSL_do_handshake(tls->ssl);
  tls->done = result == 1;
  return tls->done ? BANYAN_OK : pause_or_fail(tls, result);
}

enum banyan_status by_tls_init(struct by_tls *tls, const struct by_tls_options *options) {
  *tls = (struct by_tls){
      .server = options->server, .peers = options->peers, .own = *by_tls_identity_who(options->identity)};
  BY_TRY(prepare(tls, options));
  enum banyan_status status = tls->server ? BANYAN_OK : shake(tls);
  if (status != BANYAN_OK) by_tls_fini(tls);
  return status;
}

void by_tls_fini(struct by_tls *tls) {
  SSL_free(tls->ssl);
  *tls = (struct by_tls){0};
}

enum banyan_status by_tls_feed(struct by_tls *tls, const void *data, size_t length) {
  if (tls->failed) return by_fail(BANYAN_ERR_CLOSED, "the TLS connection has failed");
  size_t taken = 0;
  if (length && (BIO_write_ex(tls->in, data, length, &taken) != 1 || taken < length)) return no_memory();
  if (tls->done) return BANYAN_OK;
  tls->heard += length;
  BY_TRY(shake(tls));
  if (tls->done || tls->heard <= BY_TLS_STRANGER) return BANYAN_OK;
  tls->failed = true;
  return by_fail(BANYAN_ERR_PROTOCOL, "the peer said %zu bytes without proving who it is", tls->heard);
}

enum banyan_status by_tls_read(struct by_tls *tls, void *to, size_t room, size_t *n) {
  *n = 0;
  if (!tls->done || tls->closed || tls->failed) return BANYAN_OK;
  ERR_clear_error();
  int result = SSL_read_ex(tls->ssl, to, room, n);
  return result == 1 ? BANYAN_OK : pause_or_fail(tls, result);
}

enum banyan_status by_tls_write(struct by_tls *tls, const void *data, size_t length) {
  size_t written;
  if (!tls->done || tls->failed) return by_fail(BANYAN_ERR_CLOSED, "the TLS connection is not open");
  if (length == 0) return BANYAN_OK;
  ERR_clear_error();
  int result = SSL_write_ex(tls->ssl, data, length, &written);
  return result == 1 ? BANYAN_OK : give_up(tls, result);
}

void by_tls_finish(struct by_tls *tls) {
  ERR_clear_error();
  bool said = SSL_get_shutdown(tls->ssl) & SSL_SENT_SHUTDOWN;
  if (tls->done && !tls->failed && !said) (void)SSL_shutdown(tls->ssl);
  ERR_clear_error();
}

size_t by_tls_pending(const struct by_tls *tls) {
  return BIO_ctrl_pending(tls->out);
}

size_t by_tls_take(struct by_tls *tls, void *to, size_t room) {
  size_t n = 0;
  return room && BIO_read_ex(tls->out, to, room, &n) == 1 ? n : 0;
}

bool by_tls_done(const struct by_tls *tls) {
  return tls->done;
}

bool by_tls_closed(const struct by_tls *tls) {
  return tls->closed;
}

const struct by_tls_who *by_tls_peer(const struct by_tls *tls) {
  return &tls->peer;
}

enum banyan_status by_tls_judge_again(struct by_tls *tls, const struct by_tls_identity *identity) {
  X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
  X509_STORE_CTX *chain = X509_STORE_CTX_new();
  X509_STORE *store = SSL_CTX_get_cert_store(by_tls_identity_context(identity));
  if (!chain || X509_STORE_CTX_init(chain, store, certificate, SSL_get_peer_cert_chain(tls->ssl)) != 1) {
    X509_STORE_CTX_free(chain);
    return no_memory();
  }
  X509_STORE_CTX_set_flags(chain, X509_V_FLAG_NO_CHECK_TIME);
  bool good = X509_verify_cert(chain) == 1, authority = X509_STORE_CTX_get_error_depth(chain) > 0;
  if (!good)
    by_tls_explain_certificate(tls, X509_STORE_CTX_get_current_cert(chain), X509_STORE_CTX_get_error(chain), authority);
  X509_STORE_CTX_free(chain);
  ERR_clear_error();
  return good ? BANYAN_OK : by_fail(BANYAN_ERR_AUTH, "%s", tls->why);
}
