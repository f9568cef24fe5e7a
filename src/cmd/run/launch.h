/* Starts the ranks of a job and waits until the last has ended.
 *
 *   banyan run --+-- run-host (host a) --+-- rank 0
 *                |                       +-- rank 1
 *                +-- ssh b run-host -----+-- rank 2
 *
 * One `banyan run-host` for each host starts that host's ranks and forwards their output, both for this machine and
 * over ssh. A process that loses its upper neighbour ends everything below it, so no process is left over. */
#ifndef BY_CMD_RUN_LAUNCH_H
#define BY_CMD_RUN_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "fail.h"
#include "text.h"

/* ---- the hosts of a job, and which ranks run where: launch_hosts.c */

/* Hosts are filled in the order given. A host is "name", "name:slots", "user@name:slots" or "[2001:db8::1]:slots", and
 * "node[1-3,7]:slots" are four; a repeated name adds slots. */

enum { BY_MAX_HOSTS = 4096, BY_MAX_RANKS = 65536 };

struct by_launch_host {
  const char *name;        /* Without user and brackets. */
  const char *destination; /* Argument of ssh. */
  int slots;
  int first, ranks; /* Set by by_hosts_place. */
  bool local;       /* The name of this machine. */
  bool node;        /* Reached by srun instead of ssh. */
  /* Kind of its processes; helpers and servers are numbered after the ranks. BY_HELPERS: one for each slot; BY_SERVERS:
   * one for all slots, which are trees. */
  enum by_beside { BY_RANKS, BY_HELPERS, BY_SERVERS } beside;
  /* Moves the process that becomes this host's run-host, before it starts; NULL: it is not moved. */
  enum banyan_status (*enter)(void *context, const struct by_launch_host *host);
  void *context;
};

struct by_launch_hosts {
  struct by_launch_host *items;
  size_t count, capacity;
  size_t named; /* Number of hosts that were added, including repeated ones. */
  struct by_arena arena;
};

void by_hosts_init(struct by_launch_hosts *hosts);
void by_hosts_fini(struct by_launch_hosts *hosts);
/* Adds "a:2,b:4". */
enum banyan_status by_hosts_parse(struct by_launch_hosts *hosts, const char *list);
/* Adds a file's hosts, in the form of Banyan, Open MPI, MPICH or Slurm. Blocks as the file does. */
enum banyan_status by_hosts_read(struct by_launch_hosts *hosts, const char *path);
/* Adds this machine with the name of BANYAN_HOST, or its own. */
enum banyan_status by_hosts_add_self(struct by_launch_hosts *hosts, int slots);
/* Adds a host that is a place on this machine, whatever its name is. */
enum banyan_status by_hosts_add_place(struct by_launch_hosts *hosts, const char *name, int slots,
                                      enum banyan_status (*enter)(void *context, const struct by_launch_host *host),
                                      void *context);
/* Adds all nodes of this process's allocation, with as many slots as tasks. */
enum banyan_status by_hosts_add_slurm(struct by_launch_hosts *hosts);
/* Returns the sum of all slots. */
int by_hosts_slots(const struct by_launch_hosts *hosts);
/* Assigns a host to every rank; empty hosts are dropped. */
enum banyan_status by_hosts_place(struct by_launch_hosts *hosts, int ranks);
/* Adds hosts of helpers or of servers, with all slots, for processes numbered from `first` on. Names are copied. */
enum banyan_status by_hosts_add_beside(struct by_launch_hosts *hosts, const struct by_launch_hosts *more,
                                       enum by_beside beside, int first);
/* Returns "rank", "helper" or "server". */
const char *by_beside_name(enum by_beside beside);
bool by_hosts_all_local(const struct by_launch_hosts *hosts);

/* ---- environment of ranks: launch_setup.c */

/* The variables that every rank of a job gets from the launcher: BANYAN_* of this process, a new key, and requested
 * ones. Later ones take precedence. */
