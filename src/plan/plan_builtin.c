/* Makes the built-in plans. Each is a few lines of arithmetic on positions; rank r is at position r. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plan.h"
#include "plan_make.h"
#include "text.h"

/* The parameter of a built-in: the text behind the colon. */
struct parameter {
  const char *text; /* NULL: there is none */
  uint32_t n;       /* the number of ranks */
};

struct builtin {
  struct by_plan_builtin_entry entry;
  enum banyan_status (*fill)(struct by_plan *plan, const struct parameter *parameter);
};

/* Adds n_groups groups of one kind over all ranks to the class, with equal shares and root 0. */
static enum banyan_status add_groups(struct by_plan *plan, uint32_t n_groups, enum by_group_kind kind,
                                     bool separate_down, struct by_group **out) {
  BY_TRY(by_plan_add_groups(plan, plan->classes, n_groups));
  for (uint32_t i = 0; i < n_groups; i++) {
    struct by_group *group = &plan->classes->groups[i];
    BY_TRY(by_group_init(plan, group, kind, plan->n_ranks, separate_down));
    group->share = 1.0 / n_groups;
    if (kind == BY_GROUP_ROTATED) BY_TRY(by_group_set_radix(plan, group, &plan->n_ranks, 1));
  }
  *out = plan->classes->groups;
  return BANYAN_OK;
}

/* Parses the parameter as an integer; `standard` is the default. */
static enum banyan_status parse_number(const struct parameter *parameter, const char *what, uint32_t standard,
                                       uint32_t min, uint32_t max, uint32_t *out) {
  long value = standard;
  *out = standard;
  if (parameter->text && by_parse_int(what, parameter->text, min, max, &value) != BANYAN_OK)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s", banyan_error_text());
  *out = (uint32_t)value;
  return BANYAN_OK;
}

static enum banyan_status fill_star(struct by_plan *plan, const struct parameter *parameter) {
  struct by_group *group;
  uint32_t root;
  BY_TRY(parse_number(parameter, "the root", 0, 0, parameter->n - 1, &root));
  BY_TRY(add_groups(plan, 1, BY_GROUP_TREE, false, &group));
  group->root = root;
  for (uint32_t u = 0; u < group->n; u++) group->up[u] = root;
  return BANYAN_OK;
}

static enum banyan_status fill_sharded(struct by_plan *plan, const struct parameter *parameter) {
  (void)parameter;
  struct by_group *group;
  return add_groups(plan, 1, BY_GROUP_ROTATED, false, &group); /* A star with root 0 has zeros only. */
}

/*  up:   1 -> 2 -> ... -> n-1 -> 0      down:  0 -> 1 -> ... -> n-1 */
static enum banyan_status fill_ring(struct by_plan *plan, const struct parameter *parameter) {
  (void)parameter;
  struct by_group *group;
  BY_TRY(add_groups(plan, 1, BY_GROUP_ROTATED, true, &group));
  for (uint32_t u = 1; u < group->n; u++) {
    group->up[u] = u + 1 < group->n ? u + 1 : 0;
    group->down[u] = u - 1;
  }
  return BANYAN_OK;
}

static enum banyan_status fill_chain(struct by_plan *plan, const struct parameter *parameter) {
  (void)parameter;
  struct by_group *group;
  BY_TRY(add_groups(plan, 1, BY_GROUP_TREE, false, &group));
  for (uint32_t u = 1; u < group->n; u++) group->up[u] = u - 1;
  return BANYAN_OK;
}

static enum banyan_status fill_tree(struct by_plan *plan, const struct parameter *parameter) {
  struct by_group *group;
  uint32_t k;
  BY_TRY(parse_number(parameter, "the number of children", 2, 1, BY_PLAN_MAX_VERTICES, &k));
  BY_TRY(add_groups(plan, 1, BY_GROUP_TREE, false, &group));
  for (uint32_t u = 1; u < group->n; u++) group->up[u] = (u - 1) / k;
  return BANYAN_OK;
}

/* Parent of i in the binary tree whose in-order numbering is 1 .. n; 0 for the root. Odd numbers are leaves.
 *
 *          4          The lowest set bit is a vertex's height. Where the parent of the full tree is beyond n,
 *        /   \        the next ancestor on the left takes its place.
 *       2     6
 *      / \   /        */
static uint32_t get_in_order_parent(uint32_t i, uint32_t n) {
  uint32_t bit = i & -i, left = i ^ bit, parent = left | bit << 1;
  return parent <= n ? parent : left;
}

/* Two binary trees; the second is the mirror image of the first (n even) or shifted by one (n odd), so that a rank with
 * children in one is a leaf of the other. Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast,
 * reduction and scan, Parallel Computing 35 (2009). */
