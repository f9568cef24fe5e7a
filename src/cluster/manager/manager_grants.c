/* Gives cells of switches to plans, keeps the account of them, and decides which job must change to fewer or more
 * cells. */
#include "manager_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "json_doc.h"
#include "log.h"
#include "manager_hosts.h"

enum {
  MIN_SLOTS = 32,   /* Slots: queues are longer than the delays of links; with half as many, switches only forward. */
  GOOD_SLOTS = 256, /* Slots that a tree gets if enough are free. */
  AMPLE =
      4, /* Slots that a tree gets as a multiple of its guarantee, as late workers and lost packets keep cells busy. */
  RESERVE = 4, /* One of so many parts of the cells is for guarantees and changes only. */
  GROWTH = 2,  /* A plan switch is worthwhile for so many times as many slots. */
};

static const double max_delay = 0.25; /* Maximum difference of the delays of two hellos, in seconds. */

/* ---- the account */

/* Tells whether a switch is connected and its agent reports cells. */
static bool is_switch_connected(const struct by_manager *m, uint32_t node) {
  const struct by_manager_host *host = &m->hosts->all[node];
  return host->agent && host->aggregates && host->aggregates->cells && host->aggregates->bytes;
}

/* Returns the cells that jobs with plans of their own have, manager_cells.c. */
static uint64_t reserved_cells(const struct by_manager *m, uint32_t node) {
  uint64_t bytes = 0, each = m->hosts->all[node].aggregates->bytes;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) bytes += (uint64_t)job->cells.all[i].given * job->cells.all[i].bytes;
  return (bytes + each - 1) / each;
}

uint64_t by_grants_held(const struct by_manager *m, uint32_t node, uint64_t *guaranteed) {
  uint64_t held = 0;
  *guaranteed = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->grants.n; i++) {
      const struct by_manager_grant *grant = &job->grants.all[i];
      if (grant->node != node) continue;
      held += grant->slots;
      *guaranteed += grant->guarantee;
    }
  return held;
}

static uint64_t free_cells(const struct by_manager *m, uint32_t node) {
  uint64_t ignored, used = by_grants_held(m, node, &ignored) + reserved_cells(m, node),
                    all = m->hosts->all[node].aggregates->cells;
  return all > used ? all - used : 0;
}

/* Returns the guarantees of a job's latest plan at a switch. */
static uint64_t guaranteed_to(const struct by_manager_job *job, uint32_t node) {
  uint64_t sum = 0, latest = 0;
  for (uint32_t i = 0; i < job->grants.n; i++) latest = MAX(latest, job->grants.all[i].number);
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (job->grants.all[i].node == node && job->grants.all[i].number == latest) sum += job->grants.all[i].guarantee;
  return sum;
}

static uint64_t cells_held_by(const struct by_manager_job *job, uint32_t node) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (job->grants.all[i].node == node) sum += job->grants.all[i].slots;
  return sum;
}

/* Returns the cells for a new plan of a job if all other jobs had their guarantees only. */
static uint64_t available_cells(const struct by_manager *m, const struct by_manager_job *of, uint32_t node) {
  uint64_t used = cells_held_by(of, node) + reserved_cells(m, node), all = m->hosts->all[node].aggregates->cells;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (job != of) used += guaranteed_to(job, node);
  return all > used ? all - used : 0;
}

uint64_t by_grants_available(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, bool strict) {
  if (!is_switch_connected(m, node)) return 0;
  uint64_t slots = strict ? free_cells(m, node) : available_cells(m, job, node);
  return slots >= MIN_SLOTS ? slots * BY_PLAN_NEED_PAYLOAD : 0;
}

/* ---- needs */

static uint32_t guarantee_of(const struct by_plan_need *need) {
  return MIN(MAX(need->slots, MIN_SLOTS), BY_CLUSTER_SLOTS);
}

static uint32_t wanted_of(const struct by_plan_need *need) {
  return MIN(MAX(AMPLE * guarantee_of(need), GOOD_SLOTS), BY_CLUSTER_SLOTS);
}

/* Sums the needs of all trees of a plan at a switch. */
static void sum_needs(const struct by_plan_needs *needs, uint32_t node, uint64_t *guarantee, uint64_t *wanted) {
  *guarantee = *wanted = 0;
  for (uint32_t i = 0; i < needs->n; i++) {
    if (needs->all[i].node != node) continue;
    *guarantee += guarantee_of(&needs->all[i]);
    *wanted += wanted_of(&needs->all[i]);
  }
}