struct by_job_environment {
  char **items; /* "NAME=value"; ends with NULL. */
  size_t count;
  char *key_file; /* File of the key; NULL: it was generated. */
};

/* Also makes the key. The caller calls fini, also after an error. */
enum banyan_status by_job_environment_init(struct by_job_environment *environment);
/* Adds "NAME=value" unchanged. */
void by_job_environment_copy(struct by_job_environment *environment, const char *text);
/* Adds "NAME=value", or "NAME" with this process's value (nothing if it has none). The file of BANYAN_KEY_FILE is read
 * now. */
enum banyan_status by_job_environment_add(struct by_job_environment *environment, const char *text);
/* Does nothing if `value` is NULL. */
void by_job_environment_set(struct by_job_environment *environment, const char *name, const char *value);
void by_job_environment_fini(struct by_job_environment *environment);
/* Returns the value in "NAME=value"; NULL: it is another variable. Borrowed. */
const char *by_variable_value(const char *text, const char *name);
/* Returns the value in a list that ends with NULL; NULL: it does not have this variable. */
const char *by_variables_get(char *const *variables, const char *name);

/* Checks a plan before any rank is started, so that a mistake is reported once and not by every rank: whether `plan`
 * (NULL: none) can be read, is well-formed, and fits this number of ranks or of hosts. `hosts` 0: the ranks may name
 * their hosts themselves, so that any number of hosts is possible, but not more than ranks. A missing file is an error
 * only if all ranks run `here`. */
enum banyan_status by_check_plan(const char *plan, int ranks, size_t hosts, bool here);

enum { BY_PROGRAM_PATH = 4096 };

/* Finds the path of this program; false: unknown. `out` has BY_PROGRAM_PATH bytes. */
bool by_program_path(char *out);

/* ---- launching: launch.c, launch_setup.c, rank_output.c */

enum by_output_mode {
  BY_OUTPUT_PREFIX, /* Every line as "[rank] line". */
  BY_OUTPUT_RANK0,  /* Rank 0's stdout unchanged; everything else with a prefix to stderr. */
  BY_OUTPUT_RAW,    /* Lines without prefix. */
  BY_OUTPUT_NONE,   /* Only into files. */
  BY_OUTPUT_ERROR,  /* Everything with a prefix to stderr. */
};

#define BY_OUTPUT_CHOICES "auto|prefix|rank0|raw"
#define BY_OUTPUT_CHOICES_WITH_FILES BY_OUTPUT_CHOICES "|none"

/* Returns the mode by index in BY_OUTPUT_CHOICES: "auto" is rank0 for a command (or NULL) with --json, else `usual`. */
enum by_output_mode by_output_choose(int choice, char *const *command, enum by_output_mode usual);

struct by_elastic_options;
struct by_rank_files;

struct by_launch {
  const char *title; /* Prefix of messages: "banyan run". */
  const struct by_launch_hosts *hosts;
  int ranks;
  int beside;               /* Helpers and servers, on hosts after those of the ranks. */
  char *const *command;     /* Ends with NULL. */
  char *const *environment; /* "NAME=value" for every rank; ends with NULL. */
  const char *key_file;     /* File of the ranks' key, and of keys that replace it; NULL: none. */
  enum by_output_mode output;
  struct by_rank_files *files; /* Files that also receive the ranks' output; NULL: none. */
  const char *const *labels;   /* Prefixes of ranks' lines instead of their numbers; NULL: the numbers. */
  bool pin;
  bool keep_going;       /* A rank that fails, or a host that is lost, does not end the others. */
  double timeout;        /* Seconds for the whole job; 0: unlimited. */
  double report;         /* Seconds that other ranks have after one has failed, before SIGTERM. */
  double grace;          /* Seconds between SIGTERM and SIGKILL. */
  double start;          /* Seconds in which every host must answer. */
  const char *ssh;       /* "ssh -p 22": split at spaces. */
  const char *remote;    /* This command's path on other hosts. */
  const char *ports;     /* Range of rank 0's port; NULL: any. */
  const char *interface; /* Interface with rank 0's addresses; NULL: all that it has, and the user's name for it. */
  const struct by_elastic_options *elastic; /* For elastic jobs, see elastic_job.h; NULL: a failure ends the job. */
};

