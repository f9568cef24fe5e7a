/* Parses short texts for topologies, and makes shapes of switches and hosts (stars, trees, Clos networks, sites) and of
 * hosts alone (rings, lines, meshes, tori, random graphs). */
#include "topology_formats.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rng.h"
#include "text.h"
#include "topology_make.h"

enum { MAX_WORDS = 16, MAX_SIZES = 4, MAX_RATES = 64, NAME_BYTES = 48, MAX_DEFAULT_SPINES = 16, USUAL_DEGREE = 3 };
enum { HOST = 0, LEAF = 1, SPINE = 2 }; /* hosts, switches with hosts, and switches above those */

struct rates {
  double rate[MAX_RATES]; /* the last rate holds for all following elements */
  uint32_t n;
};

/* The parsed text, and the state of the maker. Every maker checks the number of nodes and links before it adds any. */
struct shape {
  const struct kind *kind;
  uint32_t size[MAX_SIZES], n_sizes;
  struct rates nic, link; /* n = 0: not given */
  double lan, wan, rtt, delay, oversub;
  uint32_t spines, degree; /* 0: not given */
  uint32_t helpers, seed;
  uint32_t adds; /* the levels (LEAF, SPINE) whose switches add */
  struct by_topology_builder builder;
  struct by_node *node; /* the last added node */
};

/* --- For all makers. --- */

static double get_rate(const struct rates *rates, uint32_t i) {
  return rates->rate[i < rates->n ? i : rates->n - 1];
}

/* Refuses sizes that no topology may have. */
static enum banyan_status check_size(double nodes, double links) {
  if (nodes <= BY_TOPOLOGY_MAX_NODES && links <= BY_TOPOLOGY_MAX_LINKS) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TOPOLOGY, "%.0f nodes and %.0f links are too many: at most %d and %d are possible", nodes,
                 links, BY_TOPOLOGY_MAX_NODES, BY_TOPOLOGY_MAX_LINKS);
}

/* Adds a host that takes part, or a switch of these levels. The format yields its name; its group is `group` with the
 * number (NULL: none). */
static BY_PRINTF(5, 6) enum banyan_status
    add_node(struct shape *s, uint32_t levels, const char *group, uint32_t number, const char *format, ...) {
  char name[NAME_BYTES], of[NAME_BYTES] = "";
  uint32_t node;
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  if (group) snprintf(of, sizeof of, "%s%u", group, number);
  BY_TRY(by_topology_builder_add(&s->builder, levels ? BY_NODE_SWITCH : BY_NODE_HOST, name, &node));
  s->node = by_topology_builder_node(&s->builder, node);
  s->node->aggregates = (s->adds & levels) != 0;
  return by_topology_builder_keep(&s->builder, of, &s->node->group);
}

/* Adds the i-th host that helps and does not take part. */
static enum banyan_status add_helper(struct shape *s, const char *group, uint32_t number, uint32_t i) {
  BY_TRY(add_node(s, HOST, group, number, "helper%u", i));
  s->node->takes_part = false;
  s->node->may_help = true;
  return BANYAN_OK;
}

/* Adds n hosts "h0", ... and behind them the helpers. */
static enum banyan_status add_hosts(struct shape *s, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) BY_TRY(add_node(s, HOST, NULL, 0, "h%u", i));
  for (uint32_t i = 0; i < s->helpers; i++) BY_TRY(add_helper(s, NULL, 0, i));
  return BANYAN_OK;
}

/* Adds size[0] groups of size[1] hosts, and the helpers in turn. Names begin with the group's first letter. */
static enum banyan_status add_grouped_hosts(struct shape *s, const char *group) {
  uint32_t groups = s->size[0], hosts = s->size[1];
  for (uint32_t i = 0; i < groups * hosts; i++)
    BY_TRY(add_node(s, HOST, group, i / hosts, "%c%uh%u", group[0], i / hosts, i % hosts));
  for (uint32_t i = 0; i < s->helpers; i++) BY_TRY(add_helper(s, group, i % groups, i));
  return BANYAN_OK;
}

static enum banyan_status join_nodes(struct shape *s, uint32_t a, uint32_t b, double rate) {
  return by_topology_builder_add_link(&s->builder, a, b, rate, s->delay, NULL);
}

