/* `banyan status --manager`: asks a manager once, or each second until it is
 * interrupted, also while it is away. */
#ifndef BY_CLI_MANAGER_WATCH_H
#define BY_CLI_MANAGER_WATCH_H

#include <stdbool.h>

#include "manager_client.h"

struct by_manager_watch {
  struct by_manager_client_options client;
  bool json, again;
};

/* Prints on standard output; in place where that is a terminal. Fails if the manager cannot be asked, and while
 * watching, if the first answer does not come. */
BANYAN_CHECK enum banyan_status by_manager_watch_run(const struct by_manager_watch *watch);

#endif
