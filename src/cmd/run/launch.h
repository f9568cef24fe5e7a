/* Starts the ranks of a job and stays until the last has ended.
 *
 *   banyan run --+-- run-host (host a) --+-- rank 0
 *                |                       +-- rank 1
 *                +-- ssh b run-host -----+-- rank 2
 *
 * One `banyan run-host` per host starts that host's ranks and carries their
 * output, both for this machine and over ssh. A process that loses its
 * neighbour above ends everything below, so nothing is left over. */
#ifndef BY_CMD_RUN_LAUNCH_H
#define BY_CMD_RUN_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "fail.h"

/* ---- the hosts of a job, and which ranks run where: launch_setup.c */

/* Hosts are filled in the order given. A host is "name", "name:slots", "user@name:slots" or "[2001:db8::1]:slots", and
 * "node[1-3,7]:slots" are four; a name given twice adds slots. */

enum { BY_MOST_HOSTS = 4096, BY_MOST_RANKS = 65536 };

struct by_launch_host {
  const char *name;        /* without user and brackets */
  const char *destination; /* what ssh gets */
  int slots;
  int first, ranks; /* set by by_hosts_place */
  bool local;       /* names this machine */
  bool node;        /* is reached by srun, not by ssh */
  /* What its processes are instead of ranks, behind which they are numbered: BY_HELPERS, one for each slot, or
   * BY_SERVERS, one for all slots, which are trees. */
  enum by_beside { BY_RANKS, BY_HELPERS, BY_SERVERS } beside;
  /* Puts the process that is to be this host's run-host in its place, before it starts; NULL: it stays where it is. */
  enum banyan_status (*enter)(void *context, const struct by_launch_host *host);
  void *context;
};

struct by_launch_hosts {
  struct by_launch_host *items;
  size_t count, room;
  size_t named; /* how many were added, also those that came again */
  struct by_arena arena;
};

void by_hosts_init(struct by_launch_hosts *hosts);
void by_hosts_fini(struct by_launch_hosts *hosts);
/* Adds "a:2,b:4". */
enum banyan_status by_hosts_parse(struct by_launch_hosts *hosts, const char *list);
/* The same for hosts of which it has been said already how many slots each has (0: not), or as which user each is
 * reached (NULL: not); who says it twice is told. */
enum banyan_status by_hosts_parse_as(struct by_launch_hosts *hosts, const char *list, int slots, const char *user);
/* Adds a file's hosts, as Banyan, Open MPI, MPICH and Slurm write them; host_file.c. Blocks as the file does. */
enum banyan_status by_hosts_read(struct by_launch_hosts *hosts, const char *path);
/* Calls `add` for each host of "node[01-03,7]:2,gpu4", until it fails: node01:2, node02:2, node03:2, node7:2, gpu4.
 * What has a colon in its brackets is an address and stays as it is. BANYAN_ERR_PARSE for what is no list;
 * host_names.c. */
enum banyan_status by_host_names_expand(const char *list, enum banyan_status (*add)(void *context, const char *name),
                                        void *context);
/* Adds this machine under the name that BANYAN_HOST gives it, else its own. */
enum banyan_status by_hosts_add_self(struct by_launch_hosts *hosts, int slots);
/* Adds a host that is a place on this machine, whatever its name is. */
enum banyan_status by_hosts_add_place(struct by_launch_hosts *hosts, const char *name, int slots,
                                      enum banyan_status (*enter)(void *context, const struct by_launch_host *host),
                                      void *context);
/* Adds a node of a Slurm allocation, on which srun starts run-host, also if it is this machine. */
enum banyan_status by_hosts_add_node(struct by_launch_hosts *hosts, const char *name, int slots);
/* Adds all nodes of the allocation that this process is in, with as many slots as tasks; slurm_hosts.c. */
enum banyan_status by_hosts_add_slurm(struct by_launch_hosts *hosts);
/* Sum of all slots. */
int by_hosts_slots(const struct by_launch_hosts *hosts);
/* Gives every rank a host; hosts that stay empty are dropped. */
enum banyan_status by_hosts_place(struct by_launch_hosts *hosts, int ranks);
/* Adds hosts of helpers or of servers, all slots of each, for processes numbered from `first` on. Names are copied. */
enum banyan_status by_hosts_add_beside(struct by_launch_hosts *hosts, const struct by_launch_hosts *more,
                                       enum by_beside beside, int first);
/* "rank", "helper", "server". */
const char *by_beside_name(enum by_beside beside);
bool by_hosts_all_local(const struct by_launch_hosts *hosts);

/* ---- what ranks get: launch_setup.c */

/* The variables every rank of a job gets from the launcher: BANYAN_* of this process, a fresh key, and what was
 * asked for. Later ones win. */
