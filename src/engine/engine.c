/* Creates and destroys engines, ends calls after failures and deadlines, and drives the links. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deliver.h"
#include "engine_parts.h"
#include "work.h"

enum { FRAMES_A_TURN = 16, STILL_S = 2, VERDICT_S = 4, SETTLE_MS = 500 };

/* A tracer that is never on. */
static struct by_tracer tracer_off;

/* ---- life */

enum banyan_status by_engine_create(const struct by_engine_options *options, struct by_engine **out) {
  struct by_engine *engine = calloc(1, sizeof *engine);
  if (!engine) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the executor");
  struct by_engine_options *own = &engine->options;
  *own = *options;
  if (!own->eager_limit) own->eager_limit = 1 << 20;
  if (own->window < own->eager_limit) own->window = own->eager_limit;
  if (!own->link_credit) own->link_credit = 4 << 20;
  if (!own->block) own->block = 64 << 10;
  if (!own->ranks) own->ranks = own->processes;
  if (!own->relay_memory) own->relay_memory = (size_t)1 << 30;
  if (!own->spread) own->spread = 128 << 10;
  if (!own->tracer) own->tracer = &tracer_off;
  if (!own->clock.now) own->clock = by_clock_system;
  struct by_transfer_options transfer = {.ranks = own->ranks,
                                         .self = own->self,
                                         .eager_limit = own->eager_limit,
                                         .window = own->window,
                                         .link_credit = own->link_credit,
                                         .block = own->block,
                                         .spread = own->spread,
                                         .connect = own->connect,
                                         .name = own->name,
                                         .locate = own->locate,
                                         .context = own->context,
                                         .tracer = own->tracer,
                                         .keeps_lanes = own->keeps_lanes};
  enum banyan_status status = by_transfer_init(by_engine_transfer(engine), &transfer, &by_engine_ops, own->processes);
  by_engine_transfer(engine)->state.failed_process = UINT32_MAX;
  by_runner_init(&engine->recovery.runner, own->chunk);
  engine->recovery.relays = by_transfer_is_relay(by_engine_transfer(engine), own->self);
  engine->recovery.relay_memory = own->relay_memory;
  if (status != BANYAN_OK) {
    by_engine_destroy(engine);
    return status;
  }
  *out = engine;
  return BANYAN_OK;
}

void by_engine_destroy(struct by_engine *engine) {
  if (!engine) return;
  struct by_runner *runner = &engine->recovery.runner;
  by_engine_fail(engine, BANYAN_ERR_CLOSED, UINT32_MAX, "the communicator was destroyed");
  while (runner->teams) by_team_destroy(runner->teams);
  by_transfer_fini(&runner->transfer);
  by_runner_fini(runner);
  free(engine);
}

enum banyan_status by_engine_add(struct by_engine *engine) {
  struct by_runner *runner = &engine->recovery.runner;
  BY_TRY(by_teams_grow(runner, runner->transfer.processes + 1));
  return by_transfer_grow(&runner->transfer, runner->transfer.processes + 1);
}

enum banyan_status by_team_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                  const uint32_t *processes, struct by_team **out) {
  return by_team_make(&engine->recovery.runner, id, rank, n, processes, out);
}

struct by_team *by_engine_team(const struct by_engine *engine, uint32_t id) {
  return by_team_of(&engine->recovery.runner, id);
}

void by_engine_lost(struct by_engine *engine, uint32_t process) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  by_link_lose(transfer->links[process]);
  struct by_link_tree *tree;
  LIST_FOREACH(tree, &transfer->trees, in_transfer) tree->fabric->ops->lose(tree->fabric, process);
  for (struct by_team *d = engine->recovery.runner.teams; d; d = d->next) {
    by_helped_lost(d, process);
    if (engine->recovery.relays) by_relay_lost(d);
    for (uint32_t i = 0; transfer->status == BANYAN_OK && i < d->window_size; i++)
      if (d->window[i] && d->window[i]->recoverable) by_recoverable_lost(d->window[i]);
  }
}

