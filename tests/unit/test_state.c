/* States without communication: what names and types may be, copies in turn, values; and from whom receivers get their
 * chunks, on random hosts. */
#include <string.h>

#include "check.h"
#include "rng.h"
#include "state_contents.h"
#include "state_copies.h"
#include "state_transfer.h"

static void test_buffers(void **state) {
  (void)state;
  struct banyan_state *s;
  float numbers[4];
  char longest[300];
  memset(longest, 'x', sizeof longest);
  longest[256] = 0;
  const struct banyan_state_buffer twice[] = {{"w", numbers, 1, BANYAN_FLOAT32}, {"w", numbers, 2, BANYAN_FLOAT32}};
  const struct banyan_state_buffer wrong[] = {{NULL, numbers, 1, BANYAN_FLOAT32},
                                              {"", numbers, 1, BANYAN_FLOAT32},
                                              {"a\nb", numbers, 1, BANYAN_FLOAT32},
                                              {longest, numbers, 1, BANYAN_FLOAT32},
                                              {"w", NULL, 1, BANYAN_FLOAT32},
                                              {"w", numbers, 1, BANYAN_DTYPES},
                                              {"w", numbers, SIZE_MAX / 2, BANYAN_FLOAT32}};
  assert_status(banyan_state_create(twice, 2, &s), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "two buffers of the state have the name \"w\"");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_status(banyan_state_create(&wrong[i], 1, &s), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_state_create(NULL, 1, &s), BANYAN_ERR_ARGUMENT);
  const struct banyan_state_buffer empty = {"w", NULL, 0, BANYAN_FLOAT32};
  assert_ok(banyan_state_create(&empty, 1, &s));
  assert_ok(banyan_state_commit(s, 1));
  assert_ok(banyan_state_restore(s));
  assert_status(banyan_state_set_buffers(s, twice, 2), BANYAN_ERR_ARGUMENT);
  banyan_state_destroy(s);
  banyan_state_destroy(NULL);
}

static void check_value(struct banyan_state *s, const char *name, const char *wanted) {
  const void *bytes;
  size_t length;
  if (!wanted) {
    assert_status(banyan_state_get_value(s, name, &bytes, &length), BANYAN_ERR_ARGUMENT);
    return;
  }
  assert_ok(banyan_state_get_value(s, name, &bytes, &length));
  assert_int_equal(length, strlen(wanted));
  assert_memory_equal(bytes, wanted, length);
}

static void test_copies(void **state) {
  (void)state;
  struct banyan_state *s;
  float numbers[] = {1, 2, 3};
  int8_t odd = 4;
  const struct banyan_state_buffer buffers[] = {{"odd", &odd, 1, BANYAN_INT8}, {"w", numbers, 3, BANYAN_FLOAT32}};
  assert_ok(banyan_state_create(buffers, 2, &s));
  assert_int_equal(banyan_state_version(s), -1);
  assert_status(banyan_state_restore(s), BANYAN_ERR_ARGUMENT);
  assert_ok(banyan_state_set_value(s, "epoch", "12", 2));
  assert_ok(banyan_state_commit(s, 5));
  odd = 9;
  numbers[2] = 30;
  assert_ok(banyan_state_set_value(s, "epoch", "longer", 6));
  assert_ok(banyan_state_set_value(s, "new", "x", 1));
  assert_status(banyan_state_commit(s, 5), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "version 5 cannot be committed: it must be higher than 5");
  assert_ok(banyan_state_restore(s));
  assert_true(odd == 4 && numbers[2] == 3);
  check_value(s, "epoch", "12");
  check_value(s, "new", NULL);
  for (int v = 6; v < 10; v++) { /* the copies take turns */
    numbers[0] = (float)v;
    assert_ok(banyan_state_commit(s, v));
    numbers[0] = 0;
    assert_ok(banyan_state_restore(s));
    assert_true(numbers[0] == (float)v && banyan_state_version(s) == v);
  }
  assert_ok(banyan_state_set_buffers(s, buffers + 1, 1)); /* the copy keeps its own */
  assert_status(banyan_state_restore(s), BANYAN_ERR_MISMATCH);
  assert_non_null(
      strstr(banyan_error_text(), "buffer 0 of the state is \"odd\" on the copy and \"w\" on this process"));
  assert_ok(banyan_state_commit(s, 20));
  assert_ok(banyan_state_restore(s));
  banyan_state_destroy(s);
}

