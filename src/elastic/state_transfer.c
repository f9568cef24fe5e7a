/* Sends the chunks of a state's copy from members that have it to those that do not. */
#include "state_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

#include "clock.h"
#include "log.h"
#include "state_message.h"
#include "text.h"

/* ---- the source of each chunk */

/* Chooses holders from rank `from` on, first those on hosts of which no holder was chosen, then any. */
static void choose_holders(struct by_state_sources *s, uint32_t from, uint32_t n, const bool *holds,
                           const uint32_t *host_of, bool *taken) {
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < n && s->n_holders < BY_STATE_MOST_HOLDERS; i++) {
      uint32_t r = (from + i) % n;
      bool usable = holds[r] && (!s->local || host_of[r] == host_of[s->rank]);
      bool first = !taken[host_of[r]];
      bool known = false;
      for (uint32_t k = 0; k < s->n_holders; k++) known = known || s->holders[k] == r;
      if (!usable || known || (pass == 0 && !first)) continue;
      taken[host_of[r]] = true;
      s->holders[s->n_holders++] = r;
    }
}

/* Returns the holder from which a host begins to choose, so that hosts ask different holders if there are enough. */
static uint32_t first_holder(uint32_t host, uint32_t n, const bool *holds) {
  uint32_t count = 0, r = 0;
  for (uint32_t i = 0; i < n; i++) count += holds[i];
  uint32_t each = count > BY_STATE_MOST_HOLDERS ? BY_STATE_MOST_HOLDERS : 1;
  uint32_t left = count ? host * each % count : 0;
  while (r + 1 < n && (left || !holds[r])) left -= holds[r++];
  return r;
}

enum banyan_status by_state_sources_init(struct by_state_sources *s, struct by_arena *arena, uint32_t rank, uint32_t n,
                                         const bool *holds, const bool *receives, const uint32_t *host_of,
                                         uint32_t n_hosts) {
  *s = (struct by_state_sources){.rank = rank};
  uint32_t *number = BY_ARENA_ARRAY(arena, uint32_t, n_hosts), *count = BY_ARENA_ARRAY(arena, uint32_t, n_hosts + 1);
  bool *has_holder = BY_ARENA_ARRAY(arena, bool, n_hosts), *taken = BY_ARENA_ARRAY(arena, bool, n_hosts);
  s->receivers = BY_ARENA_ARRAY(arena, uint32_t, n);
  s->first = BY_ARENA_ARRAY(arena, uint32_t, n_hosts + 1);
  if (arena->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the sources of a state");
  for (uint32_t r = 0; r < n; r++)
    if (holds[r]) has_holder[host_of[r]] = true;
  for (uint32_t h = 0; h < n_hosts; h++) number[h] = UINT32_MAX;
  for (uint32_t r = 0; r < n; r++) {
    uint32_t h = host_of[r];
    if (!receives[r] || has_holder[h]) continue;
    if (number[h] == UINT32_MAX) number[h] = s->n_hosts++;
    count[number[h]]++;
  }
  for (uint32_t h = 0; h < s->n_hosts; h++) s->first[h + 1] = s->first[h] + count[h];
  memset(count, 0, n_hosts * sizeof *count);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t h = number[host_of[r]];
    if (receives[r] && !has_holder[host_of[r]]) s->receivers[s->first[h] + count[h]++] = r;
  }
  s->local = has_holder[host_of[rank]];
  s->host = s->local ? 0 : number[host_of[rank]];
  choose_holders(s, s->local ? rank : first_holder(s->host, n, holds), n, holds, host_of, taken);
  return BANYAN_OK;
}

/* Returns the receiver of a host that gets this chunk from another host. */
static uint32_t receiver_on(const struct by_state_sources *s, uint32_t host, uint32_t chunk) {
  uint32_t n = s->first[host + 1] - s->first[host];
  return s->receivers[s->first[host] + chunk / s->n_hosts % n];
}

