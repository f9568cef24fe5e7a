/* Sets up one tree through switches: the addresses of its ends, the requests to switches, and the messages to ends. */
#include "control_trees.h"

#include <stdio.h>
#include <string.h>
#include <sys/param.h>

enum { IPV4_HEADER = 20, IPV6_HEADER = 40, UDP_HEADER = 8 };
enum { USUAL_MTU = 1500, LEAST_IPV6_MTU = 1280 }; /* For hosts that do not know their MTU. */

uint32_t by_tree_lines(uint32_t mtu, int family) {
  uint32_t headers = (family == AF_INET6 ? IPV6_HEADER : IPV4_HEADER) + UDP_HEADER;
  uint32_t lines = mtu < headers ? 0 : (mtu - headers) / BY_FRAGMENT_LINE;
  if (lines < 2) return 1;
  return lines - 1 < BY_FRAGMENT_LINES ? lines - 1 : BY_FRAGMENT_LINES;
}

/* --- where the ends are --- */

/* Returns whether all ends are on one machine, where they use its loopback interface. */
static bool is_inside(const struct by_tree_end *ends, uint32_t n) {
  for (uint32_t e = 1; e < n; e++)
    if (strcmp(ends[e].member->machine, ends[0].member->machine) != 0) return false;
  return true;
}

/* Finds an end's address of this family that all may reach. False: it has none. */
static bool find_address(const struct by_tree_end *end, int family) {
  const struct by_address *address = by_member_address(end->member, family);
  if (!address) return false;
  *end->at = *address;
  by_address_set_port(end->at, (int)end->member->udp_port);
  return true;
}

/* Returns an end without an address of this family; NULL: all have one. */
static const struct by_member *find_all(const struct by_tree_end *ends, uint32_t n, int family) {
  for (uint32_t e = 0; e < n; e++)
    if (!find_address(&ends[e], family)) return ends[e].member;
  return NULL;
}

/* Chooses the family: packets keep their addresses on the path through switches, so all ends of a tree have addresses
 * of one family. */
static enum banyan_status choose_family(const struct by_tree_end *ends, uint32_t n) {
  const struct by_member *no_ipv4 = find_all(ends, n, AF_INET);
  const struct by_member *no_ipv6 = no_ipv4 ? find_all(ends, n, AF_INET6) : NULL;
  if (!no_ipv4 || !no_ipv6) return BANYAN_OK;
  return by_fail(BANYAN_ERR_CONNECT,
                 "host %s has no IPv4 address, and host %s no IPv6 address that is reached from other links: all hosts "
                 "of a tree through switches need addresses of one kind",
                 no_ipv4->host, no_ipv6->host);
}

static enum banyan_status use_loopback(const struct by_tree_end *ends, uint32_t n) {
  for (uint32_t e = 0; e < n; e++)
    BY_TRY(by_address_parse_host("127.0.0.1", (int)ends[e].member->udp_port, ends[e].at));
  return BANYAN_OK;
}

enum banyan_status by_tree_find_addresses(const struct by_tree_end *ends, uint32_t n, uint32_t *lines) {
  uint32_t mtu = UINT16_MAX;
  bool inside = is_inside(ends, n);
  BY_TRY(inside ? use_loopback(ends, n) : choose_family(ends, n));
  int family = by_address_family(ends[0].at);
  for (uint32_t e = 0; !inside && e < n; e++) {
    uint32_t unknown = family == AF_INET6 ? LEAST_IPV6_MTU : USUAL_MTU;
    mtu = MIN(mtu, ends[e].member->mtu ? ends[e].member->mtu : unknown);
  }
  *lines = by_tree_lines(mtu, family);
  return BANYAN_OK;
}

/* --- what switches are asked for --- */

void by_tree_reservation(const struct by_switched_tree *tree, const struct by_tree_ends *ends, uint32_t which,
                         struct by_reservation *out) {
  const struct by_switched_switch *at = &tree->switches[which];
  *out = (struct by_reservation){.job = ends->job,
                                 .key = ends->key,
                                 .place = (uint8_t)at->place,
                                 .float32 = ends->exact,
                                 .slots = at->adds ? BY_TREE_WANTED : 0,
                                 .server = by_udp_end_of(&ends->at),
                                 .n_below = at->n_below};
  snprintf(out->up, sizeof out->up, "%s", at->up);
  for (uint32_t b = 0; b < at->n_below; b++) {
    struct by_reservation_below *below = &out->below[b];
    snprintf(below->interface, sizeof below->interface, "%s", at->below[b].interface);
    below->is_switch = at->below[b].is_switch;
    below->first = out->n_workers;
    for (uint32_t w = 0; w < at->below[b].n_workers; w++)
      out->workers[out->n_workers++] = by_udp_end_of(&ends->workers[at->below[b].workers[w]]);
    below->n = out->n_workers - below->first;
  }
}

