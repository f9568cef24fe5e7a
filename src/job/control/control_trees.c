#include "control_trees.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "cluster_message.h"
#include "log.h"

enum { IPV4_MTU = 1500, MESSAGE_MOST = 16 << 10, LOOKS_MS = 10, MANAGER_MS = 5000 };

/* How far a set is. set_state alone changes it, from one to the next:
 *
 *   OPENING   -> WAITING     all ends have a UDP port; the manager is asked for memory of switches
 *   OPENING   -> ACQUIRING   or need not be asked: switches are asked
 *   WAITING   -> ACQUIRING   the manager has answered, or is late
 *   ACQUIRING -> GIVEN       the ends are sent their parts
 *   GIVEN     -> READY       and have them
 *
 * From each of the last three to ENDING: no worker uses it any more, and its servers are to forget it. From each of the
 * first four to HOPELESS: its plan is not to be proposed. From all to OVER: it is to be freed. */
enum set_state { OPENING, WAITING, ACQUIRING, GIVEN, READY, ENDING, HOPELESS, OVER, STATES };

/* A process that is an end of one or several of a set's trees. */
struct end {
  uint32_t process;
  uint32_t parts; /* that it has been sent and has not reported as ready */
  bool unused;    /* it uses the set no more, or is gone */
};

/* The trees of one plan. */
struct by_tree_set {
  LIST_ENTRY(by_tree_set) entry;
  struct by_trees *trees;
  uint32_t version;
  uint64_t number; /* of the manager's plan; 0: it is not a manager's */
  enum set_state state;
  bool together; /* for a plan that is to be proposed: all or nothing */
  char *why;     /* it has failed */
  struct by_timer late;
  uint32_t n_ends;
  struct end *ends; /* each once */
};

/* ---- sets and trees */

static void set_state(struct by_tree_set *set, enum set_state state) {
  static const unsigned next[STATES] = {[OPENING] = 1u << WAITING | 1u << ACQUIRING | 1u << HOPELESS,
                                        [WAITING] = 1u << ACQUIRING | 1u << HOPELESS,
                                        [ACQUIRING] = 1u << GIVEN | 1u << ENDING | 1u << HOPELESS,
                                        [GIVEN] = 1u << READY | 1u << ENDING | 1u << HOPELESS,
                                        [READY] = 1u << ENDING};
  static const char *const names[] = {"opening", "waiting", "acquiring", "given",
                                      "ready",   "ending",  "hopeless",  "over"};
  assert(state == OVER || next[set->state] >> state & 1);
  by_debug("control", "in-network trees of version %u: %s -> %s", set->version, names[set->state], names[state]);
  set->state = state;
}

static struct by_control_tree *find_of(const struct by_tree_set *set, struct by_control_tree *from) {
  while (from && from->set != set) from = from->next;
  return from;
}

/* The trees of a set. */
static struct by_control_tree *first_of(const struct by_tree_set *set) {
  return find_of(set, set->trees->switches.trees);
}

static struct by_control_tree *next_of(const struct by_control_tree *tree) {
  return find_of(tree->set, tree->next);
}

/* One that is over is not there any more. */
static struct by_tree_set *find_set(const struct by_trees *trees, uint32_t version) {
  struct by_tree_set *set = LIST_FIRST(&trees->sets);
  while (set && (set->version != version || set->state == OVER)) set = LIST_NEXT(set, entry);
  return set;
}

static struct end *find_end(const struct by_tree_set *set, uint32_t process) {
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (set->ends[i].process == process) return &set->ends[i];
  return NULL;
}

static void free_tree(struct by_control_tree *tree) {
  by_switched_tree_destroy(tree->tree);
  free(tree->answers);
  free(tree->parts);
  free(tree);
}

static void free_trees(struct by_control_tree *trees) {
  for (struct by_control_tree *next; trees; trees = next) {
    next = trees->next;
    free_tree(trees);
  }
}

static void free_set(struct by_tree_set *set) {
  by_loop_cancel_timer(&set->late);
  for (struct by_control_tree **place = &set->trees->switches.trees; *place;) {
    struct by_control_tree *tree = *place;
    if (tree->set != set) {
      place = &tree->next;
      continue;
    }
    *place = tree->next;
    free_tree(tree);
  }
  LIST_REMOVE(set, entry);
  free(set->ends);
  free(set->why);
  free(set);
}

