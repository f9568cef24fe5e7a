/* How a connection between processes of a job begins: where its ends are on different hosts, with TLS (see tls.h), and
 * through that, or else in plain text, with the handshake that proves the job's key (handshake.h). Through TLS the
 * proof includes a key that only the two ends of this connection can compute, so whoever decrypts in between cannot
 * pass a proof on.
 *
 * Both ends decide by themselves whether to encrypt. Where they differ the connection ends, and both state why; so
 * nobody on the way can have them use plain text. No I/O: fed with what came, asked for what to send. Embedded in the
 * caller's struct; not for several threads. */
#ifndef BY_SECURITY_OPENING_H
#define BY_SECURITY_OPENING_H

#include "handshake.h"
#include "tls.h"

/* Of "auto" (between hosts), "always" and "off", which NULL is, too. */
enum by_encryption by_encryption_of(const char *text);
/* Whether the connection on this socket is to be encrypted. */
bool by_encryption_applies(enum by_encryption encryption, int fd);

enum by_opening_state {
  BY_OPENING_FIRST,     /* not started, or a server waits for the first byte, which shows whether the client encrypts */
  BY_OPENING_TLS,       /* shaking hands in TLS */
  BY_OPENING_HANDSHAKE, /* the handshake goes on, or is done */
  BY_OPENING_FAILED
};

/* The opening's own; others may read its state and, once it is done, the handshake. */
struct by_opening {
  enum by_opening_state state;
  bool encrypts;      /* this end wants to */
  bool may_encrypt;   /* it can, where a client wants to */
  struct by_tls *tls; /* NULL: in plain text */
  size_t received;
  struct by_handshake_options options; /* until the handshake begins */
  struct by_key key, tickets, old_key, old_tickets;
  uint8_t ticket[BY_TICKET_HEAD];
  struct by_fingerprint expected; /* if one is */
  struct by_handshake handshake;
  struct by_text out; /* through TLS: bytes, of which those before out_at have been sent */
  size_t out_at;
};

/* The hello is borrowed until done or failed, the rest copied. */
void by_opening_init(struct by_opening *opening, const struct by_handshake_options *options);
/* Once the connection is there; `fd` is only asked for its addresses. BANYAN_ERR_NO_MEMORY, _SYSTEM. */
enum banyan_status by_opening_start(struct by_opening *opening, int fd) BANYAN_CHECK;
void by_opening_fini(struct by_opening *opening);

/* As by_handshake_feed. Through TLS all is taken: what follows the handshake waits in the connection. BANYAN_ERR_AUTH,
 * too: the peer is another process than was expected. BANYAN_ERR_PROTOCOL, too: only one of both ends encrypts. */
enum banyan_status by_opening_feed(struct by_opening *opening, const void *data, size_t length,
                                   size_t *used) BANYAN_CHECK;
/* As by_handshake_output and _sent. */
const uint8_t *by_opening_output(const struct by_opening *opening, size_t *length);
void by_opening_sent(struct by_opening *opening, size_t n);
enum banyan_status by_opening_ended(const struct by_opening *opening, bool late) BANYAN_CHECK;
/* The peer has not sent a byte. */
bool by_opening_is_unused(const struct by_opening *opening);

/* The peer has sent a whole greeting, which was answered; it has proved its key; its hello is there, too. */
bool by_opening_greeted(const struct by_opening *opening);
bool by_opening_proved(const struct by_opening *opening);
bool by_opening_done(const struct by_opening *opening);

/* Once done: the connection through which everything goes, which is the caller's to fini and free from now on; NULL: in
 * plain text. Its `fingerprint` is the peer's. */
struct by_tls *by_opening_take_tls(struct by_opening *opening);

#endif
