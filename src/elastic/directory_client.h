/* A process's connection to the `banyan run` that started it, through the local socket of its host: it registers its
 * handle, learns with whom it forms the first membership or whom it asks to join, and is notified of processes that
 * have ended and of the wish that it leaves.
 *
 * BANYAN_LAUNCHER names the socket, the process and how often that was started before: "NAME:PROCESS:STARTS". A thread
 * reads; other functions may be called by any thread. The launcher outlives its processes, so there is no second
 * connection. */
#ifndef BY_ELASTIC_DIRECTORY_CLIENT_H
#define BY_ELASTIC_DIRECTORY_CLIENT_H

#include "directory_message.h"

struct by_directory;

/* On the directory's thread; they must not destroy the directory. */
struct by_directory_events {
  void *context;
  void (*died)(void *context, const char *handle); /* proven: the kernel has reported its end */
  void (*leave)(void *context, const char *why);
};

struct by_directory_list {
  bool first;       /* these form the first membership, in this order; else they are asked to join */
  uint32_t attempt; /* of the first membership */
  uint32_t n;
  char **handles; /* all freed by by_directory_list_fini */
};

/* Where `banyan run` takes the registration of this process; NULL: it was not started as one that may come and go. */
const char *by_directory_place(void);
/* Connects and registers. BANYAN_ERR_CONNECT: nobody listens at `place`, or another user does. */
BANYAN_CHECK enum banyan_status by_directory_create(const char *place, const char *handle,
                                                    const struct by_directory_events *events,
                                                    struct by_directory **out);
/* Ends the connection; no event comes any more. NULL is allowed. */
void by_directory_destroy(struct by_directory *directory);

/* Blocks until a list has come that was not given before, for at most `timeout` seconds. BANYAN_ERR_TIMEOUT;
 * BANYAN_ERR_ARGUMENT: the launcher has refused this process; _CLOSED: asks it to leave; _PEER_DEAD: has ended. */
BANYAN_CHECK enum banyan_status by_directory_wait(struct by_directory *directory, double timeout,
                                                  struct by_directory_list *out);
void by_directory_list_fini(struct by_directory_list *list);

/* This process is rank `rank` of `size` in the membership of this name. Errors are only logged. */
void by_directory_report_member(struct by_directory *directory, const char *name, uint32_t rank, uint32_t size);
/* This process leaves by its own wish. */
void by_directory_report_leaving(struct by_directory *directory);
/* The first membership could not be formed; another list will come. */
void by_directory_report_failure(struct by_directory *directory, uint32_t attempt, const char *reason);

#endif
