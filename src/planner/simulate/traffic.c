/* Tracks the messages in flight, and how much of each resource is used over time. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"

#define FIRST_WIDTH 1e-6 /* The seconds of a slot at first. */
#define NEARLY 1e-9      /* Smaller relative differences of a rate are due to rounding. */

enum banyan_status by_use_log_init(struct by_use_log *log, uint32_t n_resources) {
  *log = (struct by_use_log){.n_resources = n_resources, .width = FIRST_WIDTH};
  log->units = BY_ARENA_ARRAY(&log->arena, float, (size_t)n_resources *BY_USE_SLOTS);
  log->rate = BY_ARENA_ARRAY(&log->arena, double, n_resources);
  log->since = BY_ARENA_ARRAY(&log->arena, double, n_resources);
  if (!log->arena.failed) return BANYAN_OK;
  by_use_log_fini(log);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the use of links over time");
}

static void double_width(struct by_use_log *log) {
  for (uint32_t r = 0; r < log->n_resources; r++) {
    float *units = log->units + (size_t)r * BY_USE_SLOTS;
    for (uint32_t i = 0; i < BY_USE_SLOTS / 2; i++) units[i] = units[2 * i] + units[2 * i + 1];
    memset(units + BY_USE_SLOTS / 2, 0, BY_USE_SLOTS / 2 * sizeof *units);
  }
  log->width *= 2;
}

/* Adds the use between `from` and `to` in seconds. */
static void add_use(struct by_use_log *log, uint32_t resource, double from, double to) {
  float *units = log->units + (size_t)resource * BY_USE_SLOTS;
  while (to > log->width * BY_USE_SLOTS) double_width(log);
  for (uint32_t i = (uint32_t)(from / log->width); i < BY_USE_SLOTS && from < to; i++) {
    double end = (i + 1) * log->width;
    if (end > to || i + 1 == BY_USE_SLOTS) end = to;
    if (end <= from) continue;
    units[i] += (float)(log->rate[resource] * (end - from));
    from = end;
  }
}

void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change) {
  if (log->rate[resource] > 0 && now > log->since[resource]) add_use(log, resource, log->since[resource], now);
  double before = log->rate[resource], after = before + change;
  log->rate[resource] = after > before * NEARLY ? after : 0;
  log->since[resource] = now;
}

void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out) {
  const float *units = log->units + (size_t)resource * BY_USE_SLOTS;
  double wide = seconds / n;
  for (uint32_t i = 0; i < n; i++) out[i] = 0;
  if (!(wide > 0)) return;
  for (uint32_t i = 0; i < BY_USE_SLOTS; i++) {
    double from = i * log->width, to = from + log->width;
    if (to > seconds) to = seconds; /* Nothing happens later. */
    for (uint32_t k = (uint32_t)(from / wide); from < to && k < n; k++) {
      double end = (k + 1) * wide < to && k + 1 < n ? (k + 1) * wide : to;
      out[k] += units[i] * (end - from) / (to - i * log->width);
      from = end > from ? end : from;
    }
  }
}

/* The largest number of messages of a stream that are compared, as in src/engine/link_send.c. */
enum { MAX_COMPARED = 16 };

#define NONE BY_CAST_NONE
#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the messages under way")

struct by_traffic_step {
  uint64_t at;   /* The position in the layout's bytes. */
  uint32_t next; /* For a send: the next one in the stream's list. */
  bool queued;   /* For a send: it is in that list. */
  bool listed;   /* It is in the work. */
};

static const struct by_schedule *get_schedule(const struct by_traffic *t, uint32_t actor) {
  return by_roles_schedule(t->cast->roles, t->cast->rank[actor]);
}

static uint64_t get_start(const struct by_traffic *t, const struct by_step *step) {
  return t->cast->roles->bounds[step->first];
}

static uint64_t get_end(const struct by_traffic *t, const struct by_step *step) {
  return t->cast->roles->bounds[step->last];
}

/* --- Steps to update. --- */

static void list_step(struct by_traffic *t, uint32_t actor, uint32_t index) {
  struct by_traffic_step *state = &t->steps[t->first_step[actor] + index];
  if (state->listed) return;
  if (!BY_ARRAY_GROW(&t->work, &t->allocated_work, t->n_work + 1)) {
    t->failed = true;
    return;
  }
  state->listed = true;
  t->work[t->n_work++] = (uint64_t)actor << 32 | index;
}

static void move_step(struct by_traffic *t, uint32_t actor, uint32_t index, uint64_t at) {
  const struct by_step *step = &get_schedule(t, actor)->steps[index];
  struct by_traffic_step *state = &t->steps[t->first_step[actor] + index];
  if (at <= state->at) return;
  state->at = at;
  if (at == get_end(t, step)) t->steps_left--;
  for (uint32_t i = 0; i < step->n_next; i++) list_step(t, actor, get_schedule(t, actor)->nexts[step->next + i]);
}

