#include "doubts.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "clock.h"

/* A member that has not answered yet. */
struct doubt {
  LIST_ENTRY(doubt) entry;
  uint32_t rank;
  uint64_t asked_at;         /* first, by this process for a call of its own; 0: not */
  uint64_t spread_at;        /* when it begins to question others; UINT64_MAX: it does not, or has begun */
  uint64_t share_at;         /* when those that question this process get their answer; UINT64_MAX: nobody does */
  bool spread, stopped;      /* others are questioned; most of them agree */
  struct by_rank_set shared; /* members that do not hear of it either, this one too */
  struct by_rank_set asking; /* those that want to know */
};

struct by_doubts {
  struct by_doubts_config config;
  LIST_HEAD(, doubt) all;
};

enum banyan_status by_doubts_create(const struct by_doubts_config *config, struct by_doubts **out) {
  struct by_doubts *doubts = malloc(sizeof *doubts);
  if (!doubts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for doubts about members");
  *doubts = (struct by_doubts){.config = *config};
  LIST_INIT(&doubts->all);
  *out = doubts;
  return BANYAN_OK;
}

static void forget(struct doubt *doubt) {
  LIST_REMOVE(doubt, entry);
  by_rank_set_fini(&doubt->shared);
  by_rank_set_fini(&doubt->asking);
  free(doubt);
}

void by_doubts_destroy(struct by_doubts *doubts) {
  if (!doubts) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&doubts->all)) forget(LIST_FIRST(&doubts->all));
  free(doubts);
}

static struct doubt *find(const struct by_doubts *doubts, uint32_t rank) {
  struct doubt *doubt;
  LIST_FOREACH(doubt, &doubts->all, entry) {
    if (doubt->rank == rank) break;
  }
  return doubt;
}

/* NULL: out of memory; then the deadline of calls decides. */
static struct doubt *find_or_make(struct by_doubts *doubts, uint32_t rank) {
  struct doubt *doubt = find(doubts, rank);
  if (doubt) return doubt;
  doubt = malloc(sizeof *doubt);
  if (!doubt) return NULL;
  *doubt = (struct doubt){.rank = rank, .spread_at = UINT64_MAX, .share_at = UINT64_MAX};
  LIST_INSERT_HEAD(&doubts->all, doubt, entry);
  if (by_rank_set_init(&doubt->shared, doubts->config.n) == BANYAN_OK &&
      by_rank_set_init(&doubt->asking, doubts->config.n) == BANYAN_OK)
    return doubt;
  forget(doubt);
  return NULL;
}

static void set_timer(struct by_doubts *doubts) {
  const struct doubt *doubt;
  uint64_t next = UINT64_MAX;
  LIST_FOREACH(doubt, &doubts->all, entry) {
    if (doubt->spread_at < next) next = doubt->spread_at;
    if (doubt->share_at < next) next = doubt->share_at;
  }
  if (next != UINT64_MAX) doubts->config.set_timer(doubts->config.context, next);
}

static bool is_other(const struct by_doubts *doubts, uint32_t rank) {
  return rank < doubts->config.n && rank != doubts->config.self;
}

/* Those that wait for the same member begin one after the other, within a second: who is questioned meanwhile leaves it
 * at that. */
static uint64_t turn_of(const struct by_doubts *doubts, uint32_t rank) {
  uint64_t n = doubts->config.n, place = (doubts->config.self + n - rank) % n;
  return place * BY_SECOND / n;
}

/* As calls ask at times that are not exact, a little less is enough. */
static bool has_waited(const struct by_doubts *doubts, const struct doubt *doubt, uint64_t now) {
  uint64_t silence = doubts->config.silence;
  return now - doubt->asked_at >= silence - silence / 16;
}

void by_doubts_waits(struct by_doubts *doubts, uint64_t now, uint64_t since, uint32_t rank) {
  struct doubt *doubt = is_other(doubts, rank) ? find_or_make(doubts, rank) : NULL;
  if (!doubt || doubt->stopped) return;
  if (!doubt->asked_at || doubt->asked_at < since) { /* it has taken part in calls since */
    doubt->asked_at = now;
    doubt->spread_at = UINT64_MAX;
    doubt->spread = false;
    by_rank_set_clear(&doubt->shared);
  }
  doubts->config.ask(doubts->config.context, rank);
  if (doubt->spread)
    doubts->config.spread(doubts->config.context, rank);
  else if (has_waited(doubts, doubt, now) && doubt->spread_at == UINT64_MAX)
    doubt->spread_at = now + turn_of(doubts, rank);
  set_timer(doubts);
}

bool by_doubts_answered(struct by_doubts *doubts, uint32_t rank) {
  struct doubt *doubt = find(doubts, rank);
  if (!doubt) return false;
  forget(doubt);
  return true;
}

void by_doubts_questioned(struct by_doubts *doubts, uint64_t now, uint32_t from, uint32_t rank) {
  if (!is_other(doubts, rank) || !is_other(doubts, from) || from == rank) return;
  struct doubt *doubt = find_or_make(doubts, rank);
  if (!doubt) return;
  if (by_rank_set_add(&doubt->asking, from) && doubt->share_at == UINT64_MAX) {
    doubts->config.ask(doubts->config.context, rank);
    doubt->share_at = now + doubts->config.answer_timeout;
  }
  doubt->spread_at = UINT64_MAX; /* until the call asks again */
  set_timer(doubts);
}

static void judge(struct by_doubts *doubts, struct doubt *doubt) {
  uint32_t agreed = by_rank_set_count(&doubt->shared);
  if (doubt->stopped || agreed < 2 || 2 * agreed <= doubts->config.n - 1) return;
  doubt->stopped = true;
  doubts->config.stopped(doubts->config.context, doubt->rank);
}

void by_doubts_shared(struct by_doubts *doubts, uint32_t from, uint32_t rank) {
  struct doubt *doubt = is_other(doubts, from) && from != rank ? find(doubts, rank) : NULL;
  if (!doubt || !doubt->spread) return;
  by_rank_set_add(&doubt->shared, from);
  judge(doubts, doubt);
}

static void begin_to_spread(struct by_doubts *doubts, struct doubt *doubt) {
  doubt->spread_at = UINT64_MAX;
  doubt->spread = true;
  by_rank_set_add(&doubt->shared, doubts->config.self);
  doubts->config.spread(doubts->config.context, doubt->rank);
}

static void share(struct by_doubts *doubts, struct doubt *doubt) {
  doubt->share_at = UINT64_MAX;
  for (uint32_t to = 0; (to = by_rank_set_next(&doubt->asking, to)) < doubts->config.n; to++)
    doubts->config.share(doubts->config.context, to, doubt->rank);
  by_rank_set_clear(&doubt->asking);
}

void by_doubts_timer(struct by_doubts *doubts, uint64_t now) {
  struct doubt *doubt;
  LIST_FOREACH(doubt, &doubts->all, entry) {
    if (doubt->spread_at <= now) begin_to_spread(doubts, doubt);
    if (doubt->share_at <= now) share(doubts, doubt);
  }
  set_timer(doubts);
}