static void look_soon(struct by_trees *trees) {
  by_loop_set_delay(trees->peers->job->loop, &trees->due, 0);
}

/* ---- where the ends are */

static const struct by_member *member_of(const struct by_control_tree *tree, uint32_t process) {
  return &tree->set->trees->peers->job->members[process];
}

/* The server's number among the ends is 0, behind it come the workers. */
static uint32_t process_of(const struct by_control_tree *tree, uint32_t end) {
  return end ? tree->processes[end - 1] : tree->ends.server;
}

/* All ends on one machine: by its loopback interface. */
static bool is_inside(const struct by_control_tree *tree) {
  for (uint32_t e = 1; e <= tree->tree->n_workers; e++)
    if (strcmp(member_of(tree, process_of(tree, e))->machine, member_of(tree, process_of(tree, 0))->machine) != 0)
      return false;
  return true;
}

static enum banyan_status find_address(const struct by_member *member, bool inside, struct by_address *out) {
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
  for (uint32_t e = 0; e <= tree->tree->n_workers; e++) {
    const struct by_member *member = member_of(tree, process_of(tree, e));
    BY_TRY(find_address(member, inside, e ? &tree->ends.workers[e - 1] : &tree->ends.at));
    if (!inside) mtu = MIN(mtu, member->mtu ? member->mtu : IPV4_MTU);
  }
  tree->ends.lines = by_tree_lines(mtu);
  tree->ends.exact = strcmp(tree->set->trees->peers->job->settings.sums, "float32") == 0;
  return BANYAN_OK;
}

/* ---- sending */

static enum banyan_status send_to(const struct by_trees *trees, uint32_t process, uint16_t type, const void *bytes,
                                  size_t length) {
  if (process == trees->peers->job->rank) {
    trees->to_self(trees->context, &(struct by_received){.type = type, .payload = bytes, .length = length});
    return BANYAN_OK;
  }
  const struct by_control_peer *peer = trees->peers->of_process[process];
  if (!peer) return by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone", process);
  return by_stream_send(peer->stream, type, bytes, length);
}

/* One that is gone needs none. */
static void ask_end(const struct by_trees *trees, uint32_t process, enum by_tree_ask_kind kind, uint32_t version) {
  uint8_t bytes[16];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_ask_write(&writer, &(struct by_tree_ask){kind, version});
  if (send_to(trees, process, TREE_ASK, bytes, writer.length) != BANYAN_OK)
    by_debug("control", "process %u is asked nothing about trees: %s", process, banyan_error_text());
}

static enum banyan_status send_part(struct by_control_tree *tree, uint32_t worker, uint32_t process) {
  struct by_tree_message message;
  struct by_writer writer;
  uint8_t bytes[MESSAGE_MOST];
  by_tree_describe(tree->tree, &tree->ends, tree->answers, worker, &message);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_message_write(&writer, &message);
  struct end *end = find_end(tree->set, process);
  if (end) end->parts++;
  return send_to(tree->set->trees, process, TREE, bytes, writer.length);
}

static enum banyan_status give(struct by_control_tree *tree) {
  tree->stage = BY_TREE_GIVEN;
  BY_TRY(send_part(tree, BY_TREE_FOR_SERVER, tree->ends.server));
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) BY_TRY(send_part(tree, w, tree->processes[w]));
  return BANYAN_OK;
}

/* ---- what the manager is sent */

static const char *name_of(const struct by_cell_request *one) {
  return one->tree->tree->switches[one->which].name;
}

static bool requests(const struct by_control_tree *tree, uint32_t which) {
  return !tree->set->number && tree->set->state >= WAITING && tree->stage < BY_TREE_OVER &&
         tree->tree->switches[which].adds;
}

/* Of all trees of sets that are not the manager's, each switch that is to add. */
static void list(struct by_trees *trees) {
  uint32_t most = 1;
  free(trees->requested);
  trees->n_requests = 0;
  for (const struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next)
    most += tree->tree->n_switches;
  trees->requested = calloc(most, sizeof *trees->requested);
  for (struct by_control_tree *tree = trees->switches.trees; tree && trees->requested; tree = tree->next)
    for (uint32_t s = 0; s < tree->tree->n_switches; s++)
      if (requests(tree, s)) trees->requested[trees->n_requests++] = (struct by_cell_request){tree, s};
}