uint32_t by_state_source_of(const struct by_state_sources *s, uint32_t chunk) {
  if (s->local) return BY_STATE_FROM_HOLDERS;
  uint32_t here = receiver_on(s, s->host, chunk), owner = chunk % s->n_hosts;
  if (here != s->rank) return here;
  return owner == s->host ? BY_STATE_FROM_HOLDERS : receiver_on(s, owner, chunk);
}

enum { TAG_REQUEST = 0, TAG_CHUNK = 1 /* Chunk c has the tag TAG_CHUNK + c. */, FIRST_WINDOW = 4, MOST_WINDOW = 64 };
#define AHEAD 0.25      /* Seconds of data that are requested of a source in advance. */
#define MEASURED 0.1    /* Seconds over which a source's rate is measured. */
#define ROUND BY_SECOND /* Nanoseconds between counts of what is missing. */
#define FOR_EVER 1e9    /* Seconds to wait for requests; the rounds detect members that are gone. */

enum chunk_state { MISSING, REQUESTED, HERE };

/* A rank that this member requests chunks of. */
struct source {
  uint32_t rank;
  uint32_t asked;        /* Chunks requested and not received. */
  uint32_t window;       /* Maximum of `asked`. */
  uint64_t bytes, since; /* Bytes received since the time `since` (ns). */
  double rate;           /* Bytes per second; 0 until measured. */
  uint32_t next;         /* No chunk below this that the source may send is missing. */
};

/* A call in progress. */
struct slot {
  enum { ROUNDS, TAKES_REQUEST, SENDS_REQUEST, SENDS_CHUNK, RECEIVES_CHUNK } kind;
  uint32_t chunk;
  struct source *source; /* Set for RECEIVES_CHUNK. */
  int peer;              /* Set for TAKES_REQUEST. */
  uint8_t message[BY_STATE_REQUEST_BYTES];
};

/* A request for a chunk that this member does not have yet. */
struct waiting {
  uint32_t chunk;
  int peer;
};

struct work {
  struct by_state_transfer *t;
  struct by_arena arena;
  size_t total; /* Bytes of the copy. */
  uint32_t n_chunks, n_missing;
  uint8_t *state;    /* The enum chunk_state of each chunk. */
  uint32_t *from;    /* For each chunk, the rank of its source, or BY_STATE_FROM_HOLDERS. */
  uint32_t *refused; /* For each chunk, bit i is set if holder i sent wrong bytes. */
  struct source *sources;
  uint32_t n_sources; /* The holders come first. */
  struct banyan_request **requests;
  struct slot **slots;
  size_t n, room_requests, room_slots;
  struct waiting *waiting;
  size_t n_waiting, room_waiting;
  int64_t mine[3], all[3]; /* Sums of a round: missing bytes, members that miss some, members that gave up. */
  bool counting, done;     /* A round is in progress; the last round has ended. */
  uint64_t counted;        /* End of the last round (ns). */
  uint64_t began, logged;
  enum banyan_status failed; /* Why this member gives up; BANYAN_OK if it does not. */
  char text[400];
};

/* ---- calls */

static enum banyan_status out_of_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the transfer of a state");
}

static enum banyan_status start(struct work *w, const struct slot *like, struct banyan_call *call, bool any) {
  if (!BY_ARRAY_GROW(&w->requests, &w->room_requests, w->n + 1) || !BY_ARRAY_GROW(&w->slots, &w->room_slots, w->n + 1))
    return out_of_memory();
  struct slot *slot = malloc(sizeof *slot);
  if (!slot) return out_of_memory();
  *slot = *like;
  if (slot->kind == TAKES_REQUEST) call->recv = slot->message;
  if (slot->kind == SENDS_REQUEST) call->send = slot->message;
  enum banyan_status status = any ? banyan_recv_any(w->t->comm, call, &slot->peer, &w->requests[w->n])
                                  : banyan_start(w->t->comm, call, &w->requests[w->n]);
  if (status != BANYAN_OK) {
    free(slot);
    return status;
  }
  w->slots[w->n++] = slot;
  return BANYAN_OK;
}

