/* A plan: how a buffer is summed, as weighted aggregation trees. An immutable value in one arena; made by a parser, a
 * built-in or a planner, checked by by_plan_validate, read by the schedule compiler. A plan has size classes (one is
 * usual), and classes of its own for collectives that use other trees; a class has groups whose shares sum to 1; a
 * group is one tree, a tree rotated over an order of vertices, or an exchange. */
#ifndef BY_PLAN_PLAN_H
#define BY_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "arena.h"
#include "fail.h"

/* Of an in-network tree: ranks at its leaves, and switches on a rank's way. */
enum { BY_PLAN_MOST_WORKERS = 1024, BY_PLAN_MOST_HOPS = 8 };

enum by_vertex_kind { BY_VERTEX_RANK, BY_VERTEX_HELPER, BY_VERTEX_SWITCH, BY_VERTEX_SERVER };

struct by_vertex {
  const char *name;
  enum by_vertex_kind kind;
  uint32_t rank; /* of a BY_VERTEX_RANK; else UINT32_MAX */
};

/* A vertex that hangs on another one in every tree of its group: what it has
 * goes up before anything else, the result comes down after everything else. */
struct by_twig {
  uint32_t child, parent; /* vertices; the parent stands in the group's order */
};

/* The interface of a switch by which it reaches its parent or a child. */
struct by_group_port {
  uint32_t at, towards; /* vertices */
  const char *interface;
};

enum by_group_kind {
  BY_GROUP_TREE,     /* one tree */
  BY_GROUP_ROTATED,  /* n trees: the template translated to each position; share / n each */
  BY_GROUP_EXCHANGE, /* n trees over shared bytes: every position ends up with the sum */
};

/* Positions are numbers 0 .. n - 1; order[] gives the vertex at each position.
 *
 * Rotation: positions are written as mixed-radix digits (radix[0] the lowest, product n); tree t has position (u + t
 * digit by digit, without carry) where the template has u. radix {n} is the cyclic rotation of a ring, {2,2,2} is XOR.
 * So the template is tree 0, and tree t's root is root + t.
 *
 * Exchange: step i sums over all values of digit i among the radix[i] positions that agree in all other digits, in
 * digit order, everyone with everyone. {2,2,2} is recursive doubling, {n} one direct exchange. */
struct by_group {
  enum by_group_kind kind;
  double share; /* of the class's buffer, > 0 */
  uint32_t n;
  uint32_t *order;
  uint32_t root;  /* the template's; 0 .. n - 1 */
  uint32_t *up;   /* parent position on the way up, root: itself; NULL for an exchange */
  uint32_t *down; /* parent position on the way down: `up` itself, or other edges; NULL for an exchange */
  uint32_t n_radix;
  uint32_t *radix; /* each >= 2, so none for n = 1; not for one tree */
  uint32_t n_twigs;
  struct by_twig *twigs; /* ascending by child; groups with equal ones may have the same array */
  uint32_t n_forwards;
  uint32_t *forwards; /* vertices, ascending: switches that do not add. Of a tree, as are ports */
  uint32_t n_ports;
  struct by_group_port *ports; /* ascending by `at`, then `towards`; those that are known */
  double rate;                 /* bit/s the planner promised; 0: unknown */
};

/* A size class, or a class of its own for some collectives.
 *
 * Per root: every tree carries only what its root owns, or the ranks of its root's host (twigs of the root): in an
 * allgather or a reduce_scatter their blocks, in a broadcast or a reduce with such a root everything. Each rank owns
 * trees whose shares sum to 1. */
struct by_class {
  const char *part;     /* the built-in that it is made of, in static storage; NULL: not known. Not part of the hash */
  uint64_t up_to;       /* bytes of the whole buffer, inclusive; UINT64_MAX in the last class */
  uint32_t collectives; /* of a class of its own: bits 1 << enum banyan_collective; else 0 */
  uint64_t above;       /* of a class of its own: it is for larger buffers only, in bytes */
  bool per_root;        /* of a class of its own */
  double throughput, bound; /* of a class of its own, of which by_plan_facts are not; not part of the hash */
  uint32_t n_groups;
  struct by_group *groups;
};

