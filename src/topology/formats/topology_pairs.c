/* Reads measured pairs as CSV. Rows are collected first and then sorted by pair, since directions, repeated
 * measurements and missing values are known only at the end. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

enum { MAX_ROW = 16384, MAX_FIELDS = 64 };

struct csv {
  struct by_lines lines;
  size_t n_fields;
  const char *fields[MAX_FIELDS]; /* pointers into the row, valid until the next one is read */
  char row[MAX_ROW + 1];
};

#define bad(csv, ...) by_lines_fail(&(csv)->lines, __VA_ARGS__)

/* Parses a quoted field: its content moves to its start, and doubled quotes become one. *from: behind the closing
 * quote. */
static enum banyan_status take_quoted(struct csv *csv, char **from) {
  char *to = *from, *at = *from + 1;
  for (; *at && (*at != '"' || at[1] == '"'); at++) {
    if (*at == '"') at++;
    *to++ = *at;
  }
  if (!*at) return bad(csv, "a quote is not closed");
  *to = '\0';
  *from = at + 1;
  return **from && **from != ',' ? bad(csv, "text behind a closing quote") : BANYAN_OK;
}

static enum banyan_status split_row(struct csv *csv) {
  char *at = csv->row;
  for (csv->n_fields = 0;; at++) {
    if (csv->n_fields == MAX_FIELDS) return bad(csv, "more than %d fields", MAX_FIELDS);
    csv->fields[csv->n_fields++] = at;
    if (*at == '"')
      BY_TRY(take_quoted(csv, &at));
    else
      at += strcspn(at, ",");
    if (!*at) return BANYAN_OK;
    *at = '\0';
  }
}

/* Reads the next row that is not empty; *more is false at the end. */
static enum banyan_status next_row(struct csv *csv, bool *more) {
  size_t length;
  for (const char *line; (line = by_lines_next(&csv->lines, &length)) != NULL;) {
    if (length > MAX_ROW) return bad(csv, "is %zu bytes long, must be at most %d", length, MAX_ROW);
    if (memchr(line, '\0', length)) return bad(csv, "holds a byte 0; is this a text?");
    if (length && line[length - 1] == '\r') length--;
    if (!length) continue;
    memcpy(csv->row, line, length);
    csv->row[length] = '\0';
    *more = true;
    return split_row(csv);
  }
  *more = false;
  return BANYAN_OK;
}

enum {
  MAX_ROWS = BY_TOPOLOGY_MAX_LINKS,
  MAX_PATTERNS = 64,
  MAX_LIMITS = 16,
  MAX_OPTION = 1024,
  MAX_DETOURS = 512 /* the limit of nodes for which detours are searched for */
};

static const char separators[] = ",+ ";
static const char default_limits[] = "aws=5g,gcp=7g,azure=16g", default_tier[] = "PREMIUM";

enum column { SOURCE, SOURCE_TIER, TARGET, TARGET_TIER, SENT, RECEIVED, ROUND_TRIP, N_COLUMNS };
static const char *const column_names[] = {"src_region", "src_tier",     "dst_region", "dst_tier",
                                           "bps_sent",   "bps_received", "avg_rtt_ms"};

struct measured {
  uint32_t from, to;       /* indices of regions */
  double rate, round_trip; /* in bit/s, and in seconds (NAN: not known) */
};

struct pattern {
  const char *text;
  bool leaves_out, has_tier, matched;
};

struct limit {
  const char *provider;
  double rate;
};

struct pairs {
  struct csv csv;
  int columns[N_COLUMNS]; /* -1: there is no such column */
  size_t n_columns;       /* the number of all columns, known or not */
  char select_text[MAX_OPTION], limits_text[MAX_OPTION];
  struct pattern patterns[MAX_PATTERNS];
  size_t n_patterns;
  struct limit limits[MAX_LIMITS];
  size_t n_limits;
  struct by_topology_builder seen; /* the regions in the order of the rows */
  struct measured *rows;
  size_t n_rows, allocated;
  size_t n_unmeasured, n_one_way, n_detours, n_medians;
  double usual; /* the delay in seconds where nothing is known */
  struct by_arena arena;
};

/* --- Options. --- */

static enum banyan_status copy_option(const char *what, const char *text, char out[MAX_OPTION]) {
  if (strlen(text) >= MAX_OPTION)
    return by_fail(BANYAN_ERR_ARGUMENT, "the %s are longer than %d bytes", what, MAX_OPTION);
  strcpy(out, text);
  return BANYAN_OK;
}

