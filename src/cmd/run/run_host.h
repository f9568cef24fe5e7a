/* Registers the processes of one host at a local socket of their run-host, which forwards their messages to `banyan
 * run`, and the answers to them. Processes of other users are rejected. One thread. */
#ifndef BY_CMD_RUN_RUN_HOST_H
#define BY_CMD_RUN_RUN_HOST_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "address.h"
#include "directory_message.h"
#include "process_identity.h"

struct by_host_directory;

struct by_host_directory_events {
  void *context;
  /* Returns how often the process with this number was started before; -1: it does not live here. */
  int (*starts)(void *context, uint32_t process);
  void (*received)(void *context, uint32_t process, const void *message, size_t length);
};

/* `max`: processes of this host. */
BANYAN_CHECK enum banyan_status by_host_directory_create(int max, const struct by_host_directory_events *events,
                                                         struct by_host_directory **out);
void by_host_directory_destroy(struct by_host_directory *directory); /* NULL is allowed */
/* Returns the name of its socket. */
const char *by_host_directory_name(const struct by_host_directory *directory);

/* The descriptors to poll, at most by_host_directory_max; and the results. */
size_t by_host_directory_max(const struct by_host_directory *directory);
size_t by_host_directory_fill(const struct by_host_directory *directory, struct pollfd *out);
void by_host_directory_handle(struct by_host_directory *directory, const struct pollfd *polled);

/* Does nothing if the process has not registered. */
void by_host_directory_send(struct by_host_directory *directory, uint32_t process, const void *message, size_t length);
/* Sends to all registered processes. */
void by_host_directory_send_all(struct by_host_directory *directory, const void *message, size_t length);
/* The process has ended. */
void by_host_directory_forget(struct by_host_directory *directory, uint32_t process);

/* ---- preemption.c
 *
 * A command that is run every few seconds and ends with exit code 0 once its host is about to be taken away, as the
 * metadata services of clouds announce it. Its first line is the reason. One thread. */

enum {
  BY_PREEMPTION_INTERVAL = 2 /* Seconds between its end and its next start. */,
  BY_PREEMPTION_LONGEST = 30 /* Maximum seconds of a run. */
};

struct by_preemption {
  char *command; /* For the shell; NULL: none. */
  pid_t pid;     /* 0: it is not running. */
  int output;    /* Its output; -1: it is not running. */
  uint64_t due;  /* When it is to be started, or killed; UINT64_MAX: never. */
  bool reported; /* It was reported that it cannot be run. */
};

/* The command is copied; "" means none. */
void by_preemption_init(struct by_preemption *preemption, const char *command, uint64_t now);
/* A running command ends with its parent. */
void by_preemption_fini(struct by_preemption *preemption);
/* Starts it, or kills it, when that is due. */
void by_preemption_tick(struct by_preemption *preemption, uint64_t now);
/* Tells whether a child that has ended was the command with status 0: the host is about to go, and `reason` has the
 * first line, or a default. It is not run again then. */
bool by_preemption_ended(struct by_preemption *preemption, pid_t pid, int status, uint64_t now, char *reason,
                         size_t capacity);

/* ---- root_ports.c
 *
 * The ports that rank 0's host keeps for its rank 0, and how other hosts find an address by which they reach them.
 *
 *   root      where the ranks of Banyan meet (BANYAN_ROOT); rank 0 listens there
 *   store     where PyTorch's store may listen (MASTER_PORT)
 *   answers   where this host itself listens: it sends rank 0's fingerprint to everybody, which other hosts know
 *
 * The first two are held by sockets that do not listen, so that only processes which ask for their numbers get them.
 * One thread. */

enum { BY_ROOT_PORTS = 3 };

struct by_root_ports {
  int root, store, answers; /* 0: none. */
  int fds[BY_ROOT_PORTS];   /* In this order; -1: none. */
  char fingerprint[BY_FINGERPRINT_TEXT];
};

void by_root_ports_init(struct by_root_ports *ports);
void by_root_ports_close(struct by_root_ports *ports);
/* Takes the first `n` of the three from a range ("": any). With n = 1 the store has the port of the root: a single rank
 * does not meet others. */
BANYAN_CHECK enum banyan_status by_root_ports_open(struct by_root_ports *ports, const char *range, int n);
/* Call it when the descriptor `fds[2]` is readable. Sends the fingerprint to the next connection. */
void by_root_ports_answer(const struct by_root_ports *ports);

/* Finds an address of rank 0's host that can be reached from here: `answers` is "a:1,10.0.0.1:1#fingerprint". All are
 * tried, as a rank does. Blocks for at most 3 s. `out` gets the address without a port. BANYAN_ERR_CONNECT: none. */
BANYAN_CHECK enum banyan_status by_root_reach(const char *answers, char out[BY_ADDRESS_TEXT]);

#endif