static enum by_grants_result check_cells(const struct by_manager *m, const struct by_manager_job *job,
                                         const struct by_plan_needs *needs) {
  enum by_grants_result result = BY_GRANTS_GIVEN;
  for (uint32_t i = 0; i < needs->n; i++) {
    uint32_t node = needs->all[i].node;
    uint64_t guarantee, wanted;
    if (!is_switch_connected(m, node)) return BY_GRANTS_NONE;
    sum_needs(needs, node, &guarantee, &wanted);
    if (guarantee <= free_cells(m, node)) continue;
    if (guarantee > available_cells(m, job, node)) return BY_GRANTS_NONE;
    result = BY_GRANTS_WAIT;
  }
  return result;
}

static uint64_t reserve_of(const struct by_manager *m, uint32_t node) {
  return m->hosts->all[node].aggregates->cells / RESERVE;
}

/* Returns an equal share of the cells, without the reserve, for each job that uses the switch and this one. */
static uint64_t fair_share(const struct by_manager *m, const struct by_manager_job *of, uint32_t node) {
  uint64_t taken = reserved_cells(m, node) + reserve_of(m, node), all = m->hosts->all[node].aggregates->cells,
           users = 1;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    users += job != of && cells_held_by(job, node) > 0;
  return all > taken ? (all - taken) / users : 0;
}

/* Returns the slots for all trees of a plan at a switch, without the reserve. A job that changes to other cells may use
 * the reserve until it has returned the old ones. */
static uint64_t slots_available(const struct by_manager *m, const struct by_manager_job *job, uint32_t node,
                                enum by_grants_share share) {
  uint64_t left = free_cells(m, node), later = reserve_of(m, node), after = left + cells_held_by(job, node);
  switch (share) {
  case BY_GRANTS_AMPLE: return left > later ? left - later : 0;
  case BY_GRANTS_FAIR: return MIN(MIN(left, after > later ? after - later : 0), fair_share(m, job, node));
  case BY_GRANTS_LEAST: break;
  }
  return 0;
}

/* Returns a tree's slots: its guarantee, and beyond that each tree gets the same fraction of what it wants. */
static uint32_t choose_slots(const struct by_manager *m, const struct by_manager_job *job,
                             const struct by_plan_needs *needs, const struct by_plan_need *need,
                             enum by_grants_share share) {
  uint64_t guarantee, wanted, budget = slots_available(m, job, need->node, share);
  uint32_t own = guarantee_of(need);
  sum_needs(needs, need->node, &guarantee, &wanted);
  if (budget <= guarantee || wanted == guarantee) return own;
  uint64_t spare = MIN(budget, wanted) - guarantee;
  return own + (uint32_t)((wanted_of(need) - own) * spare / (wanted - guarantee));
}

/* ---- rows, which have the form of a job's request */

static struct by_cluster_cells *list_cells(const struct by_manager *m, const struct by_manager_job *job,
                                           uint64_t number, bool row, uint32_t *n) {
  struct by_cluster_cells *out = calloc((size_t)job->grants.n + 1, sizeof *out);
  *n = 0;
  for (uint32_t i = 0; out && i < job->grants.n; i++) {
    const struct by_manager_grant *grant = &job->grants.all[i];
    if (grant->number != number) continue;
    out[(*n)++] = (struct by_cluster_cells){.at = m->hosts->all[grant->node].name,
                                            .server = grant->server,
                                            .slots = row ? grant->guarantee : grant->slots,
                                            .has = row,
                                            .given = grant->slots};
  }
  return out;
}

struct by_cluster_cells *by_grants_list(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                                        uint32_t *n) {
  return list_cells(m, job, number, false, n);
}

static void keep_row(const struct by_manager *m, const struct by_manager_job *job, uint64_t number) {
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = job->id};
  struct by_cluster_cells *cells = list_cells(m, job, number, true, &message.n_cells);
  if (!cells) return;
  message.cells = cells;
  struct by_text text = by_cluster_message_line(&message);
  struct by_manager_row row = {.table = BY_ROW_GRANT, .job = job->id, .grant = {number, by_text_get(&text)}};
  if (!text.failed && message.n_cells) by_manager_keep_row(m, &row);
  by_text_fini(&text);
  free(cells);
}

