/* Compares the lists from which processes form memberships. */
#include "lists.h"

#include <stdio.h>

static struct by_known_list *find(struct by_lists *lists, uint64_t name) {
  if (lists->own.name == name) return &lists->own;
  for (uint32_t i = 0; i < BY_LISTS_KEPT; i++)
    if (lists->others[i].name == name) return &lists->others[i];
  return NULL;
}

static struct by_known_list *replace_oldest(struct by_lists *lists) {
  return &lists->others[lists->next++ % BY_LISTS_KEPT];
}

/* Takes over a difference that was reported under this name before. */
void by_lists_begin(struct by_lists *lists, const struct by_member_list *list) {
  struct by_known_list own = {.name = list->name, .number = list->number};
  const struct by_known_list *heard = find(lists, list->name);
  snprintf(own.text, sizeof own.text, "%s", list->text);
  if (heard) snprintf(own.differs, sizeof own.differs, "%s", heard->differs);
  if (lists->own.number) *replace_oldest(lists) = lists->own;
  lists->own = own;
}

const char *by_lists_compare(struct by_lists *lists, const struct by_member_list *list) {
  struct by_known_list *known = find(lists, list->name);
  if (!known) return NULL;
  if (known->number && known->number != list->number && !known->differs[0])
    snprintf(known->differs, sizeof known->differs,
             "members gave different lists under this name, or BANYAN_QUORUM differs: %.200s, and %.200s; give all the "
             "same handles in the same order",
             known->text, list->text);
  return known->differs[0] ? known->differs : NULL;
}

void by_lists_differ(struct by_lists *lists, uint64_t name, const char *text) {
  struct by_known_list *known = find(lists, name);
  if (!known) {
    known = replace_oldest(lists);
    *known = (struct by_known_list){.name = name};
  }
  if (!known->differs[0]) snprintf(known->differs, sizeof known->differs, "%s", text);
}