struct by_job_environment {
  char **items; /* "NAME=value"; ends with NULL */
  size_t count;
  char *key_file; /* from which the key is; NULL: it was generated */
};

/* Also makes the key. After an error, too, fini is to be called. */
enum banyan_status by_job_environment_init(struct by_job_environment *environment);
/* "NAME=value" as it is. */
void by_job_environment_copy(struct by_job_environment *environment, const char *text);
/* "NAME=value", or "NAME" for this process's value (nothing where it has none). Of BANYAN_KEY_FILE, the file is read
 * now.
 */
enum banyan_status by_job_environment_add(struct by_job_environment *environment, const char *text);
/* Nothing where `value` is NULL. */
void by_job_environment_set(struct by_job_environment *environment, const char *name, const char *value);
void by_job_environment_fini(struct by_job_environment *environment);
/* The value in "NAME=value"; NULL: this is another variable. Borrowed. */
const char *by_variable_value(const char *text, const char *name);
/* The same in a list that ends with NULL; NULL: it does not have this variable. */
const char *by_variables_get(char *const *variables, const char *name);

/* A plan named on a command line is checked before any rank is started, so that a mistake is reported once and not by
 * every rank: whether `plan` (NULL: none) can be read, is well-formed, and may be for this number of ranks or of hosts.
 * `hosts` 0: the ranks may name their hosts themselves, so that any number of hosts is possible, but not more than
 * ranks. A file that is not there counts only if all ranks run `here`. */
enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here);

enum { BY_PROGRAM_PATH = 4096 };

/* The path of this program; false: unknown. `out` holds BY_PROGRAM_PATH. */
bool by_program_path(char *out);

/* ---- launching: launch.c, launch_setup.c, rank_output.c */

enum by_output_mode {
  BY_OUTPUT_PREFIX, /* every line as "[rank] line" */
  BY_OUTPUT_RANK0,  /* rank 0's stdout as it is; everything else with a prefix to stderr */
  BY_OUTPUT_RAW,    /* lines without prefix */
  BY_OUTPUT_NONE,   /* only into files */
  BY_OUTPUT_ERROR,  /* all with a prefix to stderr */
};

#define BY_OUTPUT_CHOICES "auto|prefix|rank0|raw"
#define BY_OUTPUT_CHOICES_WITH_FILES BY_OUTPUT_CHOICES "|none"

/* By the place among BY_OUTPUT_CHOICES: "auto" is rank0 for a command (NULL: none) with --json, else `usual`. */
enum by_output_mode by_output_choose(int choice, char *const *command, enum by_output_mode usual);

struct by_elastic_options;
struct by_rank_files;

struct by_launch {
  const char *title; /* of messages: "banyan run" */
  const struct by_launch_hosts *hosts;
  int ranks;
  int beside;               /* helpers and servers, on hosts behind those of the ranks */
  char *const *command;     /* ends with NULL */
  char *const *environment; /* "NAME=value" for every rank; ends with NULL */
  const char *key_file;     /* whose key ranks get, also one that takes its place; NULL: none */
  enum by_output_mode output;
  struct by_rank_files *files; /* into which the ranks' output is written, too; NULL: none */
  const char *const *labels;   /* what stands before a rank's lines in place of its number; NULL: the number */
  bool pin;
  bool keep_going;       /* a rank that fails, or a host that is lost, does not end the others */
  double timeout;        /* seconds for the whole job; 0: none */
  double report;         /* seconds that other ranks get after one has failed, before SIGTERM */
  double grace;          /* seconds between SIGTERM and SIGKILL */
  double start;          /* seconds in which every host must answer */
  const char *ssh;       /* "ssh -p 22": split at spaces */
  const char *remote;    /* this command's path on other hosts */
  const char *ports;     /* range of rank 0's port; NULL: any */
  const char *interface; /* whose addresses are rank 0's; NULL: all that it has, and what the user calls it */
  const struct by_elastic_options *elastic; /* processes may come and go, see elastic_job.h; NULL: a failure ends all */
};

/* Without time limit; 1 s to report a failure, 5 s between signals, 60 s for hosts to answer. */
struct by_launch by_job_usual(const char *title);
/* Blocks. Returns the exit code: 0; that of the rank that failed first (128 +
 * signal when killed), or as supervisor.h says where processes may come and go;
 * 124 after the timeout; 1 when nothing could be started, or nothing else failed and a file is incomplete. */
int by_launch(const struct by_launch *job);

/* ---- how ranks ended, for people and as an exit code: launch_reports.c */

/* "exit code 3" or "killed by signal 9 (Killed)" for a wait status; returns `out`. */
const char *by_print_wait_status(int status, char *out, size_t room);
/* The exit code a shell would show: 128 + signal when killed. */
int by_wait_exit_code(int status);

#endif
