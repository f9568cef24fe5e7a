/* The parts of the program `attack`, which attacks the ports of a running job: attack.c makes attacks, one after the
 * other in several threads, and counts what became of them; attack_kinds.c knows the kinds. */
#ifndef BY_TESTS_NET_ATTACK_H
#define BY_TESTS_NET_ATTACK_H

#include <openssl/ssl.h>

#include "address.h"
#include "key_ring.h"
#include "process_identity.h"
#include "rng.h"
#include "statement.h"

enum outcome {
  WAS_REFUSED,  /* the connection was ended, or the peer has said no */
  STILL_OPEN,   /* not yet: the peer is to end the connection */
  WAS_ACCEPTED, /* the peer's answer shows that it takes this end for what it is not, or overlooks what was altered */
  WAS_KEPT,     /* the peer has not ended it for so long that it never will */
  WAS_GENUINE,  /* nothing was wrong after all, and the peer has accepted it */
  NOT_MADE      /* there was no connection, or nothing to be altered */
};

/* A peer has 5 s for a handshake, from when it looks. It may be held up, as this program may: it is given a minute. */
enum { TRY_S = 3, TRIES = 20, KEPT_S = TRY_S * TRIES };

enum { CERTIFICATES = 8, RECORDINGS = 64, RECORDED = 1 << 16, NAME = 64 };

/* What a client has sent over a connection of the job, to be sent again. */
struct recording {
  struct by_address to;
  uint8_t *bytes;
  size_t length;
};

/* A client of TLS with a certificate, or without one. */
struct certificate {
  char name[NAME]; /* of the kind of attack */
  SSL_CTX *context;
  bool valid; /* it is one that the cluster's manager is to accept: WAS_GENUINE is expected */
};

/* An agent's certificate and key, with which statements about processes are signed. */
struct signer {
  char name[NAME]; /* of the kind of attack; "": of those with a good agent's */
  struct by_tls_identity identity;
};

struct attacker {
  struct by_key key, foreign; /* of the job; of another one */
  struct by_job_keys helper;  /* with a ticket of the job */
  struct by_process_identity *identity;
  uint32_t ranks;
  struct recording recordings[RECORDINGS];
  unsigned n_recordings, n_certificates, n_signers;
  struct certificate certificates[CERTIFICATES];
  struct signer signers[CERTIFICATES];
  char job[BY_STATEMENT_JOB + 1]; /* in statements */
};

struct attempt {
  const struct attacker *attacker;
  const struct by_address *to;
  struct by_rng rng;
  int fd; /* connected and blocking, with a time limit */
};

struct kind {
  const char *name;
  enum outcome (*run)(struct attempt *attempt, unsigned variant);
  unsigned variant;
  bool genuine; /* some of its attempts have nothing wrong, and must be accepted: the test of the test */
};

/* Those that can be made with what the attacker has. Returns how many were written to `out`. */
unsigned list_kinds(const struct attacker *attacker, struct kind *out, unsigned most);
/* A client with this certificate and key (PEM); NULL: without one. `name`: "tls 1.2" limits the version. Ends the
 * program on failure. */
SSL_CTX *make_client(const char *name, const char *path);

#endif
