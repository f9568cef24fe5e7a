/* A plan: how a buffer is summed by weighted aggregation trees. An immutable value in one arena; made by a parser, a
 * built-in or a planner, checked by by_plan_validate, read by the schedule compiler. A plan has size classes (usually
 * one), and own classes for collectives that use other trees. A class has groups whose shares sum to 1. A group is one
 * tree, a tree rotated over an order of vertices, or an exchange. */
#ifndef BY_PLAN_PLAN_H
#define BY_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "arena.h"
#include "fail.h"

/* Limits of an in-network tree: ranks at its leaves, and switches between a rank and the server. */
enum { BY_PLAN_MAX_WORKERS = 1024, BY_PLAN_MAX_HOPS = 8 };

enum by_vertex_kind { BY_VERTEX_RANK, BY_VERTEX_HELPER, BY_VERTEX_SWITCH, BY_VERTEX_SERVER };

struct by_vertex {
  const char *name;
  enum by_vertex_kind kind;
  uint32_t rank; /* the rank of a BY_VERTEX_RANK; otherwise UINT32_MAX */
};

/* A vertex that is attached to another one in every tree of its group: its data goes up before everything else, and the
 * result comes down to it after everything else. */
struct by_twig {
  uint32_t child, parent; /* vertices; the parent is in the group's order */
};

/* The interface by which a switch reaches its parent or a child. */
struct by_group_port {
  uint32_t at, towards; /* the switch, and its neighbour; both are vertices */
  const char *interface;
};

enum by_group_kind {
  BY_GROUP_TREE,     /* a single tree */
  BY_GROUP_ROTATED,  /* n trees with a share of share / n each: the template is translated to each position */
  BY_GROUP_EXCHANGE, /* n trees over the same bytes: every position ends up with the sum */
};

/* A group. Positions are numbers 0 .. n - 1; order[] gives the vertex at each position.
 *
 * Rotation: positions are written as mixed-radix digits (radix[0] is the lowest, their product is n). Where the
 * template has position u, tree t has position (u + t, digit by digit, without carry). The radix {n} is the cyclic
 * rotation of a ring, {2,2,2} is XOR. The template is tree 0, and the root of tree t is root + t.
 *
 * Exchange: step i sums over all values of digit i among the radix[i] positions that agree in all other digits, in
 * digit order, all to all. {2,2,2} is recursive doubling, {n} one direct exchange. */
struct by_group {
  enum by_group_kind kind;
  double share; /* the part of the class's buffer, > 0 */
  uint32_t n;
  uint32_t *order;
  uint32_t root;  /* the position of the template's root, 0 .. n - 1 */
  uint32_t *up;   /* the parent of each position for sums; the root's is itself; NULL for an exchange */
  uint32_t *down; /* the parent of each position for results: `up` itself or another array; NULL for an exchange */
  uint32_t n_radix;
  uint32_t *radix; /* the digits, each >= 2, so none for n = 1; not for single trees */
  uint32_t n_twigs;
  struct by_twig *twigs; /* sorted by child; groups with equal twigs may share the array */
  uint32_t n_forwards;
  uint32_t *forwards; /* the switches that do not add, as sorted vertices; for single trees only, as are ports */
  uint32_t n_ports;
  struct by_group_port *ports; /* the known interfaces, sorted by `at`, then `towards` */
  double rate;                 /* bit/s that the planner promised; 0: not known */
};

/* A size class, or an own class of some collectives.
 *
 * If per_root is set, every tree carries only what its root or the ranks on its root's host (the root's twigs) own:
 * their blocks in an allgather or a reduce_scatter, the whole buffer in a broadcast or a reduce with such a root. The
 * shares of the trees of each rank sum to 1. */
struct by_class {
  const char
      *part; /* the built-in plan from which the class is made, in static storage; NULL: none. Not part of the hash. */
  uint64_t up_to;           /* the largest buffer in bytes, inclusive; UINT64_MAX in the last class */
  uint32_t collectives;     /* for own classes: bits 1 << enum banyan_collective; otherwise 0 */
  uint64_t above;           /* for own classes: only buffers of more bytes use it */
  bool per_root;            /* for own classes: see above */
  double throughput, bound; /* for own classes: the promised rate and its bound, in bit/s; not part of the hash */
  uint32_t n_groups;
  struct by_group *groups;
};

