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
  uint32_t
      milliseconds; /* for which its host has not answered, or acknowledged nothing of the large packets; 0: none */
  uint32_t packet;  /* bytes of data in packets that are lost though small ones pass; 0: nothing passes */
  char way[BY_UNREACHED_WAY]; /* over which connection, or at which addresses */
};

struct by_unreached_list {
  uint32_t n;
  struct by_unreached all[BY_UNREACHED_MOST];
};

/* Takes the job's lock for a moment. `connector` may be NULL. */
void by_unreached_find(const struct by_control_peers *peers, const struct by_connector *connector,
                       struct by_large_loss_finder *finder, struct by_unreached_list *out);
/* Writes nothing if there are none. */
void by_unreached_write(struct by_writer *writer, const struct by_unreached_list *list);
/* What `from` wrote; `worst` becomes one of these if that is worse. False: malformed. */
bool by_unreached_read(struct by_reader *reader, uint32_t from, uint32_t processes, struct by_unreached *worst);
/* For people: who cannot reach whom, and what to do. */
void by_unreached_print(const struct by_unreached *unreached, struct by_job *job, char *text, size_t room);

#endif