static enum banyan_status take_patterns(struct pairs *pairs, const char *text) {
  char *kept = NULL;
  BY_TRY(copy_option("regions to select", text ? text : "", pairs->select_text));
  for (char *word = strtok_r(pairs->select_text, separators, &kept); word; word = strtok_r(NULL, separators, &kept)) {
    if (pairs->n_patterns == MAX_PATTERNS)
      return by_fail(BANYAN_ERR_ARGUMENT, "more than %d regions to select; use patterns such as aws:us-*",
                     MAX_PATTERNS);
    bool leaves_out = *word == '!';
    pairs->patterns[pairs->n_patterns++] =
        (struct pattern){.text = word + leaves_out, .leaves_out = leaves_out, .has_tier = strchr(word, '/') != NULL};
  }
  return BANYAN_OK;
}

static enum banyan_status take_limits(struct pairs *pairs, const char *text) {
  char *kept = NULL;
  BY_TRY(copy_option("limits of providers", text ? text : default_limits, pairs->limits_text));
  for (char *word = strtok_r(pairs->limits_text, separators, &kept); word; word = strtok_r(NULL, separators, &kept)) {
    char *equals = strchr(word, '=');
    struct limit *limit = &pairs->limits[pairs->n_limits];
    if (!equals || pairs->n_limits++ == MAX_LIMITS)
      return by_fail(BANYAN_ERR_ARGUMENT, "limits must be like %s, at most %d of them, not \"%.64s\"", default_limits,
                     MAX_LIMITS, word);
    *equals = '\0';
    limit->provider = word;
    BY_TRY(by_parse_rate(equals + 1, &limit->rate));
    if (!(limit->rate > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "the limit of %.64s is 0, must be more", word);
  }
  return BANYAN_OK;
}

/* Whether a pattern matches a region. The region must be of the premium tier unless the pattern names a tier. */
static bool matches_pattern(const struct pattern *pattern, const char *region, const char *tier, const char *full) {
  if (pattern->has_tier) return fnmatch(pattern->text, full, 0) == 0;
  return (!*tier || strcmp(tier, default_tier) == 0) && fnmatch(pattern->text, region, 0) == 0;
}

static bool is_selected(struct pairs *pairs, const char *region, const char *tier) {
  static const struct pattern everything = {.text = "*"};
  char full[MAX_ROW + 2];
  bool wanted = true;
  snprintf(full, sizeof full, "%s/%s", region, tier);
  for (size_t i = 0; i < pairs->n_patterns; i++) wanted = wanted && pairs->patterns[i].leaves_out;
  wanted = wanted && matches_pattern(&everything, region, tier,
                                     full); /* Without patterns that select, all regions are selected. */
  for (size_t i = 0; i < pairs->n_patterns; i++) {
    struct pattern *pattern = &pairs->patterns[i];
    if (!matches_pattern(pattern, region, tier, full)) continue;
    pattern->matched = true;
    wanted = !pattern->leaves_out;
  }
  return wanted;
}

/* --- Rows. --- */

static enum banyan_status take_columns(struct pairs *pairs) {
  struct csv *csv = &pairs->csv;
  bool more = false;
  BY_TRY(next_row(csv, &more));
  if (!more)
    return by_fail(BANYAN_ERR_PARSE, "%s: is empty, must be CSV with a line of column names", csv->lines.source);
  pairs->n_columns = csv->n_fields;
  for (int c = 0; c < N_COLUMNS; c++) {
    pairs->columns[c] = -1;
    for (size_t i = 0; i < csv->n_fields; i++) {
      if (strcmp(csv->fields[i], column_names[c]) != 0) continue;
      if (pairs->columns[c] >= 0) return bad(csv, "two columns are named %s", column_names[c]);
      pairs->columns[c] = (int)i;
    }
  }
  if (pairs->columns[SOURCE] < 0 || pairs->columns[TARGET] < 0)
    return bad(csv, "the columns must be named, src_region and dst_region among them");
  if (pairs->columns[RECEIVED] < 0 && pairs->columns[SENT] < 0)
    return bad(csv, "there must be a column bps_received or bps_sent");
  return BANYAN_OK;
}

/* Returns a field of the row; "": there is no such column, or the row ends before it. */
static const char *get_field(const struct pairs *pairs, enum column column) {
  int at = pairs->columns[column];
  return at >= 0 && (size_t)at < pairs->csv.n_fields ? pairs->csv.fields[at] : "";
}

/* Reads a region; *out is UINT32_MAX if it is not selected. */
static enum banyan_status take_region(struct pairs *pairs, enum column which, enum column which_tier, uint32_t *out) {
  const char *region = get_field(pairs, which), *tier = get_field(pairs, which_tier);
  char name[MAX_ROW + 2];
  *out = UINT32_MAX;
  if (!*region) return bad(&pairs->csv, "%s is empty", column_names[which]);
  if (!is_selected(pairs, region, tier)) return BANYAN_OK;
  bool plain = !*tier || strcmp(tier, default_tier) == 0;
  snprintf(name, sizeof name, plain ? "%s" : "%s/%s", region, tier);
  if (!by_is_printable(name, BY_TOPOLOGY_MAX_NAME))
    return bad(&pairs->csv, "%s must be at most %d bytes of UTF-8, is \"%.64s...\"", column_names[which],
               BY_TOPOLOGY_MAX_NAME, name);
  *out = by_topology_builder_find(&pairs->seen, name);
  if (*out != UINT32_MAX) return BANYAN_OK;
  enum banyan_status status = by_topology_builder_add(&pairs->seen, BY_NODE_HOST, name, out);
  return status == BANYAN_OK ? status
                             : by_fail_within(status, "%s:%zu", pairs->csv.lines.source, pairs->csv.lines.number);
}

static enum banyan_status take_number(struct pairs *pairs, enum column column, double *out) {
  const char *text = get_field(pairs, column);
  *out = NAN;
  if (!*text) return BANYAN_OK;
  if (by_parse_number(text, out) != BANYAN_OK)
    return bad(&pairs->csv, "%s: %s", column_names[column], banyan_error_text());
  if (!(*out > 0)) return bad(&pairs->csv, "%s is %s, must be more than 0", column_names[column], text);
  bool is_rate = column == SENT || column == RECEIVED;
  if (!is_rate || by_check_rate(*out) == BANYAN_OK) return BANYAN_OK;
  return bad(&pairs->csv, "%s %s", column_names[column], banyan_error_text());
}

/* Reads a row. The received rate counts, since the sent rate includes what was still in buffers at the end. */
static enum banyan_status take_row(struct pairs *pairs) {
  struct measured row;
  double sent;
  const struct csv *csv = &pairs->csv;
  if (csv->lines.open_end && csv->n_fields < pairs->n_columns) /* A truncated name or number would be another one. */
    return bad(csv, "the file ends in this row, at field %zu of %zu; is it whole?", csv->n_fields, pairs->n_columns);
  BY_TRY(take_region(pairs, SOURCE, SOURCE_TIER, &row.from));
  BY_TRY(take_region(pairs, TARGET, TARGET_TIER, &row.to));
  BY_TRY(take_number(pairs, SENT, &sent));
  BY_TRY(take_number(pairs, RECEIVED, &row.rate));
  BY_TRY(take_number(pairs, ROUND_TRIP, &row.round_trip));
  row.round_trip /= 1e3;
  if (row.from == UINT32_MAX || row.to == UINT32_MAX || row.from == row.to) return BANYAN_OK;
  if (isnan(row.rate)) row.rate = sent;
  pairs->n_unmeasured += isnan(row.rate);
  if (isnan(row.rate)) return BANYAN_OK;
  if (pairs->n_rows == MAX_ROWS) return bad(&pairs->csv, "more than %d pairs", MAX_ROWS);
  if (!BY_ARRAY_GROW(&pairs->rows, &pairs->allocated, pairs->n_rows + 1)) return by_topology_no_memory();
  pairs->rows[pairs->n_rows++] = row;
  return BANYAN_OK;
}

static enum banyan_status take_rows(struct pairs *pairs) {
  bool more = false;
  for (;;) {
    BY_TRY(next_row(&pairs->csv, &more));
    if (!more) break;
    BY_TRY(take_row(pairs));
  }
  for (size_t i = 0; i < pairs->n_patterns; i++)
    if (!pairs->patterns[i].matched)
      return by_fail(BANYAN_ERR_ARGUMENT, "%s: no region is like \"%.64s\"", pairs->csv.lines.source,
                     pairs->patterns[i].text);
  return pairs->n_rows ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "%s: no pair is measured", pairs->csv.lines.source);
}

