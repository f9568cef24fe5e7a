/* Where the processes of MPI_COMM_WORLD meet to form Banyan's job: rank 0 chooses it and broadcasts it. Plain values.
 */
#ifndef BY_MPI_MEETING_H
#define BY_MPI_MEETING_H

#include <stdbool.h>

struct meeting {
  char root[384]; /* addresses and fingerprint of rank 0, see struct banyan_options; "": rank 0 found none */
  char key[96];   /* of the job; "": each process has it in its environment */
};

/* Fills *out with addresses at which other hosts may reach this process, or that of loopback if all ranks are on this
 * host, and with a new key. BANYAN_ROOT, BANYAN_KEY and BANYAN_KEY_FILE take precedence. False: it is incomplete, and
 * root is "". */
bool meeting_choose(bool one_host, struct meeting *out);

#endif
