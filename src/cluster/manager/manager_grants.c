#include "manager_grants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "json_doc.h"
#include "log.h"
#include "manager_hosts.h"

enum {
  LEAST = 32,     /* slots: queues are longer than the delays of links; with half of them switches only forward */
  PLEASANT = 256, /* slots that a tree gets where there is room, */
  AMPLE = 4,      /* or so many times its guarantee: late workers and lost packets keep cells busy */
  FOR_LATER = 4,  /* one of so many parts of the cells is for guarantees and changes only */
  GROWTH = 2,     /* times as many slots as it has are worth a plan switch */
};

static const double late = 0.25; /* s: no hello takes so much longer than another */

/* ---- what there is */

bool by_grants_switch_is_there(const struct by_manager *m, uint32_t node) {
  const struct by_manager_host *host = &m->hosts->all[node];
  return host->agent && host->adds && host->adds->cells && host->adds->bytes;
}

/* Cells that jobs with plans of their own have, manager_cells.c. */
static uint64_t reserved(const struct by_manager *m, uint32_t node) {
  uint64_t bytes = 0, each = m->hosts->all[node].adds->bytes;
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

static uint64_t free_at(const struct by_manager *m, uint32_t node) {
  uint64_t ignored, used = by_grants_held(m, node, &ignored) + reserved(m, node), all = m->hosts->all[node].adds->cells;
  return all > used ? all - used : 0;
}

/* The guarantees of a job's latest plan there. */
static uint64_t guaranteed_to(const struct by_manager_job *job, uint32_t node) {
  uint64_t sum = 0, latest = 0;
  for (uint32_t i = 0; i < job->grants.n; i++) latest = MAX(latest, job->grants.all[i].number);
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (job->grants.all[i].node == node && job->grants.all[i].number == latest) sum += job->grants.all[i].guarantee;
  return sum;
}

static uint64_t held_by(const struct by_manager_job *job, uint32_t node) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (job->grants.all[i].node == node) sum += job->grants.all[i].slots;
  return sum;
}

/* What is there for fresh cells of a job once all others are at their guarantees. */
static uint64_t room_at(const struct by_manager *m, const struct by_manager_job *of, uint32_t node) {
  uint64_t used = held_by(of, node) + reserved(m, node), all = m->hosts->all[node].adds->cells;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (job != of) used += guaranteed_to(job, node);
  return all > used ? all - used : 0;
}

uint64_t by_grants_room(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, bool strict) {
  if (!by_grants_switch_is_there(m, node)) return 0;
  uint64_t slots = strict ? free_at(m, node) : room_at(m, job, node);
  return slots >= LEAST ? slots * BY_PLAN_NEED_PAYLOAD : 0;
}

/* ---- what is needed */

static uint32_t guarantee_of(const struct by_plan_need *need) {
  return MIN(MAX(need->slots, LEAST), BY_CLUSTER_SLOTS);
}

static uint32_t wanted_of(const struct by_plan_need *need) {
  return MIN(MAX(AMPLE * guarantee_of(need), PLEASANT), BY_CLUSTER_SLOTS);
}

/* Of all trees of a plan at a switch. */
static void sum_at(const struct by_plan_needs *needs, uint32_t node, uint64_t *guarantee, uint64_t *wanted) {
  *guarantee = *wanted = 0;
  for (uint32_t i = 0; i < needs->n; i++) {
    if (needs->all[i].node != node) continue;
    *guarantee += guarantee_of(&needs->all[i]);
    *wanted += wanted_of(&needs->all[i]);
  }
}

static enum by_grants_result find_room(const struct by_manager *m, const struct by_manager_job *job,
                                       const struct by_plan_needs *needs) {
  enum by_grants_result result = BY_GRANTS_GIVEN;
  for (uint32_t i = 0; i < needs->n; i++) {
    uint32_t node = needs->all[i].node;
    uint64_t guarantee, wanted;
    if (!by_grants_switch_is_there(m, node)) return BY_GRANTS_NONE;
    sum_at(needs, node, &guarantee, &wanted);
    if (guarantee <= free_at(m, node)) continue;
    if (guarantee > room_at(m, job, node)) return BY_GRANTS_NONE;
    result = BY_GRANTS_WAIT;
  }
  return result;
}

