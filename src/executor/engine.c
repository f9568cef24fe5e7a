#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { FRAMES_A_TURN = 16, WORK_A_TURN = 64, STILL_S = 2, VERDICT_S = 4 };

/* ---- life */

static void set_defaults(struct by_engine_options *options) {
  if (!options->unasked) options->unasked = 1 << 20;
  if (options->window < options->unasked) options->window = options->unasked;
  if (!options->link_credit) options->link_credit = 4 << 20;
  if (!options->block) options->block = 64 << 10;
  if (!options->ranks) options->ranks = options->processes;
  if (!options->aid_memory) options->aid_memory = (size_t)1 << 30;
  if (!options->spread) options->spread = 128 << 10;
  if (!options->tracer) options->tracer = &by_tracer_off;
  if (!options->clock.now) options->clock = by_clock_system;
}

enum banyan_status by_engine_create(const struct by_engine_options *options, struct by_engine **out) {
  struct by_engine *engine = calloc(1, sizeof *engine);
  if (!engine) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the executor");
  engine->options = *options;
  engine->mark = (struct by_mark){-1, -1};
  set_defaults(&engine->options);
  engine->aids = by_is_aid(engine, options->self);
  engine->ready_end = &engine->ready;
  engine->dirty_end = &engine->dirty;
  engine->letters_end = &engine->letters;
  enum banyan_status status = by_links_grow(engine, options->processes);
  if (status != BANYAN_OK) {
    by_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return BANYAN_OK;
}

void by_engine_destroy(struct by_engine *engine) {
  if (!engine) return;
  by_engine_fail(engine, BANYAN_ERR_CLOSED, UINT32_MAX, "the communicator was destroyed");
  while (engine->domains) by_domain_destroy(engine->domains);
  by_links_free(engine);
  by_engine_free_pools(engine);
  by_letters_fini(engine);
  free(engine->gone);
  free(engine);
}

/* ---- links */

void by_engine_attach(struct by_engine *engine, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct by_link *link = engine->links[process];
  bool wanted = !link->lane && !link->lost && engine->status == BANYAN_OK;
  for (uint32_t i = 0; i < n; i++) {
    if (!wanted || i >= BY_LANES) {
      lanes[i]->ops->destroy(lanes[i]);
      continue;
    }
    struct by_end *end = &link->ends[link->n_ends++];
    *end = (struct by_end){.link = link, .lane = lanes[i]};
    engine->ends[engine->active++] = end;
    by_engine_mark_lane(engine, end->lane);
  }
  if (!wanted) return;
  link->lane = lanes[0];
  by_link_touch(link);
  engine->counters.links++;
}

void by_engine_attach_fabric(struct by_engine *engine, uint32_t process, struct by_fabric *fabric) {
  struct by_link *link = engine->links[process];
  if (link->fabric || engine->status != BANYAN_OK) {
    fabric->ops->destroy(fabric);
    return;
  }
  link->fabric = fabric;
  link->through = true;
  engine->fabrics[engine->n_fabrics++] = link;
  by_engine_mark_fabric(engine, fabric);
  by_link_touch(link);
}

uint64_t by_engine_deadline(const struct by_engine *engine) {
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < engine->n_fabrics; i++) {
    const struct by_fabric *fabric = engine->fabrics[i]->fabric;
    uint64_t at = fabric->status == BANYAN_OK ? fabric->ops->deadline(fabric) : UINT64_MAX;
    if (at < first) first = at;
  }
  return first;
}

bool by_engine_attached(const struct by_engine *engine, uint32_t process) {
  return engine->links[process]->lane != NULL;
}

const char *by_engine_name(const struct by_engine *engine, uint32_t process, char *text) {
  if (engine->options.name) return engine->options.name(engine->options.context, process);
  snprintf(text, BY_NAME_BYTES, "rank %u", process);
  return text;
}

/* Whether more has to come from the peer: what has come may still wait here for others to be added to, unless it lies
 * in the peer's memory. */
static bool is_missing(const struct by_in *in) {
  bool there = in->source == BY_IN_MAPPED || in->source == BY_IN_PULLED;
  return in->arrived < in->length || (there && in->consumed < in->length);
}

static bool waits_for(const struct by_engine *engine, const struct by_link *link) {
  for (const struct by_call *call = engine->running; call; call = call->next) {
    for (uint32_t i = 0; i < call->schedule->n_incoming; i++)
      if (call->ins[i].link == link && is_missing(&call->ins[i])) return true;
    for (uint32_t i = 0; i < call->program->n_outs; i++)
      if (call->outs[i].link == link && !call->states[call->outs[i].step].done) return true;
  }
  return false;
}

