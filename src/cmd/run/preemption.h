/* A command that is run every few seconds and ends with exit code 0 once its host is about to be taken away, as the
 * metadata services of clouds announce it. Its first line is the reason. One thread. */
#ifndef BY_CMD_RUN_PREEMPTION_H
#define BY_CMD_RUN_PREEMPTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  BY_PREEMPTION_INTERVAL = 2 /* s between its ends and its starts */,
  BY_PREEMPTION_LONGEST = 30 /* s it may run */
};

struct by_preemption {
  char *command; /* for the shell; NULL: none */
  pid_t pid;     /* 0: it does not run */
  int output;    /* of it; -1: it does not run */
  uint64_t due;  /* to be started, or killed, then; UINT64_MAX: never */
  bool reported; /* that it cannot be run */
};

/* The command is copied; "" is none. */
void by_preemption_init(struct by_preemption *preemption, const char *command, uint64_t now);
/* A command that runs is left to its parent's end. */
void by_preemption_fini(struct by_preemption *preemption);
/* Starts it, or kills it, when that is due. */
void by_preemption_tick(struct by_preemption *preemption, uint64_t now);
/* Whether a child that has ended was it, and its status 0: the host is about to go, `reason` holds the first line, or
 * some words in its place. It is not run again then. */
bool by_preemption_ended(struct by_preemption *preemption, pid_t pid, int status, uint64_t now, char *reason,
                         size_t room);

#endif
