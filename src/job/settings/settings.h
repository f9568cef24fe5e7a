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
  uint32_t fan_out; /* 0: chosen */
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
  bool encryption_required; /* by either line */
  bool certified;
};

/* BANYAN_ERR_PARSE names the first line that is not understood: what was forbidden must not be allowed by a slip. */
BANYAN_CHECK enum banyan_status by_policy_parse(const char *text, struct by_policy *out);
/* Without the file nothing is forbidden. BANYAN_ERR_SYSTEM: it is there and cannot be read. */
BANYAN_CHECK enum banyan_status by_policy_read(const char *path, struct by_policy *out);

struct by_settings {
  long rank, size;                   /* -1: unknown */
  const char *root;                  /* NULL: unknown */
  const char *key;                   /* NULL: none, or in the file */
  const char *key_file;              /* NULL: none */
  const char *identity_file;         /* rank 0's secret, see by_process_identity_derive; NULL: none */
  const char *encrypt;               /* see by_encryption_of */
  const char *host;                  /* NULL: the machine's name */
  const char *transport;             /* auto, shm, tcp */
  const char *plan;                  /* NULL: chosen by size */
  const char *timeline;              /* file that rank 0 writes; NULL: none */
  const char *topology;              /* to plan from at the start; NULL: none */
  long deterministic;                /* 1: nothing that is measured decides how a job adds */
  const char *cache;                 /* folder of measured networks, or "off"; NULL: the usual one */
  const char *planner;               /* settings for that, see by_planner_options_parse; NULL: the usual */
  const char *switches, *switch_key; /* where switches take requests, and with which secret; NULL: none given */
  const char *switch_key_file;       /* that the secret is read from; NULL: none */
  const char *sums;                  /* in switches: fixed, float32 */
  const char *iface;                 /* see by_interface_list */
  const char *ports;                 /* "low-high", NULL: any */
  const char *congestion;            /* NULL: the machine's default; this and the next two: see by_choose */
  const char *socket_buffer;         /* bytes; 0: the kernel tunes it */
  const char *connections;           /* of a link, 1 .. BY_LANES */
  const char *source;                /* where rank and size came from, for messages */
  char local_id[160];                /* what only this job has, where all its ranks run on this host; "": unknown */
  bool asks_pmix;                    /* that launcher may offer PMIx, for what is still unknown then */
  const char *quorum;                /* see by_quorum_rule_parse */
  double deadline;                   /* seconds */
  double join_deadline;              /* seconds */
  double silence;                    /* seconds, BY_SILENCE_MIN .. _MOST */
  long helpers, servers;             /* how many rank 0 waits for; -1: those that the plan names */
  double helper_deadline;            /* seconds from when all ranks have joined */
  char root_text[BANYAN_ROOT_TEXT], key_text[288],
      switch_key_text[288]; /* where a launcher's values had to be put together */
  uint64_t eager_limit, credit, chunk, block;
  uint64_t fusion; /* bytes; 0: none */
  double stall;    /* seconds; 0: never */
  struct by_control_choice control;
  double spin;             /* seconds; negative: chosen */
  const char *agent;       /* path, or "off"; NULL: the usual one, if it is there */
  const char *manager;     /* host:port; NULL: none */
  const char *keys;        /* folder; NULL: the usual one */
  const char *job;         /* its name for people; NULL: the program's */
  uint64_t iterations;     /* that it will make in all, 0: not known; under the lock, too */
  uint64_t end_time;       /* when its launcher ends it at the latest, s since 1970; 0: not known */
  long accept_helpers;     /* 1: agents may start some */
  long replace_plan;       /* 1: a manager may replace the plan that the user set */
  long class_;             /* -1: as an agent or manager decides */
  struct by_policy policy; /* of this host's administrator */
  long tos;                /* -1: leave; under the lock of the context once the job runs */
};

/* Reads the environment: BANYAN_* first, then what torchrun, Slurm, Open MPI
 * and MPICH set. What is set but empty counts as not set. Strings are borrowed
 * from the environment. */
BANYAN_CHECK enum banyan_status by_settings_read(struct by_settings *out);
/* The socket of this host's agent; NULL: there is none, or it is not to be used. */
const char *by_settings_agent(const struct by_settings *settings);
/* Copies the key into this struct: as it was given, from its file, or as by_local_key_find has it. BANYAN_ERR_ARGUMENT:
 * both a key and a file are given. */
BANYAN_CHECK enum banyan_status by_settings_find_key(struct by_settings *settings);
/* Forgets the key, and overwrites it. */
void by_settings_wipe_key(struct by_settings *settings);
/* Whether the values are possible. by_settings_read calls it. */
BANYAN_CHECK enum banyan_status by_settings_check(const struct by_settings *settings);
/* "auto", "tree", "tree:4", "ring" or "star". */
BANYAN_CHECK enum banyan_status by_control_choice_parse(const char *text, struct by_control_choice *out);
/* What a variable of the environment, "BANYAN_NAME=value" or its name alone, was meant to be, if it is none of ours
 * but near to one; else NULL. */
const char *by_settings_suggest(const char *variable);
/* What to use in place of a variable that earlier versions read, "BANYAN_NAME=value" or its name alone; NULL: there was
 * none of this name, or it is still read. */
const char *by_settings_removed(const char *variable);
/* Logs a warning for each variable that has a suggestion or was removed. */
void by_settings_warn(void);
/* Warns if everybody of this user sees the key. */
void by_settings_warn_of_key(const struct by_settings *settings);
/* What BANYAN_TRANSPORT may be: as choices of an option, and each by its place among them; NULL: there is none. */
#define BY_TRANSPORT_CHOICES "auto|shm|tcp"
const char *by_transport_at(int place);
/* The table as text: a line a variable. */
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
/* When the job ends at the latest, as Slurm says, whichever launcher started this process within its job. */
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
#define BY_PRESENCE_NAME "banyan-joined" /* of the memory, for memfd_create */

/* Called for each job that this process joins and leaves. */
void by_presence_join(void);
void by_presence_leave(void);

#endif