static struct by_cluster_cells describe(const struct by_cell_request *one) {
  const struct by_control_tree *tree = one->tree;
  assert(tree);
  const struct by_tree_answer *answer = &tree->answers[one->which];
  return (struct by_cluster_cells){.at = name_of(one),
                                   .server = member_of(tree, tree->ends.server)->host,
                                   .slots = BY_TREE_WANTED,
                                   .bytes = BY_RESERVATION_SLOT_BYTES,
                                   .has = tree->stage >= BY_TREE_SETTLED,
                                   .given = answer->granted ? answer->what.slots : 0};
}

/* False: there is nothing to report, or no manager. */
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

/* What is granted has changed, and is no request. */
static void changed(void *context) {
  struct by_trees *trees = context;
  if (!trees->cells_until) (void)report(trees);
}

/* ---- the end of sets */

/* Cells of earlier plans are free again, too, when this is sent. */
static void report_released(struct by_trees *trees) {
  const struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state != OVER && set->number && set->number <= trees->released) return;
  }
  trees->events->released(trees->events->context, trees->released);
}

static void drop_cells(struct by_tree_set *set) {
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree)) {
    by_switches_drop(tree);
    tree->stage = BY_TREE_OVER;
  }
}

/* It is freed when nothing that is under way refers to it. */
static void drop(struct by_tree_set *set) {
  drop_cells(set);
  set_state(set, OVER);
  changed(set->trees);
  look_soon(set->trees);
}

/* All its ends have forgotten it. */
static void release(struct by_tree_set *set) {
  struct by_trees *trees = set->trees;
  by_info("control", "in-network trees of version %u are not used any more: their cells are given back", set->version);
  drop(set);
  if (!set->number) return;
  trees->released = MAX(trees->released, set->number);
  report_released(trees);
}

static bool is_server(const struct by_tree_set *set, const struct end *end) {
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

/* What follows from an end that does not use it any more. */
static void end_if_unused(struct by_tree_set *set) {
  if (set->state < ACQUIRING || set->state > ENDING || !are_unused(set, false)) return;
  if (set->state != ENDING) {
    set_state(set, ENDING);
    ask_all_ends(set);
    by_loop_set_delay(set->trees->peers->job->loop, &set->late, SILENCE_MS * BY_MILLISECOND);
  }
  if (are_unused(set, true)) release(set);
}

/* A server is silent that is to forget its trees. */
static void too_late(void *argument) {
  struct by_tree_set *set = argument;
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!set->ends[i].unused && is_server(set, &set->ends[i]))
      by_deaths_lose_silent(set->trees->deaths, set->ends[i].process);
}

/* What its trees need cannot be had: calls go among ranks, or the plan is not proposed, which the plan switch is
 * notified of later. */
static void fail(struct by_tree_set *set) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  if (set->together) {
    set->why = strdup(text);
    set_state(set, HOPELESS);
    look_soon(set->trees);
    return;
  }
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (is_server(set, &set->ends[i])) by_deaths_lose(set->trees->deaths, set->ends[i].process, text);
}

/* ---- acquiring */

static void acquire(struct by_tree_set *set) {
  set_state(set, ACQUIRING);
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree))
    by_switches_ask(&set->trees->switches, tree);
  look_soon(set->trees);
}

static void acquire_all(struct by_trees *trees) {
  struct by_tree_set *set;
  trees->cells_until = 0;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state == WAITING) acquire(set);
  }
}

/* The manager is asked, unless it has said it with the plan, or no answer is to be expected. What others wait for is
 * asked for anew. */
static void request(struct by_tree_set *set) {
  struct by_trees *trees = set->trees;
  if (set->number) {
    acquire(set);
    return;
  }
  set_state(set, WAITING);
  if (report(trees) && trees->events->may_answer(trees->events->context)) {
    trees->cells_until = by_loop_now(trees->peers->job->loop) + MANAGER_MS * BY_MILLISECOND;
    look_soon(trees);
  } else {
    acquire_all(trees);
  }
}

