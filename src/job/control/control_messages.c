/* Encodes and decodes the messages of control connections, except those of plan switches and the timeline. */
#include "control_messages.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "plan.h"
#include "text.h"

/* ---- hellos */

static const struct by_field join_fields[] = {
    BY_FIELD(by_join, rank, BY_FIELD_U32),         BY_FIELD(by_join, size, BY_FIELD_U32),
    BY_FIELD(by_join, plan_version, BY_FIELD_U32), BY_FIELD(by_join, plan, BY_FIELD_TEXT, .max = BY_MEMBER_STRING),
    BY_FIELD(by_join, membership, BY_FIELD_U64),   BY_FIELD(by_join, name, BY_FIELD_U64),
};

void by_join_write(struct by_writer *writer, const struct by_join *hello) {
  by_fields_write(writer, BY_FIELDS(join_fields), hello);
  by_member_write(writer, &hello->member);
  by_write_blob(writer, hello->statement, hello->statement_length);
}

/* Adds a statement to a hello, which ends with the statement's length, 0. */
void by_join_add_statement(struct by_writer *writer, const uint8_t *hello, size_t length, const uint8_t *statement,
                           size_t statement_length) {
  by_write_bytes(writer, hello, length - 4);
  by_write_blob(writer, statement, statement_length);
}

enum banyan_status by_join_read(const void *bytes, size_t length, struct by_arena *arena, struct by_join *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_join){0};
  BY_TRY(by_fields_read(&reader, arena, BY_FIELDS(join_fields), "a hello", out));
  BY_TRY(by_member_read(&reader, arena, &out->member));
  out->statement = by_read_blob(&reader, &out->statement_length);
  return by_reader_check(&reader, "a hello");
}

/* ---- texts */

static const struct by_field text_fields[] = {
    BY_FIELD(by_text_message, status, BY_FIELD_U32, .min = BANYAN_OK + 1),
    BY_FIELD(by_text_message, process, BY_FIELD_U32),
    BY_FIELD(by_text_message, text, BY_FIELD_STRING),
};

void by_text_message_write(struct by_writer *writer, enum banyan_status status, uint32_t process, const char *text) {
  struct by_text_message message = {.status = status, .process = process};
  by_fields_write(writer, text_fields, 2, &message); /* Writes the numbers; the text follows. */
  by_write_string(writer, text);
}

enum banyan_status by_text_message_read(const void *bytes, size_t length, struct by_text_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(text_fields), "a control message", out));
  return by_reader_check(&reader, "a control message");
}

/* ---- refusals */

void by_refusals_message_write(struct by_writer *writer, const struct by_refusals_message *message) {
  by_write_u32(writer, BY_REFUSAL_REASONS);
  for (int r = 0; r < BY_REFUSAL_REASONS; r++) by_write_u64(writer, message->counts[r]);
}

enum banyan_status by_refusals_message_read(const void *bytes, size_t length, struct by_refusals_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  uint32_t n = by_read_u32(&reader);
  if (n != BY_REFUSAL_REASONS)
    return by_fail(BANYAN_ERR_PROTOCOL, "a list of refusals has %u reasons, of which there are %d", n,
                   BY_REFUSAL_REASONS);
  for (uint32_t r = 0; r < n; r++) out->counts[r] = by_read_u64(&reader);
  return by_reader_check(&reader, "a list of refusals");
}

/* ---- plans */

static void write_list(struct by_writer *writer, const uint32_t *list, uint32_t n) {
  by_write_u32(writer, n);
  for (uint32_t i = 0; i < n; i++) by_write_u32(writer, list[i]);
}

enum banyan_status by_plan_message_write(uint32_t id, const uint32_t *processes, const uint32_t *helpers,
                                         const struct by_plan *plan, uint8_t **bytes, size_t *length) {
  struct by_text json;
  struct by_writer writer;
  by_text_init(&json);
  by_plan_print(plan, &json);
  size_t room = 4 * (4 + (size_t)plan->n_vertices) + json.length;
  *bytes = json.failed ? NULL : malloc(room);
  by_writer_init(&writer, *bytes, *bytes ? room : 0);
  by_write_u32(&writer, id);
  write_list(&writer, processes, plan->n_ranks);
  write_list(&writer, helpers, plan->n_vertices - plan->n_ranks);
  by_write_string(&writer, by_text_get(&json));
  by_text_fini(&json);
  *length = writer.length;
  return *bytes ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for plan '%s'", plan->name);
}