static void forget_row(const struct by_manager *m, const struct by_manager_job *job, uint64_t number) {
  by_manager_keep_row(
      m, &(struct by_manager_row){.table = BY_ROW_GRANT, .gone = true, .job = job->id, .grant.number = number});
}

void by_grants_keep(const struct by_manager *m, const struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (i == 0 || job->grants.all[i].number != job->grants.all[i - 1].number)
      keep_row(m, job, job->grants.all[i].number);
}

/* Adds an empty grant. NULL: no memory. */
static struct by_manager_grant *add_grant(struct by_manager_job *job, const char *server) {
  char *copy = strdup(server);
  if (!copy || !BY_ARRAY_GROW(&job->grants.all, &job->grants.capacity, (size_t)job->grants.n + 1)) {
    free(copy);
    return NULL;
  }
  struct by_manager_grant *grant = &job->grants.all[job->grants.n++];
  *grant = (struct by_manager_grant){.server = copy};
  return grant;
}

enum banyan_status by_grants_restore(struct by_manager *m, struct by_manager_job *job,
                                     const struct by_manager_row *row) {
  struct by_cluster_message message;
  BY_TRY(by_cluster_message_read(row->grant.cells, strlen(row->grant.cells), &message));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < message.n_cells && status == BANYAN_OK; i++) {
    const struct by_cluster_cells *cells = &message.cells[i];
    uint32_t node = by_manager_hosts_find(m, cells->at);
    if (node == BY_NOWHERE || !cells->server) continue;
    struct by_manager_grant *grant = add_grant(job, cells->server);
    if (!grant) status = by_manager_no_memory();
    if (!grant) break;
    grant->number = row->grant.number;
    grant->node = node;
    grant->slots = cells->given;
    grant->guarantee = cells->slots;
  }
  by_cluster_message_fini(&message);
  return status;
}

/* ---- grants */

static void free_grant(struct by_manager_grant *grant) {
  free(grant->server);
}

/* Removes the grants for which `matches` returns true. */
static void remove_grants(struct by_manager_job *job, bool (*matches)(const struct by_manager_grant *, uint64_t),
                          uint64_t which) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (matches(&job->grants.all[i], which))
      free_grant(&job->grants.all[i]);
    else
      job->grants.all[kept++] = job->grants.all[i];
  job->grants.n = kept;
}

static bool is_of(const struct by_manager_grant *grant, uint64_t number) {
  return grant->number == number;
}

static bool is_up_to(const struct by_manager_grant *grant, uint64_t number) {
  return grant->number <= number;
}

enum by_grants_result by_grants_give(struct by_manager *m, struct by_manager_job *job, uint64_t number,
                                     const struct by_plan_needs *needs, enum by_grants_share share) {
  if (by_grants_has(job, number)) return BY_GRANTS_GIVEN;
  enum by_grants_result result = check_cells(m, job, needs);
  if (result != BY_GRANTS_GIVEN) return result;
  uint32_t *slots = calloc((size_t)needs->n + 1, sizeof *slots); /* Computed before any grant changes the account. */
  if (!slots) return BY_GRANTS_NONE;
  for (uint32_t i = 0; i < needs->n; i++) slots[i] = choose_slots(m, job, needs, &needs->all[i], share);
  for (uint32_t i = 0; i < needs->n && result == BY_GRANTS_GIVEN; i++) {
    struct by_manager_grant *grant = add_grant(job, needs->all[i].server);
    if (!grant) {
      remove_grants(job, is_of, number);
      result = BY_GRANTS_NONE;
      break;
    }
    grant->number = number;
    grant->node = needs->all[i].node;
    grant->slots = slots[i];
    grant->guarantee = guarantee_of(&needs->all[i]);
  }
  free(slots);
  if (result == BY_GRANTS_GIVEN && needs->n) keep_row(m, job, number);
  return result;
}

bool by_grants_has(const struct by_manager_job *job, uint64_t number) {
  uint32_t i = 0;
  while (i < job->grants.n && job->grants.all[i].number != number) i++;
  return i < job->grants.n;
}

bool by_grants_miss_switch(const struct by_manager *m, const struct by_plan *plan, uint32_t *node) {
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    if (plan->vertices[v].kind != BY_VERTEX_SWITCH) continue;
    *node = by_manager_hosts_find(m, plan->vertices[v].name);
    if (*node != BY_NOWHERE && !is_switch_connected(m, *node)) return true;
  }
  return false;
}

