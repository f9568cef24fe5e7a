/* Detects the format of a topology, reads edge lists, and reads files and folders. */
#include "topology_formats.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "log.h"
#include "text.h"
#include "topology_reader.h"

enum { MAX_PATH = 4096, MAX_FILES = 16384 };

/* --- Edge lists. --- */

/* Edge lists: a line `n m`, then m lines `u v capacity_Gbit_per_s latency_ms` for links with that capacity in each
 * direction between nodes numbered 0 to n - 1 (without a latency: 0), and anywhere behind the first line `nic v
 * capacity_Gbit_per_s` for the limit of all links of a node together, in each direction. All nodes are hosts that take
 * part, named by their number. Empty lines and text behind a "#" are ignored. If every link occurs in both directions,
 * the lines are directions: each two lines are one link. No options. */
enum { MAX_LINE = 512, MAX_WORDS = 4 };
static const double gigabit = 1e9, millisecond = 1e-3;

struct line {
  uint32_t u, v;
  double capacity, delay;
};

struct reader {
  struct by_lines lines;
  char copy[MAX_LINE + 1]; /* a copy of the line, split into words */
  const char *words[MAX_WORDS];
  int n_words; /* MAX_WORDS + 1: there are more */
  long nodes, links;
  struct line *drafts;
  uint32_t read, allocated; /* number of drafts, and of those allocated */
  struct by_topology_builder builder;
};

#define bad(reader, ...) by_lines_fail(&(reader)->lines, __VA_ARGS__)

/* Reads the next line that is not empty; n_words is 0 at the end. */
static enum banyan_status next_line(struct reader *r) {
  size_t length;
  char *kept = NULL;
  r->n_words = 0;
  for (const char *line; r->n_words == 0 && (line = by_lines_next(&r->lines, &length)) != NULL;) {
    if (length > MAX_LINE || memchr(line, '\0', length))
      return bad(r, "is no line of an edge list: %s", length > MAX_LINE ? "it is too long" : "it holds a NUL");
    memcpy(r->copy, line, length);
    r->copy[length] = '\0';
    r->copy[strcspn(r->copy, "#")] = '\0';
    for (char *word = strtok_r(r->copy, " \t\r", &kept); word; word = strtok_r(NULL, " \t\r", &kept)) {
      if (r->n_words < MAX_WORDS) r->words[r->n_words] = word;
      if (r->n_words <= MAX_WORDS) r->n_words++;
    }
  }
  return BANYAN_OK;
}

static enum banyan_status take_int(const struct reader *r, const char *what, const char *word, long min, long max,
                                   long *out) {
  if (by_parse_int(what, word, min, max, out) == BANYAN_OK) return BANYAN_OK;
  return by_fail_within(BANYAN_ERR_PARSE, "%s:%zu", r->lines.source, r->lines.number);
}

static enum banyan_status take_number(const struct reader *r, const char *what, const char *word, double *out) {
  if (by_parse_number(word, out) == BANYAN_OK && *out >= 0) return BANYAN_OK;
  return bad(r, "%s: \"%.64s\" is not a number of 0 or more", what, word);
}

static enum banyan_status take_capacity(const struct reader *r, const char *word, double *out) {
  BY_TRY(take_number(r, "the capacity", word, out));
  *out *= gigabit;
  if (!(*out > 0)) return bad(r, "the capacity is %s Gbit/s, must be more than 0", word);
  return by_check_rate(*out) == BANYAN_OK ? BANYAN_OK : bad(r, "the capacity %s", banyan_error_text());
}

static enum banyan_status take_first_line(struct reader *r) {
  char name[24];
  BY_TRY(next_line(r));
  if (r->n_words != 2) return bad(r, "must be \"n m\": how many nodes and links follow");
  BY_TRY(take_int(r, "the number of nodes", r->words[0], 1, BY_TOPOLOGY_MAX_NODES, &r->nodes));
  BY_TRY(take_int(r, "the number of links", r->words[1], 0, BY_TOPOLOGY_MAX_LINKS, &r->links));
  for (long i = 0; i < r->nodes; i++) {
    snprintf(name, sizeof name, "%ld", i);
    BY_TRY(by_topology_builder_add(&r->builder, BY_NODE_HOST, name, NULL));
  }
  return BANYAN_OK;
}