static enum banyan_status read_list(struct by_reader *reader, uint32_t **list, uint32_t *n) {
  *n = by_read_count(reader, sizeof(uint32_t));
  *list = calloc((size_t)*n + 1, sizeof **list);
  if (!*list) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (uint32_t i = 0; i < *n; i++) (*list)[i] = by_read_u32(reader);
  return BANYAN_OK;
}

/* Marks the processes of a list. False: one is out of range, or was marked before. */
static bool take_processes(const uint32_t *list, uint32_t n, uint32_t from, uint32_t below, bool *taken) {
  for (uint32_t i = 0; i < n; i++) {
    if (list[i] == UINT32_MAX && from > 0) continue;
    if (list[i] < from || list[i] >= below || taken[list[i]]) return false;
    taken[list[i]] = true;
  }
  return true;
}

static enum banyan_status check_processes(const struct by_plan_message *message, struct by_roster roster) {
  bool *taken = calloc(roster.processes, sizeof *taken);
  if (!taken) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  bool fits = take_processes(message->processes, message->n, 0, roster.ranks, taken) &&
              take_processes(message->helpers, message->n_helpers, roster.ranks, roster.processes, taken);
  free(taken);
  return fits ? BANYAN_OK : by_fail(BANYAN_ERR_PROTOCOL, "a plan for helpers names processes that cannot be there");
}

static enum banyan_status read_plan(struct by_reader *reader, struct by_roster roster, struct by_plan_message *out) {
  size_t length;
  out->id = by_read_u32(reader);
  BY_TRY(read_list(reader, &out->processes, &out->n));
  BY_TRY(read_list(reader, &out->helpers, &out->n_helpers));
  const char *json = (const char *)by_read_blob(reader, &length);
  BY_TRY(by_reader_check(reader, "a plan for helpers"));
  BY_TRY(check_processes(out, roster));
  BY_TRY(by_plan_parse("rank 0's plan", json, length, &out->plan));
  if (out->plan->n_ranks == out->n && out->plan->n_vertices - out->n == out->n_helpers) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "a plan for helpers that does not fit its ranks");
}

enum banyan_status by_plan_message_read(const void *bytes, size_t length, struct by_roster roster,
                                        struct by_plan_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_plan_message){0};
  enum banyan_status status = read_plan(&reader, roster, out);
  if (status != BANYAN_OK) by_plan_message_fini(out);
  return status;
}

void by_plan_message_fini(struct by_plan_message *message) {
  free(message->processes);
  free(message->helpers);
  by_plan_destroy(message->plan);
  *message = (struct by_plan_message){0};
}

static bool is_in(const struct by_plan_message *message, uint32_t process) {
  for (uint32_t i = 0; i < message->n_helpers; i++)
    if (message->helpers[i] == process) return true;
  return false;
}

enum banyan_status by_plan_message_set(struct by_plan_message *message, struct by_engine *engine, uint32_t self) {
  struct by_team *team = by_engine_team(engine, message->id);
  struct by_plan *plan = message->plan;
  if (!is_in(message, self)) return BANYAN_OK;
  if (!team) BY_TRY(by_team_create(engine, message->id, message->n, message->n, message->processes, &team));
  message->plan = NULL;
  struct by_plan *seen;
  enum banyan_status status = by_plan_without_switches(plan, &seen);
  by_plan_destroy(plan);
  return status == BANYAN_OK ? by_team_set_helped_plan(team, seen, message->helpers, 0) : status;
}

/* ---- in-network trees */

static bool for_server(const struct by_tree_message *message) {
  return message->worker == BY_TREE_FOR_SERVER;
}

