/* Makes the set of a plan's trees through switches, finds their ends' addresses, and steps the set through its states.
 */
#include "control_trees.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cluster_message.h"
#include "log.h"
#include "opening.h"

void by_tree_set_go(struct by_tree_set *set, enum by_set_state state) {
  static const unsigned next[BY_SET_STATES] = {
      [BY_SET_OPENING] = 1u << BY_SET_WAITING | 1u << BY_SET_ACQUIRING | 1u << BY_SET_HOPELESS,
      [BY_SET_WAITING] = 1u << BY_SET_ACQUIRING | 1u << BY_SET_HOPELESS,
      [BY_SET_ACQUIRING] = 1u << BY_SET_GIVEN | 1u << BY_SET_ENDING | 1u << BY_SET_HOPELESS,
      [BY_SET_GIVEN] = 1u << BY_SET_READY | 1u << BY_SET_ENDING | 1u << BY_SET_HOPELESS,
      [BY_SET_READY] = 1u << BY_SET_ENDING};
  static const char *const names[] = {"opening", "waiting", "acquiring", "given",
                                      "ready",   "ending",  "hopeless",  "over"};
  assert(state == BY_SET_OVER || next[set->state] >> state & 1);
  by_debug("control", "in-network trees of version %u: %s -> %s", set->version, names[set->state], names[state]);
  set->state = state;
}

static struct by_in_network_tree *find_of(const struct by_tree_set *set, struct by_in_network_tree *from) {
  while (from && from->set != set) from = from->next;
  return from;
}

struct by_in_network_tree *by_tree_set_first(const struct by_tree_set *set) {
  return find_of(set, set->switches->trees);
}

struct by_in_network_tree *by_tree_set_next(const struct by_in_network_tree *tree) {
  return find_of(tree->set, tree->next);
}

struct by_set_end *by_tree_set_find_end(const struct by_tree_set *set, uint32_t process) {
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (set->ends[i].process == process) return &set->ends[i];
  return NULL;
}

static void free_tree(struct by_in_network_tree *tree) {
  by_switched_tree_destroy(tree->tree);
  free(tree->answers);
  free(tree->parts);
  explicit_bzero(tree->ends.secret, sizeof tree->ends.secret);
  free(tree);
}

void by_tree_set_free_list(struct by_in_network_tree *trees) {
  for (struct by_in_network_tree *next; trees; trees = next) {
    next = trees->next;
    free_tree(trees);
  }
}

void by_tree_set_destroy(struct by_tree_set *set) {
  for (struct by_in_network_tree **place = &set->switches->trees; set->trees && *place;) { /* It may be listed. */
    struct by_in_network_tree *tree = *place;
    if (tree->set != set) {
      place = &tree->next;
      continue;
    }
    *place = tree->next;
    free_tree(tree);
  }
  free(set->ends);
  free(set->why);
  free(set);
}

/* ---- where the ends are */

static const struct by_member *member_of(const struct by_in_network_tree *tree, uint32_t process) {
  return &by_job_members(tree->set->switches->job)[process];
}

/* Returns the process of an end: the server, the workers, then an aggregator for each switch. UINT32_MAX: that switch
 * is no aggregator. */
static uint32_t process_of(const struct by_in_network_tree *tree, uint32_t end) {
  uint32_t n = tree->tree->n_workers;
  if (end > n) return tree->answers[end - 1 - n].aggregator;
  return end ? tree->processes[end - 1] : tree->ends.server;
}

static uint32_t count_ends(const struct by_in_network_tree *tree) {
  return 1 + tree->tree->n_workers + tree->tree->n_switches;
}

/* Returns the address of end number `end`. */
static struct by_address *address_of(struct by_in_network_tree *tree, uint32_t end) {
  uint32_t n = tree->tree->n_workers;
  if (end > n) return &tree->answers[end - 1 - n].at;
  return end ? &tree->ends.workers[end - 1] : &tree->ends.at;
}

static enum banyan_status find_ends(struct by_in_network_tree *tree) {
  uint32_t n = 0;
  struct by_tree_end *ends = calloc(count_ends(tree), sizeof *ends);
  if (!ends) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees through switches");
  for (uint32_t e = 0; e < count_ends(tree); e++)
    if (process_of(tree, e) != UINT32_MAX)
      ends[n++] = (struct by_tree_end){member_of(tree, process_of(tree, e)), address_of(tree, e)};
  enum banyan_status status = by_tree_find_addresses(ends, n, &tree->ends.lines);
  free(ends);
  const struct by_settings *settings = by_job_settings(tree->set->switches->job);
  tree->ends.exact = strcmp(settings->sums, "float32") == 0;
  tree->ends.keyed = by_encryption_of(settings->encrypt) != BY_ENCRYPT_OFF;
  return status;
}

enum banyan_status by_tree_set_find_addresses(const struct by_tree_set *set) {
  for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree))
    BY_TRY(find_ends(tree));
  return BANYAN_OK;
}

bool by_tree_set_lacks_ports(const struct by_tree_set *set) {
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!by_job_members(set->switches->job)[set->ends[i].process].udp_port) return true;
  return false;
}

/* ---- slots */

