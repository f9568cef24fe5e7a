/* Programs: compiled schedules, found again for every call of the same kind,
 * and the call objects that go with them. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

static struct by_link *link_of(const struct by_domain *domain, const struct by_helped *helped, uint32_t rank) {
  struct by_engine *engine = domain->engine;
  struct by_link *link = engine->links[helped ? helped->processes[rank] : domain->processes[rank]];
  by_link_want(link);
  return link;
}

static enum banyan_status index_outs(struct by_program *program) {
  const struct by_schedule *schedule = program->schedule;
  uint32_t n = 0;
  program->out_of_step = calloc((size_t)schedule->n_steps + 1, sizeof *program->out_of_step);
  program->first_out = calloc((size_t)schedule->n_peers + 1, sizeof *program->first_out);
  program->links = calloc((size_t)schedule->n_peers + 1, sizeof *program->links);
  if (!program->out_of_step || !program->first_out || !program->links)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule of %u steps", schedule->n_steps);
  for (uint32_t i = 0; i < schedule->n_peers; i++) {
    program->first_out[i] = n;
    n += schedule->peers[i].n_out;
  }
  program->n_outs = n;
  uint32_t most = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++)
    if (schedule->steps[i].n_in > most) most = schedule->steps[i].n_in;
  BY_TRY(by_engine_need_sources(program->domain->engine, most + 1));
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND) program->out_of_step[i] = program->first_out[step->peer] + step->tag;
    if (step->kind == BY_STEP_REDUCE) program->n_staged += step->n_in;
  }
  return BANYAN_OK;
}

/* Takes the schedule over, also on failure. */
static enum banyan_status make(struct by_domain *domain, struct by_helped *helped, const struct by_class *class_,
                               struct by_schedule *schedule, struct by_program **out) {
  struct by_program *program = calloc(1, sizeof *program);
  if (!program) {
    by_schedule_destroy(schedule);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule");
  }
  *program = (struct by_program){.domain = domain, .helped = helped, .class_ = class_, .schedule = schedule};
  enum banyan_status status = index_outs(program);
  if (status != BANYAN_OK) {
    by_program_destroy(program);
    return status;
  }
  for (uint32_t i = 0; i < schedule->n_peers; i++) {
    program->links[i] = link_of(domain, helped, schedule->peers[i].rank);
    program->through |= program->links[i]->through;
  }
  program->next = domain->programs;
  domain->programs = program;
  by_engine_count_allocation(domain->engine);
  *out = program;
  return BANYAN_OK;
}

static struct by_program *find(struct by_domain *domain, const struct by_class *class_, uint32_t version,
                               enum banyan_collective collective, uint32_t root) {
  for (struct by_program **place = &domain->programs; *place; place = &(*place)->next) {
    struct by_program *program = *place;
    if (program->retired || program->class_ != class_ || program->schedule->collective != collective ||
        program->schedule->root != root || program->schedule->plan_version != version)
      continue;
    *place = program->next; /* the last one used is found first */
    program->next = domain->programs;
    domain->programs = program;
    return program;
  }
  return NULL;
}

enum banyan_status by_program_get_part(struct by_domain *domain, struct by_helped *helped, const struct by_plan *plan,
                                       const struct by_class *class_, uint32_t part, uint32_t version,
                                       enum banyan_collective collective, uint32_t root, struct by_program **out) {
  *out = find(domain, class_, version, collective, root);
  if (*out) return BANYAN_OK;
  struct by_schedule *schedule = NULL;
  uint32_t self = helped ? helped->self : domain->rank;
  BY_TRY(by_schedule_compile_part(plan, class_, part, version, collective, root, self, &schedule));
  by_debug("executor", "compiled %s over plan %s: %u steps, %u peers", banyan_collective_name(collective), plan->name,
           schedule->n_steps, schedule->n_peers);
  return make(domain, helped, class_, schedule, out);
}

static bool has_servers(const struct by_plan *plan, const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (by_group_has_server(plan, &class_->groups[g])) return true;
  return false;
}

