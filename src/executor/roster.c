/* The links to all processes of the job, which may become more: helpers come at any time. */
#include <stdlib.h>

#include "call.h"

static struct by_link *make_link(struct by_engine *engine, uint32_t process) {
  struct by_link *link = calloc(1, sizeof *link);
  if (!link) return NULL;
  *link = (struct by_link){.engine = engine, .process = process};
  link->outs_end = &link->outs;
  link->notes_end = &link->notes;
  link->stored_end = &link->stored;
  link->begun_end = &link->begun;
  link->letters_end = &link->letters;
  return link;
}

static void free_stored(struct by_link *link) {
  while (link->stored) {
    struct by_stored *stored = link->stored;
    link->stored = stored->next;
    free(stored);
  }
  link->stored_end = &link->stored;
  link->stored_bytes = 0;
}

static void free_lanes(struct by_link *link) {
  struct by_engine *engine = link->engine;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    struct by_lane *lane = link->ends[i].lane;
    engine->sent_before += by_lane_total(lane);
    if (lane->ops->wakes) engine->counters.wakes_sent += lane->ops->wakes(lane);
    lane->ops->destroy(lane);
  }
  link->n_ends = 0;
  link->lane = NULL;
}

static void free_link(struct by_link *link) {
  free_stored(link);
  free(link->words);
  by_letters_fini_link(link);
  free_lanes(link);
  if (link->fabric) link->fabric->ops->destroy(link->fabric);
  free(link);
}

/* A longer list with what is in it; where there is no memory, the one that there is. */
static void *extend(void *list, size_t n, size_t each, bool *room) {
  void *longer = realloc(list, n * each);
  if (longer) return longer;
  *room = false;
  return list;
}

static bool make_room(struct by_engine *engine, uint32_t n) {
  bool room = true;
  engine->links = extend(engine->links, n, sizeof *engine->links, &room);
  engine->ends = extend(engine->ends, (size_t)n * BY_LANES, sizeof *engine->ends, &room);
  engine->fabrics = extend(engine->fabrics, n, sizeof *engine->fabrics, &room);
  for (struct by_domain *d = engine->domains; d; d = d->next)
    d->rank_of = extend(d->rank_of, n, sizeof *d->rank_of, &room);
  return room;
}

/* Links stay where they are: calls point to them. */
enum banyan_status by_links_grow(struct by_engine *engine, uint32_t n) {
  bool room = make_room(engine, n);
  while (room && engine->processes < n) {
    struct by_link *link = make_link(engine, engine->processes);
    if (!link) break;
    for (struct by_domain *d = engine->domains; d; d = d->next) d->rank_of[engine->processes] = UINT32_MAX;
    engine->links[engine->processes++] = link;
  }
  if (engine->processes == n) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", n);
}

void by_links_free(struct by_engine *engine) {
  for (uint32_t i = 0; i < engine->processes; i++) free_link(engine->links[i]);
  free(engine->links);
  free(engine->ends);
  free(engine->fabrics);
}

/* ---- those that are gone */

void by_link_lose(struct by_link *link) {
  if (link->lost) return;
  link->lost = true;
  link->wanted = true; /* nobody connects to it any more */
  link->closing_next = link->engine->closing;
  link->engine->closing = link;
}

/* Nobody hears what calls that have ended would still have told. */
static void drop_notes(struct by_link *link) {
  while (link->notes) {
    struct by_in *in = link->notes;
    link->notes = in->note_next;
    in->noted = false;
    in->call->notes--;
    by_call_drop(in->call);
  }
  link->notes_end = &link->notes;
}

static void forget_ends(struct by_engine *engine, const struct by_link *link) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < engine->active; i++)
    if (engine->ends[i]->link != link) engine->ends[kept++] = engine->ends[i];
  engine->active = kept;
}

static void close_link(struct by_link *link) {
  drop_notes(link);
  forget_ends(link->engine, link);
  free_stored(link);
  free_lanes(link);
  link->n_words = 0;
}

/* Not before the peer has closed its end, or died: one that leaves in peace would take this one for dead. */
static bool is_over(const struct by_link *link) {
  for (uint32_t i = 0; i < link->n_ends; i++)
    if (link->ends[i].lane->status == BANYAN_OK) return false;
  return !link->running;
}

void by_links_close(struct by_engine *engine) {
  for (struct by_link **place = &engine->closing; *place;) {
    struct by_link *link = *place;
    if (!is_over(link)) {
      place = &link->closing_next;
      continue;
    }
    *place = link->closing_next;
    close_link(link);
  }
}

enum banyan_status by_engine_add(struct by_engine *engine) {
  return by_links_grow(engine, engine->processes + 1);
}
