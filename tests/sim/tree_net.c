#include "tree_net.h"

#include "check.h"
#include "clock.h"
#include "switched_tree.h"

#include <stdlib.h>
#include <string.h>

/* --- packets in the order of their arrival --- */

static bool is_before(const struct net_packet *a, const struct net_packet *b) {
  if (a->time != b->time) return a->time < b->time;
  return a->node != b->node ? a->node < b->node : a->order < b->order;
}

static void push(struct net *net, struct net_packet *packet) {
  if (net->length == net->room) {
    net->room = net->room ? 2 * net->room : 1024;
    net->heap = realloc(net->heap, net->room * sizeof(struct net_packet *));
    net->spare = realloc(net->spare, net->room * sizeof(struct net_packet *));
    if (!net->heap || !net->spare) abort();
  }
  size_t at = net->length++;
  for (; at && is_before(packet, net->heap[(at - 1) / 2]); at = (at - 1) / 2) net->heap[at] = net->heap[(at - 1) / 2];
  net->heap[at] = packet;
}

static struct net_packet *pop(struct net *net) {
  struct net_packet *first = net->heap[0], *last = net->heap[--net->length];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child + 1 < net->length && is_before(net->heap[child + 1], net->heap[child])) child++;
    if (child >= net->length || is_before(last, net->heap[child])) break;
    net->heap[at] = net->heap[child];
    at = child;
  }
  net->heap[at] = last;
  return first;
}

static struct net_packet *take_spare(struct net *net) {
  struct net_packet *packet = net->spares ? net->spare[--net->spares] : aligned_alloc(64, sizeof *packet);
  if (!packet) abort();
  return packet;
}

static void give_back(struct net *net, struct net_packet *packet) {
  if (net->spares < net->room)
    net->spare[net->spares++] = packet;
  else
    free(packet);
}

void net_init(struct net *net, uint64_t seed) {
  by_rng_init(&net->rng, seed);
}

void net_fini(struct net *net) {
  while (net->length) free(pop(net));
  while (net->spares) free(net->spare[--net->spares]);
  for (int s = 0; s < NET_SWITCHES; s++) {
    by_float_sums_fini(&net->float_sums[s]);
    free(net->sums[s]);
    free(net->windows[s]);
  }
  free(net->heap);
  free(net->spare);
}

/* --- positions in the tree --- */

static bool is_below(const struct net *net, int which, int above) {
  while (which != NET_SERVER && which != above) which = net->at[which].above;
  return which == above;
}

/* Ports of a switch: NET_UP, 0 .. NET_SWITCHES - 1 to a switch, and from NET_SWITCHES on to its own workers. */
static uint32_t port_of(const struct net *net, unsigned worker) {
  if (net->worker_at[worker] == NET_SERVER) return 0;
  uint32_t port = NET_SWITCHES;
  for (unsigned w = 0; w < worker; w++) port += net->worker_at[w] == net->worker_at[worker];
  assert_true(port < NET_UP);
  return port;
}

static int node_by(const struct net *net, int which, uint32_t port) {
  if (port < NET_SWITCHES) return (int)port;
  unsigned w = 0;
  for (uint32_t at = NET_SWITCHES; w < net->workers; w++)
    if (net->worker_at[w] == which && at++ == port) break;
  return NET_SWITCHES + (int)w;
}

static uint32_t port_to(const struct net *net, int which, unsigned worker) {
  int at = net->worker_at[worker];
  if (at == which) return port_of(net, worker);
  while (net->at[at].above != which) at = net->at[at].above;
  return (uint32_t)at;
}

static bool has_workers(const struct net *net, int which) {
  for (unsigned w = 0; w < net->workers; w++)
    if (net->worker_at[w] != NET_SERVER && is_below(net, net->worker_at[w], which)) return true;
  return false;
}

