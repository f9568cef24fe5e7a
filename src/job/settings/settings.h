/* Settings: everything that can be set from outside stands in one table, which
 * makes the environment variables, their help and their documentation. Read
 * once, when a job is joined. Few on purpose: the planner decides. */
#ifndef BY_JOB_SETTINGS_SETTINGS_H
#define BY_JOB_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/comm.h>

#include "fail.h"
#include "text.h"

/* The control tree: which ranks notify each other of what has been submitted. */
struct by_control_choice {
  enum { BY_CONTROL_AUTO, BY_CONTROL_TREE, BY_CONTROL_RING, BY_CONTROL_STAR } kind;
  uint32_t fan_out; /* The maximum number of children in the tree; 0: chosen by the library. */
};

/* What the administrator of a host allows jobs: a file of lines, of which one that begins with '#' is a comment.
 *
 *   encrypt required     BANYAN_ENCRYPT=off is an error
 *   join certified       so it is, and other processes, as this one, need a statement of their host's agent
 * (statement.h)
 *
 * No state. */

#define BY_POLICY_FILE "/etc/banyan/policy"

struct by_policy {
  bool encryption_required; /* Jobs must encrypt; both lines require it. */
  bool certified;           /* Processes need a statement of their host's agent. */
};

/* Parses a policy. BANYAN_ERR_PARSE names the first unknown line, so that a typing error does not lift a restriction.
 */
BANYAN_CHECK enum banyan_status by_policy_parse(const char *text, struct by_policy *out);
/* Reads a policy. Without the file nothing is forbidden. BANYAN_ERR_SYSTEM: it exists and cannot be read. */
BANYAN_CHECK enum banyan_status by_policy_read(const char *path, struct by_policy *out);

struct by_settings {
  long rank, size;                   /* The rank, and the number of ranks; -1: unknown. */
  const char *root;                  /* The address where the ranks meet; NULL: unknown. */
  const char *key;                   /* The job's key; NULL: none, or it is in the file. */
  const char *key_file;              /* The path of the file with the job's key; NULL: none. */
  const char *identity_file;         /* The path of rank 0's secret, see by_process_identity_derive; NULL: none. */
  const char *encrypt;               /* Whether to encrypt; see by_encryption_of. */
  const char *host;                  /* The host's name in plans; NULL: the machine's name. */
  const char *transport;             /* One of BY_TRANSPORT_CHOICES. */
  const char *plan;                  /* The plan of all calls; NULL: the library chooses. */
  const char *timeline;              /* The path of the timeline that rank 0 writes; NULL: none. */
  const char *topology;              /* The topology from which rank 0 plans at the start; NULL: none. */
  long deterministic;                /* 1: the order of additions does not depend on measurements. */
  const char *cache;                 /* The folder of measured networks, or "off"; NULL: the default. */
  const char *planner;               /* Options of the planner, see by_planner_options_parse; NULL: defaults. */
  const char *switches, *switch_key; /* The addresses of switches, and the secret for requests; NULL: none. */
  const char *switch_key_file;       /* The path of the file with that secret; NULL: none. */
  const char *sums;                  /* The numbers that switches add: "fixed" or "float32". */
  const char *iface;                 /* The network interfaces to use; see by_interface_list. */
  const char *ports;                 /* The range of ports, "low-high"; NULL: any. */
  const char *congestion;            /* Congestion control by peer, see by_choose; NULL: the machine's. */
  const char *socket_buffer;         /* Bytes by peer, see by_choose; 0: the kernel tunes it. */
  const char *connections;           /* Connections of a link by peer, 1 .. BY_LANES; see by_choose. */
  const char *source;                /* The origin of rank and size, for messages. */
  char local_id[160];   /* A text that identifies this job if all its ranks run on this host; "": unknown. */
  bool asks_pmix;       /* The launcher may offer PMIx for values that are still unknown. */
  const char *quorum;   /* The rule for the size of a membership; see by_quorum_rule_parse. */
  double deadline;      /* The limit of a call, in seconds. */
  double join_deadline; /* The limit for joining a job, in seconds. */
  double
      silence; /* Seconds after which a host that does not answer counts as lost, BY_SILENCE_MIN .. BY_SILENCE_MAX. */
  long helpers, servers;  /* How many of each rank 0 waits for; -1: those that the plan names. */
  double helper_deadline; /* How long rank 0 waits for them after all ranks have joined, in seconds. */
  /* Memory of `root`, `key` and `switch_key` where these are not strings of the environment. */
  char root_text[BANYAN_ROOT_TEXT], key_text[288], switch_key_text[288];
  uint64_t eager_limit, credit, chunk, block; /* Bytes; see struct by_engine_options. */
  uint64_t fusion; /* Bytes up to which small submitted AllReduces are fused; 0: they are not. */
  double stall;    /* Seconds after which a waiting call is reported; 0: never. */
  struct by_control_choice control;
  double spin;         /* Seconds that a thread polls before it sleeps; negative: chosen by the library. */
  const char *agent;   /* The path of the agent's socket, or "off"; NULL: the default, if it exists. */
  const char *manager; /* The manager's address, host:port; NULL: none. */
  const char *keys;    /* The folder of keys; NULL: the default. */
  const char *job;     /* The job's name for people; NULL: the program's. */
  uint64_t iterations; /* The number of iterations of the whole job; 0: unknown. Under the job's lock once it runs. */
  uint64_t end_time;   /* When the launcher ends the job, in seconds since 1970; 0: unknown. */
  long accept_helpers; /* 1: agents may start helpers. */
  long replace_plan;   /* 1: a manager may replace the plan that the user set. */
  long class_;         /* The priority class; -1: an agent or manager decides. */
  struct by_policy policy; /* The policy of this host's administrator. */
  long tos;                /* The IP type of service; -1: unchanged. Under the job's lock once it runs. */
};