/* --- Star. --- */

static enum banyan_status make_star(struct shape *s) {
  uint32_t n = s->size[0] + s->helpers;
  BY_TRY(check_size((double)s->size[0] + s->helpers + 1, 0));
  BY_TRY(add_hosts(s, s->size[0]));
  BY_TRY(add_node(s, LEAF | SPINE, NULL, 0, "switch"));
  for (uint32_t i = 0; i < n; i++) BY_TRY(join_nodes(s, i, n, get_rate(&s->nic, i)));
  return BANYAN_OK;
}

/* --- clos: hosts, leaves, spines ---
 *
 *        spine0   spine1
 *        |  |  \ /  |  |       each leaf has a link to each spine
 *        |  |  / \  |  |
 *         leaf0     leaf1
 *         |...|     |...|
 */

static enum banyan_status make_clos(struct shape *s) {
  uint32_t racks = s->size[0], hosts = s->size[1], spines = s->spines;
  /* The default: as many spines as keep each link up at least as fast as a host's. */
  if (!spines) spines = (uint32_t)fmin(fmax(floor(hosts / s->oversub), 1), MAX_DEFAULT_SPINES);
  double all = (double)racks * hosts + s->helpers, nic = get_rate(&s->nic, 0);
  assert(racks > 0 && hosts > 0);
  BY_TRY(check_size(all + racks + spines, all + (double)racks * spines));
  uint32_t n = racks * hosts, leaf = n + s->helpers, spine = leaf + racks;
  BY_TRY(add_grouped_hosts(s, "rack"));
  for (uint32_t i = 0; i < racks; i++) BY_TRY(add_node(s, LEAF, "rack", i, "leaf%u", i));
  for (uint32_t i = 0; i < spines; i++) BY_TRY(add_node(s, SPINE, NULL, 0, "spine%u", i));
  for (uint32_t i = 0; i < leaf; i++) BY_TRY(join_nodes(s, i, leaf + (i < n ? i / hosts : (i - n) % racks), nic));
  for (uint32_t i = 0; i < racks * spines; i++)
    BY_TRY(join_nodes(s, leaf + i / spines, spine + i % spines, nic * hosts / s->oversub / spines));
  return BANYAN_OK;
}

/* --- Fat tree: k pods of k / 2 edge and k / 2 upper switches; (k / 2)^2 cores. --- */

static enum banyan_status join_pod(struct shape *s, uint32_t pod) {
  uint32_t half = s->size[0] / 2, hosts = half * half, n = hosts * s->size[0];
  uint32_t edge = n + pod * s->size[0], upper = edge + half, core = n + s->size[0] * s->size[0];
  double nic = get_rate(&s->nic, 0);
  for (uint32_t i = 0; i < half; i++)
    for (uint32_t j = 0; j < half; j++) {
      BY_TRY(join_nodes(s, pod * hosts + i * half + j, edge + i, nic));
      BY_TRY(join_nodes(s, edge + i, upper + j, nic));
      BY_TRY(join_nodes(s, upper + i, core + i * half + j, nic));
    }
  return BANYAN_OK;
}

static enum banyan_status make_fattree(struct shape *s) {
  uint32_t k = s->size[0], half = k / 2;
  double hosts = (double)k * k * k / 4;
  if (k % 2) return by_fail(BANYAN_ERR_TOPOLOGY, "the number of ports is %u, must be even", k);
  BY_TRY(check_size(hosts + 1.25 * k * k, 3 * hosts));
  for (uint32_t i = 0; i < k * half * half; i++) {
    uint32_t pod = i / (half * half), edge = i / half % half;
    BY_TRY(add_node(s, HOST, "pod", pod, "p%ue%uh%u", pod, edge, i % half));
  }
  for (uint32_t pod = 0; pod < k; pod++) {
    for (uint32_t i = 0; i < half; i++) BY_TRY(add_node(s, LEAF, "pod", pod, "p%ue%u", pod, i));
    for (uint32_t i = 0; i < half; i++) BY_TRY(add_node(s, SPINE, "pod", pod, "p%ua%u", pod, i));
  }
  for (uint32_t i = 0; i < half * half; i++) BY_TRY(add_node(s, SPINE, NULL, 0, "c%u", i));
  for (uint32_t i = 0; i < k; i++) BY_TRY(join_pod(s, i));
  return BANYAN_OK;
}

