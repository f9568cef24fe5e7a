/* Domains: what communicators are to the executor. Their ends, above all: calls, notes and words that are still under
 * way refer to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

enum { FIRST_WINDOW = 64 };

/* If there is no memory for it, what peers still send is kept as for a domain to come. */
static void remember_gone(struct by_engine *engine, uint32_t id) {
  if (engine->n_gone == engine->gone_room) {
    uint32_t room = engine->gone_room ? engine->gone_room * 2 : 16;
    uint32_t *gone = realloc(engine->gone, room * sizeof *gone);
    if (!gone) return;
    engine->gone = gone;
    engine->gone_room = room;
  }
  engine->gone[engine->n_gone++] = id;
}

static void forget_gone(struct by_engine *engine, uint32_t id) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < engine->n_gone; i++)
    if (engine->gone[i] != id) engine->gone[n++] = engine->gone[i];
  engine->n_gone = n;
}

enum banyan_status by_domain_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                    const uint32_t *processes, struct by_domain **out) {
  for (const struct by_domain *d = engine->domains; d; d = d->next)
    if (d->id == id)
      return by_fail(BANYAN_ERR_UNSUPPORTED, "number %u of a new communicator is in use: split again", id);
  struct by_domain *domain = calloc(1, sizeof *domain);
  if (!domain) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator");
  *domain = (struct by_domain){.engine = engine, .id = id, .rank = rank, .n = n, .window_size = FIRST_WINDOW};
  domain->processes = calloc(n, sizeof *domain->processes);
  domain->rank_of = calloc(engine->processes, sizeof *domain->rank_of);
  domain->window = calloc(FIRST_WINDOW, sizeof(struct by_call *));
  domain->next = engine->domains;
  engine->domains = domain;
  if (!domain->processes || !domain->rank_of || !domain->window) {
    by_domain_destroy(domain);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %u ranks", n);
  }
  memset(domain->rank_of, 0xff, engine->processes * sizeof *domain->rank_of);
  for (uint32_t r = 0; r < n; r++) {
    domain->processes[r] = processes[r];
    domain->rank_of[processes[r]] = r;
  }
  forget_gone(engine, id);
  *out = domain;
  return BANYAN_OK;
}

struct by_domain *by_engine_domain(const struct by_engine *engine, uint32_t id) {
  struct by_domain *d = engine->domains;
  while (d && d->id != id) d = d->next;
  return d;
}

/* With a call its parts end. */
static void end_calls_of(struct by_domain *domain) {
  struct by_engine *engine = domain->engine;
  for (const struct by_call *call = engine->running; call; call = call->next)
    for (uint32_t i = 0; call->domain == domain && i < call->schedule->n_incoming; i++) by_link_let_come(&call->ins[i]);
  for (struct by_call *call = engine->running; call;) {
    bool ends = call->domain == domain;
    if (ends) by_call_end(call, BANYAN_ERR_CLOSED);
    call = ends ? engine->running : call->next;
  }
}

static void forget_due_of(struct by_domain *domain) {
  for (struct by_call **place = &domain->engine->due; *place;) {
    struct by_call *call = *place;
    if (call->domain == domain) {
      call->due = false;
      *place = call->due_next;
    } else {
      place = &call->due_next;
    }
  }
}

/* Calls with notes to tell or on the ready list still refer to the domain. */
static void forget_calls_of(struct by_domain *domain) {
  struct by_engine *engine = domain->engine;
  for (struct by_program *p = domain->programs; p; p = p->next)
    for (uint32_t i = 0; i < p->schedule->n_peers; i++) {
      struct by_link *link = p->links[i];
      for (const struct by_in *in = link->notes; in; in = in->note_next)
        if (in->call->program == p && in->tell_done) by_link_owe(in);
      for (struct by_in *in = link->notes; in;) {
        struct by_call *call = in->call;
        in = in->note_next;
        if (call->program == p) by_link_drop_call(link, call), in = link->notes;
      }
    }
  struct by_call **place = &engine->ready;
  while (*place) {
    if ((*place)->domain == domain)
      *place = (*place)->ready_next;
    else
      place = &(*place)->ready_next;
  }
  engine->ready_end = place;
}

