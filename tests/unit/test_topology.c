/* by_topology_validate: each way to be wrong, in a topology that is right without it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "topology_make.h"

/* h0 and h1 take part on either side of switch s; spare is a host at s that does neither. */
enum { H0, H1, S, SPARE };

static struct by_topology *made(void) {
  static const char *const names[] = {"h0", "h1", "s", "spare"};
  struct by_topology_builder builder;
  struct by_topology *topology = NULL;
  assert_ok(by_topology_builder_init(&builder, "t"));
  for (uint32_t i = 0; i < 4; i++)
    assert_ok(by_topology_builder_add(&builder, i == S ? BY_NODE_SWITCH : BY_NODE_HOST, names[i], NULL));
  by_topology_builder_node(&builder, SPARE)->takes_part = false;
  assert_ok(by_topology_builder_add_link(&builder, H0, S, 1e9, 1e-3, NULL));
  assert_ok(by_topology_builder_add_link(&builder, H1, S, 1e9, 0, NULL));
  assert_ok(by_topology_builder_add_link(&builder, SPARE, S, 1e9, 0, NULL));
  assert_ok(by_topology_builder_finish(&builder, NULL, &topology));
  return topology;
}

static void refuses(const char *file, int line, struct by_topology *topology, const char *error) {
  if (by_topology_validate(topology) != BANYAN_ERR_TOPOLOGY || !strstr(banyan_error_text(), error)) {
    print_error("%s:%d: wanted: %s\n  got: %s\n", file, line, error, banyan_error_text());
    _fail(file, line);
  }
  by_topology_destroy(topology);
}

#define CASE(change, error)                                                                                            \
  do {                                                                                                                 \
    struct by_topology *t = made();                                                                                    \
    change;                                                                                                            \
    refuses(__FILE__, __LINE__, t, error);                                                                             \
  } while (0)

static void test_nodes(void **state) {
  (void)state;
  char long_name[BY_TOPOLOGY_MOST_NAME + 2];
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  CASE(t->name = "a\nb", "the topology's name must be 0 to 255 bytes of UTF-8");
  CASE(t->nodes[H1].name = "", "node number 1: its name must be 1 to 255");
  CASE(t->nodes[H1].name = long_name, "node number 1: its name must be");
  CASE(t->nodes[H1].name = "\xff", "node number 1: its name must be");
  CASE(t->nodes[H1].name = "h0", "two nodes are named \"h0\"");
  CASE(t->nodes[H1].group = "\x01", "node \"h1\": its group must be 0 to");
  CASE(t->nodes[H1].kind = (enum by_node_kind)7, "node \"h1\": is neither");
  CASE(t->nodes[S].takes_part = true, "node \"s\": is a switch");
  CASE(t->nodes[S].may_help = true, "node \"s\": is a switch");
  CASE(t->nodes[H0].aggregates = true, "node \"h0\": is a host");
  CASE(t->nodes[H0].memory = 5, "node \"h0\": is a host");
  CASE(t->nodes[H0].out.all = 0, "node \"h0\": what it can send is 0 bit/s, must be more than 0");
  CASE(t->nodes[H0].out.all = 0.99, "node \"h0\": what it can send is 0.99 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->nodes[H0].in.all = 1.1e18, "what it can receive is 1.1e+18 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->nodes[H0].in.all = -1, "node \"h0\": what it can receive is -1 bit/s");
  CASE(t->nodes[H0].in.all = NAN, "node \"h0\": what it can receive is nan");
  CASE(t->nodes[H0].in.used = INFINITY, "of which others use inf");
  CASE(t->nodes[H0].in.used = 1e300, "of which others use 1e+300");
  CASE(t->nodes[H0].x = 1, "node \"h0\": its place is (1, nan)");
  CASE(t->nodes[H0].x = t->nodes[H0].y = INFINITY, "node \"h0\": its place is");
}

