/* Teams: creates and frees them, numbers their calls and keeps their plans. */
#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "call.h"
#include "deliver.h"

enum { FIRST_WINDOW = 64 };

bool by_team_is_gone(const struct by_runner *runner, uint32_t id) {
  for (uint32_t i = runner->transfer.state.n_destroyed; i; i--)
    if (runner->transfer.state.destroyed[i - 1] == id) return true;
  return false;
}

enum banyan_status by_team_make(struct by_runner *runner, uint32_t id, uint32_t rank, uint32_t n,
                                const uint32_t *processes, struct by_team **out) {
  if (by_team_of(runner, id))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "number %u of a new communicator is in use: split again", id);
  struct by_team *team = calloc(1, sizeof *team);
  if (!team) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator");
  *team = (struct by_team){.runner = runner, .id = id, .n = n, .vertices.self = rank, .window_size = FIRST_WINDOW};
  team->vertices.processes = calloc(n, sizeof *team->vertices.processes);
  team->rank_of = calloc(runner->transfer.processes, sizeof *team->rank_of);
  team->window = calloc(FIRST_WINDOW, sizeof(struct by_call *));
  team->next = runner->teams;
  runner->teams = team;
  if (!team->vertices.processes || !team->rank_of || !team->window) {
    by_team_free(team);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %u ranks", n);
  }
  memset(team->rank_of, 0xff, runner->transfer.processes * sizeof *team->rank_of);
  for (uint32_t r = 0; r < n; r++) {
    team->vertices.processes[r] = processes[r];
    team->rank_of[processes[r]] = r;
  }
  uint32_t gone = 0;
  for (uint32_t i = 0; i < runner->transfer.state.n_destroyed; i++)
    if (runner->transfer.state.destroyed[i] != id)
      runner->transfer.state.destroyed[gone++] = runner->transfer.state.destroyed[i];
  runner->transfer.state.n_destroyed = gone;
  *out = team;
  return BANYAN_OK;
}

enum banyan_status by_teams_grow(struct by_runner *runner, uint32_t processes) {
  uint32_t have = runner->transfer.processes;
  for (struct by_team *d = runner->teams; d; d = d->next) {
    uint32_t *longer = realloc(d->rank_of, processes * sizeof *longer);
    if (!longer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", processes);
    memset(longer + have, 0xff, (processes - have) * sizeof *longer);
    d->rank_of = longer;
  }
  return BANYAN_OK;
}

/* ---- end of a team */

void by_team_free(struct by_team *team) {
  struct by_runner *runner = team->runner;
  for (uint32_t i = 0; i < runner->transfer.processes; i++)
    by_deliver_forget(runner->transfer.links[i], team->id, NULL, 0);
  /* Without memory for the number, frames that peers still send are kept as if the team were to be created. */
  if (BY_ARRAY_GROW(&runner->transfer.state.destroyed, &runner->gone_capacity, runner->transfer.state.n_destroyed + 1))
    runner->transfer.state.destroyed[runner->transfer.state.n_destroyed++] = team->id;
  struct by_team **slot = &runner->teams;
  while (*slot != team) slot = &(*slot)->next;
  *slot = team->next;
  while (team->pairs) {
    struct by_pair *pair = team->pairs;
    team->pairs = pair->next;
    free(pair);
  }
  if (!team->plan_is_borrowed) by_plan_destroy(team->plan);
  by_history_fini(&team->failed);
  free(team->vertices.processes);
  free(team->rank_of);
  free(team->window);
  free(team);
}

/* ---- calls of a team */

struct by_pair *by_team_find_pair(const struct by_team *team, uint32_t peer, uint32_t tag, bool sends) {
  struct by_pair *pair = team->pairs;
  while (pair && (pair->peer != peer || pair->tag != tag || pair->sends != sends)) pair = pair->next;
  return pair;
}

bool by_team_is_past(const struct by_team *team, const struct by_frame *frame, uint32_t rank) {
  if (!(frame->flags & BY_FRAME_PAIR)) return (int32_t)(frame->call - team->next_call) < 0;
  const struct by_pair *pair = by_team_find_pair(team, rank, frame->tag, false);
  return pair && (int32_t)(frame->call - pair->number) < 0;
}

enum banyan_status by_team_grow_window(struct by_team *team) {
  uint32_t size = team->window_size * 2;
  struct by_call **window = calloc(size, sizeof(struct by_call *));
  if (!window) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u calls under way", size);
  for (uint32_t i = 0; i < team->window_size; i++)
    if (team->window[i]) window[team->window[i]->exchange.descriptor.call & (size - 1)] = team->window[i];
  free(team->window);
  team->window = window;
  team->window_size = size;
  team->runner->transfer.counters.allocations++;
  return BANYAN_OK;
}

enum banyan_status by_team_pair_number(struct by_team *team, const struct banyan_call *user, uint32_t **out) {
  bool sends = user->collective == BANYAN_SEND;
  struct by_pair *pair = by_team_find_pair(team, (uint32_t)user->root, user->tag, sends);
  if (!pair) {
    pair = calloc(1, sizeof *pair);
    if (!pair) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tag");
    *pair = (struct by_pair){.next = team->pairs, .peer = (uint32_t)user->root, .tag = user->tag, .sends = sends};
    team->pairs = pair;
  }
  *out = &pair->number;
  return BANYAN_OK;
}

/* ---- plan of a team */

void by_team_use_plan(struct by_team *team, struct by_plan *plan, bool borrowed) {
  struct by_past_plan *before = &team->before;
  if (team->plan) {
    before->version = team->plan->version;
    snprintf(before->name, sizeof before->name, "%.64s", team->plan->name);
  }
  if (!team->plan_is_borrowed) by_plan_destroy(team->plan);
  team->plan = plan;
  team->plan_is_borrowed = borrowed;
  team->vertices.chunk = plan->chunk;
}

/* Other ranks may use a built-in plan, which is known without a file. */
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

const char *by_team_name_plan(const struct by_team *team, uint32_t version) {
  if (!team || !version) return NULL;
  if (team->plan && team->plan->version == version) return team->plan->name;
  return team->before.version == version ? team->before.name : find_builtin(team->n, version);
}
