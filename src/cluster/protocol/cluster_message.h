/* The messages between ranks, agents and the manager: JSON, one object a line, whose member "type" names its kind. They
 * are the same on both hops, between a rank and the agent of its host and between that and the manager. Numbers are in
 * bytes, seconds and bit/s. This file reads and prints only, without I/O: unknown members are ignored, all other
 * malformed input is refused. It also merges and compares what was measured on connections to another host. */
#ifndef BY_CLUSTER_PROTOCOL_CLUSTER_MESSAGE_H
#define BY_CLUSTER_PROTOCOL_CLUSTER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "text.h"

/* Where agents listen unless BANYAN_AGENT names another socket. */
#define BY_CLUSTER_AGENT "/run/banyan/agent.sock"

enum {
  BY_CLUSTER_VERSION = 3,
  BY_CLUSTER_LINE_UP = 1 << 20, /* Maximum length of a line in bytes, without its end. */
  BY_CLUSTER_LINE_DOWN = 1 << 22,
  BY_CLUSTER_TOPOLOGY = 1 << 20, /* Maximum size of a job's topology in bytes. */
  BY_CLUSTER_JOB_ID = 32,        /* Number of hexadecimal digits, lower case. */
  BY_CLUSTER_NAME = 255,         /* Maximum bytes of a host's or job's name, and of an interface's address. */
  BY_CLUSTER_ROOT = 1024,        /* Maximum bytes of the addresses where rank 0 may be reached. */
  BY_CLUSTER_KEY = 1024,         /* Maximum bytes of a job's key. */
  BY_CLUSTER_REASON = 1024,      /* Maximum bytes of a reason; longer ones are cut. */
  BY_CLUSTER_RANKS = 65536,
  BY_CLUSTER_JOBS = 4096,
  BY_CLUSTER_INTERFACES = 256,
  BY_CLUSTER_SIZES = 64,
  BY_CLUSTER_PATHS = 64,   /* Paths of a job in one report: those that carry the most traffic. */
  BY_CLUSTER_CELLS = 1024, /* Cells of a reservation request: each switch is counted once for each tree over it. */
  BY_CLUSTER_SLOTS = 1 << 16,
  BY_CLUSTER_SLOT_BYTES = 1 << 20,
  BY_CLUSTER_MAX_CELLS = 1 << 24, /* Maximum cells of one switch. */
  BY_CLUSTER_TREES = 64,          /* Trees of a server, and of a plan for one size of buffers. */
  BY_CLUSTER_STEPS = 64,
  BY_CLUSTER_OFFER = 256,      /* Hosts in one offer. */
  BY_CLUSTER_FOUNDERS = 256,   /* Processes that form a first membership. */
  BY_CLUSTER_HANDLE = 2047,    /* Maximum bytes of a process's handle. */
  BY_CLUSTER_PROCESS = 64,     /* Maximum hexadecimal digits of a process's fingerprint. */
  BY_CLUSTER_STATEMENT = 8192, /* Maximum bytes of a statement about a process. */
};

enum by_cluster_type {
  /* Messages to an agent or the manager. Comments list the fields. */
  BY_MESSAGE_HELLO,    /* Fields: host, version, interfaces (name, address, rate, neighbour), may_help, may_serve,
                        * age, aggregates. A rank sends job and rank, too. */
  BY_MESSAGE_JOB,      /* Fields: job, name, hosts, root, key, began, own_plan, plan, preferences for its plans. */
  BY_MESSAGE_REPORT,   /* Fields: interfaces, jobs; of a switch: used_cells. */
  BY_MESSAGE_LEFT,     /* Fields: job, rank. */
  BY_MESSAGE_SWITCHED, /* Fields: job, number, at. */
  BY_MESSAGE_KEPT,     /* Fields: job, number, why. */
  BY_MESSAGE_RELEASED, /* Fields: job, number. */
  BY_MESSAGE_RESERVE,  /* Fields: job, cells. */
  BY_MESSAGE_HELPING,  /* Fields: job, helper, server, joined, why. */
  BY_MESSAGE_WANTED,   /* Fields: number (of the launcher, given by the agent), count (of hosts that it could use). */
  BY_MESSAGE_MEET,     /* Fields: job, number (of the process, given by the agent), count (of founders), handle,
                        * member. */
  BY_MESSAGE_PARTED,   /* Fields: job, number (of the process, which has ended). */
  BY_MESSAGE_CERTIFY,  /* Fields: job, process. The agent of its host answers and ends the connection. */
  BY_MESSAGE_STATUS,   /* An agent answers with one line for people and ends the connection. */
  /* Messages from the manager or an agent. Comments list the fields. */
  BY_MESSAGE_WELCOME, /* Fields: version, interval, rate; from an agent: host, its own name. */
  BY_MESSAGE_CLASSES, /* Fields: jobs (job, class). */
  BY_MESSAGE_PLAN,    /* Fields: job, number, plan, switches, cells (slots of each tree at each switch), topology. */
  BY_MESSAGE_CELLS, /* Fields: job, cells (slots), in the order of the request; empty: switches do not share memory. */
  BY_MESSAGE_HELP,  /* Fields: job, root, key, helper, server, trees. */
  BY_MESSAGE_REST,  /* Fields: job, server. */
  BY_MESSAGE_OFFERED,   /* Fields: number (as in the request), hosts. */
  BY_MESSAGE_MEMBERS,   /* Fields: job, number (as in the request; 0: for all in the list), attempt, handles. */
  BY_MESSAGE_CERTIFIED, /* Field: statement (statement.h). */
  BY_MESSAGE_AGAIN,     /* The agent must connect anew and send everything again. */
  BY_MESSAGE_REFUSED,   /* Field: why. */
  BY_MESSAGE_KINDS
};

