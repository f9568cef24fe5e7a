/* A manager's rows in a SQLite file, so that it continues after a restart or crash. Rows between two commits become
 * durable together. A full disk or an unwritable file is logged and stops nothing; by_manager_store_lost then returns
 * true, as the file is outdated. Reads and writes a file; one thread. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_STORE_H
#define BY_CLUSTER_MANAGER_MANAGER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"
#include "text.h"

/* A row replaces the one of the same key. Rows are plain values that borrow their texts. */
enum by_manager_table {
  BY_ROW_JOB,     /* Key: job. */
  BY_ROW_PLAN,    /* Key: job, number. A job has at most two: the plan that it runs, and the proposed one. */
  BY_ROW_HISTORY, /* No key: rows are only added. */
  BY_ROW_HELPER,  /* Key: job, name. */
  BY_ROW_CELLS,   /* Key: job. */
  BY_ROW_SERVER,  /* Key: job, name. */
  BY_ROW_GRANT,   /* Key: job, number. */
};

struct by_manager_row {
  enum by_manager_table table;
  bool gone;       /* The row of this key is deleted, for a job with all of its other rows. */
  const char *job; /* The job's ID. */
  const char *name;
  union {
    struct {
      const char *hosts; /* Hosts of its ranks, as a JSON array. */
      const char *root;
      double since, began; /* `since`: when the manager first knew it; `began`: as the job states; 0: not stated. */
      uint64_t iterations, sent, numbers; /* `numbers`: number of its latest plan. */
      uint64_t expected;                  /* Total iterations as the job states; 0: not stated. */
      bool is_void;                       /* The statement was too small. */
      uint32_t class_;
      bool left;
      const char *owner;    /* Certificate that announced the job; NULL or "": unknown. */
      const char *own_plan; /* Name of the plan that the user set; NULL: none. */
    } of_job;
    struct {
      uint64_t number;
      const char *plan; /* JSON. */
      double throughput, made;
      bool moved; /* The job runs the plan; otherwise it is proposed. */
    } plan;
    struct {
      uint64_t number;
      double time, before, after;
      const char *why;
    } history;
    struct {
      bool joined;
      uint32_t trees; /* Trees of a server. */
    } helper;         /* A helper, or a server. */
    struct {
      const char *request; /* Requested and given cells, in the form of a job's request. */
    } cells;
    struct {
      uint64_t number;
      const char *cells; /* Guaranteed and given cells of that plan, in the same form. */
    } grant;
  };
};

struct by_manager_store;

/* Opens the file, or creates it. BANYAN_ERR_SYSTEM: it cannot be opened, or another manager uses it. BANYAN_ERR_PARSE:
 * it is something else, or of a later Banyan. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_manager_store_open(const char *path, struct by_manager_store **out);
/* Commits. NULL is allowed. */
void by_manager_store_close(struct by_manager_store *store);
/* Passes all rows to `row`, each after those to which it refers. The row is borrowed during the call. */
BANYAN_CHECK enum banyan_status by_manager_store_load(struct by_manager_store *store,
                                                      void (*row)(void *context, const struct by_manager_row *row),
                                                      void *context);
void by_manager_store_keep(struct by_manager_store *store, const struct by_manager_row *row);
void by_manager_store_commit(struct by_manager_store *store);
/* Stores the number of the newest revocation list of an authority; -1: none. */
BANYAN_CHECK enum banyan_status by_manager_store_get_list(struct by_manager_store *store, const char *authority,
                                                          int64_t *number);
void by_manager_store_keep_list(struct by_manager_store *store, const char *authority, int64_t number);
/* Appends the stored topology as JSON; `out` stays empty if there is none. */
BANYAN_CHECK enum banyan_status by_manager_store_get_topology(struct by_manager_store *store, struct by_text *out);
void by_manager_store_keep_topology(struct by_manager_store *store, const char *topology);
/* Tells whether something could not be written. */
bool by_manager_store_lost(const struct by_manager_store *store);
/* Deletes all rows but history, lists and the topology, so that all can be stored again; ends the loss on success. */
void by_manager_store_renew(struct by_manager_store *store);
/* Ends the loss without deleting anything, for rows that were not loaded yet. */
void by_manager_store_retry(struct by_manager_store *store);

#endif
