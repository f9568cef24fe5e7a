/* Finds members that are stopped while others wait for them, by questions among the members. */
#include "suspicion.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "clock.h"

/* A member that has not answered yet. */
struct suspect {
  LIST_ENTRY(suspect) entry;
  uint32_t rank;
  uint64_t asked_at;  /* When this process first asked the member for a call of its own (ns); 0 if it did not. */
  uint64_t spread_at; /* When this process begins to question others (ns); UINT64_MAX if it does not, or has begun. */
  uint64_t share_at;  /* When this process answers the members in `asking` (ns); UINT64_MAX if there are none. */
  /* Whether others are questioned, and whether most of them agree that the member is stopped. */
  bool spread, stopped;
  struct by_rank_set shared; /* Members that receive no answer, including this one. */
  struct by_rank_set asking; /* Members that asked this process about the suspect. */
};

struct by_suspicion {
  struct by_suspicion_config config;
  LIST_HEAD(, suspect) all;
};

enum banyan_status by_suspicion_create(const struct by_suspicion_config *config, struct by_suspicion **out) {
  struct by_suspicion *suspicion = malloc(sizeof *suspicion);
  if (!suspicion) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for suspicions of members");
  *suspicion = (struct by_suspicion){.config = *config};
  LIST_INIT(&suspicion->all);
  *out = suspicion;
  return BANYAN_OK;
}

static void forget(struct suspect *suspect) {
  LIST_REMOVE(suspect, entry);
  by_rank_set_fini(&suspect->shared);
  by_rank_set_fini(&suspect->asking);
  free(suspect);
}

void by_suspicion_destroy(struct by_suspicion *suspicion) {
  if (!suspicion) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&suspicion->all)) forget(LIST_FIRST(&suspicion->all));
  free(suspicion);
}

static struct suspect *find(const struct by_suspicion *suspicion, uint32_t rank) {
  struct suspect *suspect;
  LIST_FOREACH(suspect, &suspicion->all, entry) {
    if (suspect->rank == rank) break;
  }
  return suspect;
}

/* Returns NULL if memory is exhausted; then the deadline of calls decides. */
static struct suspect *find_or_make(struct by_suspicion *suspicion, uint32_t rank) {
  struct suspect *suspect = find(suspicion, rank);
  if (suspect) return suspect;
  suspect = malloc(sizeof *suspect);
  if (!suspect) return NULL;
  *suspect = (struct suspect){.rank = rank, .spread_at = UINT64_MAX, .share_at = UINT64_MAX};
  LIST_INSERT_HEAD(&suspicion->all, suspect, entry);
  if (by_rank_set_init(&suspect->shared, suspicion->config.n) == BANYAN_OK &&
      by_rank_set_init(&suspect->asking, suspicion->config.n) == BANYAN_OK)
    return suspect;
  forget(suspect);
  return NULL;
}

static void set_timer(struct by_suspicion *suspicion) {
  const struct suspect *suspect;
  uint64_t next = UINT64_MAX;
  LIST_FOREACH(suspect, &suspicion->all, entry) {
    if (suspect->spread_at < next) next = suspect->spread_at;
    if (suspect->share_at < next) next = suspect->share_at;
  }
  if (next != UINT64_MAX) suspicion->config.set_timer(suspicion->config.context, next);
}

static bool is_other(const struct by_suspicion *suspicion, uint32_t rank) {
  return rank < suspicion->config.n && rank != suspicion->config.self;
}

/* Returns a delay (ns) below one second, different for each member that waits for `rank`. A member that is questioned
 * meanwhile does not begin to question others itself. */
static uint64_t turn_of(const struct by_suspicion *suspicion, uint32_t rank) {
  uint64_t n = suspicion->config.n, place = (suspicion->config.self + n - rank) % n;
  return place * BY_SECOND / n;
}

/* Whether a call has waited for about the configured silence; a sixteenth less is enough, since calls ask at inexact
 * times. */
