/* Trees through switches at rank 0: sets them up for each plan, sends the ends their parts, and frees their cells. */
#include "control_trees.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cluster_message.h"
#include "log.h"

enum { LOOKS_MS = 10, MANAGER_MS = 5000 };

/* ---- sets and trees */

/* Finds a set by its version, unless it is over. */
static struct by_tree_set *find_set(const struct by_trees *trees, uint32_t version) {
  struct by_tree_set *set = LIST_FIRST(&trees->sets);
  while (set && (set->version != version || set->state == BY_SET_OVER)) set = LIST_NEXT(set, entry);
  return set;
}

/* Removes a set that is over. The manager may still answer its requests. */
static void remove_set(struct by_tree_set *set) {
  struct by_trees *trees = set->trees;
  for (uint32_t i = 0; i < trees->n_requests; i++)
    if (trees->requested[i].tree && trees->requested[i].tree->set == set) trees->requested[i].tree = NULL;
  by_loop_cancel_timer(&set->late);
  LIST_REMOVE(set, entry);
  by_tree_set_destroy(set);
}

static void look_soon(struct by_trees *trees) {
  by_loop_set_delay(by_job_loop(trees->peers->job), &trees->due, 0);
}

/* ---- sending */

static enum banyan_status send_to(const struct by_trees *trees, uint32_t process, uint16_t type, const void *bytes,
                                  size_t length) {
  if (process == by_job_rank(trees->peers->job)) {
    by_control_send_to_self(trees->control, &(struct by_received){.type = type, .payload = bytes, .length = length});
    return BANYAN_OK;
  }
  const struct by_control_peer *peer = trees->peers->of_process[process];
  if (!peer) return by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone", process);
  return by_control_peer_try_send(peer, type, bytes, length);
}

/* Asks an end of a tree, unless it is gone. */
static void ask_end(const struct by_trees *trees, uint32_t process, enum by_tree_ask_kind kind, uint32_t version) {
  uint8_t bytes[16];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_ask_write(&writer, &(struct by_tree_ask){kind, version});
  if (send_to(trees, process, TREE_ASK, bytes, writer.length) != BANYAN_OK)
    by_debug("control", "process %u is asked nothing about trees: %s", process, banyan_error_text());
}

/* A message to an end, and its bytes. */
struct part {
  struct by_tree_message message;
  uint8_t bytes[BY_TREE_MESSAGE_MOST];
};

static enum banyan_status send_part(struct by_in_network_tree *tree, struct part *part, uint32_t process) {
  struct by_writer writer;
  by_writer_init(&writer, part->bytes, sizeof part->bytes);
  by_tree_message_write(&writer, &part->message);
  struct by_set_end *end = by_tree_set_find_end(tree->set, process);
  if (end) end->parts++;
  return send_to(tree->set->trees, process, TREE, part->bytes, writer.length);
}

static enum banyan_status send_end(struct by_in_network_tree *tree, struct part *part, uint32_t worker,
                                   uint32_t process) {
  by_tree_describe(tree->tree, &tree->ends, tree->answers, worker, &part->message);
  return send_part(tree, part, process);
}

/* Sends the parts of a tree: aggregators come before workers, whose first terms should find them ready. */
static enum banyan_status send_all(struct by_in_network_tree *tree, struct part *part) {
  BY_TRY(send_end(tree, part, BY_TREE_FOR_SERVER, tree->ends.server));
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    if (!tree->tree->switches[s].aggregator || !tree->answers[s].granted) continue;
    by_tree_describe_aggregator(tree->tree, &tree->ends, tree->answers, s, &part->message);
    BY_TRY(send_part(tree, part, tree->answers[s].aggregator));
  }
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) BY_TRY(send_end(tree, part, w, tree->processes[w]));
  return BANYAN_OK;
}

static enum banyan_status give(struct by_in_network_tree *tree) {
  struct part *part = malloc(sizeof *part);
  if (!part) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  tree->stage = BY_TREE_GIVEN;
  enum banyan_status status = send_all(tree, part);
  free(part);
  return status;
}

/* ---- what the manager is sent */

static const char *name_of(const struct by_cell_request *one) {
  return one->tree->tree->switches[one->which].name;
}

static bool requests(const struct by_in_network_tree *tree, uint32_t which) {
  return !tree->set->number && tree->set->state >= BY_SET_WAITING && tree->stage < BY_TREE_OVER &&
         tree->tree->switches[which].adds && !tree->tree->switches[which].aggregator;
}

