/* Finds out about other processes: that they have ended, by this host's kernel, or are stopped, by asking members. */
#include "detection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "death_watch.h"
#include "log.h"
#include "member_message.h"
#include "suspicion.h"

enum { ANSWER_S = 3 /* Seconds for an answer to a question on behalf of others; fewer if the silence is shorter. */ };

_Static_assert(BY_DEATH_ID == sizeof((struct by_fingerprint *)0)->bytes, "processes are watched by their fingerprints");

struct by_detection {
  struct by_detection_options options;
  struct by_death_watch *watch;           /* NULL: deaths cannot be watched here. */
  const struct by_membership *membership; /* NULL: this process is in no membership. */
  struct by_suspicion *suspicion;         /* NULL without a membership. */
  struct by_timer timer;
};

/* ---- stopped members */

static const struct by_fingerprint *process_of(const struct by_detection *detection, uint32_t rank) {
  return &detection->membership->members[rank].fingerprint;
}

static void send_to(const struct by_detection *detection, uint32_t to, uint16_t type, const void *payload,
                    size_t length) {
  const struct by_detection_events *events = &detection->options.events;
  events->send(events->context, process_of(detection, to), type, payload, length);
}

static void send_suspicion(const struct by_detection *detection, uint32_t to, uint16_t type, uint32_t rank) {
  uint8_t bytes[BY_SUSPICION_BYTES];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_suspicion_write(&writer, &(struct by_member_suspicion){detection->membership->number, rank});
  send_to(detection, to, type, bytes, writer.length);
}

static void on_ask(void *context, uint32_t rank) {
  send_to(context, rank, BY_MEMBER_ASK, "", 0);
}

static void on_spread(void *context, uint32_t rank) {
  const struct by_detection *detection = context;
  by_info("member", "rank %u of \"%s\" does not answer; the others are asked whether it answers them", rank,
          detection->membership->name);
  for (uint32_t to = 0; to < detection->membership->n; to++) {
    bool self = memcmp(process_of(detection, to), &detection->options.self->fingerprint, BY_DEATH_ID) == 0;
    if (!self && to != rank) send_suspicion(detection, to, BY_MEMBER_SUSPICION, rank);
  }
}

static void on_share(void *context, uint32_t to, uint32_t rank) {
  const struct by_detection *detection = context;
  const struct by_detection_events *events = &detection->options.events;
  events->suspect(events->context, process_of(detection, rank));
  send_suspicion(detection, to, BY_MEMBER_SUSPICION_SHARED, rank);
}

static void on_stopped(void *context, uint32_t rank) {
  const struct by_detection *detection = context;
  const struct by_detection_events *events = &detection->options.events;
  by_warn("member", "rank %u of \"%s\" does not answer most of the others, though its host may: it is left out", rank,
          detection->membership->name);
  events->stopped(events->context, process_of(detection, rank));
}

static void on_set_timer(void *context, uint64_t at) {
  struct by_detection *detection = context;
  by_loop_set_timer(detection->options.loop, &detection->timer, at);
}

static void expired(void *context) {
  struct by_detection *detection = context;
  if (detection->suspicion) by_suspicion_timer(detection->suspicion, by_loop_now(detection->options.loop));
}

enum banyan_status by_detection_enter(struct by_detection *detection, const struct by_membership *membership) {
  by_loop_cancel_timer(&detection->timer);
  by_suspicion_destroy(detection->suspicion);
  detection->suspicion = NULL;
  detection->membership = membership;
  if (!membership) return BANYAN_OK;
  double silence = detection->options.silence;
  struct by_suspicion_config config = {.n = membership->n,
                                       .self = by_membership_find(membership, &detection->options.self->fingerprint),
                                       .silence = by_clock_from_seconds(silence),
                                       .answer_timeout = by_clock_from_seconds(fmin(silence, ANSWER_S)),
                                       .ask = on_ask,
                                       .spread = on_spread,
                                       .share = on_share,
                                       .stopped = on_stopped,
                                       .set_timer = on_set_timer,
                                       .context = detection};
  return by_suspicion_create(&config, &detection->suspicion);
}

void by_detection_waits(struct by_detection *detection, uint64_t number, uint64_t since, const uint32_t *ranks,
                        uint32_t n) {
  if (!detection->suspicion || detection->membership->number != number) return;
  uint64_t now = by_loop_now(detection->options.loop);
  for (uint32_t i = 0; i < n; i++) by_suspicion_waits(detection->suspicion, now, since, ranks[i]);
}

