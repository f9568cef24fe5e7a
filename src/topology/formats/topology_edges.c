/* Edge lists; topology_formats.h describes them. */
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

enum { MOST_LINE = 512, MOST_WORDS = 4 };
static const double gigabit = 1e9, millisecond = 1e-3;

struct reader {
  struct by_lines lines;
  char copy[MOST_LINE + 1]; /* of the line, cut into words */
  const char *words[MOST_WORDS];
  int n_words; /* MOST_WORDS + 1: there are more */
  long nodes, links, read;
  struct by_topology_builder builder;
};

#define bad(reader, ...) by_lines_fail(&(reader)->lines, __VA_ARGS__)

/* The next line that is not empty; n_words is 0 behind the last. */
static enum banyan_status next_line(struct reader *r) {
  size_t length;
  char *kept = NULL;
  r->n_words = 0;
  for (const char *line; r->n_words == 0 && (line = by_lines_next(&r->lines, &length)) != NULL;) {
    if (length > MOST_LINE || memchr(line, '\0', length))
      return bad(r, "is no line of an edge list: %s", length > MOST_LINE ? "it is too long" : "it holds a NUL");
    memcpy(r->copy, line, length);
    r->copy[length] = '\0';
    r->copy[strcspn(r->copy, "#")] = '\0';
    for (char *word = strtok_r(r->copy, " \t\r", &kept); word; word = strtok_r(NULL, " \t\r", &kept)) {
      if (r->n_words < MOST_WORDS) r->words[r->n_words] = word;
      if (r->n_words <= MOST_WORDS) r->n_words++;
    }
  }
  return BANYAN_OK;
}

static enum banyan_status take_int(const struct reader *r, const char *what, const char *word, long least, long most,
                                   long *out) {
  if (by_parse_int(what, word, least, most, out) == BANYAN_OK) return BANYAN_OK;
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
  BY_TRY(take_int(r, "the number of nodes", r->words[0], 1, BY_TOPOLOGY_MOST_NODES, &r->nodes));
  BY_TRY(take_int(r, "the number of links", r->words[1], 0, BY_TOPOLOGY_MOST_LINKS, &r->links));
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
  if (++r->read > r->links) return bad(r, "is one link more than the %ld that the first line says", r->links);
  return by_topology_builder_add_link(&r->builder, (uint32_t)u, (uint32_t)v, capacity, latency * millisecond, NULL);
}

static enum banyan_status take_all(struct reader *r) {
  BY_TRY(take_first_line(r));
  for (;;) {
    BY_TRY(next_line(r));
    if (!r->n_words) break;
    BY_TRY(strcmp(r->words[0], "nic") == 0 ? take_nic(r) : take_link(r));
  }
  return r->read == r->links ? BANYAN_OK : bad(r, "ends after %ld of %ld links", r->read, r->links);
}

enum banyan_status by_topology_parse_edges(const char *source, const char *text, size_t length, const char *options,
                                           struct by_topology **out) {
  struct reader reader = {.lines = {.source = source, .at = text, .end = text + length}};
  if (*options) return by_options_none(options);
  BY_TRY(by_topology_builder_init(&reader.builder, ""));
  return by_topology_builder_end(&reader.builder, take_all(&reader), source, out);
}