/* Groups, and what each switch adds of them. */
static struct by_worker_groups find_groups(const struct net *net, struct by_switched_node *places) {
  struct by_worker_groups groups;
  uint32_t first[NET_WORKERS], number[NET_WORKERS];
  for (unsigned s = 0; s < net->switches; s++)
    places[s] = (struct by_switched_node){.parent = net->at[s].above == NET_SERVER ? BY_SWITCHED_NONE
                                                                                   : (uint32_t)net->at[s].above,
                                          .adds = net->at[s].aggregates};
  for (unsigned w = 0; w < net->workers; w++)
    first[w] = net->worker_at[w] == NET_SERVER ? BY_SWITCHED_NONE : (uint32_t)net->worker_at[w];
  assert_true(by_switched_groups(places, net->switches, first, net->workers, number, &groups));
  for (unsigned w = 0; w < net->workers; w++) assert_int_equal(number[w], w);
  return groups;
}

struct by_worker_groups net_groups(const struct net *net) {
  struct by_switched_node places[NET_SWITCHES];
  return find_groups(net, places);
}

/* Lists a worker's switches, starting at the server. */
static unsigned path_of(const struct net *net, unsigned worker, int *path) {
  unsigned n = 0, at = 0;
  for (int s = net->worker_at[worker]; s != NET_SERVER; s = net->at[s].above) n++;
  for (int s = net->worker_at[worker]; s != NET_SERVER; s = net->at[s].above) path[n - ++at] = s;
  return n;
}

unsigned net_way(const struct net *net, unsigned worker, bool down, struct by_hop *stack) {
  int path[NET_SWITCHES];
  struct by_switched_node places[NET_SWITCHES];
  unsigned n = path_of(net, worker, path);
  if (down && n && net->at[path[0]].off_path) return 0;
  (void)find_groups(net, places);
  for (unsigned i = 0; i < n; i++) {
    const struct by_switched_node *at = &places[path[i]];
    bool groups = at->set.group == BY_FRAGMENT_UNITED;
    enum by_hop_kind kind = groups ? BY_HOP_GROUPS : at->whole ? BY_HOP_WHOLE : BY_HOP_WORKERS;
    uint32_t count = by_worker_count(at->set.workers);
    stack[i] = (struct by_hop){.port = (uint8_t)(down ? port_to(net, path[i], worker) : NET_UP),
                               .workers = count ? by_hop_add(kind, count) : 0};
  }
  return n;
}

void net_below(const struct net *net, unsigned worker, struct by_worker_set *below) {
  int path[NET_SWITCHES];
  struct by_switched_node places[NET_SWITCHES];
  unsigned n = path_of(net, worker, path);
  (void)find_groups(net, places);
  for (unsigned i = 0; i < n; i++) below[i] = places[path[i]].set;
}

/* Returns the number of switches between this one and the server. */
static uint8_t place_of(const struct net *net, int which) {
  uint8_t place = 0;
  for (int s = net->at[which].above; s != NET_SERVER; s = net->at[s].above) place++;
  return place;
}

/* --- links --- */

static bool happens(struct net *net, double share) {
  return share > 0 && by_rng_unit(&net->rng) < share;
}

static void spoil(struct net *net, struct net_packet *packet) {
  for (int i = 0; i < 3; i++)
    packet->data[by_rng_below(&net->rng, packet->bytes)] ^= (unsigned char)(1 << by_rng_below(&net->rng, 8));
}

static void put(struct net *net, const struct net_packet *from, uint64_t time, bool spoiled) {
  struct net_packet *packet = take_spare(net);
  memcpy(packet, from, offsetof(struct net_packet, data));
  memcpy(packet->data, from->data, from->bytes);
  packet->time = time + (happens(net, net->faults.late) ? by_rng_below(&net->rng, 3000000) : 0);
  packet->order = net->order++;
  if (spoiled) spoil(net, packet);
  push(net, packet);
}

