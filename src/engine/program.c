/* Programs: compiles schedules, keeps them for later calls, and makes their call objects. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"

static enum banyan_status need_sources(struct by_runner *runner, uint32_t n) {
  if (n <= runner->n_sources) return BANYAN_OK;
  const void **sources = realloc(runner->sources, n * sizeof *sources);
  if (!sources) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u operands", n);
  runner->sources = sources;
  runner->n_sources = n;
  return BANYAN_OK;
}

static enum banyan_status index_outs(struct by_program *program) {
  const struct by_schedule *schedule = program->schedule;
  uint32_t n = 0;
  program->out_of_step = BY_ARENA_ARRAY(&program->arena, uint32_t, schedule->n_steps);
  program->first_out = BY_ARENA_ARRAY(&program->arena, uint32_t, schedule->n_peers);
  program->links = BY_ARENA_ARRAY(&program->arena, struct by_transfer_link *, schedule->n_peers);
  if (program->arena.failed)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule of %u steps", schedule->n_steps);
  for (uint32_t i = 0; i < schedule->n_peers; i++) {
    program->first_out[i] = n;
    n += schedule->peers[i].n_out;
  }
  program->n_outs = n;
  uint32_t max = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++)
    if (schedule->steps[i].n_in > max) max = schedule->steps[i].n_in;
  BY_TRY(need_sources(program->team->runner, max + 1));
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND) program->out_of_step[i] = program->first_out[step->peer] + step->tag;
    if (step->kind == BY_STEP_REDUCE) program->n_staged += step->n_in;
  }
  return BANYAN_OK;
}

static void destroy_program(struct by_program *program) {
  while (program->all) {
    struct by_call *call = program->all;
    program->all = call->sibling;
    call->program = NULL; /* A call that a user still holds is freed when it is released. */
    if (call->state == BY_CALL_IDLE || call->released) by_call_free(call);
  }
  by_schedule_destroy(program->schedule);
  by_arena_fini(&program->arena);
  free(program);
}

/* Makes a program, and owns the schedule from then on, also on failure. */
static enum banyan_status make_program(struct by_team *team, const struct by_vertices *vertices,
                                       const struct by_class *class_, struct by_schedule *schedule,
                                       struct by_program **out) {
  struct by_program *program = calloc(1, sizeof *program);
  if (!program) {
    by_schedule_destroy(schedule);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule");
  }
  *program = (struct by_program){.team = team, .vertices = vertices, .class_ = class_, .schedule = schedule};
  by_arena_init(&program->arena);
  enum banyan_status status = index_outs(program);
  if (status != BANYAN_OK) {
    destroy_program(program);
    return status;
  }
  for (uint32_t i = 0; i < schedule->n_peers; i++) {
    program->links[i] = team->runner->transfer.links[vertices->processes[schedule->peers[i].rank]];
    by_link_want(program->links[i]);
    program->in_network |= program->links[i]->in_network;
  }
  program->next = team->programs;
  team->programs = program;
  team->runner->transfer.counters.allocations++;
  *out = program;
  return BANYAN_OK;
}

static struct by_program *find_program(struct by_team *team, const struct by_class *class_, uint32_t part,
                                       uint32_t version, enum banyan_collective collective, uint32_t root) {
  for (struct by_program **link = &team->programs; *link; link = &(*link)->next) {
    struct by_program *program = *link;
    if (program->retired || program->class_ != class_ || program->schedule->collective != collective ||
        program->schedule->root != root || program->schedule->plan_version != version || program->part != part)
      continue;
    *link = program->next; /* The program used last is found first. */
    program->next = team->programs;
    team->programs = program;
    return program;
  }
  return NULL;
}

enum banyan_status by_program_get(struct by_team *team, const struct by_vertices *vertices, const struct by_plan *plan,
                                  const struct by_class *class_, uint32_t part, uint32_t version,
                                  enum banyan_collective collective, uint32_t root, struct by_program **out) {
  *out = find_program(team, class_, part, version, collective, root);
  if (*out) return BANYAN_OK;
  struct by_schedule *schedule = NULL;
  BY_TRY(by_schedule_compile_part(plan, class_, part, version, collective, root, vertices->self, &schedule));
  by_debug("executor", "compiled %s over plan %s: %u steps, %u peers", banyan_collective_name(collective), plan->name,
           schedule->n_steps, schedule->n_peers);
  BY_TRY(make_program(team, vertices, class_, schedule, out));
  (*out)->part = part;
  return BANYAN_OK;
}

