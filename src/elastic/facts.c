/* Remembers a bounded number of processes about which a fact holds for ever. */
#include "facts.h"

#include <stdlib.h>

#include "log.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct by_fact {
  struct by_fingerprint process;
  UT_hash_handle hh;
};

void by_facts_fini(struct by_facts *facts) {
  struct by_fact *first = facts->all;
  HASH_CLEAR(hh, facts->all);
  for (struct by_fact *next; first; first = next) {
    next = first->hh.next;
    free(first);
  }
}

bool by_facts_has(const struct by_facts *facts, const struct by_fingerprint *process) {
  struct by_fact *fact;
  HASH_FIND(hh, facts->all, process, sizeof *process, fact);
  return fact != NULL;
}

void by_facts_note(struct by_facts *facts, const struct by_fingerprint *process, const char *what) {
  struct by_fact *oldest = NULL;
  if (by_facts_has(facts, process)) return;
  if (HASH_COUNT(facts->all) >= BY_FACTS_MOST) {
    by_warn("member", "more than %d %s are known: the oldest is forgotten", BY_FACTS_MOST, what);
    oldest = facts->all;
    HASH_DEL(facts->all, oldest);
  }
  struct by_fact *fact = calloc(1, sizeof *fact);
  free(oldest);
  if (fact) {
    fact->process = *process;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the table */
    HASH_ADD(hh, facts->all, process, sizeof fact->process, fact);
    if (fact->hh.tbl) return;
  }
  free(fact);
  by_error("member", "out of memory: one of the %s is forgotten", what);
}
