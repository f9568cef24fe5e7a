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

enum banyan_status {
  BANYAN_OK = 0,
  /* The request. Nothing was started. */
  BANYAN_ERR_ARGUMENT = 1,    /* an argument is out of range */
  BANYAN_ERR_UNSUPPORTED = 2, /* valid, but not possible with this type, plan or machine */
  BANYAN_ERR_NO_MEMORY = 3,
  BANYAN_ERR_SYSTEM = 4,   /* the operating system reported an error; the text contains it */
  BANYAN_ERR_PARSE = 5,    /* a file or message is malformed; the text names the position */
  BANYAN_ERR_PLAN = 6,     /* a plan is well-formed but invalid; the text names tree and vertex */
  BANYAN_ERR_TOPOLOGY = 7, /* a topology is well-formed but inconsistent; the text names node or link */
  /* A link. */
  BANYAN_ERR_CONNECT = 32,  /* no address of the peer could be reached */
  BANYAN_ERR_AUTH = 33,     /* the peer does not hold the job's key */
  BANYAN_ERR_PROTOCOL = 34, /* the peer violated the protocol */
  /* A member. */
  BANYAN_ERR_PEER_DEAD = 64, /* a rank's process ended or its host vanished */
  BANYAN_ERR_TIMEOUT = 65,   /* a rank is alive but did not complete its part before the deadline */
  BANYAN_ERR_MISMATCH = 66,  /* ranks made different calls at the same position in the sequence of calls */
  /* The communicator. */
  BANYAN_ERR_ABORTED = 96, /* this or another rank called banyan_comm_abort */
  BANYAN_ERR_CLOSED = 97,  /* the call was pending when its communicator was destroyed. After a failure,
                              all calls return the code and text of that failure instead */
};

/* A short name such as "timeout". Static storage; never NULL. */
BANYAN_API const char *banyan_status_name(enum banyan_status status);

/* Describes the last error of this thread: what happened, where (rank, host, link, file and line) and what to do. Owned
 * by the library and valid until the thread's next failing call. Never NULL. */
BANYAN_API const char *banyan_error_text(void);

/* Version of the loaded library, such as "1.2.3", and the same as numbers. */
BANYAN_API const char *banyan_version(void);
BANYAN_API void banyan_version_numbers(int *major, int *minor, int *patch);

#ifdef __cplusplus
}
#endif
#endif