static enum banyan_status take_nic(struct reader *r) {
  long node = 0;
  double capacity;
  if (r->n_words != 3) return bad(r, "must be \"nic v capacity\", the capacity in Gbit/s");
  BY_TRY(take_int(r, "the node", r->words[1], 0, r->nodes - 1, &node));
  BY_TRY(take_capacity(r, r->words[2], &capacity));
  struct by_node *at = by_topology_builder_node(&r->builder, (uint32_t)node);
  at->out.all = at->in.all = capacity;
  return BANYAN_OK;
}

static enum banyan_status take_link(struct reader *r) {
  long u = 0, v = 0;
  double capacity, latency = 0;
  if (r->n_words != 3 && r->n_words != 4)
    return bad(r, "must be \"u v capacity latency\", in Gbit/s and ms, or \"nic v capacity\"");
  BY_TRY(take_int(r, "the first node", r->words[0], 0, r->nodes - 1, &u));
  BY_TRY(take_int(r, "the second node", r->words[1], 0, r->nodes - 1, &v));
  if (u == v) return bad(r, "leads from node %ld to itself", u);
  BY_TRY(take_capacity(r, r->words[2], &capacity));
  if (r->n_words == 4) BY_TRY(take_number(r, "the latency", r->words[3], &latency));
  if (r->read == r->links) return bad(r, "is one link more than the %ld that the first line announces", r->links);
  if (!BY_ARRAY_GROW(&r->drafts, &r->allocated, r->read + 1)) return by_topology_no_memory();
  r->drafts[r->read++] = (struct line){(uint32_t)u, (uint32_t)v, capacity, latency * millisecond};
  return BANYAN_OK;
}

/* Orders lines by their ends, then by direction, then as in the file. */
static int compare_lines(const void *a, const void *b) {
  const struct line *first = *(const struct line *const *)a, *second = *(const struct line *const *)b;
  int order = by_order_ends(first->u, first->v, second->u, second->v);
  if (!order) order = BY_ORDER(first->u, second->u);
  return order ? order : BY_ORDER(first, second);
}

/* Pairs the i-th line from u to v with the i-th from v to u. *n_both is the number of links with both directions. True
 * if all have both. */
static bool pair_lines(const struct line **sorted, uint32_t n, const struct line **back, uint32_t *n_both) {
  bool all = n > 0;
  *n_both = 0;
  for (uint32_t from = 0, to; from < n; from = to) {
    uint32_t forth = 0;
    for (to = from; to < n; to++) {
      if (by_order_ends(sorted[to]->u, sorted[to]->v, sorted[from]->u, sorted[from]->v) != 0) break;
      forth += sorted[to]->u == sorted[from]->u;
    }
    uint32_t pairs = MIN(forth, to - from - forth);
    for (uint32_t i = from; i < from + pairs; i++) back[i] = sorted[i + forth];
    all = all && to - from == 2 * pairs;
    *n_both += pairs;
  }
  return all;
}

static enum banyan_status add_line(struct reader *r, const struct line *line, const struct line *back) {
  struct by_link *link;
  BY_TRY(by_topology_builder_add_link(&r->builder, line->u, line->v, line->capacity,
                                      back ? (line->delay + back->delay) / 2 : line->delay, &link));
  if (back) link->capacity[BY_BA].all = back->capacity;
  return BANYAN_OK;
}

static enum banyan_status add_lines(struct reader *r) {
  struct by_arena *arena = &r->builder.arena;
  const struct line **sorted = BY_ARENA_ARRAY(arena, const struct line *, r->read);
  const struct line **back = BY_ARENA_ARRAY(arena, const struct line *, r->read);
  uint32_t n_both;
  if (arena->failed) return by_topology_no_memory();
  for (uint32_t i = 0; i < r->read; i++) sorted[i] = &r->drafts[i];
  qsort(sorted, r->read, sizeof *sorted, compare_lines);
  bool directed = pair_lines(sorted, r->read, back, &n_both);
  for (uint32_t i = 0; directed && i < r->read; i++)
    if (back[i]) BY_TRY(add_line(r, sorted[i], back[i]));
  for (uint32_t i = 0; !directed && i < r->read; i++) BY_TRY(add_line(r, &r->drafts[i], NULL));
  if (directed)
    by_warn("topology", "%s: every link is there in both directions: each two lines are taken as one link, %u in all",
            r->lines.source, n_both);
  else if (n_both)
    by_warn("topology",
            "%s: %u links are there in both directions, but not all: every line is taken as a link of its "
            "own, which carries its capacity each way",
            r->lines.source, n_both);
  return BANYAN_OK;
}