static enum banyan_status take_request(struct work *w) {
  struct banyan_call call = {.collective = BANYAN_RECV,
                             .dtype = BANYAN_UINT8,
                             .count = BY_STATE_REQUEST_BYTES,
                             .tag = TAG_REQUEST,
                             .deadline = FOR_EVER};
  return start(w, &(struct slot){.kind = TAKES_REQUEST}, &call, true);
}

static struct banyan_call chunk_call(struct work *w, enum banyan_collective collective, uint32_t chunk, int peer) {
  uint8_t *at = w->t->area + (size_t)chunk * BY_STATE_CHUNK;
  return (struct banyan_call){.collective = collective,
                              .dtype = BANYAN_UINT8,
                              .root = peer,
                              .send = at,
                              .recv = at,
                              .count = by_state_chunk_bytes(w->total, chunk),
                              .tag = TAG_CHUNK + chunk};
}

static enum banyan_status send_chunk(struct work *w, uint32_t chunk, int peer) {
  struct banyan_call call = chunk_call(w, BANYAN_SEND, chunk, peer);
  return start(w, &(struct slot){.kind = SENDS_CHUNK, .chunk = chunk}, &call, false);
}

static enum banyan_status request_chunk(struct work *w, uint32_t chunk, struct source *source) {
  struct banyan_call take = chunk_call(w, BANYAN_RECV, chunk, (int)source->rank);
  struct banyan_call ask = {.collective = BANYAN_SEND,
                            .dtype = BANYAN_UINT8,
                            .root = (int)source->rank,
                            .count = BY_STATE_REQUEST_BYTES,
                            .tag = TAG_REQUEST};
  struct slot asking = {.kind = SENDS_REQUEST};
  by_state_request_write(asking.message, chunk, w->t->digest);
  BY_TRY(start(w, &(struct slot){.kind = RECEIVES_CHUNK, .chunk = chunk, .source = source}, &take, false));
  BY_TRY(start(w, &asking, &ask, false));
  if (!source->asked++) {
    source->since = by_clock_now(&by_clock_system);
    source->bytes = 0;
  }
  w->state[chunk] = REQUESTED;
  return BANYAN_OK;
}

/* ---- which chunk next */

static uint32_t n_holders(const struct work *w) {
  return w->t->sources ? w->t->sources->n_holders : 0;
}

/* Returns a missing chunk that this source may send; n_chunks if there is none. */
static uint32_t next_chunk(struct work *w, struct source *source) {
  uint32_t i = (uint32_t)(source - w->sources), from = i < n_holders(w) ? BY_STATE_FROM_HOLDERS : source->rank;
  uint32_t c = source->next;
  while (c < w->n_chunks && (w->state[c] != MISSING || w->from[c] != from)) c++;
  source->next = c;
  while (c < w->n_chunks && i < n_holders(w) &&
         (w->state[c] != MISSING || w->from[c] != from || w->refused[c] >> i & 1))
    c++;
  return c;
}

/* Whether another holder alone would send all that is still missing sooner than this one would send one more chunk. */
static bool others_are_sooner(const struct work *w, const struct source *source) {
  uint32_t left = w->n_missing;
  if (source->rate <= 0) return false;
  for (uint32_t i = 0; i < w->n_sources; i++) left -= w->sources[i].asked;
  for (uint32_t i = 0; i < n_holders(w); i++) {
    const struct source *other = &w->sources[i];
    if (other != source && other->rate > 0 && (other->asked + left) / other->rate < (source->asked + 1) / source->rate)
      return true;
  }
  return false;
}

/* Requests one more chunk of a source, if it should send one. */
static enum banyan_status request_one(struct work *w, struct source *source, bool *requested) {
  bool holds = source - w->sources < n_holders(w);
  if (source->asked >= source->window) return BANYAN_OK;
  uint32_t chunk = next_chunk(w, source);
  if (chunk == w->n_chunks || (holds && !w->refused[chunk] && others_are_sooner(w, source))) return BANYAN_OK;
  *requested = true;
  return request_chunk(w, chunk, source);
}

