#include "control_trees.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cluster_message.h"
#include "log.h"

enum { IPV4_MTU = 1500, MESSAGE_MOST = 16 << 10, LOOKS_MS = 10, MANAGER_MS = 5000 };

static void free_tree(struct by_control_tree *tree) {
  by_switched_tree_destroy(tree->tree);
  free(tree->answers);
  free(tree->parts);
  free(tree);
}

/* ---- where the ends are */

static const struct by_member *server_of(const struct by_control_tree *tree) {
  return &tree->trees->peers->job->members[tree->ends.server];
}

static const struct by_member *worker_of(const struct by_control_tree *tree, uint32_t worker) {
  return &tree->trees->peers->job->members[tree->processes[worker]];
}

/* All ends on one machine: by its loopback interface. */
static bool is_inside(const struct by_control_tree *tree) {
  for (uint32_t w = 0; w < tree->tree->n_workers; w++)
    if (strcmp(worker_of(tree, w)->machine, server_of(tree)->machine) != 0) return false;
  return true;
}

static enum banyan_status find_address(const struct by_member *member, bool inside, struct by_address *out) {
  if (!member->udp_port)
    return by_fail(BANYAN_ERR_CONNECT,
                   "host %s takes no part in trees through switches; set BANYAN_SERVERS alike on all ranks",
                   member->host);
  if (inside) return by_address_parse_host("127.0.0.1", (int)member->udp_port, out);
  for (uint32_t i = 0; i < member->n_addresses; i++) {
    *out = member->addresses[i];
    if (by_address_family(out) != AF_INET || by_address_is_loopback(out)) continue;
    by_address_set_port(out, (int)member->udp_port);
    return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_CONNECT, "host %s has no IPv4 address, which trees through switches need", member->host);
}

static enum banyan_status find_ends(struct by_control_tree *tree) {
  bool inside = is_inside(tree);
  uint32_t mtu = UINT16_MAX;
  for (uint32_t i = 0; i <= tree->tree->n_workers; i++) { /* the server, then the workers */
    const struct by_member *member = i ? worker_of(tree, i - 1) : server_of(tree);
    BY_TRY(find_address(member, inside, i ? &tree->ends.workers[i - 1] : &tree->ends.at));
    if (!inside) mtu = MIN(mtu, member->mtu ? member->mtu : IPV4_MTU);
  }
  tree->ends.lines = by_tree_lines(mtu);
  tree->ends.exact = strcmp(tree->trees->peers->job->settings.sums, "float32") == 0;
  return BANYAN_OK;
}

/* ---- sending them their parts */

static enum banyan_status send_part(struct by_control_tree *tree, uint32_t worker, uint32_t process) {
  const struct by_control_peers *peers = tree->trees->peers;
  struct by_tree_message message;
  struct by_writer writer;
  uint8_t bytes[MESSAGE_MOST];
  by_tree_describe(tree->tree, &tree->ends, tree->answers, worker, &message);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &message);
  if (process == peers->job->rank) {
    by_helpers_handle(tree->trees->helpers,
                      &(struct by_received){.type = TREE, .payload = bytes, .length = writer.length});
    return BANYAN_OK;
  }
  const struct by_control_peer *peer = peers->of_process[process];
  if (!peer) return by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone", process);
  return by_stream_send(peer->stream, TREE, bytes, writer.length);
}

static void lose(struct by_control_tree *tree) {
  tree->notified = true;
  by_deaths_lose(tree->trees->helpers->deaths, tree->ends.server, banyan_error_text());
}

/* What is known is what the ends are sent. */
static void settled(void *context, struct by_control_tree *tree) {
  (void)context;
  tree->notified = true;
  enum banyan_status status = send_part(tree, BY_TREE_FOR_SERVER, tree->ends.server);
  for (uint32_t w = 0; w < tree->tree->n_workers && status == BANYAN_OK; w++)
    status = send_part(tree, w, tree->processes[w]);
  if (status != BANYAN_OK) lose(tree);
}

/* All switches of all trees, those that are set up already for the cells that they had. */
static void ask_all(struct by_trees *trees) {
  for (struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next)
    if (tree->notified)
      by_switches_ask_again(tree);
    else if (by_switches_ask(&trees->switches, tree) != BANYAN_OK)
      lose(tree);
  if (!by_timer_is_set(&trees->due)) by_loop_set_delay(trees->peers->job->loop, &trees->due, 0);
}

/* ---- what is requested */

static const char *name_of(const struct by_cell_request *one) {
  return one->tree->tree->switches[one->which].name;
}

