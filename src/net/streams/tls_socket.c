/* TLS on a socket for much data: encrypts and decrypts with few copies. */
#include "tls_socket.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* RECORD: the maximum of a record. READ_AHEAD: bytes of encrypted records that are received at once; with each record
 * OpenSSL moves the rest of them. BATCH: so many encrypted bytes are sent at once. Both fit a core's cache. UNSENT:
 * space for these, a record, a change of keys before it, and what OpenSSL adds. */
enum { RECORD = 16384, READ_AHEAD = 64 << 10, BATCH = 96 << 10, UNSENT = BATCH + 2 * RECORD + 4096 };

struct by_tls_socket {
  struct by_tls *tls;
  BIO *early; /* Encrypted bytes that were received before this was created. */
  int fd;
  int send_error;    /* The errno that ended sending; 0: none. */
  int receive_error; /* The errno that ended receiving; 0: none. */
  bool ended;        /* The peer closed the connection. */
  bool dry;          /* The socket had no more when it was read in this call. */
  enum banyan_status status;
  char why[256];
  size_t first, last; /* The bytes of `unsent` to be sent. */
  uint8_t unsent[UNSENT];
  uint8_t record[RECORD]; /* Small parts share one. */
};

/* ---- the socket, as OpenSSL sees it */

static bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

/* Sends some bytes; `more`: others follow at once. */
static size_t send_some(struct by_tls_socket *secure, const uint8_t *data, size_t length, bool more) {
  ssize_t n = send(secure->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
  if (n >= 0) return (size_t)n;
  if (!is_full(errno)) secure->send_error = errno;
  return 0;
}

/* Collects several records and sends them at once. Once sending has failed, data is dropped: the owner asks for the
 * error, and may still read what has arrived. */
static int write_bio(BIO *bio, const char *data, size_t length, size_t *written) {
  struct by_tls_socket *secure = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  *written = 0;
  if (!secure->send_error && length > UNSENT - secure->last) {
    BIO_set_retry_write(bio);
    return 0;
  }
  if (!secure->send_error) {
    memcpy(secure->unsent + secure->last, data, length);
    secure->last += length;
  }
  *written = length;
  return 1;
}

static int read_bio(BIO *bio, char *to, size_t capacity, size_t *got) {
  struct by_tls_socket *secure = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (secure->early) {
    if (BIO_read_ex(secure->early, to, capacity, got) == 1) return 1;
    BIO_free(secure->early);
    secure->early = NULL;
  }
  *got = 0;
  ssize_t n = recv(secure->fd, to, capacity, MSG_DONTWAIT);
  if (n > 0) {
    *got = (size_t)n;
    secure->dry = *got < capacity;
    return 1;
  }
  if (n == 0)
    secure->ended = true;
  else if (is_full(errno))
    BIO_set_retry_read(bio);
  else
    secure->receive_error = errno;
  return 0;
}

static long control_bio(BIO *bio, int command, long number, void *pointer) {
  const struct by_tls_socket *secure = BIO_get_data(bio);
  (void)number;
  (void)pointer;
  switch (command) {
  case BIO_CTRL_FLUSH:
  case BIO_CTRL_DUP: return 1;
  case BIO_CTRL_EOF: return secure->ended;
  default: return 0;
  }
}

static BIO_METHOD *method;

static void make_method(void) {
  method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "banyan socket");
  if (!method) return;
  BIO_meth_set_write_ex(method, write_bio);
  BIO_meth_set_read_ex(method, read_bio);
  BIO_meth_set_ctrl(method, control_bio);
}

static BIO *new_bio(struct by_tls_socket *secure) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_method);
  BIO *bio = method ? BIO_new(method) : NULL;
  if (!bio) return NULL;
  BIO_set_data(bio, secure);
  BIO_set_init(bio, 1);
  return bio;
}

/* ---- life */

enum banyan_status by_tls_socket_create(struct by_tls *tls, int fd, struct by_tls_socket **out) {
  struct by_tls_socket *secure = calloc(1, sizeof *secure);
  BIO *bio = secure ? new_bio(secure) : NULL;
  size_t waiting = by_tls_pending(tls);
  if (!bio || waiting > UNSENT) {
    free(secure);
    BIO_free(bio);
    by_tls_destroy(tls);
    ERR_clear_error();
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
  }
  *secure = (struct by_tls_socket){.tls = tls, .fd = fd, .early = tls->in};
  secure->last = by_tls_take(tls, secure->unsent, UNSENT);
  BIO_up_ref(secure->early);
  tls->in = tls->out = NULL; /* The connection frees them. */
  SSL_set_bio(tls->ssl, bio, bio);
  SSL_set_read_ahead(tls->ssl, 1);
  SSL_clear_options(tls->ssl, SSL_OP_CLEANSE_PLAINTEXT); /* Wiping records of data would cost more than it hides. */
  (void)!SSL_free_buffers(tls->ssl);                     /* The next buffers get the size that is set below. */
  SSL_set_default_read_buffer_len(tls->ssl, READ_AHEAD);
  *out = secure;
  return BANYAN_OK;
}