/* Those that may have classes of their own: reduce, broadcast, reduce_scatter, allgather. */
enum {
  BY_PLAN_OWN_COLLECTIVES =
      1 << BANYAN_REDUCE | 1 << BANYAN_BROADCAST | 1 << BANYAN_REDUCE_SCATTER | 1 << BANYAN_ALLGATHER
};

/* Along which ranks negotiate what is ready (controller.h): a tree, and perhaps a ring that the network holds. */
struct by_plan_control {
  uint32_t *parent; /* of each rank in the tree, the root's is itself; NULL: the plan has none, nor a ring */
  uint32_t *ring;   /* the ranks in their order on it, the last one is the root; NULL: none is known */
  uint32_t fan_out; /* the most children that the tree was to have; >= 1 */
  bool use_ring;    /* not the tree; the planner makes none of these, as trees are faster */
};

/* Bit/s of input per rank: promised, and what no plan can exceed; 0: not known. */
struct by_plan_rates {
  double throughput, bound;
};

/* What a planner reported about its plan; 0: nothing. Not part of the hash. */
struct by_plan_facts {
  double throughput, bound;                        /* of an AllReduce, as in by_plan_rates */
  double ratio;                                    /* throughput / bound */
  double seconds;                                  /* the planner took */
  struct by_plan_rates others[BANYAN_COLLECTIVES]; /* of BY_PLAN_OWN_COLLECTIVES that use the size classes */
};

/* Where a plan comes from. Not part of the hash. */
struct by_plan_origin {
  enum banyan_plan_source source;
  /* The user chose this plan, which nothing but the user replaces; of a manager's plan: the user allows it to replace
   * such a plan. */
  bool supplied;
};

struct by_plan {
  const char *name;
  uint32_t n_ranks; /* vertices of kind rank, whose numbers are 0 .. n_ranks - 1 */
  uint32_t n_vertices;
  struct by_vertex *vertices; /* rank r is vertex r; the others follow, ascending by name (strcmp) */
  uint32_t n_classes, n_own;
  struct by_class *classes; /* n_classes for all collectives, up_to ascending; then n_own of some collectives */
  size_t chunk;             /* most bytes of a message in one frame; 0: the transport's choice */
  uint32_t version;         /* hash of the contents; equal plans have equal versions on all ranks */
  struct by_plan_control control;
  struct by_plan_facts facts;
  struct by_plan_origin origin;
  uint32_t holders; /* besides the one who made it; of several threads */
  struct by_arena arena;
};

/* Most of what one plan may hold; more is refused before memory is taken. */
enum {
  BY_PLAN_MOST_VERTICES = 65536,
  BY_PLAN_MOST_GROUPS = 4096, /* of all classes together */
  BY_PLAN_MOST_CLASSES = 64,
  BY_PLAN_MOST_DIGITS = 16,      /* of a radix */
  BY_PLAN_MOST_PLACES = 4 << 20, /* vertices of all trees of a file together */
  BY_PLAN_MOST_NAME = 255,       /* bytes, UTF-8 without control characters */
  BY_PLAN_MOST_CHUNK = 1 << 30,
};

/* Frees a plan that nobody else holds. NULL is allowed. Any thread. */
void by_plan_destroy(struct by_plan *plan);
/* The same plan for one more holder, who also calls by_plan_destroy; nobody changes the plan or adds to its arena from
 * here on. Any thread. */
struct by_plan *by_plan_hold(const struct by_plan *plan);