/* Returns how far a step may advance, as in the executor: a step before it may still work on lower bytes. */
static uint64_t get_limit(const struct by_traffic *t, uint32_t actor, const struct by_step *step, uint64_t at) {
  const struct by_schedule *schedule = get_schedule(t, actor);
  uint64_t limit = get_end(t, step);
  for (uint32_t i = 0; i < step->n_dep; i++) {
    uint32_t on = schedule->deps[step->dep + i];
    const struct by_step *before = &schedule->steps[on];
    uint64_t come = t->steps[t->first_step[actor] + on].at;
    if (come < get_end(t, before) && come < limit) limit = come;
  }
  return limit > at ? limit : at;
}

/* --- Streams. --- */

static void wake_stream(struct by_traffic *t, uint32_t stream) {
  struct by_traffic_stream *s = &t->streams[stream];
  if (s->woken || s->sending != NONE || s->first == NONE) return;
  s->woken = true;
  t->woken[t->n_woken++] = stream;
}

/* Appends a send to its stream's list if it has a chunk to send; puts it in front if its frame continues. */
static void queue_send(struct by_traffic *t, uint32_t actor, uint32_t index, bool continues) {
  const struct by_step *step = &get_schedule(t, actor)->steps[index];
  struct by_traffic_step *state = &t->steps[t->first_step[actor] + index];
  struct by_traffic_stream *s = &t->streams[t->cast->first_stream[actor] + step->peer];
  if (state->queued || s->sending == index) return;
  uint64_t limit = get_limit(t, actor, step, state->at);
  bool has_chunk = limit > state->at && (limit - state->at >= t->chunk || limit == get_end(t, step));
  if (!has_chunk) return;
  state->queued = true;
  state->next = continues ? s->first : NONE;
  if (s->first == NONE)
    s->first = s->last = index;
  else if (continues)
    s->first = index;
  else {
    t->steps[t->first_step[actor] + s->last].next = index;
    s->last = index;
  }
  wake_stream(t, t->cast->first_stream[actor] + step->peer);
}

/* Returns whether a smaller part of send a than of b has been sent. */
static bool is_behind(const struct by_traffic *t, uint32_t actor, uint32_t a, uint32_t b) {
  const struct by_step *steps = get_schedule(t, actor)->steps;
  const struct by_traffic_step *states = t->steps + t->first_step[actor];
  uint64_t start_a = get_start(t, &steps[a]), start_b = get_start(t, &steps[b]);
  return (double)(states[a].at - start_a) * (double)(get_end(t, &steps[b]) - start_b) <
         (double)(states[b].at - start_b) * (double)(get_end(t, &steps[a]) - start_a);
}

/* Removes and returns the first element of a stream's list. */
static uint32_t pop_first(struct by_traffic_stream *s, struct by_traffic_step *states) {
  uint32_t first = s->first;
  s->first = states[first].next;
  states[first].queued = false;
  return first;
}

/* Removes and returns the send that is farthest behind. The first takes its index in the list, as in the executor. */
static uint32_t pop_farthest_behind(struct by_traffic *t, struct by_traffic_stream *s, uint32_t actor) {
  struct by_traffic_step *states = t->steps + t->first_step[actor];
  uint32_t first = s->first, best = first, before = NONE, at = first;
  for (int i = 1; i < MAX_COMPARED && states[at].next != NONE; i++, at = states[at].next)
    if (is_behind(t, actor, states[at].next, best)) {
      before = at;
      best = states[at].next;
    }
  if (best == first) return pop_first(s, states);
  uint32_t second = states[first].next;
  states[first].next = states[best].next;
  if (before != first) {
    states[before].next = first;
    s->first = second;
  } else {
    s->first = first;
  }
  if (s->last == best) s->last = first;
  states[best].queued = false;
  return best;
}

uint64_t by_traffic_take(struct by_traffic *t, uint32_t stream) {
  struct by_traffic_stream *s = &t->streams[stream];
  uint32_t actor = t->cast->streams[stream].actor;
  if (s->woken) {
    s->woken = false;
    uint32_t index_woken = t->n_woken - 1; /* It is usually the last one. */
    while (t->woken[index_woken] != stream) index_woken--;
    t->woken[index_woken] = t->woken[--t->n_woken];
  }
  if (s->sending != NONE || s->first == NONE) return 0;
  bool continues = s->last_sent == s->first;
  uint32_t index = continues ? pop_first(s, t->steps + t->first_step[actor]) : pop_farthest_behind(t, s, actor);
  const struct by_step *step = &get_schedule(t, actor)->steps[index];
  struct by_traffic_step *state = &t->steps[t->first_step[actor] + index];
  uint64_t ready = get_limit(t, actor, step, state->at) - state->at, bytes = ready < t->chunk ? ready : t->chunk;
  if (s->last_sent != index) s->turn = 0;
  s->last_sent = s->sending = index;
  s->turn += bytes;
  s->upto = state->at + bytes;
  t->n_chunks++;
  return bytes;
}

/* --- Events. --- */