/* --- Pairs. --- */

/* Orders rows by pair, and the direction to the higher number first. */
static int compare_rows(const void *a, const void *b) {
  const struct measured *first = a, *second = b;
  int order = by_order_ends(first->from, first->to, second->from, second->to);
  return order ? order : BY_ORDER(first->from, second->from);
}

struct pair {
  uint32_t a, b;
  double rate[2], delay; /* NAN: not known */
};

/* Makes one pair of all its sorted rows. Returns the number of pairs. Disturbances only lower a rate and lengthen a
 * time: of repeated measurements the highest rate and the shortest time count. */
static size_t make_pairs(struct pairs *pairs, struct pair *out) {
  size_t n = 0;
  for (size_t at = 0; at < pairs->n_rows; n++) {
    const struct measured *first = &pairs->rows[at], *row = first;
    struct pair *pair = &out[n];
    double shortest = NAN;
    *pair = (struct pair){.a = MIN(first->from, first->to), .b = MAX(first->from, first->to), .rate = {NAN, NAN}};
    for (; at < pairs->n_rows && by_order_ends(row->from, row->to, pair->a, pair->b) == 0; row = &pairs->rows[++at]) {
      double *rate = &pair->rate[row->from == pair->a ? BY_AB : BY_BA];
      *rate = fmax(*rate, row->rate); /* fmax and fmin ignore NAN. */
      shortest = fmin(shortest, row->round_trip);
    }
    pair->delay = shortest / 2;
    pairs->n_one_way += isnan(pair->rate[BY_AB]) || isnan(pair->rate[BY_BA]);
    if (isnan(pair->rate[BY_AB])) pair->rate[BY_AB] = pair->rate[BY_BA];
    if (isnan(pair->rate[BY_BA])) pair->rate[BY_BA] = pair->rate[BY_AB];
  }
  return n;
}