static enum banyan_status take_all(struct reader *r) {
  BY_TRY(take_first_line(r));
  for (;;) {
    BY_TRY(next_line(r));
    if (!r->n_words) break;
    BY_TRY(strcmp(r->words[0], "nic") == 0 ? take_nic(r) : take_link(r));
  }
  return r->read == r->links ? add_lines(r) : bad(r, "ends after %u of %ld links", r->read, r->links);
}

static enum banyan_status parse_edges(const char *source, const char *text, size_t length, const char *options,
                                      struct by_topology **out) {
  struct reader reader = {.lines = {.source = source, .at = text, .end = text + length}};
  if (*options) return by_options_none(options);
  BY_TRY(by_topology_builder_init(&reader.builder, ""));
  enum banyan_status status = by_topology_builder_end(&reader.builder, take_all(&reader), source, out);
  free(reader.drafts);
  return status;
}

/* --- Detection of the format. --- */

/* Whether the first line consists of two numbers. */
static bool fits_edges(const char *head) {
  static const char digits[] = "0123456789";
  size_t first = strspn(head, digits), gap = strspn(head + first, " \t");
  size_t second = strspn(head + first + gap, digits), rest = strspn(head + first + gap + second, " \t\r");
  const char *end = head + first + gap + second + rest;
  return *head == '#' || (first && gap && second && (!*end || *end == '\n' || *end == '#'));
}

static bool fits_pairs(const char *head) {
  size_t line = strcspn(head, "\n");
  const char *from = strstr(head, "src_region"), *to = strstr(head, "dst_region");
  return from && to && (size_t)(from - head) < line && (size_t)(to - head) < line;
}

static enum banyan_status parse_own(const char *source, const char *text, size_t length, const char *options,
                                    struct by_topology **out) {
  return *options ? by_options_none(options) : by_topology_parse(source, text, length, out);
}

static enum banyan_status parse_lldp(const char *source, const char *text, size_t length, const char *options,
                                     struct by_topology **out) {
  return by_topology_parse_lldp(&(struct by_lldp_file){source, text, length}, 1, options, out);
}

