/* Messages on control connections of a job with helpers. The first byte selects the kind: a hello; a text such as that
 * of LOST; a PLAN in its wire format; a PLAN that is composed of numbers and the plan's JSON after them; a TREE; plan
 * switch messages; a TIMELINE; a TREE_ASK; a TREE_REPORT; PATHS; NETWORK; or REFUSALS.
 *
 * A message that can be read has the same content after it is written and read again. A TREE makes a worker or a
 * server. A PLAN goes to a helper's engine, which then loses helpers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "control_messages.h"
#include "control_paths.h"
#include "job_network.h"
#include "plan.h"
#include "plan_switch_message.h"
#include "server.h"
#include "timeline_records.h"
#include "worker.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3, HELPERS = 3, SELF = RANKS, ROOM = 1 << 16 };
enum {
  READ_HELLO,
  READ_TEXT,
  READ_PLAN,
  READ_MADE_PLAN,
  READ_TREE,
  READ_PLAN_SWITCHES,
  READ_TIMELINE,
  READ_TREE_ASK,
  READ_TREE_REPORT,
  READ_PATHS,
  READ_NETWORK,
  READ_REFUSALS,
  KINDS
};

static void read_hello(const uint8_t *data, size_t size) {
  struct by_arena arena;
  struct by_join join, again;
  struct by_writer writer;
  uint8_t bytes[8192];
  by_arena_init(&arena);
  if (by_join_read(data, size, &arena, &join) == BANYAN_OK) {
    by_writer_init(&writer, bytes, sizeof bytes);
    by_join_write(&writer, &join);
    assert(!writer.failed && by_join_read(bytes, writer.length, &arena, &again) == BANYAN_OK);
    assert(join.member.kind == again.member.kind && join.rank == again.rank && join.size == again.size);
    assert(by_member_same_host(&join.member, &again.member));
  }
  by_arena_fini(&arena);
}

static void read_text(const uint8_t *data, size_t size) {
  struct by_text_message message;
  struct by_writer writer;
  uint8_t bytes[BY_MESSAGE_TEXT + 64];
  if (by_text_message_read(data, size, &message) != BANYAN_OK) return;
  assert(message.status != BANYAN_OK && memchr(message.text, 0, sizeof message.text));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, message.status, message.process, message.text);
  assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
}

static void read_refusals(const uint8_t *data, size_t size) {
  struct by_refusals_message message;
  struct by_writer writer;
  uint8_t bytes[BY_REFUSALS_BYTES];
  if (by_refusals_message_read(data, size, &message) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_refusals_message_write(&writer, &message);
  assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
}

/* ---- plans */

static void connect_nobody(void *context, uint32_t process) {
  (void)context;
  assert(process < RANKS + HELPERS && process != SELF);
}

static struct by_engine *make_engine(void) {
  struct by_engine_options options = {
      .clock = by_clock_system, .processes = RANKS + HELPERS, .ranks = RANKS, .self = SELF, .connect = connect_nobody};
  struct by_engine *engine;
  assert(by_engine_create(&options, &engine) == BANYAN_OK);
  return engine;
}

static void check_again(const struct by_plan_message *message) {
  struct by_plan_message again;
  uint8_t *bytes;
  size_t length;
  assert(by_plan_message_write(message->id, message->processes, message->helpers, message->plan, &bytes, &length) ==
         BANYAN_OK);
  assert(by_plan_message_read(bytes, length, (struct by_roster){RANKS, RANKS + HELPERS}, &again) == BANYAN_OK);
  assert(again.id == message->id && again.plan->version == message->plan->version);
  assert(!memcmp(again.processes, message->processes, message->n * sizeof *message->processes));
  assert(!memcmp(again.helpers, message->helpers, message->n_helpers * sizeof *message->helpers));
  by_plan_message_fini(&again);
  free(bytes);
}

/* Two plans are set: the second one replaces the first. */
static void set_plan(const uint8_t *data, size_t size) {
  struct by_engine *engine = make_engine();
  struct by_plan_message message;
  for (uint32_t lost = RANKS; lost < RANKS + HELPERS; lost++) {
    if (by_plan_message_read(data, size, (struct by_roster){RANKS, RANKS + HELPERS}, &message) != BANYAN_OK) break;
    check_again(&message);
    bool taken = by_plan_message_set(&message, engine, SELF) == BANYAN_OK;
    by_plan_message_fini(&message);
    if (!taken) break;
    by_engine_progress(engine);
    if (lost != SELF) by_engine_lost(engine, lost);
    by_engine_progress(engine);
  }
  by_engine_destroy(engine);
}

