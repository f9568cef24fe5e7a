/* The ring of records of operations. */
#include "trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum { NAMES = 1 << 14, NAME_BYTES = 1 << 20, NO_NAME = 0, OTHER_NAME = 1 };

struct note {
  uint64_t id, through, bytes, added, adding;
  uint64_t at[BY_TRACE_STATES];
  uint32_t name, team, call;
  uint8_t collective, status;
  bool notified; /* The operations that it did have reported it. */
  bool taken;    /* by_tracer_take returned it after its end. */
};

/* Names are kept once, one after the other in `text`; `slots` finds them by hash. */
struct by_tracer_ring {
  pthread_mutex_t lock;
  uint64_t first, next; /* Numbers since the last start. */
  uint64_t lost;        /* How many records since then were overwritten before they were taken. */
  struct by_trace_totals totals[BY_TRACE_STATES];
  uint32_t slots[NAMES], n_names;
  uint32_t text_used;
  char text[NAME_BYTES];
  struct note notes[BY_TRACE_RECORDS];
};

const char *by_trace_state_name(enum by_trace_state state) {
  static const char *const names[] = {"submitted", "negotiated", "queued", "on the wire", "adding", "done"};
  return names[state];
}

static struct note *find_entry(struct by_tracer_ring *ring, uint64_t id) {
  struct note *note = &ring->notes[id % BY_TRACE_RECORDS];
  return id >= ring->first && note->id == id ? note : NULL;
}

/* --- names --- */

/* Returns the offset of a name in `text`. Names without space share one. Bytes that are not printable UTF-8 become
 * "?", since they would break the timeline. */
static uint32_t keep_name(struct by_tracer_ring *ring, const char *given) {
  char name[BY_TRACE_NAME + 1];
  if (!given) return NO_NAME;
  by_keep_printable(given, name, sizeof name);
  uint32_t hash = 2166136261u; /* FNV-1a. */
  for (const char *at = name; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
  uint32_t slot = hash % NAMES;
  while (ring->slots[slot]) {
    if (strcmp(ring->text + ring->slots[slot], name) == 0) return ring->slots[slot];
    slot = (slot + 1) % NAMES;
  }
  size_t length = strlen(name) + 1;
  if (ring->n_names == NAMES / 2 || length > NAME_BYTES - ring->text_used) return OTHER_NAME;
  uint32_t at = ring->text_used;
  memcpy(ring->text + at, name, length);
  ring->text_used += (uint32_t)length;
  ring->n_names++;
  return ring->slots[slot] = at;
}

/* --- on and off --- */

enum banyan_status by_tracer_start(struct by_tracer *tracer) {
  /* The program and a message from rank 0 may start it at the same time. */
  static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&starting);
  struct by_tracer_ring *ring = tracer->ring;
  if (!ring) {
    ring = calloc(1, sizeof *ring); /* Pages without records take no memory. */
    if (ring) pthread_mutex_init(&ring->lock, NULL);
    if (ring) ring->next = 1;
    tracer->ring = ring;
  }
  if (ring && !atomic_load(&tracer->on)) {
    pthread_mutex_lock(&ring->lock);
    static const char other[] = "(a name too many)";
    memset(ring->slots, 0, sizeof ring->slots);
    ring->n_names = 0;
    memcpy(ring->text + OTHER_NAME, other, sizeof other);
    ring->text[NO_NAME] = 0;
    ring->text_used = OTHER_NAME + sizeof other;
    ring->first = ring->next;
    ring->lost = 0;
    pthread_mutex_unlock(&ring->lock);
    atomic_store_explicit(&tracer->on, true, memory_order_release);
  }
  pthread_mutex_unlock(&starting);
  if (ring) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline of %d records", BY_TRACE_RECORDS);
}

void by_tracer_stop(struct by_tracer *tracer) {
  atomic_store(&tracer->on, false);
}

void by_tracer_fini(struct by_tracer *tracer) {
  by_tracer_stop(tracer);
  if (!tracer->ring) return;
  pthread_mutex_destroy(&tracer->ring->lock);
  free(tracer->ring);
  tracer->ring = NULL;
}

/* --- noting --- */

uint64_t by_trace_begin(struct by_tracer *tracer, const struct by_traced *what, enum by_trace_state state) {
  if (!atomic_load_explicit(&tracer->on, memory_order_acquire)) return 0;
  struct by_tracer_ring *ring = tracer->ring;
  uint64_t now = by_clock_now(&by_clock_system);
  pthread_mutex_lock(&ring->lock);
  uint64_t id = ring->next++;
  struct note *note = &ring->notes[id % BY_TRACE_RECORDS];
  if (note->id && note->id >= ring->first && !note->taken && !note->notified) ring->lost++;
  *note = (struct note){.id = id,
                        .bytes = what->bytes,
                        .name = keep_name(ring, what->name),
                        .team = what->team,
                        .call = what->call,
                        .collective = what->collective};
  note->at[state] = now;
  pthread_mutex_unlock(&ring->lock);
  return id;
}

static void leave_state(struct by_tracer_ring *ring, const struct note *note, enum by_trace_state state, uint64_t ns) {
  struct by_trace_totals *totals = &ring->totals[state];
  totals->n++;
  totals->bytes += note->bytes;
  totals->ns += ns;
}

