/* Processes of the job that one process cannot reach, though they may answer others: what it reports in a deadlock
 * check, and the texts made of it. On the loop's thread. */
#ifndef BY_JOB_CONTROL_UNREACHED_H
#define BY_JOB_CONTROL_UNREACHED_H

#include "connector.h"
#include "control_peers.h"
#include "large_loss.h"

enum { BY_UNREACHED_MOST = 16, BY_UNREACHED_WAY = 200 };

struct by_unreached {
  uint32_t from, to;
  uint32_t milliseconds;      /* Silence of the host, or of large packets' acknowledgements; 0: none. */
  uint32_t packet;            /* Bytes of data in lost packets while small ones pass; 0: nothing passes. */
  char way[BY_UNREACHED_WAY]; /* The connection, or the tried addresses. */
};

struct by_unreached_list {
  uint32_t n;
  struct by_unreached all[BY_UNREACHED_MOST];
};

/* Takes the job's lock for a moment. `connector` may be NULL. */
void by_unreached_find(const struct by_control_peers *peers, const struct by_connector *connector,
                       struct by_large_loss_finder *finder, struct by_unreached_list *out);
/* Writes the list; nothing if it is empty. */
void by_unreached_write(struct by_writer *writer, const struct by_unreached_list *list);
/* Reads the list of process `from`; `worst` becomes one of its entries if that is worse. False: malformed. */
bool by_unreached_read(struct by_reader *reader, uint32_t from, uint32_t processes, struct by_unreached *worst);
/* Prints for users who cannot reach whom, and what to do. */
void by_unreached_print(const struct by_unreached *unreached, struct by_job *job, char *text, size_t room);

#endif