/* ---- failing */

static void end_calls(struct by_engine *engine) {
  const struct by_runner *runner = &engine->recovery.runner;
  by_engine_transfer(engine)->state.settles_by = 0;
  while (!LIST_EMPTY(&runner->running)) by_call_end(LIST_FIRST(&runner->running), runner->transfer.status);
}

void by_engine_failed(struct by_engine *engine, uint32_t process) {
  const struct by_engine_options *options = &engine->options;
  const struct by_transfer *transfer = by_engine_transfer(engine);
  by_engine_transfer(engine)->state.failed_process = process;
  if (options->failed && transfer->status != BANYAN_ERR_CLOSED &&
      options->failed(options->context, transfer->status, process, transfer->state.error))
    by_engine_transfer(engine)->state.settles_by = by_clock_now(&options->clock) + SETTLE_MS * BY_MILLISECOND;
  else
    end_calls(engine);
}

void by_engine_fail(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text) {
  by_transfer_fail(by_engine_transfer(engine), status, process, text);
  if (status == BANYAN_ERR_CLOSED) end_calls(engine); /* The owner does not wait for other processes. */
}

void by_engine_settle(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  by_transfer_fail(transfer, status, process, text);
  if (!by_engine_transfer(engine)->state.settles_by) return;
  transfer->status = status;
  by_engine_transfer(engine)->state.failed_process = process;
  snprintf(transfer->state.error, sizeof transfer->state.error, "%s", text);
  end_calls(engine);
}

void by_engine_explain(struct by_engine *engine, const char *text) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  size_t length = strlen(transfer->state.error);
  if (transfer->status != BANYAN_OK)
    snprintf(transfer->state.error + length, sizeof transfer->state.error - length, "; %s", text);
}

const struct by_engine_state *by_engine_get_state(const struct by_engine *engine) {
  return &engine->recovery.runner.transfer.state;
}

enum banyan_status by_engine_status(const struct by_engine *engine) {
  return by_engine_get_state(engine)->settles_by ? BANYAN_OK : by_engine_transfer(engine)->status;
}

/* ---- links */

/* Whether more has to arrive from the peer. Bytes that have arrived may still wait for others to be added to, unless
 * they lie in the peer's memory. */
static bool is_missing(const struct by_in *in) {
  return in->arrived < in->length || (by_in_is_offered(in) && in->consumed < in->length);
}

static bool waits_for(const struct by_transfer_link *link) {
  const struct by_call *call = LIST_FIRST(&by_runner_of(link->transfer)->running);
  while (call && !by_call_awaits(call, link, is_missing)) call = LIST_NEXT(call, next);
  return call;
}

/* Whether the peer closed this lane on purpose and everything missing can still arrive over its other lanes. */
static bool left_in_peace(const struct by_end *end) {
  if (!end->leaving && !end->link->left) return false;
  for (uint32_t i = 0; i < end->link->n_ends; i++)
    if (end->link->ends[i].lane->status == BANYAN_OK) return true;
  return !waits_for(end->link);
}

static void fail_for_leaving(const struct by_transfer_link *link) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES], self[BY_NAME_BYTES];
  struct by_transfer *transfer = link->transfer;
  snprintf(text, sizeof text, "%s left (it destroyed its communicator or ended) while %s still waits for it",
           by_transfer_name(transfer, link->process, name), by_transfer_name(transfer, transfer->options.self, self));
  by_transfer_fail(transfer, BANYAN_ERR_PEER_DEAD, link->process, text);
}

/* Reports a lost process. Rank 0 knows all processes and decides whether it has failed. */
static void report_lost(struct by_transfer_link *link, enum banyan_status status, const char *why) {
  struct by_engine *engine = by_engine_of(link->transfer);
  const struct by_engine_options *options = &engine->options;
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES];
  if (link->suspected || by_link_is_lost(link)) return;
  link->suspected = true;
  snprintf(text, sizeof text, "%s is gone: %s", by_transfer_name(link->transfer, link->process, name), why);
  bool dead = status == BANYAN_ERR_PEER_DEAD;
  if (dead && options->suspects && options->suspects(options->context, link->process, text)) return;
  by_engine_fail(engine, status, link->process, text);
}