static void test_links(void **state) {
  (void)state;
  CASE(t->links[1].a = 4, "link 1: leads to a node that is not there: 4 or 2 of 4");
  CASE(t->links[1].b = t->links[1].a, "link 1: leads from \"h1\" to itself");
  CASE(t->links[1].capacity[BY_AB].all = 0, "link 1 (\"h1\" - \"s\"): its capacity from the first to the second is 0");
  CASE(t->links[1].capacity[BY_BA].all = -5, "its capacity from the second to the first is -5 bit/s, must be more");
  CASE(t->links[1].capacity[BY_BA].all = 1e-300, "is 1e-300 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->links[1].capacity[BY_AB].all = 1e300, "is 1e+300 bit/s, must be 1 to 1e+18 bit/s");
  CASE(t->links[1].capacity[BY_BA].all = NAN, "its capacity from the second to the first is nan");
  CASE(t->links[1].capacity[BY_BA].all = INFINITY, "its capacity from the second to the first has no limit");
  CASE(t->links[1].capacity[BY_AB].used = 2e9, "is 1e+09 bit/s, of which others use 2e+09: must be 0 to all of it");
  CASE(t->links[1].capacity[BY_AB].used = -1, "of which others use -1");
  CASE(t->links[1].capacity[BY_AB].used = NAN, "of which others use nan");
  CASE(t->links[0].delay = -1, "link 0 (\"h0\" - \"s\"): its delay is -1 s");
  CASE(t->links[0].delay = NAN, "its delay is nan");
  CASE(t->links[0].delay = INFINITY, "its delay is inf");
  CASE(t->links[0].delay = 3601, "its delay is 3601 s, must be 0 to 3600 s");
  CASE(t->links[0].loss = 1.5, "its loss is 1.5");
  CASE(t->links[0].loss = NAN, "its loss is nan");
  CASE(t->links[0].port[0] = "\r", "the port at its first end");
  CASE(t->links[0].port[1] = NULL, "the port at its second end");
}

static void test_reach(void **state) {
  (void)state;
  CASE(t->nodes[H0].takes_part = t->nodes[H1].takes_part = false, "no host takes part");
  CASE(t->links[1].capacity[BY_AB].used = 1e9, "\"h0\" and \"h1\" take part but cannot reach each other");
  CASE(t->links[1].capacity[BY_BA].used = 1e9, "cannot reach each other");
  CASE(t->links[1].capacity[BY_BA].used = 1e9 - 0.5, "cannot reach each other"); /* less than the least rate */
  CASE((t->nodes[S].in = (struct by_capacity){1e9, 1e9}), "cannot reach each other");
  CASE(t->n_links = 1, "cannot reach each other");
}

static void test_what_is_right(void **state) {
  (void)state;
  struct by_topology *topology = made();
  assert_ok(by_topology_validate(topology));
  topology->links[1].b = SPARE; /* over a host that does nothing else */
  assert_ok(by_topology_validate(topology));
  topology->links[1].capacity[BY_AB].used = 0.5e9;
  topology->nodes[S] = (struct by_node){.name = "\xc3\xa9",
                                        .kind = BY_NODE_SWITCH,
                                        .aggregates = true,
                                        .memory = 1 << 20,
                                        .group = "rack",
                                        .out = {1e9, 0},
                                        .in = {INFINITY, 1e9},
                                        .x = -5,
                                        .y = 52};
  assert_ok(by_topology_validate(topology));
  topology->nodes[H1].takes_part = false; /* one may be alone */
  topology->n_links = 0;
  assert_ok(by_topology_validate(topology));
  by_topology_destroy(topology);
  by_topology_destroy(NULL);
}

/* --- topology_make --- */

static void test_what_is_added(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_link *link;
  uint32_t a, b, s;
  char name[] = "a";
  assert_ok(by_topology_builder_init(&builder, "pair"));
  assert_int_equal(by_topology_builder_find(&builder, "a"), UINT32_MAX);
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &a));
  name[0] = 'b';
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &b));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, "s", &s));
  assert_ok(by_topology_builder_keep(&builder, "rack 1", &by_topology_builder_node(&builder, a)->group));
  by_topology_builder_node(&builder, b)->out.all = 5e8;
  assert_ok(by_topology_builder_add_link(&builder, a, s, 1e9, 0.001, NULL));
  assert_ok(by_topology_builder_add_link(&builder, s, b, 1e9, 0, &link));
  link->capacity[BY_BA].used = 1e8;
  assert_ok(by_topology_builder_keep(&builder, "eth0", &link->port[1]));
  assert_int_equal(by_topology_builder_find(&builder, "s"), s);
  assert_ok(by_topology_builder_finish(&builder, NULL, &topology));
  by_topology_builder_fini(&builder);
  assert_string_equal(topology->name, "pair");
  assert_int_equal(topology->n_nodes, 3);
  assert_int_equal(topology->n_links, 2);
  assert_string_equal(topology->nodes[0].name, "a");
  assert_string_equal(topology->nodes[0].group, "rack 1");
  assert_true(topology->nodes[0].takes_part && !topology->nodes[0].may_help && isnan(topology->nodes[0].x));
  assert_true(isinf(topology->nodes[0].out.all) && topology->nodes[1].out.all == 5e8);
  assert_int_equal(topology->nodes[2].kind, BY_NODE_SWITCH);
  assert_true(!topology->nodes[2].takes_part && !topology->nodes[2].aggregates);
  assert_true(topology->links[0].delay == 0.001 && topology->links[0].capacity[BY_BA].all == 1e9);
  assert_true(by_residual(topology->links[1].capacity[BY_BA]) == 9e8);
  assert_true(by_residual(topology->links[1].capacity[BY_AB]) == 1e9);
  assert_string_equal(topology->links[1].port[0], "");
  assert_string_equal(topology->links[1].port[1], "eth0");
  assert_int_equal(by_topology_find(topology, "b"), 1);
  assert_int_equal(by_topology_find(topology, "c"), UINT32_MAX);
  by_topology_destroy(topology);
}