struct by_cluster_interface {
  const char *name, *address;                      /* The address in hello, "" if the interface has none. */
  double rate;                                     /* bit/s of the link; 0: unknown. */
  double sent, received, ours_sent, ours_received; /* bit/s in a report; `ours_` is the part of jobs. */
  const char *neighbour, *neighbour_port; /* The host or switch at the other end, and its interface; NULL: unknown. */
};

/* What a switch can do for jobs that send through it. */
struct by_cluster_aggregates {
  uint32_t cells, bytes;     /* The number of cells, and the bytes of memory of each. */
  const char *address, *key; /* IP:PORT where the switch grants cells, and the secret for that, or NULL without one. */
  bool float32;              /* The switch can add float32. */
};

/* How rank 0 reaches a switch of its plan. */
struct by_cluster_switch {
  const char *at, *address, *key; /* NULL without one. */
};

struct by_cluster_size {
  uint32_t log2; /* The size: calls of 2^log2 bytes up to twice as many. */
  uint64_t calls;
};

/* Traffic from this host to another one since the previous report. */
struct by_cluster_path {
  const char *to;   /* The other host. */
  double sent;      /* bit/s */
  double busy;      /* The fraction of time in which data waited that the network had not yet accepted. */
  double bandwidth; /* bit/s during that time; 0: unknown, or the network accepted everything at once. */
};

/* A job in a report, or the class of a job. Counts are since the job began. */
struct by_cluster_job {
  const char *job;
  uint32_t class_;
  uint32_t n_ranks, n_sizes, n_paths;
  const uint32_t *ranks; /* Those on this host. */
  const struct by_cluster_size *sizes;
  const struct by_cluster_path *paths;
  uint64_t iterations, calls;
  uint64_t expected;    /* Total iterations that its rank 0 states; 0: not stated. */
  double ends_in;       /* Seconds until its launcher ends it at the latest, as its rank 0 states; 0: not stated. */
  uint64_t sent, input; /* Bytes: sent by those ranks, and in the calls of one rank. */
  double iteration_time;
};

/* Cells that a tree through switches requests at one of them, or has there by the manager's plan. */
struct by_cluster_cells {
  const char *at;     /* The switch. */
  const char *server; /* The tree's host, in a plan its root; NULL: unknown. */
  uint32_t slots;     /* Slots that are requested, or in an answer or a plan are granted. */
  uint32_t bytes;     /* Bytes of the switch's memory that a slot takes. */
  bool has;           /* The tree has been at the switch, which granted `given` slots. */
  uint32_t given;
};