void by_trace(struct by_tracer *tracer, uint64_t id, enum by_trace_state state) {
  if (!id) return;
  struct by_tracer_ring *ring = tracer->ring;
  pthread_mutex_lock(&ring->lock);
  struct note *note = find_entry(ring, id);
  if (note && !note->at[state]) {
    note->at[state] = by_clock_now(&by_clock_system);
    if (state == BY_TRACE_NEGOTIATED)
      leave_state(ring, note, BY_TRACE_SUBMITTED, note->at[state] - note->at[BY_TRACE_SUBMITTED]);
  }
  pthread_mutex_unlock(&ring->lock);
}

void by_trace_through(struct by_tracer *tracer, uint64_t id, uint64_t call) {
  if (!id || !call) return;
  struct by_tracer_ring *ring = tracer->ring;
  pthread_mutex_lock(&ring->lock);
  struct note *note = find_entry(ring, id), *other = find_entry(ring, call);
  if (note && other) {
    note->through = call;
    other->notified = true;
    leave_state(ring, note, BY_TRACE_NEGOTIATED, other->at[BY_TRACE_QUEUED] - note->at[BY_TRACE_NEGOTIATED]);
  }
  pthread_mutex_unlock(&ring->lock);
}

void by_trace_added(struct by_tracer *tracer, uint64_t id, uint64_t since) {
  if (!id) return;
  struct by_tracer_ring *ring = tracer->ring;
  uint64_t now = by_clock_now(&by_clock_system);
  pthread_mutex_lock(&ring->lock);
  struct note *note = find_entry(ring, id);
  if (note) {
    if (!note->at[BY_TRACE_ADDING]) note->at[BY_TRACE_ADDING] = since;
    note->added = now;
    note->adding += now - since;
  }
  pthread_mutex_unlock(&ring->lock);
}

void by_trace_ended(struct by_tracer *tracer, uint64_t id, enum banyan_status status) {
  if (!id) return;
  struct by_tracer_ring *ring = tracer->ring;
  pthread_mutex_lock(&ring->lock);
  struct note *note = find_entry(ring, id);
  if (note && !note->at[BY_TRACE_DONE]) {
    note->at[BY_TRACE_DONE] = by_clock_now(&by_clock_system);
    note->status = (uint8_t)status;
    uint64_t queued = note->at[BY_TRACE_QUEUED], wire = note->at[BY_TRACE_WIRE], done = note->at[BY_TRACE_DONE];
    if (queued) {
      leave_state(ring, note, BY_TRACE_QUEUED, (wire ? wire : done) - queued);
      if (wire) leave_state(ring, note, BY_TRACE_WIRE, done - wire);
      if (note->added) leave_state(ring, note, BY_TRACE_ADDING, note->adding);
      leave_state(ring, note, BY_TRACE_DONE, 0);
    }
  }
  pthread_mutex_unlock(&ring->lock);
}

/* --- reading --- */

void by_tracer_range(struct by_tracer *tracer, uint64_t *first, uint64_t *next, uint64_t *dropped) {
  struct by_tracer_ring *ring = tracer->ring;
  *first = *next = *dropped = 0;
  if (!ring) return;
  pthread_mutex_lock(&ring->lock);
  uint64_t n = ring->next - ring->first;
  *dropped = ring->lost;
  *first = ring->first + (n > BY_TRACE_RECORDS ? n - BY_TRACE_RECORDS : 0);
  *next = ring->next;
  pthread_mutex_unlock(&ring->lock);
}

static bool read_entry(struct by_tracer_ring *ring, uint64_t id, struct by_trace_record *out) {
  const struct note *note = find_entry(ring, id);
  if (!note || note->notified) return false;
  *out = (struct by_trace_record){.id = id, .bytes = note->bytes, .collective = note->collective};
  memcpy(out->at, note->at, sizeof out->at);
  strcpy(out->name, ring->text + note->name);
  out->status = note->status;
  const struct note *call = note->at[BY_TRACE_QUEUED] ? note : note->through ? find_entry(ring, note->through) : NULL;
  if (!call) return true;
  memcpy(&out->at[BY_TRACE_QUEUED], &call->at[BY_TRACE_QUEUED], (BY_TRACE_STATES - BY_TRACE_QUEUED) * sizeof *out->at);
  out->added = call->added;
  out->adding = call->adding;
  out->team = call->team;
  out->call = call->call;
  out->status = call->status;
  out->has_call = true;
  return true;
}

bool by_tracer_take(struct by_tracer *tracer, uint64_t id, struct by_trace_record *out) {
  struct by_tracer_ring *ring = tracer->ring;
  pthread_mutex_lock(&ring->lock);
  struct note *note = find_entry(ring, id);
  bool there = note && !note->taken && read_entry(ring, id, out);
  if (there && out->at[BY_TRACE_DONE]) note->taken = true;
  pthread_mutex_unlock(&ring->lock);
  return there;
}

uint64_t by_tracer_count_untaken(struct by_tracer *tracer, uint64_t from, uint64_t to) {
  struct by_tracer_ring *ring = tracer->ring;
  uint64_t n = 0;
  if (!ring) return 0;
  pthread_mutex_lock(&ring->lock);
  for (uint64_t id = from; id < to; id++) {
    const struct note *note = find_entry(ring, id);
    n += note && !note->taken && !note->notified;
  }
  pthread_mutex_unlock(&ring->lock);
  return n;
}

void by_tracer_totals(struct by_tracer *tracer, struct by_trace_totals out[BY_TRACE_STATES]) {
  memset(out, 0, BY_TRACE_STATES * sizeof *out);
  if (!tracer->ring) return;
  pthread_mutex_lock(&tracer->ring->lock);
  memcpy(out, tracer->ring->totals, sizeof tracer->ring->totals);
  pthread_mutex_unlock(&tracer->ring->lock);
}
