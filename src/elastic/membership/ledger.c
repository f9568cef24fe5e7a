/* Writes, reads and compares ledgers of the calls of a membership that has ended. */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

/* ---- bytes: a count of series; of each its head and a count of notes; of each its fields */

static const struct by_field series_fields[] = {
    BY_FIELD(by_ledger_series, kind, BY_FIELD_U8, .max = BY_LEDGER_OPERATIONS),
    BY_FIELD(by_ledger_series, communicator, BY_FIELD_U32),
    BY_FIELD(by_ledger_series, size, BY_FIELD_U32, .min = 1, .max = BY_MEMBERSHIP_MOST),
    BY_FIELD(by_ledger_series, rank, BY_FIELD_U32, .max = BY_MEMBERSHIP_MOST - 1),
    BY_FIELD(by_ledger_series, begun, BY_FIELD_U32),
};
static const struct by_field note_fields[] = {
    BY_FIELD(by_ledger_note, number, BY_FIELD_U32),
    BY_FIELD(by_ledger_note, outcome, BY_FIELD_U8, .max = BY_HISTORY_WAITED),
    BY_FIELD(by_ledger_note, collective, BY_FIELD_U8, .max = BANYAN_COLLECTIVES - 1),
    BY_FIELD(by_ledger_note, dtype, BY_FIELD_U8, .max = BANYAN_DTYPES - 1),
    BY_FIELD(by_ledger_note, sparse, BY_FIELD_U8, .max = 1),
    BY_FIELD(by_ledger_note, root, BY_FIELD_U32, .max = BY_MEMBERSHIP_MOST - 1),
    BY_FIELD(by_ledger_note, count, BY_FIELD_U64),
    BY_FIELD(by_ledger_note, name, BY_FIELD_TEXT, .max = BY_HISTORY_NAME),
};
enum {
  SERIES_BYTES = 1 + 4 * 4 + 4,
  NOTE_BYTES = 4 + 4 + 4 + 8 + 4, /* Bytes of a note without its name. */
  MOST_ADDED = NOTE_BYTES + BY_HISTORY_NAME
};
static const char what[] = "a ledger of calls";

void by_ledger_fini(struct by_ledger *ledger) {
  free(ledger->data);
  *ledger = (struct by_ledger){0};
}

static bool make_room(struct by_ledger *ledger) {
  if (ledger->room - ledger->length >= MOST_ADDED) return true;
  size_t room = 2 * ledger->room + MOST_ADDED;
  uint8_t *data = realloc(ledger->data, room);
  ledger->lacks |= !data;
  if (!data) return false;
  ledger->data = data;
  ledger->room = room;
  return true;
}

static void add(struct by_ledger *ledger, const struct by_field *fields, size_t n, const void *from) {
  struct by_writer writer;
  by_writer_init(&writer, ledger->data + ledger->length, ledger->room - ledger->length);
  by_fields_write(&writer, fields, n, from);
  ledger->lacks |= writer.failed;
  if (!writer.failed) ledger->length += writer.length;
}

void by_ledger_add_series(struct by_ledger *ledger, const struct by_ledger_series *series) {
  if (!make_room(ledger)) return;
  add(ledger, BY_FIELDS(series_fields), series);
  ledger->notes = ledger->length;
  by_put_u32(ledger->data + ledger->length, 0);
  ledger->length += 4;
  ledger->n_series++;
}

void by_ledger_add_note(struct by_ledger *ledger, const struct by_ledger_note *note) {
  if (ledger->lacks || !make_room(ledger)) return;
  add(ledger, BY_FIELDS(note_fields), note);
  by_put_u32(ledger->data + ledger->notes, by_get_u32(ledger->data + ledger->notes) + 1);
}

static void add_call(struct by_ledger *ledger, const struct by_history_call *call) {
  by_ledger_add_note(ledger, &(struct by_ledger_note){.number = call->number,
                                                      .outcome = call->outcome,
                                                      .collective = call->collective,
                                                      .dtype = call->dtype,
                                                      .sparse = call->sparse,
                                                      .root = call->root,
                                                      .count = call->count,
                                                      .name = call->name});
}

void by_ledger_add_history(struct by_ledger *ledger, const struct by_history *history) {
  uint32_t past = history->n_past < BY_HISTORY_PAST ? history->n_past : BY_HISTORY_PAST;
  ledger->lacks |= history->lacks;
  for (uint32_t i = 0; i < history->n_failed; i++) add_call(ledger, &history->failed[i]);
  for (uint32_t i = 0; i < past; i++) add_call(ledger, &history->past[i]);
}

