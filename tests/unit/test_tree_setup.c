/* Setting up a tree: the reservation requests to switches and the messages to endpoints, for this tree.
 *
 *          h/0
 *         /   \
 *       s1     3        s1: place 0; 3 runs on h
 *      /  \
 *     s2   2            s2: place 1
 *    /  \
 *   0    1                                                               */
#include "control_trees.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { S1, S2 };

static const char text[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 4, \"vertices\": {\"h/0\": {\"kind\": \"server\"},"
    "\"s1\": {\"kind\": \"switch\"}, \"s2\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\","
    "\"up\": {\"s1\": \"h/0\", \"s2\": \"s1\", \"0\": \"s2\", \"1\": \"s2\", \"2\": \"s1\", \"3\": \"h/0\"},"
    "\"ports\": {\"s1\": {\"h/0\": \"e0\", \"s2\": \"e1\", \"2\": \"e2\"},"
    "\"s2\": {\"s1\": \"f0\", \"0\": \"f1\", \"1\": \"f2\"}}}]}";

static struct by_switched_tree *make_tree(void) {
  struct by_plan *plan;
  struct by_switched_tree *tree;
  assert_ok(by_plan_parse("it", text, strlen(text), &plan));
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  by_plan_destroy(plan);
  assert_int_equal(tree->n_switches, 2);
  assert_string_equal(tree->switches[S1].name, "s1");
  return tree;
}

static struct by_tree_ends make_ends(void) {
  struct by_tree_ends ends = {.job = 7, .key = 9, .lines = 22, .secret = "s", .server = 5};
  assert_ok(by_address_parse("10.0.0.9:7612", &ends.at));
  for (int w = 0; w < 4; w++) {
    char host[16] = "10.0.0.0";
    host[7] = (char)('1' + w);
    assert_ok(by_address_parse_host(host, 7612 + w, &ends.workers[w]));
  }
  return ends;
}

static void check_end(struct by_udp_end end, const char *host, int port) {
  struct by_address address;
  assert_ok(by_address_parse_host(host, port, &address));
  struct by_udp_end wanted = by_udp_end_of(&address);
  assert_true(by_udp_end_same(&end, &wanted));
}

static void test_lines(void **state) {
  (void)state;
  assert_int_equal(by_tree_lines(1500, AF_INET), 22);
  assert_int_equal(by_tree_lines(1500 - 1, AF_INET), 21);
  assert_int_equal(by_tree_lines(3506, AF_INET), 53);
  assert_int_equal(by_tree_lines(65535, AF_INET), 53);
  assert_int_equal(by_tree_lines(0, AF_INET), 1);
  assert_int_equal(by_tree_lines(100, AF_INET), 1);
  assert_int_equal(by_tree_lines(1500, AF_INET6), 21);
  assert_int_equal(by_tree_lines(1280, AF_INET6), 18);
  assert_int_equal(by_tree_lines(1519, AF_INET6), 21);
  assert_int_equal(by_tree_lines(1520, AF_INET6), 22);
}

/* A host with up to two addresses, of which each may be NULL. */
static struct by_member member_with(const char *host, const char *first, const char *second, uint32_t mtu,
                                    struct by_address addresses[2]) {
  struct by_member member = {.host = host, .machine = host, .udp_port = 7612, .mtu = mtu, .addresses = addresses};
  if (first) assert_ok(by_address_parse(first, &addresses[member.n_addresses++]));
  if (second) assert_ok(by_address_parse(second, &addresses[member.n_addresses++]));
  return member;
}

/* All ends of a tree get addresses of one kind: of IPv4 where all have it, else of IPv6. Those of a link alone do not
 * count. */
static void test_addresses(void **state) {
  (void)state;
  struct by_address room[4][2], at[3];
  uint32_t lines;
  const struct by_member both = member_with("a", "[fd00::1]:5", "10.0.0.1:5", 3000, room[0]),
                         four = member_with("b", "10.0.0.2:5", NULL, 1500, room[1]),
                         six = member_with("c", "[fe80::3]:5", "[fd00::3]:5", 0, room[2]),
                         link = member_with("d", "[fe80::4]:5", "[::1]:5", 1500, room[3]);
  const struct by_tree_end of_both[] = {{&both, &at[0]}, {&four, &at[1]}}, of_six[] = {{&both, &at[0]}, {&six, &at[1]}},
                           mixed[] = {{&four, &at[0]}, {&both, &at[1]}, {&six, &at[2]}},
                           unreached[] = {{&six, &at[0]}, {&link, &at[1]}},
                           inside[] = {{&link, &at[0]}, {&link, &at[1]}};
  assert_ok(by_tree_find_addresses(of_both, 2, &lines));
  check_end(by_udp_end_of(&at[0]), "10.0.0.1", 7612);
  check_end(by_udp_end_of(&at[1]), "10.0.0.2", 7612);
  assert_int_equal(lines, 22);
  assert_ok(by_tree_find_addresses(of_six, 2, &lines));
  check_end(by_udp_end_of(&at[0]), "fd00::1", 7612);
  check_end(by_udp_end_of(&at[1]), "fd00::3", 7612);
  assert_int_equal(lines, 18); /* in 1280 bytes, as the second's is not known */
  assert_status(by_tree_find_addresses(mixed, 3, &lines), BANYAN_ERR_CONNECT);
  assert_non_null(strstr(banyan_error_text(), "host c has no IPv4 address, and host b no IPv6 address"));
  assert_status(by_tree_find_addresses(unreached, 2, &lines), BANYAN_ERR_CONNECT);
  assert_non_null(strstr(banyan_error_text(), "host d no IPv6 address"));
  assert_ok(by_tree_find_addresses(inside, 2, &lines));
  check_end(by_udp_end_of(&at[0]), "127.0.0.1", 7612);
}

static void test_reservations(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_tree();
  struct by_tree_ends ends = make_ends();
  struct by_reservation reservation;
  by_tree_reservation(tree, &ends, S1, &reservation);
  assert_int_equal(reservation.job, 7);
  assert_int_equal(reservation.key, 9);
  assert_int_equal(reservation.place, 0);
  assert_int_equal(reservation.slots, BY_TREE_WANTED);
  assert_string_equal(reservation.up, "e0");
  check_end(reservation.server, "10.0.0.9", 7612);
  assert_int_equal(reservation.n_below, 2);
  assert_int_equal(reservation.n_workers, 3);
  for (unsigned b = 0; b < reservation.n_below; b++) {
    const struct by_reservation_below *below = &reservation.below[b];
    assert_string_equal(below->interface, below->is_switch ? "e1" : "e2");
    assert_int_equal(below->n, below->is_switch ? 2 : 1);
    check_end(reservation.workers[below->first], below->is_switch ? "10.0.0.1" : "10.0.0.3",
              below->is_switch ? 7612 : 7614);
  }
  by_tree_reservation(tree, &ends, S2, &reservation);
  assert_int_equal(reservation.place, 1);
  assert_string_equal(reservation.up, "f0");
  assert_int_equal(reservation.n_workers, 2);
  by_switched_tree_destroy(tree);
}

/* Grants everything as requested: ports 10 and 20 up; below it 11, 12 and 21, 22. */
static void grant_all(const struct by_switched_tree *tree, struct by_tree_answer *answers, const uint32_t *slots) {
  for (uint32_t s = 0; s < tree->n_switches; s++) {
    answers[s] = (struct by_tree_answer){
        .granted = true,
        .what = {.slots = slots[s], .up = (uint8_t)(10 * s + 10), .n_below = tree->switches[s].n_below}};
    for (uint32_t b = 0; b < tree->switches[s].n_below; b++) answers[s].what.below[b] = (10 * s + 11 + b) & 63;
  }
}

static void check_hop(struct by_hop hop, unsigned port, unsigned workers) {
  assert_int_equal(hop.port, port);
  assert_int_equal(hop.workers, workers);
}

/* Results for all go to this worker's address alone. */
static void check_via(const struct by_tree_message *message, const struct by_address *worker) {
  assert_int_equal(message->n_vias, 1);
  assert_int_equal(by_address_compare(&message->vias[0].address, worker), 0);
  assert_int_equal(message->vias[0].aggregator, UINT32_MAX);
}

static void test_all_granted(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_tree();
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answers[2];
  static struct by_tree_message message;
  grant_all(tree, answers, (uint32_t[]){300, 200});
  by_tree_describe(tree, &ends, answers, 1, &message);
  assert_int_equal(message.server, 5);
  assert_int_equal(by_workers_of(&message.groups), 4);
  assert_int_equal(message.worker, 1);
  assert_int_equal(message.slots, 200);
  assert_int_equal(message.lines, 22);
  assert_int_equal(by_address_compare(&message.ways[0].address, &ends.at), 0);
  assert_int_equal(message.ways[0].hops, 2);
  check_hop(message.ways[0].stack[0], 10, 3);
  check_hop(message.ways[0].stack[1], 20, 2);
  by_tree_describe(tree, &ends, answers, 3, &message);
  assert_int_equal(message.ways[0].hops, 0);
  by_tree_describe(tree, &ends, answers, BY_TREE_FOR_SERVER, &message);
  check_via(&message, &ends.workers[0]); /* One worker behind s1 represents all three. */
  assert_int_equal(message.ways[3].via, BY_TREE_ALONE);
  assert_true(message.ways[0].via == 0 && message.ways[1].via == 0 && message.ways[2].via == 0);
  assert_int_equal(message.ways[1].hops, 2);
  assert_int_equal(message.ways[1].stack[0].workers, 1);
  assert_int_equal(message.ways[1].stack[1].port, 22);
  assert_int_equal(message.ways[2].hops, 1);
  assert_int_equal(by_address_compare(&message.ways[2].address, &ends.workers[2]), 0);
  by_switched_tree_destroy(tree);
}

/* A switch without an answer is left out, and the workers behind it get their own results. */
static void test_some_granted(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_tree();
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answers[2];
  static struct by_tree_message message;
  grant_all(tree, answers, (uint32_t[]){300, 200});
  answers[S2].granted = false;
  by_tree_describe(tree, &ends, answers, 0, &message);
  assert_int_equal(message.slots, 300);
  assert_int_equal(message.ways[0].hops, 2);
  check_hop(message.ways[0].stack[0], 10, 3);
  check_hop(message.ways[0].stack[1], 0, 0);
  by_tree_describe(tree, &ends, answers, BY_TREE_FOR_SERVER, &message);
  assert_true(message.ways[0].via == BY_TREE_ALONE && message.ways[1].via == BY_TREE_ALONE && !message.ways[2].via);
  check_via(&message, &ends.workers[2]);
  answers[S1].granted = false;
  by_tree_describe(tree, &ends, answers, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.slots, BY_TREE_WANTED);
  assert_int_equal(message.n_vias, 0);
  by_switched_tree_destroy(tree);
}

/* With too few cells the switch only forwards, but by its ports. */
static void test_few_slots(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_tree();
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answers[2];
  static struct by_tree_message message;
  grant_all(tree, answers, (uint32_t[]){BY_TREE_WORTHWHILE - 1, 100});
  by_tree_describe(tree, &ends, answers, 0, &message);
  assert_int_equal(message.slots, 100);
  check_hop(message.ways[0].stack[0], 10, 0);
  check_hop(message.ways[0].stack[1], 20, 2);
  by_tree_describe(tree, &ends, answers, BY_TREE_FOR_SERVER, &message);
  check_via(&message, &ends.workers[0]);
  assert_int_equal(message.ways[0].stack[0].workers, 0);
  by_switched_tree_destroy(tree);
}

/* Messages arrive as they were sent. */
static void test_carried(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_tree();
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answers[2];
  static struct by_tree_message message, again;
  uint8_t bytes[4096];
  grant_all(tree, answers, (uint32_t[]){300, 200});
  for (uint32_t w = 0; w <= 4; w++) {
    struct by_writer writer;
    by_tree_describe(tree, &ends, answers, w < 4 ? w : BY_TREE_FOR_SERVER, &message);
    by_writer_init(&writer, bytes, sizeof bytes);
    by_tree_message_write(&writer, &message);
    assert_false(writer.failed);
    assert_ok(by_tree_message_read(bytes, writer.length, (struct by_roster){4, 6}, &again));
    assert_int_equal(again.worker, message.worker);
    assert_int_equal(again.n_vias, message.n_vias);
    assert_int_equal(by_address_compare(&again.vias[0].address, &message.vias[0].address), 0);
    assert_int_equal(again.vias[0].aggregator, message.vias[0].aggregator);
    assert_memory_equal(again.secret, message.secret, sizeof message.secret);
    assert_int_equal(again.ways[w < 4 ? 0 : 3].hops, message.ways[w < 4 ? 0 : 3].hops);
    assert_status(by_tree_message_read(bytes, writer.length - 1, (struct by_roster){4, 6}, &again),
                  BANYAN_ERR_PROTOCOL);
    assert_status(by_tree_message_read(bytes, writer.length, (struct by_roster){4, 5}, &again), BANYAN_ERR_PROTOCOL);
  }
  by_switched_tree_destroy(tree);
}

/* --- an aggregator for ranks 0 to 2, on host e --- */

enum { AT_E = 6 };

static struct by_switched_tree *make_off_path(struct by_tree_answer *answer) {
  static const char off_path[] =
      "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 4, \"vertices\": {\"h/0\": {\"kind\": \"server\"},"
      "\"e/0\": {\"kind\": \"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\","
      "\"up\": {\"e/0\": \"h/0\", \"0\": \"e/0\", \"1\": \"e/0\", \"2\": \"e/0\", \"3\": \"h/0\"}}]}";
  struct by_plan *plan;
  struct by_switched_tree *tree;
  assert_ok(by_plan_parse("it", off_path, strlen(off_path), &plan));
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  by_plan_destroy(plan);
  assert_int_equal(tree->n_switches, 1);
  assert_true(tree->switches[0].aggregator);
  *answer = (struct by_tree_answer){
      .granted = true, .what = {.slots = 100, .n_below = tree->switches[0].n_below}, .aggregator = AT_E};
  assert_ok(by_address_parse("10.0.0.6:7700", &answer->at));
  return tree;
}

static void check_carried(const struct by_tree_message *message) {
  static struct by_tree_message again;
  uint8_t bytes[4096];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, message);
  assert_ok(by_tree_message_read(bytes, writer.length, (struct by_roster){4, AT_E + 1}, &again));
  assert_int_equal(again.n_vias, message->n_vias);
  for (uint32_t i = 0; i < message->n_vias; i++) {
    assert_int_equal(by_address_compare(&again.vias[i].address, &message->vias[i].address), 0);
    assert_int_equal(again.vias[i].aggregator, message->vias[i].aggregator);
  }
  assert_status(by_tree_message_read(bytes, writer.length - 1, (struct by_roster){4, AT_E + 1}, &again),
                BANYAN_ERR_PROTOCOL);
}

