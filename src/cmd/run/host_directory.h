/* Where the processes of one host register: a local socket of their run-host, which passes their messages on to
 * `banyan run`, and the answers to them. Processes of other users are turned away. One thread. */
#ifndef BY_CMD_RUN_HOST_DIRECTORY_H
#define BY_CMD_RUN_HOST_DIRECTORY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "directory_message.h"

struct by_host_directory;

struct by_host_directory_events {
  void *context;
  /* How often the process of this number was started before; -1: it does not live here. */
  int (*starts)(void *context, uint32_t process);
  void (*received)(void *context, uint32_t process, const void *message, size_t length);
};

/* `most`: processes of this host. */
BANYAN_CHECK enum banyan_status by_host_directory_create(int most, const struct by_host_directory_events *events,
                                                         struct by_host_directory **out);
void by_host_directory_destroy(struct by_host_directory *directory); /* NULL is allowed */
/* The name of its socket. */
const char *by_host_directory_name(const struct by_host_directory *directory);

/* What is to be polled, at most by_host_directory_most; and what has become of it. */
size_t by_host_directory_most(const struct by_host_directory *directory);
size_t by_host_directory_fill(const struct by_host_directory *directory, struct pollfd *out);
void by_host_directory_handle(struct by_host_directory *directory, const struct pollfd *polled);

/* Nothing happens where the process has not registered. */
void by_host_directory_send(struct by_host_directory *directory, uint32_t process, const void *message, size_t length);
/* To all that have registered. */
void by_host_directory_send_all(struct by_host_directory *directory, const void *message, size_t length);
/* The process has ended. */
void by_host_directory_forget(struct by_host_directory *directory, uint32_t process);

/* A command that is run every few seconds and ends with exit code 0 once its host is about to be taken away, as the
 * metadata services of clouds announce it. Its first line is the reason. One thread. */

enum {
  BY_PREEMPTION_INTERVAL = 2 /* s between its ends and its starts */,
  BY_PREEMPTION_LONGEST = 30 /* s it may run */
};

struct by_preemption {
  char *command; /* for the shell; NULL: none */
  pid_t pid;     /* 0: it does not run */
  int output;    /* of it; -1: it does not run */
  uint64_t due;  /* to be started, or killed, then; UINT64_MAX: never */
  bool reported; /* that it cannot be run */
};

/* The command is copied; "" is none. */
void by_preemption_init(struct by_preemption *preemption, const char *command, uint64_t now);
/* A command that runs is left to its parent's end. */
void by_preemption_fini(struct by_preemption *preemption);
/* Starts it, or kills it, when that is due. */
void by_preemption_tick(struct by_preemption *preemption, uint64_t now);
/* Whether a child that has ended was it, and its status 0: the host is about to go, `reason` holds the first line, or
 * some words in its place. It is not run again then. */
bool by_preemption_ended(struct by_preemption *preemption, pid_t pid, int status, uint64_t now, char *reason,
                         size_t room);

#endif
