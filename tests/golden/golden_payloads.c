/* Golden bytes of the payloads of control messages that have writers of their own: texts (REFUSED, FAILED, SUSPECT,
 * LOST), PLAN, TREE for workers and servers, MOVE of each kind, TIMELINE and PATHS of each kind, and NETWORK. Each is
 * read by the real reader and written again, which gives the same bytes. golden_control.c has the others, and the frame
 * around them. */
#include <string.h>

#include "carry.h"
#include "control_messages.h"
#include "control_paths.h"
#include "golden.h"
#include "job_network.h"
#include "plan.h"
#include "plan_switch_message.h"
#include "timeline_records.h"

enum { MOST = 4096 };

static const struct by_roster roster = {.ranks = 2, .processes = 5};

static uint8_t bytes[MOST], again[MOST];
static struct by_writer writer, second;

static void begin(void) {
  by_writer_init(&writer, bytes, sizeof bytes);
  by_writer_init(&second, again, sizeof again);
}

/* The bytes that were written, and those that were written after reading them. */
static void check(const char *name) {
  assert_false(writer.failed);
  golden_bytes(name, bytes, writer.length);
  assert_int_equal(second.length, writer.length);
  assert_memory_equal(again, bytes, writer.length);
}

/* ---- texts ---- */

static void text(const char *name, enum banyan_status status, uint32_t process, const char *why) {
  struct by_text_message read;
  begin();
  by_text_message_write(&writer, status, process, why);
  assert_ok(by_text_message_read(bytes, writer.length, &read));
  by_text_message_write(&second, read.status, read.process, read.text);
  check(name);
}

static void test_texts(void **state) {
  (void)state;
  text("text about a rank", BANYAN_ERR_PEER_DEAD, 3, "rank 3 (host b) is gone: it closed its connection");
  text("text about nobody", BANYAN_ERR_ABORTED, UINT32_MAX, "");
}

/* ---- plans for helpers ---- */

static const char plan_text[] = "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 2, "
                                "\"vertices\": {\"h\": {\"kind\": \"helper\"}}, "
                                "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\"}}]}";

static void plan(const char *name, uint32_t helper) {
  struct by_plan *parsed;
  struct by_plan_message read;
  uint8_t *written, *rewritten;
  size_t length, relength;
  assert_ok(by_plan_parse("it", plan_text, strlen(plan_text), &parsed));
  assert_ok(by_plan_message_write(0x01020304, (uint32_t[]){1, 0}, &helper, parsed, &written, &length));
  by_plan_destroy(parsed);
  golden_bytes(name, written, length);
  assert_ok(by_plan_message_read(written, length, roster, &read));
  assert_ok(by_plan_message_write(read.id, read.processes, read.helpers, read.plan, &rewritten, &relength));
  assert_int_equal(relength, length);
  assert_memory_equal(rewritten, written, length);
  by_plan_message_fini(&read);
  free(written);
  free(rewritten);
}

static void test_plans(void **state) {
  (void)state;
  plan("PLAN for a helper", 3);
  plan("PLAN whose helper is gone", UINT32_MAX);
}

/* ---- trees through switches ---- */

static void tree(const char *name, const struct by_tree_message *message) {
  static struct by_tree_message read;
  begin();
  by_tree_message_write(&writer, message);
  assert_ok(by_tree_message_read(bytes, writer.length, roster, &read));
  by_tree_message_write(&second, &read);
  check(name);
}

