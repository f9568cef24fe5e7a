/* The launcher's view of one host: its run-host, started here or through ssh or srun, and the pipes to it. */
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

enum { BY_MOST_LAUNCH_WORDS = 70 };

/* The command that starts run-host for a host: here, or through ssh or srun. */
struct by_launch_words {
  const char *argv[BY_MOST_LAUNCH_WORDS]; /* Ends with NULL. */
  char *copy, *last;                      /* Memory of argv's words. */
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
bool by_launch_link_loses(const struct by_launch_link *link, char *text, size_t room);
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
void by_launch_link_lost(const struct by_launch_link *link, int status, char *out, size_t room);

#endif