/* --- Tree: levels of switches, with hosts at the last. --- */

static enum banyan_status make_tree(struct shape *s) {
  uint32_t last = s->n_sizes - 1, hosts = 1;
  double nodes = 1, level_nodes = 1, rate = get_rate(&s->nic, 0);
  assert(s->size[last] > 0);
  for (uint32_t i = 0; i <= last; i++) nodes += level_nodes *= s->size[i];
  BY_TRY(check_size(nodes, nodes));
  for (uint32_t i = 0; i <= last; i++) hosts *= s->size[i];
  /* Hosts come first. Switches of level l (the root is 0) follow those of level l - 1. */
  for (uint32_t i = 0; i < hosts; i++) BY_TRY(add_node(s, HOST, "rack", i / s->size[last], "h%u", i));
  for (uint32_t level = 0, n = 1; level <= last; n *= s->size[level++])
    for (uint32_t i = 0; i < n; i++)
      BY_TRY(add_node(s, level == last ? LEAF : SPINE, level == last ? "rack" : NULL, i, "s%u-%u", level, i));
  uint32_t below = 0, n = hosts,
           end = (uint32_t)nodes; /* Each level is joined to the one above, starting with the hosts. */
  for (uint32_t level = last + 1; level-- > 0;) {
    uint32_t each = s->size[level];
    assert(each > 0);
    uint32_t above = end - n / each;
    for (uint32_t i = 0; i < n; i++) BY_TRY(join_nodes(s, below + i, above + i / each, rate));
    below = end = above;
    n /= each;
    rate *= each / s->oversub;
  }
  return BANYAN_OK;
}

/* --- Sites: routers with their hosts, all joined. --- */

static enum banyan_status make_sites(struct shape *s) {
  uint32_t sites = s->size[0], n = sites * s->size[1], router = n + s->helpers;
  assert(sites > 0);
  double all = (double)sites * s->size[1] + s->helpers;
  BY_TRY(check_size(all + sites, all + (double)sites * (sites - 1.0) / 2));
  BY_TRY(add_grouped_hosts(s, "site"));
  for (uint32_t i = 0; i < sites; i++) BY_TRY(add_node(s, LEAF, "site", i, "router%u", i));
  for (uint32_t i = 0; i < router; i++)
    BY_TRY(join_nodes(s, i, router + (i < n ? i / s->size[1] : (i - n) % sites), s->lan));
  for (uint32_t i = 0; i < sites; i++)
    for (uint32_t j = i + 1; j < sites; j++)
      BY_TRY(by_topology_builder_add_link(&s->builder, router + i, router + j, s->wan, s->rtt / 2, NULL));
  return BANYAN_OK;
}

/* --- Hosts alone. --- */

static double get_link_rate(const struct shape *s, uint32_t i) {
  return get_rate(s->link.n ? &s->link : &s->nic, i);
}

static enum banyan_status make_line(struct shape *s) {
  uint32_t n = s->size[0];
  BY_TRY(check_size(n, n));
  BY_TRY(add_hosts(s, n));
  for (uint32_t i = 0; i + 1 < n; i++) BY_TRY(join_nodes(s, i, i + 1, get_link_rate(s, i)));
  return BANYAN_OK;
}

static enum banyan_status make_ring(struct shape *s) {
  uint32_t n = s->size[0];
  BY_TRY(make_line(s));
  return join_nodes(s, n - 1, 0, get_link_rate(s, n - 1));
}

static enum banyan_status make_mesh(struct shape *s) {
  double all = (double)s->size[0] + s->helpers;
  BY_TRY(check_size(all, all * (all - 1) / 2));
  BY_TRY(add_hosts(s, s->size[0]));
  for (uint32_t i = 0; i < (uint32_t)all; i++) {
    struct by_node *node = by_topology_builder_node(&s->builder, i);
    node->out.all = node->in.all = get_rate(&s->nic, i);
    for (uint32_t j = 0; j < i; j++)
      BY_TRY(join_nodes(s, j, i, s->link.n ? s->link.rate[0] : fmin(get_rate(&s->nic, j), node->out.all)));
  }
  return BANYAN_OK;
}

