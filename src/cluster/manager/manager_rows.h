/* What a manager keeps over a restart, as rows of tables (manager_store.h). A
 * row replaces the one of the same key. Plain values that borrow their texts. */
#ifndef BY_MANAGER_MANAGER_ROWS_H
#define BY_MANAGER_MANAGER_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum by_manager_table {
  BY_ROW_JOB,     /* key: job */
  BY_ROW_PLAN,    /* key: job, number. At most two a job: what it runs, what it was asked to run */
  BY_ROW_HISTORY, /* no key: added */
  BY_ROW_HELPER,  /* key: job, name */
  BY_ROW_CELLS,   /* key: job */
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
      double since, began;                /* since: it has been known here; began: as it says; 0: it does not */
      uint64_t iterations, sent, numbers; /* numbers: the last one given to a plan */
      uint64_t expected;                  /* iterations in all, by its own word; 0: none is known */
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
    } helper;
    struct {
      const char *wish; /* for cells of switches, and what was given: a line as the job would say it */
    } cells;
  };
};

#endif
