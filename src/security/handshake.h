/* The mutual proof that both ends of a connection hold the job's key, before
 * anything else is sent. No I/O: fed with what came, asked for what to send.
 *
 *   client                                          server
 *   greeting: version, purpose, nonce, key     ->
 *                                              <-   greeting, proof
 *   proof, hello                               ->
 *                                              <-   hello
 *
 * A proof is an HMAC-SHA256 under the key over the sender's role, both nonces,
 * version, purpose, the keys' identifiers and the binding to the connection of TLS around it, if there is one; a hello
 * is a blob of the caller's under a session key that depends on key and nonces. So nothing can be forged, replayed or
 * reflected; what follows is not protected. Before the proof a peer makes us store at most 94 bytes. Embedded in the
 * caller's struct; not for several threads.
 *
 * While a job's key is replaced, an end may have two keys, of which the new one may not have reached the other end. A
 * greeting names the key of its proof: the client's its new one, and the server's the same, or its own new one where it
 * does not have that; a client that has the server's goes on with it. */
#ifndef BY_SECURITY_HANDSHAKE_H
#define BY_SECURITY_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job_key.h"
#include "text.h"
#include "ticket.h"

#define BY_HANDSHAKE_VERSION 2
#define BY_NONCE_BYTES 32
#define BY_MAC_BYTES 32
#define BY_BINDING_BYTES 32
#define BY_HEAD_BYTES 10
#define BY_KEY_ID_BYTES 4
#define BY_GREETING_BYTES (10 + BY_NONCE_BYTES + BY_KEY_ID_BYTES) /* "BANYAN", version, role, purpose, nonce, key */
#define BY_HELLO_MAX 65536
/* A key as text: 64 hexadecimal digits and a NUL. */
#define BY_KEY_TEXT 65
/* In a purpose: the client is a helper or a server of the job. The head of its ticket follows its greeting, and the
 * handshake uses the key of that. */
#define BY_PURPOSE_HELPER 0x80

/* To be called before a process of a job uses OpenSSL for the first time: else exit() frees what threads of a job still
 * use, where the program has not destroyed it. Any thread, any number of times. */
void by_crypto_init(void);

/* HMAC-SHA256 under a key over a text: what only those with the key can name. */
enum banyan_status by_key_hash(const struct by_key *key, const char *text, struct by_key *out) BANYAN_CHECK;
/* 64 random digits. `out` holds BY_KEY_TEXT. */
enum banyan_status by_key_random(char *out) BANYAN_CHECK;

/* The keys of a process of a job: a rank has the job's, a helper or server the secret of its ticket. */
struct by_job_keys {
  struct by_key own;                  /* with which this process joins, and opens links if it is a rank */
  struct by_key tickets;              /* under which the tickets of helpers that connect are, see by_ticket_prove */
  struct by_key old_own, old_tickets; /* which are accepted until then; 0: there are none */
  int64_t until;                      /* s since 1970 */
  struct by_key job; /* of what belongs to the job, whatever its key is now; at helpers and servers nothing */
  uint8_t purpose;   /* added to the purpose of its connections: BY_PURPOSE_HELPER, or 0 at ranks */
  uint8_t ticket[BY_TICKET_HEAD]; /* of helpers and servers */
};

/* From the text that the process was given: the job's key, or at a helper or server (`subject`) a ticket. One that has
 * the job's key issues itself a ticket, which never expires.
 * BANYAN_ERR_ARGUMENT: a rank was given a ticket, or the text is no generated key (job_key.h), or it is the ticket of
 * another process. */
enum banyan_status by_job_keys_derive(const char *text, const struct by_ticket_subject *subject,
                                      struct by_job_keys *out) BANYAN_CHECK;
/* The same for a helper that has issued itself a ticket with the head `before`, which stays. */
enum banyan_status by_job_keys_renew(const char *text, const struct by_ticket_subject *subject, const uint8_t *before,
                                     struct by_job_keys *out) BANYAN_CHECK;

enum by_role { BY_ROLE_CLIENT, BY_ROLE_SERVER };

/* Which connections are encrypted, see opening.h. */
enum by_encryption { BY_ENCRYPT_OFF, BY_ENCRYPT_BETWEEN_HOSTS, BY_ENCRYPT_ALWAYS };

struct by_fingerprint;
struct by_process_identity;