/* The schedule of one message to or from one peer. */
static enum banyan_status compile_pair(const struct by_team *team, bool sends, uint32_t peer,
                                       struct by_schedule **out) {
  struct by_schedule *s = calloc(1, sizeof *s);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule");
  by_arena_init(&s->arena);
  s->collective = sends ? BANYAN_SEND : BANYAN_RECV;
  s->n_ranks = team->n;
  s->rank = team->vertices.self;
  s->root = peer;
  s->n_pieces = s->n_steps = s->n_peers = 1;
  s->n_incoming = sends ? 0 : 1;
  s->cut = BY_ARENA_ARRAY(&s->arena, double, 2);
  s->steps = BY_ARENA_NEW(&s->arena, struct by_step);
  s->peers = BY_ARENA_NEW(&s->arena, struct by_peer);
  s->incoming = BY_ARENA_NEW(&s->arena, struct by_incoming);
  s->lookup = BY_ARENA_NEW(&s->arena, uint32_t);
  if (s->arena.failed) {
    by_schedule_destroy(s);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule");
  }
  s->cut[1] = 1;
  s->incoming[0].last = 1;
  s->peers[0] = (struct by_peer){.rank = peer, .n_out = sends, .n_in = !sends};
  s->steps[0] = (struct by_step){.kind = sends ? BY_STEP_SEND : BY_STEP_RECEIVE,
                                 .from = BY_BUFFER_SEND,
                                 .to = BY_BUFFER_RECV,
                                 .last = 1,
                                 .n_in = !sends};
  *out = s;
  return BANYAN_OK;
}

enum banyan_status by_program_get_pair(struct by_team *team, bool sends, uint32_t peer, struct by_program **out) {
  enum banyan_collective collective = sends ? BANYAN_SEND : BANYAN_RECV;
  *out = find_program(team, NULL, 0, 0, collective, peer);
  if (*out) return BANYAN_OK;
  struct by_schedule *schedule = NULL;
  BY_TRY(compile_pair(team, sends, peer, &schedule));
  return make_program(team, &team->vertices, NULL, schedule, out);
}

void by_programs_destroy(struct by_team *team) {
  while (team->programs) {
    struct by_program *program = team->programs;
    team->programs = program->next;
    destroy_program(program);
  }
}

static void sweep_programs(struct by_team *team) {
  for (struct by_program **link = &team->programs; *link;) {
    struct by_program *program = *link;
    if (program->retired && !program->running) {
      *link = program->next;
      destroy_program(program);
    } else {
      link = &program->next;
    }
  }
}

void by_programs_retire(struct by_team *team, const struct by_vertices *vertices) {
  struct by_program *last = team->last.program;
  if (last && (!vertices || last->vertices == vertices)) team->last.program = NULL;
  for (struct by_program *p = team->programs; p; p = p->next)
    if (vertices ? p->vertices == vertices : p->class_ != NULL) p->retired = true;
  sweep_programs(team);
}

/* The sum for a term that a fabric takes: the message from the same peer for the same pieces. */
static struct by_in *answer_to(const struct by_call *call, const struct by_out *out) {
  const struct by_step *step = &call->schedule->steps[out->step];
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
    const struct by_incoming *incoming = &call->schedule->incoming[i];
    if (call->ins[i].link == out->link && incoming->first == step->first && incoming->last == step->last)
      return &call->ins[i];
  }
  return NULL;
}