static uint32_t count_ways(const struct by_tree_message *message) {
  return for_server(message) ? by_workers_of(&message->groups) : 1;
}

static void write_set(struct by_writer *writer, struct by_worker_set set) {
  by_write_u8(writer, set.group);
  by_write_u64(writer, set.workers);
}

static void write_way(struct by_writer *writer, const struct by_tree_way *way, const struct by_worker_set *below) {
  char text[BY_ADDRESS_TEXT];
  by_write_string(writer, by_address_print(&way->address, text));
  by_write_u8(writer, (uint8_t)way->via);
  by_write_u8(writer, (uint8_t)way->hops);
  for (unsigned i = 0; i < way->hops; i++) {
    by_write_u8(writer, way->stack[i].port);
    by_write_u8(writer, way->stack[i].workers);
    if (below) write_set(writer, below[i]);
  }
}

static void write_via(struct by_writer *writer, const struct by_tree_via *via) {
  char text[BY_ADDRESS_TEXT];
  by_write_string(writer, by_address_print(&via->address, text));
  by_write_u32(writer, via->aggregator);
}

static const struct by_field tree_fields[] = {
    BY_FIELD(by_tree_message, server, BY_FIELD_U32),
    BY_FIELD(by_tree_message, version, BY_FIELD_U32),
    BY_FIELD(by_tree_message, job, BY_FIELD_U32, .max = UINT16_MAX),
    BY_FIELD(by_tree_message, key, BY_FIELD_U32, .max = UINT16_MAX),
    BY_FIELD(by_tree_message, slots, BY_FIELD_U32, .min = 1, .max = BY_TREE_SLOTS),
    BY_FIELD(by_tree_message, lines, BY_FIELD_U32, .min = 1, .max = BY_FRAGMENT_LINES),
    BY_FIELD(by_tree_message, secret, BY_FIELD_BYTES),
    BY_FIELD(by_tree_message, exact, BY_FIELD_U8, .flag = true),
    BY_FIELD(by_tree_message, keyed, BY_FIELD_U8, .flag = true),
    BY_FIELD(by_tree_message, groups.n, BY_FIELD_U32, .min = 1, .max = BY_FRAGMENT_GROUPS),
    BY_FIELD(by_tree_message, worker, BY_FIELD_U32),
    BY_FIELD(by_tree_message, n_vias, BY_FIELD_U32, .max = BY_FRAGMENT_PORTS),
    BY_FIELD(by_tree_message, n_sets, BY_FIELD_U32, .max = BY_TREE_SETS),
};

void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message) {
  by_fields_write(writer, BY_FIELDS(tree_fields), message);
  for (uint32_t g = 0; g < message->groups.n; g++) by_write_u8(writer, (uint8_t)by_group_size(&message->groups, g));
  for (uint32_t i = 0; i < message->n_vias; i++) write_via(writer, &message->vias[i]);
  for (uint32_t i = 0; i < message->n_sets; i++) write_set(writer, message->sets[i]);
  for (uint32_t i = 0; i < count_ways(message); i++)
    write_way(writer, &message->ways[i], for_server(message) ? NULL : message->below);
}

static struct by_worker_set read_set(struct by_reader *reader) {
  struct by_worker_set set = {.group = by_read_u8(reader)};
  set.workers = by_read_u64(reader);
  return set;
}

static enum banyan_status read_groups(struct by_reader *reader, struct by_tree_message *message) {
  struct by_worker_groups *groups = &message->groups;
  for (uint32_t g = 0; g < groups->n; g++)
    groups->first[g + 1] = (uint16_t)(groups->first[g] + (unsigned)by_read_u8(reader));
  if (!by_groups_are_valid(groups))
    return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree of %u workers in %u groups", groups->first[groups->n],
                   groups->n);
  if (message->worker < BY_TREE_FOR_AGGREGATOR && message->worker >= by_workers_of(groups))
    return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree names more than its %u workers", by_workers_of(groups));
  return BANYAN_OK;
}