/* Requests from the sources in turn, so that even few chunks come from all of them. */
static enum banyan_status request_more(struct work *w) {
  bool requested = w->failed == BANYAN_OK;
  while (requested) {
    requested = false;
    for (uint32_t i = 0; i < w->n_sources; i++) BY_TRY(request_one(w, &w->sources[i], &requested));
  }
  return BANYAN_OK;
}

/* ---- what comes */

static void measure(struct source *source, size_t bytes, uint64_t now) {
  source->bytes += bytes;
  double seconds = by_clock_to_seconds(now - source->since);
  if (seconds < MEASURED) return;
  double rate = (double)source->bytes / seconds;
  source->rate = source->rate > 0 ? (source->rate + rate) / 2 : rate;
  double window = source->rate * AHEAD / BY_STATE_CHUNK + 2;
  source->window = window < MOST_WINDOW ? (uint32_t)window : MOST_WINDOW;
  source->bytes = 0;
  source->since = now;
}

static const char *name_of(const struct work *w, uint32_t rank) {
  return w->t->name_of(w->t->argument, rank);
}

static void give_up(struct work *w, enum banyan_status status) {
  w->failed = status;
  snprintf(w->text, sizeof w->text, "%s", banyan_error_text());
}

/* Whether another member can be asked for a chunk of which this source sent wrong bytes. */
static bool can_ask_another(struct work *w, uint32_t chunk, const struct source *source) {
  uint32_t i = (uint32_t)(source - w->sources), every = (1u << n_holders(w)) - 1;
  if (i < n_holders(w)) {
    w->refused[chunk] |= 1u << i;
    return w->refused[chunk] != every;
  }
  w->from[chunk] = BY_STATE_FROM_HOLDERS; /* The source had checked the bytes, so they were damaged later. */
  return true;
}

static void reject_chunk(struct work *w, uint32_t chunk, struct source *source) {
  const struct banyan_state_buffer *buffer = by_state_layout_at(w->t->layout, (size_t)chunk * BY_STATE_CHUNK);
  char text[300];
  snprintf(text, sizeof text, "%s sent wrong bytes of version %lld of the state: chunk %u, at buffer \"%.100s\"",
           name_of(w, source->rank), (long long)w->t->version, chunk, buffer->name);
  w->state[chunk] = MISSING;
  if (can_ask_another(w, chunk, source)) {
    by_warn("state", "%s; asking another member", text);
    for (uint32_t i = 0; i < n_holders(w); i++)
      if (w->sources[i].next > chunk) w->sources[i].next = chunk;
  } else {
    give_up(w, by_fail(BANYAN_ERR_PROTOCOL, "%s, as all others did before", text));
  }
}

static enum banyan_status answer_waiting(struct work *w, uint32_t chunk) {
  for (size_t i = 0; i < w->n_waiting;) {
    struct waiting one = w->waiting[i];
    if (one.chunk != chunk) {
      i++;
      continue;
    }
    w->waiting[i] = w->waiting[--w->n_waiting];
    BY_TRY(send_chunk(w, chunk, one.peer));
  }
  return BANYAN_OK;
}

static enum banyan_status receive_chunk(struct work *w, const struct slot *slot) {
  size_t bytes = by_state_chunk_bytes(w->total, slot->chunk);
  slot->source->asked--;
  measure(slot->source, bytes, by_clock_now(&by_clock_system));
  if (by_state_hash(w->t->area + (size_t)slot->chunk * BY_STATE_CHUNK, bytes) != w->t->hashes[slot->chunk]) {
    reject_chunk(w, slot->chunk, slot->source);
    return BANYAN_OK;
  }
  w->state[slot->chunk] = HERE;
  w->t->have[slot->chunk] = true;
  w->t->bytes += bytes;
  w->n_missing--;
  return answer_waiting(w, slot->chunk);
}

