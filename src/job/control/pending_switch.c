/* A plan switch of rank 0's that is not decided on: makes it from a proposal, and steps it through its states. */
#include "pending_switch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_message.h"
#include "control.h"
#include "log.h"

/* ---- making one */

static enum banyan_status copy_grants(struct by_arena *arena, const struct by_tree_grants *from,
                                      struct by_tree_grants *out) {
  struct by_cluster_switch *switches = BY_ARENA_ARRAY(arena, struct by_cluster_switch, from->n_switches + 1);
  struct by_cluster_cells *cells = BY_ARENA_ARRAY(arena, struct by_cluster_cells, from->n_cells + 1);
  for (uint32_t i = 0; switches && i < from->n_switches; i++) {
    const struct by_cluster_switch *one = &from->switches[i];
    switches[i] = (struct by_cluster_switch){.at = by_arena_string(arena, one->at),
                                             .address = by_arena_string(arena, one->address),
                                             .key = one->key ? by_arena_string(arena, one->key) : NULL};
  }
  for (uint32_t i = 0; cells && i < from->n_cells; i++)
    cells[i] = (struct by_cluster_cells){.at = by_arena_string(arena, from->cells[i].at),
                                         .server = by_arena_string(arena, from->cells[i].server),
                                         .slots = from->cells[i].slots};
  *out = (struct by_tree_grants){from->number, from->n_switches, from->n_cells, switches, cells};
  return arena->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan") : BANYAN_OK;
}

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
}

static enum banyan_status copy_processes(struct by_pending_switch *pending, const struct by_proposal *proposal) {
  uint32_t n = proposal->plan->n_ranks, more = proposal->plan->n_vertices - n;
  pending->processes = BY_ARENA_ARRAY(&proposal->plan->arena, uint32_t, n + more);
  if (!pending->processes) return no_memory();
  memcpy(pending->processes, proposal->processes, n * sizeof *pending->processes);
  memcpy(pending->processes + n, proposal->helpers, more * sizeof *pending->processes);
  return BANYAN_OK;
}

static enum banyan_status copy(struct by_pending_switch *pending, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  if (proposal->grants) BY_TRY(copy_grants(&proposal->plan->arena, proposal->grants, &pending->grants));
  BY_TRY(copy_processes(pending, proposal));
  struct by_text text;
  struct by_writer writer;
  pending->n_places = plan->n_vertices - plan->n_ranks;
  pending->places = malloc(4 * pending->n_places + 1);
  pending->members = calloc(pending->n, sizeof *pending->members);
  by_text_init(&text);
  by_plan_print(plan, &text);
  pending->text = text.data;
  pending->length = text.length;
  if (!pending->places || !pending->members || text.failed) return no_memory();
  by_writer_init(&writer, pending->places, 4 * pending->n_places);
  for (size_t i = 0; i < pending->n_places; i++) by_write_u32(&writer, proposal->helpers[i]);
  for (uint32_t i = 0; i < pending->n; i++) pending->members[i].process = proposal->processes[i];
  size_t bytes = pending->length + 4 * pending->n_places, most = MOST_FRAME - BY_PLAN_SWITCH_FIXED_BYTES;
  if (bytes <= most) return by_helper_links_find(&pending->links, proposal);
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan is %zu bytes of JSON; at most %zu can be proposed", bytes, most);
}

enum banyan_status by_pending_switch_make(struct by_plan_switching *switching, const struct by_proposal *proposal,
                                          void (*late)(void *pending), struct by_pending_switch **out) {
  struct by_pending_switch *pending = *out = calloc(1, sizeof *pending);
  if (!pending) return no_memory();
  *pending = (struct by_pending_switch){.switching = switching,
                                        .state = BY_SWITCH_QUEUED,
                                        .comm = proposal->comm,
                                        .n = proposal->n,
                                        .repeats = proposal->repeats,
                                        .used = proposal->used,
                                        .notify = proposal->notify};
  by_timer_init(&pending->late, late, pending);
  enum banyan_status status = copy(pending, proposal);
  if (status == BANYAN_OK) {
    pending->plan = proposal->plan; /* No other thread can see it yet. */
    return BANYAN_OK;
  }
  by_pending_switch_free(pending);
  *out = NULL;
  return status;
}

void by_pending_switch_free(struct by_pending_switch *pending) {
  by_loop_cancel_timer(&pending->late);
  by_helper_links_fini(&pending->links);
  free(pending->members);
  free(pending->places);
  by_plan_destroy(pending->plan);
  free(pending->text);
  free(pending);
}

/* ---- what it is */

bool by_pending_switch_is_own(const struct by_pending_switch *pending) {
  enum banyan_plan_source source = pending->plan->origin.source;
  return !pending->plan->origin.supplied && (source == BANYAN_PLAN_TOPOLOGY || source == BANYAN_PLAN_MEASURED);
}

bool by_pending_switch_is_managers(const struct by_pending_switch *pending) {
  return pending->plan->origin.source == BANYAN_PLAN_MANAGER && !pending->plan->origin.supplied;
}

bool by_pending_switch_is_made(const struct by_pending_switch *pending) {
  return by_pending_switch_is_managers(pending) || by_pending_switch_is_own(pending);
}

bool by_pending_switch_has_trees(const struct by_pending_switch *pending) {
  const struct by_plan *plan = pending->plan;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      if (by_group_has_server(plan, group) && pending->processes[group->order[group->root]] != UINT32_MAX) return true;
    }
  return false;
}

bool by_pending_switch_has_member(const struct by_pending_switch *pending, uint32_t process) {
  for (uint32_t i = 0; i < pending->n; i++)
    if (pending->members[i].process == process) return true;
  for (uint32_t v = pending->plan->n_ranks; pending->trees && v < pending->plan->n_vertices; v++)
    if (pending->processes[v] == process) return true; /* A server. */
  return by_helper_links_has(&pending->links, process);
}

struct by_plan_switch_message by_pending_switch_message(const struct by_pending_switch *pending,
                                                        enum by_plan_switch_kind kind) {
  return (struct by_plan_switch_message){
      .kind = kind, .comm = pending->comm, .number = pending->number, .at = pending->agreement.at, .text = ""};
}

/* ---- where it stands */

void by_pending_switch_set_state(struct by_pending_switch *pending, enum by_pending_switch_state state) {
  static const unsigned next[BY_SWITCH_STATES] = {[BY_SWITCH_QUEUED] = 1u << BY_SWITCH_GROWING |
                                                                       1u << BY_SWITCH_LINKING | 1u << BY_SWITCH_ASKED,
                                                  [BY_SWITCH_GROWING] = 1u << BY_SWITCH_LINKING | 1u << BY_SWITCH_ASKED,
                                                  [BY_SWITCH_LINKING] = 1u << BY_SWITCH_ASKED,
                                                  [BY_SWITCH_ASKED] = 1u << BY_SWITCH_PUT_OFF,
                                                  [BY_SWITCH_PUT_OFF] = 1u << BY_SWITCH_ASKED};
  static const char *const names[] = {"queued", "growing", "linking", "asked", "put off"};
  assert(next[pending->state] >> state & 1);
  by_debug("plan", "plan switch %u of communicator %u: %s -> %s", pending->number, pending->comm, names[pending->state],
           names[state]);
  pending->state = state;
}
