/* Processes of a job that are members of groups that change, and find each other's handles on a board in shared memory,
 * in place of a store. */
#ifndef BY_TESTS_NET_MEMBERS_H
#define BY_TESTS_NET_MEMBERS_H

#include <stdatomic.h>

#include <banyan/elastic.h>

#include "job.h"

enum { HANDLE = 2048 };

struct board {
  char handles[JOB_RANKS][HANDLE];
  _Atomic int published[JOB_RANKS];
  _Atomic bool go; /* of the test, to processes that wait for it */
};
extern struct board *board;

/* Once, before the first job. */
bool board_create(void);

/* What a process of a test has. */
struct self {
  struct job *job;
  int id;
  struct banyan_member *member;
  struct banyan_comm *comm;
};

/* Makes this process a member, whose handle is on the board. */
struct self begin(struct job *job, int id);
void end(struct self *self);

#endif
