/* The messages between ranks, agents and the manager: JSON, one object a line, whose member "type" is its type. They
 * are the same on both hops, from a rank to the agent of its host and from there to the manager, and back. Numbers are
 * in bytes, seconds and bit/s. This reads and prints only, without I/O: unknown members are ignored, all other
 * malformed input is refused.
 *
 * What connections to another host were seen to do: made one of several, and compared. A value, without I/O. */
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
  BY_CLUSTER_LINE_UP = 1 << 20, /* most bytes of a line, without its end */
  BY_CLUSTER_LINE_DOWN = 1 << 22,
  BY_CLUSTER_TOPOLOGY = 1 << 20, /* most bytes of a job's topology */
  BY_CLUSTER_JOB_ID = 32,        /* hexadecimal digits, lower case */
  BY_CLUSTER_NAME = 255,         /* most bytes of a host's or job's name, of an interface's address, */
  BY_CLUSTER_ROOT = 1024,        /* of the addresses where rank 0 may be reached, */
  BY_CLUSTER_KEY = 1024,         /* of a job's key, */
  BY_CLUSTER_REASON = 1024,      /* of a reason; longer ones are cut */
  BY_CLUSTER_RANKS = 65536,
  BY_CLUSTER_JOBS = 4096,
  BY_CLUSTER_INTERFACES = 256,
  BY_CLUSTER_SIZES = 64,
  BY_CLUSTER_PATHS = 64,   /* of a job in one report: those that carry most */
  BY_CLUSTER_CELLS = 1024, /* of a reservation request: switches, counted once for each tree over them */
  BY_CLUSTER_SLOTS = 1 << 16,
  BY_CLUSTER_SLOT_BYTES = 1 << 20,
  BY_CLUSTER_MOST_CELLS = 1 << 24, /* of one switch */
  BY_CLUSTER_TREES = 64,           /* of a server; of a plan for one size of buffers */
  BY_CLUSTER_STEPS = 64,
  BY_CLUSTER_OFFER = 256,      /* hosts in one offer */
  BY_CLUSTER_FOUNDERS = 256,   /* processes that form a first membership, */
  BY_CLUSTER_HANDLE = 2047,    /* bytes of the handle of each */
  BY_CLUSTER_PROCESS = 64,     /* hexadecimal digits of a process's fingerprint, */
  BY_CLUSTER_STATEMENT = 8192, /* and the most of a statement about one */
};

enum by_cluster_type {
  /* up */
  BY_MESSAGE_HELLO,    /* host, version, interfaces (name, address, rate, neighbour), may_help, may_serve, age,
                        * aggregates; a rank: job, rank */
  BY_MESSAGE_JOB,      /* job, name, hosts, root, key, began, own_plan, plan, preferences for its plans */
  BY_MESSAGE_REPORT,   /* interfaces, jobs; a switch: used_cells */
  BY_MESSAGE_LEFT,     /* job, rank */
  BY_MESSAGE_SWITCHED, /* job, number, at */
  BY_MESSAGE_KEPT,     /* job, number, why */
  BY_MESSAGE_RELEASED, /* job, number */
  BY_MESSAGE_RESERVE,  /* job, cells */
  BY_MESSAGE_HELPING,  /* job, helper, server, joined, why */
  BY_MESSAGE_WANTED,   /* number (of who asks, by the agent), count: hosts that a launcher could use */
  BY_MESSAGE_MEET,     /* job, number (of the process, by the agent), count: founders, handle, member */
  BY_MESSAGE_PARTED,   /* job, number: the process has ended */
  BY_MESSAGE_CERTIFY,  /* job, process: of a process, to the agent of its host, which answers and ends the connection */
  BY_MESSAGE_STATUS,   /* to an agent, which answers with one line for people and ends the connection */
  /* down */
  BY_MESSAGE_WELCOME,   /* version, interval, rate; of an agent: host, as it calls its own */
  BY_MESSAGE_CLASSES,   /* jobs (job, class) */
  BY_MESSAGE_PLAN,      /* job, number, plan, switches, cells (slots of each tree at each switch), topology */
  BY_MESSAGE_CELLS,     /* job, cells (slots), in the order of the request; none: switches' memory is not shared out */
  BY_MESSAGE_HELP,      /* job, root, key, helper, server, trees */
  BY_MESSAGE_REST,      /* job, server */
  BY_MESSAGE_OFFERED,   /* number (as in the request), hosts */
  BY_MESSAGE_MEMBERS,   /* job, number (as in the request; 0: to all in the list), attempt, handles */
  BY_MESSAGE_CERTIFIED, /* statement: see statement.h */
  BY_MESSAGE_AGAIN,     /* the agent is to connect anew, and send everything again */
  BY_MESSAGE_REFUSED,   /* why */
  BY_MESSAGE_KINDS
};

