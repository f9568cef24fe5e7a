/* What a lab says of itself: before, after, and as JSON. */
#include <jansson.h>
#include <string.h>

#include "check.h"
#include "lab.h"
#include "topology_make.h"

/* a and b with two links; a may send 1.5 Gbit/s in all. */
static struct by_topology *topology;
static struct by_lab_layout layout;
static struct by_lab_options options;
static struct by_text text;

static int begin(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_link *link;
  options = by_lab_options_default();
  assert_ok(by_topology_builder_init(&builder, "pair"));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "a", NULL));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "b", NULL));
  by_topology_builder_node(&builder, 0)->out.all = 1.5e9;
  assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1e9, 0, NULL));
  assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1e9, 0.02, &link));
  link->loss = 0.01;
  assert_ok(by_topology_builder_finish(&builder, NULL, &topology));
  assert_ok(by_lab_layout_make(topology, &options, &layout));
  by_text_init(&text);
  return 0;
}

static int end(void **state) {
  (void)state;
  by_text_fini(&text);
  by_lab_layout_fini(&layout);
  by_topology_destroy(topology);
  return 0;
}

static void shows(const char *part) {
  if (!strstr(by_text_get(&text), part)) fail_msg("no \"%s\" in:\n%s", part, by_text_get(&text));
}

static void the_layout_is_shown(void **state) {
  (void)state;
  by_lab_print_layout(&layout, &options, &text);
  shows("10.77.0.2");
  shows("(its links)");
  shows("1.5 Gbit/s");
  shows("delay 20 ms, loss 1 %");
  shows("3 network namespaces, 3 pairs of interfaces");
}

static const struct by_lab_traffic traffic[6] = {
    [0] = {.bytes = 1 << 20, .packets = 700, .drops = 3}, [5] = {.bytes = 125000000, .packets = 90000}};

static void traffic_is_shown_by_direction(void **state) {
  (void)state;
  by_lab_print_traffic(&layout, traffic, 1, &text);
  shows("1 MiB        700        3");
  shows("(its links) -> a");
  shows("  50%"); /* 125 MB in a second of the 2 Gbit/s that a's links bring */
  shows("2 of 6 directions of links carried something in 1 s");
}

static void of_many_links_the_busiest_are_shown(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *wide;
  struct by_lab_layout wide_layout;
  enum { LINKS = 100 };
  static struct by_lab_traffic each[2 * LINKS];
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "a", NULL));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "b", NULL));
  for (int i = 0; i < LINKS; i++) {
    assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1e9, 0, NULL));
    each[2 * i] = (struct by_lab_traffic){.bytes = 1000000 * (uint64_t)(i + 1), .packets = 1};
  }
  assert_ok(by_topology_builder_finish(&builder, NULL, &wide));
  assert_ok(by_lab_layout_make(wide, &options, &wide_layout));
  by_lab_print_traffic(&wide_layout, each, 1, &text);
  shows("the busiest 64 of 100 directions");
  shows(" 95.4 MiB");                                   /* the hundredth link */
  assert_null(strstr(by_text_get(&text), " 34.3 MiB")); /* the 36th */
  by_lab_layout_fini(&wide_layout);
  by_topology_destroy(wide);
}

static void json_has_every_direction(void **state) {
  (void)state;
  assert_ok(by_lab_print_json(&layout, traffic, 1.5, &text));
  assert_null(strchr(by_text_get(&text), '\n'));
  json_t *all = json_loads(by_text_get(&text), 0, NULL), *links = json_object_get(all, "links");
  assert_non_null(all);
  assert_string_equal(json_string_value(json_object_get(all, "lab")), "pair");
  assert_int_equal(json_array_size(links), 6);
  const json_t *first = json_array_get(links, 0), *last = json_array_get(links, 5);
  assert_string_equal(json_string_value(json_object_get(first, "from")), "a");
  assert_string_equal(json_string_value(json_object_get(first, "to")), "b");
  assert_int_equal(json_integer_value(json_object_get(first, "bytes")), 1 << 20);
  assert_int_equal(json_integer_value(json_object_get(first, "drops")), 3);
  assert_int_equal(json_integer_value(json_object_get(first, "link")), 0);
  assert_true(json_is_null(json_object_get(last, "link")));
  assert_string_equal(json_string_value(json_object_get(last, "from")), "");
  assert_string_equal(json_string_value(json_object_get(last, "to")), "a");
  assert_true(json_real_value(json_object_get(last, "rate")) == 2e9);
  json_decref(all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(the_layout_is_shown), TEST(traffic_is_shown_by_direction),
                                     TEST(of_many_links_the_busiest_are_shown), TEST(json_has_every_direction)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