/* Acts like a switch's queue: marks packets that wait for long, and drops packets that would wait even longer. */
static void cross(struct net *net, struct net_link *link, struct net_packet *packet) {
  uint64_t begin = link->busy > net->now ? link->busy : net->now;
  net->sent++;
  if (begin - net->now > net->queue || happens(net, net->faults.lost)) return;
  struct by_fragment *head = (struct by_fragment *)(void *)packet->data;
  if (begin - net->now > net->mark) by_fragment_mark(head, packet->bytes, net->hop);
  link->bytes += packet->bytes + 66; /* Ethernet, IPv4 and UDP with the overhead of the wire */
  link->busy = begin + (uint64_t)((packet->bytes + 66) * 8 / net->rate * 1e9);
  put(net, packet, link->busy + net->delay, happens(net, net->faults.spoiled));
  if (happens(net, net->faults.doubled)) put(net, packet, link->busy + net->delay + 1000, false);
}

static void go_up(struct net *net, int from, int above, uint32_t port, struct net_packet *packet) {
  packet->node = above;
  packet->port = port;
  cross(net, &net->up[from], packet);
}

static void go_down(struct net *net, int node, struct net_packet *packet) {
  packet->node = node;
  packet->port = NET_UP;
  cross(net, &net->down[packet->node], packet);
}

static void leave_switch(struct net *net, int which, uint32_t port, struct net_packet *packet) {
  if (port == NET_UP)
    go_up(net, which, net->at[which].above, (uint32_t)which, packet);
  else
    go_down(net, node_by(net, which, port), packet);
}

/* Forwards a packet by its address. */
static void pass(struct net *net, int which, struct net_packet *packet) {
  uint32_t port = packet->to == NET_SERVER ? NET_UP : port_to(net, which, (unsigned)packet->to);
  leave_switch(net, which, port, packet);
}

/* --- routers, where aggregators are --- */

/* What the link of a switch, an aggregator or a worker leads to. */
static int next_to(const struct net *net, int node) {
  int at = node < NET_SWITCHES ? node : net->worker_at[node - NET_SWITCHES];
  if (at != NET_SERVER && net->at[at].off_path) return net->at[at].beside;
  return node < NET_SWITCHES ? net->at[node].above : at;
}

/* The last node before `which` on the way from a node to the server; -1: the way does not lead there. */
static int node_towards(const struct net *net, int which, int node) {
  while (next_to(net, node) != which && next_to(net, node) != NET_SERVER) node = next_to(net, node);
  return next_to(net, node) == which ? node : -1;
}

static int node_of(int to) {
  return to <= NET_AGGREGATOR ? NET_AGGREGATOR - to : NET_SWITCHES + to;
}

static void route(struct net *net, int which, struct net_packet *packet) {
  int node = packet->to == NET_SERVER ? -1 : node_towards(net, which, node_of(packet->to));
  if (node < 0)
    go_up(net, which, next_to(net, which), 0, packet);
  else
    go_down(net, node, packet);
}

static void route_from_server(struct net *net, struct net_packet *packet) {
  go_down(net, node_towards(net, NET_SERVER, node_of(packet->to)), packet);
}

static void send_copy(struct net *net, int node, const struct net_packet *packet) {
  static struct net_packet copy;
  memcpy(&copy, packet, offsetof(struct net_packet, data) + packet->bytes);
  go_down(net, node, &copy);
}

static void spread(struct net *net, int which, const struct net_packet *packet) {
  for (unsigned s = 0; s < net->switches; s++)
    if (net->at[s].above == which && has_workers(net, (int)s)) send_copy(net, (int)s, packet);
  for (unsigned w = 0; w < net->workers; w++)
    if (net->worker_at[w] == which) send_copy(net, NET_SWITCHES + (int)w, packet);
}