static enum banyan_status read_address(struct by_reader *reader, struct by_address *out) {
  char text[BY_ADDRESS_TEXT];
  by_read_string(reader, text, sizeof text);
  if (by_address_parse(text, out) == BANYAN_OK) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree with \"%s\", which is no address", text);
}

static enum banyan_status read_via(struct by_reader *reader, struct by_roster roster, struct by_tree_via *via) {
  BY_TRY(read_address(reader, &via->address));
  via->aggregator = by_read_u32(reader);
  if (via->aggregator == UINT32_MAX || (via->aggregator >= roster.ranks && via->aggregator < roster.processes))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree: process %u is no aggregator", via->aggregator);
}

static enum banyan_status read_way(struct by_reader *reader, const struct by_tree_message *message,
                                   struct by_tree_way *way, struct by_worker_set *below) {
  BY_TRY(read_address(reader, &way->address));
  way->via = by_read_u8(reader);
  way->hops = by_read_u8(reader);
  if (way->via != BY_TREE_ALONE && way->via >= message->n_vias)
    return by_fail(BANYAN_ERR_PROTOCOL, "a way via address %u of %u", way->via, message->n_vias);
  if (way->hops > BY_FRAGMENT_HOPS) return by_fail(BANYAN_ERR_PROTOCOL, "a way over %u switches", way->hops);
  for (unsigned i = 0; i < way->hops; i++) {
    way->stack[i].port = by_read_u8(reader);
    way->stack[i].workers = by_read_u8(reader);
    if (below) below[i] = read_set(reader);
    if (way->stack[i].port >= BY_FRAGMENT_PORTS || way->stack[i].workers > BY_HOP_MAX)
      return by_fail(BANYAN_ERR_PROTOCOL, "a way by port %u", way->stack[i].port);
  }
  return BANYAN_OK;
}

enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                        struct by_tree_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_tree_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(tree_fields), "an in-network tree", out));
  if (out->server < roster.ranks || out->server >= roster.processes)
    return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree: process %u is no server", out->server);
  BY_TRY(read_groups(&reader, out));
  for (uint32_t i = 0; i < out->n_vias; i++) BY_TRY(read_via(&reader, roster, &out->vias[i]));
  for (uint32_t i = 0; i < out->n_sets; i++) out->sets[i] = read_set(&reader);
  for (uint32_t i = 0; i < count_ways(out); i++)
    BY_TRY(read_way(&reader, out, &out->ways[i], for_server(out) ? NULL : out->below));
  return by_reader_check(&reader, "an in-network tree");
}

static const struct by_field ask_fields[] = {
    BY_FIELD(by_tree_ask, kind, BY_FIELD_U8, .min = BY_TREE_OPEN, .max = BY_TREE_END),
    BY_FIELD(by_tree_ask, version, BY_FIELD_U32),
};

void by_tree_ask_write(struct by_writer *writer, const struct by_tree_ask *ask) {
  by_fields_write(writer, BY_FIELDS(ask_fields), ask);
}

enum banyan_status by_tree_ask_read(const void *bytes, size_t length, struct by_tree_ask *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_tree_ask){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(ask_fields), "a question about in-network trees", out));
  return by_reader_check(&reader, "a question about in-network trees");
}

static const struct by_field report_fields[] = {
    BY_FIELD(by_tree_report, kind, BY_FIELD_U8, .min = BY_TREE_AT, .max = BY_TREE_UNUSED),
    BY_FIELD(by_tree_report, version, BY_FIELD_U32),
    BY_FIELD(by_tree_report, server, BY_FIELD_U32),
    BY_FIELD(by_tree_report, port, BY_FIELD_U32, .max = UINT16_MAX),
    BY_FIELD(by_tree_report, text, BY_FIELD_STRING),
};

void by_tree_report_write(struct by_writer *writer, const struct by_tree_report *report) {
  by_fields_write(writer, BY_FIELDS(report_fields), report);
}

enum banyan_status by_tree_report_read(const void *bytes, size_t length, struct by_tree_report *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_tree_report){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(report_fields), "a report about in-network trees", out));
  return by_reader_check(&reader, "a report about in-network trees");
}
