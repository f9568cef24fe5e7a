/* The control tree of a communicator: its plan's, or else hosts hang on each other by their numbers, and on each host's
 * first rank its others. */
#include <stdlib.h>
#include <string.h>

#include "control_tree.h"
#include "plan_make.h"
#include "submitter.h"

/* The parents of all ranks of a communicator, and scratch arrays to find them. */
struct ways {
  uint32_t n, hosts;
  uint32_t *up, *down; /* Parents of each rank on the way up and down; `up` begins the memory of all arrays. */
  uint32_t *host_of;   /* Host of each rank; hosts are numbered in the order of their first ranks. */
  uint32_t *first;     /* First rank of each host. */
  uint32_t *sorted;    /* Ranks sorted by host. */
  uint32_t *seen;      /* Number of ranks of each host sorted so far. */
  uint32_t *offset;    /* Index in `sorted` of the first rank of each host. */
  uint32_t *known;     /* Maps the job's number of a host to its number here plus 1; 0 if it has none yet. */
};

static enum banyan_status ways_init(const struct banyan_comm *comm, struct ways *w) {
  uint32_t n = comm->size, *block = calloc(7 * (size_t)n + 1 + by_job_hosts(comm->job)->n, sizeof *block);
  if (!block) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a control tree of %u ranks", n);
  *w = (struct ways){.n = n, .up = block};
  uint32_t **arrays[] = {&w->up, &w->down, &w->host_of, &w->first, &w->sorted, &w->seen};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) *arrays[i] = block + i * n;
  w->offset = block + 6 * n;
  w->known = w->offset + n + 1;
  for (uint32_t r = 0; r < n; r++) {
    uint32_t *known = &w->known[by_job_hosts(comm->job)->of[comm->processes[r]]];
    if (!*known) {
      *known = w->hosts + 1;
      w->first[w->hosts++] = r;
    }
    w->host_of[r] = *known - 1;
    w->offset[*known]++;
  }
  for (uint32_t h = 0; h < w->hosts; h++) w->offset[h + 1] += w->offset[h];
  return BANYAN_OK;
}

static enum banyan_status hang_hosts(const struct by_control_choice *choice, struct ways *w) {
  struct by_control_costs costs = by_control_costs_usual();
  struct by_control_numbered shape;
  BY_TRY(by_control_numbered_make(w->hosts, by_control_fan_out(w->hosts, &costs), &costs, &shape));
  for (uint32_t h = 0; h < w->hosts; h++) {
    uint32_t up = by_control_parent(&shape, h), down = up, r = w->first[h], last = w->hosts - 1;
    if (choice->kind == BY_CONTROL_RING) { /* In a ring, the last host is the root. */
      up = h < last ? h + 1 : h;
      down = h == last ? h : h ? h - 1 : last;
    }
    w->up[r] = w->first[up];
    w->down[r] = w->first[down];
  }
  return BANYAN_OK;
}

static void sort_ranks(struct ways *w) {
  for (uint32_t r = 0; r < w->n; r++) w->sorted[w->offset[w->host_of[r]] + w->seen[w->host_of[r]]++] = r;
}

/* Hangs the other ranks of each host below its first rank, by their numbers on the host. */
static enum banyan_status hang_ranks(struct ways *w) {
  struct by_control_costs costs = by_control_costs_usual();
  uint32_t fan_out = by_control_fan_out(w->n, &costs), made = 0;
  struct by_control_numbered shape = {0};
  sort_ranks(w);
  for (uint32_t h = 0; h < w->hosts; h++) {
    const uint32_t *own = w->sorted + w->offset[h];
    uint32_t n = w->offset[h + 1] - w->offset[h];
    if (n != made) BY_TRY(by_control_numbered_make(n, fan_out, &costs, &shape));
    made = n;
    for (uint32_t i = 1; i < n; i++) w->up[own[i]] = w->down[own[i]] = own[by_control_parent(&shape, i)];
  }
  return BANYAN_OK;
}

/* Makes a tree by numbers in which no rank has more than fan_out children, on its own host and on others together. */
static enum banyan_status hang_limited(uint32_t fan_out, struct ways *w) {
  const struct by_plan_host_ranks places = {w->hosts, w->n, w->offset, w->sorted};
  const struct by_control_numbered shape = {.at_root = fan_out, .fan_out = fan_out};
  sort_ranks(w);
  for (uint32_t h = 0; h < w->hosts; h++) w->first[h] = by_control_parent(&shape, h);
  BY_TRY(by_plan_control_hang(&places, fan_out, w->first, w->up));
  memcpy(w->down, w->up, w->n * sizeof *w->down);
  return BANYAN_OK;
}

/* Takes the control tree of the plan. Returns false if the plan has none, or the settings ask for another one. */
static bool take_planned(const struct by_plan_control *planned, const struct by_control_choice *choice,
                         const struct ways *w) {
  bool ring = choice->kind == BY_CONTROL_RING || (choice->kind == BY_CONTROL_AUTO && planned->use_ring);
  if (choice->kind == BY_CONTROL_STAR || choice->fan_out || !(ring ? planned->ring : planned->parent)) return false;
  by_plan_control_parents(planned, w->n, ring, w->up, w->down);
  return true;
}

static enum banyan_status make_ways(const struct banyan_comm *comm, const struct by_plan *plan, struct ways *w) {
  const struct by_control_choice choice = by_job_settings(comm->job)->control;
  if (choice.kind == BY_CONTROL_STAR) return BANYAN_OK; /* All arrays are 0: rank 0 is the parent of all. */
  if (plan && take_planned(&plan->control, &choice, w)) return BANYAN_OK;
  if (choice.fan_out) return hang_limited(choice.fan_out, w);
  BY_TRY(hang_hosts(&choice, w));
  return hang_ranks(w);
}

enum banyan_status by_control_place_tree(const struct banyan_comm *comm, const struct by_plan *plan,
                                         struct by_controller_tree *out) {
  struct ways w;
  BY_TRY(ways_init(comm, &w));
  *out = (struct by_controller_tree){.ranks = w.n, .up = w.up, .down = w.down};
  enum banyan_status status = make_ways(comm, plan, &w);
  if (status != BANYAN_OK) free(w.up);
  return status;
}