/* Six bytes select the members and helpers, and the seventh byte their number. */
static void make_plan(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_writer writer;
  if (size < RANKS + HELPERS + 1) return;
  uint32_t n = data[RANKS + HELPERS] % (RANKS + 1), n_helpers = data[RANKS + HELPERS] / 16 % (HELPERS + 1);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_u32(&writer, 1);
  by_write_u32(&writer, n);
  for (uint32_t i = 0; i < n; i++) by_write_u32(&writer, data[i]);
  by_write_u32(&writer, n_helpers);
  for (uint32_t i = 0; i < n_helpers; i++) by_write_u32(&writer, data[RANKS + i] == 255 ? UINT32_MAX : data[RANKS + i]);
  by_write_blob(&writer, data + RANKS + HELPERS + 1, size - RANKS - HELPERS - 1);
  if (!writer.failed) set_plan(bytes, writer.length);
}

/* ---- trees through switches */

static void emit(void *context, const struct by_fragment *packet) {
  (void)context;
  (void)packet;
}

static void emit_to(void *context, const struct by_fragment *packet, int to) {
  (void)to;
  emit(context, packet);
}

static void make_worker(const struct by_tree_message *message) {
  struct by_worker_config config = {.rank = message->worker,
                                    .groups = message->groups,
                                    .slots = message->slots,
                                    .lines = message->lines,
                                    .hops = message->ways[0].hops,
                                    .emit = emit};
  struct by_worker *worker = NULL;
  memcpy(config.stack, message->ways[0].stack, sizeof config.stack);
  if (by_worker_create(&config, &worker) != BANYAN_OK) return; /* no room for the exponents of so many */
  by_worker_destroy(worker);
}

static void make_server(const struct by_tree_message *message) {
  static struct by_server_path ways[BY_TREE_WORKERS];
  struct by_server_config config = {.groups = message->groups,
                                    .slots = message->slots,
                                    .lines = message->lines,
                                    .secret = message->secret,
                                    .secret_bytes = sizeof message->secret,
                                    .paths = ways,
                                    .parts = 1,
                                    .emit = emit_to};
  struct by_server *server = NULL;
  for (uint32_t w = 0; w < by_workers_of(&message->groups); w++) ways[w].hops = message->ways[w].hops;
  assert(by_server_create(&config, &server) == BANYAN_OK);
  by_server_destroy(server);
}

static void emit_way(void *context, const struct by_fragment *packet, enum by_aggregator_direction way) {
  (void)context, (void)packet, (void)way;
}

static void make_aggregator(const struct by_tree_message *message) {
  struct by_aggregator_config config = {.job = message->job,
                                        .key = message->key,
                                        .groups = message->groups,
                                        .slots = message->slots,
                                        .lines = message->lines,
                                        .exact = message->exact,
                                        .secret = message->secret,
                                        .secret_bytes = sizeof message->secret,
                                        .emit = emit_way};
  struct by_aggregator *aggregator = NULL;
  assert(by_aggregator_create(&config, &aggregator) == BANYAN_OK);
  by_aggregator_destroy(aggregator);
}

static void read_tree(const uint8_t *data, size_t size) {
  static struct by_tree_message message, again;
  static uint8_t bytes[ROOM];
  struct by_roster roster = {RANKS, RANKS + HELPERS};
  struct by_writer writer;
  if (by_tree_message_read(data, size, roster, &message) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &message);
  assert(!writer.failed && by_tree_message_read(bytes, writer.length, roster, &again) == BANYAN_OK);
  assert(again.server == message.server && again.job == message.job && again.n_vias == message.n_vias);
  assert(!by_address_compare(&again.ways[0].address, &message.ways[0].address));
  assert(!memcmp(again.ways[0].stack, message.ways[0].stack, sizeof message.ways[0].stack));
  if (message.worker == BY_TREE_FOR_SERVER)
    make_server(&message);
  else if (message.worker == BY_TREE_FOR_AGGREGATOR)
    make_aggregator(&message);
  else
    make_worker(&message);
}