/* Whether the plan can run: every tree spans all ranks, is one tree (no cycle, no vertex outside), shares are positive
 * and sum to 1 within 1e-6, radices multiply to n, vertices and twigs are in order, names can be printed, classes of
 * collectives' own have only ranks, and the control tree is one tree of all ranks. The error names class, tree and
 * vertex. All ways to make a plan call it. Cost: the plan's size. */
BANYAN_CHECK enum banyan_status by_plan_validate(const struct by_plan *plan);
/* Hash of everything but the plan's own name, rates and facts; the same on every machine, never 0. Sets nothing. */
uint32_t by_plan_hash(const struct by_plan *plan);
/* The size class for a buffer of so many bytes. */
const struct by_class *by_plan_class(const struct by_plan *plan, uint64_t bytes);
/* The class that a collective uses for a buffer of so many bytes: its own if there is one, else the size class. */
const struct by_class *by_plan_class_of(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes);
/* The largest buffer up to which a collective uses the same class as for one of so many bytes. */
uint64_t by_plan_class_end(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes);
/* What a planner reported of a collective with large buffers: of allreduce by the plan's facts, else by the class of
 * its own, if there is one, or the facts of those without. */
struct by_plan_rates by_plan_rates_of(const struct by_plan *plan, enum banyan_collective collective);
/* Whether the tree of a class per root is for what this rank owns: the rank is its root, or a twig of that. */
bool by_group_is_of(const struct by_group *group, uint32_t rank);
/* Position u of the template in tree t of a rotated group: u + t digit by digit. */
uint32_t by_group_translate(const struct by_group *group, uint32_t u, uint32_t t);
/* Its reverse: which template position `position` plays in tree t. */
uint32_t by_group_untranslate(const struct by_group *group, uint32_t position, uint32_t t);

/* The parents of all n ranks of a plan with a control tree, in the tree or round the ring: where control messages go on
 * their way up, and come from on their way down. The root is its own. `ring` only if it has one. */
void by_plan_control_ways(const struct by_plan_control *control, uint32_t n, bool ring, uint32_t *up, uint32_t *down);

/* The same plan with the same version, facts and origin, in an arena of its own. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_copy(const struct by_plan *plan, struct by_plan **out);

struct by_text;
/* Reads JSON as docs/plan-format.md describes it. `source` is the file's name in errors, which say where:
 * "p.json:3:14: ..." or "p.json: trees[2].up["3"]: ...". The caller owns *out.
 * BANYAN_ERR_PARSE: not in this format; BANYAN_ERR_PLAN: it is, but the plan cannot run. */
BANYAN_CHECK enum banyan_status by_plan_parse(const char *source, const char *text, size_t length,
                                              struct by_plan **out);
/* The same from a file; also BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_plan_read(const char *path, struct by_plan **out);
/* Adds the plan as one line of JSON, without a newline; read again it has the same version. */
void by_plan_print(const struct by_plan *plan, struct by_text *text);

/* Adds a drawing for people: each tree with its share, height and way down, long ones cut short. */
BANYAN_CHECK enum banyan_status by_plan_draw(const struct by_plan *plan, struct by_text *text);

/* "rank", "helper", "switch", "server"; "tree", "rotated", "exchange": as in JSON. NULL beyond. Static storage. */
const char *by_vertex_kind_name(enum by_vertex_kind kind);
const char *by_group_kind_name(enum by_group_kind kind);
/* Whether a switch of the group adds. */
bool by_group_adds(const struct by_group *group, uint32_t vertex);
/* The interface of switch `at` towards a neighbour, NULL if the plan does not name it; both are vertices. */
const char *by_group_interface(const struct by_group *group, uint32_t at, uint32_t towards);

/* One of the plans that need no file, over n ranks: "ring", "tree:4" and so on, see by_plan_builtin_list. The caller
 * owns *out. Memory and time grow with n only. BANYAN_ERR_ARGUMENT: no such name, or not for this n. */