static void test_growth(void **state) {
  (void)state;
  enum { NODES = 3000 };
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, NULL));
  for (uint32_t i = 0; i < NODES; i++) {
    uint32_t at;
    snprintf(name, sizeof name, "n%u", i);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &at));
    assert_int_equal(at, i);
    if (i) assert_ok(by_topology_builder_add_link(&builder, i - 1, i, i, 0, NULL));
  }
  for (uint32_t i = 0; i < NODES; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(by_topology_builder_find(&builder, name), i);
  }
  assert_int_equal(by_topology_builder_find(&builder, "n3000"), UINT32_MAX);
  assert_ok(by_topology_builder_finish(&builder, NULL, &topology));
  assert_string_equal(topology->name, "");
  assert_string_equal(topology->nodes[NODES - 1].name, "n2999");
  assert_true(topology->links[NODES - 2].capacity[BY_AB].all == NODES - 1);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "a", NULL));
  assert_status(by_topology_builder_add(&builder, BY_NODE_SWITCH, "a", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "two nodes are named \"a\"");
  by_topology_builder_fini(&builder);
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_status(by_topology_builder_finish(&builder, NULL, &topology), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "there are no nodes");
  by_topology_builder_fini(&builder);
}

static void test_limits(void **state) {
  (void)state;
  struct by_topology_builder builder;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t i = 0; i < BY_TOPOLOGY_MOST_NODES; i++) {
    snprintf(name, sizeof name, "%u", i);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, NULL));
  }
  assert_status(by_topology_builder_add(&builder, BY_NODE_HOST, "one more", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 65536 nodes");
  for (uint32_t i = 0; i < BY_TOPOLOGY_MOST_LINKS; i++)
    assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL));
  assert_status(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 4194304 links");
  by_topology_builder_fini(&builder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes),         cmocka_unit_test(test_links),         cmocka_unit_test(test_reach),
      cmocka_unit_test(test_what_is_right), cmocka_unit_test(test_what_is_added), cmocka_unit_test(test_growth),
      cmocka_unit_test(test_refusals),      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