/* The collectives that may have own classes. */
enum {
  BY_PLAN_OWN_COLLECTIVES =
      1 << BANYAN_REDUCE | 1 << BANYAN_BROADCAST | 1 << BANYAN_REDUCE_SCATTER | 1 << BANYAN_ALLGATHER
};

/* The connections along which ranks negotiate which operations are ready (controller.h): a tree, and possibly a ring.
 */
struct by_plan_control {
  uint32_t
      *parent; /* the parent of each rank in the tree; the root's is itself; NULL: the plan has neither tree nor ring */
  uint32_t *ring;   /* the ranks in their order on the ring, the root last; NULL: none */
  uint32_t fan_out; /* the intended maximum number of children, >= 1 */
  bool use_ring;    /* use the ring instead of the tree; the planner never sets it, since trees are faster */
};

/* Bit/s of input per rank: the promised rate, and the upper bound of all plans; 0: not known. */
struct by_plan_rates {
  double throughput, bound;
};

/* What a planner reported about its plan; 0: nothing. Not part of the hash. */
struct by_plan_facts {
  double throughput, bound;                        /* rates of an AllReduce, see by_plan_rates */
  double ratio;                                    /* throughput / bound */
  double seconds;                                  /* the time that the planner took */
  struct by_plan_rates others[BANYAN_COLLECTIVES]; /* rates of the BY_PLAN_OWN_COLLECTIVES that use the size classes */
};

/* The origin of a plan. Not part of the hash. */
struct by_plan_origin {
  enum banyan_plan_source source;
  /* The user chose this plan: only the user may replace it. For a manager's plan: the user permits it to replace such a
   * plan. */
  bool supplied;
};

struct by_plan {
  const char *name;
  uint32_t n_ranks; /* the number of vertices of kind rank, whose ranks are 0 .. n_ranks - 1 */
  uint32_t n_vertices;
  struct by_vertex *vertices; /* rank r is vertex r; the other vertices follow, sorted by name (strcmp) */
  uint32_t n_classes, n_own;
  struct by_class *classes; /* n_classes for all collectives, sorted by up_to; then n_own of some collectives */
  size_t chunk;             /* the largest message in one frame, in bytes; 0: the transport decides */
  uint32_t version;         /* the hash of the contents; equal plans have equal versions on all ranks */
  struct by_plan_control control;
  struct by_plan_facts facts;
  struct by_plan_origin origin;
  uint32_t holders; /* the number of holders besides the creator; atomic */
  struct by_arena arena;
};

/* The largest permitted sizes of a plan. Larger ones are refused before memory is allocated. */
enum {
  BY_PLAN_MAX_VERTICES = 65536,
  BY_PLAN_MAX_GROUPS = 4096, /* limit of the groups of all classes together */
  BY_PLAN_MAX_CLASSES = 64,
  BY_PLAN_MAX_DIGITS = 16,         /* limit of the digits of a radix */
  BY_PLAN_MAX_POSITIONS = 4 << 20, /* limit of the vertices of all trees in a file together */
  BY_PLAN_MAX_NAME = 255,          /* bytes of UTF-8 without control characters */
  BY_PLAN_MAX_CHUNK = 1 << 30,
};

/* Releases a plan, and frees it with its last holder. NULL is allowed. Thread-safe. */
void by_plan_destroy(struct by_plan *plan);
/* Returns the plan for another holder, who must call by_plan_destroy. From here on nobody may change the plan or add to
 * its arena. Thread-safe. */
struct by_plan *by_plan_hold(const struct by_plan *plan);

/* Checks whether the plan can run: every tree spans all ranks and is a tree (no cycle, no vertex outside), shares are
 * positive and sum to 1 within 1e-6, radices multiply to n, vertices and twigs are in order, names are printable, own
 * classes have only ranks, and the control tree is one tree of all ranks. The error names class, tree and vertex. Every
 * function that makes a plan calls it. Cost: linear in the plan's size. */
BANYAN_CHECK enum banyan_status by_plan_validate(const struct by_plan *plan);
/* Returns the hash of everything but the plan's own name, rates and facts; the same on every machine, never 0. It does
 * not set the version. */
uint32_t by_plan_hash(const struct by_plan *plan);
/* Returns the size class for a buffer of this many bytes. */
const struct by_class *by_plan_class(const struct by_plan *plan, uint64_t bytes);
/* Returns the class that a collective uses for a buffer of this many bytes: its own if there is one, else the size
 * class. */