static void lane_failed(struct by_end *end) {
  struct by_transfer_link *link = end->link;
  if (by_transfer_is_relay(link->transfer, link->process))
    report_lost(link, BANYAN_ERR_PEER_DEAD, end->leaving ? "it left" : end->lane->error);
  else if (link->suspected || left_in_peace(end))
    return;
  else if (end->leaving || link->left)
    fail_for_leaving(link);
  else
    report_lost(link, end->lane->status, end->lane->error);
}

/* Fails if calls wait for processes that left before they had a lane. */
static void fail_if_left(struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->processes && transfer->status == BANYAN_OK; i++) {
    const struct by_transfer_link *link = transfer->links[i];
    if (link->never && !link->lane && waits_for(link)) fail_for_leaving(link);
  }
}

void by_engine_left(struct by_engine *engine, uint32_t process, bool never) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  struct by_transfer_link *link = transfer->links[process];
  if (never && !link->never) engine->never++;
  by_link_left(link, never);
  /* Report the ends of lanes again, now that this is known. */
  for (uint32_t i = 0; i < transfer->processes; i++) transfer->links[i]->suspected = false;
  fail_if_left(engine);
}

/* ---- moving */

static void send_all(struct by_runner *runner) {
  if (!STAILQ_EMPTY(&runner->ready)) by_work_run(runner);
  if (!STAILQ_EMPTY(&runner->transfer.dirty)) by_transfer_flush(&runner->transfer);
}

/* Sends what is ready. Mostly nothing is, and this is called after every frame, so that case must be cheap. */
static inline void send_what_is_ready(struct by_runner *runner) {
  if (!STAILQ_EMPTY(&runner->ready) || !STAILQ_EMPTY(&runner->transfer.dirty)) send_all(runner);
}

/* Passes on what arrives frame by frame, so that the peers can proceed with it. */
static inline void progress_end(struct by_runner *runner, struct by_end *end) {
  struct by_transfer *transfer = &runner->transfer;
  if (end->lane->status != BANYAN_OK) {
    lane_failed(end);
    return;
  }
  for (int i = 0; i < FRAMES_A_TURN && by_deliver(end) && transfer->status == BANYAN_OK; i++) {
    transfer->moved = true;
    send_what_is_ready(runner);
    if (transfer->yields) return; /* Frames behind this one are handled in the next turn. */
  }
}

bool by_engine_progress(struct by_engine *engine) {
  struct by_recovery *recovery = &engine->recovery;
  struct by_runner *runner = &recovery->runner;
  struct by_transfer *transfer = &runner->transfer;
  transfer->moved = transfer->yields = false;
  if (by_engine_transfer(engine)->state.settles_by) return false;
  if (!LIST_EMPTY(&transfer->closing) && transfer->status == BANYAN_OK) by_links_close(transfer);
  send_what_is_ready(runner);
  for (uint32_t i = 0; i < transfer->active && transfer->status == BANYAN_OK; i++)
    progress_end(runner, transfer->ends[i]);
  for (struct by_link_tree *tree = LIST_FIRST(&transfer->trees); tree && transfer->status == BANYAN_OK;
       tree = LIST_NEXT(tree, in_transfer))
    if (!by_link_progress_tree(tree)) report_lost(tree->link, BANYAN_ERR_PEER_DEAD, tree->fabric->error);
  send_what_is_ready(runner);
  if (!LIST_EMPTY(&recovery->due) || recovery->retry) {
    by_due_run(recovery);
    if (recovery->retry && transfer->status == BANYAN_OK) by_relay_retry(recovery);
  }
  return transfer->moved;
}

void by_engine_time_calls(struct by_engine *engine, struct by_call_times *times) {
  engine->recovery.runner.times = times;
  if (times) times->counts = false;
}

/* ---- the links for users of the engine */

