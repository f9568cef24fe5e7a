#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "text.h"
#include "topology.h"
#include "topology_same.h"

#define HEAD "{\"format\": \"banyan-topology 1\", "

static struct by_topology *parsed(const char *text) {
  struct by_topology *topology = NULL;
  assert_ok(by_topology_parse("t.json", text, strlen(text), &topology));
  return topology;
}

/* Printed and read again, it is the same, and prints the same. */
static void assert_round_trip(const struct by_topology *topology) {
  struct by_text first, second;
  by_text_init(&first);
  by_text_init(&second);
  by_topology_print(topology, &first);
  assert_null(strchr(by_text_get(&first), '\n'));
  struct by_topology *again = parsed(by_text_get(&first));
  assert_true(same_topology(topology, again));
  by_topology_print(again, &second);
  assert_string_equal(by_text_get(&first), by_text_get(&second));
  by_topology_destroy(again);
  by_text_fini(&first);
  by_text_fini(&second);
}

static void test_everything(void **state) {
  (void)state;
  struct by_topology *t = parsed(
      HEAD
      "\"name\": \"all of it\", \"nodes\": [\"plain\", {\"name\": \"a \\\"\\u00e9\\\\\", \"takes_part\": false, "
      "\"helps\": true, \"group\": \"rack 1\", \"capacity\": {\"out\": \"5g\"}, \"used\": {\"in\": 7}, \"x\": -1.5, "
      "\"y\": 52}, {\"name\": \"s\", \"kind\": \"switch\", \"aggregates\": true, \"memory\": \"4M\", "
      "\"capacity\": \"1t\", \"used\": \"1g\"}, {\"kind\": \"host\", \"name\": \"last\", \"takes_part\": true}], "
      "\"links\": [{\"a\": \"plain\", \"b\": \"s\", \"capacity\": \"10g\"}, "
      "{\"b\": \"last\", \"a\": \"s\", \"capacity\": {\"ab\": 1e9, \"ba\": \"200m\"}, \"used\": {\"ba\": \"100m\"}, "
      "\"delay\": \"20ms\", \"loss\": 0.001, \"ports\": {\"a\": \"swp1\", \"b\": \"eth0\"}}, "
      "{\"a\": \"plain\", \"b\": \"last\", \"capacity\": 5, \"used\": 1, \"delay\": 0.5, "
      "\"ports\": {\"b\": \"eth1\"}}]}");
  assert_string_equal(t->name, "all of it");
  assert_int_equal(t->n_nodes, 4);
  assert_int_equal(t->n_links, 3);
  const struct by_node *plain = &t->nodes[0], *helper = &t->nodes[1], *s = &t->nodes[2];
  assert_true(plain->takes_part && !plain->may_help && plain->kind == BY_NODE_HOST && isnan(plain->x));
  assert_true(isinf(plain->out.all) && isinf(plain->in.all) && plain->in.used == 0);
  assert_string_equal(helper->name, "a \"\xc3\xa9\\");
  assert_string_equal(helper->group, "rack 1");
  assert_true(!helper->takes_part && helper->may_help && helper->x == -1.5 && helper->y == 52);
  assert_true(helper->out.all == 5e9 && isinf(helper->in.all) && helper->in.used == 7 && helper->out.used == 0);
  assert_true(s->kind == BY_NODE_SWITCH && s->aggregates && s->memory == 4 << 20 && !s->takes_part);
  assert_true(s->out.all == 1e12 && s->in.all == 1e12 && s->out.used == 1e9 && s->in.used == 1e9);
  const struct by_link *first = &t->links[0], *link = &t->links[1];
  assert_true(first->a == 0 && first->b == 2 && first->capacity[BY_AB].all == 1e10 &&
              first->capacity[BY_BA].all == 1e10);
  assert_true(first->delay == 0 && first->loss == 0 && !*first->port[0]);
  assert_true(link->a == 2 && link->b == 3 && link->capacity[BY_AB].all == 1e9 && link->capacity[BY_BA].all == 2e8);
  assert_true(link->capacity[BY_AB].used == 0 && link->capacity[BY_BA].used == 1e8);
  assert_true(link->delay == 0.02 && link->loss == 0.001);
  assert_string_equal(link->port[0], "swp1");
  assert_string_equal(t->links[2].port[1], "eth1");
  assert_round_trip(t);
  by_topology_destroy(t);
}

static void test_printed(void **state) {
  (void)state;
  struct by_text text;
  struct by_topology *t = parsed(HEAD "\"links\": [{\"a\": \"h\", \"b\": \"s\", \"capacity\": 1e9, \"delay\": 0.1}],"
                                      "\"nodes\": [\"h\", {\"name\": \"s\", \"kind\": \"switch\"}]}");
  by_text_init(&text);
  by_topology_print(t, &text);
  assert_string_equal(by_text_get(&text), "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"h\"}, "
                                          "{\"name\": \"s\", \"kind\": \"switch\"}], \"links\": [{\"a\": \"h\", "
                                          "\"b\": \"s\", \"capacity\": 1000000000, \"delay\": 0.1}]}");
  by_text_fini(&text);
  by_topology_destroy(t);
}