const struct by_class *by_plan_class_of(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes);
/* Returns the largest buffer for which a collective uses the same class as for this many bytes. */
uint64_t by_plan_class_end(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes);
/* Returns the reported rates of a collective for large buffers: for AllReduce from the plan's facts, else from its own
 * class, or from the facts of collectives without one. */
struct by_plan_rates by_plan_rates_of(const struct by_plan *plan, enum banyan_collective collective);
/* Whether the tree of a per-root class carries what this rank owns: the rank is its root, or a twig of its root. */
bool by_group_is_of(const struct by_group *group, uint32_t rank);
/* Returns the position that has the role of template position u in tree t of a rotated group: u + t, digit by digit. */
uint32_t by_group_translate(const struct by_group *group, uint32_t u, uint32_t t);
/* Returns the template position whose role `position` has in tree t. */
uint32_t by_group_untranslate(const struct by_group *group, uint32_t position, uint32_t t);

/* Returns the parents of all n ranks for control messages, in the tree or around the ring: `up` is where a rank sends
 * them, `down` is from where it receives the answers. The root is its own parent. `ring` requires that the plan has
 * one. */
void by_plan_control_parents(const struct by_plan_control *control, uint32_t n, bool ring, uint32_t *up,
                             uint32_t *down);

/* Copies a plan with its version, facts and origin into an arena of its own. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_copy(const struct by_plan *plan, struct by_plan **out);

struct by_text;
/* Reads JSON as docs/plan-format.md describes it. `source` is the file's name for errors, which name the position:
 * "p.json:3:14: ..." or "p.json: trees[2].up["3"]: ...". The caller owns *out. BANYAN_ERR_PARSE: not in this format;
 * BANYAN_ERR_PLAN: in this format, but the plan cannot run. */
BANYAN_CHECK enum banyan_status by_plan_parse(const char *source, const char *text, size_t length,
                                              struct by_plan **out);
/* Reads a plan from a file; BANYAN_ERR_SYSTEM also. */
BANYAN_CHECK enum banyan_status by_plan_read(const char *path, struct by_plan **out);
/* Adds the plan as one line of JSON without a newline; reading it yields the same version. */
void by_plan_print(const struct by_plan *plan, struct by_text *text);

/* Adds a drawing for users: each tree with its share, its height and its parents for results; long ones are cut. */
BANYAN_CHECK enum banyan_status by_plan_draw(const struct by_plan *plan, struct by_text *text);

/* Return the names that JSON uses: "rank", "helper", "switch", "server"; "tree", "rotated", "exchange". NULL for other
 * values. Static storage. */
const char *by_vertex_kind_name(enum by_vertex_kind kind);
const char *by_group_kind_name(enum by_group_kind kind);
/* Whether a switch of the group adds. */
bool by_group_adds(const struct by_group *group, uint32_t vertex);
/* Returns the interface of switch `at` towards a neighbour; NULL: the plan does not name it. Both are vertices. */
const char *by_group_interface(const struct by_group *group, uint32_t at, uint32_t towards);

/* Makes a built-in plan over n ranks, such as "ring" or "tree:4", see by_plan_builtin_list. The caller owns *out.
 * Memory and time are linear in n. BANYAN_ERR_ARGUMENT: the name is unknown, or not for this n. */
BANYAN_CHECK enum banyan_status by_plan_builtin(const char *name, uint32_t n, struct by_plan **out);
struct by_plan_builtin_entry {
  const char *name;  /* such as "tree" */
  const char *usage; /* such as "tree[:K]" */
  const char *help;  /* one line */
};
/* Returns the i-th built-in; NULL beyond the last. Static storage. */
const struct by_plan_builtin_entry *by_plan_builtin_list(uint32_t i);
/* Makes the plan that BANYAN_PLAN describes: JSON, the name of a built-in, taken over n ranks, or a file: a text with a
 * "/" or a ".", or one that is no built-in's name and can be read. Sets the origin's source. */
BANYAN_CHECK enum banyan_status by_plan_named(const char *text, uint32_t n, struct by_plan **out);