void by_tree_set_level(struct by_in_network_tree *tree) {
  uint32_t least = BY_TREE_WANTED;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    if (tree->parts[s].allowed >= BY_TREE_WORTHWHILE) least = MIN(least, tree->parts[s].allowed);
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    struct by_tree_part *part = &tree->parts[s];
    part->allowed = part->allowed >= BY_TREE_WORTHWHILE ? least : 0;
    part->least = tree->set->number ? part->allowed : MIN(part->allowed, BY_TREE_WORTHWHILE);
  }
}

/* ---- making one */

static uint32_t granted_slots(const struct by_tree_grants *grants, const char *server, const char *at) {
  for (uint32_t i = 0; i < grants->n_cells; i++)
    if (!strcmp(grants->cells[i].at, at) && grants->cells[i].server && !strcmp(grants->cells[i].server, server))
      return grants->cells[i].slots;
  return 0;
}

/* Finds the slots that a switch is asked for. Aggregators have memory of their own, so the manager's grants do not name
 * them. */
static void find_part(const struct by_tree_wanted *wanted, struct by_in_network_tree *tree, uint32_t s) {
  const struct by_switched_switch *at = &tree->tree->switches[s];
  tree->answers[s].aggregator = at->aggregator ? wanted->helpers[at->vertex - wanted->plan->n_ranks] : UINT32_MAX;
  tree->parts[s].refused = at->aggregator && tree->answers[s].aggregator == UINT32_MAX;
  tree->parts[s].allowed = wanted->grants && !at->aggregator
                               ? granted_slots(wanted->grants, tree->tree->server_name, at->name)
                               : BY_TREE_WANTED;
}

static enum banyan_status make(struct by_tree_set *set, const struct by_tree_wanted *wanted, uint32_t class_,
                               uint32_t group, struct by_in_network_tree *tree) {
  const struct by_plan *plan = wanted->plan;
  tree->set = set;
  tree->together = set->together;
  BY_TRY(by_switched_tree_make(plan, class_, group, &tree->tree));
  size_t n = tree->tree->n_switches + 1;
  tree->answers = calloc(n, sizeof *tree->answers);
  tree->parts = calloc(n, sizeof *tree->parts);
  if (!tree->answers || !tree->parts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  tree->ends.version = set->version;
  tree->ends.server = wanted->helpers[tree->tree->server - plan->n_ranks];
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) tree->processes[w] = wanted->processes[tree->tree->workers[w]];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) find_part(wanted, tree, s);
  by_tree_set_level(tree);
  return BANYAN_OK;
}

/* Returns whether the tree is listed: classes may share a tree, which is set up once. */
static bool is_listed(const struct by_in_network_tree *list, uint32_t server) {
  while (list && list->tree->server != server) list = list->next;
  return list;
}

static enum banyan_status add_end(struct by_tree_set *set, uint32_t process) {
  if (by_tree_set_find_end(set, process)) return BANYAN_OK;
  struct by_set_end *longer = realloc(set->ends, (set->n_ends + 1) * sizeof *longer);
  if (!longer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  set->ends = longer;
  set->ends[set->n_ends++] = (struct by_set_end){.process = process};
  return BANYAN_OK;
}

static enum banyan_status add_tree(struct by_tree_set *set, const struct by_tree_wanted *wanted, uint32_t class_,
                                   uint32_t group, struct by_in_network_tree **list) {
  struct by_in_network_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  enum banyan_status status = make(set, wanted, class_, group, tree);
  for (uint32_t e = 0; status == BANYAN_OK && e < count_ends(tree); e++)
    if (process_of(tree, e) != UINT32_MAX) status = add_end(set, process_of(tree, e));
  if (status != BANYAN_OK) {
    free_tree(tree);
    return status;
  }
  tree->next = *list;
  *list = tree;
  return BANYAN_OK;
}

static bool has_server(const struct by_tree_wanted *wanted, const struct by_group *group) {
  return by_group_has_server(wanted->plan, group) &&
         wanted->helpers[group->order[group->root] - wanted->plan->n_ranks] != UINT32_MAX;
}

static enum banyan_status add_trees(struct by_tree_set *set, const struct by_tree_wanted *wanted,
                                    struct by_in_network_tree **list) {
  const struct by_plan *plan = wanted->plan;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      if (has_server(wanted, group) && !is_listed(*list, group->order[group->root]))
        BY_TRY(add_tree(set, wanted, c, g, list));
    }
  return BANYAN_OK;
}

enum banyan_status by_tree_set_make(struct by_switches *switches, const struct by_tree_wanted *wanted, bool together,
                                    struct by_in_network_tree **list, struct by_tree_set **out) {
  struct by_tree_set *set = calloc(1, sizeof *set);
  if (!set) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees through switches");
  *set = (struct by_tree_set){.switches = switches,
                              .version = wanted->version,
                              .number = wanted->grants ? wanted->grants->number : 0,
                              .together = together};
  enum banyan_status status = add_trees(set, wanted, list);
  if (status == BANYAN_OK) {
    *out = set;
    return BANYAN_OK;
  }
  by_tree_set_free_list(*list);
  free(set->ends);
  free(set);
  return status;
}