/* Over a plan with helpers: its groups of ranks alone, with the other groups as parts; or all of it, among ranks. */
static enum banyan_status get_joint(struct by_domain *domain, uint64_t bytes, enum banyan_collective collective,
                                    uint32_t root, bool through, struct by_program **out) {
  struct by_helped *helped = domain->helped;
  const struct by_plan *plan = helped->plan, *among = helped->among;
  const struct by_class *class_ = by_plan_class(plan, bytes);
  uint32_t index = (uint32_t)(class_ - plan->classes);
  bool can = by_collective(collective)->helpers && (through || !has_servers(plan, class_));
  if (!can || domain->n == 1 || !by_helped_has(helped, index))
    return by_program_get_part(domain, helped, among, &among->classes[index], BY_PART_ALL, among->version, collective,
                               root, out);
  BY_TRY(by_program_get_part(domain, helped, plan, class_, BY_PART_PLAIN, plan->version, collective, root, out));
  (*out)->joint = true;
  return BANYAN_OK;
}

enum banyan_status by_program_get(struct by_domain *domain, uint64_t bytes, enum banyan_collective collective,
                                  uint32_t root, bool through, struct by_program **out) {
  const struct by_plan *plan = domain->plan;
  if (domain->helped && domain->helped->plan == plan) return get_joint(domain, bytes, collective, root, through, out);
  return by_program_get_part(domain, NULL, plan, by_plan_class(plan, bytes), BY_PART_ALL, plan->version, collective,
                             root, out);
}

enum banyan_status by_program_get_empty(struct by_domain *domain, struct by_program **out) {
  struct by_helped *helped = domain->helped && domain->helped->plan == domain->plan ? domain->helped : NULL;
  const struct by_plan *plan = helped ? helped->among : domain->plan;
  return by_program_get_part(domain, helped, plan, by_plan_class(plan, 1), BY_PART_ALL, plan->version, BANYAN_BARRIER,
                             0, out);
}

/* One message to or from one peer. */
static enum banyan_status compile_pair(const struct by_domain *domain, bool sends, uint32_t peer,
                                       struct by_schedule **out) {
  struct by_schedule *s = calloc(1, sizeof *s);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a schedule");
  by_arena_init(&s->arena);
  s->collective = sends ? BANYAN_SEND : BANYAN_RECV;
  s->n_ranks = domain->n;
  s->rank = domain->rank;
  s->root = peer;
  s->n_pieces = s->n_steps = s->n_peers = 1;
  s->n_incoming = sends ? 0 : 1;
  s->cut = BY_ARENA_ARRAY(&s->arena, double, 2);
  s->steps = BY_ARENA_NEW(&s->arena, struct by_step);
  s->peers = BY_ARENA_NEW(&s->arena, struct by_peer);
  s->incoming = BY_ARENA_NEW(&s->arena, struct by_incoming);
  s->lookup = BY_ARENA_NEW(&s->arena, uint32_t);
  if (!s->cut || !s->steps || !s->peers || !s->incoming || !s->lookup) {
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

enum banyan_status by_program_get_pair(struct by_domain *domain, bool sends, uint32_t peer, struct by_program **out) {
  enum banyan_collective collective = sends ? BANYAN_SEND : BANYAN_RECV;
  *out = find(domain, NULL, 0, collective, peer);
  if (*out) return BANYAN_OK;
  struct by_schedule *schedule = NULL;
  BY_TRY(compile_pair(domain, sends, peer, &schedule));
  return make(domain, NULL, NULL, schedule, out);
}

void by_call_free(struct by_call *call) {
  for (uint32_t i = 0; call->ins && i < call->n_ins; i++) by_byte_ranges_fini(&call->ins[i].ahead);
  free(call->bounds);
  free(call->states);
  free(call->outs);
  free(call->ins);
  free(call->work);
  free(call->scratch);
  by_joint_free(call->joint);
  free(call);
}

void by_program_destroy(struct by_program *program) {
  if (!program) return;
  while (program->all) {
    struct by_call *call = program->all;
    program->all = call->sibling;
    call->program = NULL; /* one that somebody still holds is freed when it is given back */
    if (!call->taken || call->released) by_call_free(call);
  }
  by_schedule_destroy(program->schedule);
  free(program->links);
  free(program->out_of_step);
  free(program->first_out);
  free(program);
}

static void sweep(struct by_domain *domain) {
  for (struct by_program **place = &domain->programs; *place;) {
    struct by_program *program = *place;
    if (program->retired && !program->running) {
      *place = program->next;
      by_program_destroy(program);
    } else {
      place = &program->next;
    }
  }
}

void by_programs_retire(struct by_domain *domain) {
  domain->last.program = NULL;
  for (struct by_program *p = domain->programs; p; p = p->next)
    if (p->class_) p->retired = true;
  sweep(domain);
}

void by_programs_retire_of(struct by_domain *domain, const struct by_helped *helped) {
  if (domain->last.program && domain->last.program->helped == helped) domain->last.program = NULL;
  for (struct by_program *p = domain->programs; p; p = p->next)
    if (p->helped == helped) p->retired = true;
  sweep(domain);
}

static void wire_messages(struct by_program *program, struct by_call *call) {
  const struct by_schedule *schedule = program->schedule;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind != BY_STEP_SEND) continue;
    call->outs[program->out_of_step[i]] =
        (struct by_out){.call = call, .link = program->links[step->peer], .step = i, .tag = step->tag};
  }
  for (uint32_t i = 0; i < schedule->n_incoming; i++)
    call->ins[i] = (struct by_in){.call = call, .link = program->links[schedule->incoming[i].peer], .incoming = i};
}