/* Turns a plan whose ranks are hosts into one over the ranks on them: host_of_rank[r] is rank r's host, and every host
 * has a rank. Ranks of a host combine first. If every host has L ranks or more, each group becomes L groups with a
 * slice each: in the j-th, the j-th rank of every host has the host's role and the others are its twigs. Helpers,
 * switches and servers stay: a group with a server stays one group of the whole slice, led by one rank of every host,
 * and by another one in the next such group. Own classes are omitted if they would have too many groups. In the control
 * tree the first rank of each host has the host's role, and the others are below it. The caller owns *out. Cost: ranks
 * times groups. */
BANYAN_CHECK enum banyan_status by_plan_expand(const struct by_plan *over_hosts, const uint32_t *host_of_rank,
                                               uint32_t n_ranks, struct by_plan **out);
/* Removes all own classes, which changes the version, if their trees have more than `max` vertices together, with
 * twigs: these grow with the square of the ranks on a host. */
void by_plan_limit_own(struct by_plan *plan, uint64_t max);
/* Whether the group has vertices that are no ranks. */
bool by_group_has_helpers(const struct by_plan *plan, const struct by_group *group);
/* Copies a plan, with the same groups and shares, without the vertices that are no ranks: the children of a removed
 * vertex form a chain in its place, so that no rank gets more than one additional child. Equal plans give equal
 * results. The caller owns *out. BANYAN_ERR_UNSUPPORTED: a rotated tree has such a vertex. Cost: the plan's size, plus
 * the size of its tree for each removed vertex. */
BANYAN_CHECK enum banyan_status by_plan_among_ranks(const struct by_plan *plan, struct by_plan **out);
/* Like by_plan_among_ranks, but the ranks of a star around a server form a ring in the group's order, not a chain. A
 * ring carries fewer bytes, but cannot replace only the star in a repetition, since it has as many pieces as ranks. */
BANYAN_CHECK enum banyan_status by_plan_in_rings(const struct by_plan *plan, struct by_plan **out);
/* Whether a group's root is a server, so that its inner vertices are switches. */
static inline bool by_group_has_server(const struct by_plan *plan, const struct by_group *group) {
  return group->kind == BY_GROUP_TREE && plan->vertices[group->order[group->root]].kind == BY_VERTEX_SERVER;
}
/* Checks whether trees with a switch or a server can run: single trees with equal `up` and `down`, at the root a server
 * that no other tree has, switches in between, at most BY_PLAN_MAX_HOPS on each path, and at most BY_PLAN_MAX_WORKERS
 * ranks at the leaves, each with any number of twigs. BANYAN_ERR_UNSUPPORTED names group and vertex. */
BANYAN_CHECK enum banyan_status by_plan_check_switches(const struct by_plan *plan);
/* Copies the plan as its ranks see it: in trees through switches they send to the server, which answers. Switches
 * remain as vertices without a tree; groups, shares and the version are the same. The caller owns *out. Fails like
 * by_plan_check_switches. */
BANYAN_CHECK enum banyan_status by_plan_without_switches(const struct by_plan *plan, struct by_plan **out);
/* Makes the default plan: built-ins by size, expanded if there are several hosts. Hosts are any distinct numbers; NULL:
 * all ranks are on one host. `crowded`: ranks share cores, so messages cost more than steps. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_default(uint32_t n_ranks, const uint32_t *host_of_rank, bool crowded,
                                                struct by_plan **out);

/* The methods to sum a job's data among which a planner may choose, with the names that options and settings use. A set
 * of methods is a bit mask. */

enum by_plan_method {
  BY_PLAN_RING = 1 << 0,     /* a chain of ranks for each piece of the buffer */
  BY_PLAN_TREE = 1 << 1,     /* all other trees among ranks, including parameter servers and halving */
  BY_PLAN_HELPERS = 1 << 2,  /* trees over hosts without ranks */
  BY_PLAN_SWITCHES = 1 << 3, /* in-network trees */
  BY_PLAN_ALL_METHODS = (1 << 4) - 1,
};
#define BY_PLAN_METHODS "ring,tree,helpers,switches"
enum { BY_PLAN_METHODS_BYTES = sizeof BY_PLAN_METHODS };

/* Parses one or more names separated by commas: "ring,tree". BANYAN_ERR_ARGUMENT names what is wrong. */
BANYAN_CHECK enum banyan_status by_plan_methods_parse(const char *text, uint32_t *methods);
/* Writes the names for by_plan_methods_parse into out[BY_PLAN_METHODS_BYTES]. Returns out. */
const char *by_plan_methods_print(uint32_t methods, char *out);

#endif
