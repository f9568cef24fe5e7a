/* Ends of streams, for the tests of them: a loop with a clock that is moved by
 * hand, and what an owner is told. Static functions; include once a program. */
#ifndef BY_TESTS_STREAM_ENDS_H
#define BY_TESTS_STREAM_ENDS_H

#include <string.h>
#include <sys/socket.h>

#include "check.h"

#include "socket.h"
#include "stream.h"

static uint64_t hand_time = 1;

static inline uint64_t read_hand(void *context) {
  (void)context;
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};
static struct by_loop *loop;

static inline int make_loop(void **state) {
  (void)state;
  return by_loop_create(&hand_clock, &loop) != BANYAN_OK;
}

static inline int drop_loop(void **state) {
  (void)state;
  by_loop_destroy(loop);
  return 0;
}

enum { MOST = 100000, FRAMES = 4096 };

/* What an owner sees of its stream. */
struct seen {
  struct by_stream *stream;
  int opened, ended, frames;
  uint8_t purpose;
  char hello[64], reason[512];
  enum banyan_status status;
  uint64_t sum; /* of all payload bytes, in order */
  size_t bytes;
  uint16_t types[FRAMES];
  bool destroy_in_opened, destroy_in_frame, destroy_in_ended, echo;
};

static inline void destroy_if(struct seen *seen, bool wanted) {
  if (!wanted) return;
  by_stream_destroy(seen->stream);
  seen->stream = NULL;
}

static inline void on_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct seen *seen = context;
  seen->opened++;
  seen->purpose = purpose;
  assert_true(length < sizeof seen->hello);
  if (length) memcpy(seen->hello, hello, length);
  destroy_if(seen, seen->destroy_in_opened);
}

static inline uint64_t add_to_sum(uint64_t sum, const uint8_t *data, size_t length) {
  for (size_t i = 0; i < length; i++) sum = sum * 31 + data[i];
  return sum;
}

static inline void on_frame(void *context, uint16_t type, const void *payload, size_t length) {
  struct seen *seen = context;
  if (seen->frames < FRAMES) seen->types[seen->frames] = type;
  seen->frames++;
  seen->bytes += length;
  seen->sum = add_to_sum(seen->sum, payload, length);
  if (seen->echo) assert_ok(by_stream_send(seen->stream, (uint16_t)(type + 1), payload, length));
  destroy_if(seen, seen->destroy_in_frame);
}

static inline void on_ended(void *context, enum banyan_status status, const char *reason) {
  struct seen *seen = context;
  seen->ended++;
  seen->status = status;
  strncpy(seen->reason, reason, sizeof seen->reason - 1);
  assert_status(by_stream_send(seen->stream, 1, "x", 1), BANYAN_ERR_CLOSED);
  destroy_if(seen, seen->destroy_in_ended);
}

static inline struct by_stream_options options_for(struct seen *seen, int fd) {
  return (struct by_stream_options){.loop = loop,
                                    .fd = fd,
                                    .max_frame = MOST,
                                    .max_queued = 4 * MOST,
                                    .opened = on_opened,
                                    .frame = on_frame,
                                    .ended = on_ended,
                                    .context = seen};
}

static inline void start(struct seen *seen, int fd) {
  struct by_stream_options options = options_for(seen, fd);
  *seen = (struct seen){0};
  assert_ok(by_stream_create(&options, &seen->stream));
}

static inline void start_with_key(struct seen *seen, int fd, enum by_role role, const char *key_text,
                                  const char *hello) {
  struct by_key key;
  assert_ok(by_key_derive(key_text, &key));
  struct by_handshake_options handshake = {
      .role = role, .purpose = 9, .key = &key, .hello = hello, .hello_length = strlen(hello)};
  struct by_stream_options options = options_for(seen, fd);
  options.handshake = &handshake;
  *seen = (struct seen){0};
  assert_ok(by_stream_create(&options, &seen->stream));
}

static inline void make_pair(int fd[2]) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
}

/* Runs the loop until a counter reaches what is wanted. Real time only limits how long a failure takes. */
static inline void run_until(const int *counter, int wanted) {
  for (int i = 0; i < 20000 && *counter < wanted; i++) assert_ok(by_loop_run_once(loop, BY_MILLISECOND));
  assert_int_equal(*counter, wanted);
}

static inline void settle(void) {
  for (int i = 0; i < 10; i++) assert_ok(by_loop_run_once(loop, 0));
}

#endif