bool by_grants_are_lost(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t *node) {
  for (uint32_t i = 0; i < plan->needs.n; i++) {
    *node = plan->needs.all[i].node;
    const struct by_manager_peer *agent = m->hosts->all[*node].agent;
    if (agent && agent->born > plan->made + max_delay) return true;
  }
  return false;
}

bool by_grants_use_server(const struct by_manager_job *job, const char *host) {
  size_t length = strlen(host);
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (!strncmp(job->grants.all[i].server, host, length) && job->grants.all[i].server[length] == '/') return true;
  return false;
}

void by_grants_return(struct by_manager *m, struct by_manager_job *job, uint64_t number, bool through) {
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (through ? job->grants.all[i].number <= number : job->grants.all[i].number == number)
      forget_row(m, job, job->grants.all[i].number);
  remove_grants(job, through ? is_up_to : is_of, number);
}

void by_grants_return_between(struct by_manager *m, struct by_manager_job *job, uint64_t after, uint64_t before) {
  for (uint32_t i = 0; i < job->grants.n;) {
    uint64_t number = job->grants.all[i].number;
    if (number > after && number < before)
      by_grants_return(m, job, number, false);
    else
      i++;
  }
}

void by_grants_end(struct by_manager *m, struct by_manager_job *job) {
  by_grants_return(m, job, UINT64_MAX, true);
}

void by_grants_free(struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->grants.n; i++) free_grant(&job->grants.all[i]);
  free(job->grants.all);
  job->grants = (struct by_job_grants){0};
}

/* ---- jobs that must change to fewer cells */

/* Tells whether the reserve of cells is in use, or does not suffice. */
static bool is_crowded(const struct by_manager *m, const struct by_plan_needs *needs, uint32_t node) {
  uint64_t guarantee, wanted, left = free_cells(m, node);
  sum_needs(needs, node, &guarantee, &wanted);
  return guarantee > left || left < m->hosts->all[node].aggregates->cells / RESERVE;
}

/* Returns the cells that a job would return at switches where these needs exceed the free cells. */
static uint64_t excess_cells(const struct by_manager *m, const struct by_manager_job *job,
                             const struct by_plan_needs *needs, enum by_grants_share share) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < needs->n; i++) {
    uint32_t node = needs->all[i].node;
    if (!is_switch_connected(m, node) || !is_crowded(m, needs, node)) continue;
    uint64_t keeps = MAX(guaranteed_to(job, node), slots_available(m, job, node, share));
    sum += cells_held_by(job, node) - MIN(cells_held_by(job, node), keeps);
  }
  return sum;
}

/* Tells whether a job can change: its guarantees are free once more, as it returns its cells afterwards. A job that has
 * just refused a plan or not answered is not asked, and one that lacks a server or switch needs another plan first. */
static bool can_change(const struct by_manager *m, const struct by_manager_job *job) {
  if (m->now < job->plans.not_before || job->notes.due <= BY_DUE_HELPER) return false;
  for (uint32_t i = 0; i < job->grants.n; i++) {
    uint32_t node = job->grants.all[i].node;
    if (!is_switch_connected(m, node) || guaranteed_to(job, node) > free_cells(m, node)) return false;
  }
  return job->grants.n > 0;
}

/* A job that has not returned old cells will do so unasked, and a plan in the making may have other cells. */
static bool is_changing(const struct by_manager_job *job) {
  return job->plans.running || by_job_is_moving(job) || !by_grants_has(job, job->plans.current->number) ||
         job->grants.all[0].number != job->plans.current->number;
}

struct by_manager_job *by_grants_find_victim(const struct by_manager *m, const struct by_manager_job *of,
                                             const struct by_plan_needs *needs, enum by_grants_share share) {
  struct by_manager_job *best = NULL;
  uint64_t largest = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job == of || by_job_has_left(job) || !job->plans.current || !job->peer) continue;
    uint64_t beyond = excess_cells(m, job, needs, share);
    if (beyond && is_changing(job)) return NULL;
    if (beyond > largest && can_change(m, job)) largest = beyond, best = job;
  }
  return best;
}

/* ---- jobs that have few cells */