/* The plan's chunk is for what it plans: not for messages of one rank to one other. */
static size_t chunk_of(const struct by_program *program) {
  const struct by_plan *plan = program->helped ? program->helped->plan : program->domain->plan;
  size_t own = program->domain->engine->options.chunk, planned = program->class_ ? plan->chunk : 0;
  size_t most = own ? own : SIZE_MAX;
  return planned && planned < most ? planned : most;
}

static struct by_call *new_call(struct by_program *program) {
  const struct by_schedule *s = program->schedule;
  struct by_call *call = calloc(1, sizeof *call);
  if (!call) return NULL;
  call->program = program;
  call->schedule = s;
  call->n_ins = s->n_incoming;
  call->bounds = calloc((size_t)s->n_pieces + 1, sizeof *call->bounds);
  call->states = calloc((size_t)s->n_steps + 1, sizeof *call->states);
  call->outs = calloc((size_t)program->n_outs + 1, sizeof *call->outs);
  call->ins = calloc((size_t)s->n_incoming + 1, sizeof *call->ins);
  call->work = calloc((size_t)s->n_steps + 1, sizeof *call->work);
  if (!call->bounds || !call->states || !call->outs || !call->ins || !call->work) {
    by_call_free(call);
    return NULL;
  }
  call->domain = program->domain;
  call->engine = program->domain->engine;
  call->chunk = chunk_of(program);
  if (program->joint && !by_joint_create(call)) {
    by_call_free(call);
    return NULL;
  }
  call->bounds_count = SIZE_MAX;
  call->sibling = program->all;
  program->all = call;
  wire_messages(program, call);
  by_engine_count_allocation(call->engine);
  return call;
}

enum banyan_status by_program_take_call(struct by_program *program, struct by_call **out) {
  struct by_call *call = program->idle;
  if (call)
    program->idle = call->next;
  else
    call = new_call(program);
  if (!call) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call of %u steps", program->schedule->n_steps);
  program->running++;
  call->taken = true;
  *out = call;
  return BANYAN_OK;
}

void by_program_give_call(struct by_call *call) {
  struct by_program *program = call->program;
  call->next = program->idle;
  program->idle = call;
  program->running--;
  call->taken = false;
  if (program->retired && !program->running) sweep(program->domain);
}