/* All ends have ports, so that their addresses are known. */
static void opened(struct by_tree_set *set) {
  enum banyan_status status = BANYAN_OK;
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree))
    if (status == BANYAN_OK) status = find_ends(tree);
  if (status == BANYAN_OK)
    request(set);
  else
    fail(set);
}

static bool lacks_ports(const struct by_tree_set *set) {
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!set->trees->peers->job->members[set->ends[i].process].udp_port) return true;
  return false;
}

static void open(struct by_tree_set *set) {
  if (!lacks_ports(set)) {
    opened(set);
    return;
  }
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (!set->trees->peers->job->members[set->ends[i].process].udp_port)
      ask_end(set->trees, set->ends[i].process, BY_TREE_OPEN, 0);
}

/* ---- giving the ends their parts */

static enum banyan_status check_settled(const struct by_control_tree *tree) {
  char text[400];
  if (!by_switches_lack(tree, text, sizeof text)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "tree \"%s\" cannot be set up: %s", tree->tree->server_name, text);
}

/* Where all have to be there, none is given before. Else each is given when it is settled, and what is under way goes
 * on without one that is not. */
static void give_settled(struct by_tree_set *set) {
  enum banyan_status status = BANYAN_OK;
  bool awaited = false;
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree)) {
    awaited |= tree->stage == BY_TREE_ASKED;
    if (set->together && tree->stage == BY_TREE_SETTLED && status == BANYAN_OK) status = check_settled(tree);
  }
  if (status != BANYAN_OK) {
    fail(set);
    return;
  }
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree))
    if (tree->stage == BY_TREE_SETTLED && status == BANYAN_OK && !(set->together && awaited)) status = give(tree);
  if (status != BANYAN_OK)
    fail(set);
  else if (!awaited)
    set_state(set, GIVEN);
}

static void settled(void *context, struct by_control_tree *tree) {
  (void)tree;
  look_soon(context);
}

/* While the manager's answer is awaited. */
static bool awaits_cells(struct by_trees *trees) {
  if (!trees->cells_until) return false;
  if (by_loop_now(trees->peers->job->loop) < trees->cells_until && trees->events->may_answer(trees->events->context))
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
    if (set->state == ACQUIRING) give_settled(set);
    if (set->state == HOPELESS) by_plan_switching_have_trees(trees->switching, set->version, set->why ? set->why : "");
  }
  for (set = LIST_FIRST(&trees->sets); set; set = next) {
    next = LIST_NEXT(set, entry);
    if (set->state == OVER) free_set(set);
  }
  if (waiting) by_loop_set_delay(trees->peers->job->loop, &trees->due, LOOKS_MS * BY_MILLISECOND);
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
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    struct by_tree_part *part = &tree->parts[s];
    part->allowed = part->allowed >= BY_TREE_WORTHWHILE ? least : 0;
    part->least = tree->set->number ? part->allowed : MIN(part->allowed, BY_TREE_WORTHWHILE);
  }
}

void by_trees_handle_cells(struct by_trees *trees, const struct by_cluster_cells *cells, uint32_t n) {
  if (!trees->cells_until) return;
  if (n > 0 && !fits(trees, cells, n)) {
    by_warn("control", "the manager grants cells that were not requested; ignored");
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct by_cell_request *one = &trees->requested[i];
    if (one->tree->set->state != WAITING) continue;
    explain(one, cells[i].slots);
    one->tree->parts[one->which].allowed = cells[i].slots;
  }
  for (struct by_control_tree *tree = trees->switches.trees; tree; tree = tree->next)
    if (tree->set->state == WAITING) level(tree);
  acquire_all(trees);
}

/* ---- what the ends report */

static void take_port(struct by_trees *trees, uint32_t process, uint32_t port) {
  struct by_job *job = trees->peers->job;
  by_job_lock(job);
  job->members[process].udp_port = port;
  by_job_unlock(job);
  struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    if (set->state == OPENING && find_end(set, process) && !lacks_ports(set)) opened(set);
  }
}