static void unlist(const struct by_domain *domain) {
  struct by_domain **place = &domain->engine->domains;
  while (*place != domain) place = &(*place)->next;
  *place = domain->next;
}

static void free_domain(struct by_domain *domain) {
  while (domain->programs) {
    struct by_program *program = domain->programs;
    domain->programs = program->next;
    by_program_destroy(program);
  }
  while (domain->pairs) {
    struct by_pair *pair = domain->pairs;
    domain->pairs = pair->next;
    free(pair);
  }
  if (!domain->helped || domain->helped->plan != domain->plan) by_plan_destroy(domain->plan);
  while (domain->helped) {
    struct by_helped *helped = domain->helped;
    domain->helped = helped->next;
    by_helped_free(helped);
  }
  free(domain->aided_past);
  free(domain->processes);
  free(domain->rank_of);
  free(domain->window);
  free(domain);
}

void by_domain_destroy(struct by_domain *domain) {
  if (!domain) return;
  struct by_engine *engine = domain->engine;
  if (engine->status == BANYAN_OK)
    for (uint32_t i = 0; i < engine->active; i++) by_link_flush(engine->ends[i]->link);
  end_calls_of(domain);
  forget_calls_of(domain);
  forget_due_of(domain);
  for (uint32_t i = 0; i < engine->processes; i++) by_deliver_forget(engine->links[i], domain->id);
  remember_gone(engine, domain->id);
  unlist(domain);
  free_domain(domain);
}

/* A peer that is gone hears nothing any more. */
static bool owes_on(const struct by_link *link, const struct by_domain *domain) {
  if (!link->lane || link->lane->status != BANYAN_OK) return false;
  for (const struct by_in *in = link->notes; in; in = in->note_next)
    if (in->call->domain == domain && in->call->ended) return true;
  return false;
}

bool by_domain_owes(const struct by_domain *domain) {
  for (uint32_t r = 0; r < domain->n; r++)
    if (owes_on(domain->engine->links[domain->processes[r]], domain)) return true;
  return false;
}

void by_domain_note_plan(struct by_domain *domain) {
  struct by_past_plan *before = &domain->before;
  if (!domain->plan) return;
  before->version = domain->plan->version;
  snprintf(before->name, sizeof before->name, "%.64s", domain->plan->name);
}

/* Other ranks may use one of the built-in plans, which need no file to be known by. */
static const char *find_builtin(uint32_t n, uint32_t version) {
  const struct by_plan_builtin_entry *entry;
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)); i++) {
    struct by_plan *plan = NULL;
    if (by_plan_builtin(entry->name, n, &plan) != BANYAN_OK) continue;
    bool found = plan->version == version;
    by_plan_destroy(plan);
    if (found) return entry->name;
  }
  return NULL;
}

const char *by_domain_name_plan(const struct by_domain *domain, uint32_t version) {
  if (!domain || !version) return NULL;
  if (domain->plan && domain->plan->version == version) return domain->plan->name;
  return domain->before.version == version ? domain->before.name : find_builtin(domain->n, version);
}

void by_domain_set_plan(struct by_domain *domain, struct by_plan *plan) {
  by_domain_note_plan(domain);
  by_programs_retire(domain);
  if (!domain->helped || domain->helped->plan != domain->plan) by_plan_destroy(domain->plan);
  domain->plan = plan;
  by_helped_sweep(domain);
}

const struct by_plan *by_domain_plan(const struct by_domain *domain) {
  return domain->plan;
}

const uint32_t *by_domain_helpers(const struct by_domain *domain) {
  const struct by_helped *helped = domain->helped;
  return helped && helped->plan == domain->plan ? helped->processes + domain->n : NULL;
}

uint32_t by_domain_next_call(const struct by_domain *domain) {
  return domain->next_call;
}

bool by_domain_is_running(const struct by_domain *domain, uint32_t before) {
  for (const struct by_call *call = domain->engine->running; call; call = call->next)
    if (call->domain == domain && !call->pair && (int32_t)(call->stamp.call - before) < 0) return true;
  return false;
}

uint32_t by_domain_id(const struct by_domain *domain) {
  return domain->id;
}

uint32_t by_domain_rank(const struct by_domain *domain) {
  return domain->rank;
}