void by_engine_attach(struct by_engine *engine, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  by_link_attach(by_engine_transfer(engine)->links[process], lanes, n);
}

uint32_t by_engine_take_lanes(struct by_engine *engine, uint32_t process, struct by_lane **lanes) {
  struct by_transfer_link *link = by_engine_transfer(engine)->links[process];
  uint32_t n = lanes ? by_link_take_lanes(link, lanes) : 0;
  if (!n) by_link_hang_up(link);
  return n;
}

enum banyan_status by_engine_attach_fabric(struct by_engine *engine, uint32_t process, uint32_t version,
                                           struct by_fabric *fabric) {
  return by_link_attach_fabric(by_engine_transfer(engine)->links[process], version, fabric);
}

bool by_engine_detach_fabrics(struct by_engine *engine, uint32_t version) {
  for (const struct by_team *team = engine->recovery.runner.teams; team; team = team->next)
    if (by_helped_uses_trees(team, version)) return false;
  struct by_link_tree *next;
  for (struct by_link_tree *tree = LIST_FIRST(&by_engine_transfer(engine)->trees); tree; tree = next) {
    next = LIST_NEXT(tree, in_transfer);
    if (tree->version == version) by_link_detach_tree(tree);
  }
  return true;
}

struct by_peer_state by_engine_peer(const struct by_engine *engine, uint32_t process) {
  const struct by_transfer_link *link = by_engine_transfer(engine)->links[process];
  return (struct by_peer_state){.attached = link->lane != NULL, .lost = by_link_is_lost(link)};
}

void by_engine_visit_lanes(const struct by_engine *engine,
                           void (*visit)(void *context, uint32_t process, struct by_lane *lane), void *context) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->active; i++)
    visit(context, transfer->ends[i]->link->process, transfer->ends[i]->lane);
}

bool by_engine_has_work(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  if (transfer->state.pending) return true;
  return !STAILQ_EMPTY(&transfer->dirty) && transfer->status == BANYAN_OK;
}

uint64_t by_engine_deadline(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  uint64_t first =
      by_engine_transfer(engine)->state.settles_by ? by_engine_transfer(engine)->state.settles_by : UINT64_MAX;
  const struct by_link_tree *tree;
  LIST_FOREACH(tree, &transfer->trees, in_transfer) {
    const struct by_fabric *fabric = tree->fabric;
    uint64_t at = fabric->status == BANYAN_OK ? fabric->ops->deadline(fabric) : UINT64_MAX;
    if (at < first) first = at;
  }
  return first;
}

void by_engine_sleeping(struct by_engine *engine, bool asleep) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  if (asleep) transfer->counters.sleeps++;
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_lane *lane = transfer->ends[i]->lane;
    if (lane->ops->sleeping) lane->ops->sleeping(lane, asleep);
  }
}

bool by_engine_goodbye(struct by_engine *engine) {
  return by_links_goodbye(by_engine_transfer(engine));
}

void by_engine_probe(struct by_engine *engine, uint32_t process, uint64_t bytes) {
  struct by_transfer_link *link = by_engine_transfer(engine)->links[process];
  if (!link->in_network && !by_link_is_lost(link) && !link->left) by_link_probe(link, bytes);
}

void by_engine_expect_control_messages(struct by_engine *engine, uint32_t process) {
  by_control_messages_expect(by_engine_transfer(engine)->links[process]);
}

enum banyan_status by_engine_write(struct by_engine *engine, uint32_t process, uint32_t team, const void *bytes,
                                   size_t n) {
  return by_control_messages_write(by_engine_transfer(engine)->links[process], team, bytes, n);
}

struct by_control_message *by_engine_read(struct by_engine *engine) {
  return by_control_messages_read(by_engine_transfer(engine));
}

void by_control_message_free(struct by_engine *engine, struct by_control_message *message) {
  by_control_messages_free(by_engine_transfer(engine), message);
}

void by_engine_set_mark(struct by_engine *engine, const struct by_mark *mark) {
  by_transfer_set_mark(by_engine_transfer(engine), mark);
}