static uint64_t for_later(const struct by_manager *m, uint32_t node) {
  return m->hosts->all[node].adds->cells / FOR_LATER;
}

/* What each job would have if all that use the switch, and this one, had the same of what is not for guarantees only.
 */
static uint64_t fair_at(const struct by_manager *m, const struct by_manager_job *of, uint32_t node) {
  uint64_t taken = reserved(m, node) + for_later(m, node), all = m->hosts->all[node].adds->cells, users = 1;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) users += job != of && held_by(job, node) > 0;
  return all > taken ? (all - taken) / users : 0;
}

/* Slots for all trees of a plan there, beside the part that is for later. A job that changes to other cells may use
 * that part until it has returned the old ones. */
static uint64_t budget_at(const struct by_manager *m, const struct by_manager_job *job, uint32_t node,
                          enum by_grants_share share) {
  uint64_t left = free_at(m, node), later = for_later(m, node), after = left + held_by(job, node);
  switch (share) {
  case BY_GRANTS_AMPLE: return left > later ? left - later : 0;
  case BY_GRANTS_FAIR: return MIN(MIN(left, after > later ? after - later : 0), fair_at(m, job, node));
  case BY_GRANTS_LEAST: break;
  }
  return 0;
}

/* Beyond the guarantee each tree gets the same part of what it wants. */
static uint32_t slots_at(const struct by_manager *m, const struct by_manager_job *job,
                         const struct by_plan_needs *needs, const struct by_plan_need *need,
                         enum by_grants_share share) {
  uint64_t guarantee, wanted, budget = budget_at(m, job, need->node, share);
  uint32_t own = guarantee_of(need);
  sum_at(needs, need->node, &guarantee, &wanted);
  if (budget <= guarantee || wanted == guarantee) return own;
  uint64_t spare = MIN(budget, wanted) - guarantee;
  return own + (uint32_t)((wanted_of(need) - own) * spare / (wanted - guarantee));
}

/* ---- rows: the cells of a plan as a job would request them */

static struct by_cluster_cells *list(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                                     bool row, uint32_t *n) {
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
  return list(m, job, number, false, n);
}

static void keep(const struct by_manager *m, const struct by_manager_job *job, uint64_t number) {
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = job->id};
  struct by_cluster_cells *cells = list(m, job, number, true, &message.n_cells);
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
    if (i == 0 || job->grants.all[i].number != job->grants.all[i - 1].number) keep(m, job, job->grants.all[i].number);
}

/* Makes room for one more. NULL: no memory. */
static struct by_manager_grant *add(struct by_manager_job *job, const char *server) {
  char *copy = strdup(server);
  if (!copy || !BY_ARRAY_GROW(&job->grants.all, &job->grants.room, (size_t)job->grants.n + 1)) {
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
    struct by_manager_grant *grant = add(job, cells->server);
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

/* ---- giving and returning */

static void free_grant(struct by_manager_grant *grant) {
  free(grant->server);
}

/* Those of which `goes` is true. */
static void remove_all(struct by_manager_job *job, bool (*goes)(const struct by_manager_grant *, uint64_t),
                       uint64_t which) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (goes(&job->grants.all[i], which))
      free_grant(&job->grants.all[i]);
    else
      job->grants.all[kept++] = job->grants.all[i];
  job->grants.n = kept;
}

static bool is_of(const struct by_manager_grant *grant, uint64_t number) {
  return grant->number == number;
}

static bool is_until(const struct by_manager_grant *grant, uint64_t number) {
  return grant->number <= number;
}

enum by_grants_result by_grants_give(struct by_manager *m, struct by_manager_job *job, uint64_t number,
                                     const struct by_plan_needs *needs, enum by_grants_share share) {
  if (by_grants_has(job, number)) return BY_GRANTS_GIVEN;
  enum by_grants_result result = find_room(m, job, needs);
  if (result != BY_GRANTS_GIVEN) return result;
  uint32_t *slots = calloc((size_t)needs->n + 1, sizeof *slots); /* before any is in the account */
  if (!slots) return BY_GRANTS_NONE;
  for (uint32_t i = 0; i < needs->n; i++) slots[i] = slots_at(m, job, needs, &needs->all[i], share);
  for (uint32_t i = 0; i < needs->n && result == BY_GRANTS_GIVEN; i++) {
    struct by_manager_grant *grant = add(job, needs->all[i].server);
    if (!grant) {
      remove_all(job, is_of, number);
      result = BY_GRANTS_NONE;
      break;
    }
    grant->number = number;
    grant->node = needs->all[i].node;
    grant->slots = slots[i];
    grant->guarantee = guarantee_of(&needs->all[i]);
  }
  free(slots);
  if (result == BY_GRANTS_GIVEN && needs->n) keep(m, job, number);
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
    if (*node != BY_NOWHERE && !by_grants_switch_is_there(m, *node)) return true;
  }
  return false;
}