void by_tls_socket_destroy(struct by_tls_socket *secure) {
  if (!secure) return;
  by_tls_destroy(secure->tls);
  BIO_free(secure->early);
  OPENSSL_cleanse(secure->record, sizeof secure->record);
  free(secure);
}

static void end_receiving(struct by_tls_socket *secure, enum banyan_status status) {
  secure->status = status;
  snprintf(secure->why, sizeof secure->why, "%s", banyan_error_text());
}

/* ---- sending */

static bool flush_unsent(struct by_tls_socket *secure, bool more) {
  while (secure->first < secure->last && !secure->send_error) {
    size_t n = send_some(secure, secure->unsent + secure->first, secure->last - secure->first, more);
    if (!n) break;
    secure->first += n;
  }
  bool sent = secure->first == secure->last;
  if (sent) secure->first = secure->last = 0;
  errno = secure->send_error ? secure->send_error : EAGAIN;
  return sent && !secure->send_error;
}

bool by_tls_socket_flush(struct by_tls_socket *secure) {
  return flush_unsent(secure, false);
}

/* Joins parts, from `at` in part `*i` on, until a record is full. Returns its length. */
static size_t gather_parts(struct by_tls_socket *secure, const struct iovec *parts, size_t n, size_t i, size_t at) {
  size_t filled = 0;
  for (; i < n && filled < RECORD; i++, at = 0) {
    size_t left = parts[i].iov_len - at, bytes = left < RECORD - filled ? left : RECORD - filled;
    if (bytes) memcpy(secure->record + filled, (const uint8_t *)parts[i].iov_base + at, bytes);
    filled += bytes;
  }
  return filled;
}

size_t by_tls_socket_send(struct by_tls_socket *secure, const struct iovec *parts, size_t n) {
  size_t total = 0, sent = 0, i = 0, at = 0;
  if (secure->status != BANYAN_OK) return 0;
  for (size_t k = 0; k < n; k++) total += parts[k].iov_len;
  bool capacity = flush_unsent(secure, false);
  while (sent < total && capacity) {
    while (at == parts[i].iov_len) {
      i++;
      at = 0;
    }
    const uint8_t *from = (const uint8_t *)parts[i].iov_base + at;
    size_t length = parts[i].iov_len - at;
    if (length > RECORD) length = RECORD;
    if (length < RECORD && i + 1 < n) {
      length = gather_parts(secure, parts, n, i, at);
      from = secure->record;
    }
    enum banyan_status status = by_tls_write(secure->tls, from, length);
    if (status != BANYAN_OK) {
      end_receiving(secure, status);
      break;
    }
    sent += length;
    if (secure->last >= BATCH || sent == total) capacity = flush_unsent(secure, sent < total);
    for (size_t left = length; left;) {
      size_t step = parts[i].iov_len - at < left ? parts[i].iov_len - at : left;
      at += step;
      left -= step;
      if (at == parts[i].iov_len && i + 1 < n) {
        i++;
        at = 0;
      }
    }
  }
  return sent;
}

/* ---- receiving */

size_t by_tls_socket_receive(struct by_tls_socket *secure, void *to, size_t max) {
  size_t got = 0, n = 1;
  secure->dry = false; /* More may have arrived since, of which the owner is not notified again. */
  while (got < max && n && secure->status == BANYAN_OK) {
    enum banyan_status status = by_tls_read(secure->tls, (uint8_t *)to + got, max - got, &n);
    got += n;
    if (n && got < max && secure->dry && !SSL_has_pending(secure->tls->ssl)) break;
    if (secure->receive_error)
      end_receiving(secure, by_fail(BANYAN_ERR_PEER_DEAD, "its connection broke: %s", strerror(secure->receive_error)));
    else if (status != BANYAN_OK && (n || !secure->ended))
      end_receiving(secure, status);
    else if ((secure->ended && !n) || secure->tls->state == BY_TLS_CLOSED)
      end_receiving(secure, by_fail(BANYAN_ERR_PEER_DEAD, "it closed its connection"));
  }
  if (secure->last) (void)flush_unsent(secure, false); /* This sends an answer of TLS, or what waited for the socket. */
  return got;
}

enum banyan_status by_tls_socket_status(const struct by_tls_socket *secure, const char **why) {
  *why = secure->why;
  return secure->status;
}