/* Whether the peer closed this lane on purpose and nothing is missing that the others could not still bring. */
static bool left_in_peace(const struct by_end *end) {
  if (!end->leaving && !end->link->left) return false;
  for (uint32_t i = 0; i < end->link->n_ends; i++)
    if (end->link->ends[i].lane->status == BANYAN_OK) return true;
  return !waits_for(end->link->engine, end->link);
}

static void fail_for_leaving(const struct by_link *link) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES], self[BY_NAME_BYTES];
  struct by_engine *engine = link->engine;
  snprintf(text, sizeof text, "%s left (it destroyed its communicator or ended) while %s still waits for it",
           by_engine_name(engine, link->process, name), by_engine_name(engine, engine->options.self, self));
  by_engine_fail(engine, BANYAN_ERR_PEER_DEAD, link->process, text);
}

/* Whoever knows all processes says whether it is lost. */
void by_link_given_up(struct by_link *link, const char *why) {
  struct by_engine *engine = link->engine;
  const struct by_engine_options *options = &engine->options;
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES];
  if (link->suspected || link->lost) return;
  link->suspected = true;
  snprintf(text, sizeof text, "%s is gone: %s", by_engine_name(engine, link->process, name), why);
  if (options->suspects && options->suspects(options->context, link->process, text)) return;
  by_engine_fail(engine, BANYAN_ERR_PEER_DEAD, link->process, text);
}

void by_link_failed(struct by_end *end) {
  struct by_link *link = end->link;
  struct by_engine *engine = link->engine;
  const struct by_engine_options *options = &engine->options;
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES];
  if (by_is_aid(engine, link->process)) {
    by_link_given_up(link, end->leaving ? "it left" : end->lane->error);
    return;
  }
  if (link->suspected || left_in_peace(end)) return;
  if (end->leaving || link->left) {
    fail_for_leaving(link);
    return;
  }
  snprintf(text, sizeof text, "%s is gone: %s", by_engine_name(engine, link->process, name), end->lane->error);
  bool dead = end->lane->status == BANYAN_ERR_PEER_DEAD;
  link->suspected = true;
  if (dead && options->suspects && options->suspects(options->context, link->process, text)) return;
  by_engine_fail(engine, end->lane->status, link->process, text);
}

/* Calls that wait for who left before there was a lane. */
static void look_for_left(struct by_engine *engine) {
  for (uint32_t i = 0; i < engine->processes && engine->status == BANYAN_OK; i++) {
    const struct by_link *link = engine->links[i];
    if (link->never && !link->lane && waits_for(engine, link)) fail_for_leaving(link);
  }
}

void by_engine_left(struct by_engine *engine, uint32_t process, bool never) {
  struct by_link *link = engine->links[process];
  if (never && !link->never) engine->never++;
  link->left = true;
  link->never |= never;
  /* what was said of ends of lanes is looked at again, now that this is known */
  for (uint32_t i = 0; i < engine->processes; i++) engine->links[i]->suspected = false;
  look_for_left(engine);
}

/* ---- moving */

static inline void run_ready(struct by_engine *engine) {
  struct by_call *call = engine->ready;
  engine->ready = NULL;
  engine->ready_end = &engine->ready;
  while (call) {
    struct by_call *next = call->ready_next;
    call->ready = false;
    if (by_work_run(call, WORK_A_TURN)) {
      uint32_t step = call->work[call->work_first]; /* still has work: list it again */
      call->states[step].queued = false;
      call->work_n--;
      if (++call->work_first == call->schedule->n_steps) call->work_first = 0;
      by_work_queue(call, step);
    }
    by_call_drop(call);
    call = next;
  }
}

/* Flushes the links that were touched; those whose lane is full come again next time. */
static inline void flush_dirty(struct by_engine *engine) {
  struct by_link *link = engine->dirty;
  engine->dirty = NULL;
  engine->dirty_end = &engine->dirty;
  while (link) {
    struct by_link *next = link->dirty_next;
    link->dirty = false;
    if (!by_link_flush(link)) by_link_touch(link);
    link = next;
  }
}

static inline void send_what_is_ready(struct by_engine *engine) {
  if (engine->ready) run_ready(engine);
  if (engine->dirty) flush_dirty(engine);
}

/* What comes in is passed on frame by frame, so that the peers can go on with it. */
static inline void progress_end(struct by_end *end) {
  struct by_engine *engine = end->link->engine;
  if (end->lane->status != BANYAN_OK) {
    by_link_failed(end);
    return;
  }
  for (int i = 0; i < FRAMES_A_TURN && by_deliver(end) && engine->status == BANYAN_OK; i++) {
    engine->moved = true;
    send_what_is_ready(engine);
    if (!engine->pending) return; /* whoever waited can go on; there is another turn for what comes behind */
  }
}