static const struct by_topology_format formats[] = {
    {"json", ".json", "our own, docs/topology-format.md", parse_own, .first = '{',
     .words = {"\"banyan-topology", "\"nodes\""}},
    {"edges", ".el", "edge list: \"n m\", then \"u v Gbit/s ms\" a line", parse_edges, .fits = fits_edges},
    {"graphml", ".graphml", "GraphML, such as the Internet Topology Zoo's; FILE?rate=RATE,delay=TIME",
     by_topology_parse_graphml, .first = '<', .words = {"<graphml"}},
    {"pairs", ".csv", "measured pairs of cloud regions, as Skyplane's CSV; FILE?select=REGIONS,limits=NAME=RATE",
     by_topology_parse_pairs, .fits = fits_pairs},
    {"lldp", ".lldp",
     "output of `lldpcli -f json0 show neighbors details`; FILE?rate=RATE,hosts=NAMES; or a folder of files",
     parse_lldp, .first = '{', .words = {"\"lldp\"", "\"local-chassis\""}},
    {"nccl", ".xml", "the inside of GPU servers, as NCCL_TOPO_DUMP_FILE", by_topology_parse_nccl, .first = '<',
     .words = {"<system"}},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

const struct by_topology_format *by_topology_format_list(uint32_t i) {
  return i < N_FORMATS ? &formats[i] : NULL;
}

static bool fits_format(const struct by_topology_format *format, const char *head) {
  if (format->fits) return format->fits(head);
  bool found = false;
  for (int i = 0; i < 2 && format->words[i]; i++) found = found || strstr(head, format->words[i]);
  return *head == format->first && found;
}

static const struct by_topology_format *detect_format(const char *source, const char *head) {
  size_t length = strlen(source);
  for (size_t i = 0; i < N_FORMATS; i++)
    if (fits_format(&formats[i], head)) return &formats[i];
  for (size_t i = 0; i < N_FORMATS; i++) {
    size_t n = strlen(formats[i].ending);
    if (length > n && strcmp(source + length - n, formats[i].ending) == 0) return &formats[i];
  }
  return NULL;
}

static enum banyan_status fail_unknown_format(const char *source, bool empty) {
  char list[256] = "";
  for (size_t i = 0; i < N_FORMATS; i++) {
    if (i) strcat(list, ", ");
    strcat(list, formats[i].name);
  }
  return by_fail(BANYAN_ERR_PARSE, "%s: is %s; topologies are read as %s", source,
                 empty ? "empty" : "in no known format", list);
}

enum banyan_status by_topology_parse_any(const char *source, const char *text, size_t length, const char *options,
                                         struct by_topology **out) {
  char head[BY_FORMAT_HEAD + 1];
  size_t skip = 0, n = 0;
  if (length > BY_TOPOLOGY_MAX_FILE)
    return by_fail(BANYAN_ERR_PARSE, "%s: too large: at most %d bytes", source, BY_TOPOLOGY_MAX_FILE);
  size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* the byte order mark */
  text += mark;
  length -= mark;
  while (skip < length && text[skip] && strchr(" \t\r\n", text[skip])) skip++;
  for (; n < BY_FORMAT_HEAD && skip + n < length && text[skip + n]; n++) head[n] = text[skip + n];
  head[n] = '\0';
  const struct by_topology_format *format = detect_format(source, head);
  return format ? format->parse(source, text, length, options, out) : fail_unknown_format(source, !*head);
}

/* --- Folders of LLDP files. --- */

static int is_lldp_file(const struct dirent *entry) {
  const char *end = strrchr(entry->d_name, '.');
  if (!end || end == entry->d_name) return 0;
  return strcmp(end, ".json") == 0 || strcmp(end, ".json0") == 0 || strcmp(end, ".lldp") == 0;
}

static enum banyan_status read_lldp_file(const char *folder, const char *name, size_t *left, struct by_lldp_file *out) {
  char path[MAX_PATH + NAME_MAX + 2], *text;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  BY_TRY(by_read_file("topology", path, BY_TOPOLOGY_MAX_FILE, &text, &out->length));
  out->source = name;
  out->text = text;
  if (out->length > *left)
    return by_fail(BANYAN_ERR_PARSE, "%s: its files are too large: at most %d bytes", folder, BY_TOPOLOGY_MAX_FILE);
  *left -= out->length;
  return BANYAN_OK;
}

static enum banyan_status read_lldp_files(const char *path, const char *options, struct dirent **entries, size_t n,
                                          struct by_topology **out) {
  if (n == 0 || n > MAX_FILES)
    return by_fail(BANYAN_ERR_PARSE, "%s: holds %zu files of LLDP (.json, .json0, .lldp), must hold 1 to %d", path, n,
                   MAX_FILES);
  struct by_lldp_file *files = calloc(n, sizeof *files);
  if (!files) return by_topology_no_memory();
  enum banyan_status status = BANYAN_OK;
  size_t left = BY_TOPOLOGY_MAX_FILE;
  for (size_t i = 0; i < n && status == BANYAN_OK; i++)
    status = read_lldp_file(path, entries[i]->d_name, &left, &files[i]);
  if (status == BANYAN_OK) status = by_topology_parse_lldp(files, n, options, out);
  for (size_t i = 0; i < n; i++) free((char *)files[i].text);
  free(files);
  return status;
}

static enum banyan_status read_folder(const char *path, const char *options, struct by_topology **out) {
  struct dirent **entries;
  int n = scandir(path, &entries, is_lldp_file, alphasort);
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read the folder %s", path);
  enum banyan_status status = read_lldp_files(path, options, entries, (size_t)n, out);
  if (status == BANYAN_ERR_PARSE && n > 0)
    status = by_fail_within(status, "%s is a folder, so its files must be what lldpcli printed on each host", path);
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  return status;
}

/* --- Files. --- */

/* A "?" is part of the name if a file of that name exists. */
enum banyan_status by_topology_read(const char *path, struct by_topology **out) {
  char file[MAX_PATH], *text;
  const char *mark = strrchr(path, '?'), *options = "";
  struct stat about;
  size_t length;
  if (mark && access(path, F_OK) != 0) {
    if ((size_t)(mark - path) >= sizeof file) return by_fail(BANYAN_ERR_ARGUMENT, "the file's name is too long");
    snprintf(file, sizeof file, "%.*s", (int)(mark - path), path);
    path = file;
    options = mark + 1;
  }
  if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return read_folder(path, options, out);
  BY_TRY(by_read_file("topology", path, BY_TOPOLOGY_MAX_FILE, &text, &length));
  enum banyan_status status = by_topology_parse_any(path, text, length, options, out);
  free(text);
  return status;
}