/* Workers are sent its address, it is sent theirs and the server's, and the server copies results to it. */
static void test_off_path(void **state) {
  (void)state;
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answer;
  static struct by_tree_message message;
  struct by_switched_tree *tree = make_off_path(&answer);
  by_tree_describe(tree, &ends, &answer, 1, &message);
  assert_int_equal(message.ways[0].hops, 1);
  check_hop(message.ways[0].stack[0], 0, 3);
  assert_int_equal(message.below[0].workers, 7);
  assert_int_equal(by_address_compare(&message.ways[0].address, &ends.at), 0);
  assert_int_equal(message.n_vias, 1);
  assert_int_equal(by_address_compare(&message.vias[0].address, &answer.at), 0);
  assert_int_equal(message.vias[0].aggregator, AT_E);
  check_carried(&message);
  by_tree_describe(tree, &ends, &answer, 3, &message);
  assert_int_equal(message.ways[0].hops, 0);
  assert_int_equal(message.n_vias, 0);
  by_tree_describe(tree, &ends, &answer, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.slots, 100);
  assert_int_equal(message.n_vias, 1);
  assert_int_equal(message.vias[0].aggregator, AT_E);
  for (uint32_t w = 0; w < 4; w++) {
    assert_int_equal(message.ways[w].via, w < 3 ? 0 : BY_TREE_ALONE);
    assert_int_equal(message.ways[w].hops, 0); /* their own results go straight to them */
  }
  check_carried(&message);
  by_tree_describe_aggregator(tree, &ends, &answer, 0, &message);
  assert_int_equal(message.worker, BY_TREE_FOR_AGGREGATOR);
  assert_int_equal(by_address_compare(&message.ways[0].address, &ends.at), 0);
  assert_int_equal(message.n_vias, 3);
  for (uint32_t w = 0; w < 3; w++) assert_int_equal(by_address_compare(&message.vias[w].address, &ends.workers[w]), 0);
  check_carried(&message);
  by_switched_tree_destroy(tree);
}

