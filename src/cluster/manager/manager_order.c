#include "manager_order.h"

#include <stdlib.h>
#include <string.h>

struct place {
  struct by_manager_job *job;
  uint32_t came, behind;
};

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static int compare(const void *one, const void *other) {
  const struct place *a = one, *b = other;
  int order = by_priority_compare(&a->job->place, &b->job->place);
  return order ? order : (a->came > b->came) - (a->came < b->came);
}

/* The list is by when they came. Those of queue 0 have class 0, and stand in nobody's way for long. */
static uint32_t put_in_order(const struct by_manager *m, struct place *out) {
  uint32_t n = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (by_job_has_left(job) || !job->place.queue) continue;
    out[n] = (struct place){.job = job, .came = n};
    n++;
  }
  qsort(out, n, sizeof *out, compare);
  return n;
}

/* The most of a count on the steps where a job sends, and what its steps have at least from now on. */
static uint32_t most_on(const struct by_manager_job *job, const uint32_t *count) {
  const struct by_link_shares *shares = by_job_shares(job);
  uint32_t most = 0;
  for (uint32_t i = 0; i < shares->n; i++) most = larger(most, count[shares->items[i].step]);
  return most;
}

static void raise_on(const struct by_manager_job *job, uint32_t *count, uint32_t least) {
  const struct by_link_shares *shares = by_job_shares(job);
  for (uint32_t i = 0; i < shares->n; i++) count[shares->items[i].step] = larger(count[shares->items[i].step], least);
}

static bool are_equals(const struct by_manager *m, const struct place *a, const struct place *b) {
  return by_priority_are_equals(&m->options.rules, &a->job->place, &b->job->place);
}

static void count_behind(const struct by_manager *m, struct place *places, uint32_t n, uint32_t *on_step) {
  for (uint32_t end = n, from; end > 0; end = from) {
    from = end - 1;
    while (from > 0 && are_equals(m, &places[from - 1], &places[end - 1])) from--;
    for (uint32_t i = from; i < end; i++) places[i].behind = most_on(places[i].job, on_step);
    for (uint32_t i = from; i < end; i++) raise_on(places[i].job, on_step, places[i].behind + 1);
  }
}

static void set_place(const struct by_manager *m, struct by_manager_job *job, uint32_t class_, uint32_t above,
                      uint32_t behind) {
  double changed = job->order.above != above || job->order.behind != behind ? m->now : job->order.changed;
  job->order = (struct by_job_order){.class_ = class_, .above = above, .behind = behind, .changed = changed};
}

/* Of those behind it no more than there are classes for matter: in a long row somebody always comes or ends. */
static void give_class(const struct by_manager *m, const struct place *place, const uint32_t *on_step) {
  enum { MOST = BY_PRIORITY_CLASSES - 2 };
  uint32_t above = most_on(place->job, on_step), behind = place->behind < MOST ? place->behind : MOST;
  set_place(m, place->job, by_priority_class(place->job->place.queue, above, behind), above, behind);
}

static void give_classes(const struct by_manager *m, const struct place *places, uint32_t n, uint32_t *on_step) {
  for (uint32_t from = 0, end; from < n; from = end) {
    end = from + 1;
    while (end < n && are_equals(m, &places[from], &places[end])) end++;
    for (uint32_t i = from; i < end; i++) give_class(m, &places[i], on_step);
    for (uint32_t i = from; i < end; i++) raise_on(places[i].job, on_step, places[i].job->order.class_);
  }
}

void by_order_restore(struct by_manager_job *job, uint32_t class_) {
  job->order.class_ = class_;
}

void by_order_find(const struct by_manager *m, uint32_t n_steps) {
  uint32_t n = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next, n++)
    if (!job->place.queue) set_place(m, job, 0, 0, 0);
  struct place *places = calloc((size_t)n + 1, sizeof *places);
  uint32_t *on_step = calloc((size_t)n_steps + 1, sizeof *on_step);
  if (places && on_step) { /* else they keep those that they have */
    n = put_in_order(m, places);
    count_behind(m, places, n, on_step);
    memset(on_step, 0, n_steps * sizeof *on_step);
    give_classes(m, places, n, on_step);
  }
  free(places);
  free(on_step);
}