/* Returns the maximum number of fragments in flight in a tree: the minimum of its slots over all switches. */
static uint64_t window_of(const struct by_manager_job *job, const char *server) {
  uint64_t window = UINT64_MAX;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (!strcmp(job->grants.all[i].server, server)) window = MIN(window, job->grants.all[i].slots);
  return window;
}

/* Returns the same for the cells that it wants, or would get now. */
static uint64_t next_window(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_plan_needs *needs, const char *server, bool wanted) {
  uint64_t window = UINT64_MAX;
  for (uint32_t i = 0; i < needs->n; i++) {
    const struct by_plan_need *need = &needs->all[i];
    if (strcmp(need->server, server) != 0) continue;
    window = MIN(window, wanted ? wanted_of(need) : choose_slots(m, job, needs, need, BY_GRANTS_FAIR));
  }
  return window;
}

static bool lacks_cells(const struct by_manager *m, const struct by_manager_job *job,
                        const struct by_plan_needs *needs) {
  for (uint32_t i = 0; i < needs->n; i++) {
    const char *server = needs->all[i].server;
    if (next_window(m, job, needs, server, true) >= GROWTH * window_of(job, server)) return true;
  }
  return false;
}

bool by_grants_may_grow(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                        const struct by_plan_needs *needs) {
  bool grows = false;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (job->grants.all[i].number != number) return false; /* Some cells are not returned yet. */
  if (!job->grants.n || !lacks_cells(m, job, needs) || !can_change(m, job)) return false;
  for (uint32_t i = 0; i < needs->n; i++) {
    const char *server = needs->all[i].server;
    uint64_t has = window_of(job, server), gets = next_window(m, job, needs, server, false);
    if (gets < has) return false;
    grows |= gets >= GROWTH * has;
  }
  return grows;
}

/* Returns the cells that a job would return if it changed to its fair share. */
static uint64_t beyond_fair(const struct by_manager *m, const struct by_manager_job *job, uint32_t node) {
  uint64_t held = cells_held_by(job, node),
           keeps = MAX(guaranteed_to(job, node), slots_available(m, job, node, BY_GRANTS_FAIR));
  return held > MAX(keeps, fair_share(m, job, node)) ? held - keeps : 0;
}

struct by_manager_job *by_grants_find_rich(const struct by_manager *m, const struct by_manager_job *of,
                                           const struct by_plan_needs *needs) {
  struct by_manager_job *best = NULL;
  if (!lacks_cells(m, of, needs)) return NULL;
  for (uint32_t i = 0; i < needs->n && !best; i++) {
    uint32_t node = needs->all[i].node;
    uint64_t guarantee, wanted, has = cells_held_by(of, node), largest = 0;
    if (!is_switch_connected(m, node)) continue;
    sum_needs(needs, node, &guarantee, &wanted);
    uint64_t left = free_cells(m, node), needed = reserve_of(m, node) + (GROWTH - 1) * has;
    if (GROWTH * has > MIN(fair_share(m, of, node), wanted) || left >= needed) continue;
    for (struct by_manager_job *job = m->jobs; job; job = job->next) {
      if (job == of || by_job_has_left(job) || !job->plans.current || !job->peer || is_changing(job)) continue;
      uint64_t beyond = beyond_fair(m, job, node);
      if (beyond > largest && left + beyond >= needed && can_change(m, job)) largest = beyond, best = job;
    }
  }
  return best;
}

/* ---- state */

void by_grants_print(const struct by_manager *m, const struct by_manager_job *job, uint32_t node,
                     struct by_text *text) {
  for (uint32_t i = 0; i < job->grants.n; i++) {
    const struct by_manager_grant *grant = &job->grants.all[i];
    const struct by_manager_aggregates *aggregates = m->hosts->all[grant->node].aggregates;
    if (node != BY_NOWHERE && grant->node != node) continue;
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_string(text, node == BY_NOWHERE ? "switch" : "job",
                       node == BY_NOWHERE ? m->hosts->all[grant->node].name : job->id);
    if (node != BY_NOWHERE) by_json_put_string(text, "name", job->name);
    by_json_put_string(text, "server", grant->server);
    by_json_put_count(text, "number", grant->number);
    by_text_add(text, ",\"slots\":%u,\"requested\":%u,\"guaranteed\":%u,\"bytes\":%llu}", grant->slots, grant->slots,
                grant->guarantee, (unsigned long long)grant->slots * (aggregates ? aggregates->bytes : 0));
  }
}