/* Lists, for the manager, each adding switch of all trees whose plan is not the manager's. */
static void list(struct by_trees *trees) {
  uint32_t most = 1;
  free(trees->requested);
  trees->n_requests = 0;
  for (const struct by_in_network_tree *tree = trees->switches.trees; tree; tree = tree->next)
    most += tree->tree->n_switches;
  trees->requested = calloc(most, sizeof *trees->requested);
  for (struct by_in_network_tree *tree = trees->switches.trees; tree && trees->requested; tree = tree->next)
    for (uint32_t s = 0; s < tree->tree->n_switches; s++)
      if (requests(tree, s)) trees->requested[trees->n_requests++] = (struct by_cell_request){tree, s};
}

static struct by_cluster_cells describe(const struct by_cell_request *one) {
  const struct by_in_network_tree *tree = one->tree;
  assert(tree);
  const struct by_tree_answer *answer = &tree->answers[one->which];
  return (struct by_cluster_cells){.at = name_of(one),
                                   .server = by_job_members(tree->set->switches->job)[tree->ends.server].host,
                                   .slots = BY_TREE_WANTED,
                                   .bytes = BY_RESERVATION_SLOT_BYTES,
                                   .has = tree->stage >= BY_TREE_SETTLED,
                                   .given = answer->granted ? answer->what.slots : 0};
}

/* Reports to the manager. False: there is nothing to report, or no manager. */
static bool report(struct by_trees *trees) {
  const struct by_control_events *events = trees->events;
  bool asked = events->has_manager(events->context);
  uint32_t before = trees->n_requests;
  list(trees);
  uint32_t n = trees->n_requests;
  if (n > BY_CLUSTER_CELLS && asked && n != before)
    by_warn("switch", "the trees request cells %u times, and the manager takes %d requests at most: it is not asked", n,
            BY_CLUSTER_CELLS);
  if (!n && before && asked) events->reservation(events->context, NULL, 0);
  struct by_cluster_cells *cells = n && n <= BY_CLUSTER_CELLS && asked ? calloc(n, sizeof *cells) : NULL;
  if (!cells) return false;
  for (uint32_t i = 0; i < n; i++) cells[i] = describe(&trees->requested[i]);
  events->reservation(events->context, cells, n);
  free(cells);
  return true;
}

/* Reports changed grants, which are no request. */
static void changed(void *context) {
  struct by_trees *trees = context;
  if (!trees->cells_until) (void)report(trees);
}

/* ---- the end of sets */

/* Reports that the cells of this plan, and of all earlier ones, are free. */
static void report_released(struct by_trees *trees) {
  const struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state != BY_SET_OVER && set->number && set->number <= trees->released) return;
  }
  trees->events->released(trees->events->context, trees->released);
}

static void drop_cells(struct by_tree_set *set) {
  for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree)) {
    by_switches_drop(tree);
    tree->stage = BY_TREE_OVER;
  }
}

/* Marks a set as over; it is freed when nothing in progress refers to it. */
static void drop(struct by_tree_set *set) {
  drop_cells(set);
  by_tree_set_go(set, BY_SET_OVER);
  changed(set->trees);
  look_soon(set->trees);
}

/* Frees the cells of a set that all its ends have forgotten. */
static void release(struct by_tree_set *set) {
  struct by_trees *trees = set->trees;
  by_info("control", "in-network trees of version %u are not used any more: their cells are given back", set->version);
  drop(set);
  if (!set->number) return;
  trees->released = MAX(trees->released, set->number);
  report_released(trees);
}

static bool is_server(const struct by_tree_set *set, const struct by_set_end *end) {
  return by_control_peers_is_helper(set->trees->peers, end->process);
}

static bool are_unused(const struct by_tree_set *set, bool servers) {
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!set->ends[i].unused && is_server(set, &set->ends[i]) == servers) return false;
  return true;
}

static void ask_all_ends(const struct by_tree_set *set) {
  for (uint32_t i = 0; i < set->n_ends; i++) ask_end(set->trees, set->ends[i].process, BY_TREE_END, set->version);
}

/* Ends a set that no worker uses any more. */
static void end_if_unused(struct by_tree_set *set) {
  if (set->state < BY_SET_ACQUIRING || set->state > BY_SET_ENDING || !are_unused(set, false)) return;
  if (set->state != BY_SET_ENDING) {
    by_tree_set_go(set, BY_SET_ENDING);
    ask_all_ends(set);
    by_loop_set_delay(by_job_loop(set->trees->peers->job), &set->late, SILENCE_MS * BY_MILLISECOND);
  }
  if (are_unused(set, true)) release(set);
}