uint64_t by_engine_sent(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  uint64_t sent = transfer->sent_before;
  for (uint32_t i = 0; i < transfer->active; i++) sent += transfer->ends[i]->lane->sent;
  const struct by_link_tree *tree;
  LIST_FOREACH(tree, &transfer->trees, in_transfer) sent += tree->fabric->sent;
  return sent;
}

bool by_engine_lacks_lanes(const struct by_engine *engine) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  for (uint32_t i = 0; i < transfer->processes; i++) {
    const struct by_transfer_link *link = transfer->links[i];
    if (link->running && link->state < BY_LINK_OPEN && !link->in_network && !link->left) return true;
  }
  return false;
}

void by_engine_counters(const struct by_engine *engine, struct banyan_counters *out) {
  const struct by_transfer *transfer = by_engine_transfer(engine);
  *out = transfer->counters;
  for (uint32_t i = 0; i < transfer->active; i++) out->wakes_sent += transfer->ends[i]->lane->wakes;
}

/* ---- memory of calls */

static bool call_uses(const struct by_call *call, const char *memory, size_t bytes) {
  const struct by_schedule *s = call->schedule;
  for (int b = BY_BUFFER_SEND; call->recoverable && b <= BY_BUFFER_RECV; b++)
    if (by_call_overlap(call->buffer[b], call->bounds[s->n_pieces], memory, bytes)) return true;
  if (call->user_bytes && by_call_overlap(call->user_recv, call->user_bytes, memory, bytes)) return true;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const struct by_step *step = &s->steps[i];
    uint64_t first = call->bounds[step->first], n = call->bounds[step->last] - first;
    bool reads = step->kind != BY_STEP_RECEIVE, writes = step->kind != BY_STEP_SEND;
    uint64_t from = step->kind == BY_STEP_REDUCE ? first : call->bounds[step->from_first];
    if (reads && by_call_overlap(call->buffer[step->from] + from, n, memory, bytes)) return true;
    if (writes && by_call_overlap(call->buffer[step->to] + first, n, memory, bytes)) return true;
  }
  return false;
}

bool by_engine_forget_region(struct by_engine *engine, const struct by_region *region) {
  struct by_transfer *transfer = by_engine_transfer(engine);
  for (const struct by_call *call = LIST_FIRST(&engine->recovery.runner.running); call; call = LIST_NEXT(call, next))
    if (call_uses(call, region->base, region->bytes)) return false;
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_transfer_link *link = transfer->ends[i]->link;
    if (transfer->ends[i] == &link->ends[0]) by_link_forget(link, region->id);
  }
  if (transfer->status == BANYAN_OK) by_transfer_flush(transfer);
  return true;
}

/* ---- deadlines */

static bool is_on_its_way(const struct by_in *in) {
  return in->arrived < in->length;
}

/* Names the peers for which a call still waits, each once. */
static void describe_missing(const struct by_call *call, char *text, size_t capacity) {
  enum { MAX_NAMED = 4 };
  size_t used = 0;
  uint32_t named[MAX_NAMED], missing = 0;
  text[0] = 0;
  const struct by_call *part = call;
  for (uint32_t k = 0; part; part = by_recoverable_part(call, k++))
    for (uint32_t p = 0; p < part->schedule->n_peers; p++) {
      const struct by_transfer_link *link = part->program->links[p];
      uint32_t process = link->process;
      bool known = !by_call_awaits(part, link, is_on_its_way);
      for (uint32_t i = 0; i < missing && i < MAX_NAMED; i++) known |= named[i] == process;
      if (known || missing++ >= MAX_NAMED) continue;
      named[missing - 1] = process;
      char name[BY_NAME_BYTES];
      int n = snprintf(text + used, capacity - used, "%s%s", missing > 1 ? ", " : "",
                       by_transfer_name(call->exchange.transfer, process, name));
      used += n > 0 && (size_t)n < capacity - used ? (size_t)n : 0;
    }
  if (missing > MAX_NAMED) snprintf(text + used, capacity - used, " and %u more", missing - MAX_NAMED);
}

