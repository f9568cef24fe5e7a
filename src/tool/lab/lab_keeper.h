/* A process that keeps a command running in a space of a lab, and prints what
 * it says behind the space's name. When the command ends, the keeper says so
 * and stays: so the space can be entered, and SIGHUP starts the command again,
 * in place of the one that runs if one does. It ends with the process that has
 * started it, and the command with it. */
#ifndef BY_CLI_LAB_KEEPER_H
#define BY_CLI_LAB_KEEPER_H

#include <sys/types.h>

#include "lab.h"

struct by_keeper_task {
  const struct by_lab *lab;
  uint32_t space;
  const char *name;           /* in front of lines */
  const char *const *command; /* of this program: "banyan", "switch", ...; ends with NULL */
  /* In the space, before the command; NULL: nothing. */
  enum banyan_status (*prepare)(const struct by_keeper_task *task);
  uint32_t n_ports; /* for `prepare` */
};

struct by_keeper {
  pid_t pid; /* 0: none */
  int ready; /* '+' when the command has said that it is ready, '-' when it has ended */
};

/* Returns at once; the task is no longer needed then. */
BANYAN_CHECK enum banyan_status by_keeper_start(const struct by_keeper_task *task, struct by_keeper *out);
/* Until the command has said that it is ready. BANYAN_ERR_SYSTEM: it has ended instead, or has not in 30 s. */
BANYAN_CHECK enum banyan_status by_keeper_await(struct by_keeper *keeper, const char *name);
void by_keeper_stop(struct by_keeper *keeper);

#endif