/* Called when a server does not confirm that it has forgotten its trees. */
static void too_late(void *argument) {
  struct by_tree_set *set = argument;
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!set->ends[i].unused && is_server(set, &set->ends[i]))
      by_deaths_lose_silent(set->trees->deaths, set->ends[i].process);
}

/* Fails a set whose trees cannot be set up: calls go among ranks, or the plan is not proposed, of which the plan switch
 * is notified later. */
static void fail(struct by_tree_set *set) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  if (set->together) {
    set->why = strdup(text);
    by_tree_set_go(set, BY_SET_HOPELESS);
    look_soon(set->trees);
    return;
  }
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (is_server(set, &set->ends[i])) by_deaths_lose(set->trees->deaths, set->ends[i].process, text);
}

/* ---- acquiring */

static void acquire(struct by_tree_set *set) {
  by_tree_set_go(set, BY_SET_ACQUIRING);
  for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree))
    by_switches_ask(&set->trees->switches, tree);
  look_soon(set->trees);
}

static void acquire_all(struct by_trees *trees) {
  struct by_tree_set *set;
  trees->cells_until = 0;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state == BY_SET_WAITING) acquire(set);
  }
}

/* Requests memory from the manager, unless the grant came with the plan, or no answer is expected. Pending requests of
 * other sets are repeated. */
static void request(struct by_tree_set *set) {
  struct by_trees *trees = set->trees;
  if (set->number) {
    acquire(set);
    return;
  }
  by_tree_set_go(set, BY_SET_WAITING);
  if (report(trees) && trees->events->may_answer(trees->events->context)) {
    trees->cells_until = by_loop_now(by_job_loop(trees->peers->job)) + MANAGER_MS * BY_MILLISECOND;
    look_soon(trees);
  } else {
    acquire_all(trees);
  }
}

/* Continues with a set once all ends have ports, so that their addresses are known. */
static void opened(struct by_tree_set *set) {
  if (by_tree_set_find_addresses(set) == BANYAN_OK)
    request(set);
  else
    fail(set);
}

static void open(struct by_tree_set *set) {
  if (!by_tree_set_lacks_ports(set)) {
    opened(set);
    return;
  }
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!by_job_members(set->trees->peers->job)[set->ends[i].process].udp_port)
      ask_end(set->trees, set->ends[i].process, BY_TREE_OPEN, 0);
}

/* ---- giving the ends their parts */

static enum banyan_status check_settled(const struct by_in_network_tree *tree) {
  char text[400];
  if (!by_switches_lack(tree, text, sizeof text)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "tree \"%s\" cannot be set up: %s", tree->tree->server_name, text);
}

/* Sends settled trees to their ends. If all trees are required, none is sent before all are settled. Otherwise each is
 * sent as soon as it is settled, and calls in progress do without the others. */
static void give_settled(struct by_tree_set *set) {
  enum banyan_status status = BANYAN_OK;
  bool awaited = false;
  for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree)) {
    awaited |= tree->stage == BY_TREE_ASKED;
    if (set->together && tree->stage == BY_TREE_SETTLED && status == BANYAN_OK) status = check_settled(tree);
  }
  if (status != BANYAN_OK) {
    fail(set);
    return;
  }
  for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree))
    if (tree->stage == BY_TREE_SETTLED && status == BANYAN_OK && !(set->together && awaited)) status = give(tree);
  if (status != BANYAN_OK)
    fail(set);
  else if (!awaited)
    by_tree_set_go(set, BY_SET_GIVEN);
}

static void settled(void *context, struct by_in_network_tree *tree) {
  (void)tree;
  look_soon(context);
}

/* Returns whether the manager's answer is awaited. */
static bool awaits_cells(struct by_trees *trees) {
  if (!trees->cells_until) return false;
  if (by_loop_now(by_job_loop(trees->peers->job)) < trees->cells_until &&
      trees->events->may_answer(trees->events->context))
    return true;
  by_warn("control", "the manager has not granted this job memory of the switches; it takes what it gets");
  acquire_all(trees);
  return false;
}

static void trees_due(void *argument) {
  struct by_trees *trees = argument;
  bool waiting = awaits_cells(trees);
  waiting |= by_switches_look(&trees->switches);
  struct by_tree_set *set, *next;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state == BY_SET_ACQUIRING) give_settled(set);
    if (set->state == BY_SET_HOPELESS)
      by_plan_switching_have_trees(trees->switching, set->version, set->why ? set->why : "");
  }
  for (set = LIST_FIRST(&trees->sets); set; set = next) {
    next = LIST_NEXT(set, entry);
    if (set->state == BY_SET_OVER) remove_set(set);
  }
  if (waiting) by_loop_set_delay(by_job_loop(trees->peers->job), &trees->due, LOOKS_MS * BY_MILLISECOND);
}