static enum banyan_status fill_double_tree(struct by_plan *plan, const struct parameter *parameter) {
  struct by_group *groups;
  uint32_t n = parameter->n;
  BY_TRY(add_groups(plan, 2, BY_GROUP_TREE, false, &groups));
  for (uint32_t second = 0; second < 2; second++) {
    struct by_group *group = &groups[second];
    for (uint32_t i = 1; i <= n; i++) {
      uint32_t parent = get_in_order_parent(i, n), self = i - 1;
      uint32_t above = parent ? parent - 1 : self;
      if (second) {
        self = n % 2 ? (self + 1) % n : n - 1 - self;
        above = n % 2 ? (above + 1) % n : n - 1 - above;
      }
      group->up[self] = above;
      if (!parent) group->root = self;
    }
  }
  return BANYAN_OK;
}

/* Halving: among the m positions that still take part, the upper half sends to the lower half and leaves. So the first
 * messages are the largest, and there are ceil(log2 n) steps for any n. With a power of two and XOR this is recursive
 * halving (Rabenseifner 2004), else the circulant form of Bruck et al. 1997 and Träff 2024. */
static enum banyan_status fill_halving(struct by_plan *plan, const struct parameter *parameter) {
  struct by_group *group;
  BY_TRY(add_groups(plan, 1, BY_GROUP_ROTATED, false, &group));
  uint32_t radix[BY_PLAN_MAX_DIGITS], digits = 0;
  if ((parameter->n & (parameter->n - 1)) == 0) {
    for (uint32_t n = group->n; n > 1; n /= 2) radix[digits++] = 2;
    BY_TRY(by_group_set_radix(plan, group, radix, digits));
  }
  for (uint32_t m = group->n; m > 1;) {
    uint32_t half = m - m / 2;
    for (uint32_t u = half; u < m; u++) group->up[u] = u - half;
    m = half;
  }
  return BANYAN_OK;
}

/* Adds an exchange over positions 0 .. n - 1; the other ranks are twigs of the first ones. */
static enum banyan_status add_exchange(struct by_plan *plan, uint32_t n, const uint32_t *radix, uint32_t n_radix) {
  struct by_group *group;
  uint32_t extra = plan->n_ranks - n;
  BY_TRY(add_groups(plan, 1, BY_GROUP_EXCHANGE, false, &group));
  group->n = n;
  BY_TRY(by_group_set_radix(plan, group, radix, n_radix));
  group->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig, extra);
  if (!group->twigs) return by_plan_no_memory();
  group->n_twigs = extra;
  for (uint32_t i = 0; i < extra; i++) group->twigs[i] = (struct by_twig){.child = n + i, .parent = i % n};
  return BANYAN_OK;
}

/* Searches the fewest digits 2 .. max whose product is n, large ones first; among equals the smallest sum, which is the
 * number of messages. n_best stays 0 if there are none. */
struct factors {
  uint32_t digit[BY_PLAN_MAX_DIGITS], best[BY_PLAN_MAX_DIGITS];
  uint32_t n_best, best_sum;
};

static void find_factors(struct factors *f, uint32_t n, uint32_t max, uint32_t depth, uint32_t sum) {
  if (n == 1) {
    if (f->n_best && (depth > f->n_best || (depth == f->n_best && sum >= f->best_sum))) return;
    memcpy(f->best, f->digit, sizeof f->best);
    f->n_best = depth;
    f->best_sum = sum;
    return;
  }
  if (depth == BY_PLAN_MAX_DIGITS || (f->n_best && depth >= f->n_best)) return;
  for (uint32_t d = max < n ? max : n; d >= 2; d--) {
    if (n % d) continue;
    f->digit[depth] = d;
    find_factors(f, n / d, d, depth + 1, sum + d);
  }
}

static enum banyan_status fill_exchange(struct by_plan *plan, const struct parameter *parameter) {
  struct factors f = {.n_best = 0};
  uint32_t k, n = parameter->n;
  BY_TRY(parse_number(parameter, "the largest digit", n > 2 ? n : 2, 2, BY_PLAN_MAX_VERTICES, &k));
  for (; n > 1; n--) {
    find_factors(&f, n, k, 0, 0);
    if (f.n_best) break;
  }
  return add_exchange(plan, n, f.best, f.n_best);
}

static enum banyan_status fill_doubling(struct by_plan *plan, const struct parameter *parameter) {
  return fill_exchange(plan, &(struct parameter){.text = "2", .n = parameter->n});
}

/* A ring along each row to column 0, then one along column 0; results return the same way. Position x + A * y is in
 * column x of row y. */
static enum banyan_status fill_ring2d(struct by_plan *plan, const struct parameter *parameter) {
  struct by_group *group;
  uint32_t a = 0, b = 0;
  int end = 0;
  if (!parameter->text || sscanf(parameter->text, "%5ux%5u%n", &a, &b, &end) != 2 || parameter->text[end] || !a || !b ||
      (uint64_t)a * b != parameter->n)
    return by_fail(BANYAN_ERR_ARGUMENT, "its size is \"%.32s\", must be AxB with A * B = %u",
                   parameter->text ? parameter->text : "", parameter->n);
  BY_TRY(add_groups(plan, 1, BY_GROUP_ROTATED, true, &group));
  BY_TRY(by_group_set_radix(plan, group, (uint32_t[]){a, b}, 2));
  for (uint32_t u = 1; u < group->n; u++) {
    uint32_t x = u % a, y = u / a;
    group->up[u] = x ? (x + 1) % a + y * a : (y + 1) % b * a;
    group->down[u] = x ? u - 1 : u - a;
  }
  return BANYAN_OK;
}