static void test_trees(void **state) {
  static struct by_tree_message message;
  (void)state;
  message = (struct by_tree_message){.server = 4,
                                     .version = 0x40000001,
                                     .job = 0x0102,
                                     .key = 3,
                                     .slots = 256,
                                     .lines = 53,
                                     .groups = by_one_group(2)};
  for (size_t i = 0; i < sizeof message.secret; i++) message.secret[i] = (unsigned char)(0xa0 + i);
  message.worker = 1;
  message.ways[0] = (struct by_tree_way){
      .via = BY_TREE_ALONE, .hops = 2, .stack = {{.port = 1, .workers = 2}, {.port = 63, .workers = 0}}};
  message.below[0].workers = 3;
  message.below[1].workers = 2;
  assert_ok(by_address_parse("10.0.0.9:7612", &message.ways[0].address));
  tree("TREE for a worker", &message);
  message.n_vias = 1;
  message.vias[0].aggregator = 3;
  assert_ok(by_address_parse("10.0.0.8:7614", &message.vias[0].address));
  message.ways[0].hops = 1;
  tree("TREE for a worker of an aggregator", &message);
  message.worker = BY_TREE_FOR_AGGREGATOR;
  message.vias[0].aggregator = UINT32_MAX;
  message.ways[0].hops = 0;
  tree("TREE for an aggregator", &message);
  message.worker = BY_TREE_FOR_SERVER;
  message.ways[0].via = 0;
  message.ways[0].hops = 2;
  message.ways[1] = (struct by_tree_way){.via = BY_TREE_ALONE};
  assert_ok(by_address_parse("[fd00::2]:7613", &message.ways[1].address));
  tree("TREE for a server", &message);
  message.exact = true;
  message.n_sets = 2;
  message.sets[0].workers = 1;
  message.sets[1].workers = 3;
  tree("TREE for a server in exact mode", &message);
}

static void tree_ask(const char *name, enum by_tree_ask_kind kind, uint32_t version) {
  struct by_tree_ask read;
  begin();
  by_tree_ask_write(&writer, &(struct by_tree_ask){kind, version});
  assert_ok(by_tree_ask_read(bytes, writer.length, &read));
  by_tree_ask_write(&second, &read);
  check(name);
}

static void tree_report(const char *name, const struct by_tree_report *report) {
  struct by_tree_report read;
  begin();
  by_tree_report_write(&writer, report);
  assert_ok(by_tree_report_read(bytes, writer.length, &read));
  by_tree_report_write(&second, &read);
  check(name);
}

static void test_tree_ends(void **state) {
  (void)state;
  tree_ask("TREE_ASK, OPEN", BY_TREE_OPEN, 0);
  tree_ask("TREE_ASK, END", BY_TREE_END, 7);
  tree_report("TREE_REPORT, AT", &(struct by_tree_report){.kind = BY_TREE_AT, .port = 7612});
  tree_report("TREE_REPORT, READY", &(struct by_tree_report){.kind = BY_TREE_READY, .version = 7, .server = 4});
  tree_report("TREE_REPORT, REFUSED",
              &(struct by_tree_report){.kind = BY_TREE_REFUSED, .version = 7, .server = 4, .text = "no memory"});
  tree_report("TREE_REPORT, UNUSED", &(struct by_tree_report){.kind = BY_TREE_UNUSED, .version = 7});
}

/* ---- new plans ---- */

static void plan_switch(const char *name, struct by_plan_switch_message message) {
  struct by_plan_switch_message read;
  message.comm = 0x11121314;
  message.number = 7;
  begin();
  by_plan_switch_message_write(&writer, &message);
  assert_ok(by_plan_switch_message_read(bytes, writer.length, &read));
  by_plan_switch_message_write(&second, &read);
  check(name);
}