static void take_ready(struct by_tree_set *set, struct end *end) {
  if (!end->parts) return;
  end->parts--;
  for (uint32_t i = 0; i < set->n_ends; i++)
    if (set->ends[i].parts) return;
  if (set->state != GIVEN) return;
  set_state(set, READY);
  if (set->together) by_plan_switching_have_trees(set->trees->switching, set->version, NULL);
}

/* It has no port, or not its part. */
static void take_refusal(struct by_trees *trees, uint32_t process, const struct by_tree_report *report) {
  const char *name = by_job_name(trees->peers->job, process);
  struct by_tree_set *set;
  LIST_FOREACH(set, &trees->sets, entry) {
    bool affected = report->version ? set->version == report->version : set->state == OPENING;
    if (!affected || set->state > ENDING || !find_end(set, process)) continue;
    (void)by_fail(BANYAN_ERR_CONNECT, "%s: %s", name, report->text);
    if (!report->version || (set->together && set->state < READY))
      fail(set);
    else if (find_end(set, report->server) && by_control_peers_is_helper(trees->peers, report->server))
      by_deaths_lose(trees->deaths, report->server, banyan_error_text());
  }
}

void by_trees_take_report(void *argument, uint32_t process, const struct by_tree_report *report) {
  struct by_trees *trees = argument;
  struct by_tree_set *set = find_set(trees, report->version);
  struct end *end = set ? find_end(set, process) : NULL;
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
    struct end *end = find_end(set, process);
    if (!end) continue;
    for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree)) {
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
    if (set->state != OVER) drop(set);
  }
}

/* ---- beginning */

static uint32_t granted_slots(const struct by_tree_grants *grants, const char *server, const char *at) {
  for (uint32_t i = 0; i < grants->n_cells; i++)
    if (!strcmp(grants->cells[i].at, at) && grants->cells[i].server && !strcmp(grants->cells[i].server, server))
      return grants->cells[i].slots;
  return 0;
}

static enum banyan_status make(struct by_tree_set *set, const struct by_tree_wanted *wanted, uint32_t class_,
                               uint32_t group, struct by_control_tree *tree) {
  const struct by_plan *plan = wanted->plan;
  tree->set = set;
  tree->together = set->together;
  BY_TRY(by_switched_tree_make(plan, class_, group, &tree->tree));
  BY_TRY(by_switches_choose_numbers(tree));
  size_t n = tree->tree->n_switches + 1;
  tree->answers = calloc(n, sizeof *tree->answers);
  tree->parts = calloc(n, sizeof *tree->parts);
  if (!tree->answers || !tree->parts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  tree->ends.version = set->version;
  tree->ends.server = wanted->helpers[tree->tree->server - plan->n_ranks];
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) tree->processes[w] = wanted->processes[tree->tree->workers[w]];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    tree->parts[s].allowed = wanted->grants
                                 ? granted_slots(wanted->grants, tree->tree->server_name, tree->tree->switches[s].name)
                                 : BY_TREE_WANTED;
  level(tree);
  return BANYAN_OK;
}

/* Classes may have the same tree, which is set up once. */
static bool is_listed(const struct by_control_tree *list, uint32_t server) {
  while (list && list->tree->server != server) list = list->next;
  return list;
}

static enum banyan_status add_end(struct by_tree_set *set, uint32_t process) {
  if (find_end(set, process)) return BANYAN_OK;
  struct end *longer = realloc(set->ends, (set->n_ends + 1) * sizeof *longer);
  if (!longer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  set->ends = longer;
  set->ends[set->n_ends++] = (struct end){.process = process};
  return BANYAN_OK;
}

static enum banyan_status add_tree(struct by_tree_set *set, const struct by_tree_wanted *wanted, uint32_t class_,
                                   uint32_t group, struct by_control_tree **list) {
  struct by_control_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  enum banyan_status status = make(set, wanted, class_, group, tree);
  if (status == BANYAN_OK) status = add_end(set, tree->ends.server);
  for (uint32_t w = 0; status == BANYAN_OK && w < tree->tree->n_workers; w++) status = add_end(set, tree->processes[w]);
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
                                    struct by_control_tree **list) {
  const struct by_plan *plan = wanted->plan;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      if (has_server(wanted, group) && !is_listed(*list, group->order[group->root]))
        BY_TRY(add_tree(set, wanted, c, g, list));
    }
  return BANYAN_OK;
}