/* ---- frames */

static void handle_suspicion(struct by_detection *detection, uint32_t from, uint16_t type, const void *payload,
                             size_t length) {
  struct by_member_suspicion suspicion;
  if (by_member_suspicion_read(payload, length, &suspicion) != BANYAN_OK ||
      suspicion.number != detection->membership->number)
    return;
  if (type == BY_MEMBER_SUSPICION)
    by_suspicion_questioned(detection->suspicion, by_loop_now(detection->options.loop), from, suspicion.rank);
  else
    by_suspicion_shared(detection->suspicion, from, suspicion.rank);
}

/* A process that has left its group answers as well, since it still runs. */
bool by_detection_handle(struct by_detection *detection, const struct by_fingerprint *from, uint16_t type,
                         const void *payload, size_t length) {
  const struct by_detection_events *events = &detection->options.events;
  uint32_t rank = detection->suspicion ? by_membership_find(detection->membership, from) : BY_NO_MEMBER;
  bool known = rank != BY_NO_MEMBER && rank < detection->membership->n;
  if (known && by_suspicion_answered(detection->suspicion, rank)) events->trust(events->context, from);
  if (type == BY_MEMBER_ASK)
    events->send(events->context, from, BY_MEMBER_HERE, "", 0);
  else if (known && (type == BY_MEMBER_SUSPICION || type == BY_MEMBER_SUSPICION_SHARED))
    handle_suspicion(detection, rank, type, payload, length);
  return type == BY_MEMBER_ASK || type == BY_MEMBER_HERE || type == BY_MEMBER_SUSPICION ||
         type == BY_MEMBER_SUSPICION_SHARED;
}

/* ---- processes of this host */

static void on_dead(void *context, const uint8_t *id) {
  const struct by_detection *detection = context;
  struct by_fingerprint process;
  memcpy(process.bytes, id, sizeof process.bytes);
  detection->options.events.dead(detection->options.events.context, &process);
}

/* A process that cannot be watched is treated like one on another host, for which a majority decides. */
void by_detection_watch(struct by_detection *detection, const struct by_handle *handle) {
  const struct by_handle *self = detection->options.self;
  bool other = memcmp(&handle->fingerprint, &self->fingerprint, BY_DEATH_ID) != 0;
  if (!detection->watch || !other || !by_member_same_network(&handle->member, &self->member)) return;
  if (by_death_watch_add(detection->watch, handle->fingerprint.bytes) != BANYAN_OK)
    by_info("member", "the end of process %u will not be proven by this host's kernel: %s", handle->member.pid,
            banyan_error_text());
}

struct pruning {
  bool (*keeps)(void *context, const struct by_fingerprint *fingerprint);
  void *context;
};

static bool is_kept(void *context, const uint8_t *id) {
  const struct pruning *pruning = context;
  struct by_fingerprint process;
  memcpy(process.bytes, id, sizeof process.bytes);
  return pruning->keeps(pruning->context, &process);
}

void by_detection_prune(struct by_detection *detection,
                        bool (*keeps)(void *context, const struct by_fingerprint *fingerprint), void *context) {
  if (detection->watch) by_death_watch_prune(detection->watch, is_kept, &(struct pruning){keeps, context});
}

/* ---- life */

enum banyan_status by_detection_create(const struct by_detection_options *options, struct by_detection **out) {
  struct by_detection *detection = calloc(1, sizeof *detection);
  if (!detection) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for watching processes");
  detection->options = *options;
  by_timer_init(&detection->timer, expired, detection);
  struct by_death_watch_options watch = {
      .loop = options->loop, .self = options->self->fingerprint.bytes, .dead = on_dead, .context = detection};
  if (by_death_watch_create(&watch, &detection->watch) != BANYAN_OK)
    by_info("member", "ends of processes will not be proven by this host's kernel: %s", banyan_error_text());
  *out = detection;
  return BANYAN_OK;
}

void by_detection_destroy(struct by_detection *detection) {
  if (!detection) return;
  by_loop_cancel_timer(&detection->timer);
  by_suspicion_destroy(detection->suspicion);
  by_death_watch_destroy(detection->watch);
  free(detection);
}
