/* The folder of real topologies that some tests read in addition to their own samples: BANYAN_DATA, or ../shared/data
 * beside the checkout. Where it does not exist, those tests are skipped with a message. */
#ifndef BY_TESTS_TOPOLOGY_DATA_H
#define BY_TESTS_TOPOLOGY_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { DATA_PATH_BYTES = 4096 };

/* Returns the path of a file or folder in it. Skips the test where the path does not exist. */
static inline const char *data_path(const char *name, char out[DATA_PATH_BYTES]) {
  const char *folder = getenv("BANYAN_DATA"), *source = getenv("BANYAN_SOURCE");
  if (folder)
    snprintf(out, DATA_PATH_BYTES, "%s/%s", folder, name);
  else
    snprintf(out, DATA_PATH_BYTES, "%s/../shared/data/%s", source ? source : ".", name);
  if (access(out, R_OK) == 0) return out;
  print_message("skipped: there is no %s; set BANYAN_DATA to the folder of real topologies\n", out);
  skip();
  return NULL;
}

#endif