static enum banyan_status make_set(struct by_trees *trees, const struct by_tree_wanted *wanted, bool together,
                                   struct by_control_tree **list, struct by_tree_set **out) {
  struct by_tree_set *set = calloc(1, sizeof *set);
  if (!set) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees through switches");
  *set = (struct by_tree_set){.trees = trees,
                              .version = wanted->version,
                              .number = wanted->grants ? wanted->grants->number : 0,
                              .together = together};
  by_timer_init(&set->late, too_late, set);
  enum banyan_status status = add_trees(set, wanted, list);
  if (status == BANYAN_OK) {
    *out = set;
    return BANYAN_OK;
  }
  free_trees(*list);
  free(set->ends);
  free(set);
  return status;
}

/* Adds a set and its list of trees to the others. */
static enum banyan_status add_set(struct by_tree_set *set, struct by_control_tree *list,
                                  const struct by_tree_grants *grants) {
  struct by_trees *trees = set->trees;
  enum banyan_status status = BANYAN_OK;
  for (struct by_control_tree *tree = list, *next; tree; tree = next) {
    next = tree->next;
    tree->next = trees->switches.trees;
    trees->switches.trees = tree;
    if (status == BANYAN_OK)
      status =
          by_switches_find(&trees->switches, tree, grants ? grants->switches : NULL, grants ? grants->n_switches : 0);
  }
  LIST_INSERT_HEAD(&trees->sets, set, entry);
  return status;
}

/* A set that comes from another thread. */
struct beginning {
  struct by_tree_set *set;
  struct by_control_tree *list;
};

static void begin(void *argument) {
  struct beginning *beginning = argument;
  struct by_tree_set *set = beginning->set;
  if (add_set(set, beginning->list, NULL) == BANYAN_OK)
    open(set);
  else
    fail(set);
  free(beginning);
}

/* Ranks wait for trees that cannot be set up, until they are notified that these servers are lost. */
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
  if (beginning) status = make_set(trees, &wanted, false, &beginning->list, &beginning->set);
  if (status == BANYAN_OK && by_loop_post(trees->peers->job->loop, begin, beginning) == BANYAN_OK) return;
  give_up(trees, plan, helpers);
  if (status == BANYAN_OK) {
    free_trees(beginning->list);
    free(beginning->set->ends);
    free(beginning->set);
  }
  free(beginning);
}

enum banyan_status by_trees_prepare(void *argument, const struct by_tree_wanted *wanted) {
  struct by_trees *trees = argument;
  struct by_control_tree *list = NULL;
  struct by_tree_set *set = NULL;
  BY_TRY(make_set(trees, wanted, true, &list, &set));
  enum banyan_status status = add_set(set, list, wanted->grants);
  for (struct by_control_tree *tree = first_of(set); tree; tree = next_of(tree))
    if (status == BANYAN_OK && by_control_peers_has_lost(trees->peers, tree->ends.server))
      status = by_fail(BANYAN_ERR_PEER_DEAD, "its server \"%s\" is lost", tree->tree->server_name);
  if (status != BANYAN_OK) {
    free_set(set);
    return status;
  }
  open(set);
  return BANYAN_OK;
}

void by_trees_withdraw(void *argument, uint32_t version) {
  struct by_tree_set *set = find_set(argument, version);
  if (!set) return;
  ask_all_ends(set);
  drop(set);
}

void by_trees_init(struct by_trees *trees, struct by_deaths *deaths, struct by_plan_switching *switching,
                   const struct by_control_events *events,
                   void (*to_self)(void *context, const struct by_received *message), void *context) {
  *trees = (struct by_trees){.peers = deaths->peers,
                             .deaths = deaths,
                             .switching = switching,
                             .events = events,
                             .to_self = to_self,
                             .context = context};
  trees->switches = (struct by_switches){.job = deaths->peers->job, .events = {settled, changed, trees}};
  LIST_INIT(&trees->sets);
  by_timer_init(&trees->due, trees_due, trees);
}

void by_trees_fini(struct by_trees *trees) {
  by_loop_cancel_timer(&trees->due);
  by_switches_fini(&trees->switches);
  free(trees->requested);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&trees->sets)) free_set(LIST_FIRST(&trees->sets));
}
