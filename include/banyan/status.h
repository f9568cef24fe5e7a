/* Result codes. Every function that can fail returns one; 0 is success. The group of a code says what is broken: the
 * request (correct it and call again), a link, a member (another rank is gone or too slow), or the communicator. Any
 * error that ends a call in progress also ends the job, whatever its group; banyan_comm_state() returns it. */
#ifndef BANYAN_STATUS_H
#define BANYAN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BANYAN_API __attribute__((visibility("default")))
#define BANYAN_CHECK __attribute__((warn_unused_result))
#else
#define BANYAN_API
#define BANYAN_CHECK
#endif

/* Codes from 1 on mean that the request is wrong or cannot be met, and that nothing was started; codes from 32 on, that
 * a link is broken; from 64 on, that a member is gone or too slow; from 96 on, that the communicator has ended. */
enum banyan_status {
  BANYAN_OK = 0,
  BANYAN_ERR_ARGUMENT = 1,    /* An argument is out of range. */
  BANYAN_ERR_UNSUPPORTED = 2, /* The request is valid, but not possible with this type, plan or machine. */
  BANYAN_ERR_NO_MEMORY = 3,   /* Memory could not be allocated. */
  BANYAN_ERR_SYSTEM = 4,      /* The operating system reported an error, which the text contains. */
  BANYAN_ERR_PARSE = 5,       /* A file or message is malformed. The text names the position. */
  BANYAN_ERR_PLAN = 6,        /* A plan is well-formed but invalid. The text names tree and vertex. */
  BANYAN_ERR_TOPOLOGY = 7,    /* A topology is well-formed but inconsistent. The text names node or link. */
  BANYAN_ERR_CONNECT = 32,    /* No address of the peer could be reached. */
  BANYAN_ERR_AUTH = 33,       /* The peer does not hold the job's key. */
  BANYAN_ERR_PROTOCOL = 34,   /* The peer violated the protocol. */
  BANYAN_ERR_PEER_DEAD = 64,  /* A rank's process ended, or its host vanished. */
  BANYAN_ERR_TIMEOUT = 65,    /* A rank is alive but did not complete its part before the deadline. */
  BANYAN_ERR_MISMATCH = 66,   /* Ranks made different calls at the same position in the sequence of calls. */
  BANYAN_ERR_ABORTED = 96,    /* A rank called banyan_comm_abort. */
  /* The call was pending when its communicator was destroyed. After a failure, all calls return the code and text of
   * that failure instead. */
  BANYAN_ERR_CLOSED = 97
};

/* Returns a short name such as "timeout". Static storage; never NULL. */
BANYAN_API const char *banyan_status_name(enum banyan_status status);

/* Describes the last error of this thread: what happened, where (rank, host, link, file and line) and what to do. Owned
 * by the library and valid until the thread's next failing call. Never NULL. */
BANYAN_API const char *banyan_error_text(void);

/* Return the version of the loaded library as a text such as "1.2.3", in static storage, and as three numbers. */
BANYAN_API const char *banyan_version(void);
BANYAN_API void banyan_version_numbers(int *major, int *minor, int *patch);

#ifdef __cplusplus
}
#endif
#endif