/* Returns the next host along dimension d, cyclically; UINT32_MAX: there is no other one, or the link back is the same
 * link. */
static uint32_t get_neighbour(const uint32_t *size, const uint32_t *at, int d) {
  uint32_t next[3] = {at[0], at[1], at[2]};
  if (size[d] == 1 || (size[d] == 2 && at[d] == 1)) return UINT32_MAX;
  next[d] = (at[d] + 1) % size[d];
  return (next[2] * size[0] + next[0]) * size[1] + next[1];
}

/* Makes a torus. Hosts are named by row, column and layer; layers are drawn behind each other. */
static enum banyan_status make_torus(struct shape *s) {
  uint32_t size[3] = {s->size[0], s->size[1], s->n_sizes == 3 ? s->size[2] : 1};
  double all = (double)size[0] * size[1] * size[2];
  BY_TRY(check_size(all, 3 * all));
  for (uint32_t i = 0; i < (uint32_t)all; i++) {
    uint32_t row = i / size[1] % size[0], column = i % size[1], layer = i / (size[0] * size[1]);
    BY_TRY(s->n_sizes == 3 ? add_node(s, HOST, NULL, 0, "h%u-%u-%u", row, column, layer)
                           : add_node(s, HOST, NULL, 0, "h%u-%u", row, column));
    s->node->x = column + 0.35 * layer;
    s->node->y = -(double)row + 0.35 * layer;
  }
  for (uint32_t i = 0; i < (uint32_t)all; i++)
    for (int d = 0; d < 3; d++) {
      uint32_t next = get_neighbour(size, (uint32_t[]){i / size[1] % size[0], i % size[1], i / (size[0] * size[1])}, d);
      if (next != UINT32_MAX) BY_TRY(join_nodes(s, i, next, get_link_rate(s, 0)));
    }
  return BANYAN_OK;
}

/* --- Random. --- */

struct random_graph {
  struct shape *shape;
  uint64_t *slots, mask; /* an open hash table of the linked pairs; 0: free */
  struct by_rng rng;
  uint32_t nodes, links; /* the wanted numbers */
};

/* Links two hosts, unless they are linked or the same. */
static enum banyan_status join_random(struct random_graph *g, uint32_t a, uint32_t b) {
  static const struct rates usual = {.rate = {1e9, 2.5e9, 10e9}, .n = 3};
  const struct rates *rates = g->shape->link.n ? &g->shape->link : &usual;
  uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
  uint64_t at = (key * 0x9e3779b97f4a7c15ull >> 17) & g->mask;
  if (a == b) return BANYAN_OK;
  for (; g->slots[at]; at = (at + 1) & g->mask)
    if (g->slots[at] == key) return BANYAN_OK;
  g->slots[at] = key;
  return join_nodes(g->shape, a, b, rates->rate[by_rng_below(&g->rng, rates->n)]);
}

static enum banyan_status make_random(struct shape *s) {
  double all = (double)s->size[0] + s->helpers, usual = all > USUAL_DEGREE ? USUAL_DEGREE : all - 1;
  double links = fmax(all * (s->degree ? s->degree : usual) / 2, all - 1);
  uint64_t n_slots = 64;
  if (s->degree >= all)
    return by_fail(BANYAN_ERR_TOPOLOGY, "the degree is %u, but a host has only %.0f others", s->degree, all - 1);
  BY_TRY(check_size(all, links));
  BY_TRY(add_hosts(s, s->size[0]));
  while ((double)n_slots < 2 * links + 2) n_slots *= 2;
  struct random_graph g = {.shape = s,
                           .slots = BY_ARENA_ARRAY(&s->builder.arena, uint64_t, n_slots),
                           .mask = n_slots - 1,
                           .nodes = (uint32_t)all,
                           .links = (uint32_t)links};
  if (!g.slots) return by_topology_no_memory();
  by_rng_init(&g.rng, s->seed);
  /* Each host is linked to an earlier one, then random pairs are, and finally the first free pairs. */
  const struct by_topology *topology = s->builder.topology;
  for (uint32_t i = 1; i < g.nodes; i++) BY_TRY(join_random(&g, (uint32_t)by_rng_below(&g.rng, i), i));
  for (uint64_t tries = 4 * (uint64_t)g.links; tries && topology->n_links < g.links; tries--) {
    uint32_t a = (uint32_t)by_rng_below(&g.rng, g.nodes), b = (uint32_t)by_rng_below(&g.rng, g.nodes);
    BY_TRY(join_random(&g, a, b));
  }
  for (uint32_t a = 0; a < g.nodes; a++)
    for (uint32_t b = 0; b < a && topology->n_links < g.links; b++) BY_TRY(join_random(&g, b, a));
  return BANYAN_OK;
}