static void come_to_switch(struct net *net, int which, struct net_packet *packet) {
  const struct net_switch *at = &net->at[which];
  struct by_fragment *head = (struct by_fragment *)(void *)packet->data;
  bool all = head->type == BY_FRAGMENT_RESULT_MC;
  if (happens(net, net->faults.dropped)) return;
  if (at->off_path && !at->gone && !at->lost) net->to_aggregator(net->context, (unsigned)which, head, packet->bytes);
  if (at->plain) route(net, which, packet);
  if (at->off_path || at->plain) return;
  if (at->hole && (head->hops || all)) return;
  if (at->gone && all) return; /* no router knows the address that stands for all workers */
  if (at->gone || at->hole) {
    pass(net, which, packet);
    return;
  }
  struct by_grant grant = {.below = ~(1ull << NET_UP),
                           .above = 1ull << NET_UP,
                           .count = at->slots,
                           .job = net->job,
                           .key = net->key,
                           .keyed = net->hop != NULL,
                           .dtype = net->floats ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS,
                           .place = place_of(net, which)};
  struct by_float_sums *floats = &net->float_sums[which];
  if (net->floats && !floats->first) assert_ok(by_float_sums_init(floats, NET_CELLS));
  if (!net->sums[which]) net->sums[which] = calloc(NET_CELLS, sizeof *net->sums[which]);
  if (!net->windows[which]) net->windows[which] = calloc(BY_REPLAY_SENDERS, sizeof *net->windows[which]);
  assert_non_null(net->sums[which]);
  assert_non_null(net->windows[which]);
  struct by_cells cells = {net->cells[which], net->sums[which], NET_CELLS, net->floats ? floats : NULL};
  struct by_verdict verdict =
      by_switch_step(head->job == net->job && !at->lapsed ? &grant : NULL, net->hop, net->windows[which], &cells, head,
                     packet->bytes, packet->port, (uint32_t)(net->now / BY_MILLISECOND));
  net->events[verdict.event]++;
  if (verdict.kind == BY_VERDICT_PASS) pass(net, which, packet);
  if (verdict.kind == BY_VERDICT_FORWARD) leave_switch(net, which, verdict.port, packet);
  if (verdict.kind == BY_VERDICT_MULTICAST) spread(net, which, packet);
}

/* --- expected sums of floats --- */

unsigned net_sets(const struct net *net, struct by_worker_set *sets) {
  struct by_switched_node places[NET_SWITCHES];
  struct by_worker_groups groups = find_groups(net, places);
  unsigned n = 0;
  for (unsigned size = 2; size <= net->workers; size++)
    for (unsigned s = 0; s < net->switches; s++)
      if (by_set_count(&groups, places[s].set) == size) sets[n++] = places[s].set;
  return n;
}

/* Returns the adding switch next to `at` on the way to the worker; NET_SERVER: there is none. */
static int next_adding(const struct net *net, unsigned worker, int at) {
  int next = NET_SERVER;
  for (int s = net->worker_at[worker]; s != at; s = net->at[s].above)
    if (net->floats && net->at[s].aggregates) next = s;
  return next;
}

float net_sum(const struct net *net, const float *terms, int at) {
  float sum = 0;
  bool begun = false, seen[NET_SWITCHES] = {false};
  for (unsigned w = 0; w < net->workers; w++) {
    if (at != NET_SERVER && !is_below(net, net->worker_at[w], at)) continue;
    int next = next_adding(net, w, at);
    if (next != NET_SERVER && seen[next]) continue;
    if (next != NET_SERVER) seen[next] = true;
    float term = next == NET_SERVER ? terms[w] : net_sum(net, terms, next);
    sum = begun ? sum + term : term;
    begun = true;
  }
  return sum;
}

/* --- endpoints --- */

static struct net_packet *made(const struct by_fragment *packet, int to) {
  static struct net_packet out;
  out.to = to;
  out.bytes = by_fragment_bytes(packet);
  memcpy(out.data, packet, out.bytes);
  return &out;
}

void net_from_worker(struct net *net, unsigned worker, const struct by_fragment *packet) {
  int at = net->worker_at[worker];
  if (at != NET_SERVER && net->at[at].off_path) {
    bool passes = packet->hops && !(packet->flags & BY_FRAGMENT_ESCALATE) && !net->at[at].lost;
    go_up(net, NET_SWITCHES + (int)worker, net->at[at].beside, 0,
          made(packet, passes ? NET_AGGREGATOR - at : NET_SERVER));
    return;
  }
  go_up(net, NET_SWITCHES + (int)worker, net->worker_at[worker], port_of(net, worker), made(packet, NET_SERVER));
}