/* --- what ends are sent --- */

static bool merges(const struct by_switched_switch *at, const struct by_tree_answer *answer) {
  return answer->granted && at->adds && answer->what.slots >= BY_TREE_WORTHWHILE;
}

static uint32_t least_slots(const struct by_switched_tree *tree, const struct by_tree_answer *answers) {
  uint32_t slots = BY_TREE_WANTED;
  for (uint32_t s = 0; s < tree->n_switches; s++)
    if (merges(&tree->switches[s], &answers[s]) && answers[s].what.slots < slots) slots = answers[s].what.slots;
  return slots;
}

static bool has(const struct by_switched_below *below, uint32_t worker) {
  uint32_t w = 0;
  while (w < below->n_workers && below->workers[w] < worker) w++;
  return w < below->n_workers && below->workers[w] == worker;
}

static uint8_t port_to(const struct by_switched_switch *at, const struct by_granted *granted, uint32_t worker) {
  for (uint32_t b = 0; b < at->n_below; b++)
    if (has(&at->below[b], worker)) return granted->below[b];
  return 0;
}

/* A tree, and the grants of its switches. */
struct setup {
  const struct by_switched_tree *tree;
  const struct by_tree_answer *answers;
  uint64_t united; /* Groups whose sums are forwarded as those of a group. */
};

/* Decides which groups are summed: if the switch that has a whole group does not add, its terms pass all switches
 * further up. */
static struct setup set_up(const struct by_switched_tree *tree, const struct by_tree_answer *answers) {
  struct setup up = {tree, answers, 0};
  for (uint32_t g = 0; g < tree->groups.n; g++)
    if (by_group_size(&tree->groups, g) == 1) up.united |= 1ull << g;
  for (uint32_t s = 0; s < tree->n_switches; s++)
    if (tree->switches[s].whole && merges(&tree->switches[s], &answers[s]))
      up.united |= 1ull << tree->switches[s].set.group;
  return up;
}

/* Returns the workers that a switch waits for; empty if it does not add. */
static struct by_worker_set set_of(const struct setup *up, uint32_t s) {
  struct by_worker_set set = up->tree->switches[s].set;
  if (!merges(&up->tree->switches[s], &up->answers[s])) return (struct by_worker_set){0};
  if (set.group == BY_FRAGMENT_UNITED) set.workers &= up->united;
  return set;
}

/* Makes a switch's entry, at its place on the path up or down. */
static struct by_hop entry(const struct setup *up, uint32_t s, uint32_t worker, bool down) {
  const struct by_switched_switch *at = &up->tree->switches[s];
  const struct by_granted *granted = &up->answers[s].what;
  struct by_worker_set set = set_of(up, s);
  bool groups = set.group == BY_FRAGMENT_UNITED;
  uint32_t count = by_worker_count(set.workers);
  if (!up->answers[s].granted) return (struct by_hop){0};
  if (down) return (struct by_hop){.port = port_to(at, granted, worker), .workers = count > 0};
  if (groups && !(set.workers >> by_group_of(&up->tree->groups, worker) & 1)) count = 0;
  enum by_hop_kind kind = groups ? BY_HOP_GROUPS : at->whole ? BY_HOP_WHOLE : BY_HOP_WORKERS;
  return (struct by_hop){.port = granted->up, .workers = count ? by_hop_add(kind, count) : 0};
}

/* Returns whether results for all pass every switch above, this one included. */
static bool passes_all(const struct setup *up, uint32_t s) {
  for (; s != BY_SWITCHED_NONE; s = up->tree->switches[s].parent)
    if (!up->answers[s].granted) return false;
  return true;
}

/* Writes the path from or to a worker. Results for one worker do not pass an aggregator. */
static void lay_way(const struct setup *up, uint32_t worker, bool down, struct by_tree_way *way) {
  const struct by_switched_tree *tree = up->tree;
  uint32_t s = tree->first[worker];
  way->via = BY_TREE_ALONE;
  if (s == BY_SWITCHED_NONE || (tree->switches[s].aggregator && (down || !up->answers[s].granted))) return;
  way->hops = tree->switches[s].place + 1;
  for (; s != BY_SWITCHED_NONE; s = tree->switches[s].parent)
    way->stack[tree->switches[s].place] = entry(up, s, worker, down);
}

/* Finds the receivers of results for all: each aggregator, and one worker behind each of the switches next to the
 * server that can copy results for anybody. Workers beyond the maximum get their own. */
