/* The content of drawings. tests/e2e/test_topo.sh checks whole drawings, and parses SVG as XML. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "text.h"
#include "topology_draw.h"
#include "topology_formats.h"

typedef enum banyan_status draw(const struct by_topology *topology, const struct by_draw_options *options,
                                struct by_text *text);

static struct by_text text;

static const char *drawn(draw *how, const char *network, const struct by_draw_options *options) {
  struct by_topology *topology;
  assert_ok(by_topology_named(network, &topology));
  by_text_fini(&text);
  assert_ok(how(topology, options, &text));
  by_topology_destroy(topology);
  return by_text_get(&text);
}

static void shows(const char *drawing, const char *wanted) {
  if (!strstr(drawing, wanted)) fail_msg("no \"%s\" in:\n%s", wanted, drawing);
}

static uint32_t count(const char *drawing, const char *wanted) {
  uint32_t n = 0;
  for (const char *at = drawing; (at = strstr(at, wanted)); at++) n++;
  return n;
}

static void test_text(void **state) {
  (void)state;
  const struct by_draw_options options = {.title = "T"};
  const char *drawing = drawn(by_topology_draw, "sites:2x1,lan=1g,wan=200m,rtt=20ms,helpers=1", &options);
  assert_string_equal(drawing, "topology T: 2 hosts take part, 1 may help, 2 switches, 4 links\n"
                               "\n"
                               "  node     role            group  links  sends        receives\n"
                               "  s0h0     rank 0          site0      1  1 Gbit/s     1 Gbit/s\n"
                               "  s1h0     rank 1          site1      1  1 Gbit/s     1 Gbit/s\n"
                               "  helper0  helper          site0      1  1 Gbit/s     1 Gbit/s\n"
                               "  router0  switch          site0      3  2.2 Gbit/s   2.2 Gbit/s\n"
                               "  router1  switch          site1      2  1.2 Gbit/s   1.2 Gbit/s\n"
                               "\n"
                               "  link                 capacity     others use   delay\n"
                               "  s0h0    <-> router0  1 Gbit/s     -            -\n"
                               "  s1h0    <-> router1  1 Gbit/s     -            -\n"
                               "  helper0 <-> router0  1 Gbit/s     -            -\n"
                               "  router0 <-> router1  200 Mbit/s   -            10 ms\n"
                               "\n"
                               "  router0 (switch)\n"
                               "  ├─ s0h0  1 Gbit/s\n"
                               "  ├─ helper0  1 Gbit/s\n"
                               "  └─ router1 (switch)  200 Mbit/s, 10 ms\n"
                               "     └─ s1h0  1 Gbit/s\n");
}

static void test_long_ones(void **state) {
  (void)state;
  const struct by_draw_options usual = {.title = NULL}, all = {.all = true};
  const char *drawing = drawn(by_topology_draw, "star:200", &usual);
  shows(drawing, "topology star:200: 200 hosts take part, 1 switch, 200 links\n");
  shows(drawing, "  ... and 169 more nodes\n");
  shows(drawing, "  ... and 168 more links\n");
  shows(drawing, "  ... and more below, which is left out\n");
  drawing = drawn(by_topology_draw, "star:200", &all);
  assert_null(strstr(drawing, "..."));
  shows(drawing, "└─ h199  10 Gbit/s\n");
  drawing = drawn(by_topology_draw, "line:200", &all); /* The depth of a drawing is limited. */
  shows(drawing, "  ... and more below, which is left out\n");
  drawing = drawn(by_topology_draw, "ring:4", &usual);
  shows(drawing, "  and 1 more link between these\n");
}

static const char used_one_way[] =
    "{\"format\": \"banyan-topology 1\", \"name\": \"<&\\\">\", \"nodes\": [\"a<b\", \"c\"], \"links\": [{\"a\": "
    "\"a<b\", \"b\": \"c\", \"capacity\": 10, \"used\": {\"ba\": 5}}]}";

static void test_use(void **state) {
  (void)state;
  static const double load[1][2] = {{10, 0}};
  const struct by_draw_options usual = {.title = NULL}, loaded = {.load = load, .load_name = "plan x"};
  const char *drawing = drawn(by_topology_draw, used_one_way, &usual);
  shows(drawing, "  a<b    ->  c       10 bit/s     -            -\n");
  shows(drawing, "  c      ->  a<b     10 bit/s     5 bit/s      -\n");
  shows(drawing, "50 % full\n");
  drawing = drawn(by_topology_draw, used_one_way, &loaded);
  shows(drawing, "  a<b    ->  c       10 bit/s     -            10 bit/s      100 %  -\n");
  shows(drawing, "100 % full\n");
}

