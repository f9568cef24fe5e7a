/* Control messages as values: the hello of a process that joins, texts, the plans that rank 0 gives to helpers, and the
 * messages to the ends of in-network trees. Reading checks everything that follows from the bytes and from the numbers
 * of ranks and processes. No I/O. */
#ifndef BY_JOB_CONTROL_CONTROL_MESSAGES_H
#define BY_JOB_CONTROL_CONTROL_MESSAGES_H

#include "address.h"
#include "engine.h"
#include "fragment.h"
#include "member.h"
#include "refusal.h"

enum { BY_MESSAGE_TEXT = 1024 /* The maximum of bytes that by_fail keeps. */ };

/* The members of a job: ranks, and behind them helpers. */
struct by_roster {
  uint32_t ranks, processes; /* The number of ranks; the number of all processes. */
};

enum {
  BY_PLAN_UNREADABLE = 1
}; /* In place of a version: the given plan cannot be read, which the process will report. */

struct by_join {
  uint32_t rank, size;   /* The rank, valid only for ranks; the number of ranks. */
  uint32_t plan_version; /* The version of the plan that it was given; 0: none. */
  const char *plan;      /* The name of that plan; NULL when writing: none. */
  uint64_t membership,
      name; /* The number and name of the membership that it forms, see formation.h; 0: the job has only one. */
  struct by_member member;
  const uint8_t
      *statement; /* The statement of its host's agent, see statement.h; borrowed from the bytes when reading. */
  size_t statement_length; /* Bytes of the statement; 0: there is none. */
};

void by_join_write(struct by_writer *writer, const struct by_join *hello);
/* Writes a copy of a hello that has no statement, with a statement. */
void by_join_add_statement(struct by_writer *writer, const uint8_t *hello, size_t length, const uint8_t *statement,
                           size_t statement_length);
/* Reads a hello, whose strings are copied to the arena. */
BANYAN_CHECK enum banyan_status by_join_read(const void *bytes, size_t length, struct by_arena *arena,
                                             struct by_join *out);

/* The payload of REFUSED, FAILED, SUSPECT and LOST. */
struct by_text_message {
  enum banyan_status status; /* Never BANYAN_OK. */
  uint32_t process;          /* The process that the text is about; not checked. */
  char text[BY_MESSAGE_TEXT];
};

void by_text_message_write(struct by_writer *writer, enum banyan_status status, uint32_t process, const char *text);
BANYAN_CHECK enum banyan_status by_text_message_read(const void *bytes, size_t length, struct by_text_message *out);

enum { BY_REFUSALS_BYTES = 4 + 8 * BY_REFUSAL_REASONS };

/* The payload of REFUSALS: the numbers of connections that a helper or server has refused, by reason. */
struct by_refusals_message {
  uint64_t counts[BY_REFUSAL_REASONS];
};

/* Writes BY_REFUSALS_BYTES bytes. */
void by_refusals_message_write(struct by_writer *writer, const struct by_refusals_message *message);
BANYAN_CHECK enum banyan_status by_refusals_message_read(const void *bytes, size_t length,
                                                         struct by_refusals_message *out);

/* The payload of PLAN: a communicator's plan, for helpers. */
struct by_plan_message {
  uint32_t id; /* The number of the communicator's team. */
  uint32_t n, n_helpers;
  uint32_t *processes;  /* Members by rank, owned. */
  uint32_t *helpers;    /* The processes at the plan's vertices behind the ranks, owned; UINT32_MAX: none. */
  struct by_plan *plan; /* Owned; NULL: an engine has taken it. */
};

/* Writes a plan message. `processes` has an entry for each rank of the plan, `helpers` one for each other vertex. The
 * caller frees *bytes. */
BANYAN_CHECK enum banyan_status by_plan_message_write(uint32_t id, const uint32_t *processes, const uint32_t *helpers,
                                                      const struct by_plan *plan, uint8_t **bytes, size_t *length);
/* Reads a plan message, in which each process occurs at most once. On failure nothing is owned. */
BANYAN_CHECK enum banyan_status by_plan_message_read(const void *bytes, size_t length, struct by_roster roster,
                                                     struct by_plan_message *out);
/* Gives the plan to a helper's engine. A plan without this helper is ignored. */
BANYAN_CHECK enum banyan_status by_plan_message_set(struct by_plan_message *message, struct by_engine *engine,
                                                    uint32_t self);
