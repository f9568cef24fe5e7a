/* Ranks submit operations one after the other, in a world where computing takes no time and every message travels for
 * the same time. There both can be known exactly: the moment at which an operation can start at the earliest, and the
 * fewest messages with which none starts later. Whenever all below a child of the root, and the child itself, have
 * submitted something more, the child must send a message, as it cannot know whether the others still lack it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "check.h"
#include "control_tree.h"
#include "controller.h"
#include "rng.h"

enum { OPERATIONS = 24, STEPS = 4, DELAY = 1000, GAP = 40 };

struct event {
  uint64_t at, number;
  uint32_t from, to; /* from == to: the rank submits its next operation */
  size_t bytes;
  unsigned char data[];
};

struct place {
  struct world *world;
  struct by_controller *controller;
  uint32_t rank, depth, submitted;
  uint32_t order[OPERATIONS];
  uint64_t at[OPERATIONS];      /* when it submits each operation in this step */
  uint64_t below[OPERATIONS];   /* when the last rank of its subtree has submitted it, and it is known here */
  uint64_t started[OPERATIONS]; /* when it started here */
};

struct world {
  uint32_t n;
  struct by_control_numbered shape;
  struct place *places;
  struct event **heap;
  uint32_t n_events, room;
  uint64_t now, sent;
  uint64_t to_root, from_root;
  struct by_rng rng;
};

/* ---- events by their times */

static bool is_before(const struct event *a, const struct event *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(struct world *w, uint64_t at, uint32_t from, uint32_t to, const void *data, size_t bytes) {
  struct event *event = malloc(sizeof *event + bytes);
  assert_true(event && BY_ARRAY_GROW(&w->heap, &w->room, (size_t)w->n_events + 1));
  *event = (struct event){.at = at, .number = w->sent++, .from = from, .to = to, .bytes = bytes};
  if (bytes) memcpy(event->data, data, bytes);
  uint32_t i = w->n_events++;
  for (; i && is_before(event, w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = event;
}

static struct event *pop(struct world *w) {
  struct event *first = w->heap[0], *last = w->heap[--w->n_events];
  uint32_t i = 0;
  for (uint32_t child = 1; child < w->n_events; child = 2 * i + 1) {
    if (child + 1 < w->n_events && is_before(w->heap[child + 1], w->heap[child])) child++;
    if (!is_before(w->heap[child], last)) break;
    w->heap[i] = w->heap[child];
    i = child;
  }
  w->heap[i] = last;
  return first;
}

/* ---- controllers */

static void on_send(void *context, uint32_t to, const void *data, size_t bytes) {
  const struct place *place = context;
  place->world->to_root += to == 0;
  place->world->from_root += place->rank == 0;
  push(place->world, place->world->now + DELAY, place->rank, to, data, bytes);
}

static void on_start(void *context, void *const *cookies, uint32_t n) {
  struct place *place = context;
  for (uint32_t i = 0; i < n; i++) *(uint64_t *)cookies[i] = place->world->now;
}

static void make_place(struct world *w, uint32_t rank) {
  struct place *place = &w->places[rank];
  struct by_controller_config config = {.rank = rank, .ranks = w->n, .send = on_send, .start = on_start};
  uint32_t *children = calloc(w->n, sizeof *children), n = 0;
  assert_non_null(children);
  for (uint32_t r = 1; r < w->n; r++)
    if (by_control_parent(&w->shape, r) == rank) children[n++] = r;
  config.up_parent = config.down_parent = by_control_parent(&w->shape, rank);
  config.n_up_children = config.n_down_children = n;
  config.up_children = config.down_children = children;
  config.context = place;
  place->world = w;
  place->rank = rank;
  place->depth = rank ? w->places[by_control_parent(&w->shape, rank)].depth + 1 : 0;
  assert_ok(by_controller_create(&config, &place->controller));
  free(children);
}

static void submit_next(struct world *w, struct place *place) {
  char name[32];
  uint32_t k = place->order[place->submitted++];
  struct by_operation operation = {.dtype = BANYAN_FLOAT32, .count = 1000 + k};
  snprintf(name, sizeof name, "gradient %u", k);
  assert_ok(by_controller_submit(place->controller, name, &operation, 0, &place->started[k], w->now + 1));
}

/* All that happens to a rank at one moment comes before it sends anything. */
static void run(struct world *w) {
  while (w->n_events) {
    struct event *event = pop(w);
    struct place *place = &w->places[event->to];
    bool more;
    w->now = event->at;
    do {
      if (event->from == event->to)
        submit_next(w, place);
      else
        assert_ok(by_controller_take(place->controller, event->from, event->data, event->bytes, w->now + 1));
      free(event);
      more = w->n_events && w->heap[0]->at == w->now && w->heap[0]->to == place->rank;
      if (more) event = pop(w);
    } while (more);
    assert_ok(by_controller_flush(place->controller));
  }
}

/* ---- what has to come out */

/* When each operation is known of a whole subtree, at its top; from the leaves to the root. */
static void find_earliest(struct world *w) {
  for (uint32_t r = 0; r < w->n; r++) memcpy(w->places[r].below, w->places[r].at, sizeof w->places[r].at);
  for (uint32_t r = w->n; r-- > 1;) {
    const uint64_t *child = w->places[r].below;
    uint64_t *parent = w->places[by_control_parent(&w->shape, r)].below;
    for (uint32_t k = 0; k < OPERATIONS; k++)
      if (child[k] + DELAY > parent[k]) parent[k] = child[k] + DELAY;
  }
}

static uint32_t count_different(const uint64_t times[OPERATIONS]) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    bool seen = false;
    for (uint32_t i = 0; i < k; i++) seen |= times[i] == times[k];
    n += !seen;
  }
  return n;
}

/* One message for each moment at which a child of the root has something more, and one to each child for each at which
 * something starts; and everything starts as early as it can, on all ranks. */
static void check_step(const struct world *w) {
  uint32_t up = 0;
  for (uint32_t r = 1; r <= w->shape.at_root && r < w->n; r++) up += count_different(w->places[r].below);
  assert_int_equal(w->to_root, up);
  assert_int_equal(w->from_root, w->shape.at_root * count_different(w->places[0].below));
  for (uint32_t r = 0; r < w->n; r++)
    for (uint32_t k = 0; k < OPERATIONS; k++)
      assert_int_equal(w->places[r].started[k], w->places[0].below[k] + (uint64_t)w->places[r].depth * DELAY);
}

/* Each rank begins at some moment within `spread` and submits its operations in an order of its own, one every `gap`.
 */
static void begin_step(struct world *w, uint64_t step, uint64_t spread, uint64_t gap) {
  uint64_t begins = w->now + 1;
  w->to_root = w->from_root = 0;
  for (uint32_t r = 0; r < w->n; r++) {
    struct place *place = &w->places[r];
    uint64_t at = begins + by_rng_below(&w->rng, spread);
    by_controller_step(place->controller, step);
    place->submitted = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
      uint32_t j = (uint32_t)by_rng_below(&w->rng, i + 1);
      place->order[i] = place->order[j];
      place->order[j] = i;
    }
    for (uint32_t i = 0; i < OPERATIONS; i++, at += gap) {
      place->at[place->order[i]] = at;
      push(w, at, r, r, NULL, 0);
    }
  }
}

