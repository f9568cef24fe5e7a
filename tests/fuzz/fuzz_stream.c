/* Framed streams. The input is what a peer sends, divided into parts by its first byte. The stream must deliver what a
 * second, simpler reader finds in the same bytes, and nothing after a frame that is too long. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_FRAME = 700, HEADER = 6, MOST_INPUT = 1 << 16 };

struct reader {
  const uint8_t *at, *end; /* the bytes that are still expected */
  struct by_stream *stream;
  bool ended;
  enum banyan_status status;
};

static size_t length_at(const uint8_t *at) {
  return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static void take_frame(void *context, uint16_t type, const void *payload, size_t length) {
  struct reader *reader = context;
  assert(reader->end - reader->at >= HEADER && length_at(reader->at) == length && length <= MOST_FRAME);
  assert(type == (reader->at[4] | reader->at[5] << 8));
  assert((size_t)(reader->end - reader->at) - HEADER >= length);
  assert(!length || !memcmp(payload, reader->at + HEADER, length));
  reader->at += HEADER + length;
}

static void end(void *context, enum banyan_status status, const char *reason) {
  struct reader *reader = context;
  assert(!reader->ended && *reason);
  reader->ended = true;
  reader->status = status;
}

static uint64_t stand_still(void *context) {
  (void)context;
  return 1;
}

static void turn(struct by_loop *loop, const struct reader *reader) {
  for (int i = 0; i < 8 && !reader->ended; i++) assert(by_loop_run_once(loop, 0) == BANYAN_OK);
}

static void feed(struct by_loop *loop, struct reader *reader, int fd, const uint8_t *data, size_t size, size_t part) {
  for (size_t at = 0; at < size && !reader->ended; at += part) {
    size_t n = size - at < part ? size - at : part;
    if (send(fd, data + at, n, MSG_NOSIGNAL) != (ssize_t)n) break;
    turn(loop, reader);
  }
  close(fd);
  turn(loop, reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct by_clock clock = {stand_still, NULL};
  int fds[2];
  struct by_loop *loop;
  if (size < 1 || size > MOST_INPUT) return 0;
  struct reader reader = {.at = data + 1, .end = data + size};
  assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
  assert(by_loop_create(&clock, &loop) == BANYAN_OK);
  struct by_stream_options options = {.loop = loop,
                                      .fd = fds[0],
                                      .max_frame = MOST_FRAME,
                                      .max_queued = MOST_FRAME,
                                      .frame = take_frame,
                                      .ended = end,
                                      .context = &reader};
  assert(by_stream_create(&options, &reader.stream) == BANYAN_OK);
  feed(loop, &reader, fds[1], data + 1, size - 1, 1 + data[0] * (data[0] % 5u));
  size_t left = (size_t)(reader.end - reader.at);
  bool too_long = left >= HEADER && length_at(reader.at) > MOST_FRAME;
  assert(reader.ended && reader.status == (too_long ? BANYAN_ERR_PROTOCOL : BANYAN_ERR_PEER_DEAD));
  assert(too_long || left < HEADER || left - HEADER < length_at(reader.at)); /* every complete frame was delivered */
  by_stream_destroy(reader.stream);
  by_loop_destroy(loop);
  return 0;
}