/* --- Delays that were not measured. --- */

/* Estimates delays by the best detour over a third region, which is not much longer, since packets take about the
 * shortest path. */
static enum banyan_status estimate_delays(struct pairs *pairs, struct pair *all, size_t n) {
  size_t nodes = pairs->seen.topology->n_nodes;
  if (nodes > MAX_DETOURS) return BANYAN_OK;
  double *delays = BY_ARENA_ARRAY(&pairs->arena, double, nodes *nodes);
  if (!delays) return by_topology_no_memory();
  for (size_t i = 0; i < nodes * nodes; i++) delays[i] = NAN;
  for (size_t i = 0; i < n; i++)
    delays[all[i].a * nodes + all[i].b] = delays[all[i].b * nodes + all[i].a] = all[i].delay;
  for (size_t i = 0; i < n; i++) {
    if (!isnan(all[i].delay)) continue;
    for (size_t by = 0; by < nodes; by++)
      all[i].delay = fmin(all[i].delay, delays[all[i].a * nodes + by] + delays[by * nodes + all[i].b]);
    pairs->n_detours += !isnan(all[i].delay);
  }
  return BANYAN_OK;
}

static enum banyan_status fill_delays(struct pairs *pairs, struct pair *all, size_t n) {
  double *known = BY_ARENA_ARRAY(&pairs->arena, double, n);
  size_t n_known = 0;
  if (!known) return by_topology_no_memory();
  for (size_t i = 0; i < n; i++)
    if (!isnan(all[i].delay)) known[n_known++] = all[i].delay;
  qsort(known, n_known, sizeof *known, by_order_numbers);
  pairs->usual = n_known ? known[n_known / 2] : 0;
  BY_TRY(estimate_delays(pairs, all, n));
  for (size_t i = 0; i < n; i++) {
    if (!isnan(all[i].delay)) continue;
    all[i].delay = pairs->usual;
    pairs->n_medians++;
  }
  return BANYAN_OK;
}

static void report_assumptions(const struct pairs *pairs) {
  const char *source = pairs->csv.lines.source;
  char usual[32];
  if (pairs->n_unmeasured)
    by_warn("topology", "%s: %zu rows hold no rate and are left out", source, pairs->n_unmeasured);
  if (pairs->n_one_way)
    by_warn("topology", "%s: %zu pairs are measured one way only; taken both ways", source, pairs->n_one_way);
  if (pairs->n_detours)
    by_info("topology", "%s: %zu pairs have no round-trip time; taken from the best detour", source, pairs->n_detours);
  if (pairs->n_medians)
    by_warn("topology", "%s: %zu pairs have no round-trip time; taken as %s one way", source, pairs->n_medians,
            by_print_seconds(pairs->usual, usual));
}