static void test_values(void **state) {
  (void)state;
  struct banyan_state *s;
  assert_ok(banyan_state_create(NULL, 0, &s));
  char *much = calloc(1, BY_STATE_VALUES_MOST);
  assert_non_null(much);
  assert_status(banyan_state_set_value(s, "much", much, BY_STATE_VALUES_MOST), BANYAN_ERR_ARGUMENT);
  assert_ok(banyan_state_set_value(s, "much", much, BY_STATE_VALUES_MOST - 100));
  assert_ok(banyan_state_set_value(s, "much", much, BY_STATE_VALUES_MOST - 99)); /* in place of the one before */
  assert_status(banyan_state_set_value(s, "more", much, 100), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_state_set_value(s, "", much, 1), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_state_set_value(s, NULL, much, 1), BANYAN_ERR_ARGUMENT);
  assert_ok(banyan_state_set_value(s, "none", NULL, 0));
  check_value(s, "none", "");
  free(much);
  banyan_state_destroy(s);
}

/* ---- sources */

enum { MOST = 40, CHUNKS = 50 };

struct world {
  uint32_t n, n_hosts, host_of[MOST];
  bool holds[MOST], receives[MOST], has_holder[MOST];
  struct by_state_sources sources[MOST];
  struct by_arena arena;
};

static void make_world(struct world *w, uint64_t seed) {
  struct by_rng rng;
  by_rng_init(&rng, seed);
  *w = (struct world){.n = 2 + (uint32_t)by_rng_below(&rng, MOST - 1)};
  w->n_hosts = 1 + (uint32_t)by_rng_below(&rng, w->n);
  uint32_t few = 1 + (uint32_t)by_rng_below(&rng, 4);
  by_arena_init(&w->arena);
  for (uint32_t r = 0; r < w->n; r++) {
    w->host_of[r] = (uint32_t)by_rng_below(&rng, w->n_hosts);
    w->holds[r] = r == 0 || by_rng_below(&rng, few + 1) == 0;
    w->receives[r] = !w->holds[r];
    if (w->holds[r]) w->has_holder[w->host_of[r]] = true;
  }
  for (uint32_t r = 0; r < w->n; r++)
    if (w->receives[r])
      assert_ok(
          by_state_sources_init(&w->sources[r], &w->arena, r, w->n, w->holds, w->receives, w->host_of, w->n_hosts));
}

/* A receiver asks holders that hold, on its own host if there are any, and otherwise on as many hosts as possible. */
static void check_holders(const struct world *w, uint32_t r) {
  const struct by_state_sources *s = &w->sources[r];
  bool seen[MOST] = {false};
  uint32_t hosts = 0, possible = 0;
  assert_true(s->n_holders >= 1 && s->n_holders <= BY_STATE_MOST_HOLDERS);
  assert_int_equal(s->local, w->has_holder[w->host_of[r]]);
  for (uint32_t i = 0; i < s->n_holders; i++) {
    uint32_t holder = s->holders[i], host = w->host_of[holder];
    assert_true(w->holds[holder] && (!s->local || host == w->host_of[r]));
    for (uint32_t k = 0; k < i; k++) assert_int_not_equal(s->holders[k], holder);
    hosts += !seen[host];
    seen[host] = true;
  }
  for (uint32_t h = 0; h < w->n_hosts; h++) possible += w->has_holder[h] && (!s->local || h == w->host_of[r]);
  assert_int_equal(hosts, possible < BY_STATE_MOST_HOLDERS ? possible : BY_STATE_MOST_HOLDERS);
}

/* Each chunk leaves the holders' hosts once, enters every other host once, and every receiver gets it. */
static void check_chunk(const struct world *w, uint32_t chunk) {
  uint32_t from_holders = 0, into[MOST] = {0};
  bool needs = false;
  for (uint32_t r = 0; r < w->n; r++) {
    if (!w->receives[r]) continue;
    uint32_t at = r, steps = 0, source;
    while ((source = by_state_source_of(&w->sources[at], chunk)) != BY_STATE_FROM_HOLDERS) {
      assert_true(source < w->n && w->receives[source] && ++steps <= 3);
      at = source;
    }
    source = by_state_source_of(&w->sources[r], chunk);
    bool remote = !w->has_holder[w->host_of[r]];
    needs = needs || remote;
    if (remote && source == BY_STATE_FROM_HOLDERS) from_holders++;
    if (source == BY_STATE_FROM_HOLDERS || w->host_of[source] != w->host_of[r]) into[w->host_of[r]] += remote;
  }
  assert_int_equal(from_holders, needs);
  for (uint32_t r = 0; r < w->n; r++)
    if (w->receives[r] && !w->has_holder[w->host_of[r]]) assert_int_equal(into[w->host_of[r]], 1);
}

static void test_sources(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(300); seed++) {
    struct world w;
    make_world(&w, seed);
    for (uint32_t r = 0; r < w.n; r++)
      if (w.receives[r]) check_holders(&w, r);
    for (uint32_t c = 0; c < CHUNKS; c++) check_chunk(&w, c);
    by_arena_fini(&w.arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_buffers), cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_values), cmocka_unit_test(test_sources)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
