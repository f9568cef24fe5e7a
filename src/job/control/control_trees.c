/* Trees through switches at rank 0: what their ends have said when they joined, and what switches grant, becomes what
 * each end must know. Calls wait for that; switches that do not answer in time have no part. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "control_trees.h"
#include "log.h"

enum { IPV4_MTU = 1500, WORD_MOST = 16 << 10 };

static void free_tree(struct by_control_tree *tree) {
  by_switched_tree_destroy(tree->tree);
  free(tree->answers);
  free(tree->asked);
  free(tree->refused);
  free(tree->allowed);
  free(tree);
}

void by_control_forget_trees(struct by_control *control) {
  by_control_forget_switches(control);
  free(control->wished);
  while (control->trees) {
    struct by_control_tree *tree = control->trees;
    control->trees = tree->next;
    free_tree(tree);
  }
}

/* ---- where the ends are */

static const struct by_member *server_of(const struct by_control_tree *tree) {
  return &tree->control->job->members[tree->ends.server];
}

static const struct by_member *worker_of(const struct by_control_tree *tree, uint32_t worker) {
  return &tree->control->job->members[tree->processes[worker]];
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

static void narrow(uint32_t *mtu, const struct by_member *member) {
  uint32_t own = member->mtu ? member->mtu : IPV4_MTU;
  if (own < *mtu) *mtu = own;
}

static enum banyan_status find_ends(struct by_control_tree *tree) {
  bool inside = is_inside(tree);
  uint32_t mtu = UINT16_MAX;
  BY_TRY(find_address(server_of(tree), inside, &tree->ends.at));
  if (!inside) narrow(&mtu, server_of(tree));
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) {
    BY_TRY(find_address(worker_of(tree, w), inside, &tree->ends.workers[w]));
    if (!inside) narrow(&mtu, worker_of(tree, w));
  }
  tree->ends.lines = by_tree_lines(mtu);
  tree->ends.exact = strcmp(tree->control->job->settings.sums, "float32") == 0;
  return BANYAN_OK;
}

/* ---- telling them */

static enum banyan_status tell(struct by_control_tree *tree, uint32_t worker, uint32_t process) {
  struct by_control *control = tree->control;
  struct by_tree_word word;
  struct by_writer writer;
  uint8_t bytes[WORD_MOST];
  by_tree_tell(tree->tree, &tree->ends, tree->answers, worker, &word);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_word_write(&writer, &word);
  if (process == control->job->rank) {
    by_control_heard_word(control, TREE, bytes, writer.length);
    return BANYAN_OK;
  }
  const struct end *end = control->of_rank[process];
  if (!end || end->over) return by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone", process);
  return by_stream_send(end->stream, TREE, bytes, writer.length);
}

void by_control_tell_tree(struct by_control_tree *tree) {
  tree->told = true;
  enum banyan_status status = tell(tree, BY_TREE_FOR_SERVER, tree->ends.server);
  for (uint32_t w = 0; w < tree->tree->n_workers && status == BANYAN_OK; w++)
    status = tell(tree, w, tree->processes[w]);
  if (status != BANYAN_OK) by_control_lose(tree->control, tree->ends.server, banyan_error_text());
}

/* ---- beginning */

static void lose(struct by_control_tree *tree) {
  tree->told = true;
  by_control_lose(tree->control, tree->ends.server, banyan_error_text());
}

void by_control_ask_all(struct by_control *control) {
  for (struct by_control_tree *tree = control->trees; tree; tree = tree->next)
    if (tree->told)
      by_control_ask_switches_again(tree);
    else if (by_control_ask_switches(tree) != BANYAN_OK)
      lose(tree);
}

/* On the loop's thread: a list of trees. */
static void begin(void *context) {
  struct by_control_tree *tree = context;
  struct by_control *control = tree->control;
  for (struct by_control_tree *next; tree; tree = next) {
    next = tree->next;
    tree->next = control->trees;
    control->trees = tree;
    if (find_ends(tree) != BANYAN_OK)
      lose(tree);
    else if (!tree->tree->n_switches)
      by_control_tell_tree(tree);
  }
  if (!by_control_wish(control)) by_control_ask_all(control);
}

enum banyan_status by_control_choose_numbers(struct by_control_tree *tree) {
  struct {
    uint16_t job, key;
    unsigned char secret[BY_TREE_SECRET];
  } random;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no random numbers for a tree through switches");
  tree->ends.job = random.job;
  tree->ends.key = random.key;
  memcpy(tree->ends.secret, random.secret, sizeof tree->ends.secret);
  return BANYAN_OK;
}

static enum banyan_status make(struct by_control *control, const struct by_plan *plan, uint32_t class_, uint32_t group,
                               const uint32_t *processes, const uint32_t *helpers, struct by_control_tree *tree) {
  tree->control = control;
  BY_TRY(by_switched_tree_make(plan, class_, group, &tree->tree));
  BY_TRY(by_control_choose_numbers(tree));
  size_t n = tree->tree->n_switches + 1;
  tree->answers = calloc(n, sizeof *tree->answers);
  tree->asked = calloc(n, sizeof *tree->asked);
  tree->refused = calloc(n, sizeof *tree->refused);
  tree->allowed = calloc(n, sizeof *tree->allowed);
  if (!tree->answers || !tree->asked || !tree->refused || !tree->allowed)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches");
  tree->ends.server = helpers[tree->tree->server - plan->n_ranks];
  for (uint32_t w = 0; w < tree->tree->n_workers; w++) tree->processes[w] = processes[tree->tree->workers[w]];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) tree->allowed[s] = BY_TREE_WANTED;
  return tree->ends.server == UINT32_MAX ? by_fail(BANYAN_ERR_PEER_DEAD, "its server has not come") : BANYAN_OK;
}

/* Ranks wait for a tree that cannot be set up, until they hear that its server is lost. */
static void give_up(struct by_control *control, struct by_control_tree *tree) {
  uint32_t server = tree ? tree->ends.server : 0;
  if (server && server != UINT32_MAX) (void)by_control_suspect(control, server, banyan_error_text());
  if (tree) free_tree(tree);
}

static void add_tree(struct by_control *control, const struct by_plan *plan, uint32_t class_, uint32_t group,
                     const uint32_t *processes, const uint32_t *helpers, struct by_control_tree **trees) {
  struct by_control_tree *tree = calloc(1, sizeof *tree);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (tree) status = make(control, plan, class_, group, processes, helpers, tree);
  if (status != BANYAN_OK) {
    give_up(control, tree);
    return;
  }
  tree->next = *trees;
  *trees = tree;
}

void by_control_begin_trees(struct by_control *control, const struct by_plan *plan, const uint32_t *processes,
                            const uint32_t *helpers) {
  struct by_control_tree *trees = NULL;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_server(plan, &plan->classes[c].groups[g]))
        add_tree(control, plan, c, g, processes, helpers, &trees);
  if (!trees || by_loop_post(control->job->loop, begin, trees) == BANYAN_OK) return;
  for (struct by_control_tree *next; trees; trees = next) {
    next = trees->next;
    give_up(control, trees);
  }
}