struct by_cluster_interface {
  const char *name, *address;                      /* address: in hello, "" if it has none */
  double rate;                                     /* bit/s of the link, 0: not known */
  double sent, received, ours_sent, ours_received; /* bit/s, in a report; ours: of jobs */
  const char *neighbour, *neighbour_port; /* the host or switch at the other end and its interface; NULL: not known */
};

/* What a switch can do for jobs that send through it. */
struct by_cluster_aggregates {
  uint32_t cells, bytes;     /* how many there are; of memory, each */
  const char *address, *key; /* IP:PORT at which it grants them, and the secret for that; key: NULL without one */
  bool float32;              /* it can add float32 */
};

/* How rank 0 reaches a switch of its plan. */
struct by_cluster_switch {
  const char *at, *address, *key; /* key: NULL without one */
};

struct by_cluster_size {
  uint32_t log2; /* calls of 2^log2 bytes up to twice as many */
  uint64_t calls;
};

/* What the connections from this host to another one were seen to do, since the report before. */
struct by_cluster_path {
  const char *to;   /* the other host */
  double sent;      /* bit/s */
  double busy;      /* for this part of the time there was something to be sent that the network had not taken yet */
  double bandwidth; /* bit/s while that was so; 0: not known, or as much went as there was to go */
};

/* Of one job: in a report, or which class it is in. Counts since the job began. */
struct by_cluster_job {
  const char *job;
  uint32_t class_;
  uint32_t n_ranks, n_sizes, n_paths;
  const uint32_t *ranks; /* of this host */
  const struct by_cluster_size *sizes;
  const struct by_cluster_path *paths;
  uint64_t iterations, calls;
  uint64_t expected;    /* iterations that it will make in all, as its rank 0 states; 0: it does not */
  double ends_in;       /* s until its launcher ends it at the latest, as its rank 0 states; 0: it does not */
  uint64_t sent, input; /* bytes: that those ranks sent; of one rank's calls */
  double iteration_time;
};

/* What a tree through switches requests at one of them, or has there by the manager's plan. */
struct by_cluster_cells {
  const char *at;     /* the switch */
  const char *server; /* the tree's host, in a plan its root; NULL: not known */
  uint32_t slots;     /* that it requests, or in an answer or a plan is granted */
  uint32_t bytes;     /* of the switch's memory that a slot takes */
  bool has;           /* it has been at the switch, which gave it */
  uint32_t given;     /* so many */
};