/* ---- the answer of the manager */

static bool fits(const struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n) {
  if (n != trees->n_requests) return false;
  for (uint32_t i = 0; i < n; i++)
    if (trees->requested[i].tree && strcmp(cells[i].at, name_of(&trees->requested[i])) != 0) return false;
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

void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n) {
  if (!trees->cells_until) return;
  if (n > 0 && !fits(trees, cells, n)) {
    by_info("control", "the manager has answered an earlier request for cells: its next answer counts");
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct by_cell_request *one = &trees->requested[i];
    if (!one->tree || one->tree->set->state != BY_SET_WAITING) continue;
    explain(one, cells[i].slots);
    one->tree->parts[one->which].allowed = cells[i].slots;
  }
  for (struct by_in_network_tree *tree = trees->switches.trees; tree; tree = tree->next)
    if (tree->set->state == BY_SET_WAITING) by_tree_set_level(tree);
  acquire_all(trees);
}

/* ---- what the ends report */

static void take_port(struct by_trees *trees, uint32_t process, uint32_t port) {
  by_job_set_udp_port(trees->peers->job, process, port);
  struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state == BY_SET_OPENING && by_tree_set_find_end(set, process) && !by_tree_set_lacks_ports(set))
      opened(set);
  }
}

static void take_ready(struct by_tree_set *set, struct by_set_end *end) {
  if (!end->parts) return;
  end->parts--;
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (set->ends[i].parts) return;
  if (set->state != BY_SET_GIVEN) return;
  by_tree_set_go(set, BY_SET_READY);
  if (set->together) by_plan_switching_have_trees(set->trees->switching, set->version, NULL);
}

/* Handles the report of an end that has no port, or could not be attached. */
static void take_refusal(struct by_trees *trees, uint32_t process, const struct by_tree_report *report) {
  const char *name = by_job_name(trees->peers->job, process);
  struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    bool affected = report->version ? set->version == report->version : set->state == BY_SET_OPENING;
    if (!affected || set->state > BY_SET_ENDING || !by_tree_set_find_end(set, process)) continue;
    (void)by_fail(BANYAN_ERR_CONNECT, "%s: %s", name, report->text);
    if (!report->version || (set->together && set->state < BY_SET_READY))
      fail(set);
    else if (by_tree_set_find_end(set, report->server) && by_control_peers_is_helper(trees->peers, report->server))
      by_deaths_lose(trees->deaths, report->server, banyan_error_text());
  }
}

void by_trees_take_report(void *argument, uint32_t process, const struct by_tree_report *report) {
  struct by_trees *trees = argument;
  struct by_tree_set *set = find_set(trees, report->version);
  struct by_set_end *end = set ? by_tree_set_find_end(set, process) : NULL;
  if (report->kind == BY_TREE_AT && report->port) {
    take_port(trees, process, report->port);
  } else if (report->kind == BY_TREE_REFUSED) {
    take_refusal(trees, process, report);
  } else if (end && report->kind == BY_TREE_READY) {
    take_ready(set, end);
  } else if (end && report->kind == BY_TREE_UNUSED) {
    end->unused = true;
    end_if_unused(set);
  }
}

void by_trees_handle(void *argument, const struct by_received *received) {
  struct by_tree_report report;
  if (by_tree_report_read(received->payload, received->length, &report) == BANYAN_OK)
    by_trees_take_report(argument, (uint32_t)received->peer->rank, &report);
  else
    by_warn("control", "%s: malformed report about in-network trees; ignored",
            by_stream_get_name(received->peer->stream));
}

/* ---- those that are gone */

void by_trees_lost(struct by_trees *trees, uint32_t process) {
  bool dropped = false;
  struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    struct by_set_end *end = by_tree_set_find_end(set, process);
    if (!end) continue;
    for (struct by_in_network_tree *tree = by_tree_set_first(set); tree; tree = by_tree_set_next(tree)) {
      by_switches_lose(tree, process);
      if (tree->ends.server != process) continue;
      by_switches_drop(tree);
      tree->stage = BY_TREE_OVER;
      dropped = true;
    }
    end->unused = true;
    end_if_unused(set);
  }
  if (dropped) changed(trees);
}

void by_trees_fail(struct by_trees *trees) {
  struct by_tree_set *set;
  trees->cells_until = 0;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state != BY_SET_OVER) drop(set);
  }
}

/* ---- beginning */