/* Where it is not there, its workers send to the server. */
static void test_no_aggregator(void **state) {
  (void)state;
  struct by_tree_ends ends = make_ends();
  struct by_tree_answer answer;
  static struct by_tree_message message;
  struct by_switched_tree *tree = make_off_path(&answer);
  answer.granted = false;
  by_tree_describe(tree, &ends, &answer, 1, &message);
  assert_int_equal(message.ways[0].hops, 0);
  assert_int_equal(message.n_vias, 0);
  by_tree_describe(tree, &ends, &answer, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.n_vias, 0);
  assert_int_equal(message.ways[1].via, BY_TREE_ALONE);
  by_switched_tree_destroy(tree);
}

/* --- more than 64 workers --- */

enum { MANY = 84, TOP = 0 };

/* Ranks 0 to 83: those up to 79 by turns below two switches, y and z, the others right below x above them. */
static struct by_switched_tree *make_large_tree(void) {
  static char plan_text[16384];
  struct by_plan *plan;
  struct by_switched_tree *tree;
  char *at = plan_text + sprintf(plan_text,
                                 "{\"format\": \"banyan-plan 1\", \"ranks\": %d, \"vertices\": {\"h/0\": "
                                 "{\"kind\": \"server\"}, \"x\": {\"kind\": \"switch\"}, \"y\": {\"kind\": "
                                 "\"switch\"}, \"z\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, "
                                 "\"root\": \"h/0\", \"up\": {\"x\": \"h/0\", \"y\": \"x\", \"z\": \"x\"",
                                 MANY);
  for (int r = 0; r < MANY; r++) at += sprintf(at, ", \"%d\": \"%s\"", r, r >= 80 ? "x" : r % 2 ? "z" : "y");
  at += sprintf(at, "}, \"ports\": {\"x\": {\"h/0\": \"x0\", \"y\": \"x1\", \"z\": \"x2\"");
  for (int r = 80; r < MANY; r++) at += sprintf(at, ", \"%d\": \"x3\"", r);
  for (int s = 0; s < 2; s++) {
    at += sprintf(at, "}, \"%s\": {\"x\": \"e0\"", s ? "z" : "y");
    for (int r = s; r < 80; r += 2) at += sprintf(at, ", \"%d\": \"e1\"", r);
  }
  sprintf(at, "}}}]}");
  assert_ok(by_plan_parse("it", plan_text, strlen(plan_text), &plan));
  assert_ok(by_switched_tree_make(plan, 0, 0, &tree));
  by_plan_destroy(plan);
  return tree;
}

