/* From which lists processes form memberships, by the hash of the membership's name: whether that of another process
 * contradicts this process's, and what this process has heard of contradictions. Values, without I/O. */
#ifndef BY_ELASTIC_LISTS_H
#define BY_ELASTIC_LISTS_H

#include "member_message.h"

enum { BY_LISTS_KEPT = 16 };

struct by_known_list {
  uint64_t name;
  uint64_t number;                   /* of the membership that this process's list makes; 0: it has none */
  char text[BY_MEMBER_LIST_TEXT];    /* Which list that is, as others are told. */
  char differs[BY_MEMBER_LIST_TEXT]; /* how lists differ; "": nothing is known */
};

/* All zeros: there are none. */
struct by_lists {
  struct by_known_list own;                   /* the newest of this process */
  struct by_known_list others[BY_LISTS_KEPT]; /* earlier ones, and of names that only others have used */
  uint32_t next;                              /* that is replaced */
};

/* This process forms a membership from now on. */
void by_lists_begin(struct by_lists *lists, const struct by_member_list *list);
/* What is known of the name that another process forms a membership under: how lists differ, as that process is to be
 * told; NULL: nothing. */
const char *by_lists_compare(struct by_lists *lists, const struct by_member_list *list);
/* Lists differ under that name. */
void by_lists_differ(struct by_lists *lists, uint64_t name, const char *text);

#endif