static void advance_step(struct by_traffic *t, uint32_t actor, uint32_t index) {
  const struct by_step *step = &get_schedule(t, actor)->steps[index];
  uint64_t at = t->steps[t->first_step[actor] + index].at;
  if (step->level > t->max_level) return;
  if (step->kind == BY_STEP_SEND) {
    queue_send(t, actor, index, false);
    return;
  }
  uint64_t limit = get_limit(t, actor, step, at);
  if (step->kind != BY_STEP_COPY) {
    for (uint32_t i = 0; i < step->n_in; i++) {
      uint64_t arrived = get_start(t, step) + t->arrived[t->first_in[actor] + step->in + i];
      if (arrived < limit) limit = arrived;
    }
  }
  move_step(t, actor, index, limit);
}

/* Updates steps in the order in which they were listed, since sends are queued in this order. */
static void update_steps(struct by_traffic *t) {
  for (size_t i = 0; i < t->n_work; i++) {
    uint32_t actor = (uint32_t)(t->work[i] >> 32), index = (uint32_t)t->work[i];
    t->steps[t->first_step[actor] + index].listed = false;
    advance_step(t, actor, index);
  }
  t->n_work = 0;
}

struct by_parcel by_traffic_leave(struct by_traffic *t, uint32_t stream) {
  struct by_traffic_stream *s = &t->streams[stream];
  const struct by_cast_stream *cast_stream = &t->cast->streams[stream];
  uint32_t actor = cast_stream->actor, index = s->sending;
  const struct by_step *step = &get_schedule(t, actor)->steps[index];
  const struct by_schedule *receiver = get_schedule(t, cast_stream->to_actor);
  struct by_parcel parcel = {.actor = cast_stream->to_actor,
                             .in = receiver->lookup[receiver->peers[cast_stream->to_peer].first_in + step->tag],
                             .upto = s->upto - get_start(t, step),
                             .bytes = s->upto - t->steps[t->first_step[actor] + index].at};
  s->sending = NONE;
  move_step(t, actor, index, s->upto);
  bool continues = s->turn < cast_stream->frame;
  if (!continues) s->last_sent = NONE;
  queue_send(t, actor, index, continues);
  update_steps(t);
  wake_stream(t, stream);
  return parcel;
}

void by_traffic_arrive(struct by_traffic *t, const struct by_parcel *parcel) {
  t->arrived[t->first_in[parcel->actor] + parcel->in] = parcel->upto;
  list_step(t, parcel->actor, get_schedule(t, parcel->actor)->incoming[parcel->in].step);
  update_steps(t);
}

/* --- Creation and destruction. --- */

static enum banyan_status allocate_traffic(struct by_traffic *t) {
  const struct by_cast *cast = t->cast;
  uint64_t steps = 0, in = 0;
  t->first_step = BY_ARENA_ARRAY(&t->arena, uint64_t, cast->n_actors);
  t->first_in = BY_ARENA_ARRAY(&t->arena, uint64_t, cast->n_actors);
  if (t->arena.failed) return NO_MEMORY;
  for (uint32_t a = 0; a < cast->n_actors; a++) {
    t->first_step[a] = steps;
    t->first_in[a] = in;
    steps += get_schedule(t, a)->n_steps;
    in += get_schedule(t, a)->n_incoming;
  }
  t->steps = BY_ARENA_ARRAY(&t->arena, struct by_traffic_step, steps);
  t->arrived = BY_ARENA_ARRAY(&t->arena, uint64_t, in);
  t->streams = BY_ARENA_ARRAY(&t->arena, struct by_traffic_stream, cast->n_streams);
  t->woken = BY_ARENA_ARRAY(&t->arena, uint32_t, cast->n_streams);
  return t->arena.failed ? NO_MEMORY : BANYAN_OK;
}

enum banyan_status by_traffic_init(struct by_traffic *t, const struct by_cast *cast, uint64_t chunk,
                                   uint32_t max_level) {
  *t = (struct by_traffic){.cast = cast, .chunk = chunk, .max_level = max_level};
  enum banyan_status status = allocate_traffic(t);
  if (status != BANYAN_OK) {
    by_traffic_fini(t);
    return status;
  }
  for (uint32_t s = 0; s < cast->n_streams; s++)
    t->streams[s] = (struct by_traffic_stream){.first = NONE, .last = NONE, .sending = NONE, .last_sent = NONE};
  for (uint32_t a = 0; a < cast->n_actors; a++) {
    const struct by_schedule *schedule = get_schedule(t, a);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
      const struct by_step *step = &schedule->steps[i];
      t->steps[t->first_step[a] + i].at = get_start(t, step);
      if (step->level > t->max_level || get_start(t, step) == get_end(t, step)) continue;
      t->steps_left++;
      if (step->kind == BY_STEP_SEND || step->kind == BY_STEP_COPY) list_step(t, a, i);
    }
  }
  update_steps(t);
  return BANYAN_OK;
}

void by_traffic_fini(struct by_traffic *t) {
  by_arena_fini(&t->arena);
  free(t->work);
  *t = (struct by_traffic){0};
}