static const struct builtin builtins[] = {
    {{"star", "star[:ROOT]", "all ranks send to one rank (a parameter server)"}, fill_star},
    {{"sharded", "sharded", "a star at every rank, one n-th of the buffer each"}, fill_sharded},
    {{"ring", "ring", "n chains around a ring, one n-th each: fewest bytes, most steps"}, fill_ring},
    {{"chain", "chain", "one chain: a pipeline through all ranks"}, fill_chain},
    {{"tree", "tree[:K]", "one tree with K (2) children per rank"}, fill_tree},
    {{"double-tree", "double-tree", "two binary trees; inner ranks of one are leaves of the other"}, fill_double_tree},
    {{"halving", "halving", "recursive halving and doubling: n binomial trees"}, fill_halving},
    {{"doubling", "doubling", "recursive doubling: pairs exchange, log2 n steps, for small buffers"}, fill_doubling},
    {{"exchange", "exchange[:K]", "everyone with everyone, in one step or in groups of up to K"}, fill_exchange},
    {{"ring2d", "ring2d:AxB", "rings along the rows, then the columns, of a grid or torus"}, fill_ring2d},
};
enum { N_BUILTINS = sizeof builtins / sizeof builtins[0] };

const struct by_plan_builtin_entry *by_plan_builtin_list(uint32_t i) {
  return i < N_BUILTINS ? &builtins[i].entry : NULL;
}

/* Finds the built-in for "tree" or "tree:4"; NULL: none. */
static const struct builtin *find_builtin(const char *name) {
  size_t length = strcspn(name, ":");
  for (size_t i = 0; i < N_BUILTINS; i++)
    if (strlen(builtins[i].entry.name) == length && !memcmp(builtins[i].entry.name, name, length)) return &builtins[i];
  return NULL;
}

static enum banyan_status fail_unknown(const char *name) {
  const char *names[N_BUILTINS];
  char word[64], usages[32 * N_BUILTINS];
  size_t length = 0;
  for (size_t i = 0; i < N_BUILTINS; i++) {
    names[i] = builtins[i].entry.name;
    length += (size_t)snprintf(usages + length, sizeof usages - length, "%s%s", i ? ", " : "", builtins[i].entry.usage);
  }
  snprintf(word, sizeof word, "%.*s", (int)strcspn(name, ":"), name);
  const char *near = by_suggest(word, names, N_BUILTINS);
  return by_fail(BANYAN_ERR_ARGUMENT, "there is no built-in plan \"%.64s\"; %s%s%s are %s", name,
                 near ? "did you mean " : "", near ? near : "", near ? "? There" : "there", usages);
}

static enum banyan_status fill_plan(struct by_plan *plan, const struct builtin *builtin,
                                    const struct parameter *parameter) {
  if (parameter->text && !strchr(builtin->entry.usage, ':'))
    return by_fail(BANYAN_ERR_ARGUMENT, "takes no parameter, got \":%.32s\"", parameter->text);
  BY_TRY(by_plan_add_vertices(plan, parameter->n, 0));
  BY_TRY(by_plan_add_classes(plan, 1, 0));
  return builtin->fill(plan, parameter);
}

enum banyan_status by_plan_builtin(const char *name, uint32_t n, struct by_plan **out) {
  const char *colon = strchr(name, ':');
  const struct builtin *builtin = find_builtin(name);
  if (!builtin) return fail_unknown(name);
  struct by_plan *plan;
  BY_TRY(by_plan_create(name, &plan));
  enum banyan_status status = fill_plan(plan, builtin, &(struct parameter){.text = colon ? colon + 1 : NULL, .n = n});
  if (status != BANYAN_OK) (void)by_fail_within(status, "built-in plan %s", builtin->entry.name);
  return by_plan_end(plan, status, out);
}

enum banyan_status by_plan_named(const char *text, uint32_t n, struct by_plan **out) {
  /* Built-ins come first: a file in the current folder must not change the meaning of a name. */
  bool is_file = strpbrk(text, "/.") || (!find_builtin(text) && access(text, R_OK) == 0);
  enum banyan_plan_source source = *text == '{' ? BANYAN_PLAN_JSON : is_file ? BANYAN_PLAN_FILE : BANYAN_PLAN_BUILTIN;
  if (source == BANYAN_PLAN_JSON)
    BY_TRY(by_plan_parse("plan", text, strlen(text), out));
  else if (source == BANYAN_PLAN_FILE)
    BY_TRY(by_plan_read(text, out));
  else
    BY_TRY(by_plan_builtin(text, n, out));
  (*out)->origin.source = source;
  return BANYAN_OK;
}
