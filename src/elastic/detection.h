/* What a member's service finds out about other processes by itself: proofs of this host's kernel that processes have
 * ended (death_watch.h), and members that are stopped while others wait for them (suspicion.h). On the loop's thread.
 */
#ifndef BY_ELASTIC_DETECTION_H
#define BY_ELASTIC_DETECTION_H

#include "handle.h"
#include "loop.h"

struct by_detection;

/* Called by the loop and from within the functions below, which they must not call. */
struct by_detection_events {
  void (*send)(void *context, const struct by_fingerprint *to, uint16_t type, const void *payload, size_t length);
  /* The end of the process is proven. Called by the loop only. */
  void (*dead)(void *context, const struct by_fingerprint *process);
  /* `suspect`: the process does not answer a question on behalf of another member. `trust`: it answers again. */
  void (*suspect)(void *context, const struct by_fingerprint *process);
  void (*trust)(void *context, const struct by_fingerprint *process);
  /* Calls of this process wait for that process, and it answers few of the members. */
  void (*stopped)(void *context, const struct by_fingerprint *process);
  void *context;
};

struct by_detection_options {
  struct by_loop *loop;
  const struct by_handle *self; /* Borrowed. */
  double silence;               /* Seconds without an answer after which other members are questioned. */
  struct by_detection_events events;
};

/* From now on, others can prove the end of this process, whether or not the loop runs. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_detection_create(const struct by_detection_options *options,
                                                    struct by_detection **out);
/* NULL is allowed. */
void by_detection_destroy(struct by_detection *detection);

/* Sets the membership of this process, borrowed until the next call; NULL if it is in none. */
BANYAN_CHECK enum banyan_status by_detection_enter(struct by_detection *detection,
                                                   const struct by_membership *membership);
/* Watches a process if it is on this host. */
void by_detection_watch(struct by_detection *detection, const struct by_handle *handle);
/* Stops watching processes for which `keeps` returns false. */
void by_detection_prune(struct by_detection *detection,
                        bool (*keeps)(void *context, const struct by_fingerprint *fingerprint), void *context);
/* Reports that calls of this process, in the membership with this number, have waited for these ranks since `since` (ns
 * of the loop's clock). */
void by_detection_waits(struct by_detection *detection, uint64_t number, uint64_t since, const uint32_t *ranks,
                        uint32_t n);
/* Handles a received frame. Returns true if its type is one of this module's. */
bool by_detection_handle(struct by_detection *detection, const struct by_fingerprint *from, uint16_t type,
                         const void *payload, size_t length);

#endif
