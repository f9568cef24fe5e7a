/* A manager's rows in a SQLite file, so that it goes on where it was, also when
 * it was killed in the middle. Rows that are kept between two commits become
 * lasting together. A disk that is full, or a file that cannot be written, is
 * logged and stops nothing: after that by_manager_store_lost is true, as what the
 * file has is old. Reads and writes a file; one thread. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_STORE_H
#define BY_CLUSTER_MANAGER_MANAGER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"
#include "text.h"

/* A row replaces the one of the same key. Rows are plain values that borrow their texts. */
enum by_manager_table {
  BY_ROW_JOB,     /* key: job */
  BY_ROW_PLAN,    /* key: job, number. At most two a job: what it runs, what it was asked to run */
  BY_ROW_HISTORY, /* no key: added */
  BY_ROW_HELPER,  /* key: job, name */
  BY_ROW_CELLS,   /* key: job */
  BY_ROW_SERVER,  /* key: job, name */
  BY_ROW_GRANT,   /* key: job, number */
};

struct by_manager_row {
  enum by_manager_table table;
  bool gone;       /* the row of this key is to be forgotten, of a job with all others of it */
  const char *job; /* its ID */
  const char *name;
  union {
    struct {
      const char *hosts; /* of its ranks, as a JSON array */
      const char *root;
      double since, began;                /* since: it has been known here; began: as it states; 0: it does not */
      uint64_t iterations, sent, numbers; /* numbers: the last one given to a plan */
      uint64_t expected;                  /* iterations in all, as it states; 0: none is known */
      bool doubted;                       /* that was too small */
      uint32_t class_;
      bool left;
      const char *owner;    /* whose certificate it came with; NULL or "": not known */
      const char *own_plan; /* the name of the plan that its user set; NULL: none */
    } of_job;
    struct {
      uint64_t number;
      const char *plan; /* JSON */
      double throughput, made;
      bool moved; /* the job runs it; else it was asked to */
    } plan;
    struct {
      uint64_t number;
      double time, before, after;
      const char *why;
    } history;
    struct {
      bool joined;
      uint32_t trees; /* of a server */
    } helper;         /* and of a server */
    struct {
      const char *request; /* for cells of switches, and what was given: a line as the job would send it */
    } cells;
    struct {
      uint64_t number;
      const char *cells; /* of that plan, which it is guaranteed and was given: such a line, too */
    } grant;
  };
};

struct by_manager_store;

/* Makes the file if it is not there. BANYAN_ERR_SYSTEM: it cannot be opened, another manager has it. BANYAN_ERR_PARSE:
 * it is something else, or of a later Banyan. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_manager_store_open(const char *path, struct by_manager_store **out);
/* Commits. NULL is allowed. */
void by_manager_store_close(struct by_manager_store *store);
/* All rows, each behind those that it is about. `row` is borrowed during the call. */
BANYAN_CHECK enum banyan_status by_manager_store_load(struct by_manager_store *store,
                                                      void (*row)(void *context, const struct by_manager_row *row),
                                                      void *context);
void by_manager_store_keep(struct by_manager_store *store, const struct by_manager_row *row);
void by_manager_store_commit(struct by_manager_store *store);
/* The number of the newest list of revoked certificates that was kept of an authority; -1: none. */
BANYAN_CHECK enum banyan_status by_manager_store_get_list(struct by_manager_store *store, const char *authority,
                                                          int64_t *number);
void by_manager_store_keep_list(struct by_manager_store *store, const char *authority, int64_t number);
/* The topology that agents have reported, as JSON; `out` stays empty if none was kept. */
BANYAN_CHECK enum banyan_status by_manager_store_get_topology(struct by_manager_store *store, struct by_text *out);
void by_manager_store_keep_topology(struct by_manager_store *store, const char *topology);
/* Something could not be written. */
bool by_manager_store_lost(const struct by_manager_store *store);
/* Forgets all rows but history, lists and the topology, so that all can be kept anew; ends being lost if it succeeds.
 */
void by_manager_store_renew(struct by_manager_store *store);
/* The same, but forgets nothing: for rows that were not loaded yet. */
void by_manager_store_retry(struct by_manager_store *store);

#endif