static const char extremes[] =
    "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"a\", \"x\": 1e300, \"y\": -1e300}, {\"name\": \"b\", "
    "\"x\": -1e308, \"y\": 1e308}, \"c\"], \"links\": [{\"a\": \"a\", \"b\": \"b\", \"capacity\": 1e18}, {\"a\": "
    "\"b\", "
    "\"b\": \"c\", \"capacity\": 1}]}";

static void test_svg(void **state) {
  (void)state;
  static const double load[1][2] = {{10, 5.5}};
  const struct by_draw_options usual = {.title = NULL}, loaded = {.load = load, .load_name = "plan <x>"};
  const char *drawing = drawn(by_topology_svg, used_one_way, &usual);
  shows(drawing, "&#60;&#38;&#34;&#62;");
  assert_null(strstr(drawing, "a<b"));
  shows(drawing, "c to a&#60;b: 10 bit/s, others use 5 bit/s, 50 % full");
  assert_int_equal(count(drawing, "<circle "), 2);
  assert_int_equal(count(drawing, "Q"), 2); /* The two halves of the link are separate. */
  drawing = drawn(by_topology_svg, used_one_way, &loaded);
  shows(drawing, "load by plan &#60;x&#62;");
  shows(drawing, "the plan 5.5 bit/s, 105 % full");
  shows(drawing, "class=\"o\"");  /* The load exceeds the capacity. */
  shows(drawing, "class=\"u9\""); /* The link is full. */
  drawing = drawn(by_topology_svg, "clos:4x4,helpers=1,adds=spine", &usual);
  assert_int_equal(count(drawing, "<rect class=\"a\""), 4);
  assert_int_equal(count(drawing, "<rect class=\"s\""), 4);
  assert_int_equal(count(drawing, "<circle class=\"p\""), 1);
  assert_int_equal(count(drawing, "<circle class=\"h\""), 16);
  drawing = drawn(by_topology_svg, extremes, &usual);
  assert_null(strstr(drawing, "nan"));
  drawing =
      drawn(by_topology_svg, "{\"format\": \"banyan-topology 1\", \"nodes\": [\"alone\"], \"links\": []}", &usual);
  shows(drawing, ">alone</text>");
  assert_null(strstr(drawing, "nan"));
  assert_null(strstr(drawing, "inf"));
}

static struct by_spot *laid_out(const char *network, enum by_layout_kind wanted, struct by_topology **topology) {
  enum by_layout_kind kind;
  assert_ok(by_topology_named(network, topology));
  struct by_spot *spots = calloc((*topology)->n_nodes, sizeof *spots);
  assert_ok(by_topology_layout(*topology, spots, &kind));
  assert_int_equal(kind, wanted);
  for (uint32_t i = 0; i < (*topology)->n_nodes; i++) /* No node is drawn on another one. */
    for (uint32_t j = 0; j < i; j++) assert_true(hypot(spots[i].x - spots[j].x, spots[i].y - spots[j].y) > 1e-3);
  return spots;
}

static void test_layouts(void **state) {
  (void)state;
  struct by_topology *t;
  struct by_spot *spots = laid_out("torus:3x4", BY_LAYOUT_PLACES, &t);
  assert_true(spots[4].y > spots[0].y && spots[1].x > spots[0].x); /* The second row is below; y grows downwards. */
  free(spots);
  by_topology_destroy(t);
  spots = laid_out("clos:3x4,spines=2", BY_LAYOUT_LAYERS, &t);
  /* Hosts are in a row in their order, with leaves above them and spines above these. */
  for (uint32_t i = 0; i < 12; i++) {
    assert_true(spots[i].y == spots[0].y && spots[12 + i / 4].y < spots[0].y && spots[15].y < spots[12].y);
    assert_true(i == 0 || spots[i].x > spots[i - 1].x);
  }
  free(spots);
  by_topology_destroy(t);
  spots = laid_out("line:10", BY_LAYOUT_SPRINGS, &t); /* The ends are farthest from each other. */
  double ends = hypot(spots[9].x - spots[0].x, spots[9].y - spots[0].y);
  for (uint32_t i = 1; i < 9; i++) assert_true(hypot(spots[i].x - spots[0].x, spots[i].y - spots[0].y) < ends);
  free(spots);
  by_topology_destroy(t);
}

static int tear_down(void **state) {
  (void)state;
  by_text_fini(&text);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text), cmocka_unit_test(test_long_ones), cmocka_unit_test(test_use),
      cmocka_unit_test(test_svg),  cmocka_unit_test(test_layouts),
  };
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