/* Returns the defaults: no time limit; 1 s to report a failure, 5 s between signals, 60 s for hosts to answer. */
struct by_launch by_launch_defaults(const char *title);
/* Blocks. Returns the exit code: 0; that of the rank that failed first (128 + signal when killed), or that of
 * supervisor.h for elastic jobs; 124 after the timeout; 1 if nothing could be started, or nothing else failed and a
 * file is incomplete. */
int by_launch(const struct by_launch *job);

/* ---- ends of ranks, for people and as exit codes: launch_reports.c */

/* Prints "exit code 3" or "killed by signal 9 (Killed)" for a wait status; returns `out`. */
const char *by_print_wait_status(int status, char *out, size_t capacity);
/* Returns the exit code that a shell would report: 128 + signal when killed. */
int by_wait_exit_code(int status);

/* ---- dry_run.c
 *
 * `banyan run --dry-run`: prints what a job would start, and where. */

/* Prints every host with the way to reach it, its processes with their command and variables, and the files of their
 * output. Values of variables whose names suggest secrets are omitted. Starts nothing and writes nothing. */
BANYAN_CHECK enum banyan_status by_dry_run_print(const struct by_launch *job, struct by_text *out);

/* ---- mpi_program.c
 *
 * The file of a command, and the MPI library with which a program is linked, by the names of the libraries that it
 * needs. Plain functions. */

enum by_mpi_abi { BY_MPI_NONE, BY_MPI_OPENMPI, BY_MPI_MPICH };

/* Examines the contents of a file; BY_MPI_NONE: it is not a program for 64-bit little-endian machines, is damaged, or
 * needs neither library. */
enum by_mpi_abi by_elf_abi(const unsigned char *bytes, size_t length);
/* Examines a file; BY_MPI_NONE also if it cannot be read. */
enum by_mpi_abi by_program_abi(const char *path);
/* Finds the file of a command's name, in PATH if the name has no slash. Returns false if there is none. */
bool by_program_find(const char *name, char *out, size_t capacity);

/* ---- variables of each rank: launch_setup.c
 *
 * Variables of each process of a job besides those of the job. No state. */

struct by_rank_place {
  int rank, size;
  int local_rank, local_size;
  int sharing;           /* Processes of its own host entry; with more than one, each gets one OpenMP thread. */
  const char *directory; /* Where processes of elastic jobs register; NULL: others. */
  int starts;            /* Number of earlier starts of such a process. */
};

/* Appends "NAME=value". Variables of PyTorch (RANK, ...) only if `given`, which ends with NULL, does not have them;
 * OMP_NUM_THREADS only if `has_threads`, which means that it is set already, is false. */
void by_rank_environment_add(const struct by_rank_place *place, char *const *given, bool has_threads,
                             struct by_job_environment *environment);
/* Tells whether ranks get OMP_NUM_THREADS=1, which limits their own work. */
bool by_rank_environment_limits(const struct by_rank_place *place, bool has_threads);

/* Tells whether the value of this variable is probably a secret, by its name, and must not be shown. */
bool by_variable_is_secret(const char *variable);

/* ---- output by lines: launch_setup.c
 *
 * Makes ranks print line by line: into a pipe, the C library and Python would print by pages, and lose the rest when
 * the process is killed. Decision 179 gives reasons for these means. */

/* Variables that the function below sets, for people. */
#define BY_LINE_OUTPUT_VARIABLES "PYTHONUNBUFFERED, _STDBUF_O, LD_PRELOAD, ASAN_OPTIONS"

/* Changes this process's environment, in the child that becomes a rank, after all other variables are set. Variables of
 * the user keep their values: with _STDBUF_O, the C library is unchanged. */
void by_line_output_set(void);

#endif
