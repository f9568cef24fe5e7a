/* The mutual proof that both ends of a connection hold the job's key, before anything else is sent. No I/O: the owner
 * feeds it with received bytes and sends its output.
 *
 *    client                                          server
 *    greeting: version, purpose, nonce, key     ->
 *                                               <-   greeting, proof
 *    proof, hello                               ->
 *                                               <-   hello
 *
 * A proof is an HMAC-SHA256 under the key over the sender's role, both nonces, version, purpose, the keys'
 * identifiers and the binding to the TLS connection around it, if there is one; a hello is a blob of the caller's
 * under a session key that depends on key and nonces. So nothing can be forged, replayed or reflected; later data is
 * not protected. Before the proof a peer makes this end store at most 94 bytes. Embedded in the caller's struct; not
 * for several threads.
 *
 * While a job's key is replaced, an end may have two keys, of which the other end may not have the new one. A
 * greeting names the key of its proof: the client's its new one, and the server's the same, or its own new one if it
 * does not have that; a client that has the server's key uses it. */
#ifndef BY_SECURITY_HANDSHAKE_H
#define BY_SECURITY_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job_key.h"
#include "text.h"

#define BY_HANDSHAKE_VERSION 2
#define BY_NONCE_BYTES 32
#define BY_MAC_BYTES 32
#define BY_BINDING_BYTES 32
#define BY_HEAD_BYTES 10
#define BY_KEY_ID_BYTES 4
#define BY_GREETING_BYTES (10 + BY_NONCE_BYTES + BY_KEY_ID_BYTES) /* "BANYAN", version, role, purpose, nonce, key */
#define BY_HELLO_MAX 65536
/* Set in a purpose if the client is a helper or a server of the job. The head of its ticket follows its greeting, and
 * the handshake uses the key of that ticket. */
#define BY_PURPOSE_HELPER 0x80

/* To be called before a process of a job uses OpenSSL for the first time. Otherwise exit() frees what threads of a
 * job still use, if the program has not destroyed it. Any thread, any number of times. */
void by_crypto_init(void);

enum by_role { BY_ROLE_CLIENT, BY_ROLE_SERVER };

/* Which connections are encrypted, see opening.h. */
enum by_encryption { BY_ENCRYPT_OFF, BY_ENCRYPT_BETWEEN_HOSTS, BY_ENCRYPT_ALWAYS };

struct by_fingerprint;
struct by_process_identity;

struct by_handshake_options {
  enum by_role role;
  uint8_t purpose;              /* The purpose of the connection; a server that gives 0 takes any. */
  const struct by_key *key;     /* Copied. */
  const uint8_t *ticket;        /* Of a client that is a helper: BY_TICKET_HEAD bytes. Copied, like the next ones. */
  const struct by_key *tickets; /* Server: the key of tickets of clients that are helpers. NULL: these are refused. */
  const struct by_key *old_key, *old_tickets; /* Older keys that are accepted, too. NULL: there is none. */
  const void *hello;                          /* Borrowed until done or failed. */
  size_t hello_length;                        /* At most BY_HELLO_MAX. */
  const uint8_t *nonce;                       /* For tests that must be repeatable; NULL: random. */
  const uint8_t *binding; /* BY_BINDING_BYTES that only both ends of this connection know; NULL: none. */
  /* These describe the connection, for opening.h. */
  enum by_encryption encryption;
  const struct by_fingerprint *expected; /* If it is encrypted: the process that must answer. Copied. NULL: any. */
  struct by_process_identity *identity;  /* This end's, if it may be encrypted. Borrowed until done or failed. */
};

enum by_handshake_state {
  BY_HANDSHAKE_GREETING, /* Waits for the peer's greeting; the client also for the proof behind it. */
  BY_HANDSHAKE_PROOF,    /* The server waits for the client's proof. */
  BY_HANDSHAKE_LENGTH,   /* Waits for the hello's length. */
  BY_HANDSHAKE_HELLO,
  BY_HANDSHAKE_DONE,
  BY_HANDSHAKE_FAILED
};

/* Owned by the handshake. Others may read its state and, once it is done, its purpose, which the client sent, and the
 * head of the ticket of a client that is a helper. */
struct by_handshake {
  enum by_handshake_state state;
  enum by_role role;
  uint8_t purpose;
  bool head_seen, takes_helpers, bound;
  uint8_t binding[BY_BINDING_BYTES];
  struct by_key key, tickets, session;
  struct by_key old_key, old_tickets; /* Equal to the other keys: there is none. */
  uint8_t ticket[BY_TICKET_HEAD];
  uint8_t client_id[BY_KEY_ID_BYTES], server_id[BY_KEY_ID_BYTES];
  uint8_t client_nonce[BY_NONCE_BYTES], server_nonce[BY_NONCE_BYTES];
  const void *own_hello;
  size_t own_hello_length;
  uint8_t in[BY_GREETING_BYTES + BY_TICKET_HEAD]; /* Or a proof behind the greeting, which is shorter. */
  size_t have, need;
  uint8_t *hello; /* The peer's hello, with its MAC behind it. */
  size_t hello_length;
  struct by_text out; /* Bytes, of which those before out_at have been sent. */
  size_t out_at;
};

/* Fails if there is no randomness or memory, or the hello is too long; then there is nothing to fini. */
enum banyan_status by_handshake_init(struct by_handshake *handshake,
                                     const struct by_handshake_options *options) BANYAN_CHECK;
/* The first byte of every greeting; and a head that is no greeting, which tells that only one end encrypts. `out`
 * holds BY_HEAD_BYTES. */
uint8_t by_handshake_first_byte(void);
void by_handshake_write_refusal(uint8_t *out);
/* Wipes the keys. */
void by_handshake_fini(struct by_handshake *handshake);

/* Takes bytes from the peer; *used < length only once done: the rest is not the handshake's. BANYAN_ERR_AUTH: the
 * peer holds another key. BANYAN_ERR_PROTOCOL: it is not Banyan, or has another version. After an error there may
 * still be output, which tells the peer the reason; send it if that needs no waiting, and close. */
enum banyan_status by_handshake_feed(struct by_handshake *handshake, const void *data, size_t length,
                                     size_t *used) BANYAN_CHECK;
/* The bytes to send next, borrowed until the next call; *length = 0: none. */
const uint8_t *by_handshake_output(const struct by_handshake *handshake, size_t *length);
/* Notes that the first n bytes of the output have been sent. */
void by_handshake_sent(struct by_handshake *handshake, size_t n);
/* The error to report when the peer closed (BANYAN_ERR_PEER_DEAD), or, with `late`, sent nothing for too long
 * (_TIMEOUT); _PROTOCOL if its first bytes are no greeting. */
enum banyan_status by_handshake_ended(const struct by_handshake *handshake, bool late) BANYAN_CHECK;

/* Whether the peer has proved its key and its hello is complete. Output may be left to send. */
static inline bool by_handshake_done(const struct by_handshake *handshake) {
  return handshake->state == BY_HANDSHAKE_DONE;
}
/* The peer's hello, once done; borrowed. */
const uint8_t *by_handshake_hello(const struct by_handshake *handshake, size_t *length);

#endif