bool by_engine_progress(struct by_engine *engine) {
  engine->moved = false;
  if (engine->closing && engine->status == BANYAN_OK) by_links_close(engine);
  send_what_is_ready(engine);
  for (uint32_t i = 0; i < engine->active && engine->status == BANYAN_OK; i++) progress_end(engine->ends[i]);
  for (uint32_t i = 0; i < engine->n_fabrics && engine->status == BANYAN_OK; i++)
    by_through_progress(engine->fabrics[i]);
  send_what_is_ready(engine);
  if (engine->due || engine->retry) by_due_run(engine);
  return engine->moved;
}

uint32_t by_engine_pending(const struct by_engine *engine) {
  return engine->pending;
}

bool by_engine_has_to_send(const struct by_engine *engine) {
  return engine->dirty && engine->status == BANYAN_OK;
}

uint64_t by_engine_ended(const struct by_engine *engine) {
  return engine->counters.calls - engine->pending;
}

void by_engine_sleeping(struct by_engine *engine, bool asleep) {
  if (asleep) engine->counters.sleeps++;
  for (uint32_t i = 0; i < engine->active; i++) {
    struct by_lane *lane = engine->ends[i]->lane;
    if (lane->ops->sleeping) lane->ops->sleeping(lane, asleep);
  }
}

bool by_engine_goodbye(struct by_engine *engine) {
  bool all = true;
  for (uint32_t i = 0; i < engine->active; i++) {
    struct by_end *end = engine->ends[i];
    struct by_link *link = end->link;
    if (end->lane->status != BANYAN_OK || end->parting || link->lost) continue;
    by_link_flush(link);
    struct by_frame frame = {.type = BY_FRAME_GOODBYE};
    bool clear = !link->kept && !link->notes && !link->outs && !link->n_words && !link->letters;
    if (clear && end->lane->ops->send(end->lane, &frame, NULL) != BY_LANE_FULL)
      end->parting = true;
    else
      all = false;
  }
  for (uint32_t i = 0; i < engine->active; i++) {
    struct by_lane *lane = engine->ends[i]->lane;
    if (lane->status != BANYAN_OK || engine->ends[i]->link->lost) continue; /* who is stopped takes nothing */
    if (!lane->ops->flush(lane) || (lane->ops->arrived && !lane->ops->arrived(lane))) all = false;
  }
  return all;
}

/* ---- memory of others */

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

static bool call_uses(const struct by_call *call, const char *memory, size_t bytes) {
  const struct by_schedule *s = call->schedule;
  for (int b = BY_BUFFER_SEND; call->joint && b <= BY_BUFFER_RECV; b++)
    if (overlap(call->buffer[b], call->bounds[s->n_pieces], memory, bytes)) return true;
  if (call->user_bytes && overlap(call->user_recv, call->user_bytes, memory, bytes)) return true;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const struct by_step *step = &s->steps[i];
    uint64_t first = call->bounds[step->first], n = call->bounds[step->last] - first;
    bool reads = step->kind != BY_STEP_RECEIVE, writes = step->kind != BY_STEP_SEND;
    uint64_t from = step->kind == BY_STEP_REDUCE ? first : call->bounds[step->from_first];
    if (reads && overlap(call->buffer[step->from] + from, n, memory, bytes)) return true;
    if (writes && overlap(call->buffer[step->to] + first, n, memory, bytes)) return true;
  }
  return false;
}

bool by_engine_uses(const struct by_engine *engine, const void *memory, size_t bytes) {
  for (const struct by_call *call = engine->running; call; call = call->next)
    if (call_uses(call, memory, bytes)) return true;
  return false;
}

void by_engine_forget_region(struct by_engine *engine, uint32_t region) {
  for (uint32_t i = 0; i < engine->active; i++) {
    struct by_link *link = engine->ends[i]->link;
    if (engine->ends[i] == &link->ends[0]) by_link_forget(link, region);
  }
  if (engine->status == BANYAN_OK) flush_dirty(engine);
}

/* ---- failing */

/* The callers get their memory back, and use it again, while peers that have not heard may still read it. */
static void withdraw_offers(struct by_engine *engine) {
  for (uint32_t i = 0; i < engine->active; i++) {
    struct by_lane *lane = engine->ends[i]->lane;
    if (lane->ops->withdraw) lane->ops->withdraw(lane);
  }
}

