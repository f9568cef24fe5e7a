/* Result codes. Every function that can fail returns one; 0 is success.
 * The code's group says what is broken: the request (call again, corrected),
 * a link, a member (another rank is gone or too slow), or the communicator.
 * What ends a call that was under way ends the job, whatever the group:
 * banyan_comm_state() tells. */
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
  /* the request: nothing was started */
  BANYAN_ERR_ARGUMENT = 1,    /* an argument is out of its range */
  BANYAN_ERR_UNSUPPORTED = 2, /* valid, but not possible with this type, plan or machine */
  BANYAN_ERR_NO_MEMORY = 3,
  BANYAN_ERR_SYSTEM = 4,   /* the operating system refused; the text has its reason */
  BANYAN_ERR_PARSE = 5,    /* a file or message is malformed; the text has the place */
  BANYAN_ERR_PLAN = 6,     /* a plan is well-formed but wrong; the text names tree and vertex */
  BANYAN_ERR_TOPOLOGY = 7, /* a topology is well-formed but makes no sense; the text names node or link */
  /* a link */
  BANYAN_ERR_CONNECT = 32,  /* no address of the peer could be reached */
  BANYAN_ERR_AUTH = 33,     /* the peer does not hold the job's key */
  BANYAN_ERR_PROTOCOL = 34, /* the peer sent what no peer may send */
  /* a member */
  BANYAN_ERR_PEER_DEAD = 64, /* a rank ended or its host vanished */
  BANYAN_ERR_TIMEOUT = 65,   /* a rank is alive but did not do its part by the deadline */
  BANYAN_ERR_MISMATCH = 66,  /* ranks made different calls under the same number */
  /* the communicator */
  BANYAN_ERR_ABORTED = 96, /* a rank called banyan_comm_abort, or this one did */
  BANYAN_ERR_CLOSED = 97,  /* the call was pending when its communicator was destroyed. After a failure
                              all calls return that failure's code and text, not this one */
};

/* A short name such as "timeout". Static storage; never NULL. */
BANYAN_API const char *banyan_status_name(enum banyan_status status);

/* What went wrong in the last call of this thread that failed: what happened,
 * where (rank, host, link, file and line) and what to do. Owned by the
 * library, valid until the thread's next failing call. Never NULL. */
BANYAN_API const char *banyan_error_text(void);

/* "1.2.3", and the same as numbers, of the library that is loaded. */
BANYAN_API const char *banyan_version(void);
BANYAN_API void banyan_version_numbers(int *major, int *minor, int *patch);

#ifdef __cplusplus
}
#endif
#endif