static enum banyan_status answer_request(struct work *w, const struct slot *slot) {
  uint32_t chunk;
  if (w->failed != BANYAN_OK) return BANYAN_OK;
  enum banyan_status status = by_state_request_read(slot->message, w->n_chunks, w->t->digest, &chunk);
  if (status != BANYAN_OK) {
    give_up(w, by_fail_within(status, "%s", name_of(w, (uint32_t)slot->peer)));
    return BANYAN_OK;
  }
  BY_TRY(take_request(w));
  if (w->state[chunk] == HERE) return send_chunk(w, chunk, slot->peer);
  if (!BY_ARRAY_GROW(&w->waiting, &w->room_waiting, w->n_waiting + 1)) return out_of_memory();
  w->waiting[w->n_waiting++] = (struct waiting){chunk, slot->peer};
  return BANYAN_OK;
}

/* ---- rounds */

static size_t missing_bytes(const struct work *w) {
  size_t bytes = (size_t)w->n_missing * BY_STATE_CHUNK;
  return bytes < w->total ? bytes : w->total;
}

static void log_progress(struct work *w, uint64_t now) {
  char left[32], rate[32];
  if (now - w->logged < ROUND || !by_log_wanted(BY_LOG_INFO, "state")) return;
  w->logged = now;
  if (w->t->sources)
    by_info("state", "version %lld: %s are missing, %s so far from %u members", (long long)w->t->version,
            by_print_bytes(missing_bytes(w), left),
            by_print_rate(8 * (double)w->t->bytes / by_clock_to_seconds(now - w->began), rate), w->n_sources);
  else
    by_info("state", "version %lld: %lld members still miss %s", (long long)w->t->version, (long long)w->all[1],
            by_print_bytes((uint64_t)w->all[0], left));
}

/* Starts a round of counting. Receivers that miss chunks determine how often. */
static enum banyan_status count(struct work *w) {
  uint64_t now = by_clock_now(&by_clock_system);
  bool is_busy = w->n_missing && w->failed == BANYAN_OK;
  if (w->counting || w->done || (is_busy && now - w->counted < ROUND)) return BANYAN_OK;
  w->mine[0] = (int64_t)missing_bytes(w);
  w->mine[1] = w->n_missing > 0;
  w->mine[2] = w->failed != BANYAN_OK;
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_INT64,
                             .op = BANYAN_SUM,
                             .send = w->mine,
                             .recv = w->all,
                             .count = 3};
  w->counting = true;
  return start(w, &(struct slot){.kind = ROUNDS}, &call, false);
}

static void end_count(struct work *w) {
  w->counting = false;
  w->counted = by_clock_now(&by_clock_system);
  w->done = !w->all[1] || w->all[2];
  log_progress(w, w->counted);
}

/* ---- all of it */

static enum banyan_status finish(struct work *w, const struct slot *slot) {
  switch (slot->kind) {
  case ROUNDS: end_count(w); return BANYAN_OK;
  case TAKES_REQUEST: return answer_request(w, slot);
  case RECEIVES_CHUNK: return receive_chunk(w, slot);
  default: return BANYAN_OK;
  }
}

/* Waits for one call to end. */
static enum banyan_status advance(struct work *w) {
  size_t i;
  enum banyan_status status = banyan_wait_any(w->requests, w->n, &i);
  struct slot *slot = w->slots[i];
  w->requests[i] = w->requests[--w->n];
  w->slots[i] = w->slots[w->n];
  if (status == BANYAN_OK) status = finish(w, slot);
  free(slot);
  return status;
}

/* Keeps a failure of this member alone for the next round, in which the others learn of it. */
static enum banyan_status spread(struct work *w, enum banyan_status status) {
  if (status == BANYAN_OK || banyan_comm_state(w->t->comm) != BANYAN_OK) return status;
  if (w->failed == BANYAN_OK) give_up(w, status);
  return BANYAN_OK;
}

