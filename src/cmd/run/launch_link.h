/* One host as the launcher sees it: its run-host, started here or through ssh or srun, and the pipes to it. */
#ifndef BY_CMD_RUN_LAUNCH_LINK_H
#define BY_CMD_RUN_LAUNCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "address.h"
#include "job_key.h"
#include "launch.h"
#include "launch_io.h"
#include "rank_output.h"
#include "text.h"

struct by_launch_link {
  const struct by_launch_host *host;
  pid_t pid; /* of run-host or ssh; 0: ended */
  struct by_pipe to;
  struct by_pipe from;
  int from_fd, error_fd;              /* its stdout and stderr; -1: closed */
  bool ready;                         /* has sent BY_LAUNCH_HELLO */
  bool started;                       /* has received what to start */
  bool asked, searching;              /* to find an address of rank 0's host: it was asked; it has not answered yet */
  char root_address[BY_ADDRESS_TEXT]; /* what it has found; "": nothing */
  int live;                           /* ranks there that have not ended */
  int local;                          /* ranks of this machine that precede its own, which other links started */
  int local_size;                     /* below which the local ranks of this machine are; 0: there are only its own */
  size_t group;                       /* the number of its host, from 0 */
  uint64_t answer_by;                 /* what is awaited then, before its start, is given up; 0: as the whole job */
};

enum { BY_MOST_LAUNCH_WORDS = 70 };

/* The command that starts run-host for a host: here, or through ssh or srun. */
struct by_launch_words {
  const char *argv[BY_MOST_LAUNCH_WORDS]; /* ends with NULL */
  char *copy, *last;                      /* what argv points to */
};

BANYAN_CHECK enum banyan_status by_launch_words_init(const struct by_launch *job, const struct by_launch_host *host,
                                                     struct by_launch_words *out);
void by_launch_words_fini(struct by_launch_words *words);
/* 'it'\''s': a word that no shell changes. */
void by_add_quoted(struct by_text *text, const char *word);

/* Starts run-host for a host. */
enum banyan_status by_launch_link_open(const struct by_launch *job, const struct by_launch_host *host,
                                       struct by_launch_link *out);
/* Waits until run-host or ssh has ended, until this time (of by_clock_system) at most, then kills it. Returns its wait
 * status; 0 if it was waited for before. */
int by_launch_link_wait(struct by_launch_link *link, uint64_t until);
/* Whether data that ssh sends is lost, as on a path that drops large packets: `text` says so. */
bool by_launch_link_loses(const struct by_launch_link *link, char *text, size_t room);
/* Closes the pipes, which ends what is still there; then it is to be waited for. */
void by_launch_link_shut(struct by_launch_link *link);
/* Finds the hello in what has come; `chatter` gets lines that came before it (a login script's). */
void by_launch_link_find_hello(struct by_launch_link *link, const char **chatter, size_t *length);
/* Prints lines of the host itself: a login script's, ssh's, run-host's. */
void by_launch_link_print_lines(const struct by_launch_link *link, const char *bytes, size_t length,
                                struct by_output *output);
/* Prints what it has written to its stderr. False: nothing more is to be read now. */
bool by_launch_link_print(struct by_launch_link *link, struct by_output *output);
/* Why a host is lost whose run-host or ssh has ended with this wait status. */
void by_launch_link_lost(const struct by_launch_link *link, int status, char *out, size_t room);

/* The key of a job that `banyan run` starts: its hosts get another one when `banyan keys rotate` has replaced that in
 * its file, or has asked for another one in place of one that was generated. One thread. */

struct by_launch_key {
  struct by_key_ring *ring; /* NULL: the job has no key file */
  uint64_t
      look_at; /* when the file, or the end of an old key, is to be looked at, by by_clock_system; UINT64_MAX: never
                */
  char text[BY_JOB_KEY_MAX]; /* of now; "": the job has no key */
};

/* `path`: the file that has the key; NULL: it is `generated`, which may be NULL, too. The caller finis it. */
enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path, const char *generated) BANYAN_CHECK;
/* Wipes it. */
void by_launch_key_fini(struct by_launch_key *key);
enum by_launch_key_news {
  BY_LAUNCH_KEY_SAME,
  BY_LAUNCH_KEY_REPLACED,
  BY_LAUNCH_KEY_OLD_ENDED /* the hosts are to forget it, too */
};
/* Looks at the file if it is time, and whether an old key has ended. */
enum by_launch_key_news by_launch_key_look(struct by_launch_key *key);
/* Replaces a generated key; the old one is accepted for so many seconds. BANYAN_ERR_ARGUMENT: it is from a file, or the
 * one before it is still accepted. */
enum banyan_status by_launch_key_rotate(struct by_launch_key *key, int seconds) BANYAN_CHECK;
/* The key of now, borrowed until it changes; NULL: none. */
const char *by_launch_key_get(const struct by_launch_key *key);

/* What the launcher reports of ranks that have ended: each that failed, up to a few, and after the first failure those
 * that ended well. One thread. */

enum { BY_MOST_LAUNCH_REPORTS = 8 };

/* How many, and the first of them. */
struct by_some_ranks {
  int n, first[BY_MOST_LAUNCH_REPORTS];
};

struct by_launch_reports {
  const struct by_launch *job;
  struct by_output *output;
  int failed;
  struct by_some_ranks early;  /* have ended with exit code 0 before the first failure */
  struct by_some_ranks stayed; /* the same, also after it, but without having left the job */
};

/* A rank, helper or server has failed. Of the first ones, it is printed. */
void by_launch_reports_failed(struct by_launch_reports *reports, const struct by_launch_host *host, int rank,
                              int status);
/* A rank has ended with exit code 0. It is printed after a failure only. */
void by_launch_reports_ended_well(struct by_launch_reports *reports, int rank, bool had_joined);
/* Prints those that ended well, once each, after a failure: others may have waited for them, and for those that have
 * not left the job, their calls have failed. */
void by_launch_reports_print_ended_well(struct by_launch_reports *reports);
/* Prints how many have failed of which nothing was printed. */
void by_launch_reports_print_rest(const struct by_launch_reports *reports);

#endif
