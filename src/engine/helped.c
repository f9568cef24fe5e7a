/* Plans with helpers. Every group with helpers is a part of its own in every call. Its messages have a version of
 * their own, which identifies the group and whether it runs through its helpers or among ranks alone. So both may run
 * at once, and no agreement on when a helper was lost is needed. */
#include "recovery.h"

#include <stdlib.h>
#include <string.h>

enum { OLD_AT_HELPERS = 64, OLD_AT_RANKS = 4 }; /* Old plans that are kept for calls and late frames. */

static uint32_t mix_version(uint32_t version, uint32_t a, uint32_t b) {
  uint64_t x = (uint64_t)version << 32 ^ (uint64_t)a << 8 ^ b;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return (uint32_t)(x >> 32) | 1; /* 0 is not a version. */
}

static void free_helped(struct by_helped *helped) {
  if (!helped) return;
  by_plan_destroy(helped->plan);
  by_plan_destroy(helped->among);
  by_plan_destroy(helped->rings);
  by_plan_destroy(helped->confirm);
  free(helped->vertices.processes);
  free(helped->groups);
  free(helped);
}

struct by_helped_group *by_helped_find(const struct by_helped *helped, uint32_t version) {
  for (uint32_t i = 0; i < helped->n_groups; i++)
    if (helped->groups[i].version == version || helped->groups[i].again == version) return &helped->groups[i];
  return NULL;
}

enum banyan_status by_helped_get(const struct by_helped *helped, const struct by_plan *plan, uint32_t class_,
                                 uint32_t part, uint32_t version, enum banyan_collective collective, uint32_t root,
                                 struct by_program **out) {
  return by_program_get(helped->team, &helped->vertices, plan, &plan->classes[class_], part, version, collective, root,
                        out);
}

bool by_helped_has(const struct by_helped *helped, uint32_t class_) {
  for (uint32_t i = 0; i < helped->n_groups; i++)
    if (helped->groups[i].class_ == class_) return true;
  return false;
}

static void lose_groups(const struct by_helped *helped, uint32_t process) {
  const struct by_plan *plan = helped->plan;
  for (struct by_helped_group *at = helped->groups; at < helped->groups + helped->n_groups; at++) {
    const struct by_group *group = &plan->classes[at->class_].groups[at->group];
    for (uint32_t i = 0; i < group->n; i++)
      if (group->order[i] >= plan->n_ranks && helped->vertices.processes[group->order[i]] == process) at->lost = true;
  }
}

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan with helpers");
}

/* The version of a plan with these helpers. Other helpers at its vertices give another version: late frames of calls
 * in which a helper died must not be taken for frames of the helper that replaces it. */
static uint32_t version_of(const struct by_plan *plan, const uint32_t *helpers) {
  uint32_t version = plan->version;
  for (uint32_t i = 0; i < plan->n_vertices - plan->n_ranks; i++) version = mix_version(version, helpers[i], 0);
  return version;
}

static enum banyan_status name_groups(struct by_helped *helped, const uint32_t *helpers) {
  const struct by_plan *plan = helped->plan;
  uint32_t n = 0, version = version_of(plan, helpers);
  for (uint32_t c = 0; c < plan->n_classes; c++) n += plan->classes[c].n_groups;
  helped->groups = calloc((size_t)n + 1, sizeof *helped->groups);
  if (!helped->groups) return no_memory();
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_helpers(plan, &plan->classes[c].groups[g]))
        helped->groups[helped->n_groups++] =
            (struct by_helped_group){.class_ = c,
                                     .group = g,
                                     .version = mix_version(version, c, 2 * g),
                                     .again = mix_version(version, c, 2 * g + 1),
                                     .in_network = by_group_has_server(plan, &plan->classes[c].groups[g])};
  helped->confirm_version = mix_version(version, UINT32_MAX >> 8, 0);
  return BANYAN_OK;
}