BANYAN_CHECK enum banyan_status by_plan_builtin(const char *name, uint32_t n, struct by_plan **out);
struct by_plan_builtin_entry {
  const char *name;  /* "tree" */
  const char *usage; /* "tree[:K]" */
  const char *help;  /* one line */
};
/* The i-th built-in; NULL beyond the last. Static storage. */
const struct by_plan_builtin_entry *by_plan_builtin_list(uint32_t i);
/* What BANYAN_PLAN may hold: a plan's JSON, a built-in's name, taken over n ranks, or a file, which is what has a "/"
 * or a "." in it, or is no built-in's name and can be read. Sets the origin's source. */
BANYAN_CHECK enum banyan_status by_plan_named(const char *text, uint32_t n, struct by_plan **out);

/* A plan whose ranks are hosts becomes one over the ranks that run on them: host_of_rank[r] is rank r's host, and every
 * host has a rank. Ranks of a host combine first. With L ranks on the host that has fewest, each group becomes L
 * groups of a slice each: in the j-th, the j-th rank of every host takes the host's place and the others are its
 * twigs. Helpers, switches and servers stay: a group with a server remains one, of the whole slice, which one
 * rank of every host leads, another one in the next such group. Classes for some collectives are left out where their
 * groups would be too many. In the control tree the first rank of each host takes the host's place, and the others are
 * below it. The caller owns *out. Cost: ranks times groups. */
BANYAN_CHECK enum banyan_status by_plan_expand(const struct by_plan *over_hosts, const uint32_t *host_of_rank,
                                               uint32_t n_ranks, struct by_plan **out);
/* Leaves out all classes for some collectives, which changes the version, if their trees have more than `most` vertices
 * together, with twigs: these grow with the ranks of a host squared. */
void by_plan_limit_own(struct by_plan *plan, uint64_t max);
/* Whether a vertex of this group is no rank. */
bool by_group_has_helpers(const struct by_plan *plan, const struct by_group *group);
/* The same plan, group by group and share by share, with everything taken out that is no rank: what hung below it hangs
 * in a chain in its place, so that no rank gains more than one child by it. Equal plans give equal ones. The caller
 * owns *out. BANYAN_ERR_UNSUPPORTED: a rotated tree has such a vertex. Cost: the plan's size, and for each vertex that
 * is taken out its tree's. */
BANYAN_CHECK enum banyan_status by_plan_among_ranks(const struct by_plan *plan, struct by_plan **out);
/* The same, but the ranks of a star around a server form a ring in the group's order, not a chain: it carries fewer
 * bytes, but cannot be repeated in place of the star alone, since it has as many pieces as ranks. */
BANYAN_CHECK enum banyan_status by_plan_in_rings(const struct by_plan *plan, struct by_plan **out);
/* Whether a group's root is a server, so that its inner vertices are switches. */
bool by_group_has_server(const struct by_plan *plan, const struct by_group *group);
/* Whether trees with a switch or a server can be run: single trees, the same up and down, at the root a server that no
 * other tree has, switches between, at most BY_PLAN_MOST_HOPS on a way, and at most BY_PLAN_MOST_WORKERS ranks at the
 * leaves, each with any number of twigs. BANYAN_ERR_UNSUPPORTED names group and vertex. */
BANYAN_CHECK enum banyan_status by_plan_check_switches(const struct by_plan *plan);
/* The plan as its ranks see it: where it goes through switches they send to the server, which answers. Switches stay as
 * vertices that are in no tree; groups, shares and the version are the same. The caller owns *out. Fails as
 * by_plan_check_switches does. */
BANYAN_CHECK enum banyan_status by_plan_without_switches(const struct by_plan *plan, struct by_plan **out);
/* The plan that is used when none is given: built-ins by size, expanded where there are several hosts. Hosts are any
 * numbers that differ; NULL: all ranks are on one host. `crowded`: ranks share cores, so messages cost more than
 * steps. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_plan_default(uint32_t n_ranks, const uint32_t *host_of_rank, bool crowded,
                                                struct by_plan **out);

#endif
