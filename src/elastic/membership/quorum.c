/* Sets of ranks, and whether they are quorums by each rule. */
#include "quorum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sets of ranks */

static uint32_t words_of(const struct by_rank_set *set) {
  return (set->n + 63) / 64;
}

enum banyan_status by_rank_set_init(struct by_rank_set *set, uint32_t n) {
  set->n = n;
  set->words = calloc(words_of(set) + 1, sizeof *set->words);
  if (set->words) return BANYAN_OK;
  set->n = 0;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a set of %u ranks", n);
}

void by_rank_set_fini(struct by_rank_set *set) {
  free(set->words);
  *set = (struct by_rank_set){0};
}

void by_rank_set_clear(struct by_rank_set *set) {
  memset(set->words, 0, words_of(set) * sizeof *set->words);
}

uint32_t by_rank_set_count(const struct by_rank_set *set) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < words_of(set); i++) count += (uint32_t)__builtin_popcountll(set->words[i]);
  return count;
}

bool by_rank_set_merge(struct by_rank_set *set, const struct by_rank_set *from) {
  bool fresh = false;
  for (uint32_t i = 0; i < words_of(set); i++) {
    fresh |= (from->words[i] & ~set->words[i]) != 0;
    set->words[i] |= from->words[i];
  }
  return fresh;
}

uint32_t by_rank_set_next(const struct by_rank_set *set, uint32_t from) {
  for (uint32_t i = from / 64; i < words_of(set); i++) {
    uint64_t word = set->words[i];
    if (i == from / 64) word &= UINT64_MAX << from % 64;
    if (word) return 64 * i + (uint32_t)__builtin_ctzll(word);
  }
  return set->n;
}

void by_rank_set_write(struct by_writer *writer, const struct by_rank_set *set) {
  for (uint32_t i = 0; i < (set->n + 7) / 8; i++) by_write_u8(writer, (uint8_t)(set->words[i / 8] >> i % 8 * 8));
}

void by_rank_set_read(struct by_reader *reader, struct by_rank_set *set) {
  by_rank_set_clear(set);
  uint32_t n = (set->n + 7) / 8;
  const uint8_t *bytes = by_read_bytes(reader, n);
  if (!bytes) return;
  if (set->n % 8 && bytes[n - 1] >> set->n % 8) {
    reader->failed = true;
    return;
  }
  for (uint32_t i = 0; i < n; i++) set->words[i / 8] |= (uint64_t)bytes[i] << i % 8 * 8;
}

/* ---- quorums */

static const char *const names[BY_QUORUM_RULES] = {"majority", "survivors", "none"};

static bool is_majority(const struct by_rank_set *votes) {
  uint32_t count = by_rank_set_count(votes);
  return 2 * count > votes->n || (2 * count == votes->n && by_rank_set_has(votes, 0));
}

static bool is_all_but(const struct by_rank_set *votes, const struct by_rank_set *dead) {
  for (uint32_t i = 0; i < (votes->n + 63) / 64; i++) {
    uint64_t all = 64 * i + 64 <= votes->n ? UINT64_MAX : (1ull << votes->n % 64) - 1;
    if (~(votes->words[i] | dead->words[i]) & all) return false;
  }
  return by_rank_set_count(votes) > 0;
}

bool by_quorum_holds(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead) {
  if (rule == BY_QUORUM_NONE) return by_rank_set_count(votes) > 0;
  return is_majority(votes) || (rule == BY_QUORUM_SURVIVORS && is_all_but(votes, dead));
}

/* Appends the ranks that are in neither set, as ranges: "0, 3-5". */
static void list_silent(const struct by_rank_set *votes, const struct by_rank_set *dead, char *text, size_t room) {
  size_t at = 0;
  for (uint32_t i = 0; i < votes->n; i++) {
    uint32_t last = i;
    if (by_rank_set_has(votes, i) || by_rank_set_has(dead, i)) continue;
    while (last + 1 < votes->n && !by_rank_set_has(votes, last + 1) && !by_rank_set_has(dead, last + 1)) last++;
    if (at + 32 > room) {
      snprintf(text + at, room - at, ", ...");
      return;
    }
    int length = snprintf(text + at, room - at, last > i ? "%s%u-%u" : "%s%u", at ? ", " : "", i, last);
    at += (size_t)length;
    i = last;
  }
}

const char *by_quorum_explain(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead,
                              char *text) {
  char silent[128] = "";
  uint32_t n = votes->n;
  list_silent(votes, dead, silent, sizeof silent);
  const char *half = n % 2 ? "" : ", or half of them with rank 0";
  const char *proof = rule == BY_QUORUM_SURVIVORS ? ", or all that are not proven dead" : "";
  int length =
      snprintf(text, BY_QUORUM_TEXT, "%u of %u members answer and %u are proven dead, but to go on takes %u%s%s",
               by_rank_set_count(votes), n, by_rank_set_count(dead), n / 2 + 1, half, proof);
  if (*silent && length < BY_QUORUM_TEXT)
    snprintf(text + length, (size_t)(BY_QUORUM_TEXT - length), "; rank%s %s do%s not answer and may be alive",
             strpbrk(silent, ",-") ? "s" : "", silent, strpbrk(silent, ",-") ? "" : "es");
  return text;
}

enum banyan_status by_quorum_rule_parse(const char *text, enum by_quorum_rule *out) {
  for (int i = 0; i < BY_QUORUM_RULES; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = (enum by_quorum_rule)i;
      return BANYAN_OK;
    }
  return by_fail(BANYAN_ERR_ARGUMENT, "the rule of quorums is \"%s\", must be majority, survivors or none", text);
}

const char *by_quorum_rule_name(enum by_quorum_rule rule) {
  return names[rule];
}