/* --- Kinds. --- */

struct kind {
  struct by_topology_kind entry;
  enum banyan_status (*make)(struct shape *shape);
  uint32_t min_sizes, max_sizes, min; /* how many sizes a text may have, and the smallest size */
  const char *options;                /* names of options of the table below, separated by spaces */
};

#define KIND(name, min_sizes, max_sizes, min, options, usage, help)                                                    \
  { {#name, usage, help}, make_##name, min_sizes, max_sizes, min, options }

static const struct kind kinds[] = {
    KIND(star, 1, 1, 1, "nic helpers adds delay", "star:N[,nic=RATES][,helpers=K][,adds=all]", "N hosts at one switch"),
    KIND(clos, 0, 2, 1, "racks hosts nic oversub spines helpers adds delay",
         "clos:racks=R,hosts=H[,nic=RATE][,oversub=F][,spines=S][,helpers=K][,adds=leaf|spine|all]",
         "R racks of H hosts under S spine switches; each rack's links up carry its hosts' sum / F"),
    KIND(fattree, 1, 1, 2, "nic adds delay", "fattree:K[,nic=RATE][,adds=leaf|spine|all]",
         "three layers of switches with K ports, K even: K^3 / 4 hosts"),
    KIND(tree, 1, MAX_SIZES, 1, "nic oversub adds delay", "tree:AxB[x...][,nic=RATE][,oversub=F][,adds=leaf|spine|all]",
         "a switch with A switches below, ... with B hosts each; each link up carries what is below / F"),
    KIND(sites, 2, 2, 1, "lan wan rtt helpers adds delay", "sites:SxH[,lan=RATE][,wan=RATE][,rtt=TIME][,helpers=K]",
         "S sites of H hosts at a router each; a wan link between every two of them"),
    KIND(mesh, 1, 1, 1, "nic link helpers delay", "mesh:N[,nic=RATES][,link=RATE][,helpers=K]",
         "N hosts, a link between every two; a host sends and receives no more than its nic allows"),
    KIND(ring, 1, 1, 3, "link delay", "ring:N[,link=RATES]", "N hosts in a ring"),
    KIND(line, 1, 1, 2, "link delay", "line:N[,link=RATES]", "N hosts in a line"),
    KIND(torus, 2, 3, 1, "link delay", "torus:AxB[xC][,link=RATE]",
         "A x B (x C) hosts, each linked to the next in each direction, all round"),
    KIND(random, 1, 1, 2, "degree link seed helpers delay", "random:N[,degree=D][,link=RATES][,seed=N][,helpers=K]",
         "N hosts with D links each on average, connected, each at random and of one of the RATES"),
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct by_topology_kind *by_topology_kind_list(uint32_t i) {
  return i < N_KINDS ? &kinds[i].entry : NULL;
}

static const struct kind *find_kind(const char *text) {
  size_t length = strcspn(text, ":");
  for (size_t i = 0; i < N_KINDS; i++)
    if (strlen(kinds[i].entry.name) == length && memcmp(kinds[i].entry.name, text, length) == 0) return &kinds[i];
  return NULL;
}

bool by_topology_is_kind(const char *text) {
  return find_kind(text) != NULL;
}

static enum banyan_status fail_unknown_kind(const char *text) {
  const char *names[N_KINDS];
  char word[BY_TOPOLOGY_MAX_NAME + 1], list[256] = "";
  snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ":"), text);
  for (size_t i = 0; i < N_KINDS; i++) {
    names[i] = kinds[i].entry.name;
    if (i) strcat(list, ", ");
    strcat(list, names[i]);
  }
  const char *near = by_suggest(word, names, N_KINDS);
  return by_fail(BANYAN_ERR_ARGUMENT, "there is no topology \"%.64s\"%s%s%s there are %s", word,
                 near ? "; did you mean " : "", near ? near : "", near ? "?" : ";", list);
}

/* --- Options. --- */

enum option_kind { COUNT, RATE, RATES, TIME, FACTOR, LEVELS };

static const struct option {
  const char *name;
  enum option_kind kind;
  size_t offset;
  long min, max;
} options[] = {
    {"racks", COUNT, offsetof(struct shape, size[0]), 1, BY_TOPOLOGY_MAX_NODES},
    {"hosts", COUNT, offsetof(struct shape, size[1]), 1, BY_TOPOLOGY_MAX_NODES},
    {"spines", COUNT, offsetof(struct shape, spines), 1, BY_TOPOLOGY_MAX_NODES},
    {"helpers", COUNT, offsetof(struct shape, helpers), 0, BY_TOPOLOGY_MAX_NODES},
    {"degree", COUNT, offsetof(struct shape, degree), 1, BY_TOPOLOGY_MAX_NODES},
    {"seed", COUNT, offsetof(struct shape, seed), 0, INT32_MAX},
    {"nic", RATES, offsetof(struct shape, nic), 0, 0},
    {"link", RATES, offsetof(struct shape, link), 0, 0},
    {"lan", RATE, offsetof(struct shape, lan), 0, 0},
    {"wan", RATE, offsetof(struct shape, wan), 0, 0},
    {"rtt", TIME, offsetof(struct shape, rtt), 0, 0},
    {"delay", TIME, offsetof(struct shape, delay), 0, 0},
    {"oversub", FACTOR, offsetof(struct shape, oversub), 0, 0},
    {"adds", LEVELS, offsetof(struct shape, adds), 0, 0},
};

static enum banyan_status take_rate(const char *text, double *out) {
  BY_TRY(by_parse_rate(text, out));
  return *out > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "is 0, must be more than 0");
}