/* To print one, fill in what its kind has, and lend what it points to. One that was read owns it. */
struct by_cluster_message {
  enum by_cluster_type type;
  uint32_t version;
  const char *host;
  bool may_help, may_serve;
  double age;                                     /* s since the agent began */
  const struct by_cluster_aggregates *aggregates; /* of a switch; NULL: it does not */
  uint32_t used_cells;                            /* of a switch's report: cells that it has granted */
  const char *job;                                /* NULL in an agent's hello */
  uint32_t rank;
  const char *name, *root, *key; /* key: NULL where helpers may not join; always there in help */
  double began;         /* of the job, s since 1970; 0: not known. Distinguishes it from an earlier one of its ID */
  const char *own_plan; /* name of the plan that the job's user set; NULL: none. In `plan` it is over the job's ranks */
  bool replace_plan;    /* a manager may replace that */
  /* What the job's user prefers for a manager's plans; NULL or 0: what the manager's options say. */
  const char *ways;    /* those that are allowed, by names with commas */
  double tree_penalty; /* of each tree, part of the least time */
  uint32_t steps;      /* weights are multiples of 1 / steps */
  uint32_t trees;      /* most for one size of buffers; of help: so many a server is to serve */
  uint32_t n_hosts;    /* = ranks of the job; of an offer */
  const char *const *hosts;
  uint32_t n_interfaces, n_jobs, n_cells, n_switches;
  const struct by_cluster_interface *interfaces;
  const struct by_cluster_job *jobs;
  const struct by_cluster_cells *cells;
  const struct by_cluster_switch *switches;
  uint64_t number, at;             /* of a plan, or of who asks for hosts; the call from which on a plan is run */
  uint32_t count;                  /* of hosts that are wanted; of processes that form the first membership */
  const char *handle;              /* of a process that meets others */
  bool member;                     /* it is in a membership */
  const char *process, *statement; /* the fingerprint of one, and what its host's agent states about it */
  uint32_t attempt;                /* to form the first membership with these handles; 0: they are of members */
  uint32_t n_handles;
  const char *const *handles;
  const char *why, *helper;
  bool server; /* it is about a server, and `helper` is the host that is to run it; else about a helper */
  bool joined;
  double interval, rate; /* rate: 0 if the manager does not know it */
  const char *plan;      /* as JSON */
  const char *topology;  /* as JSON: what the plan was made from, as far as it concerns the job; NULL: not sent */
  struct by_arena arena;
};

const char *by_cluster_type_name(enum by_cluster_type type);
/* Whether a rank or an agent sends it, and not an agent or the manager. */
bool by_cluster_type_is_up(enum by_cluster_type type);

/* One line without its end. Only on success *out must be given back, with by_cluster_message_fini. BANYAN_ERR_PARSE
 * states what is wrong, BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_cluster_message_read(const char *line, size_t length,
                                                        struct by_cluster_message *out);
/* Adds one line without its end. Texts in it must be printable (by_is_printable). */
void by_cluster_message_print(const struct by_cluster_message *message, struct by_text *text);
/* The same as a text of its own, which the caller gives back. */
struct by_text by_cluster_message_line(const struct by_cluster_message *message);
/* Adds a job's field "paths", with a comma before it. */
void by_cluster_paths_print(const struct by_cluster_job *job, struct by_text *text);
/* One that was made to be printed, too. */
void by_cluster_message_fini(struct by_cluster_message *message);

/* Of the same time, to the same host: what all of them did. `to->to` stays. */
void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other);
/* Both bandwidths are known, and one of them is so much faster that it is news. */
bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b);

/* The bandwidths that a path was last seen to have. All zero: none yet. */
enum { BY_PATH_LATE = 8 };
struct by_path_late {
  uint32_t n;
  double seen[BY_PATH_LATE];
};

/* One more. True: it is so much less than all of them, or so much more, that it is news; as TCP takes now more and now
 * less, that is another question than whether it differs from the last one. */
bool by_path_late_add(struct by_path_late *late, double bandwidth);

/* How much one peer may send to another: so many lines and bytes at once, and so many a second from then on. Two leaky
 * buckets; a value, without a clock: seconds are handed in, and never go back. */
struct by_budget_rules {
  double lines_at_once, lines_a_second, bytes_at_once, bytes_a_second;
};

struct by_budget {
  const struct by_budget_rules *rules; /* borrowed */
  double lines, bytes, filled;
};

/* What a manager receives of one certificate, and half of that, which an agent takes care to stay below. */
extern const struct by_budget_rules by_budget_of_peer, by_budget_of_agent;

struct by_budget by_budget_full(const struct by_budget_rules *rules, double now);
/* False: it is too much now, and nothing is taken. */
bool by_budget_take(struct by_budget *budget, size_t bytes, double now);
/* Nothing was taken of late. */
bool by_budget_is_full(struct by_budget *budget, double now);

#endif
