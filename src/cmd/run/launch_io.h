/* Communication between `banyan run` and its run-hosts: bytes in and out without blocking, and frames, with a header of
 * three numbers and a payload. Both ends run the same program, but frames are checked. If memory is exhausted, the
 * program ends: everything that it started ends with it. */
#ifndef BY_CMD_RUN_LAUNCH_IO_H
#define BY_CMD_RUN_LAUNCH_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch.h"

/* Bytes that wait to be written to a descriptor, or have been read from one. */
struct by_pipe {
  int fd;
  size_t at_once; /* Maximum bytes of one write; PIPE_BUF for a blocking descriptor that poll() reports as writable. */
  char *data;
  size_t start, end, capacity;
  bool closed;   /* The reader is gone, or the disk is full: added bytes are dropped. */
  int reason;    /* The error number in that case. */
  char *payload; /* Payload of the last frame. */
  size_t payload_capacity;
};

void by_pipe_init(struct by_pipe *pipe, int fd, size_t at_once);
void by_pipe_fini(struct by_pipe *pipe);
void by_pipe_add(struct by_pipe *pipe, const void *bytes, size_t length);
/* Adds a text with its NUL. */
void by_pipe_string(struct by_pipe *pipe, const char *text);
size_t by_pipe_waiting(const struct by_pipe *pipe);
/* Writes as much as possible now; call it when poll() reports that the descriptor is writable. Sets `closed` on
 * failure. */
void by_pipe_flush(struct by_pipe *pipe);

enum by_launch_frame_type {
  /* ---- to a host */
  BY_LAUNCH_PORT = 1, /* Number: how many ports rank 0's host must keep. Payload: range, interface. */
  BY_LAUNCH_START,    /* Payload: struct by_host_job. */
  BY_LAUNCH_SIGNAL,   /* Number: a signal for every rank. */
  /* ---- from a host */
  BY_LAUNCH_PORT_IS, /* Number: the port where ranks meet. Payload: addresses of the host,
                      * "address:port,...#rank 0's fingerprint", and in decimal the ports `store` and `answers`. */
  BY_LAUNCH_STDOUT,  /* Number: rank. Payload: bytes. */
  BY_LAUNCH_STDERR,
  BY_LAUNCH_ENDED, /* Number: rank. Payload: wait()'s status, in decimal; then BY_HAD_JOINED if it had not left. */
  BY_LAUNCH_ERROR, /* The host gives up. Payload: text. Number: the job's exit code; 0 stands for 1. */
  /* ---- of elastic jobs, to a host */
  BY_LAUNCH_ELASTIC, /* Before START: the host stays when its ranks have ended. Number: the local rank of its first
                      * rank, after others of this machine. Payload: a number above all local ranks, in decimal, and
                      * the preemption command, or "". */
  BY_LAUNCH_RESTART, /* Number: rank to be restarted. Payload: how often it was started before, in decimal. */
  /* ---- to and from a host */
  BY_LAUNCH_MESSAGE, /* Number: rank, or to a host UINT32_MAX: every rank there. Payload: directory_message.h describes
                        it. */
  /* ---- from a host */
  BY_LAUNCH_LEAVING, /* The host is about to be taken away. Payload: the reason. */
  /* ---- to a host, after it has started ranks */
  BY_LAUNCH_KEY, /* Payload: text of a key that replaces the ranks' key. */
  /* ---- to a host, before START, and from it as the answer */
  BY_LAUNCH_REACH, /* The host must find an address of rank 0's host. Payload: where that answers; in the answer: the
                      address, "": none. */
  BY_LAUNCH_TYPES
};

#define BY_HAD_JOINED " joined"

/* Sent by a host before its first frame; output of a login script may precede it. */
#define BY_LAUNCH_HELLO "banyan-run-host/1\n"

struct by_launch_frame {
  enum by_launch_frame_type type;
  uint32_t number;
  char *payload; /* NUL-terminated after `length` bytes; valid until the next frame is taken. */
  size_t length;
};

void by_pipe_frame(struct by_pipe *pipe, enum by_launch_frame_type type, uint32_t number, const void *payload,
                   size_t length);

/* Reads once. Returns false at the end of the stream, or on an error, which is equivalent. */
bool by_pipe_fill(struct by_pipe *pipe, int fd);
/* Returns 1: *out is the next frame; 0: it is incomplete; -1: it is not one of our frames. */
int by_pipe_next(struct by_pipe *pipe, struct by_launch_frame *out);

/* Makes a descriptor non-blocking. */
void by_cli_nonblock(int fd);
/* Makes n pipes, closed on exec. False: not all, and errno has the reason; missing ones are -1. */
bool by_cli_pipes(int pipes[][2], int n);

/* ---- jobs of a host */

/* Sent in a BY_LAUNCH_START frame: NUL-terminated strings in the order of the members. */
struct by_host_job {
  int first, ranks, size; /* Ranks first .. first + ranks - 1 of size. */
  int pin;                /* The first rank's core; -1: ranks are not bound. */
  const char *directory;  /* Working directory, if it exists. */
  char **command;         /* Ends with NULL. */
  char **environment;     /* "NAME=value"; ends with NULL. */
};

/* Sends a job with this command, which ends with NULL. */
void by_host_job_send(struct by_pipe *pipe, const struct by_host_job *job, const char *const *command);
/* *out points into `payload`, which has a NUL after its `length` bytes, and to arrays that by_host_job_fini frees. */
enum banyan_status by_host_job_parse(char *payload, size_t length, struct by_host_job *out);
void by_host_job_fini(struct by_host_job *job);

#endif
