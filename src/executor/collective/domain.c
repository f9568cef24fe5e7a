#include "domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "call.h"
#include "deliver.h"

enum { FIRST_WINDOW = 64 };

/* If there is no memory for it, what peers still send is kept as for a domain to come. */
static void remember_gone(struct by_runner *runner, uint32_t id) {
  if (BY_ARRAY_GROW(&runner->gone, &runner->gone_room, runner->n_gone + 1)) runner->gone[runner->n_gone++] = id;
}

static void forget_gone(struct by_runner *runner, uint32_t id) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < runner->n_gone; i++)
    if (runner->gone[i] != id) runner->gone[n++] = runner->gone[i];
  runner->n_gone = n;
}

bool by_domain_is_gone(const struct by_runner *runner, uint32_t id) {
  for (uint32_t i = runner->n_gone; i; i--)
    if (runner->gone[i - 1] == id) return true;
  return false;
}

enum banyan_status by_domain_make(struct by_runner *runner, uint32_t id, uint32_t rank, uint32_t n,
                                  const uint32_t *processes, struct by_domain **out) {
  if (by_domain_of(runner, id))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "number %u of a new communicator is in use: split again", id);
  struct by_domain *domain = calloc(1, sizeof *domain);
  if (!domain) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator");
  *domain = (struct by_domain){.runner = runner, .id = id, .n = n, .vertices.self = rank, .window_size = FIRST_WINDOW};
  domain->vertices.processes = calloc(n, sizeof *domain->vertices.processes);
  domain->rank_of = calloc(runner->transfer.processes, sizeof *domain->rank_of);
  domain->window = calloc(FIRST_WINDOW, sizeof(struct by_call *));
  domain->next = runner->domains;
  runner->domains = domain;
  if (!domain->vertices.processes || !domain->rank_of || !domain->window) {
    by_domain_free(domain);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %u ranks", n);
  }
  memset(domain->rank_of, 0xff, runner->transfer.processes * sizeof *domain->rank_of);
  for (uint32_t r = 0; r < n; r++) {
    domain->vertices.processes[r] = processes[r];
    domain->rank_of[processes[r]] = r;
  }
  forget_gone(runner, id);
  *out = domain;
  return BANYAN_OK;
}

enum banyan_status by_domains_grow(struct by_runner *runner, uint32_t processes) {
  uint32_t have = runner->transfer.processes;
  for (struct by_domain *d = runner->domains; d; d = d->next) {
    uint32_t *longer = realloc(d->rank_of, processes * sizeof *longer);
    if (!longer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", processes);
    memset(longer + have, 0xff, (processes - have) * sizeof *longer);
    d->rank_of = longer;
  }
  return BANYAN_OK;
}

/* ---- its end */

void by_domain_free(struct by_domain *domain) {
  struct by_runner *runner = domain->runner;
  for (uint32_t i = 0; i < runner->transfer.processes; i++) by_deliver_forget(runner->transfer.links[i], domain->id);
  remember_gone(runner, domain->id);
  struct by_domain **place = &runner->domains;
  while (*place != domain) place = &(*place)->next;
  *place = domain->next;
  while (domain->pairs) {
    struct by_pair *pair = domain->pairs;
    domain->pairs = pair->next;
    free(pair);
  }
  if (!domain->plan_is_borrowed) by_plan_destroy(domain->plan);
  free(domain->vertices.processes);
  free(domain->rank_of);
  free(domain->window);
  free(domain);
}

/* ---- its calls */

static struct by_pair *find_pair(const struct by_domain *domain, uint32_t peer, uint32_t tag, bool sends) {
  struct by_pair *pair = domain->pairs;
  while (pair && (pair->peer != peer || pair->tag != tag || pair->sends != sends)) pair = pair->next;
  return pair;
}

bool by_domain_is_past(const struct by_domain *domain, const struct by_frame *frame, uint32_t rank) {
  if (!(frame->flags & BY_FRAME_PAIR)) return (int32_t)(frame->call - domain->next_call) < 0;
  const struct by_pair *pair = find_pair(domain, rank, frame->tag, false);
  return pair && (int32_t)(frame->call - pair->number) < 0;
}

enum banyan_status by_domain_grow_window(struct by_domain *domain) {
  uint32_t size = domain->window_size * 2;
  struct by_call **window = calloc(size, sizeof(struct by_call *));
  if (!window) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u calls under way", size);
  for (uint32_t i = 0; i < domain->window_size; i++)
    if (domain->window[i]) window[by_call_stamp(domain->window[i])->call & (size - 1)] = domain->window[i];
  free(domain->window);
  domain->window = window;
  domain->window_size = size;
  domain->runner->transfer.counters.allocations++;
  return BANYAN_OK;
}

enum banyan_status by_domain_pair_number(struct by_domain *domain, const struct banyan_call *user, uint32_t **out) {
  bool sends = user->collective == BANYAN_SEND;
  struct by_pair *pair = find_pair(domain, (uint32_t)user->root, user->tag, sends);
  if (!pair) {
    pair = calloc(1, sizeof *pair);
    if (!pair) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tag");
    *pair = (struct by_pair){.next = domain->pairs, .peer = (uint32_t)user->root, .tag = user->tag, .sends = sends};
    domain->pairs = pair;
  }
  *out = &pair->number;
  return BANYAN_OK;
}

/* ---- its plan */

void by_domain_use_plan(struct by_domain *domain, struct by_plan *plan, bool borrowed) {
  struct by_past_plan *before = &domain->before;
  if (domain->plan) {
    before->version = domain->plan->version;
    snprintf(before->name, sizeof before->name, "%.64s", domain->plan->name);
  }
  if (!domain->plan_is_borrowed) by_plan_destroy(domain->plan);
  domain->plan = plan;
  domain->plan_is_borrowed = borrowed;
  domain->vertices.chunk = plan->chunk;
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