static struct by_tree_ends *make_many_ends(void) {
  static struct by_tree_ends ends;
  ends = make_ends();
  for (int w = 0; w < MANY; w++) assert_ok(by_address_parse_host("10.0.1.1", 1000 + w, &ends.workers[w]));
  return &ends;
}

/* Sums of the two leaves and four single workers: six groups. */
static void test_groups(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_large_tree();
  const struct by_tree_ends *ends = make_many_ends();
  struct by_tree_answer answers[3] = {0};
  static struct by_tree_message message, again;
  static struct by_reservation reservation;
  static uint8_t bytes[BY_TREE_MESSAGE_MOST];
  struct by_writer writer;
  assert_int_equal(tree->workers[1], 2); /* by groups, and in them by ranks */
  assert_int_equal(tree->workers[41], 3);
  grant_all(tree, answers, (uint32_t[]){300, 200, 200});
  by_tree_describe(tree, ends, answers, 1, &message);
  assert_int_equal(message.groups.n, 6);
  check_hop(message.ways[0].stack[0], 10, by_hop_add(BY_HOP_GROUPS, 6));
  check_hop(message.ways[0].stack[1], 20, by_hop_add(BY_HOP_WHOLE, 40));
  assert_true(message.below[0].group == BY_FRAGMENT_UNITED && message.below[0].workers == 0x3f);
  assert_true(message.below[1].group == 0 && message.below[1].workers == by_low_bits(40));
  by_tree_describe(tree, ends, answers, 80, &message);
  assert_int_equal(message.ways[0].hops, 1);
  check_hop(message.ways[0].stack[0], 10, by_hop_add(BY_HOP_GROUPS, 6));
  by_tree_reservation(tree, ends, TOP, &reservation);
  assert_ok(by_reservation_check(&reservation));
  assert_int_equal(reservation.n_below, 6);
  assert_int_equal(reservation.n_workers, MANY);
  by_tree_describe(tree, ends, answers, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.n_vias, 1);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &message);
  assert_false(writer.failed);
  assert_ok(by_tree_message_read(bytes, writer.length, (struct by_roster){4, 6}, &again));
  assert_memory_equal(&again.groups, &message.groups, sizeof message.groups);
  assert_int_equal(by_address_compare(&again.ways[MANY - 1].address, &ends->workers[MANY - 1]), 0);
  by_switched_tree_destroy(tree);
}