void by_engine_fail(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text) {
  if (engine->status != BANYAN_OK) return;
  engine->status = status;
  snprintf(engine->error, sizeof engine->error, "%s", text);
  withdraw_offers(engine);
  while (engine->running) by_call_end(engine->running, status);
  if (engine->options.failed && status != BANYAN_ERR_CLOSED)
    engine->options.failed(engine->options.context, status, process, engine->error);
}

enum banyan_status by_engine_status(const struct by_engine *engine) {
  return engine->status;
}

const char *by_engine_error(const struct by_engine *engine) {
  return engine->error;
}

static bool misses(const struct by_call *call, uint32_t peer) {
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++)
    if (call->schedule->incoming[i].peer == peer && call->ins[i].arrived < call->ins[i].length) return true;
  for (uint32_t i = 0; i < call->program->n_outs; i++) {
    uint32_t step = call->outs[i].step;
    if (call->schedule->steps[step].peer == peer && !call->states[step].done) return true;
  }
  return false;
}

/* Names the peers a call still waits for, each once. */
static void describe_missing(const struct by_call *call, char *text, size_t room) {
  enum { MOST_NAMED = 4 };
  size_t used = 0;
  uint32_t named[MOST_NAMED], culprits = 0;
  text[0] = 0;
  const struct by_call *part = call;
  for (uint32_t k = 0; part; part = by_joint_part(call, k++))
    for (uint32_t p = 0; p < part->schedule->n_peers; p++) {
      uint32_t process = part->program->links[p]->process;
      bool known = !misses(part, p);
      for (uint32_t i = 0; i < culprits && i < MOST_NAMED; i++) known |= named[i] == process;
      if (known || culprits++ >= MOST_NAMED) continue;
      named[culprits - 1] = process;
      char name[BY_NAME_BYTES];
      int n = snprintf(text + used, room - used, "%s%s", culprits > 1 ? ", " : "",
                       by_engine_name(call->engine, process, name));
      used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
    }
  if (culprits > MOST_NAMED) snprintf(text + used, room - used, " and %u more", culprits - MOST_NAMED);
}

/* Where nothing ends for a while, ranks may wait for each other because they make different calls. */
static void ask_if_still(struct by_engine *engine, uint64_t now) {
  uint64_t ended = by_engine_ended(engine);
  if (ended != engine->ended_then || !engine->ask_at) {
    engine->ended_then = ended;
    engine->ask_after = STILL_S * BY_SECOND;
    engine->ask_at = now + engine->ask_after;
  }
  if (now < engine->ask_at) return;
  engine->ask_after *= 2;
  engine->ask_at = now + engine->ask_after;
  if (engine->options.asks) (void)engine->options.asks(engine->options.context, NULL, NULL);
}

/* A call's deadline has passed. Whom it waits for may wait for somebody else: others know more. */
static void is_late(struct by_engine *engine, const struct by_call *call, uint64_t now) {
  const struct by_engine_options *options = &engine->options;
  char what[160], who[256], passed[256], text[BY_TEXT_BYTES];
  if (engine->verdict_at && now < engine->verdict_at) return;
  describe_missing(call, who, sizeof who);
  snprintf(passed, sizeof passed, "the deadline of call %u, %s, passed", call->stamp.call,
           by_call_describe(&call->stamp, what, sizeof what));
  if (!engine->verdict_at && options->asks && options->asks(options->context, passed, who)) {
    engine->verdict_at = now + VERDICT_S * BY_SECOND;
    return;
  }
  char name[BY_NAME_BYTES];
  bool mute = engine->verdict_at != 0; /* others may wait for rank 0 only because this rank waits for it */
  if (mute)
    snprintf(text, sizeof text,
             "%s, and %s does not answer: is it stopped, or its machine overloaded? This rank waits for %s", passed,
             by_engine_name(engine, 0, name), who);
  else
    snprintf(text, sizeof text, "%s while waiting for %s; is it slow, or did it not make this call?", passed, who);
  by_engine_fail(engine, BANYAN_ERR_TIMEOUT, mute ? 0 : UINT32_MAX, text);
}

void by_engine_check_deadlines(struct by_engine *engine) {
  if (!engine->running) return;
  uint64_t now = by_clock_now(&engine->options.clock);
  if (engine->never) look_for_left(engine);
  ask_if_still(engine, now);
  const struct by_call *late = engine->running;
  while (late && (!late->deadline || now < late->deadline)) late = late->next;
  if (late)
    is_late(engine, late, now);
  else
    engine->verdict_at = 0;
}

/* ---- counters */

void by_engine_count_allocation(struct by_engine *engine) {
  engine->counters.allocations++;
}