/* A message. To print one, fill in the fields of its kind; texts are borrowed. A message that was read owns them. */
struct by_cluster_message {
  enum by_cluster_type type;
  uint32_t version;
  const char *host;
  bool may_help, may_serve;
  double age;                                     /* Seconds since the agent began. */
  const struct by_cluster_aggregates *aggregates; /* NULL: the host is not a switch that aggregates. */
  uint32_t used_cells;                            /* Cells that a switch has granted, in its report. */
  const char *job;                                /* NULL in an agent's hello */
  uint32_t rank;
  const char *name, *root, *key; /* The key is NULL where helpers may not join; help always has one. */
  double began; /* Seconds since 1970 when the job began; 0: unknown. Distinguishes it from an earlier job of its ID. */
  const char *own_plan; /* Name of the plan that the user set; NULL: none. `plan` has it over the job's ranks. */
  bool replace_plan;    /* A manager may replace the user's plan. */
  /* The user's preferences for a manager's plans; NULL or 0: as the manager's options say. */
  const char *ways;    /* Names of the allowed methods, separated by commas. */
  double tree_penalty; /* Penalty of each tree, as a fraction of the minimum time. */
  uint32_t steps;      /* Weights are multiples of 1 / steps. */
  uint32_t trees;      /* Maximum for one size of buffers; in help: trees for the server. */
  uint32_t n_hosts;    /* The ranks of the job, or the hosts of an offer. */
  const char *const *hosts;
  uint32_t n_interfaces, n_jobs, n_cells, n_switches;
  const struct by_cluster_interface *interfaces;
  const struct by_cluster_job *jobs;
  const struct by_cluster_cells *cells;
  const struct by_cluster_switch *switches;
  uint64_t number, at;             /* Number of a plan, or of the requester of hosts; the first call with a plan. */
  uint32_t count;                  /* Hosts that are wanted, or processes that form the first membership. */
  const char *handle;              /* Handle of a process that meets others. */
  bool member;                     /* The process is in a membership. */
  const char *process, *statement; /* Fingerprint of a process, and what its host's agent states about it. */
  uint32_t attempt; /* Attempt to form the first membership with these handles; 0: they are of members. */
  uint32_t n_handles;
  const char *const *handles;
  const char *why, *helper;
  bool server; /* The message is about a server on the host `helper`, otherwise about a helper. */
  bool joined;
  double interval, rate; /* The rate is 0 if the manager does not know it. */
  const char *plan;      /* JSON. */
  const char *topology;  /* JSON: the part of the planned topology that concerns the job; NULL: not sent. */
  struct by_arena arena;
};

const char *by_cluster_type_name(enum by_cluster_type type);
/* Tells whether a message goes from a rank or an agent to an agent or the manager. */
bool by_cluster_type_is_up(enum by_cluster_type type);

/* Reads one line without its end. On success the caller releases *out with by_cluster_message_fini. BANYAN_ERR_PARSE
 * states what is wrong; BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_cluster_message_read(const char *line, size_t length,
                                                        struct by_cluster_message *out);
/* Appends one line without its end. Its texts must be printable (by_is_printable). */
void by_cluster_message_print(const struct by_cluster_message *message, struct by_text *text);
/* Returns the line as a new text, which the caller releases. */
struct by_text by_cluster_message_line(const struct by_cluster_message *message);
/* Appends a job's field "paths", with a comma before it. */
void by_cluster_paths_print(const struct by_cluster_job *job, struct by_text *text);
/* Releases a message that was read or made. */
void by_cluster_message_fini(struct by_cluster_message *message);

/* Merges the measurements of two connections to the same host over the same time. `to->to` is unchanged. */
void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other);
/* Tells whether both bandwidths are known and one is so much higher that it must be reported. */
bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b);

/* The last bandwidths of a path. All zero: none yet. */
enum { BY_PATH_RECENT = 8 };
struct by_path_recent {
  uint32_t n;
  double seen[BY_PATH_RECENT];
};

/* Adds a bandwidth. Returns true if it is so much lower or higher than all of the last ones that it must be reported.
 * As the throughput of TCP fluctuates, a comparison with only the last one would report too often. */
bool by_path_recent_add(struct by_path_recent *recent, double bandwidth);

/* How much one peer may send to another: a burst of lines and bytes, and a rate of both. It is two leaky buckets; a
 * value without a clock: callers pass the time in seconds, which never goes back. */
struct by_budget_rules {
  double lines_at_once, lines_a_second, bytes_at_once, bytes_a_second;
};

struct by_budget {
  const struct by_budget_rules *rules; /* The limits; borrowed. */
  double lines, bytes, filled;
};

/* The limits that a manager enforces for each certificate, and half of them, which an agent keeps. */
extern const struct by_budget_rules by_budget_of_peer, by_budget_of_agent;

struct by_budget by_budget_full(const struct by_budget_rules *rules, double now);
/* Returns false, and takes nothing, if the budget does not suffice now. */
bool by_budget_take(struct by_budget *budget, size_t bytes, double now);
/* Tells whether nothing was taken recently. */
bool by_budget_is_full(struct by_budget *budget, double now);

#endif
