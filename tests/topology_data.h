/* The folder of real topologies that some tests read beside their own samples:
 * BANYAN_DATA, or ../shared/data beside the checkout. Where it is not there,
 * those tests are skipped and say so. */
#ifndef BY_TESTS_TOPOLOGY_DATA_H
#define BY_TESTS_TOPOLOGY_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { DATA_PATH_BYTES = 4096 };

/* The path of a file or folder of it; skips the test where it is not there. */
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