/* Parses rates such as "1g/1g/200m". */
static enum banyan_status take_rates(char *text, struct rates *out) {
  char *kept = NULL;
  out->n = 0;
  for (char *word = strtok_r(text, "/", &kept); word; word = strtok_r(NULL, "/", &kept)) {
    if (out->n == MAX_RATES) return by_fail(BANYAN_ERR_PARSE, "more than %d rates", MAX_RATES);
    BY_TRY(take_rate(word, &out->rate[out->n++]));
  }
  return out->n ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "is empty");
}

static enum banyan_status take_factor(const char *text, double *out) {
  BY_TRY(by_parse_number(text, out));
  return *out >= 1 && *out <= 1e6 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "is %s, must be 1 to 1000000", text);
}

static enum banyan_status take_levels(const char *text, uint32_t *out) {
  static const char *const names[] = {"none", "leaf", "spine", "all"};
  for (uint32_t i = 0; i < 4; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    *out = i;
    return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_PARSE, "is \"%.64s\", must be none, leaf, spine or all", text);
}

static enum banyan_status take_value(const struct option *option, char *text, struct shape *shape) {
  void *member = (char *)shape + option->offset;
  long count = 0;
  enum banyan_status status = BANYAN_OK;
  switch (option->kind) {
  case COUNT:
    BY_TRY(by_parse_int(option->name, text, option->min, option->max, &count));
    *(uint32_t *)member = (uint32_t)count;
    return BANYAN_OK;
  case RATE: status = take_rate(text, member); break;
  case RATES: status = take_rates(text, member); break;
  case TIME: status = by_parse_seconds(text, member); break;
  case FACTOR: status = take_factor(text, member); break;
  case LEVELS: status = take_levels(text, member); break;
  }
  return status == BANYAN_OK ? BANYAN_OK : by_fail_within(status, "%s", option->name);
}