static enum banyan_status assign_processes(struct by_helped *helped, const uint32_t *helpers) {
  const struct by_team *team = helped->team;
  uint32_t n = helped->plan->n_ranks, n_all = helped->plan->n_vertices;
  helped->vertices.processes = calloc(n_all, sizeof *helped->vertices.processes);
  if (!helped->vertices.processes) return no_memory();
  memcpy(helped->vertices.processes, team->vertices.processes, n * sizeof *helped->vertices.processes);
  helped->vertices.self = team->vertices.self;
  helped->vertices.chunk = helped->plan->chunk;
  for (uint32_t v = n; v < n_all; v++) {
    uint32_t process = helped->vertices.processes[v] = helpers[v - n];
    if (process == team->runner->transfer.options.self) helped->vertices.self = v;
    if (process == UINT32_MAX) continue;
    struct by_transfer_link *link = team->runner->transfer.links[process];
    if (helped->plan->vertices[v].kind == BY_VERTEX_SERVER) by_link_expect_fabric(link);
    if (by_link_is_lost(link)) lose_groups(helped, process);
  }
  lose_groups(helped, UINT32_MAX);
  return BANYAN_OK;
}

/* Requests the links that calls will need: ranks wait for helpers to connect to them. */
static enum banyan_status prepare_relay(struct by_helped *helped) {
  for (uint32_t i = 0; i < helped->n_groups; i++) {
    const struct by_helped_group *at = &helped->groups[i];
    struct by_program *program = NULL;
    if (at->lost) continue;
    BY_TRY(by_helped_get(helped, helped->plan, at->class_, at->group, at->version, BANYAN_ALLREDUCE, 0, &program));
  }
  return BANYAN_OK;
}

static enum banyan_status build_helped(struct by_team *team, struct by_plan *plan, const uint32_t *helpers,
                                       struct by_helped *helped) {
  const char *confirm = team->n <= 8 ? "exchange" : "exchange:4";
  if (plan->n_ranks != team->n)
    return by_fail(BANYAN_ERR_PLAN, "plan '%s' is for %u ranks, not %u", plan->name, plan->n_ranks, team->n);
  BY_TRY(by_plan_among_ranks(plan, &helped->among));
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices && !helped->rings; v++)
    if (plan->vertices[v].kind == BY_VERTEX_SERVER) BY_TRY(by_plan_in_rings(plan, &helped->rings));
  BY_TRY(by_plan_builtin(confirm, team->n, &helped->confirm));
  BY_TRY(name_groups(helped, helpers));
  return assign_processes(helped, helpers);
}

void by_helped_sweep(struct by_team *team) {
  uint32_t kept = 0, max = by_recovery_of(team)->relays ? OLD_AT_HELPERS : OLD_AT_RANKS;
  for (struct by_helped **link = &team->recovery.helped; *link;) {
    struct by_helped *helped = *link;
    bool current = helped->plan == team->plan;
    if (current || helped->users || kept < max) {
      kept++;
      link = &helped->next;
      continue;
    }
    *link = helped->next;
    by_programs_retire(team, &helped->vertices);
    free_helped(helped);
  }
}

enum banyan_status by_team_set_helped_plan(struct by_team *team, struct by_plan *plan, const uint32_t *helpers,
                                           uint32_t trees) {
  struct by_recovery *recovery = by_recovery_of(team);
  struct by_helped *helped = calloc(1, sizeof *helped);
  if (!helped) {
    by_plan_destroy(plan);
    return no_memory();
  }
  *helped = (struct by_helped){.team = team, .plan = plan, .vertices.trees = trees};
  enum banyan_status status = build_helped(team, plan, helpers, helped);
  if (status != BANYAN_OK) {
    free_helped(helped);
    return status;
  }
  if (!recovery->relays) by_programs_retire(team, NULL);
  by_team_use_plan(team, plan, true);
  by_helped_sweep(team);
  helped->next = team->recovery.helped;
  team->recovery.helped = helped;
  team->recovery.relayed = true;
  recovery->retry = recovery->relays;
  return recovery->relays ? prepare_relay(helped) : BANYAN_OK;
}

bool by_helped_uses_trees(const struct by_team *team, uint32_t version) {
  const struct by_helped *helped = team->recovery.helped;
  while (helped && (helped->vertices.trees != version || (helped->plan != team->plan && !helped->users)))
    helped = helped->next;
  return helped;
}

void by_helped_lost(const struct by_team *team, uint32_t process) {
  for (struct by_helped *helped = team->recovery.helped; helped; helped = helped->next) lose_groups(helped, process);
}

void by_helped_fini(struct by_team *team) {
  while (team->recovery.helped) {
    struct by_helped *helped = team->recovery.helped;
    team->recovery.helped = helped->next;
    free_helped(helped);
  }
  free(team->recovery.relayed_past);
}
