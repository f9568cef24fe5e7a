/* Tests of the parts of a lab: rates, gates, routes and rejected input; and of the reports before and after a run, as
 * text and as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab.h"
#include "topology_make.h"

static struct by_topology_builder builder;
static struct by_topology *topology;
static struct by_lab_layout layout;
static struct by_lab_options options;
static struct by_text text;

static int begin(void **state) {
  (void)state;
  options = by_lab_options_default();
  by_text_init(&text);
  return by_topology_builder_init(&builder, "pair") == BANYAN_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  by_text_fini(&text);
  by_lab_layout_fini(&layout);
  by_topology_destroy(topology);
  topology = NULL;
  return 0;
}

static uint32_t host(const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, &node));
  return node;
}

static uint32_t add_switch(const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, name, &node));
  return node;
}

static struct by_link *join(uint32_t a, uint32_t b, double capacity) {
  struct by_link *link;
  assert_ok(by_topology_builder_add_link(&builder, a, b, capacity, 0, &link));
  return link;
}

static enum banyan_status finish(void) {
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  return by_lab_layout_make(topology, &options, &layout);
}

/* Follows the routes from a space to a host's address. Returns the number of wires passed, or -1 if the host is not
 * reached. */
static int walk(uint32_t from, uint32_t to) {
  uint32_t at = from, address = layout.spaces[to].address;
  for (int hops = 0; hops <= (int)layout.n_spaces; hops++) {
    const struct by_lab_route *best = NULL;
    if (layout.spaces[at].address == address) return hops;
    for (uint32_t i = 0; i < layout.n_routes; i++) {
      const struct by_lab_route *route = &layout.routes[i];
      if (route->space == at && (route->to == address || (!route->to && !best))) best = route;
    }
    if (!best) return -1;
    const struct by_lab_wire *wire = &layout.wires[best->wire];
    assert_true(wire->space[0] == at || wire->space[1] == at);
    assert_true(wire->rate[wire->space[0] == at ? 0 : 1] > 0);
    at = wire->space[wire->space[0] == at ? 1 : 0];
  }
  return -1;
}

static void rates_are_what_is_left_and_scaled(void **state) {
  (void)state;
  uint32_t a = host("a"), b = host("b");
  struct by_link *link = join(a, b, 1e9);
  link->capacity[BY_BA].used = 4e8;
  link->delay = 0.01;
  link->loss = 0.1;
  options.scale = 0.01;
  assert_ok(finish());
  assert_int_equal(layout.n_wires, 1);
  assert_true(fabs(layout.wires[0].rate[0] - 1e7) < 1);
  assert_true(fabs(layout.wires[0].rate[1] - 6e6) < 1);
  assert_true(layout.wires[0].delay == 0.01 && layout.wires[0].loss == 0.1);
  by_lab_layout_fini(&layout);
  options.whole = true;
  options.plain = true;
  assert_ok(by_lab_layout_make(topology, &options, &layout));
  assert_true(fabs(layout.wires[0].rate[1] - 1e7) < 1);
  assert_true(layout.wires[0].delay == 0 && layout.wires[0].loss == 0);
}

/* Ranks use the topology that is built for planning. */
static void the_topology_is_printed_as_built(void **state) {
  (void)state;
  struct by_topology *built;
  struct by_link *link = join(host("a"), host("b"), 1e9);
  link->capacity[BY_BA].used = 4e8;
  link->delay = 0.01;
  link->loss = 0.1;
  options.scale = 0.01;
  assert_ok(finish());
  assert_ok(by_lab_print_topology(topology, &options, &text));
  assert_ok(by_topology_parse("built", by_text_get(&text), text.length, &built));
  by_text_fini(&text);
  assert_true(fabs(built->links[0].capacity[BY_AB].all - layout.wires[0].rate[0]) < 1e-3);
  assert_true(fabs(built->links[0].capacity[BY_BA].all - layout.wires[0].rate[1]) < 1e-3);
  assert_true(built->links[0].capacity[BY_BA].used == 0);
  assert_true(built->links[0].delay == 0.01 && built->links[0].loss == 0.1);
  assert_true(isinf(built->nodes[0].out.all));
  by_topology_destroy(built);
  options.plain = true;
  assert_ok(by_lab_print_topology(topology, &options, &text));
  assert_ok(by_topology_parse("built", by_text_get(&text), text.length, &built));
  assert_true(built->links[0].delay == 0 && built->links[0].loss == 0);
  by_topology_destroy(built);
}