static void run_world(uint32_t n, uint64_t seed, uint64_t spread, uint64_t gap, uint32_t messages) {
  struct world w = {.n = n, .now = 1, .places = calloc(n, sizeof *w.places)};
  const struct by_control_costs costs = by_control_costs_usual();
  assert_non_null(w.places);
  by_rng_init(&w.rng, seed);
  assert_ok(by_control_numbered_make(n, by_control_fan_out(n, &costs), &costs, &w.shape));
  for (uint32_t r = 0; r < n; r++) make_place(&w, r);
  for (uint64_t step = 0; step < STEPS; step++) {
    begin_step(&w, step, spread, gap);
    find_earliest(&w);
    run(&w);
    /* When the second step begins, everything enters the table, which is another message. */
    if (step != 1) check_step(&w);
    if (step != 1 && messages) assert_int_equal(w.to_root + w.from_root, messages);
  }
  for (uint32_t r = 0; r < n; r++) by_controller_destroy(w.places[r].controller);
  free(w.heap);
  free(w.places);
}

/* ---- tests */

/* Ranks that submit a moment apart, with the gaps of a burst, of a training step, and in the same moments. */
static void test_nothing_is_delayed(void **state) {
  (void)state;
  static const uint32_t sizes[] = {2, 3, 7, 16, 65, 200};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    run_world(sizes[i], i, 100 * DELAY, 1, 0);
    run_world(sizes[i], i, DELAY, GAP, 0);
    run_world(sizes[i], i, 1, GAP, 0);
    run_world(sizes[i], i, 10 * DELAY, 3 * DELAY, 0);
  }
}

/* Submitted at once, everything takes one message from each child of the root and one to it: 8 at 1024 ranks. */
static void test_at_once(void **state) {
  (void)state;
  run_world(1024, 1, 1, 0, 8);
  run_world(1024, 2, 1, GAP, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_is_delayed),
      cmocka_unit_test(test_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