/* --- The topology. --- */

static int compare_names(const void *a, const void *b, void *nodes) {
  return strcmp(((const struct by_node *)nodes)[*(const uint32_t *)a].name,
                ((const struct by_node *)nodes)[*(const uint32_t *)b].name);
}

/* Adds the regions in the order of their names, and renumbers the rows accordingly. */
static enum banyan_status add_regions(struct pairs *pairs, struct by_topology_builder *builder) {
  const struct by_topology *seen = pairs->seen.topology;
  uint32_t n = seen->n_nodes, *order = BY_ARENA_ARRAY(&pairs->arena, uint32_t, 2 * (size_t)n);
  if (!order) return by_topology_no_memory();
  uint32_t *numbers = order + n;
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  qsort_r(order, n, sizeof *order, compare_names, seen->nodes);
  for (uint32_t i = 0; i < n; i++) {
    const char *name = seen->nodes[order[i]].name;
    BY_TRY(by_topology_builder_add(builder, BY_NODE_HOST, name, &numbers[order[i]]));
    struct by_node *node = by_topology_builder_node(builder, numbers[order[i]]);
    size_t length = strcspn(name, ":");
    if (!name[length]) continue;
    char provider[BY_TOPOLOGY_MAX_NAME + 1];
    snprintf(provider, sizeof provider, "%.*s", (int)length, name);
    for (size_t k = 0; k < pairs->n_limits; k++)
      if (strcmp(pairs->limits[k].provider, provider) == 0) node->out.all = pairs->limits[k].rate;
    BY_TRY(by_topology_builder_keep(builder, provider, &node->group));
  }
  for (size_t i = 0; i < pairs->n_rows; i++) {
    pairs->rows[i].from = numbers[pairs->rows[i].from];
    pairs->rows[i].to = numbers[pairs->rows[i].to];
  }
  return BANYAN_OK;
}

static enum banyan_status connect_regions(struct pairs *pairs, struct by_topology_builder *builder) {
  struct pair *all = BY_ARENA_ARRAY(&pairs->arena, struct pair, pairs->n_rows);
  if (!all) return by_topology_no_memory();
  qsort(pairs->rows, pairs->n_rows, sizeof *pairs->rows, compare_rows);
  size_t n = make_pairs(pairs, all);
  BY_TRY(fill_delays(pairs, all, n));
  for (size_t i = 0; i < n; i++) {
    struct by_link *link;
    BY_TRY(by_topology_builder_add_link(builder, all[i].a, all[i].b, all[i].rate[BY_AB], all[i].delay, &link));
    link->capacity[BY_BA].all = all[i].rate[BY_BA];
  }
  return BANYAN_OK;
}

static enum banyan_status build_topology(struct pairs *pairs, struct by_topology_builder *builder) {
  BY_TRY(add_regions(pairs, builder));
  BY_TRY(connect_regions(pairs, builder));
  report_assumptions(pairs);
  return BANYAN_OK;
}

static enum banyan_status read_pairs(struct pairs *pairs, const char *options, struct by_topology **out) {
  static const char *const names[] = {"select", "limits"};
  struct by_options given;
  struct by_topology_builder builder;
  BY_TRY(by_options_take(&given, options, names));
  BY_TRY(take_patterns(pairs, given.values[0]));
  BY_TRY(take_limits(pairs, given.values[1]));
  BY_TRY(take_columns(pairs));
  BY_TRY(take_rows(pairs));
  BY_TRY(by_topology_builder_init(&builder, ""));
  return by_topology_builder_end(&builder, build_topology(pairs, &builder), pairs->csv.lines.source, out);
}

enum banyan_status by_topology_parse_pairs(const char *source, const char *text, size_t length, const char *options,
                                           struct by_topology **out) {
  struct pairs *pairs = calloc(1, sizeof *pairs);
  if (!pairs) return by_topology_no_memory();
  pairs->csv.lines = (struct by_lines){.source = source, .at = text, .end = text + length};
  enum banyan_status status = by_topology_builder_init(&pairs->seen, "");
  if (status == BANYAN_OK) status = read_pairs(pairs, options, out);
  by_topology_builder_fini(&pairs->seen);
  by_arena_fini(&pairs->arena);
  free(pairs->rows);
  free(pairs);
  return status;
}