/* A link carries at least 1 bit/s. */
static void a_scale_that_leaves_nothing_is_refused(void **state) {
  (void)state;
  join(host("a"), host("b"), 1e9);
  options.scale = 1e-10;
  assert_status(finish(), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "--scale 1e-10: the link \"a\" - \"b\" is 0.1 bit/s, must be 1 to"));
}

static void one_default_route_will_do_for_a_host_of_a_star(void **state) {
  (void)state;
  uint32_t h[3] = {host("a"), host("b"), host("c")}, s = add_switch("s");
  for (int i = 0; i < 3; i++) join(h[i], s, 1e9);
  assert_ok(finish());
  assert_int_equal(layout.n_spaces, 4);
  int of_hosts = 0;
  for (uint32_t i = 0; i < layout.n_routes; i++)
    if (layout.routes[i].space != s) {
      of_hosts++;
      assert_int_equal(layout.routes[i].to, 0);
    }
  assert_int_equal(of_hosts, 3);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++)
      if (i != k) assert_int_equal(walk(h[i], h[k]), 2);
  char out[BY_ADDRESS_TEXT];
  assert_string_equal(by_lab_print_address(&layout, layout.spaces[h[1]].address, out), "10.77.0.2");
  assert_int_equal(layout.spaces[s].address, 0);
  layout.ipv6 = true;
  assert_string_equal(by_lab_print_address(&layout, layout.spaces[h[1]].address, out), "fd62:616e:7961:6e00::2");
}

static void hosts_forward_for_others_in_a_ring_of_hosts(void **state) {
  (void)state;
  uint32_t h[6];
  for (int i = 0; i < 6; i++) h[i] = host((const char *[]){"a", "b", "c", "d", "e", "f"}[i]);
  for (int i = 0; i < 6; i++) join(h[i], h[(i + 1) % 6], 1e9);
  assert_ok(finish());
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 6; k++) {
      int apart = (i - k + 6) % 6;
      assert_int_equal(walk(h[i], h[k]), apart > 3 ? 6 - apart : apart);
    }
}

/* Makes two hosts, a switch that adds, one that does not, and the server behind the latter. */
static void make_switches(uint32_t node[5]) {
  node[0] = host("a");
  node[1] = host("b");
  node[2] = add_switch("adds");
  node[3] = add_switch("plain");
  node[4] = host("server");
  by_topology_builder_node(&builder, node[2])->aggregates = true;
  join(node[0], node[2], 1e9);
  join(node[1], node[2], 2e9);
  join(node[2], node[3], 3e9);
  join(node[3], node[4], 4e9);
}

static void switches_that_add_can_be_spoken_to(void **state) {
  (void)state;
  uint32_t node[5];
  make_switches(node);
  assert_ok(finish());
  assert_int_equal(layout.n_spaces, 5);
  assert_int_equal(layout.spaces[node[2]].address, 3);
  assert_int_equal(layout.spaces[node[3]].address, 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(walk(node[i], node[2]), 1);
    assert_int_equal(walk(node[2], node[i]), 1);
    assert_int_equal(walk(node[i], node[4]), 3);
  }
  assert_int_equal(walk(node[4], node[2]), 2);
}

/* The front ends the switch's wires, with the numbers of the switch's own interfaces; nothing else changes. */
static void a_switch_of_programs_has_a_front(void **state) {
  (void)state;
  uint32_t node[5], plain_routes;
  make_switches(node);
  assert_ok(finish());
  plain_routes = layout.n_routes;
  by_lab_layout_fini(&layout);
  options.xdp = true;
  assert_ok(by_lab_layout_make(topology, &options, &layout));
  assert_int_equal(layout.n_spaces, 6);
  assert_int_equal(layout.n_routes, plain_routes);
  assert_true(layout.spaces[5].front && layout.spaces[5].node == node[2] && !layout.spaces[5].address);
  assert_int_equal(layout.spaces[5].n_wires, 3);
  assert_int_equal(layout.spaces[5].outside, 5);
  assert_int_equal(layout.spaces[node[2]].outside, 5);
  assert_int_equal(layout.spaces[node[2]].n_wires, 0);
  assert_int_equal(layout.spaces[node[3]].outside, node[3]);
  for (uint32_t i = 0; i < 3; i++) {
    const struct by_lab_wire *wire = &layout.wires[i];
    assert_int_equal(wire->space[i == 2 ? 0 : 1], 5);
    assert_int_equal(wire->port[i == 2 ? 0 : 1], i);
    assert_true(wire->rate[0] == (i + 1) * 1e9);
  }
  by_lab_layout_fini(&layout);
  options.mtu = BY_LAB_MAX_XDP_MTU + 1;
  assert_status(by_lab_layout_make(topology, &options, &layout), BANYAN_ERR_ARGUMENT);
}