void net_from_aggregator(struct net *net, unsigned which, const struct by_fragment *packet, bool down) {
  if (!down) go_up(net, (int)which, net->at[which].beside, 0, made(packet, NET_SERVER));
  for (unsigned w = 0; down && w < net->workers; w++)
    if (net->worker_at[w] == (int)which) go_up(net, (int)which, net->at[which].beside, 0, made(packet, (int)w));
}

/* Results for all, to an aggregator or, once it is lost, to its workers. */
static void send_to_aggregator(struct net *net, int which, const struct by_fragment *packet) {
  if (!net->at[which].lost) route_from_server(net, made(packet, NET_AGGREGATOR - which));
  for (unsigned w = 0; net->at[which].lost && w < net->workers; w++)
    if (net->worker_at[w] == which) route_from_server(net, made(packet, (int)w));
}

/* Sends on the server's links to the switches and workers next to it. */
void net_from_server(struct net *net, const struct by_fragment *packet, int to) {
  if (to >= 0 && net->worker_at[to] != NET_SERVER && net->at[net->worker_at[to]].off_path) {
    route_from_server(net, made(packet, to));
    return;
  }
  if (to >= 0) {
    int at = net->worker_at[to];
    while (at != NET_SERVER && net->at[at].above != NET_SERVER) at = net->at[at].above;
    go_down(net, at == NET_SERVER ? NET_SWITCHES + to : at, made(packet, to));
    return;
  }
  for (unsigned s = 0; s < net->switches; s++) {
    const struct net_switch *at = &net->at[s];
    if (at->off_path) send_to_aggregator(net, (int)s, packet);
    if (at->above == NET_SERVER && !at->off_path && !at->plain) go_down(net, (int)s, made(packet, NET_SERVER));
  }
  for (unsigned w = 0; w < net->workers; w++)
    if (net->worker_at[w] == NET_SERVER) go_down(net, NET_SWITCHES + (int)w, made(packet, (int)w));
}

uint64_t net_resumes(struct net *net, int node) {
  struct net_pause *pause = &net->pause[node + 1];
  if (!(net->pauses.wait > 0)) return net->now;
  while (net->now >= pause->end) {
    pause->begin = pause->end + (uint64_t)(2 * net->pauses.run * by_rng_unit(&net->rng));
    pause->end = pause->begin + (uint64_t)(2 * net->pauses.wait * by_rng_unit(&net->rng)) + 1;
  }
  return net->now < pause->begin ? net->now : pause->end;
}

uint64_t net_next(const struct net *net) {
  return net->length ? net->heap[0]->time : UINT64_MAX;
}

bool net_has_more(const struct net *net, int node) {
  return net->length && net->heap[0]->time == net->now && net->heap[0]->node == node;
}

void net_step(struct net *net) {
  struct net_packet *packet = pop(net);
  const struct by_fragment *head = (const struct by_fragment *)(const void *)packet->data;
  net->now = packet->time;
  packet->time = net_resumes(net, packet->node);
  if (packet->time > net->now) {
    push(net, packet);
    return;
  }
  if (packet->node == NET_SERVER)
    net->to_server(net->context, head, packet->bytes);
  else if (packet->node >= NET_SWITCHES)
    net->to_worker(net->context, (unsigned)(packet->node - NET_SWITCHES), head, packet->bytes);
  else
    come_to_switch(net, packet->node, packet);
  give_back(net, packet);
}

void net_restart(struct net *net, unsigned which) {
  memset(net->cells[which], 0, sizeof net->cells[which]);
  if (net->float_sums[which].first) by_float_sums_clear(&net->float_sums[which], 0, NET_CELLS);
}
