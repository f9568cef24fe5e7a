/* The messages of plan switches as bytes, and the state machines of the leader and of a member. */
#include "plan_switch_message.h"

#include "bytes.h"

/* ---- the message */

static const struct by_field fields[] = {
    BY_FIELD(by_plan_switch_message, kind, BY_FIELD_U8, .min = BY_PLAN_SWITCH_PROPOSE, .max = BY_PLAN_SWITCH_WANTED),
    BY_FIELD(by_plan_switch_message, comm, BY_FIELD_U32),
    BY_FIELD(by_plan_switch_message, number, BY_FIELD_U32),
    BY_FIELD(by_plan_switch_message, at, BY_FIELD_U64),
    BY_FIELD(by_plan_switch_message, origin.source, BY_FIELD_U8, .max = BANYAN_PLAN_SOURCES - 1),
    BY_FIELD(by_plan_switch_message, origin.supplied, BY_FIELD_U8, .flag = true, .max = 1),
    BY_FIELD(by_plan_switch_message, trees, BY_FIELD_U32),
    BY_FIELD(by_plan_switch_message, iteration.began, BY_FIELD_U64),
    BY_FIELD(by_plan_switch_message, iteration.period, BY_FIELD_U64),
};

void by_plan_switch_message_write(struct by_writer *writer, const struct by_plan_switch_message *message) {
  by_fields_write(writer, BY_FIELDS(fields), message);
  by_write_blob(writer, message->processes, 4 * message->n_processes);
  by_write_blob(writer, message->text, message->length);
}

enum banyan_status by_plan_switch_message_read(const void *bytes, size_t length, struct by_plan_switch_message *out) {
  static const char what[] = "a message about a plan switch";
  struct by_reader reader;
  size_t room;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_plan_switch_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(fields), what, out));
  out->processes = by_read_blob(&reader, &room);
  out->n_processes = room / 4;
  out->text = (const char *)by_read_blob(&reader, &out->length);
  if (room % 4) return by_fail(BANYAN_ERR_PROTOCOL, "%s: its list of processes has %zu bytes", what, room);
  return by_reader_check(&reader, what);
}

uint32_t by_plan_switch_message_process(const struct by_plan_switch_message *message, size_t i) {
  return by_get_u32(message->processes + 4 * i);
}

/* ---- the leader */

static void handle_iteration(struct by_agreement *agreement, const struct by_iteration *iteration) {
  struct by_iteration *all = &agreement->iteration;
  if (agreement->missing == agreement->members) *all = *iteration;
  if (all->period &&
      (all->period != iteration->period || all->began % all->period != iteration->began % iteration->period))
    all->period = 0;
}

/* Returns the first call of an iteration, from `at` on. */
static uint64_t next_iteration(const struct by_iteration *iteration, uint64_t at) {
  return iteration->period ? at + (iteration->period - (at - iteration->began) % iteration->period) % iteration->period
                           : at;
}

void by_agreement_init(struct by_agreement *agreement, uint32_t members) {
  *agreement = (struct by_agreement){.members = members, .missing = members};
}

static enum by_agreement_next ask(struct by_agreement *agreement) {
  agreement->missing = agreement->members;
  agreement->fixing = true;
  agreement->passed = false;
  agreement->at = next_iteration(&agreement->iteration, agreement->most + agreement->lead);
  return BY_AGREEMENT_FIX;
}

enum by_agreement_next by_agreement_handle(struct by_agreement *agreement, uint64_t started,
                                           const struct by_iteration *iteration, uint64_t lead) {
  if (!agreement->missing) return BY_AGREEMENT_WAITS;
  handle_iteration(agreement, iteration);
  if (started > agreement->most) agreement->most = started;
  agreement->passed |= agreement->fixing && started > agreement->at;
  if (--agreement->missing) return BY_AGREEMENT_WAITS;
  if (agreement->fixing && !agreement->passed) return BY_AGREEMENT_TAKE;
  agreement->lead = agreement->fixing ? 2 * agreement->lead + 1 : lead;
  return ask(agreement);
}

/* ---- members */

/* Prepares a plan switch. An undecided one is forgotten: its leader has begun another one. */
bool by_plan_switch_prepare(struct by_plan_switch *plan_switch, uint32_t number) {
  if (plan_switch->state == BY_PLAN_SWITCH_IS_TAKEN) return false;
  *plan_switch = (struct by_plan_switch){.state = BY_PLAN_SWITCH_IS_PREPARED, .number = number};
  return true;
}

static bool is_this(const struct by_plan_switch *plan_switch, uint32_t number) {
  return (plan_switch->state == BY_PLAN_SWITCH_IS_PREPARED || plan_switch->state == BY_PLAN_SWITCH_IS_FIXED) &&
         plan_switch->number == number;
}

bool by_plan_switch_fix(struct by_plan_switch *plan_switch, uint32_t number, uint64_t at) {
  if (!is_this(plan_switch, number)) return false;
  plan_switch->state = BY_PLAN_SWITCH_IS_FIXED;
  plan_switch->at = at;
  return true;
}

bool by_plan_switch_take(struct by_plan_switch *plan_switch, uint32_t number) {
  if (!is_this(plan_switch, number) || plan_switch->state != BY_PLAN_SWITCH_IS_FIXED) return false;
  plan_switch->state = BY_PLAN_SWITCH_IS_TAKEN;
  return true;
}

bool by_plan_switch_drop(struct by_plan_switch *plan_switch, uint32_t number) {
  if (!is_this(plan_switch, number)) return false;
  plan_switch->state = BY_PLAN_SWITCH_NONE;
  return true;
}

enum by_plan_switch_next by_plan_switch_next(const struct by_plan_switch *plan_switch, uint64_t started) {
  if (started != plan_switch->at) return BY_PLAN_SWITCH_GOES_ON;
  if (plan_switch->state == BY_PLAN_SWITCH_IS_FIXED) return BY_PLAN_SWITCH_WAITS;
  return plan_switch->state == BY_PLAN_SWITCH_IS_TAKEN ? BY_PLAN_SWITCH_CHANGES : BY_PLAN_SWITCH_GOES_ON;
}

void by_plan_switch_end(struct by_plan_switch *plan_switch) {
  plan_switch->state = BY_PLAN_SWITCH_NONE;
}

/* ---- iterations */

void by_marks_add(struct by_marks *marks, uint64_t started) {
  uint64_t calls = started - marks->at;
  if (marks->n && !calls) return;
  marks->even = marks->n > 1 && calls == marks->calls;
  marks->calls = calls;
  marks->at = started;
  marks->n += marks->n < 2;
}

struct by_iteration by_marks_iteration(const struct by_marks *marks, uint64_t started) {
  bool goes_on = marks->even && started - marks->at <= marks->calls;
  return (struct by_iteration){marks->at, goes_on ? marks->calls : 0};
}