/* The hub can send 1.5 of the 3 Gbit/s of its links, so its links end at its gate. */
static void a_limit_of_a_host_becomes_a_gate(void **state) {
  (void)state;
  uint32_t hub = host("hub"), h[3];
  for (int i = 0; i < 3; i++) {
    h[i] = host((const char *[]){"a", "b", "c"}[i]);
    join(hub, h[i], 1e9);
  }
  by_topology_builder_node(&builder, hub)->out = (struct by_capacity){.all = 2e9, .used = 5e8};
  assert_ok(finish());
  assert_int_equal(layout.n_spaces, 5);
  assert_int_equal(layout.n_wires, 4);
  const struct by_lab_wire *own = &layout.wires[3];
  assert_true(layout.spaces[4].gate && layout.spaces[4].node == hub && !layout.spaces[4].address);
  assert_int_equal(own->link, UINT32_MAX);
  assert_int_equal(own->space[0], hub);
  assert_int_equal(own->space[1], 4);
  assert_int_equal(own->port[0], 0);
  assert_true(own->rate[0] == 1.5e9 && own->rate[1] == 3e9);
  assert_int_equal(layout.spaces[hub].n_wires, 1);
  assert_int_equal(layout.spaces[4].n_wires, 4);
  assert_int_equal(walk(h[0], hub), 2);
  assert_int_equal(walk(hub, h[2]), 2);
  assert_int_equal(walk(h[0], h[1]), 2); /* The gate forwards, so this takes nothing from the hub itself. */
}

static void a_limit_of_a_host_with_one_link_is_the_links(void **state) {
  (void)state;
  uint32_t a = host("a"), b = host("b");
  join(a, b, 1e9);
  by_topology_builder_node(&builder, b)->in = (struct by_capacity){.all = 3e8};
  assert_ok(finish());
  assert_int_equal(layout.n_spaces, 2);
  assert_true(layout.wires[0].rate[0] == 3e8 && layout.wires[0].rate[1] == 1e9);
}

static void a_limit_above_the_links_changes_nothing(void **state) {
  (void)state;
  uint32_t a = host("a"), b = host("b");
  join(a, b, 1e9);
  join(a, b, 1e9);
  by_topology_builder_node(&builder, a)->out = (struct by_capacity){.all = 2e9};
  assert_ok(finish());
  assert_int_equal(layout.n_spaces, 2);
  assert_true(layout.wires[0].rate[0] == 1e9);
}

static void what_cannot_be_built_is_named(void **state) {
  (void)state;
  uint32_t a = host("a"), b = host("b"), s = add_switch("narrow");
  join(a, s, 1e9);
  join(b, s, 1e9);
  by_topology_builder_node(&builder, s)->out = (struct by_capacity){.all = 1e9};
  assert_status(finish(), BANYAN_ERR_TOPOLOGY);
  assert_non_null(strstr(banyan_error_text(), "\"narrow\""));
}

static void too_large_a_lab_is_refused(void **state) {
  (void)state;
  char name[16];
  uint32_t s = add_switch("s");
  for (int i = 0; i < BY_LAB_MAX_SPACES / 2; i++) {
    snprintf(name, sizeof name, "h%d", i);
    join(host(name), s, 1e9);
  }
  assert_status(finish(), BANYAN_ERR_TOPOLOGY);
}

static void queues_have_a_least_size(void **state) {
  (void)state;
  options.queue = 0.01;
  host("a");
  assert_true(by_lab_queue_bytes(&options, 8e9) == 1e7);
  assert_true(by_lab_queue_bytes(&options, 8e3) >= 65536); /* The queue must hold what TCP hands over at once. */
  by_topology_builder_fini(&builder);
}

/* ---- what is printed ---- */

/* Makes hosts a and b with two links. Host a may send 1.5 Gbit/s in all. */
static void make_pair(void) {
  uint32_t a = host("a"), b = host("b");
  by_topology_builder_node(&builder, a)->out.all = 1.5e9;
  join(a, b, 1e9);
  struct by_link *link = join(a, b, 1e9);
  link->delay = 0.02;
  link->loss = 0.01;
  assert_ok(finish());
}

static void shows(const char *part) {
  if (!strstr(by_text_get(&text), part)) fail_msg("no \"%s\" in:\n%s", part, by_text_get(&text));
}

static void the_layout_is_shown(void **state) {
  (void)state;
  make_pair();
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
  make_pair();
  by_lab_print_traffic(&layout, traffic, 1, &text);
  shows("1 MiB        700        3");
  shows("(its links) -> a");
  shows("  50%"); /* This is 125 MB in a second of the 2 Gbit/s of a's links. */
  shows("2 of 6 directions of links carried something in 1 s");
}