/* A call that did not begin cannot have ended. */
static bool is_sound(const struct by_ledger_series *series, const struct by_ledger_note *note) {
  if (note->outcome == BY_HISTORY_WAITED) return series->kind == BY_LEDGER_OPERATIONS && *note->name;
  return (int32_t)(note->number - series->begun) < 0;
}

static enum banyan_status read_series(struct by_reader *reader, struct by_arena *arena, struct by_ledger_series *out) {
  BY_TRY(by_fields_read(reader, arena, BY_FIELDS(series_fields), what, out));
  out->n_notes = by_read_count(reader, NOTE_BYTES);
  out->notes = BY_ARENA_ARRAY(arena, struct by_ledger_note, out->n_notes);
  if (!out->notes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u calls", out->n_notes);
  if (out->rank >= out->size)
    return by_fail(BANYAN_ERR_PROTOCOL, "%s has rank %u of %u ranks", what, out->rank, out->size);
  for (uint32_t i = 0; i < out->n_notes; i++) {
    BY_TRY(by_fields_read(reader, arena, BY_FIELDS(note_fields), what, &out->notes[i]));
    if (!is_sound(out, &out->notes[i]))
      return by_fail(BANYAN_ERR_PROTOCOL, "%s names call %u, but %u is the next one", what, out->notes[i].number,
                     out->begun);
  }
  return BANYAN_OK;
}

enum banyan_status by_ledger_read(const void *bytes, size_t length, struct by_arena *arena,
                                  struct by_ledger_view *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  out->n_series = by_read_count(&reader, SERIES_BYTES);
  out->series = BY_ARENA_ARRAY(arena, struct by_ledger_series, out->n_series);
  if (!out->series) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u ledgers", out->n_series);
  for (uint32_t i = 0; i < out->n_series; i++) BY_TRY(read_series(&reader, arena, &out->series[i]));
  return by_reader_check(&reader, what);
}

/* ---- comparing: numbers are reckoned from one of them, so that they may wrap */

/* All series of one sequence of calls, and the ranks that have them. */
struct compared {
  struct by_arena *arena;
  const struct by_ledger_series **all;
  const int *ranks;
  uint32_t n;
  uint32_t origin; /* Number of a call relative to which others are compared, so that numbers may wrap. */
  struct list {    /* The records of calls found so far. */
    struct banyan_interrupted *records;
    size_t n, room;
  } * found;
};

static int32_t distance(const struct compared *c, uint32_t number) {
  return (int32_t)(number - c->origin);
}

static const struct by_ledger_note *find_number(const struct by_ledger_series *series, uint32_t number) {
  for (uint32_t i = 0; i < series->n_notes; i++)
    if (series->notes[i].outcome != BY_HISTORY_WAITED && series->notes[i].number == number) return &series->notes[i];
  return NULL;
}

static enum banyan_outcome outcome_of(const struct compared *c, const struct by_ledger_series *series,
                                      uint32_t number) {
  if (distance(c, number) >= distance(c, series->begun)) return BANYAN_OUTCOME_NOT_BEGUN;
  const struct by_ledger_note *note = find_number(series, number);
  return note && note->outcome == BY_HISTORY_FAILED ? BANYAN_OUTCOME_FAILED : BANYAN_OUTCOME_COMPLETED;
}

static void describe(struct banyan_interrupted *record, const struct by_ledger_note *note) {
  record->known = true;
  record->sparse = note->sparse;
  record->collective = note->collective;
  record->dtype = note->dtype;
  record->root = (int)note->root;
  record->count = note->count;
  record->name = *note->name ? note->name : NULL;
}

static struct banyan_interrupted *add_record(const struct compared *c) {
  struct list *list = c->found;
  if (list->n == list->room) {
    size_t room = 2 * list->room + 8;
    struct banyan_interrupted *more = BY_ARENA_ARRAY(c->arena, struct banyan_interrupted, room);
    if (!more) return NULL;
    if (list->n) memcpy(more, list->records, list->n * sizeof *more);
    list->records = more;
    list->room = room;
  }
  const struct by_ledger_series *first = c->all[0];
  struct banyan_interrupted *record = &list->records[list->n];
  uint8_t *outcomes = BY_ARENA_ARRAY(c->arena, uint8_t, first->size);
  int *ranks = BY_ARENA_ARRAY(c->arena, int, first->size);
  if (!outcomes || !ranks) return NULL;
  memset(outcomes, BANYAN_OUTCOME_ABSENT, first->size);
  for (uint32_t r = 0; r < first->size; r++) ranks[r] = -1;
  for (uint32_t i = 0; i < c->n; i++) ranks[c->all[i]->rank] = c->ranks[i];
  *record = (struct banyan_interrupted){.communicator = first->communicator,
                                        .n_calls = 1,
                                        .size = (int)first->size,
                                        .outcomes = outcomes,
                                        .ranks = ranks};
  list->n++;
  return record;
}

static void set_outcome(struct banyan_interrupted *record, uint32_t rank, enum banyan_outcome outcome) {
  ((uint8_t *)(uintptr_t)record->outcomes)[rank] = (uint8_t)outcome;
  record->completed += outcome == BANYAN_OUTCOME_COMPLETED;
  record->failed += outcome == BANYAN_OUTCOME_FAILED;
  record->not_begun += outcome == BANYAN_OUTCOME_NOT_BEGUN;
}

/* Compares n_calls calls that have the same outcome on each process, and adds a record unless all completed. */
static enum banyan_status compare_calls(const struct compared *c, uint32_t number, uint32_t n_calls) {
  bool all = true;
  for (uint32_t i = 0; i < c->n && all; i++) all = outcome_of(c, c->all[i], number) == BANYAN_OUTCOME_COMPLETED;
  if (all) return BANYAN_OK;
  struct banyan_interrupted *record = add_record(c);
  if (!record) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for calls that were interrupted");
  record->call = number;
  record->n_calls = n_calls;
  for (uint32_t i = 0; i < c->n; i++) {
    const struct by_ledger_note *note = find_number(c->all[i], number);
    if (c->ranks[i] >= 0) set_outcome(record, c->all[i]->rank, outcome_of(c, c->all[i], number));
    if (note) describe(record, note);
  }
  return BANYAN_OK;
}

static int by_distance(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return x < y ? -1 : x > y;
}

/* Outcomes change only where a series ends, and at calls that are noted. */
static enum banyan_status compare_numbers(const struct compared *c) {
  size_t room = c->n, n = 0;
  for (uint32_t i = 0; i < c->n; i++) room += 2 * (size_t)c->all[i]->n_notes;
  int32_t *at = BY_ARENA_ARRAY(c->arena, int32_t, room), least = INT32_MAX, most = INT32_MIN;
  if (!at) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for calls that were interrupted");
  for (uint32_t i = 0; i < c->n; i++) {
    const struct by_ledger_series *series = c->all[i];
    at[n++] = distance(c, series->begun);
    for (uint32_t k = 0; k < series->n_notes; k++) {
      if (series->notes[k].outcome == BY_HISTORY_WAITED) continue;
      at[n++] = distance(c, series->notes[k].number);
      at[n++] = distance(c, series->notes[k].number + 1);
      if (series->notes[k].outcome == BY_HISTORY_FAILED && at[n - 2] < least) least = at[n - 2];
    }
    if (distance(c, series->begun) < least) least = distance(c, series->begun);
    if (distance(c, series->begun) > most) most = distance(c, series->begun);
  }
  qsort(at, n, sizeof *at, by_distance);
  for (size_t i = 0; i + 1 < n; i++) {
    if (at[i] == at[i + 1] || at[i] < least || at[i] >= most) continue;
    BY_TRY(compare_calls(c, c->origin + (uint32_t)at[i], (uint32_t)at[i + 1] - (uint32_t)at[i]));
  }
  return BANYAN_OK;
}

/* ---- operations that some process waited for in vain */

static const struct by_ledger_note *find_waiting(const struct by_ledger_series *series, const char *name) {
  for (uint32_t i = 0; i < series->n_notes; i++)
    if (series->notes[i].outcome == BY_HISTORY_WAITED && !strcmp(series->notes[i].name, name)) return &series->notes[i];
  return NULL;
}

/* Whether an operation of this name, which this rank did not begin, started elsewhere: then it is the one for which the
 * rank waited. `from` is the first record of this series. */
static bool started_elsewhere(const struct compared *c, size_t from, const char *name, uint32_t rank) {
  for (size_t i = from; i < c->found->n; i++) {
    const struct banyan_interrupted *record = &c->found->records[i];
    bool named = record->name && !strcmp(record->name, name);
    if (named && record->outcomes[rank] == BANYAN_OUTCOME_NOT_BEGUN) return true;
  }
  return false;
}

/* Adds a record of an operation that started on no process, or only on processes that are gone. */
static enum banyan_status compare_waiting(const struct compared *c, size_t from, const char *name) {
  const struct by_ledger_note *note = NULL;
  uint8_t *waits = BY_ARENA_ARRAY(c->arena, uint8_t, c->n);
  if (!waits) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations that were interrupted");
  for (uint32_t i = 0; i < c->n; i++) {
    const struct by_ledger_note *found = find_waiting(c->all[i], name);
    waits[i] = found && !started_elsewhere(c, from, name, c->all[i]->rank);
    if (waits[i]) note = found;
  }
  if (!note) return BANYAN_OK;
  struct banyan_interrupted *record = add_record(c);
  if (!record) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations that were interrupted");
  record->call = c->all[0]->begun;
  for (uint32_t i = 1; i < c->n; i++)
    if (distance(c, c->all[i]->begun) > distance(c, record->call)) record->call = c->all[i]->begun;
  for (uint32_t i = 0; i < c->n; i++)
    if (c->ranks[i] >= 0)
      set_outcome(record, c->all[i]->rank, waits[i] ? BANYAN_OUTCOME_FAILED : BANYAN_OUTCOME_NOT_BEGUN);
  describe(record, note);
  return BANYAN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum banyan_status compare_names(const struct compared *c, size_t from) {
  size_t n = 0, room = 0;
  for (uint32_t i = 0; i < c->n; i++) room += c->all[i]->n_notes;
  const char **names = BY_ARENA_ARRAY(c->arena, const char *, room);
  if (!names) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations that were interrupted");
  for (uint32_t i = 0; i < c->n; i++)
    for (uint32_t k = 0; k < c->all[i]->n_notes; k++)
      if (c->all[i]->notes[k].outcome == BY_HISTORY_WAITED) names[n++] = c->all[i]->notes[k].name;
  if (n) qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; i++) {
    if (i && !strcmp(names[i], names[i - 1])) continue;
    BY_TRY(compare_waiting(c, from, names[i]));
  }
  return BANYAN_OK;
}

/* ---- all series */

/* Whether the series are of one communicator. A program that creates another one with the same number after a failure
 * has two. */
static bool are_alike(const struct compared *c) {
  for (uint32_t i = 1; i < c->n; i++)
    if (c->all[i]->size != c->all[0]->size || c->all[i]->rank == c->all[i - 1]->rank) return false;
  return true;
}

struct entry {
  const struct by_ledger_series *series;
  int rank;
};

static int by_sequence(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  const struct by_ledger_series *s = x->series, *t = y->series;
  if (s->communicator != t->communicator) return s->communicator < t->communicator ? -1 : 1;
  if (s->kind != t->kind) return s->kind < t->kind ? -1 : 1;
  return s->rank < t->rank ? -1 : s->rank > t->rank;
}

enum banyan_status by_ledger_compare(const struct by_ledger_view *views, const int *ranks, uint32_t n_views,
                                     struct by_arena *arena, struct banyan_interrupted **out, size_t *n) {
  size_t total = 0, at = 0;
  for (uint32_t v = 0; v < n_views; v++) total += views[v].n_series;
  struct entry *entries = BY_ARENA_ARRAY(arena, struct entry, total);
  const struct by_ledger_series **all = BY_ARENA_ARRAY(arena, const struct by_ledger_series *, total);
  int *of = BY_ARENA_ARRAY(arena, int, total);
  if (!entries || !all || !of) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu ledgers", total);
  for (uint32_t v = 0; v < n_views; v++)
    for (uint32_t i = 0; i < views[v].n_series; i++) entries[at++] = (struct entry){&views[v].series[i], ranks[v]};
  if (total) qsort(entries, total, sizeof *entries, by_sequence);
  for (size_t i = 0; i < total; i++) all[i] = entries[i].series, of[i] = entries[i].rank;
  struct list found = {0};
  for (size_t first = 0, end; first < total; first = end) {
    for (end = first + 1;
         end < total && all[end]->communicator == all[first]->communicator && all[end]->kind == all[first]->kind;)
      end++;
    struct compared c = {.arena = arena,
                         .all = all + first,
                         .ranks = of + first,
                         .n = (uint32_t)(end - first),
                         .origin = all[first]->begun,
                         .found = &found};
    size_t from = found.n;
    if (!are_alike(&c)) continue;
    BY_TRY(compare_numbers(&c));
    BY_TRY(compare_names(&c, from));
  }
  *out = found.records;
  *n = found.n;
  return BANYAN_OK;
}