/* Of all trees that are to be set up, each switch that is to add. */
static void list(struct by_trees *trees) {
  uint32_t most = 1;
  if (trees->requested) return; /* they are requested again */
  for (struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next) most += tree->tree->n_switches;
  trees->requested = calloc(most, sizeof *trees->requested);
  for (struct by_control_tree *tree = trees->switches.trees; tree && trees->requested; tree = tree->next) {
    const struct by_switched_tree *of = tree->tree;
    for (uint32_t s = 0; !tree->notified && s < of->n_switches; s++)
      if (of->switches[s].adds) trees->requested[trees->n_requests++] = (struct by_cell_request){tree, s};
  }
}

static struct by_cluster_cells describe(const struct by_cell_request *one, bool has) {
  const struct by_control_tree *tree = one->tree;
  assert(tree);
  const struct by_tree_answer *answer = &tree->answers[one->which];
  return (struct by_cluster_cells){.at = name_of(one),
                                   .server = tree->trees->peers->job->members[tree->ends.server].host,
                                   .slots = BY_TREE_WANTED,
                                   .bytes = BY_RESERVATION_SLOT_BYTES,
                                   .has = has,
                                   .given = answer->granted ? answer->what.slots : 0};
}

/* False: there is nothing to report, or no manager. */
static bool report(struct by_trees *trees, bool has) {
  const struct by_control_events *events = trees->events;
  bool asked = events->has_manager(events->context);
  uint32_t n = trees->n_requests;
  if (n > BY_CLUSTER_CELLS && asked && !has)
    by_warn("switch", "the trees request cells %u times, and the manager takes %d requests at most: it is not asked", n,
            BY_CLUSTER_CELLS);
  struct by_cluster_cells *cells = n && n <= BY_CLUSTER_CELLS && asked ? calloc(n, sizeof *cells) : NULL;
  if (!cells) return false;
  for (uint32_t i = 0; i < n; i++) cells[i] = describe(&trees->requested[i], has);
  events->reservation(events->context, cells, n);
  free(cells);
  return true;
}

/* ---- waiting */

/* Sends what is requested. True: the answer is awaited; ask_all follows. */
static bool request(struct by_trees *trees) {
  struct by_loop *loop = trees->peers->job->loop;
  list(trees);
  if (!report(trees, false) || !trees->events->may_answer(trees->events->context)) return false;
  trees->cells_until = by_loop_now(loop) + MANAGER_MS * BY_MILLISECOND;
  by_loop_set_delay(loop, &trees->due, 0);
  return true;
}

static void stop_waiting(struct by_trees *trees) {
  trees->cells_until = 0;
  ask_all(trees);
}

/* While that is awaited, a few times. */
static void await_cells(struct by_trees *trees) {
  struct by_loop *loop = trees->peers->job->loop;
  bool late = by_loop_now(loop) >= trees->cells_until;
  if (!late && trees->events->may_answer(trees->events->context)) {
    by_loop_set_delay(loop, &trees->due, LOOKS_MS * BY_MILLISECOND);
    return;
  }
  by_warn("control", "the manager has not granted this job memory of the switches; it takes what it gets");
  stop_waiting(trees);
}

static void changed(void *context) {
  (void)report(context, true);
}

static void trees_due(void *argument) {
  struct by_trees *trees = argument;
  if (trees->cells_until)
    await_cells(trees);
  else if (by_switches_look(&trees->switches))
    by_loop_set_delay(trees->peers->job->loop, &trees->due, LOOKS_MS * BY_MILLISECOND);
}

/* ---- the answer of the manager */

static bool fits(const struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n) {
  if (n != trees->n_requests) return false;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(cells[i].at, name_of(&trees->requested[i])) != 0) return false;
  return true;
}

static void explain(const struct by_cell_request *one, uint32_t slots) {
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
    if (tree->parts[s].allowed >= BY_TREE_WORTHWHILE) least = MIN(least, tree->parts[s].allowed);
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    tree->parts[s].allowed = tree->parts[s].allowed >= BY_TREE_WORTHWHILE ? least : 0;
}

void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n) {
  if (!trees->cells_until) return;
  if (n > 0 && !fits(trees, cells, n)) {
    by_warn("control", "the manager grants cells that were not requested; ignored");
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct by_cell_request *one = &trees->requested[i];
    explain(one, cells[i].slots);
    one->tree->parts[one->which].allowed = cells[i].slots;
  }
  for (struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next) level(tree);
  stop_waiting(trees);
}

/* ---- while the job has another plan */

