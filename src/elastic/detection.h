/* What a member's service finds out about other processes by itself: proofs of this host's kernel that processes have
 * ended (death_watch.h), and members that are stopped while others wait for them (suspicion.h). On the loop's thread.
 */
#ifndef BY_ELASTIC_DETECTION_H
#define BY_ELASTIC_DETECTION_H

#include "handle.h"
#include "loop.h"

struct by_detection;

/* From the loop, and from within calls. They must not call these functions. */
struct by_detection_events {
  void (*send)(void *context, const struct by_fingerprint *to, uint16_t type, const void *payload, size_t length);
  /* The process has ended: proven. From the loop only. */
  void (*dead)(void *context, const struct by_fingerprint *process);
  /* It does not answer, as somebody wanted to know; it answers again. */
  void (*suspect)(void *context, const struct by_fingerprint *process);
  void (*trust)(void *context, const struct by_fingerprint *process);
  /* Calls here wait for it, and it does not answer most of the members. */
  void (*stopped)(void *context, const struct by_fingerprint *process);
  void *context;
};

struct by_detection_options {
  struct by_loop *loop;
  const struct by_handle *self; /* borrowed */
  double silence;               /* seconds */
  struct by_detection_events events;
};

/* Others can prove the end of this process from now on, whether the loop runs or not. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_detection_create(const struct by_detection_options *options,
                                                    struct by_detection **out);
/* NULL is allowed. */
void by_detection_destroy(struct by_detection *detection);

/* The membership in which this process is now, borrowed until the next call; NULL: none. */
BANYAN_CHECK enum banyan_status by_detection_enter(struct by_detection *detection,
                                                   const struct by_membership *membership);
/* Watches a process if it is on this host. */
void by_detection_watch(struct by_detection *detection, const struct by_handle *handle);
/* Ends that for processes that are not to be kept. */
void by_detection_prune(struct by_detection *detection,
                        bool (*keeps)(void *context, const struct by_fingerprint *fingerprint), void *context);
/* Calls here, in the membership of this number, have waited for these ranks since then (ns of the loop's clock). */
void by_detection_waits(struct by_detection *detection, uint64_t number, uint64_t since, const uint32_t *ranks,
                        uint32_t n);
/* Any frame that came. True: it was of a type that is handled here. */
bool by_detection_handle(struct by_detection *detection, const struct by_fingerprint *from, uint16_t type,
                         const void *payload, size_t length);

#endif
