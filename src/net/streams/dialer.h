/* Connects to one process that may have several names and addresses, of which
 * some lead nowhere: all are tried, each a little after the one before, again and
 * again until one connection is of use. Names are looked up in threads of their
 * own. One dialer for each process to be reached, on the loop's thread.
 *
 *   an address   becomes        when
 *   resting      being tried    its turn has come
 *   being tried  connected      it has answered
 *   being tried  resting        it has refused, or not answered in time
 *   connected    handed over    no other connection is
 *   connected    resting        another one is kept
 *   handed over  resting        it was of no use */
#ifndef BY_NET_STREAMS_DIALER_H
#define BY_NET_STREAMS_DIALER_H

#include "address.h"
#include "loop.h"
#include "process_identity.h"
#include "text.h"

struct by_dialer;

struct by_dialer_options {
  struct by_loop *loop;
  const char *targets; /* "host:port,10.0.0.1:port,[fd00::1]:port", "#fingerprint" may follow; copied */
  /* A connection is there: `fd` is the callee's. There is no further one before by_dialer_failed is called, which may
   * be done at once. */
  void (*connected)(void *context, int fd, const struct by_address *to);
  void *context;
};

/* Whether each of these is host:port, and what follows a # is a fingerprint. *port: the first one's. BANYAN_ERR_PARSE
 * otherwise. */
enum banyan_status by_dialer_check(const char *targets, int *port) BANYAN_CHECK;
/* That of the process that is to answer there, which the user of a connection has to check; false: there is none. */
bool by_dialer_fingerprint(const char *targets, struct by_fingerprint *out);
/* Begins to connect. Errors of by_dialer_check. The caller owns *out. */
enum banyan_status by_dialer_create(const struct by_dialer_options *options, struct by_dialer **out) BANYAN_CHECK;
/* NULL is allowed. Not from within `connected`. */
void by_dialer_destroy(struct by_dialer *dialer);

/* The connection that was handed over was of no use: why, and for how many ns that address is to be left alone. The
 * others go on. */
void by_dialer_failed(struct by_dialer *dialer, enum banyan_status status, const char *reason, uint64_t pause);
/* The connection that was handed over is of use: gives up attempts at other addresses. */
void by_dialer_keep(struct by_dialer *dialer);
/* Whether trying again will hardly help: every address was reached and is no use (a status other than _CONNECT,
 * _PEER_DEAD, _TIMEOUT), or, after 8 s, has never answered while another one was reached. Then the status of the first
 * that was reached, else BANYAN_OK, also while a connection is handed over. */
enum banyan_status by_dialer_refusal(const struct by_dialer *dialer);
/* The last failure of each address and name, separated by "; ". Those that do not fit into `max` bytes are counted. */
void by_dialer_print(const struct by_dialer *dialer, size_t max, struct by_text *out);

#endif