static bool has_waited(const struct by_suspicion *suspicion, const struct suspect *suspect, uint64_t now) {
  uint64_t silence = suspicion->config.silence;
  return now - suspect->asked_at >= silence - silence / 16;
}

void by_suspicion_waits(struct by_suspicion *suspicion, uint64_t now, uint64_t since, uint32_t rank) {
  struct suspect *suspect = is_other(suspicion, rank) ? find_or_make(suspicion, rank) : NULL;
  if (!suspect || suspect->stopped) return;
  if (!suspect->asked_at || suspect->asked_at < since) { /* The member has taken part in calls since it was asked. */
    suspect->asked_at = now;
    suspect->spread_at = UINT64_MAX;
    suspect->spread = false;
    by_rank_set_clear(&suspect->shared);
  }
  suspicion->config.ask(suspicion->config.context, rank);
  if (suspect->spread)
    suspicion->config.spread(suspicion->config.context, rank);
  else if (has_waited(suspicion, suspect, now) && suspect->spread_at == UINT64_MAX)
    suspect->spread_at = now + turn_of(suspicion, rank);
  set_timer(suspicion);
}

bool by_suspicion_answered(struct by_suspicion *suspicion, uint32_t rank) {
  struct suspect *suspect = find(suspicion, rank);
  if (!suspect) return false;
  forget(suspect);
  return true;
}

void by_suspicion_questioned(struct by_suspicion *suspicion, uint64_t now, uint32_t from, uint32_t rank) {
  if (!is_other(suspicion, rank) || !is_other(suspicion, from) || from == rank) return;
  struct suspect *suspect = find_or_make(suspicion, rank);
  if (!suspect) return;
  if (by_rank_set_add(&suspect->asking, from) && suspect->share_at == UINT64_MAX) {
    suspicion->config.ask(suspicion->config.context, rank);
    suspect->share_at = now + suspicion->config.answer_timeout;
  }
  suspect->spread_at = UINT64_MAX; /* Do not question others until a call asks again. */
  set_timer(suspicion);
}

static void judge(struct by_suspicion *suspicion, struct suspect *suspect) {
  uint32_t agreed = by_rank_set_count(&suspect->shared);
  if (suspect->stopped || agreed < 2 || 2 * agreed <= suspicion->config.n - 1) return;
  suspect->stopped = true;
  suspicion->config.stopped(suspicion->config.context, suspect->rank);
}

void by_suspicion_shared(struct by_suspicion *suspicion, uint32_t from, uint32_t rank) {
  struct suspect *suspect = is_other(suspicion, from) && from != rank ? find(suspicion, rank) : NULL;
  if (!suspect || !suspect->spread) return;
  by_rank_set_add(&suspect->shared, from);
  judge(suspicion, suspect);
}

static void begin_to_spread(struct by_suspicion *suspicion, struct suspect *suspect) {
  suspect->spread_at = UINT64_MAX;
  suspect->spread = true;
  by_rank_set_add(&suspect->shared, suspicion->config.self);
  suspicion->config.spread(suspicion->config.context, suspect->rank);
}

static void share(struct by_suspicion *suspicion, struct suspect *suspect) {
  suspect->share_at = UINT64_MAX;
  for (uint32_t to = 0; (to = by_rank_set_next(&suspect->asking, to)) < suspicion->config.n; to++)
    suspicion->config.share(suspicion->config.context, to, suspect->rank);
  by_rank_set_clear(&suspect->asking);
}

void by_suspicion_timer(struct by_suspicion *suspicion, uint64_t now) {
  struct suspect *suspect;
  LIST_FOREACH(suspect, &suspicion->all, entry) {
    if (suspect->spread_at <= now) begin_to_spread(suspicion, suspect);
    if (suspect->share_at <= now) share(suspicion, suspect);
  }
  set_timer(suspicion);
}
