/* The launcher's view of one host: its run-host, started here or through ssh or srun, and the pipes to it. */
#ifndef BY_CMD_RUN_LAUNCH_LINK_H
#define BY_CMD_RUN_LAUNCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "address.h"
#include "fail.h"
#include "job_key.h"
#include "launch.h"
#include "launch_io.h"
#include "rank_output.h"
#include "text.h"

struct by_launch_link {
  const struct by_launch_host *host;
  pid_t pid; /* Of run-host or ssh; 0: ended. */
  struct by_pipe to;
  struct by_pipe from;
  int from_fd, error_fd;              /* Its stdout and stderr; -1: closed. */
  bool ready;                         /* It has sent BY_LAUNCH_HELLO. */
  bool started;                       /* It has received what to start. */
  bool asked, searching;              /* It was asked for an address of rank 0's host; it has not answered yet. */
  char root_address[BY_ADDRESS_TEXT]; /* The address that it has found; "": none. */
  int live;                           /* Ranks there that have not ended. */
  int local;                          /* Ranks of this machine that precede its own, started by other links. */
  int local_size;                     /* Number above all local ranks of this machine; 0: its own are the only ones. */
  size_t group;                       /* Number of its host, from 0. */
  uint64_t answer_by;                 /* Deadline of the answers before its start; 0: that of the whole job. */
};

enum { BY_MAX_LAUNCH_WORDS = 70 };

/* The command that starts run-host for a host: here, or through ssh or srun. */
struct by_launch_words {
  size_t n;
  char *argv[BY_MAX_LAUNCH_WORDS]; /* Ends with NULL. */
};

BANYAN_CHECK enum banyan_status by_launch_words_init(const struct by_launch *job, const struct by_launch_host *host,
                                                     struct by_launch_words *out);
void by_launch_words_fini(struct by_launch_words *words);
/* Appends 'it'\''s', a word that no shell changes. */
void by_add_quoted(struct by_text *text, const char *word);

/* Starts run-host for a host. */
enum banyan_status by_launch_link_open(const struct by_launch *job, const struct by_launch_host *host,
                                       struct by_launch_link *out);
/* Waits until run-host or ssh has ended, at most until this time (of by_clock_system), then kills it. Returns its wait
 * status; 0 if it was waited for before. */
int by_launch_link_wait(struct by_launch_link *link, uint64_t until);
/* Tells whether data of ssh is lost, as on a path that drops large packets; `text` reports it. */
bool by_launch_link_loses(const struct by_launch_link *link, char *text, size_t capacity);
/* Closes the pipes, which ends the processes; then call by_launch_link_wait. */
void by_launch_link_shut(struct by_launch_link *link);
/* Finds the hello in the received bytes; `chatter` gets lines before it (a login script's). */
void by_launch_link_find_hello(struct by_launch_link *link, const char **chatter, size_t *length);
/* Prints lines of the host itself: a login script's, ssh's, run-host's. */
void by_launch_link_print_lines(const struct by_launch_link *link, const char *bytes, size_t length,
                                struct by_output *output);
/* Prints what it has written to its stderr. False: nothing more can be read now. */
bool by_launch_link_print(struct by_launch_link *link, struct by_output *output);
/* Prints why a host is lost whose run-host or ssh has ended with this wait status. */
void by_launch_link_lost(const struct by_launch_link *link, int status, char *out, size_t capacity);

/* ---- what the hosts must start: launch_start.c
 *
 * What each host of a job must start, and the addresses of rank 0. No state. */

/* The command of the processes of one host: that of the ranks, or this program as a helper or server. */
struct by_launch_command {
  const char *words[5]; /* For helpers and servers. */
  char trees[16];
  const char *const *argv; /* Ends with NULL; points to `words` or into the job. */
};

void by_launch_command_of(const struct by_launch *job, const struct by_launch_host *host,
                          struct by_launch_command *out);
/* Returns the number of ranks that its processes are told. */
int by_launch_size_of(const struct by_launch *job, const struct by_launch_host *host);

/* Returns the core of its first process among the available ones; -1: processes are not bound. */
int by_launch_core_of(const struct by_launch *job, const struct by_launch_host *host);

/* Addresses of rank 0, for all processes of a job. */
struct by_launch_root {
  struct by_text places;         /* BANYAN_ROOT; empty: not known yet. */
  struct by_text answers;        /* Where rank 0's host answers by_root_reach; empty: all are on this machine. */
  char address[BY_ADDRESS_TEXT]; /* Of rank 0's host, for itself: MASTER_ADDR. */
  char store[8];                 /* MASTER_PORT */
};

