/* Connects to one process that may have several names and addresses, some of which lead nowhere. All are tried, each
 * a little after the one before, and repeatedly until one connection is usable. Names are looked up in threads of
 * their own. There is one dialer for each process to be reached, on the loop's thread.
 *
 *    an address   becomes        when
 *    resting      being tried    its turn has come
 *    being tried  connected      it has answered
 *    being tried  resting        it has refused, or not answered in time
 *    connected    handed over    no other connection is
 *    connected    resting        another one is kept
 *    handed over  resting        it was not usable */
#ifndef BY_NET_STREAMS_DIALER_H
#define BY_NET_STREAMS_DIALER_H

#include "address.h"
#include "loop.h"
#include "process_identity.h"
#include "text.h"

struct by_dialer;

struct by_dialer_options {
  struct by_loop *loop;
  const char *targets; /* "host:port,10.0.0.1:port,[fd00::1]:port"; "#fingerprint" may follow. Copied. */
  /* Hands a connection over: the callee owns `fd`. There is no further one until by_dialer_failed is called, which
   * may be done at once. */
  void (*connected)(void *context, int fd, const struct by_address *to);
  void *context;
};

/* Checks that each target is host:port, and that a fingerprint follows the #. *port is the first one's.
 * BANYAN_ERR_PARSE otherwise. */
enum banyan_status by_dialer_check(const char *targets, int *port) BANYAN_CHECK;
/* The fingerprint of the process that is to answer, which the user of a connection has to check; false: there is
 * none. */
bool by_dialer_fingerprint(const char *targets, struct by_fingerprint *out);
/* Begins to connect. Errors of by_dialer_check. The caller owns *out. */
enum banyan_status by_dialer_create(const struct by_dialer_options *options, struct by_dialer **out) BANYAN_CHECK;
/* Destroys a dialer; NULL is allowed. Not from within `connected`. */
void by_dialer_destroy(struct by_dialer *dialer);

/* The connection that was handed over was not usable, for this reason. Its address is not tried for `pause` ns; the
 * others are. */
void by_dialer_failed(struct by_dialer *dialer, enum banyan_status status, const char *reason, uint64_t pause);
/* The connection that was handed over is used. Attempts at other addresses are given up. */
void by_dialer_keep(struct by_dialer *dialer);
/* Whether trying again will hardly help: every address was reached and is not usable (a status other than _CONNECT,
 * _PEER_DEAD, _TIMEOUT), or, after 8 s, has never answered while another one was reached. Then returns the status of
 * the first one that was reached. Otherwise, and while a connection is handed over, returns BANYAN_OK. */
enum banyan_status by_dialer_refusal(const struct by_dialer *dialer);
/* Prints the last failure of each address and name, separated by "; ". Those that do not fit into `max` bytes are
 * counted. */
void by_dialer_print(const struct by_dialer *dialer, size_t max, struct by_text *out);

#endif
