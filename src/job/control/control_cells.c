/* The manager's part in trees through switches: it is told what they wish for there, says how much of the switches'
 * memory they may take, and is told what they have got. A job whose manager is away, or silent, takes what it gets. */
#include <stdlib.h>
#include <string.h>

#include "cluster_message.h"
#include "control_trees.h"
#include "log.h"

enum { LOOKS_MS = 10, MANAGER_MS = 5000 };

/* ---- what is wished for */

static const char *name_of(const struct by_control_wished *one) {
  return one->tree->tree->switches[one->which].name;
}

static uint32_t count(const struct by_control_tree *tree) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) n += tree->tree->switches[s].adds;
  return tree->told ? 0 : n;
}

/* Of all trees that are to be set up, each switch that is to add. */
static void list(struct by_control *control) {
  uint32_t n = 0;
  if (control->wished) return; /* they are wished for again */
  for (const struct by_control_tree *tree = control->trees; tree; tree = tree->next) n += count(tree);
  control->wished = calloc((size_t)n + 1, sizeof *control->wished);
  for (struct by_control_tree *tree = control->trees; tree && control->wished; tree = tree->next)
    for (uint32_t s = 0; count(tree) && s < tree->tree->n_switches; s++)
      if (tree->tree->switches[s].adds) control->wished[control->n_wished++] = (struct by_control_wished){tree, s};
}

static struct by_cluster_cells describe(const struct by_control_wished *one, bool has) {
  const struct by_control_tree *tree = one->tree;
  const struct by_tree_answer *answer = &tree->answers[one->which];
  return (struct by_cluster_cells){.at = name_of(one),
                                   .server = tree->control->job->members[tree->ends.server].host,
                                   .slots = BY_TREE_WANTED,
                                   .bytes = BY_WISH_SLOT_BYTES,
                                   .has = has,
                                   .given = answer->granted ? answer->what.slots : 0};
}

/* False: there is nothing to say, or nobody to say it to. */
static bool say(struct by_control *control, bool has) {
  const struct by_control_events *events = &control->events;
  bool asked = events->has_manager(events->context);
  uint32_t n = control->n_wished;
  if (n > BY_CLUSTER_CELLS && asked && !has)
    by_warn("switch", "the trees wish for cells %u times, and the manager is asked for %d at most: it is not asked", n,
            BY_CLUSTER_CELLS);
  struct by_cluster_cells *cells = n && n <= BY_CLUSTER_CELLS && asked ? calloc(n, sizeof *cells) : NULL;
  if (!cells) return false;
  for (uint32_t i = 0; i < n; i++) cells[i] = describe(&control->wished[i], has);
  events->wish(events->context, cells, n);
  free(cells);
  return true;
}

/* ---- waiting */

static bool may_answer(const struct by_control *control) {
  return control->events.may_answer(control->events.context);
}

bool by_control_wish(struct by_control *control) {
  struct by_loop *loop = control->job->loop;
  list(control);
  if (!say(control, false) || !may_answer(control)) return false;
  control->cells_until = by_loop_now(loop) + MANAGER_MS * BY_MILLISECOND;
  by_loop_set_delay(loop, &control->switches_due, 0);
  return true;
}

static void stop_waiting(struct by_control *control) {
  control->cells_until = 0;
  by_control_ask_all(control);
}

void by_control_await_cells(struct by_control *control) {
  struct by_loop *loop = control->job->loop;
  bool late = by_loop_now(loop) >= control->cells_until;
  if (!late && may_answer(control)) {
    by_loop_set_delay(loop, &control->switches_due, LOOKS_MS * BY_MILLISECOND);
    return;
  }
  by_warn("control",
          "the manager has not said how much of the switches' memory is for this job, which takes what it gets");
  stop_waiting(control);
}

void by_control_say_granted(struct by_control *control) {
  (void)say(control, true);
}

/* ---- while the job has another plan */

static bool is_being_set_up(const struct by_control *control) {
  const struct by_control_tree *tree = control->trees;
  while (tree && tree->told) tree = tree->next;
  return tree || control->cells_until;
}

/* Whether the cells are to be given back; *later: not yet. */
static bool is_unused(struct by_control *control, bool *later) {
  struct by_job *job = control->job;
  by_job_lock(job);
  bool unused = !control->trees_used;
  const struct by_domain *domain = by_engine_domain(job->engine, 0);
  *later = unused && domain && by_domain_is_running(domain, control->trees_until);
  by_job_unlock(job);
  return unused;
}

/* The ends keep their part: what they send goes past the switches meanwhile, as where these are gone. */
void by_control_release_due(void *argument) {
  struct by_control *control = argument;
  bool later, unused = is_unused(control, &later);
  if (later || is_being_set_up(control)) {
    by_loop_set_delay(control->job->loop, &control->release, LOOKS_MS * BY_MILLISECOND);
    return;
  }
  if (unused == control->trees_released || !control->wished || !control->n_wished) return;
  control->trees_released = unused;
  if (!unused) {
    if (!by_control_wish(control)) by_control_ask_all(control);
    return;
  }
  by_control_drop_cells(control);
  by_info("control", "the plan in use has no trees through switches: their cells are given back");
  if (control->events.has_manager(control->events.context)) control->events.wish(control->events.context, NULL, 0);
}

void by_control_use_trees(struct by_control *control, bool used) {
  const struct by_domain *domain = by_engine_domain(control->job->engine, 0);
  if (used == control->trees_used) return;
  control->trees_used = used;
  if (domain) control->trees_until = by_domain_next_call(domain);
  if (by_loop_post(control->job->loop, by_control_release_due, control) != BANYAN_OK)
    by_warn("control", "cells of switches stay as they are: %s", banyan_error_text());
}

/* ---- its answer */

static bool fits(const struct by_control *control, const struct by_cluster_cells *cells, uint32_t n) {
  if (n != control->n_wished) return false;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(cells[i].at, name_of(&control->wished[i])) != 0) return false;
  return true;
}

static void explain(const struct by_control_wished *one, uint32_t slots) {
  uint16_t tree = one->tree->ends.job;
  if (slots < BY_TREE_WORTHWHILE)
    by_warn("control",
            "the manager leaves tree %u %u slots at switch %s, whose memory other jobs have: it only forwards", tree,
            slots, name_of(one));
  else if (slots < BY_TREE_WANTED)
    by_info("control", "the manager leaves tree %u %u of %d slots at switch %s, whose memory it shares with other jobs",
            tree, slots, BY_TREE_WANTED, name_of(one));
}

/* All ends use as many slots as the switch with the fewest has: more elsewhere would be of no use. */
static void level(struct by_control_tree *tree) {
  uint32_t least = BY_TREE_WANTED;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    if (tree->allowed[s] >= BY_TREE_WORTHWHILE && tree->allowed[s] < least) least = tree->allowed[s];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    tree->allowed[s] = tree->allowed[s] >= BY_TREE_WORTHWHILE ? least : 0;
}

void by_control_heard_cells(struct by_control *control, const struct by_cluster_cells *cells, uint32_t n) {
  if (!control->cells_until) return;
  if (n > 0 && !fits(control, cells, n)) {
    by_warn("control", "the manager grants cells that were not wished for; that is passed over");
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct by_control_wished *one = &control->wished[i];
    explain(one, cells[i].slots);
    one->tree->allowed[one->which] = cells[i].slots;
  }
  for (struct by_control_tree *tree = control->trees; tree; tree = tree->next) level(tree);
  stop_waiting(control);
}
