#include "control_messages.h"

#include <stdlib.h>
#include <string.h>

#include "message_fields.h"
#include "plan.h"
#include "text.h"

/* ---- hellos */

static const struct by_field join_fields[] = {
    BY_FIELD(by_join, rank, BY_FIELD_U32, .most = UINT32_MAX),
    BY_FIELD(by_join, size, BY_FIELD_U32, .most = UINT32_MAX),
    BY_FIELD(by_join, plan_version, BY_FIELD_U32, .most = UINT32_MAX),
};

void by_join_write(struct by_writer *writer, const struct by_join *hello) {
  by_fields_write(writer, BY_FIELDS(join_fields), hello);
  by_write_string(writer, hello->plan ? hello->plan : "");
  by_member_write(writer, &hello->member);
}

enum banyan_status by_join_read(const void *bytes, size_t length, struct by_arena *arena, struct by_join *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_join){0};
  BY_TRY(by_fields_read(&reader, BY_FIELDS(join_fields), "a hello", out));
  out->plan = by_read_string_in(&reader, arena, BY_MEMBER_STRING);
  if (reader.failed) return by_reader_check(&reader, "a hello");
  BY_TRY(by_member_read(&reader, arena, &out->member));
  return by_reader_check(&reader, "a hello");
}

/* ---- texts */

static const struct by_field text_fields[] = {
    BY_FIELD(by_text_message, status, BY_FIELD_U32, .least = BANYAN_OK + 1, .most = UINT32_MAX),
    BY_FIELD(by_text_message, process, BY_FIELD_U32, .most = UINT32_MAX),
    BY_FIELD(by_text_message, text, BY_FIELD_STRING),
};

void by_text_message_write(struct by_writer *writer, enum banyan_status status, uint32_t process, const char *text) {
  struct by_text_message message = {.status = status, .process = process};
  by_fields_write(writer, text_fields, 2, &message); /* the numbers; the text is written from where it is */
  by_write_string(writer, text);
}

enum banyan_status by_text_message_read(const void *bytes, size_t length, struct by_text_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  BY_TRY(by_fields_read(&reader, BY_FIELDS(text_fields), "a control message", out));
  return by_reader_check(&reader, "a control message");
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

/* Marks those of a list; false: one is out of range, or was there before. */
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
  return status == BANYAN_OK ? by_team_set_helped_plan(team, seen, message->helpers) : status;
}