/* Reports that no call has ended for a while: ranks may wait for each other because they make different calls. */
static void ask_if_still(struct by_engine *engine, uint64_t now) {
  uint64_t ended = by_engine_get_state(engine)->ended;
  if (ended != engine->ended_then || !engine->ask_at) {
    engine->ended_then = ended;
    by_engine_transfer(engine)->state.still_since = now;
    engine->ask_after = STILL_S * BY_SECOND;
    engine->ask_at = now + engine->ask_after;
  }
  if (now < engine->ask_at) return;
  engine->ask_after *= 2;
  engine->ask_at = now + engine->ask_after;
  if (engine->options.asks) (void)engine->options.asks(engine->options.context, NULL, NULL);
}

/* Reports a call that has waited for long, while others may have ended. */
static void ask_if_stalled(struct by_engine *engine, uint64_t now) {
  const struct by_engine_options *options = &engine->options;
  const struct by_call *oldest = NULL;
  char call[200], text[256];
  if (!options->stall || !options->asks) return;
  for (struct by_call *c = LIST_FIRST(&engine->recovery.runner.running); c; c = LIST_NEXT(c, next)) {
    if (!c->seen) c->seen = now;
    if (!c->whole && !c->relay && (!oldest || c->seen < oldest->seen)) oldest = c;
  }
  if (!oldest || now - oldest->seen < options->stall || now < engine->stall_at) return;
  engine->stall_at = now + options->stall;
  snprintf(text, sizeof text, "%s, has waited for %.3g s",
           by_engine_call_text(&oldest->exchange.descriptor, call, sizeof call),
           by_clock_to_seconds(now - oldest->seen));
  (void)options->asks(options->context, NULL, text);
}

/* Handles a call whose deadline has passed. The ranks for which it waits may wait for others, of which rank 0 knows
 * more. */
static void handle_late_call(struct by_engine *engine, const struct by_call *call, uint64_t now) {
  const struct by_engine_options *options = &engine->options;
  char what[200], who[256], passed[256], text[1024];
  if (engine->verdict_at && now < engine->verdict_at) return;
  describe_missing(call, who, sizeof who);
  snprintf(passed, sizeof passed, "the deadline of %s, passed",
           by_engine_call_text(&call->exchange.descriptor, what, sizeof what));
  if (!engine->verdict_at && options->asks && options->asks(options->context, passed, who)) {
    engine->verdict_at = now + VERDICT_S * BY_SECOND;
    return;
  }
  char name[BY_NAME_BYTES];
  bool unanswered = engine->verdict_at != 0; /* Other ranks may wait for rank 0 only because this rank waits for it. */
  if (unanswered)
    snprintf(text, sizeof text,
             "%s, and %s does not answer: is it stopped, or its machine overloaded? This rank waits for %s", passed,
             by_transfer_name(by_engine_transfer(engine), 0, name), who);
  else
    snprintf(text, sizeof text, "%s while waiting for %s; is it slow, or did it not make this call?", passed, who);
  by_engine_fail(engine, BANYAN_ERR_TIMEOUT, unanswered ? 0 : UINT32_MAX, text);
}

void by_engine_check_deadlines(struct by_engine *engine) {
  const struct by_call *late = LIST_FIRST(&engine->recovery.runner.running);
  if (!late && !by_engine_transfer(engine)->state.settles_by) return;
  uint64_t now = by_clock_now(&engine->options.clock);
  if (by_engine_transfer(engine)->state.settles_by) {
    if (now >= by_engine_transfer(engine)->state.settles_by) end_calls(engine);
    return;
  }
  if (engine->never) fail_if_left(engine);
  ask_if_still(engine, now);
  ask_if_stalled(engine, now);
  while (late && (!late->deadline || now < late->deadline)) late = LIST_NEXT(late, next);
  if (late)
    handle_late_call(engine, late, now);
  else
    engine->verdict_at = 0;
}
