/* Where the processes of one host register: a local socket of their run-host, which passes their messages on to
 * `banyan run`, and the answers to them. Processes of other users are turned away. One thread. */
#ifndef BY_CMD_RUN_HOST_DIRECTORY_H
#define BY_CMD_RUN_HOST_DIRECTORY_H

#include <poll.h>

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

#endif