bool by_grants_are_lost(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t *node) {
  for (uint32_t i = 0; i < plan->needs.n; i++) {
    *node = plan->needs.all[i].node;
    const struct by_manager_peer *agent = m->hosts->all[*node].agent;
    if (agent && agent->born > plan->made + late) return true;
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
  remove_all(job, through ? is_until : is_of, number);
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

/* ---- making room */

/* The part of the cells that is there for guarantees and changes is used, or is not enough. */
static bool is_crowded(const struct by_manager *m, const struct by_plan_needs *needs, uint32_t node) {
  uint64_t guarantee, wanted, left = free_at(m, node);
  sum_at(needs, node, &guarantee, &wanted);
  return guarantee > left || left < m->hosts->all[node].adds->cells / FOR_LATER;
}

/* How much it would return where these needs make it crowded. */
static uint64_t excess(const struct by_manager *m, const struct by_manager_job *job, const struct by_plan_needs *needs,
                       enum by_grants_share share) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < needs->n; i++) {
    uint32_t node = needs->all[i].node;
    if (!by_grants_switch_is_there(m, node) || !is_crowded(m, needs, node)) continue;
    uint64_t keeps = MAX(guaranteed_to(job, node), budget_at(m, job, node, share));
    sum += held_by(job, node) - MIN(held_by(job, node), keeps);
  }
  return sum;
}

/* Whether there is room for its guarantees once more, before it returns what it has. One that has refused a plan, or
 * not answered, is not asked again at once, and one that lacks a server or switch needs another plan first. */
static bool can_change(const struct by_manager *m, const struct by_manager_job *job) {
  if (m->now < job->plans.not_before || job->notes.due <= BY_DUE_HELPER) return false;
  for (uint32_t i = 0; i < job->grants.n; i++) {
    uint32_t node = job->grants.all[i].node;
    if (!by_grants_switch_is_there(m, node) || guaranteed_to(job, node) > free_at(m, node)) return false;
  }
  return job->grants.n > 0;
}

/* What it has not returned yet comes by itself, and the plan that is being made for it may have other cells. */
static bool is_changing(const struct by_manager_job *job) {
  return job->plans.running || by_job_is_moving(job) || !by_grants_has(job, job->plans.current->number) ||
         job->grants.all[0].number != job->plans.current->number;
}

struct by_manager_job *by_grants_find_victim(const struct by_manager *m, const struct by_manager_job *of,
                                             const struct by_plan_needs *needs, enum by_grants_share share) {
  struct by_manager_job *best = NULL;
  uint64_t most = 0;
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job == of || by_job_has_left(job) || !job->plans.current || !job->peer) continue;
    uint64_t beyond = excess(m, job, needs, share);
    if (beyond && is_changing(job)) return NULL;
    if (beyond > most && can_change(m, job)) most = beyond, best = job;
  }
  return best;
}