/* Adds a set and its list of trees to the others. */
static enum banyan_status add_set(struct by_trees *trees, struct by_tree_set *set, struct by_in_network_tree *list,
                                  const struct by_tree_grants *grants) {
  enum banyan_status status = BANYAN_OK;
  set->trees = trees;
  by_timer_init(&set->late, too_late, set);
  for (struct by_in_network_tree *tree = list, *next; tree; tree = next) {
    next = tree->next;
    tree->next = trees->switches.trees;
    trees->switches.trees = tree;
    if (status == BANYAN_OK) status = by_switches_choose_numbers(&trees->switches, tree);
    if (status == BANYAN_OK)
      status =
          by_switches_find(&trees->switches, tree, grants ? grants->switches : NULL, grants ? grants->n_switches : 0);
  }
  LIST_INSERT_HEAD(&trees->sets, set, entry);
  return status;
}

/* A set that another thread has made. */
struct beginning {
  struct by_trees *trees;
  struct by_tree_set *set;
  struct by_in_network_tree *list;
};

static void begin(void *argument) {
  struct beginning *beginning = argument;
  struct by_tree_set *set = beginning->set;
  if (add_set(beginning->trees, set, beginning->list, NULL) == BANYAN_OK)
    open(set);
  else
    fail(set);
  free(beginning);
}

/* Declares the servers of trees lost that cannot be set up: ranks wait until they are notified of that. */
static void give_up(struct by_trees *trees, const struct by_plan *plan, const uint32_t *helpers) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++)
    if (plan->vertices[v].kind == BY_VERTEX_SERVER && helpers[v - plan->n_ranks] != UINT32_MAX)
      (void)by_deaths_post_suspicion(trees->deaths, helpers[v - plan->n_ranks], text);
}

void by_trees_begin(struct by_trees *trees, const struct by_plan *plan, const uint32_t *processes,
                    const uint32_t *helpers, uint32_t version) {
  struct by_tree_wanted wanted = {.version = version, .plan = plan, .processes = processes, .helpers = helpers};
  struct beginning *beginning = calloc(1, sizeof *beginning);
  enum banyan_status status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees through switches");
  if (beginning) beginning->trees = trees;
  if (beginning) status = by_tree_set_make(&trees->switches, &wanted, false, &beginning->list, &beginning->set);
  if (status == BANYAN_OK && by_loop_post(by_job_loop(trees->peers->job), begin, beginning) == BANYAN_OK) return;
  give_up(trees, plan, helpers);
  if (status == BANYAN_OK) {
    by_tree_set_free_list(beginning->list);
    by_tree_set_destroy(beginning->set);
  }
  free(beginning);
}

enum banyan_status by_trees_prepare(void *argument, const struct by_tree_wanted *wanted) {
  struct by_trees *trees = argument;
  struct by_in_network_tree *list = NULL;
  struct by_tree_set *set = NULL;
  BY_TRY(by_tree_set_make(&trees->switches, wanted, true, &list, &set));
  enum banyan_status status = add_set(trees, set, list, wanted->grants);
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (status == BANYAN_OK && is_server(set, &set->ends[i]) &&
        by_control_peers_has_lost(trees->peers, set->ends[i].process))
      status =
          by_fail(BANYAN_ERR_PEER_DEAD, "its server %s is lost", by_job_name(trees->peers->job, set->ends[i].process));
  if (status != BANYAN_OK) {
    remove_set(set);
    return status;
  }
  open(set);
  return BANYAN_OK;
}

void by_trees_withdraw(void *argument, uint32_t version) {
  struct by_trees *trees = argument;
  struct by_tree_set *set = find_set(trees, version);
  if (!set) return;
  ask_all_ends(set);
  drop(set);
  if (set->number && set->number <= trees->released) report_released(trees); /* Later reports waited for it. */
}

void by_trees_init(struct by_trees *trees, struct by_control *control) {
  *trees = (struct by_trees){.peers = by_control_get_peers(control),
                             .deaths = by_control_get_deaths(control),
                             .switching = by_control_get_plan_switching(control),
                             .events = by_control_get_events(control),
                             .control = control};
  trees->switches = (struct by_switches){.job = trees->peers->job, .events = {settled, changed, trees}};
  LIST_INIT(&trees->sets);
  by_timer_init(&trees->due, trees_due, trees);
}

void by_trees_fini(struct by_trees *trees) {
  by_loop_cancel_timer(&trees->due);
  by_switches_fini(&trees->switches);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&trees->sets)) remove_set(LIST_FIRST(&trees->sets));
  free(trees->requested);
}
