/* From which lists processes form memberships, by the hash of the membership's name: whether that of another process
 * contradicts this process's, and what this process has heard of contradictions. Values, without I/O. */
#ifndef BY_ELASTIC_LISTS_H
#define BY_ELASTIC_LISTS_H

#include "member_message.h"

enum { BY_LISTS_KEPT = 16 };

struct by_known_list {
  uint64_t name;
  uint64_t number; /* Number of the membership that this process's list would form; 0 if it has no list. */
  char text[BY_MEMBER_LIST_TEXT];    /* Description of the list for other members. */
  char differs[BY_MEMBER_LIST_TEXT]; /* How lists under this name differ; "" if no difference is known. */
};

/* Zero-initialised, it is empty. */
struct by_lists {
  struct by_known_list own; /* The newest list of this process. */
  /* Earlier lists of this process, and names that only others have used. */
  struct by_known_list others[BY_LISTS_KEPT];
  uint32_t next; /* Counter that selects the entry of `others` to be replaced next. */
};

/* Notes that this process forms a membership from this list. */
void by_lists_begin(struct by_lists *lists, const struct by_member_list *list);
/* Compares the list of another process with the known one of the same name. Returns a text for that process that says
 * how they differ; NULL if no difference is known. */
const char *by_lists_compare(struct by_lists *lists, const struct by_member_list *list);
/* Notes that lists under this name differ, as the text says. */
void by_lists_differ(struct by_lists *lists, uint64_t name, const char *text);

#endif
