/* What control connections carry, as values: the hello of a process that joins, texts, the plans that rank 0 gives to
 * helpers, and what it sends to the ends of in-network trees. Reading checks all that the bytes and the numbers of
 * ranks and processes can tell. No I/O. */
#ifndef BY_JOB_CONTROL_CONTROL_MESSAGES_H
#define BY_JOB_CONTROL_CONTROL_MESSAGES_H

#include "address.h"
#include "engine.h"
#include "fragment.h"
#include "member.h"
#include "refusal.h"

enum { BY_MESSAGE_TEXT = 1024 /* all that by_fail keeps */ };

/* Who is in the job: ranks, and behind them helpers. */
struct by_roster {
  uint32_t ranks, processes;
};

enum { BY_PLAN_UNREADABLE = 1 }; /* in place of a version: it was given a plan that cannot be read, as it will report */

struct by_join {
  uint32_t rank, size;       /* rank: only of a rank */
  uint32_t plan_version;     /* of the plan that it was given; 0: it was given none */
  const char *plan;          /* its name; may be NULL when written */
  uint64_t membership, name; /* that it forms, see formation.h; 0: the job's first and only one */
  struct by_member member;
  const uint8_t *statement; /* of its host's agent, see statement.h; borrowed from the bytes when read */
  size_t statement_length;  /* 0: there is none */
};

void by_join_write(struct by_writer *writer, const struct by_join *hello);
/* Puts a statement into a hello of so many bytes that was written without one. */
void by_join_add_statement(struct by_writer *writer, const uint8_t *hello, size_t length, const uint8_t *statement,
                           size_t statement_length);
/* Strings go to the arena. */
BANYAN_CHECK enum banyan_status by_join_read(const void *bytes, size_t length, struct by_arena *arena,
                                             struct by_join *out);

/* REFUSED, FAILED, SUSPECT and LOST. */
struct by_text_message {
  enum banyan_status status; /* not BANYAN_OK */
  uint32_t process;          /* that it concerns; any number */
  char text[BY_MESSAGE_TEXT];
};

void by_text_message_write(struct by_writer *writer, enum banyan_status status, uint32_t process, const char *text);
BANYAN_CHECK enum banyan_status by_text_message_read(const void *bytes, size_t length, struct by_text_message *out);

enum { BY_REFUSALS_BYTES = 4 + 8 * BY_REFUSAL_REASONS };

/* REFUSALS: how many connections a helper or server has refused so far, by reason. */
struct by_refusals_message {
  uint64_t counts[BY_REFUSAL_REASONS];
};

/* BY_REFUSALS_BYTES. */
void by_refusals_message_write(struct by_writer *writer, const struct by_refusals_message *message);
BANYAN_CHECK enum banyan_status by_refusals_message_read(const void *bytes, size_t length,
                                                         struct by_refusals_message *out);

/* PLAN: a communicator's plan, for helpers. */
struct by_plan_message {
  uint32_t id;
  uint32_t n, n_helpers;
  uint32_t *processes,
      *helpers;         /* members by rank; the processes at the plan's vertices behind the ranks, UINT32_MAX: none */
  struct by_plan *plan; /* owned, as the lists are; NULL once an engine has it */
};

/* The lists are as long as the plan has ranks, and other vertices. *bytes is the caller's, to be freed. */
BANYAN_CHECK enum banyan_status by_plan_message_write(uint32_t id, const uint32_t *processes, const uint32_t *helpers,
                                                      const struct by_plan *plan, uint8_t **bytes, size_t *length);
/* Every process stands in it once. On failure nothing is owned. */
BANYAN_CHECK enum banyan_status by_plan_message_read(const void *bytes, size_t length, struct by_roster roster,
                                                     struct by_plan_message *out);
/* Gives the plan to a helper's engine. One that this helper is not in changes nothing for it. */
BANYAN_CHECK enum banyan_status by_plan_message_set(struct by_plan_message *message, struct by_engine *engine,
                                                    uint32_t self);
void by_plan_message_fini(struct by_plan_message *message);