/* A leaf without cells makes no sum of its group: the switch above does not wait for it, nor add its terms. */
static void test_group_without_cells(void **state) {
  (void)state;
  struct by_switched_tree *tree = make_large_tree();
  struct by_tree_ends *ends = make_many_ends();
  struct by_tree_answer answers[3];
  static struct by_tree_message message;
  ends->exact = true;
  grant_all(tree, answers, (uint32_t[]){300, 200, 0});
  by_tree_describe(tree, ends, answers, 1, &message);
  check_hop(message.ways[0].stack[0], 10, by_hop_add(BY_HOP_GROUPS, 5));
  assert_true(message.below[0].workers == 0x3d);
  by_tree_describe(tree, ends, answers, 41, &message);
  check_hop(message.ways[0].stack[0], 10, 0);
  check_hop(message.ways[0].stack[1], 30, 0);
  by_tree_describe(tree, ends, answers, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.n_sets, 2);
  assert_true(message.sets[0].group == 0 && message.sets[0].workers == by_low_bits(40));
  assert_true(message.sets[1].group == BY_FRAGMENT_UNITED && message.sets[1].workers == 0x3d);
  by_switched_tree_destroy(tree);
}

/* Each of many switches next to the server adds two workers, six of which are a group. The server is sent all sets, so
 * that it adds what has come past a switch as that one does. */