static void test_plan_switches(void **state) {
  static const uint8_t processes[8] = {4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  static const char why[] = "it has no such communicator";
  static const struct by_iteration iteration = {.began = 12, .period = 4};
  (void)state;
  plan_switch("MOVE, PROPOSE", (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_PROPOSE,
                                                               .origin = {.source = BANYAN_PLAN_JSON, .supplied = true},
                                                               .trees = 3,
                                                               .processes = processes,
                                                               .n_processes = 2,
                                                               .text = plan_text,
                                                               .length = strlen(plan_text)});
  plan_switch("MOVE, FIX",
              (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_FIX, .at = 0x2122232425262728, .text = ""});
  plan_switch("MOVE, TAKE", (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_TAKE, .at = 16, .text = ""});
  plan_switch("MOVE, DROP",
              (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_DROP, .text = why, .length = strlen(why)});
  plan_switch("MOVE, LINK", (struct by_plan_switch_message){
                                .kind = BY_PLAN_SWITCH_LINK, .processes = processes, .n_processes = 1, .text = ""});
  plan_switch("MOVE, PREPARED", (struct by_plan_switch_message){
                                    .kind = BY_PLAN_SWITCH_PREPARED, .at = 14, .iteration = iteration, .text = ""});
  plan_switch("MOVE, FIXED", (struct by_plan_switch_message){
                                 .kind = BY_PLAN_SWITCH_FIXED, .at = 15, .iteration = iteration, .text = ""});
  plan_switch("MOVE, REFUSED",
              (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_REFUSED, .text = why, .length = strlen(why)});
  plan_switch("MOVE, NOT_YET", (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_NOT_YET, .text = ""});
  plan_switch("MOVE, LINKED", (struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_LINKED, .text = ""});
  plan_switch("MOVE, WANTED", (struct by_plan_switch_message){
                                  .kind = BY_PLAN_SWITCH_WANTED, .processes = processes, .n_processes = 1, .text = ""});
}

/* ---- timelines ---- */

static void timeline(const char *name, const struct by_timeline_message *message) {
  struct by_timeline_message read;
  struct by_reader reader;
  begin();
  by_timeline_message_write(&writer, message);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &read));
  by_timeline_message_write(&second, &read);
  check(name);
}

static void test_timelines(void **state) {
  struct by_timeline_message end = {.kind = BY_TIMELINE_END, .missing = 3, .error = 4};
  (void)state;
  for (uint64_t s = 0; s < BY_TRACE_STATES; s++)
    end.totals[s] = (struct by_trace_totals){.n = s + 1, .bytes = s << 20, .ns = s << 32};
  timeline("TIMELINE, ON", &(struct by_timeline_message){.kind = BY_TIMELINE_ON, .most = 0x0102030405060708});
  timeline("TIMELINE, OFF", &(struct by_timeline_message){.kind = BY_TIMELINE_OFF, .most = 65536});
  timeline("TIMELINE, PING", &(struct by_timeline_message){.kind = BY_TIMELINE_PING, .sent = 1000});
  timeline("TIMELINE, PONG", &(struct by_timeline_message){.kind = BY_TIMELINE_PONG, .sent = 1000, .now = 2000});
  timeline("TIMELINE, END", &end);
  timeline("TIMELINE, TAKEN", &(struct by_timeline_message){.kind = BY_TIMELINE_TAKEN});
}

static void test_records(void **state) {
  struct by_trace_record records[2] = {{.id = 5,
                                        .bytes = 4096,
                                        .at = {11, 12, 13, 14, 15, 16},
                                        .added = 17,
                                        .adding = 18,
                                        .team = 9,
                                        .call = 10,
                                        .collective = BANYAN_REDUCE_SCATTER,
                                        .has_call = true,
                                        .name = "layer1.weight"},
                                       {.id = 6, .status = BANYAN_ERR_TIMEOUT}};
  struct by_timeline_message message = {.kind = BY_TIMELINE_RECORDS, .n = 2};
  struct by_trace_record record;
  struct by_reader reader;
  (void)state;
  begin();
  by_timeline_message_write(&writer, &message);
  for (int i = 0; i < 2; i++) by_timeline_write_record(&writer, &records[i]);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &message));
  by_timeline_message_write(&second, &message);
  for (int i = 0; i < 2; i++) {
    assert_true(by_timeline_read_record(&reader, &record));
    by_timeline_write_record(&second, &record);
  }
  check("TIMELINE, RECORDS");
}