#define AB HEAD "\"nodes\": [\"a\", \"b\"], \"links\": ["
#define LINK(x) AB "{\"a\": \"a\", \"b\": \"b\", " x "}]}"
#define NODE(x) HEAD "\"nodes\": [\"a\", {\"name\": \"b\", " x "}], \"links\": []}"

static void test_errors(void **state) {
  (void)state;
  struct {
    const char *text, *error;
    enum banyan_status status; /* 0: BANYAN_ERR_PARSE */
  } cases[] = {
      {"", "t.json:1:0: ", 0},
      {"{\n  \"format\": 1,,", "t.json:2:15: ", 0},
      {"{\"format\": \"a\",\n \"format\": \"a\"}", "duplicate object key", 0},
      {"[]", "t.json: must be an object, is an array", 0},
      {"{}", "t.json: the field \"format\" is missing", 0},
      {"{\"format\": \"banyan-topology 2\"}", "t.json: format: is \"banyan-topology 2\", this version reads", 0},
      {"{\"format\": \"banyan-plan 1\"}", "t.json: format: is \"banyan-plan 1\"", 0},
      {HEAD "\"node\": []}", "t.json: unknown field \"node\"; did you mean \"nodes\"?", 0},
      {HEAD "\"links\": []}", "t.json: the field \"nodes\" is missing", 0},
      {HEAD "\"nodes\": []}", "t.json: the field \"links\" is missing", 0},
      {HEAD "\"nodes\": {}}", "t.json: nodes: must be an array, is an object", 0},
      {HEAD "\"nodes\": [3]}", "t.json: nodes[0]: must be an object, is a whole number", 0},
      {HEAD "\"nodes\": [{}]}", "t.json: nodes[0]: the field \"name\" is missing", 0},
      {HEAD "\"nodes\": [{\"name\": 3}]}", "t.json: nodes[0].name: must be a string: write \"3\"", 0},
      {HEAD "\"nodes\": [\"a\", \"a\"]}", "t.json: nodes[1]: two nodes are named \"a\"", 0},
      {HEAD "\"nodes\": [\"a\", {\"name\": \"a\"}]}", "t.json: nodes[1].name: two nodes are named \"a\"", 0},
      {NODE("\"kind\": \"router\""), "t.json: nodes[1].kind: is \"router\", must be host or switch", 0},
      {NODE("\"speed\": 3"), "t.json: nodes[1]: unknown field \"speed\"; there are name, kind", 0},
      {NODE("\"takes_part\": 1"), "t.json: nodes[1].takes_part: must be true or false, is a whole number", 0},
      {NODE("\"aggregates\": true"), "t.json: nodes[1].aggregates: is not for a host", 0},
      {NODE("\"memory\": 3"), "t.json: nodes[1].memory: is not for a host", 0},
      {NODE("\"kind\": \"switch\", \"takes_part\": true"), "nodes[1].takes_part: is not for a switch", 0},
      {NODE("\"kind\": \"switch\", \"helps\": false"), "nodes[1].helps: is not for a switch", 0},
      {NODE("\"kind\": \"switch\", \"memory\": \"2 parsecs\""), "nodes[1].memory: \"2 parsecs\" is not", 0},
      {NODE("\"group\": 3"), "t.json: nodes[1].group: must be a string", 0},
      {NODE("\"x\": 3"), "t.json: nodes[1]: has only one of \"x\" and \"y\"", 0},
      {NODE("\"x\": 3, \"y\": \"4\""), "t.json: nodes[1].y: must be a number, is a string", 0},
      {NODE("\"capacity\": 0"), "t.json: nodes[1].capacity: is 0, must be more than 0", 0},
      {NODE("\"capacity\": {\"out\": 1e-300}"), "t.json: nodes[1].capacity.out: is 1e-300 bit/s, must be 1 to 1e+18",
       0},
      {NODE("\"capacity\": {\"out\": -1}"), "t.json: nodes[1].capacity.out: is -1, must be 0 or more", 0},
      {NODE("\"capacity\": {\"ab\": 1}"), "t.json: nodes[1].capacity: unknown field \"ab\"; there are out, in", 0},
      {NODE("\"capacity\": 1, \"used\": 2"), "t.json: nodes[1].used: is 2, but the capacity is 1", 0},
      {AB "7]}", "t.json: links[0]: must be an object, is a whole number", 0},
      {AB "{}]}", "t.json: links[0]: the field \"a\" is missing", 0},
      {AB "{\"a\": \"a\"}]}", "t.json: links[0]: the field \"b\" is missing", 0},
      {AB "{\"a\": \"a\", \"b\": \"xyzzy\"}]}", "t.json: links[0].b: there is no node \"xyzzy\"", 0},
      {HEAD "\"nodes\": [\"spine\"], \"links\": [{\"a\": \"spien\", \"b\": \"spine\"}]}", "did you mean \"spine\"?", 0},
      {AB "{\"a\": \"b\", \"b\": \"b\"}]}", "t.json: links[0]: leads from \"b\" to itself", 0},
      {LINK("\"delay\": 1"), "t.json: links[0]: the field \"capacity\" is missing", 0},
      {LINK("\"capacity\": 0"), "t.json: links[0].capacity: is 0, must be more than 0", 0},
      {LINK("\"capacity\": -3"), "t.json: links[0].capacity: is -3, must be 0 or more", 0},
      {LINK("\"capacity\": 1e-300"), "t.json: links[0].capacity: is 1e-300 bit/s, must be 1 to 1e+18 bit/s", 0},
      {LINK("\"capacity\": {\"ab\": 1, \"ba\": 1e300}"), "t.json: links[0].capacity.ba: is 1e+300 bit/s", 0},
      {LINK("\"capacity\": \"1e7t\""), "t.json: links[0].capacity: \"1e7t\" is 1e+19 bit/s, must be 1 to", 0},
      {LINK("\"capacity\": NaN"), "t.json:1:", 0},
      {LINK("\"capacity\": 1e999"), "t.json:1:", 0},
      {LINK("\"capacity\": \"inf\""), "t.json: links[0].capacity: \"inf\" is not a rate", 0},
      {LINK("\"capacity\": {\"ab\": 1}"), "t.json: links[0].capacity: the field \"ba\" is missing", 0},
      {LINK("\"capacity\": {\"ab\": 1, \"ba\": 0}"), "t.json: links[0].capacity.ba: is 0", 0},
      {LINK("\"capacity\": 1, \"used\": {\"ba\": 2}"), "t.json: links[0].used: is 2, but the capacity is 1", 0},
      {LINK("\"capacity\": 1, \"delay\": -1"), "t.json: links[0].delay: is -1", 0},
      {LINK("\"capacity\": 1, \"delay\": \"3 moons\""), "t.json: links[0].delay: \"3 moons\" is not a time", 0},
      {LINK("\"capacity\": 1, \"loss\": 2"), "t.json: links[0].loss: is 2, must be 0 to 1", 0},
      {LINK("\"capacity\": 1, \"ports\": [1]"), "t.json: links[0].ports: must be an object", 0},
      {LINK("\"capacity\": 1, \"ports\": {\"c\": \"x\"}"), "t.json: links[0].ports: unknown field \"c\"", 0},
      {HEAD "\"nodes\": [], \"links\": []}", "t.json: there are no nodes", BANYAN_ERR_TOPOLOGY},
      {NODE("\"takes_part\": true"), "t.json: \"a\" and \"b\" take part but cannot reach", BANYAN_ERR_TOPOLOGY},
      {HEAD "\"nodes\": [\"a\\nb\"], \"links\": []}", "t.json: node number 0: its name must be", BANYAN_ERR_TOPOLOGY},
      {LINK("\"capacity\": 1, \"used\": 1"), "cannot reach each other", BANYAN_ERR_TOPOLOGY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    enum banyan_status wanted = cases[i].status ? cases[i].status : BANYAN_ERR_PARSE;
    if (by_topology_parse("t.json", cases[i].text, strlen(cases[i].text), &topology) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

/* Every beginning of a file is refused, and says where. */
static void test_truncated(void **state) {
  (void)state;
  static const char text[] = LINK("\"capacity\": {\"ab\": \"1g\", \"ba\": 5}, \"delay\": \"1ms\"");
  struct by_topology *topology;
  for (size_t length = 0; length + 1 < sizeof text - 1; length++) {
    assert_status(by_topology_parse("t.json", text, length, &topology), BANYAN_ERR_PARSE);
    assert_ptr_equal(strstr(banyan_error_text(), "t.json:1:"), banyan_error_text());
  }
  by_topology_destroy(parsed(text));
}

static void test_too_large(void **state) {
  (void)state;
  enum { BYTES = 4 << 20 };
  struct by_topology *topology;
  char *text = test_malloc(BYTES);
  memset(text, '[', BYTES);
  assert_status(by_topology_parse("t.json", text, BYTES, &topology), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "too large"));
  assert_status(by_topology_parse("t.json", text, 100000, &topology), BANYAN_ERR_PARSE); /* deep, not large */
  size_t length = (size_t)snprintf(text, BYTES, HEAD "\"nodes\": [\"a\"");
  for (int i = 0; i < BY_TOPOLOGY_MOST_NODES; i++)
    length += (size_t)snprintf(text + length, BYTES - length, ",\"%d\"", i);
  length += (size_t)snprintf(text + length, BYTES - length, "]}");
  assert_status(by_topology_parse("t.json", text, length, &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.json: nodes: has 65537 elements, must have 0 to 65536");
  test_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_everything), cmocka_unit_test(test_printed),   cmocka_unit_test(test_errors),
      cmocka_unit_test(test_truncated),  cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