/* Finds an option of the kind; the error lists all of them. */
static enum banyan_status find_option(const struct kind *kind, const char *name, const struct option **out) {
  char copy[128], *kept = NULL;
  const char *names[MAX_WORDS];
  size_t n = 0;
  snprintf(copy, sizeof copy, "%s", kind->options);
  for (char *word = strtok_r(copy, " ", &kept); word; word = strtok_r(NULL, " ", &kept)) names[n++] = word;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], name) != 0) continue;
    for (*out = options; strcmp((*out)->name, name) != 0;) ++*out;
    return BANYAN_OK;
  }
  const char *near = by_suggest(name, names, n);
  if (near) return by_fail(BANYAN_ERR_PARSE, "there is no option \"%.64s\"; did you mean \"%s\"?", name, near);
  return by_fail(BANYAN_ERR_PARSE, "there is no option \"%.64s\"; write it as %s", name, kind->entry.usage);
}

/* Parses sizes such as "16x16". */
static enum banyan_status take_sizes(struct shape *shape, char *word) {
  char *kept = NULL;
  for (char *size = strtok_r(word, "x", &kept); size; size = strtok_r(NULL, "x", &kept)) {
    long value = 0;
    if (shape->n_sizes == shape->kind->max_sizes)
      return by_fail(BANYAN_ERR_PARSE, "too many sizes; write it as %s", shape->kind->entry.usage);
    BY_TRY(by_parse_int("the size", size, (long)shape->kind->min, BY_TOPOLOGY_MAX_NODES, &value));
    shape->size[shape->n_sizes++] = (uint32_t)value;
  }
  return BANYAN_OK;
}

static enum banyan_status take_words(struct shape *shape, char *text) {
  char *kept = NULL;
  bool first = true;
  for (char *word = strtok_r(text, ",", &kept); word; word = strtok_r(NULL, ",", &kept), first = false) {
    char *equals = strchr(word, '=');
    if (!equals && !first) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is no option: write name=value", word);
    if (!equals) {
      BY_TRY(take_sizes(shape, word));
      continue;
    }
    const struct option *option = NULL;
    *equals = '\0';
    BY_TRY(find_option(shape->kind, word, &option));
    BY_TRY(take_value(option, equals + 1, shape));
  }
  bool sized = shape->n_sizes >= shape->kind->min_sizes;
  for (uint32_t i = 0; i < 2; i++) sized = sized && (shape->kind->min_sizes > 0 || shape->size[i] > 0);
  return sized ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "which size? Write it as %s", shape->kind->entry.usage);
}

enum banyan_status by_topology_synthesise(const char *text, struct by_topology **out) {
  char copy[BY_TOPOLOGY_MAX_NAME + 1];
  struct shape shape = {
      .kind = find_kind(text), .nic = {.rate = {10e9}, .n = 1}, .lan = 10e9, .wan = 1e9, .oversub = 1, .seed = 1};
  if (!shape.kind) return fail_unknown_kind(text);
  const char *name = shape.kind->entry.name, *rest = text + strlen(name);
  if (strlen(text) > BY_TOPOLOGY_MAX_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the text is too long: at most %d bytes are possible", name,
                   BY_TOPOLOGY_MAX_NAME);
  snprintf(copy, sizeof copy, "%s", *rest ? rest + 1 : "");
  enum banyan_status status = take_words(&shape, copy);
  if (status == BANYAN_OK) status = by_topology_builder_init(&shape.builder, text);
  if (status == BANYAN_OK) status = by_topology_builder_end(&shape.builder, shape.kind->make(&shape), NULL, out);
  if (status == BANYAN_OK || status == BANYAN_ERR_NO_MEMORY) return status;
  return by_fail_within(BANYAN_ERR_ARGUMENT, "%s", name);
}

enum banyan_status by_topology_named(const char *text, struct by_topology **out) {
  if (text[strspn(text, " \t\r\n")] == '{') return by_topology_parse("topology", text, strlen(text), out);
  if (by_topology_is_kind(text)) return by_topology_synthesise(text, out);
  /* A text like a file's name, with options or without, means a file whether it exists or not; a kind's options may
   * contain a point, too. */
  bool is_file = strcspn(text, "./?") < strcspn(text, ":=");
  if (is_file || access(text, R_OK) == 0) return by_topology_read(text, out);
  enum banyan_status status = by_topology_synthesise(text, out);
  return by_fail(status, "%s, and there is no file of that name", banyan_error_text());
}