/* ---- jobs that have few */

/* What a tree has under way at most: the fewest slots that it has at any switch. */
static uint64_t window_of(const struct by_manager_job *job, const char *server) {
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < job->grants.n; i++)
    if (!strcmp(job->grants.all[i].server, server)) least = MIN(least, job->grants.all[i].slots);
  return least;
}

/* The same of the cells that it wants, or would get now. */
static uint64_t next_window(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_plan_needs *needs, const char *server, bool wanted) {
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < needs->n; i++) {
    const struct by_plan_need *need = &needs->all[i];
    if (strcmp(need->server, server) != 0) continue;
    least = MIN(least, wanted ? wanted_of(need) : slots_at(m, job, needs, need, BY_GRANTS_FAIR));
  }
  return least;
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
    if (job->grants.all[i].number != number) return false; /* what it has not returned yet */
  if (!job->grants.n || !lacks_cells(m, job, needs) || !can_change(m, job)) return false;
  for (uint32_t i = 0; i < needs->n; i++) {
    const char *server = needs->all[i].server;
    uint64_t has = window_of(job, server), gets = next_window(m, job, needs, server, false);
    if (gets < has) return false;
    grows |= gets >= GROWTH * has;
  }
  return grows;
}

/* What a job would return if it changed to its fair share. */
static uint64_t beyond_fair(const struct by_manager *m, const struct by_manager_job *job, uint32_t node) {
  uint64_t held = held_by(job, node), keeps = MAX(guaranteed_to(job, node), budget_at(m, job, node, BY_GRANTS_FAIR));
  return held > MAX(keeps, fair_at(m, job, node)) ? held - keeps : 0;
}

struct by_manager_job *by_grants_find_rich(const struct by_manager *m, const struct by_manager_job *of,
                                           const struct by_plan_needs *needs) {
  struct by_manager_job *best = NULL;
  if (!lacks_cells(m, of, needs)) return NULL;
  for (uint32_t i = 0; i < needs->n && !best; i++) {
    uint32_t node = needs->all[i].node;
    uint64_t guarantee, wanted, has = held_by(of, node), most = 0;
    if (!by_grants_switch_is_there(m, node)) continue;
    sum_at(needs, node, &guarantee, &wanted);
    uint64_t left = free_at(m, node), needed = for_later(m, node) + (GROWTH - 1) * has;
    if (GROWTH * has > MIN(fair_at(m, of, node), wanted) || left >= needed) continue;
    for (struct by_manager_job *job = m->jobs; job; job = job->next) {
      if (job == of || by_job_has_left(job) || !job->plans.current || !job->peer || is_changing(job)) continue;
      uint64_t beyond = beyond_fair(m, job, node);
      if (beyond > most && left + beyond >= needed && can_change(m, job)) most = beyond, best = job;
    }
  }
  return best;
}

/* ---- to see it */

void by_grants_print(const struct by_manager *m, const struct by_manager_job *job, uint32_t node,
                     struct by_text *text) {
  for (uint32_t i = 0; i < job->grants.n; i++) {
    const struct by_manager_grant *grant = &job->grants.all[i];
    const struct by_manager_adds *adds = m->hosts->all[grant->node].adds;
    if (node != BY_NOWHERE && grant->node != node) continue;
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_string(text, node == BY_NOWHERE ? "switch" : "job",
                       node == BY_NOWHERE ? m->hosts->all[grant->node].name : job->id);
    if (node != BY_NOWHERE) by_json_put_string(text, "name", job->name);
    by_json_put_string(text, "server", grant->server);
    by_json_put_count(text, "number", grant->number);
    by_text_add(text, ",\"slots\":%u,\"requested\":%u,\"guaranteed\":%u,\"bytes\":%llu}", grant->slots, grant->slots,
                grant->guarantee, (unsigned long long)grant->slots * (adds ? adds->bytes : 0));
  }
}