static void wire_messages(struct by_program *program, struct by_call *call) {
  const struct by_schedule *schedule = program->schedule;
  for (uint32_t i = 0; i < schedule->n_incoming; i++) {
    const struct by_incoming *incoming = &schedule->incoming[i];
    const struct by_step *step = &schedule->steps[incoming->step];
    call->ins[i] = (struct by_in){.exchange = &call->exchange,
                                  .link = program->links[incoming->peer],
                                  .step = incoming->step,
                                  .tag = incoming->tag,
                                  .adds = step->kind == BY_STEP_REDUCE,
                                  .alone = step->n_in == 1 && step->n_dep == 0};
  }
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind != BY_STEP_SEND) continue;
    struct by_out *out = &call->outs[program->out_of_step[i]];
    *out = (struct by_out){.exchange = &call->exchange,
                           .link = program->links[step->peer],
                           .step = i,
                           .tag = step->tag,
                           .unoffered = step->copied};
    if (out->link->in_network) out->answer = answer_to(call, out);
  }
}

/* The maximum of bytes in a frame. The plan's limit does not apply to sends and receives. */
static size_t chunk_of(const struct by_program *program) {
  size_t own = program->team->runner->chunk, planned = program->class_ ? program->vertices->chunk : 0;
  size_t max = own ? own : SIZE_MAX;
  return planned && planned < max ? planned : max;
}

static void fallback_done(struct by_call *call) {
  call->exchange.transfer->counters.in_network_fallbacks++;
  by_call_end(call, BANYAN_OK);
}

static struct by_call *create_call(struct by_program *program) {
  static const struct by_call_ops fallback_ops = {.done = fallback_done};
  const struct by_schedule *s = program->schedule;
  struct by_call *call = calloc(1, sizeof *call);
  if (!call) return NULL;
  call->program = program;
  call->schedule = s;
  call->n_ins = s->n_incoming;
  by_arena_init(&call->arena);
  call->bounds = BY_ARENA_ARRAY(&call->arena, uint64_t, (size_t)s->n_pieces + 1);
  call->states = BY_ARENA_ARRAY(&call->arena, struct by_state, s->n_steps);
  call->outs = BY_ARENA_ARRAY(&call->arena, struct by_out, program->n_outs);
  call->ins = BY_ARENA_ARRAY(&call->arena, struct by_in, s->n_incoming);
  call->work = BY_ARENA_ARRAY(&call->arena, uint32_t, s->n_steps);
  if (call->arena.failed) {
    by_call_free(call);
    return NULL;
  }
  call->team = program->team;
  if (program->fallback) call->ops = &fallback_ops;
  call->exchange.transfer = &program->team->runner->transfer;
  call->exchange.chunk = chunk_of(program);
  call->exchange.family = call;
  call->exchange.trees = program->vertices->trees;
  call->bounds_count = SIZE_MAX;
  call->sibling = program->all;
  program->all = call;
  wire_messages(program, call);
  call->exchange.transfer->counters.allocations++;
  return call;
}

enum banyan_status by_program_take_call(struct by_program *program, struct by_call **out) {
  struct by_call *call = LIST_FIRST(&program->idle);
  if (call)
    LIST_REMOVE(call, next);
  else
    call = create_call(program);
  if (!call) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call of %u steps", program->schedule->n_steps);
  program->running++;
  by_call_set_state(call, BY_CALL_FILLED);
  *out = call;
  return BANYAN_OK;
}

void by_program_give_call(struct by_call *call) {
  struct by_program *program = call->program;
  LIST_INSERT_HEAD(&program->idle, call, next);
  program->running--;
  by_call_set_state(call, BY_CALL_IDLE);
  if (program->retired && !program->running) sweep_programs(program->team);
}

const struct by_peer *by_program_peer(const struct by_program *program, const struct by_transfer_link *link) {
  uint32_t n = program->schedule->n_peers;
  if (n <= 8 || by_transfer_is_relay(link->transfer, link->process)) { /* Helpers have other vertices in other plans. */
    for (uint32_t i = 0; i < n; i++)
      if (program->links[i] == link) return &program->schedule->peers[i];
    return NULL;
  }
  uint32_t rank = program->team->rank_of[link->process], low = 0;
  while (n > 1) {
    uint32_t half = n / 2;
    if (program->schedule->peers[low + half].rank <= rank) low += half;
    n -= half;
  }
  return program->schedule->peers[low].rank == rank ? &program->schedule->peers[low] : NULL;
}