static void read_tree_ask(const uint8_t *data, size_t size) {
  struct by_tree_ask ask;
  struct by_writer writer;
  uint8_t bytes[16];
  if (by_tree_ask_read(data, size, &ask) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_ask_write(&writer, &ask);
  assert(writer.length == size && !memcmp(bytes, data, size));
}

/* A text is cut to what a message holds. */
static void read_tree_report(const uint8_t *data, size_t size) {
  static struct by_tree_report report, again;
  static uint8_t bytes[ROOM];
  struct by_writer writer;
  if (by_tree_report_read(data, size, &report) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_report_write(&writer, &report);
  assert(!writer.failed && by_tree_report_read(bytes, writer.length, &again) == BANYAN_OK);
  assert(again.kind == report.kind && again.version == report.version && again.server == report.server);
  assert(again.port == report.port && !strcmp(again.text, report.text));
}

/* ---- plan switches */

static void handle_plan_switch(struct by_plan_switch *plan_switch, const struct by_plan_switch_message *message) {
  if (message->kind == BY_PLAN_SWITCH_PROPOSE) (void)by_plan_switch_prepare(plan_switch, message->number);
  if (message->kind == BY_PLAN_SWITCH_FIX) (void)by_plan_switch_fix(plan_switch, message->number, message->at);
  if (message->kind == BY_PLAN_SWITCH_TAKE) (void)by_plan_switch_take(plan_switch, message->number);
  if (message->kind == BY_PLAN_SWITCH_DROP) (void)by_plan_switch_drop(plan_switch, message->number);
  assert(by_plan_switch_next(plan_switch, message->at + 1) == BY_PLAN_SWITCH_GOES_ON ||
         plan_switch->at == message->at + 1);
}

/* Reads messages that are separated by bytes of 255. */
static void read_plan_switches(const uint8_t *data, size_t size) {
  struct by_agreement agreement;
  struct by_plan_switch plan_switch = {0};
  by_agreement_init(&agreement, 2);
  for (size_t from = 0, to = 0; from < size; from = to + 1) {
    struct by_plan_switch_message message;
    struct by_writer writer;
    uint8_t bytes[256];
    for (to = from; to < size && data[to] != 255;) to++;
    if (by_plan_switch_message_read(data + from, to - from, &message) != BANYAN_OK) continue;
    by_writer_init(&writer, bytes, sizeof bytes);
    by_plan_switch_message_write(&writer, &message);
    assert(writer.length == to - from && (writer.failed || !memcmp(bytes, data + from, writer.length)));
    handle_plan_switch(&plan_switch, &message);
    if (message.kind >= BY_PLAN_SWITCH_PREPARED)
      (void)by_agreement_handle(&agreement, message.at, &message.iteration, 1);
  }
}

/* ---- timelines */

static void read_timeline(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_timeline_message message;
  struct by_trace_record record;
  struct by_reader reader;
  struct by_writer writer;
  by_reader_init(&reader, data, size);
  if (by_timeline_message_read(&reader, &message) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, &message);
  assert(!writer.failed && !memcmp(bytes, data, writer.length));
  for (uint32_t i = 0; i < message.n && by_timeline_read_record(&reader, &record); i++)
    assert(memchr(record.name, 0, sizeof record.name));
}

/* ---- paths */

static void read_paths(const uint8_t *data, size_t size) {
  uint8_t bytes[BY_PATH_MESSAGE_MAX];
  struct by_path_message message;
  struct by_writer writer;
  if (by_path_message_read(data, size, RANKS + HELPERS, &message) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_path_message_write(&writer, &message);
  assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
}

/* ---- the network */

static void read_network(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_network_message message;
  struct by_writer writer;
  if (by_network_message_read(data, size, &message) != BANYAN_OK) return;
  for (uint32_t h = 0; h < message.n_hosts; h++) (void)by_network_message_node(&message, h);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_network_message_write(&writer, &message);
  assert(writer.failed || (writer.length == size && !memcmp(bytes, data, size)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const kinds[KINDS])(const uint8_t *data, size_t size) = {
      read_hello,    read_text,     set_plan,         make_plan,  read_tree,    read_plan_switches,
      read_timeline, read_tree_ask, read_tree_report, read_paths, read_network, read_refusals};
  if (size) kinds[data[0] % KINDS](data + 1, size - 1);
  return 0;
}
