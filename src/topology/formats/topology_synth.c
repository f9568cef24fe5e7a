#include "topology_synth.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"
#include "topology_formats.h"
#include "topology_shapes.h"

enum { MOST_WORDS = 16 };

struct kind {
  struct by_topology_kind entry;
  uint32_t least_sizes, most_sizes, least; /* how many sizes there are, and how small they may be */
  const char *options;                     /* of the table below, separated by spaces */
  by_shape_make *make;
};

static const struct kind kinds[] = {
    {{"star", "star:N[,nic=RATES][,helpers=K][,adds=all]", "N hosts at one switch"},
     1,
     1,
     1,
     "nic helpers adds delay",
     by_make_star},
    {{"clos", "clos:racks=R,hosts=H[,nic=RATE][,oversub=F][,spines=S][,helpers=K][,adds=leaf|spine|all]",
      "R racks of H hosts under S spine switches; each rack's links up carry its hosts' sum / F"},
     0,
     2,
     1,
     "racks hosts nic oversub spines helpers adds delay",
     by_make_clos},
    {{"fattree", "fattree:K[,nic=RATE][,adds=leaf|spine|all]",
      "three layers of switches with K ports, K even: K^3 / 4 hosts"},
     1,
     1,
     2,
     "nic adds delay",
     by_make_fattree},
    {{"tree", "tree:AxB[x...][,nic=RATE][,oversub=F][,adds=leaf|spine|all]",
      "a switch with A switches below, ... with B hosts each; each link up carries what is below / F"},
     1,
     BY_MOST_SIZES,
     1,
     "nic oversub adds delay",
     by_make_tree},
    {{"sites", "sites:SxH[,lan=RATE][,wan=RATE][,rtt=TIME][,helpers=K]",
      "S sites of H hosts at a router each; a wan link between every two of them"},
     2,
     2,
     1,
     "lan wan rtt helpers adds delay",
     by_make_sites},
    {{"mesh", "mesh:N[,nic=RATES][,link=RATE][,helpers=K]",
      "N hosts, a link between every two; a host sends and receives no more than its nic allows"},
     1,
     1,
     1,
     "nic link helpers delay",
     by_make_mesh},
    {{"ring", "ring:N[,link=RATES]", "N hosts in a ring"}, 1, 1, 3, "link delay", by_make_ring},
    {{"line", "line:N[,link=RATES]", "N hosts in a line"}, 1, 1, 2, "link delay", by_make_line},
    {{"torus", "torus:AxB[xC][,link=RATE]", "A x B (x C) hosts, each linked to the next in each direction, all round"},
     2,
     3,
     1,
     "link delay",
     by_make_torus},
    {{"random", "random:N[,degree=D][,link=RATES][,seed=N][,helpers=K]",
      "N hosts with D links each on average, connected, each at random and of one of the RATES"},
     1,
     1,
     2,
     "degree link seed helpers delay",
     by_make_random},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

enum option_kind { COUNT, RATE, RATES, TIME, FACTOR, LEVELS };

static const struct option {
  const char *name;
  enum option_kind kind;
  size_t offset;
  long least, most;
} options[] = {
    {"racks", COUNT, offsetof(struct by_shape, size[0]), 1, BY_TOPOLOGY_MOST_NODES},
    {"hosts", COUNT, offsetof(struct by_shape, size[1]), 1, BY_TOPOLOGY_MOST_NODES},
    {"spines", COUNT, offsetof(struct by_shape, spines), 1, BY_TOPOLOGY_MOST_NODES},
    {"helpers", COUNT, offsetof(struct by_shape, helpers), 0, BY_TOPOLOGY_MOST_NODES},
    {"degree", COUNT, offsetof(struct by_shape, degree), 1, BY_TOPOLOGY_MOST_NODES},
    {"seed", COUNT, offsetof(struct by_shape, seed), 0, INT32_MAX},
    {"nic", RATES, offsetof(struct by_shape, nic), 0, 0},
    {"link", RATES, offsetof(struct by_shape, link), 0, 0},
    {"lan", RATE, offsetof(struct by_shape, lan), 0, 0},
    {"wan", RATE, offsetof(struct by_shape, wan), 0, 0},
    {"rtt", TIME, offsetof(struct by_shape, rtt), 0, 0},
    {"delay", TIME, offsetof(struct by_shape, delay), 0, 0},
    {"oversub", FACTOR, offsetof(struct by_shape, oversub), 0, 0},
    {"adds", LEVELS, offsetof(struct by_shape, adds), 0, 0},
};

/* What is being read; `word` is cut out of a copy. */
struct reader {
  const struct kind *kind;
  struct by_shape shape;
};

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

static enum banyan_status no_kind(const char *text) {
  const char *names[N_KINDS], *near;
  char word[BY_TOPOLOGY_MOST_NAME + 1];
  struct by_text list;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ":"), text);
  for (size_t i = 0; i < N_KINDS; i++) names[i] = kinds[i].entry.name;
  near = by_suggest(word, names, N_KINDS);
  by_text_init(&list);
  for (size_t i = 0; i < N_KINDS; i++) by_text_add(&list, "%s%s", i ? ", " : "", names[i]);
  enum banyan_status status =
      by_fail(BANYAN_ERR_ARGUMENT, "there is no topology \"%.64s\"%s%s%s there are %s", word,
              near ? "; did you mean " : "", near ? near : "", near ? "?" : ";", by_text_get(&list));
  by_text_fini(&list);
  return status;
}

/* --- options --- */

static enum banyan_status take_rate(const char *text, double *out) {
  BY_TRY(by_parse_rate(text, out));
  return *out > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "is 0, must be more than 0");
}