static void find_vias(const struct setup *up, const struct by_tree_ends *ends, struct by_tree_message *message) {
  const struct by_switched_tree *tree = up->tree;
  uint32_t tops[BY_FRAGMENT_PORTS] = {0};
  for (uint32_t w = 0; w < tree->n_workers; w++) {
    uint32_t s = tree->first[w], i = 0;
    if (s == BY_SWITCHED_NONE || !passes_all(up, s)) continue;
    while (tree->switches[s].parent != BY_SWITCHED_NONE) s = tree->switches[s].parent;
    while (i < message->n_vias && tops[i] != s) i++;
    if (i == BY_FRAGMENT_PORTS) continue;
    message->ways[w].via = i;
    if (i < message->n_vias) continue;
    bool aggregator = tree->switches[s].aggregator;
    tops[message->n_vias++] = s;
    message->vias[i] = (struct by_tree_via){.address = aggregator ? up->answers[s].at : ends->workers[w],
                                            .aggregator = aggregator ? up->answers[s].aggregator : UINT32_MAX};
  }
}

/* Orders sets: a smaller one before the larger one that contains it, groups last. */
static bool is_before(struct by_worker_set a, struct by_worker_set b) {
  bool groups = a.group == BY_FRAGMENT_UNITED, others = b.group == BY_FRAGMENT_UNITED;
  return groups != others ? others : by_worker_count(a.workers) <= by_worker_count(b.workers);
}

/* Adds a set once. Sets of at least two workers that are pairwise disjoint or nested are fewer than workers. */
static void add_set(struct by_tree_message *message, struct by_worker_set set) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < message->n_sets; i++)
    if (message->sets[i].group == set.group && message->sets[i].workers == set.workers) return;
  while (at < message->n_sets && is_before(message->sets[at], set)) at++;
  memmove(&message->sets[at + 1], &message->sets[at], (message->n_sets++ - at) * sizeof *message->sets);
  message->sets[at] = set;
}

static void begin_message(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                          const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out) {
  *out = (struct by_tree_message){.server = ends->server,
                                  .version = ends->version,
                                  .job = ends->job,
                                  .key = ends->key,
                                  .slots = least_slots(tree, answers),
                                  .lines = ends->lines,
                                  .exact = ends->exact,
                                  .keyed = ends->keyed,
                                  .groups = tree->groups,
                                  .worker = worker};
  memcpy(out->secret, ends->secret, sizeof out->secret);
}

static void describe_worker(const struct setup *up, const struct by_tree_ends *ends, uint32_t worker,
                            struct by_tree_message *out) {
  const struct by_switched_tree *tree = up->tree;
  uint32_t first = tree->first[worker];
  lay_way(up, worker, false, &out->ways[0]);
  out->ways[0].address = ends->at;
  for (uint32_t s = first; s != BY_SWITCHED_NONE; s = tree->switches[s].parent)
    out->below[tree->switches[s].place] = set_of(up, s);
  if (first == BY_SWITCHED_NONE || !tree->switches[first].aggregator || !up->answers[first].granted) return;
  out->vias[out->n_vias++] = (struct by_tree_via){up->answers[first].at, up->answers[first].aggregator};
}

static void describe_server(const struct setup *up, const struct by_tree_ends *ends, struct by_tree_message *out) {
  const struct by_switched_tree *tree = up->tree;
  for (uint32_t w = 0; w < tree->n_workers; w++) {
    lay_way(up, w, true, &out->ways[w]);
    out->ways[w].address = ends->workers[w];
  }
  find_vias(up, ends, out);
  for (uint32_t s = 0; ends->exact && s < tree->n_switches; s++)
    if (by_worker_count(set_of(up, s).workers) > 1) add_set(out, set_of(up, s));
}

void by_tree_describe(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                      const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out) {
  struct setup up = set_up(tree, answers);
  begin_message(tree, ends, answers, worker, out);
  if (worker == BY_TREE_FOR_SERVER)
    describe_server(&up, ends, out);
  else
    describe_worker(&up, ends, worker, out);
}

void by_tree_describe_aggregator(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                                 const struct by_tree_answer *answers, uint32_t which, struct by_tree_message *out) {
  begin_message(tree, ends, answers, BY_TREE_FOR_AGGREGATOR, out);
  out->ways[0] = (struct by_tree_way){.address = ends->at, .via = BY_TREE_ALONE};
  for (uint32_t b = 0; b < tree->switches[which].n_below; b++)
    out->vias[out->n_vias++] =
        (struct by_tree_via){ends->workers[tree->switches[which].below[b].workers[0]], UINT32_MAX};
}