/* The ends keep their part: what they send goes past the switches meanwhile, as where these are gone. */
static void release_due(void *argument) {
  struct by_trees *trees = argument;
  struct by_job *job = trees->peers->job;
  by_job_lock(job);
  bool unused = !trees->used;
  const struct by_team *team = by_engine_team(job->engine, 0);
  bool later = trees->cells_until || (unused && team && by_team_is_running(team, trees->until));
  by_job_unlock(job);
  for (struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next) later |= !tree->notified;
  if (later) {
    by_loop_set_delay(trees->peers->job->loop, &trees->release, LOOKS_MS * BY_MILLISECOND);
    return;
  }
  if (unused == trees->released || !trees->requested || !trees->n_requests) return;
  trees->released = unused;
  if (!unused) {
    if (!request(trees)) ask_all(trees);
    return;
  }
  by_switches_drop_cells(&trees->switches);
  by_info("control", "the plan in use has no trees through switches: their cells are given back");
  if (trees->events->has_manager(trees->events->context)) trees->events->reservation(trees->events->context, NULL, 0);
}

void by_trees_use(struct by_trees *trees, bool used) {
  const struct by_team *team = by_engine_team(trees->peers->job->engine, 0);
  if (used == trees->used) return;
  trees->used = used;
  if (team) trees->until = by_team_next_call(team);
  if (by_loop_post(trees->peers->job->loop, release_due, trees) != BANYAN_OK)
    by_warn("control", "cells of switches stay as they are: %s", banyan_error_text());
}

/* ---- beginning */

/* On the loop's thread: a list of trees. */
static void begin(void *context) {
  struct by_control_tree *tree = context;
  struct by_trees *trees = tree->trees;
  for (struct by_control_tree *next; tree; tree = next) {
    next = tree->next;
    tree->next = trees->switches.trees;
    trees->switches.trees = tree;
    if (find_ends(tree) != BANYAN_OK)
      lose(tree);
    else if (!tree->tree->n_switches)
      settled(trees, tree);
  }
  if (!request(trees)) ask_all(trees);
}

static enum banyan_status make(struct by_trees *trees, const struct by_plan *plan, uint32_t class_, uint32_t group,
                               const uint32_t *processes, const uint32_t *helpers, struct by_control_tree *tree) {
  tree->trees = trees;
  BY_TRY(by_switched_tree_make(plan, class_, group, &tree->tree));
  BY_TRY(by_switches_choose_numbers(tree));
  size_t n = tree->tree->n_switches + 1;
  tree->answers = calloc(n, sizeof *tree->answers);
  tree->parts = calloc(n, sizeof *tree->parts);
  if (!tree->answers || !tree->parts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  tree->ends.server = helpers[tree->tree->server - plan->n_ranks];
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) tree->processes[w] = processes[tree->tree->workers[w]];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) tree->parts[s].allowed = BY_TREE_WANTED;
  return tree->ends.server == UINT32_MAX ? by_fail(BANYAN_ERR_PEER_DEAD, "its server has not come") : BANYAN_OK;
}

/* Ranks wait for a tree that cannot be set up, until they are notified that its server is lost. */
static void give_up(struct by_trees *trees, struct by_control_tree *tree) {
  uint32_t server = tree ? tree->ends.server : 0;
  if (server && server != UINT32_MAX)
    (void)by_deaths_post_suspicion(trees->helpers->deaths, server, banyan_error_text());
  if (tree) free_tree(tree);
}

static void add_tree(struct by_trees *trees, const struct by_plan *plan, uint32_t class_, uint32_t group,
                     const uint32_t *processes, const uint32_t *helpers, struct by_control_tree **list) {
  struct by_control_tree *tree = calloc(1, sizeof *tree);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (tree) status = make(trees, plan, class_, group, processes, helpers, tree);
  if (status != BANYAN_OK) {
    give_up(trees, tree);
    return;
  }
  tree->next = *list;
  *list = tree;
}

void by_trees_begin(struct by_trees *trees, const struct by_plan *plan, const uint32_t *processes,
                    const uint32_t *helpers) {
  struct by_control_tree *list = NULL;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_server(plan, &plan->classes[c].groups[g]))
        add_tree(trees, plan, c, g, processes, helpers, &list);
  if (!list || by_loop_post(trees->peers->job->loop, begin, list) == BANYAN_OK) return;
  for (struct by_control_tree *next; list; list = next) {
    next = list->next;
    give_up(trees, list);
  }
}

void by_trees_init(struct by_trees *trees, struct by_helpers *helpers, const struct by_control_events *events) {
  *trees = (struct by_trees){.peers = helpers->peers, .helpers = helpers, .events = events};
  trees->switches = (struct by_switches){.job = helpers->peers->job, .events = {settled, changed, trees}};
  by_timer_init(&trees->due, trees_due, trees);
  by_timer_init(&trees->release, release_due, trees);
}

void by_trees_fini(struct by_trees *trees) {
  by_loop_cancel_timer(&trees->due);
  by_loop_cancel_timer(&trees->release);
  by_switches_fini(&trees->switches);
  free(trees->requested);
  for (struct by_control_tree *next; trees->switches.trees; trees->switches.trees = next) {
    next = trees->switches.trees->next;
    free_tree(trees->switches.trees);
  }
}