/* "1g/1g/200m" */
static enum banyan_status take_rates(char *text, struct by_rates *out) {
  char *kept = NULL;
  out->n = 0;
  for (char *word = strtok_r(text, "/", &kept); word; word = strtok_r(NULL, "/", &kept)) {
    if (out->n == BY_MOST_RATES) return by_fail(BANYAN_ERR_PARSE, "more than %d rates", BY_MOST_RATES);
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

static enum banyan_status take_count(const struct option *option, const char *text, uint32_t *out) {
  long value = 0;
  BY_TRY(by_parse_int(option->name, text, option->least, option->most, &value));
  *out = (uint32_t)value;
  return BANYAN_OK;
}

static enum banyan_status take_value(const struct option *option, char *text, struct by_shape *shape) {
  void *member = (char *)shape + option->offset;
  enum banyan_status status = BANYAN_OK;
  switch (option->kind) {
  case COUNT: return take_count(option, text, member);
  case RATE: status = take_rate(text, member); break;
  case RATES: status = take_rates(text, member); break;
  case TIME: status = by_parse_seconds(text, member); break;
  case FACTOR: status = take_factor(text, member); break;
  case LEVELS: status = take_levels(text, member); break;
  }
  return status == BANYAN_OK ? BANYAN_OK : by_fail_within(status, "%s", option->name);
}

/* The kind's option of that name; else says which there are. */
static enum banyan_status find_option(const struct kind *kind, const char *name, const struct option **out) {
  char copy[128], *kept = NULL;
  const char *names[MOST_WORDS];
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

static enum banyan_status take_option(struct reader *reader, char *word, char *value) {
  const struct option *option = NULL;
  *value++ = '\0';
  BY_TRY(find_option(reader->kind, word, &option));
  return take_value(option, value, &reader->shape);
}

/* "16x16" */
static enum banyan_status take_sizes(struct reader *reader, char *word) {
  struct by_shape *shape = &reader->shape;
  char *kept = NULL;
  for (char *size = strtok_r(word, "x", &kept); size; size = strtok_r(NULL, "x", &kept)) {
    long value = 0;
    if (shape->n_sizes == reader->kind->most_sizes)
      return by_fail(BANYAN_ERR_PARSE, "too many sizes; write it as %s", reader->kind->entry.usage);
    BY_TRY(by_parse_int("the size", size, (long)reader->kind->least, BY_TOPOLOGY_MOST_NODES, &value));
    shape->size[shape->n_sizes++] = (uint32_t)value;
  }
  return BANYAN_OK;
}

static enum banyan_status take_words(struct reader *reader, char *text) {
  char *kept = NULL;
  bool first = true;
  for (char *word = strtok_r(text, ",", &kept); word; word = strtok_r(NULL, ",", &kept), first = false) {
    char *value = strchr(word, '=');
    if (!value && !first) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is no option: write name=value", word);
    BY_TRY(value ? take_option(reader, word, value) : take_sizes(reader, word));
  }
  return BANYAN_OK;
}

static enum banyan_status take_shape(struct reader *reader, char *text) {
  const struct kind *kind = reader->kind;
  struct by_shape *shape = &reader->shape;
  BY_TRY(take_words(reader, text));
  bool sized = shape->n_sizes >= kind->least_sizes;
  for (uint32_t i = 0; i < 2; i++) sized = sized && (kind->least_sizes > 0 || shape->size[i] > 0);
  return sized ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "which size? Write it as %s", kind->entry.usage);
}

static enum banyan_status make(const struct reader *reader, const char *text, struct by_topology **out) {
  struct by_topology_builder builder;
  BY_TRY(by_topology_builder_init(&builder, text));
  enum banyan_status status = reader->kind->make(&builder, &reader->shape);
  if (status == BANYAN_OK) status = by_topology_builder_finish(&builder, NULL, out);
  by_topology_builder_fini(&builder);
  return status;
}

enum banyan_status by_topology_synthesise(const char *text, struct by_topology **out) {
  char copy[BY_TOPOLOGY_MOST_NAME + 1];
  struct reader reader = {.kind = find_kind(text)};
  reader.shape = (struct by_shape){.nic = {.rate = {10e9}, .n = 1}, .lan = 10e9, .wan = 1e9, .oversub = 1, .seed = 1};
  if (!reader.kind) return no_kind(text);
  const char *name = reader.kind->entry.name, *rest = text + strlen(name);
  if (strlen(text) > BY_TOPOLOGY_MOST_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the text is too long: most are %d bytes", name, BY_TOPOLOGY_MOST_NAME);
  snprintf(copy, sizeof copy, "%s", *rest ? rest + 1 : "");
  enum banyan_status status = take_shape(&reader, copy);
  if (status == BANYAN_OK) status = make(&reader, text, out);
  if (status == BANYAN_OK || status == BANYAN_ERR_NO_MEMORY) return status;
  return by_fail_within(BANYAN_ERR_ARGUMENT, "%s", name);
}

/* What looks like a file's name, with options or without, is one, whether it is there or not; a kind's options may hold
 * a point too. */
static bool is_file(const char *text) {
  return strcspn(text, "./?") < strcspn(text, ":=");
}

enum banyan_status by_topology_named(const char *text, struct by_topology **out) {
  if (text[strspn(text, " \t\r\n")] == '{') return by_topology_parse("topology", text, strlen(text), out);
  if (by_topology_is_kind(text)) return by_topology_synthesise(text, out);
  if (is_file(text) || access(text, R_OK) == 0) return by_topology_read(text, out);
  enum banyan_status status = by_topology_synthesise(text, out);
  return by_fail(status, "%s, and there is no file of that name", banyan_error_text());
}