static enum banyan_status run(struct work *w) {
  BY_TRY(spread(w, take_request(w)));
  while (!w->done) {
    BY_TRY(spread(w, request_more(w)));
    enum banyan_status status = count(w);
    if (status != BANYAN_OK) { /* There is no other way to notify the others. */
      banyan_comm_abort(w->t->comm, banyan_error_text());
      return status;
    }
    BY_TRY(spread(w, advance(w)));
  }
  return BANYAN_OK;
}

/* Ends the remaining calls. `complete`: all members succeeded, so sends have completed. Other calls end with the
 * communicator. */
static void end_calls(struct work *w, bool complete) {
  for (size_t i = 0; i < w->n && complete; i++)
    if (w->slots[i]->kind != TAKES_REQUEST) (void)!banyan_wait(w->requests[i]), w->requests[i] = NULL;
  banyan_comm_destroy(w->t->comm);
  w->t->comm = NULL;
  (void)!banyan_wait_all(w->requests, w->n);
  for (size_t i = 0; i < w->n; i++) free(w->slots[i]);
}

static void add_source(struct work *w, uint32_t rank, uint32_t window) {
  w->sources[w->n_sources++] = (struct source){.rank = rank, .window = window};
}

/* One source for each rank that this receiver asks. */
static void list_sources(struct work *w, uint32_t size) {
  const struct by_state_sources *s = w->t->sources;
  bool *known = BY_ARENA_ARRAY(&w->arena, bool, size);
  w->sources = BY_ARENA_ARRAY(&w->arena, struct source, size + BY_STATE_MOST_HOLDERS);
  for (uint32_t i = 0; i < s->n_holders && w->sources; i++) add_source(w, s->holders[i], FIRST_WINDOW);
  for (uint32_t c = 0; c < w->n_chunks && known && w->sources; c++) {
    w->from[c] = by_state_source_of(s, c);
    if (w->from[c] == BY_STATE_FROM_HOLDERS || known[w->from[c]]) continue;
    known[w->from[c]] = true;
    add_source(w, w->from[c], FIRST_WINDOW);
  }
}

static enum banyan_status prepare(struct work *w) {
  struct by_state_transfer *t = w->t;
  w->total = by_state_layout_bytes(t->layout);
  w->n_chunks = (uint32_t)by_state_chunks(w->total);
  w->state = BY_ARENA_ARRAY(&w->arena, uint8_t, w->n_chunks);
  w->from = BY_ARENA_ARRAY(&w->arena, uint32_t, w->n_chunks);
  w->refused = BY_ARENA_ARRAY(&w->arena, uint32_t, w->n_chunks);
  w->began = w->logged = w->counted = by_clock_now(&by_clock_system);
  if (w->arena.failed) return out_of_memory();
  for (uint32_t c = 0; c < w->n_chunks; c++) {
    w->state[c] = t->have[c] ? HERE : MISSING;
    w->n_missing += !t->have[c];
  }
  if (t->sources) list_sources(w, (uint32_t)banyan_comm_size(t->comm));
  return w->arena.failed ? out_of_memory() : BANYAN_OK;
}

enum banyan_status by_state_transfer(struct by_state_transfer *transfer) {
  struct work w = {.t = transfer};
  by_arena_init(&w.arena);
  enum banyan_status status = prepare(&w);
  if (status != BANYAN_OK) {
    give_up(&w, status);
    w.n_chunks = w.n_missing = w.n_sources = 0;
  }
  status = run(&w);
  char text[400];
  snprintf(text, sizeof text, "%s", status == BANYAN_OK ? w.text : banyan_error_text());
  end_calls(&w, status == BANYAN_OK && !w.all[2]);
  free(w.requests);
  free(w.slots);
  free(w.waiting);
  by_arena_fini(&w.arena);
  if (status != BANYAN_OK) return by_fail(status, "%s", text);
  if (w.failed != BANYAN_OK) return by_fail(w.failed, "%s", text);
  return w.all[2] ? by_fail(BANYAN_ERR_CLOSED, "another member cannot receive or send the state") : BANYAN_OK;
}