enum {
  BY_TREE_SECRET = 32,
  BY_TREE_SLOTS = 16384,
  BY_TREE_SETS = BY_TREE_WORKERS,
  BY_TREE_MESSAGE_MOST = 96 * BY_TREE_WORKERS
};

/* TREE: what rank 0 sends to a worker, the server or an aggregator of one in-network tree. This: the way between the
 * receiver and another end. */
struct by_tree_way {
  struct by_address address; /* for the server: the worker's; for others: the server's */
  uint32_t via;              /* for the server: what brings the worker results for all; BY_TREE_ALONE: nothing does */
  unsigned hops;
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

#define BY_TREE_ALONE UINT8_MAX

/* An address that packets take in place of their receiver's. */
struct by_tree_via {
  struct by_address address;
  uint32_t aggregator; /* the process there; UINT32_MAX: a worker's, so that switches before it get the packet */
};

struct by_tree_message {
  uint32_t server;  /* the process */
  uint32_t version; /* of the plan's trees: see by_team_set_helped_plan */
  uint16_t job, key;
  uint32_t slots, lines;
  unsigned char secret[BY_TREE_SECRET];
  bool exact; /* numbers travel as they are */
  bool keyed; /* fragments have MACs, see sum_key.h; else seals */
  struct by_worker_groups groups;
  uint32_t worker; /* which worker it is for, BY_TREE_FOR_SERVER: the server, BY_TREE_FOR_AGGREGATOR: an aggregator */
  /* For the server: where results for all go, to be copied there. For a worker: where terms and probes go that have a
   * stack, if not to the server. For an aggregator: its workers. */
  uint32_t n_vias;
  struct by_tree_via vias[BY_FRAGMENT_PORTS];
  uint32_t n_sets; /* for the server, in exact mode: whose terms switches add, see by_server_config */
  struct by_worker_set sets[BY_TREE_SETS];
  struct by_worker_set below[BY_FRAGMENT_HOPS]; /* for a worker: what each switch on its way waits for */
  struct by_tree_way ways[BY_TREE_WORKERS];     /* for the server: by worker; for others: the first is to the server */
};

#define BY_TREE_FOR_SERVER UINT32_MAX
#define BY_TREE_FOR_AGGREGATOR (UINT32_MAX - 1)

/* At most BY_TREE_MESSAGE_MOST bytes. */
void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message);
BANYAN_CHECK enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                                     struct by_tree_message *out);

/* TREE_ASK: what rank 0 asks of an end of in-network trees. */
enum by_tree_ask_kind {
  BY_TREE_OPEN = 1, /* to take fragments at a UDP port, which it reports; of a rank */
  BY_TREE_END       /* to report when all calls over trees of this version have ended, and to forget them then */
};

struct by_tree_ask {
  enum by_tree_ask_kind kind;
  uint32_t version; /* of BY_TREE_END */
};

void by_tree_ask_write(struct by_writer *writer, const struct by_tree_ask *ask);
BANYAN_CHECK enum banyan_status by_tree_ask_read(const void *bytes, size_t length, struct by_tree_ask *out);

/* TREE_REPORT: what an end reports to rank 0. */
enum by_tree_report_kind {
  BY_TREE_AT = 1,  /* it takes fragments at this port */
  BY_TREE_READY,   /* it has its part in the tree of this version to this server */
  BY_TREE_REFUSED, /* it cannot have that, or cannot open a port (version 0); text: why */
  BY_TREE_UNUSED   /* no call over trees of this version is under way, and none will be: it has forgotten them */
};

struct by_tree_report {
  enum by_tree_report_kind kind;
  uint32_t version, server; /* server: the process, of BY_TREE_READY and BY_TREE_REFUSED */
  uint32_t port;            /* of BY_TREE_AT */
  char text[BY_MESSAGE_TEXT];
};

void by_tree_report_write(struct by_writer *writer, const struct by_tree_report *report);
BANYAN_CHECK enum banyan_status by_tree_report_read(const void *bytes, size_t length, struct by_tree_report *out);

#endif
