/* Why connections are refused, or ended because of received data: each refusal has one reason, and is counted where
 * it is decided. The counts are the process's, for all its jobs and groups. Any thread. */
#ifndef BY_SECURITY_REFUSAL_H
#define BY_SECURITY_REFUSAL_H

#include <stdint.h>

#include "fail.h"

/* Rows: reason, its name in the metrics. */
#define BY_REFUSALS(X)                                                                                                 \
  X(KEY, "key")                 /* The peer does not hold the job's key, or has another one. */                        \
  X(IDENTITY, "identity")       /* It is another process than was expected, or one that takes another one's place. */  \
  X(EXPIRED, "expired")         /* The ticket of a helper or server has expired. */                                    \
  X(CERTIFICATE, "certificate") /* It is not of this cluster, expired, revoked, or for another role. */                \
  X(PLAIN, "plain")             /* Only one of both ends encrypts. */                                                  \
  X(PURPOSE, "purpose")         /* The connection is for something else, or for another process. */                    \
  X(PROTOCOL, "protocol")       /* The peer is no process of Banyan, or does not keep to the protocol. */              \
  X(VERSION, "version")         /* The peer has another version. */                                                    \
  X(MIRRORED, "mirrored")       /* The peer sends back what it is sent, or plays the same part. */                     \
  X(OVERSIZED, "oversized")     /* The peer sends more than is allowed. */                                             \
  X(ALTERED, "altered")         /* A record or a hello was altered on its way. */                                      \
  X(TRUNCATED, "truncated")     /* The connection ended in the middle of the handshake. */                             \
  X(LATE, "late")               /* The handshake took too long. */                                                     \
  X(EVICTED, "evicted")         /* It was closed in favour of others, before the peer had authenticated. */

enum by_refusal {
#define BY_REFUSAL(reason, ...) BY_REFUSED_##reason,
  BY_REFUSALS(BY_REFUSAL)
#undef BY_REFUSAL
      BY_REFUSAL_REASONS
};

/* The reason's name, such as "key". */
const char *by_refusal_name(enum by_refusal reason);
void by_refusal_count(enum by_refusal reason);
uint64_t by_refusals(enum by_refusal reason);

/* Counts a refusal and makes its error, see by_fail: return by_refuse(BY_REFUSED_KEY, BANYAN_ERR_AUTH, "..."). */
#define by_refuse(reason, ...) (by_refusal_count(reason), by_fail(__VA_ARGS__))

#endif