void by_launch_root_fini(struct by_launch_root *root);
/* Returns how many ports rank 0's host keeps (by_root_ports_open) for a job of these ranks, which are on the first
 * hosts. */
int by_launch_root_ports(const struct by_launch_hosts *hosts, const char *interface, int ranks);
/* Requests that rank 0's host keeps these ports. */
void by_launch_request_ports(const struct by_launch *job, struct by_launch_link *link);
/* Handles the report of rank 0's host in `frame` (BY_LAUNCH_PORT_IS). `places` begins with the user's name of the host,
 * since the others may not reach every address; but the name of this machine is last, as it may have another meaning
 * elsewhere. */
BANYAN_CHECK enum banyan_status by_launch_root_take(const struct by_launch *job, const struct by_launch_host *host,
                                                    const struct by_launch_frame *frame, struct by_launch_root *root);
/* Asks a host, once, for an address by which it reaches rank 0's host, unless there is only one or none is needed.
 * PyTorch tries one address, for minutes: it gets one that has answered. */
void by_launch_send_reach(const struct by_launch *job, const struct by_launch_root *root, struct by_launch_link *link);
/* Makes a host start its processes. `key` replaces the job's key in the environment; NULL: that one is used. Helpers
 * and servers get tickets; after an error, nothing is sent. The variables of PyTorch (MASTER_ADDR, ...) are set unless
 * the job's environment has them. */
BANYAN_CHECK enum banyan_status by_launch_send_start(const struct by_launch *job, const struct by_launch_root *root,
                                                     const char *key, struct by_launch_link *link);
/* Sends a key that replaces the one of the host's processes, or tickets made with it. */
BANYAN_CHECK enum banyan_status by_launch_send_key(struct by_launch_link *link, const char *key);

/* ---- the key: launch_start.c
 *
 * The key of a job that `banyan run` starts: its hosts get another one when `banyan keys rotate` has replaced the key
 * file, or has requested another generated key. One thread. */

struct by_launch_key {
  struct by_key_ring *ring; /* NULL: the job has no key file. */
  uint64_t look_at; /* When to check the file or the end of an old key, by by_clock_system; UINT64_MAX: never. */
  char text[BY_JOB_KEY_MAX]; /* The current key; "": the job has none. */
};

/* `path`: file of the key; NULL: the key is `generated`, which may be NULL, too. The caller calls fini. */
enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path, const char *generated) BANYAN_CHECK;
/* Wipes it. */
void by_launch_key_fini(struct by_launch_key *key);
enum by_launch_key_news {
  BY_LAUNCH_KEY_SAME,
  BY_LAUNCH_KEY_REPLACED,
  BY_LAUNCH_KEY_OLD_ENDED /* The hosts must forget it, too. */
};
/* Checks the file if that is due, and whether an old key has expired. */
enum by_launch_key_news by_launch_key_look(struct by_launch_key *key);
/* Replaces a generated key; the old one is accepted for so many seconds. BANYAN_ERR_ARGUMENT: it is from a file, or the
 * previous one is still accepted. */
enum banyan_status by_launch_key_rotate(struct by_launch_key *key, int seconds) BANYAN_CHECK;
/* Returns the current key, borrowed until it changes; NULL: none. */
const char *by_launch_key_get(const struct by_launch_key *key);

/* ---- launch_reports.c
 *
 * Reports of ranks that have ended: each that failed, up to a few, and after the first failure those that ended with
 * exit code 0. One thread. */

enum { BY_MAX_LAUNCH_REPORTS = 8 };

/* Number of ranks, and the first of them. */
struct by_some_ranks {
  int n, first[BY_MAX_LAUNCH_REPORTS];
};

struct by_launch_reports {
  const struct by_launch *job;
  struct by_output *output;
  int failed;
  struct by_some_ranks early;  /* Ended with exit code 0 before the first failure. */
  struct by_some_ranks stayed; /* Ended with exit code 0 at any time without having left the job. */
};

/* A rank, helper or server has failed. The first ones are printed. */
void by_launch_reports_failed(struct by_launch_reports *reports, const struct by_launch_host *host, int rank,
                              int status);
/* A rank has ended with exit code 0. It is printed after a failure only. */
void by_launch_reports_ended_well(struct by_launch_reports *reports, int rank, bool had_joined);
/* Prints those that ended with exit code 0, once each, after a failure: others may have waited for them, and those that
 * have not left the job made others' calls fail. */
void by_launch_reports_print_ended_well(struct by_launch_reports *reports);
/* Prints the number of failed ranks that were not printed. */
void by_launch_reports_print_rest(const struct by_launch_reports *reports);

#endif