/* Reads the environment: BANYAN_* first, then what torchrun, Slurm, Open MPI
 * and MPICH set. What is set but empty counts as not set. Strings are borrowed
 * from the environment. */
BANYAN_CHECK enum banyan_status by_settings_read(struct by_settings *out);
/* The socket of this host's agent; NULL: there is none, or it is not to be used. */
const char *by_settings_agent(const struct by_settings *settings);
/* Copies the key into this struct: the given one, that of its file, or that of by_local_key_find. BANYAN_ERR_ARGUMENT:
 * both a key and a file are given. */
BANYAN_CHECK enum banyan_status by_settings_find_key(struct by_settings *settings);
/* Overwrites the key, and forgets it. */
void by_settings_wipe_key(struct by_settings *settings);
/* Checks the values. by_settings_read calls it. */
BANYAN_CHECK enum banyan_status by_settings_check(const struct by_settings *settings);
/* Parses "auto", "tree", "tree:4", "ring" or "star". */
BANYAN_CHECK enum banyan_status by_control_choice_parse(const char *text, struct by_control_choice *out);
/* The variable whose name is similar to that of an unknown one, given as "BANYAN_NAME=value" or by its name; NULL: the
 * variable is known, or none is similar. */
const char *by_settings_suggest(const char *variable);
/* What to use in place of a variable that earlier versions read, given as "BANYAN_NAME=value" or by its name; NULL:
 * none had this name, or it is still read. */
const char *by_settings_removed(const char *variable);
/* Logs a warning for each variable that has a suggestion or was removed. */
void by_settings_warn(void);
/* Warns if other processes of this user can read the key. */
void by_settings_warn_of_key(const struct by_settings *settings);
/* The values of BANYAN_TRANSPORT, as choices of an option. */
#define BY_TRANSPORT_CHOICES "auto|shm|tcp"
/* The choice with this index; NULL: there is none. */
const char *by_transport_at(int index);
/* Prints the table of variables, one line for each. */
void by_settings_print(struct by_text *text);

/* ---- values that depend on the peer, such as "reno@127.0.0.0/8,bbr@10.8.0.0/16,cubic": items are looked at in order;
 * the first whose subnet holds the peer's address counts, and one without a subnet holds every address */

struct by_address;
enum { BY_CHOICE_TEXT = 32 };

/* The value for a peer, "" if there is none. `list` may be NULL; `value` holds BY_CHOICE_TEXT. BANYAN_ERR_PARSE if an
 * item up to the chosen one cannot be read. */
BANYAN_CHECK enum banyan_status by_choose(const char *list, const struct by_address *peer, char *value);
/* Reads the whole list and checks every value. */
BANYAN_CHECK enum banyan_status by_choose_check(const char *list, enum banyan_status (*check)(const char *value));

/* ---- launchers other than `banyan run`: what they set for a process, and where the ranks can meet */

/* Fills rank and size, and root and key where they are not set and can be
 * known, from the variables of Open MPI, MPICH, Slurm or torchrun. */
BANYAN_CHECK enum banyan_status by_launcher_read(struct by_settings *settings);
/* Fills end_time from Slurm, whichever launcher started this process within a job of Slurm. */
BANYAN_CHECK enum banyan_status by_launcher_read_end(struct by_settings *settings);
/* Meets through PMIx, if this process was started under it and libpmix is
 * there: rank 0 chooses a port and a key, the others learn them. Not being
 * under PMIx is no error, nor is nothing being unknown: nothing changes. Blocks
 * until all ranks came, or the join deadline passes. */
BANYAN_CHECK enum banyan_status by_pmix_read(struct by_settings *settings);
/* For rank 0 of a new job: a value of BANYAN_ROOT, see banyan_root_choose. `out` holds BANYAN_ROOT_TEXT. */
BANYAN_CHECK enum banyan_status by_root_choose(const struct by_settings *settings, bool one_host, char *out);
/* The key of a job whose ranks all run on this host, where it has none: rank 0 generates it. The others wait for it,
 * until the join deadline passes. */
BANYAN_CHECK enum banyan_status by_local_key_find(struct by_settings *settings);
/* The first host of a Slurm node list: "node[07-09,12]-ib,gpu3" gives "node07-ib". */
BANYAN_CHECK enum banyan_status by_slurm_first_host(const char *list, char *out, size_t room);

/* Tells `banyan run` whether this process takes part in a job, so that it can say of a rank that ended well whether it
 * had left. BANYAN_JOINED_FILE, which it sets, leads to memory in which the byte of each rank is 1 while it does. The
 * number is BANYAN_RANK, so a child of a rank counts as the rank. Any thread; errors are ignored. */

#define BY_PRESENCE_VARIABLE "BANYAN_JOINED_FILE"
#define BY_PRESENCE_NAME "banyan-joined" /* The name of the memory for memfd_create. */

/* Called for each job that this process joins and leaves. */
void by_presence_join(void);
void by_presence_leave(void);

#endif
