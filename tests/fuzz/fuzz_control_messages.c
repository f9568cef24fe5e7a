/* What comes in on control connections of a job with helpers. The first byte picks: a hello; a text such as LOST's; a
 * PLAN as it stands; one that is put together from numbers and, behind them, the plan's JSON; a TREE; MOVE words; or a
 * TIMELINE.
 * What can be read says the same when it is written and read again, and makes a worker or a server. A plan goes to a
 * helper's engine, which then loses helpers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "control_messages.h"
#include "plan.h"
#include "plan_switch_message.h"
#include "server.h"
#include "timeline_records.h"
#include "worker.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3, HELPERS = 3, SELF = RANKS, ROOM = 1 << 16 };
enum { HELLO, TEXT, PLAN, MADE_PLAN, TREE, PLAN_SWITCHES, TIMELINE, KINDS };

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
  struct by_text_message word;
  struct by_writer writer;
  uint8_t bytes[BY_MESSAGE_TEXT + 64];
  if (by_text_message_read(data, size, &word) != BANYAN_OK) return;
  assert(word.status != BANYAN_OK && memchr(word.text, 0, sizeof word.text));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, word.status, word.process, word.text);
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

static void check_again(const struct by_plan_message *word) {
  struct by_plan_message again;
  uint8_t *bytes;
  size_t length;
  assert(by_plan_message_write(word->id, word->processes, word->helpers, word->plan, &bytes, &length) == BANYAN_OK);
  assert(by_plan_message_read(bytes, length, (struct by_roster){RANKS, RANKS + HELPERS}, &again) == BANYAN_OK);
  assert(again.id == word->id && again.plan->version == word->plan->version);
  assert(!memcmp(again.processes, word->processes, word->n * sizeof *word->processes));
  assert(!memcmp(again.helpers, word->helpers, word->n_helpers * sizeof *word->helpers));
  by_plan_message_fini(&again);
  free(bytes);
}

/* Twice: the second plan replaces the first. */
static void set_plan(const uint8_t *data, size_t size) {
  struct by_engine *engine = make_engine();
  struct by_plan_message word;
  for (uint32_t lost = RANKS; lost < RANKS + HELPERS; lost++) {
    if (by_plan_message_read(data, size, (struct by_roster){RANKS, RANKS + HELPERS}, &word) != BANYAN_OK) break;
    check_again(&word);
    bool taken = by_plan_message_set(&word, engine, SELF) == BANYAN_OK;
    by_plan_message_fini(&word);
    if (!taken) break;
    by_engine_progress(engine);
    if (lost != SELF) by_engine_lost(engine, lost);
    by_engine_progress(engine);
  }
  by_engine_destroy(engine);
}

/* Six bytes say who the members and helpers are, and the seventh how many. */
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

static void make_worker(const struct by_tree_message *word) {
  struct by_worker_config config = {.rank = word->worker,
                                    .workers = word->workers,
                                    .slots = word->slots,
                                    .lines = word->lines,
                                    .hops = word->ways[0].hops,
                                    .emit = emit};
  struct by_worker *worker = NULL;
  memcpy(config.stack, word->ways[0].stack, sizeof config.stack);
  assert(by_worker_create(&config, &worker) == BANYAN_OK);
  by_worker_destroy(worker);
}

static void make_server(const struct by_tree_message *word) {
  struct by_server_way ways[BY_FRAGMENT_WORKERS] = {{0}};
  struct by_server_config config = {.workers = word->workers,
                                    .slots = word->slots,
                                    .lines = word->lines,
                                    .secret = word->secret,
                                    .secret_bytes = sizeof word->secret,
                                    .ways = ways,
                                    .parts = 1,
                                    .emit = emit_to};
  struct by_server *server = NULL;
  for (uint32_t w = 0; w < word->workers; w++) ways[w].hops = word->ways[w].hops;
  assert(by_server_create(&config, &server) == BANYAN_OK);
  by_server_destroy(server);
}

static void read_tree(const uint8_t *data, size_t size) {
  static struct by_tree_message word, again;
  static uint8_t bytes[ROOM];
  struct by_roster roster = {RANKS, RANKS + HELPERS};
  struct by_writer writer;
  if (by_tree_message_read(data, size, roster, &word) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &word);
  assert(!writer.failed && by_tree_message_read(bytes, writer.length, roster, &again) == BANYAN_OK);
  assert(again.server == word.server && again.job == word.job && again.spread == word.spread);
  assert(!by_address_compare(&again.ways[0].address, &word.ways[0].address));
  assert(!memcmp(again.ways[0].stack, word.ways[0].stack, sizeof word.ways[0].stack));
  if (word.worker == BY_TREE_FOR_SERVER)
    make_server(&word);
  else
    make_worker(&word);
}

/* ---- new plans */

static void handle_plan_switch(struct by_plan_switch *plan_switch, const struct by_plan_switch_message *word) {
  if (word->kind == BY_PLAN_SWITCH_PROPOSE) (void)by_plan_switch_prepare(plan_switch, word->number);
  if (word->kind == BY_PLAN_SWITCH_FIX) (void)by_plan_switch_fix(plan_switch, word->number, word->at);
  if (word->kind == BY_PLAN_SWITCH_TAKE) (void)by_plan_switch_take(plan_switch, word->number);
  if (word->kind == BY_PLAN_SWITCH_DROP) (void)by_plan_switch_drop(plan_switch, word->number);
  assert(by_plan_switch_next(plan_switch, word->at + 1) == BY_PLAN_SWITCH_GOES_ON || plan_switch->at == word->at + 1);
}

/* As many words as there are, each of the bytes before the next 255. */
static void read_plan_switches(const uint8_t *data, size_t size) {
  struct by_agreement agreement;
  struct by_plan_switch plan_switch = {0};
  by_agreement_init(&agreement, 2);
  for (size_t from = 0, to = 0; from < size; from = to + 1) {
    struct by_plan_switch_message word;
    struct by_writer writer;
    uint8_t bytes[256];
    for (to = from; to < size && data[to] != 255;) to++;
    if (by_plan_switch_message_read(data + from, to - from, &word) != BANYAN_OK) continue;
    by_writer_init(&writer, bytes, sizeof bytes);
    by_plan_switch_message_write(&writer, &word);
    assert(writer.length == to - from && (writer.failed || !memcmp(bytes, data + from, writer.length)));
    handle_plan_switch(&plan_switch, &word);
    if (word.kind >= BY_PLAN_SWITCH_PREPARED) (void)by_agreement_handle(&agreement, word.at, &word.iteration, 1);
  }
}

/* ---- timelines */

static void read_timeline(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_timeline_message word;
  struct by_trace_record record;
  struct by_reader reader;
  struct by_writer writer;
  by_reader_init(&reader, data, size);
  if (by_timeline_message_read(&reader, &word) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, &word);
  assert(!writer.failed && !memcmp(bytes, data, writer.length));
  for (uint32_t i = 0; i < word.n && by_timeline_read_record(&reader, &record); i++)
    assert(memchr(record.name, 0, sizeof record.name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const kinds[KINDS])(const uint8_t *data, size_t size) = {
      read_hello, read_text, set_plan, make_plan, read_tree, read_plan_switches, read_timeline};
  if (size) kinds[data[0] % KINDS](data + 1, size - 1);
  return 0;
}