struct by_handshake_options {
  enum by_role role;
  uint8_t purpose;              /* what the connection is for; a server that gives 0 takes any */
  const struct by_key *key;     /* copied */
  const uint8_t *ticket;        /* client that is a helper: BY_TICKET_HEAD bytes. Copied, as are the next ones */
  const struct by_key *tickets; /* server: of clients that are helpers. NULL: these are rejected */
  const struct by_key *old_key, *old_tickets; /* accepted, too. NULL: there is none */
  const void *hello;                          /* borrowed until done or failed */
  size_t hello_length;                        /* up to BY_HELLO_MAX */
  const uint8_t *nonce;                       /* for tests that must repeat; NULL: random */
  const uint8_t *binding; /* BY_BINDING_BYTES that only both ends of this connection know; NULL: none */
  /* Of the connection around it, for opening.h. */
  enum by_encryption encryption;
  const struct by_fingerprint *expected; /* where it is encrypted: the process that must answer. Copied. NULL: any */
  struct by_process_identity *identity;  /* this end's, if it may be encrypted. Borrowed until done or failed. */
};

enum by_handshake_state {
  BY_HANDSHAKE_GREETING, /* waits for the peer's greeting; the client for the proof with it */
  BY_HANDSHAKE_PROOF,    /* the server waits for the client's proof */
  BY_HANDSHAKE_LENGTH,   /* waits for the hello's length */
  BY_HANDSHAKE_HELLO,
  BY_HANDSHAKE_DONE,
  BY_HANDSHAKE_FAILED
};

/* The handshake's own; others may read its state and, once it is done, its purpose, which is what the client came for,
 * and the head of the ticket of a client that is a helper. */
struct by_handshake {
  enum by_handshake_state state;
  enum by_role role;
  uint8_t purpose;
  bool head_seen, takes_helpers, bound;
  uint8_t binding[BY_BINDING_BYTES];
  struct by_key key, tickets, session;
  struct by_key old_key, old_tickets; /* the same as the others: there is none */
  uint8_t ticket[BY_TICKET_HEAD];
  uint8_t client_id[BY_KEY_ID_BYTES], server_id[BY_KEY_ID_BYTES];
  uint8_t client_nonce[BY_NONCE_BYTES], server_nonce[BY_NONCE_BYTES];
  const void *own_hello;
  size_t own_hello_length;
  uint8_t in[BY_GREETING_BYTES + BY_TICKET_HEAD]; /* or a proof behind the greeting, which is shorter */
  size_t have, need;
  uint8_t *hello; /* the peer's, and its MAC behind */
  size_t hello_length;
  struct by_text out; /* bytes, of which those before out_at have been sent */
  size_t out_at;
};

/* Fails if there is no randomness or memory, or the hello is too long; there is
 * nothing to fini then. */
enum banyan_status by_handshake_init(struct by_handshake *handshake,
                                     const struct by_handshake_options *options) BANYAN_CHECK;
/* With what every greeting begins; and a head that is no greeting: only one of both ends encrypts. `out` holds
 * BY_HEAD_BYTES. */
uint8_t by_handshake_first_byte(void);
void by_handshake_write_refusal(uint8_t *out);
/* Wipes the keys. */
void by_handshake_fini(struct by_handshake *handshake);

/* Takes bytes from the peer; *used < length only once done: the rest is not the
 * handshake's. BANYAN_ERR_AUTH: the peer holds another key. BANYAN_ERR_PROTOCOL:
 * it is no Banyan, or of another version. After an error there may still be
 * output, which gives the peer the reason; send it if that needs no waiting, and close. */
enum banyan_status by_handshake_feed(struct by_handshake *handshake, const void *data, size_t length,
                                     size_t *used) BANYAN_CHECK;
/* The bytes to send next, borrowed until the next call; *length = 0: none. */
const uint8_t *by_handshake_output(const struct by_handshake *handshake, size_t *length);
/* The first n of them have been sent. */
void by_handshake_sent(struct by_handshake *handshake, size_t n);
/* The error to report when the peer closed (BANYAN_ERR_PEER_DEAD), or, with `late`, sent nothing for too long
 * (_TIMEOUT); _PROTOCOL where what it sent before is no greeting. */
enum banyan_status by_handshake_ended(const struct by_handshake *handshake, bool late) BANYAN_CHECK;

/* The peer has proved its key and its hello is whole. Output may be left to send. */
bool by_handshake_done(const struct by_handshake *handshake);
/* The peer's hello, once done; borrowed. */
const uint8_t *by_handshake_hello(const struct by_handshake *handshake, size_t *length);

#endif