void by_plan_message_fini(struct by_plan_message *message);

enum {
  BY_TREE_SECRET = 32,
  BY_TREE_SLOTS = 16384,
  BY_TREE_SETS = BY_TREE_WORKERS,
  BY_TREE_MESSAGE_MOST = 96 * BY_TREE_WORKERS
};

/* TREE is what rank 0 sends to a worker, the server or an aggregator of one in-network tree. This struct is the path
 * between the receiver of the message and another end of the tree. */
struct by_tree_way {
  struct by_address address; /* At the server: the worker's address. Elsewhere: the server's. */
  uint32_t via; /* At the server: the index in `vias` of the address that copies results to the worker; BY_TREE_ALONE:
                   none. */
  unsigned hops;
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

#define BY_TREE_ALONE UINT8_MAX

/* An address to which packets are sent in place of their receiver's. */
struct by_tree_via {
  struct by_address address;
  uint32_t aggregator; /* The process at the address; UINT32_MAX: a worker's address, so that switches before it get
                          packets. */
};

struct by_tree_message {
  uint32_t server;  /* The number of the server's process. */
  uint32_t version; /* The version of the plan's trees; see by_team_set_helped_plan. */
  uint16_t job, key;
  uint32_t slots, lines;
  unsigned char secret[BY_TREE_SECRET];
  bool exact; /* Numbers are sent in their own format, not in fixed point. */
  bool keyed; /* Fragments have MACs, see sum_key.h; otherwise seals. */
  struct by_worker_groups groups;
  uint32_t worker; /* The receiver: a worker's index, BY_TREE_FOR_SERVER or BY_TREE_FOR_AGGREGATOR. */
  /* At the server: addresses that copy results to workers. At a worker: the address to which terms and probes with a
   * stack are sent in place of the server's. At an aggregator: its workers. */
  uint32_t n_vias;
  struct by_tree_via vias[BY_FRAGMENT_PORTS];
  uint32_t n_sets; /* At the server in exact mode: the number of sets of workers whose terms switches add; see
                      by_server_config. */
  struct by_worker_set sets[BY_TREE_SETS];
  struct by_worker_set below[BY_FRAGMENT_HOPS]; /* At a worker: the workers for which each switch on its path waits. */
  struct by_tree_way
      ways[BY_TREE_WORKERS]; /* At the server: the paths by worker. Elsewhere: the first is the path to the server. */
};

#define BY_TREE_FOR_SERVER UINT32_MAX
#define BY_TREE_FOR_AGGREGATOR (UINT32_MAX - 1)

/* Writes at most BY_TREE_MESSAGE_MOST bytes. */
void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message);
BANYAN_CHECK enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                                     struct by_tree_message *out);

/* The payload of TREE_ASK: a request of rank 0 to an end of in-network trees. */
enum by_tree_ask_kind {
  BY_TREE_OPEN = 1, /* Asks a rank to open a UDP port for fragments and to report it. */
  BY_TREE_END       /* Asks to forget the trees of a version once all calls over them have ended, and to report that. */
};

struct by_tree_ask {
  enum by_tree_ask_kind kind;
  uint32_t version; /* The version of the trees, for BY_TREE_END. */
};

void by_tree_ask_write(struct by_writer *writer, const struct by_tree_ask *ask);
BANYAN_CHECK enum banyan_status by_tree_ask_read(const void *bytes, size_t length, struct by_tree_ask *out);

/* The payload of TREE_REPORT: a report of an end to rank 0. */
enum by_tree_report_kind {
  BY_TREE_AT = 1,  /* The sender receives fragments at `port`. */
  BY_TREE_READY,   /* The sender has set up its part of the tree of this version to this server. */
  BY_TREE_REFUSED, /* The sender cannot set up the tree, or open a port (version 0); `text` has the reason. */
  BY_TREE_UNUSED   /* The sender has forgotten the trees of this version, which no call uses any more. */
};

struct by_tree_report {
  enum by_tree_report_kind kind;
  uint32_t version, server; /* For BY_TREE_READY and BY_TREE_REFUSED: the trees, and the process of the server. */
  uint32_t port;            /* The UDP port, for BY_TREE_AT. */
  char text[BY_MESSAGE_TEXT];
};

void by_tree_report_write(struct by_writer *writer, const struct by_tree_report *report);
BANYAN_CHECK enum banyan_status by_tree_report_read(const void *bytes, size_t length, struct by_tree_report *out);

#endif
