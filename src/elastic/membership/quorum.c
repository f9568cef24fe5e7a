/* Decides whether members are a quorum by each rule, and explains which members lack. */
#include "quorum.h"

#include <stdio.h>
#include <string.h>

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
