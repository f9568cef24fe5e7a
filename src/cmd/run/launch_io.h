/* What `banyan run` and its `run-host`s exchange: bytes in and out without ever blocking, and frames, with a header of
 * three numbers and a payload. Both ends run the same program, but a frame is checked before it is believed. Out of
 * memory ends the program: everything it started ends with it. */
#ifndef BY_CMD_RUN_LAUNCH_IO_H
#define BY_CMD_RUN_LAUNCH_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch.h"

/* Bytes on their way: they wait to be written to a descriptor, or have been read from one. */
struct by_pipe {
  int fd;
  size_t at_once; /* most bytes of one write; PIPE_BUF for a blocking fd that poll() reports as writable */
  char *data;
  size_t start, end, room;
  bool closed;   /* the reader is gone, or the disk is full: what is added is dropped */
  int reason;    /* then: the error number */
  char *payload; /* of the last frame that was taken */
  size_t payload_room;
};

void by_pipe_init(struct by_pipe *pipe, int fd, size_t at_once);
void by_pipe_fini(struct by_pipe *pipe);
void by_pipe_add(struct by_pipe *pipe, const void *bytes, size_t length);
/* The same of a text with its NUL. */
void by_pipe_string(struct by_pipe *pipe, const char *text);
size_t by_pipe_waiting(const struct by_pipe *pipe);
/* Writes what goes now; call it when poll() reports that the fd is writable. Sets `closed` when nothing can be written
 * any more. */
void by_pipe_flush(struct by_pipe *pipe);

enum by_launch_frame_type {
  /* to a host */
  BY_LAUNCH_PORT = 1, /* number: how many ports rank 0's host is to keep; payload: range, interface */
  BY_LAUNCH_START,    /* payload: struct by_host_job */
  BY_LAUNCH_SIGNAL,   /* number: for every rank */
  /* from a host */
  BY_LAUNCH_PORT_IS, /* number: the port where ranks meet; payload: where others may reach it,
                      * "address:port,...#rank 0's fingerprint", and in decimal the ports `store` and `answers` */
  BY_LAUNCH_STDOUT,  /* number: rank; payload: bytes */
  BY_LAUNCH_STDERR,
  BY_LAUNCH_ENDED, /* number: rank; payload: wait()'s status, in decimal; then BY_HAD_JOINED if it had not left the job
                    */
  BY_LAUNCH_ERROR, /* payload: text; number: the job's exit code, 0: 1; the host gives up */
  /* of jobs whose processes may come and go; to a host */
  BY_LAUNCH_ELASTIC, /* before START: the host stays when its ranks have ended. number: the local rank of its first
                      * rank, which others of this machine precede; payload: below which all local ranks are, in
                      * decimal, and the preemption command, or "" */
  BY_LAUNCH_RESTART, /* number: rank, to be started again; payload: how often it was started before, in decimal */
  /* to and from a host */
  BY_LAUNCH_MESSAGE, /* number: rank, or to a host UINT32_MAX: every rank there; payload: see directory_message.h */
  /* from a host */
  BY_LAUNCH_LEAVING, /* it is about to be taken away. payload: why */
  /* to a host, once it has started ranks */
  BY_LAUNCH_KEY, /* payload: the text of a key in place of the one that they have */
  /* to a host, before START, and from it as the answer */
  BY_LAUNCH_REACH, /* it is to find an address of rank 0's host. payload: where that answers; in the answer: the
                    * address,
                    * "": none */
  BY_LAUNCH_TYPES
};

#define BY_HAD_JOINED " joined"

/* Sent by a host before its first frame; what a login script prints before it is no frame. */
#define BY_LAUNCH_HELLO "banyan-run-host/1\n"

struct by_launch_frame {
  enum by_launch_frame_type type;
  uint32_t number;
  const char *payload; /* NUL-terminated beyond `length`; valid until the next frame is taken */
  size_t length;
};

void by_pipe_frame(struct by_pipe *pipe, enum by_launch_frame_type type, uint32_t number, const void *payload,
                   size_t length);

/* Reads once. False: the end of the stream, or an error, which is the same. */
bool by_pipe_fill(struct by_pipe *pipe, int fd);
/* 1: *out holds the next frame; 0: not there yet; -1: no frame of ours. */
int by_pipe_next(struct by_pipe *pipe, struct by_launch_frame *out);

/* Makes a descriptor non-blocking. */
void by_cli_nonblock(int fd);
/* Makes n pipes, closed on exec. False: not all, and errno has the reason; what is missing is -1. */
bool by_cli_pipes(int pipes[][2], int n);

/* ---- what one host is to start */

/* It travels in a BY_LAUNCH_START frame: NUL-terminated strings in the order of the members. */
struct by_host_job {
  int first, ranks, size; /* ranks first .. first + ranks - 1 of size */
  int pin;                /* the first rank's core; -1: ranks are not bound */
  const char *directory;  /* to run in, where it exists */
  char **command;         /* ends with NULL */
  char **environment;     /* "NAME=value"; ends with NULL */
};

void by_host_job_send(struct by_pipe *pipe, const struct by_host_job *job);
/* *out points into `payload`, which has a NUL behind its `length` bytes, and to arrays that by_host_job_fini frees. */
enum banyan_status by_host_job_parse(char *payload, size_t length, struct by_host_job *out);
void by_host_job_fini(struct by_host_job *job);

#endif
