/* One host as the launcher sees it: its run-host, started here or through ssh or srun, and the pipes to it. */
#ifndef BY_CMD_RUN_LAUNCH_LINK_H
#define BY_CMD_RUN_LAUNCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "address.h"
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

#endif