static void test_many_sets(void **state) {
  enum { PAIRS = 3 * BY_FRAGMENT_GROUPS };
  (void)state;
  struct by_tree_ends *ends = make_many_ends();
  static struct by_tree_answer answers[PAIRS];
  static struct by_switched_switch switches[PAIRS];
  static uint32_t first[2 * PAIRS];
  static struct by_tree_message message, again;
  static uint8_t bytes[BY_TREE_MESSAGE_MOST];
  struct by_switched_tree tree = {.n_workers = 2 * PAIRS,
                                  .groups.n = BY_FRAGMENT_GROUPS,
                                  .first = first,
                                  .n_switches = PAIRS,
                                  .switches = switches};
  struct by_writer writer;
  for (uint32_t g = 0; g <= BY_FRAGMENT_GROUPS; g++) tree.groups.first[g] = (uint16_t)(6 * g);
  for (uint32_t s = 0; s < PAIRS; s++) {
    switches[s] = (struct by_switched_switch){
        .adds = true, .parent = BY_SWITCHED_NONE, .set = {3ull << 2 * (s % 3), (uint8_t)(s / 3)}};
    answers[s] = (struct by_tree_answer){.granted = true, .what.slots = BY_TREE_WANTED};
    first[2 * s] = first[2 * s + 1] = s;
  }
  for (uint32_t w = 0; w < tree.n_workers; w++) ends->workers[w] = ends->at;
  ends->exact = true;
  by_tree_describe(&tree, ends, answers, BY_TREE_FOR_SERVER, &message);
  assert_int_equal(message.n_sets, PAIRS);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &message);
  assert_false(writer.failed);
  assert_ok(by_tree_message_read(bytes, writer.length, (struct by_roster){4, 6}, &again));
  for (uint32_t i = 0; i < PAIRS; i++) {
    assert_true(again.sets[i].workers == message.sets[i].workers);
    assert_int_equal(again.sets[i].group, message.sets[i].group);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_reservations),
      cmocka_unit_test(test_all_granted),
      cmocka_unit_test(test_some_granted),
      cmocka_unit_test(test_few_slots),
      cmocka_unit_test(test_carried),
      cmocka_unit_test(test_off_path),
      cmocka_unit_test(test_no_aggregator),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_group_without_cells),
      cmocka_unit_test(test_many_sets),
  };
  return cmocka_run_group_tests_name("tree_setup", tests, NULL, NULL);
}