/* ---- paths ---- */

static void paths(const char *name, const struct by_path_message *message) {
  struct by_path_message read;
  begin();
  by_path_message_write(&writer, message);
  assert_ok(by_path_message_read(bytes, writer.length, 8, &read));
  by_path_message_write(&second, &read);
  check(name);
}

static void test_paths(void **state) {
  (void)state;
  paths("PATHS, WATCH", &(struct by_path_message){.kind = BY_PATH_WATCH, .interval = 1000});
  paths("PATHS, PROBE",
        &(struct by_path_message){.kind = BY_PATH_PROBE,
                                  .process = 3,
                                  .test = {.first = 75000, .within = 36, .bytes = 0x2122232425262728, .lasts = 150}});
  paths("PATHS, REPORT",
        &(struct by_path_message){.kind = BY_PATH_REPORT,
                                  .n = 2,
                                  .rates = {{.process = 1, .sent = 90000000, .bandwidth = 100000000, .busy = 900000},
                                            {.process = 7, .sent = 1000, .busy = 3}}});
  paths("PATHS, PROBED", &(struct by_path_message){.kind = BY_PATH_PROBED, .process = 3, .bandwidth = 95000000});
}

/* ---- the network */

static void network(const char *name, const struct by_network_message *message) {
  struct by_network_message read;
  begin();
  by_network_message_write(&writer, message);
  assert_ok(by_network_message_read(bytes, writer.length, &read));
  by_network_message_write(&second, &read);
  check(name);
}

static void test_network(void **state) {
  static const uint8_t nodes[8] = {2, 0, 0, 0, 1, 0, 0, 0};
  static const char text[] = "{\"format\": \"banyan-topology 1\"}";
  (void)state;
  network("NETWORK",
          &(struct by_network_message){
              .source = BANYAN_PLAN_MEASURED, .nodes = nodes, .n_hosts = 2, .text = text, .length = strlen(text)});
  network("NETWORK, not known", &(struct by_network_message){.text = ""});
}

/* ---- what is carried into the next membership */

static void test_carried(void **state) {
  static const char text[] = "{\"format\": \"banyan-topology 1\"}";
  struct by_carried_host hosts[] = {{"5f0c net:[1] pid:[2]", 3}, {"6e1d net:[3] pid:[4]", 1}};
  struct by_carried_message message = {.decision = BY_CARRIED_PLANNED,
                                       .source = BANYAN_PLAN_MEASURED,
                                       .n_hosts = 2,
                                       .hosts = hosts,
                                       .topology = text,
                                       .topology_length = strlen(text),
                                       .plan = "ring",
                                       .plan_length = 4,
                                       .plan_ranks = 5,
                                       .plan_of = {{1, 2, 3}}};
  struct by_carried_message read;
  struct by_arena arena;
  uint8_t *first, *rewritten;
  size_t length, length_again;
  (void)state;
  by_arena_init(&arena);
  assert_ok(by_carried_message_write(&message, &first, &length));
  golden_bytes("carried", first, length);
  assert_ok(by_carried_message_read(first, length, &arena, &read));
  assert_ok(by_carried_message_write(&read, &rewritten, &length_again));
  assert_int_equal(length_again, length);
  assert_memory_equal(rewritten, first, length);
  free(first);
  free(rewritten);
  by_arena_fini(&arena);
}

int golden_payloads(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts),     cmocka_unit_test(test_plans),         cmocka_unit_test(test_trees),
      cmocka_unit_test(test_tree_ends), cmocka_unit_test(test_plan_switches), cmocka_unit_test(test_timelines),
      cmocka_unit_test(test_records),   cmocka_unit_test(test_paths),         cmocka_unit_test(test_network),
      cmocka_unit_test(test_carried),   cmocka_unit_test(golden_end),
  };
  golden_begin("payloads", "Payloads of control messages.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
