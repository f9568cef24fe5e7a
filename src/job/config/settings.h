/* Settings: everything that can be set from outside stands in one table, which
 * makes the environment variables, their help and their documentation. Read
 * once, when a job is joined. Few on purpose: the planner decides. */
#ifndef BY_COMMUNICATOR_SETTINGS_H
#define BY_COMMUNICATOR_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"
#include "text.h"

/* Who tells whom what has been submitted. */
struct by_control_choice {
  enum { BY_CONTROL_AUTO, BY_CONTROL_TREE, BY_CONTROL_RING, BY_CONTROL_STAR } kind;
  uint32_t fan_out; /* 0: chosen */
};

struct by_settings {
  long rank, size;                    /* -1: unknown */
  const char *root;                   /* NULL: unknown */
  const char *key;                    /* NULL: none */
  const char *host;                   /* NULL: the machine's name */
  const char *transport;              /* auto, shm, tcp */
  const char *plan;                   /* NULL: chosen by size */
  const char *timeline;               /* file that rank 0 writes; NULL: none */
  long timeline_signal;               /* that begins and ends it; 0: it is kept from the start to the end */
  const char *topology;               /* to plan from at the start; NULL: none */
  const char *switches, *switch_key;  /* where switches take wishes, and with which secret; NULL: none given */
  const char *sums;                   /* in switches: fixed, float32 */
  const char *iface;                  /* see by_interface_list */
  const char *ports;                  /* "low-high", NULL: any */
  const char *congestion;             /* NULL: the machine's default; this and the next two: see by_choose */
  const char *socket_buffer;          /* bytes; 0: the kernel tunes it */
  const char *connections;            /* of a link, 1 .. BY_LANES */
  const char *source;                 /* where rank and size came from, for messages */
  bool asks_pmix;                     /* that launcher may offer PMIx, for what is still unknown then */
  double deadline;                    /* seconds */
  double join_deadline;               /* seconds */
  long helpers, servers;              /* how many rank 0 waits for; -1: those that the plan names */
  double helper_deadline;             /* seconds from when all ranks have joined */
  char root_text[300], key_text[400]; /* where a launcher's words had to be put together */
  uint64_t eager_limit, credit, chunk, block, attach;
  uint64_t fusion;           /* bytes; 0: none */
  double stall, stall_abort; /* seconds; 0: never */
  const char *control;       /* see by_control_choice_parse */
  double spin;               /* seconds; negative: chosen */
  const char *agent;         /* path, or "off"; NULL: the usual one, if it is there */
  const char *manager;       /* host:port; NULL: none */
  const char *keys;          /* folder; NULL: the usual one */
  const char *job;           /* its name for people; NULL: the program's */
  uint64_t iterations;       /* that it will make in all, 0: not known; under the lock, too */
  long share_key;            /* 1: with agent and manager */
  long class_;               /* -1: by word from outside */
  long tos;                  /* -1: leave; under the lock of the context once the job runs */
};

/* Reads the environment: BANYAN_* first, then what torchrun, Slurm, Open MPI
 * and MPICH set. What is set but empty counts as not set. Strings are borrowed
 * from the environment. */
BANYAN_CHECK enum banyan_status by_settings_read(struct by_settings *out);
/* Whether the values are possible. by_settings_read calls it. */
BANYAN_CHECK enum banyan_status by_settings_check(const struct by_settings *settings);
/* "auto", "tree", "tree:4", "ring" or "star". */
BANYAN_CHECK enum banyan_status by_control_choice_parse(const char *text, struct by_control_choice *out);
/* What a variable of the environment, "BANYAN_NAME=value" or its name alone, was meant to be, if it is none of ours
 * but near to one; else NULL. */
const char *by_settings_suggest(const char *variable);
/* Logs a warning for each variable that has a suggestion. */
void by_settings_warn_of_misspelt(void);
/* What BANYAN_TRANSPORT may be: as choices of an option, and each by its place among them; NULL: there is none. */
#define BY_TRANSPORT_CHOICES "auto|shm|tcp"
const char *by_transport_at(int place);
/* The table as text: a line a variable. */
void by_settings_print(struct by_text *text);

#endif
