/* Begins a connection between processes of a job: if its ends are on different hosts, with TLS (see tls.h), and
 * through that, or else in plain text, with the handshake that proves the job's key (handshake.h). Through TLS the
 * proof includes a key that only the two ends of this connection can compute, so an attacker who decrypts in between
 * cannot pass a proof on.
 *
 * Both ends decide by themselves whether to encrypt. If they differ the connection ends, and both report why; so no
 * attacker can make them use plain text. No I/O: the owner feeds it with received bytes and sends its output.
 * Embedded in the caller's struct; not for several threads. */
#ifndef BY_SECURITY_OPENING_H
#define BY_SECURITY_OPENING_H

#include "handshake.h"
#include "tls.h"

/* The value of "auto" (between hosts), "always" and "off"; NULL is "off". */
enum by_encryption by_encryption_of(const char *text);
/* Whether the connection on this socket is to be encrypted. */
bool by_encryption_applies(enum by_encryption encryption, int fd);

enum by_opening_state {
  BY_OPENING_FIRST, /* Not started, or a server waits for the first byte, which shows whether the client encrypts. */
  BY_OPENING_TLS,   /* The handshake of TLS goes on. */
  BY_OPENING_HANDSHAKE, /* The handshake of the job goes on, or is done. */
  BY_OPENING_FAILED
};

/* Owned by the opening. Others may read its state and, once it is done, the handshake. */
struct by_opening {
  enum by_opening_state state;
  bool encrypts;      /* This end requires encryption. */
  bool may_encrypt;   /* It can encrypt if a client does. */
  struct by_tls *tls; /* NULL: plain text. */
  size_t received;
  struct by_handshake_options options; /* Until the handshake begins. */
  struct by_key key, tickets, old_key, old_tickets;
  uint8_t ticket[BY_TICKET_HEAD];
  struct by_fingerprint expected; /* If one is expected. */
  struct by_handshake handshake;
  struct by_text out; /* Through TLS: bytes, of which those before out_at have been sent. */
  size_t out_at;
};

/* Initialises an opening. The hello is borrowed until done or failed, the rest copied. */
void by_opening_init(struct by_opening *opening, const struct by_handshake_options *options);
/* Starts it on a connected socket; `fd` is only asked for its addresses. BANYAN_ERR_NO_MEMORY, _SYSTEM. */
enum banyan_status by_opening_start(struct by_opening *opening, int fd) BANYAN_CHECK;
void by_opening_fini(struct by_opening *opening);

/* As by_handshake_feed. Through TLS all bytes are taken: those behind the handshake wait in the connection.
 * BANYAN_ERR_AUTH, too: the peer is not the expected process. BANYAN_ERR_PROTOCOL, too: only one of both ends
 * encrypts. */
enum banyan_status by_opening_feed(struct by_opening *opening, const void *data, size_t length,
                                   size_t *used) BANYAN_CHECK;
/* As by_handshake_output and _sent. */
const uint8_t *by_opening_output(const struct by_opening *opening, size_t *length);
void by_opening_sent(struct by_opening *opening, size_t n);
enum banyan_status by_opening_ended(const struct by_opening *opening, bool late) BANYAN_CHECK;
/* Whether the peer has not sent a byte. */
static inline bool by_opening_is_unused(const struct by_opening *opening) {
  return !opening->received;
}

/* Whether the peer has sent a whole greeting, which was answered; has proved its key; has sent its hello, too. */
static inline bool by_opening_greeted(const struct by_opening *opening) {
  if (opening->state == BY_OPENING_TLS) return opening->received && opening->out.length;
  return opening->state == BY_OPENING_HANDSHAKE && opening->handshake.state >= BY_HANDSHAKE_PROOF;
}
static inline bool by_opening_proved(const struct by_opening *opening) {
  return opening->state == BY_OPENING_HANDSHAKE && opening->handshake.state > BY_HANDSHAKE_PROOF &&
         opening->handshake.state != BY_HANDSHAKE_FAILED;
}
static inline bool by_opening_done(const struct by_opening *opening) {
  return opening->state == BY_OPENING_HANDSHAKE && by_handshake_done(&opening->handshake);
}

/* Once done: the connection that everything uses, which the caller then has to fini and free; NULL: plain text. Its
 * `fingerprint` is the peer's. */
struct by_tls *by_opening_take_tls(struct by_opening *opening);

#endif