static void of_many_links_the_busiest_are_shown(void **state) {
  (void)state;
  enum { LINKS = 100 };
  static struct by_lab_traffic each[2 * LINKS];
  uint32_t a = host("a"), b = host("b");
  for (int i = 0; i < LINKS; i++) {
    join(a, b, 1e9);
    each[2 * i] = (struct by_lab_traffic){.bytes = 1000000 * (uint64_t)(i + 1), .packets = 1};
  }
  assert_ok(finish());
  by_lab_print_traffic(&layout, each, 1, &text);
  shows("the busiest 64 of 100 directions");
  shows(" 95.4 MiB");                                   /* This is the hundredth link. */
  assert_null(strstr(by_text_get(&text), " 34.3 MiB")); /* This is the 36th link. */
}

static void json_has_every_direction(void **state) {
  (void)state;
  make_pair();
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

/* --- Delay lines: order, time, loss, and how much is held --- */

static void packets_come_out_in_order_when_due(void **state) {
  (void)state;
  struct by_delay_line line;
  by_delay_line_init(&line, 100, 0, 1);
  assert_true(by_delay_line_due(&line) == UINT64_MAX);
  assert_true(by_delay_line_put(&line, "one", 3, 1000));
  assert_true(by_delay_line_put(&line, "three", 5, 1040));
  assert_true(by_delay_line_due(&line) == 1100);
  assert_int_equal(line.held, 8);
  assert_null(by_delay_line_take(&line, 1099));
  struct by_line_packet *packet = by_delay_line_take(&line, 1100);
  assert_non_null(packet);
  assert_int_equal(packet->length, 3);
  assert_memory_equal(packet->bytes, "one", 3);
  free(packet);
  assert_null(by_delay_line_take(&line, 1139));
  packet = by_delay_line_take(&line, 5000);
  assert_non_null(packet);
  assert_memory_equal(packet->bytes, "three", 5);
  free(packet);
  assert_int_equal(line.held, 0);
  assert_true(by_delay_line_put(&line, "again", 5, 6000)); /* An emptied line is like a new one. */
  assert_true(by_delay_line_due(&line) == 6100);
  by_delay_line_fini(&line);
}

static void loss_is_of_packets(void **state) {
  (void)state;
  struct by_delay_line line;
  int lost = 0;
  by_delay_line_init(&line, 0, 0.25, 7);
  for (int i = 0; i < 4000; i++) {
    lost += !by_delay_line_put(&line, "x", 1, (uint64_t)i);
    free(by_delay_line_take(&line, (uint64_t)i));
  }
  assert_in_range(lost, 800, 1200);
  by_delay_line_fini(&line);
  by_delay_line_init(&line, 0, 1, 7);
  for (int i = 0; i < 100; i++) assert_false(by_delay_line_put(&line, "x", 1, 0));
  by_delay_line_fini(&line);
}

static void a_line_holds_only_so_much(void **state) {
  (void)state;
  struct by_delay_line line;
  char packet[16] = {0};
  by_delay_line_init(&line, 1, 0, 1);
  line.held = BY_LINE_MAX_BYTES - 8;
  assert_false(by_delay_line_put(&line, packet, 9, 0));
  assert_true(by_delay_line_put(&line, packet, 8, 0));
  by_delay_line_fini(&line);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(rates_are_what_is_left_and_scaled),
      TEST(the_topology_is_printed_as_built),
      TEST(a_scale_that_leaves_nothing_is_refused),
      TEST(one_default_route_will_do_for_a_host_of_a_star),
      TEST(hosts_forward_for_others_in_a_ring_of_hosts),
      TEST(switches_that_add_can_be_spoken_to),
      TEST(a_switch_of_programs_has_a_front),
      TEST(a_limit_of_a_host_becomes_a_gate),
      TEST(a_limit_of_a_host_with_one_link_is_the_links),
      TEST(a_limit_above_the_links_changes_nothing),
      TEST(what_cannot_be_built_is_named),
      TEST(too_large_a_lab_is_refused),
      TEST(queues_have_a_least_size),
      TEST(the_layout_is_shown),
      TEST(traffic_is_shown_by_direction),
      TEST(of_many_links_the_busiest_are_shown),
      TEST(json_has_every_direction),
      cmocka_unit_test(packets_come_out_in_order_when_due),
      cmocka_unit_test(loss_is_of_packets),
      cmocka_unit_test(a_line_holds_only_so_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
