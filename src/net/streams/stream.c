/* Streams of frames or lines over a socket, optionally through a handshake or TLS. */
#include "stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bytes.h"
#include "descriptor.h"
#include "large_loss.h"
#include "log.h"
#include "refusal.h"
#include "socket.h"

/* HEADER: length and type. READS: reads in one go, since the loop serves others too. AT_ONCE: bytes read from an
 * unknown peer, or to be decrypted. RECORD: the maximum of a TLS record. FIRST: a buffer's initial size. KEEP: larger
 * buffers are freed when empty. ANSWERS: bytes of TLS itself that may wait. */
enum { HEADER = 6, READS = 16, AT_ONCE = 4096, RECORD = 16384, FIRST = 4096, KEEP = 65536, ANSWERS = 65536 };

enum state { CONNECTING, SHAKING, OPEN, ENDED, STATES };
/* OPENING: a handshake is initialised, which may end with TLS; SECURED: everything uses TLS. */
enum protection { PLAIN, OPENING, SECURED };
enum sending { SENDING, FINISHING, FINISHED }; /* This side's direction: its end was requested; it has ended. */
enum dismissal { WELCOME, REFUSED, EVICTED }; /* REFUSED: not read any more; EVICTED: closed to make room for others. */

/* Bytes that wait to be sent or delivered: appended at the end, used from the front. */
struct buffer {
  uint8_t *data;
  size_t at, length, capacity; /* Bytes between `at` and `length` are still to be used. */
};

struct by_stream {
  struct by_stream_options options;
  enum state state;
  enum protection protection;
  enum sending sending;
  enum dismissal dismissal;
  struct by_address to;
  struct by_opening opening;
  struct by_tls *tls;
  size_t shaken; /* Bytes of either handshake in the queue, which do not count against the limit. */
  struct by_watch *watch;
  struct by_timer deadline;
  struct by_admission_entry admission; /* Of a peer that has not authenticated. */
  struct buffer in, out;
  char name[BY_ADDRESS_TEXT];
  int broken;           /* The errno after which nothing can be sent; there may still be something to read. */
  bool silent;          /* It ended because nothing arrived from the other host. */
  bool unused;          /* The peer closed it and had sent nothing. */
  bool busy, destroyed; /* busy: inside a callback from the loop; destroyed: meanwhile. */
};

static void set_state(struct by_stream *stream, enum state to) {
  static const char *const names[] = {"connecting", "shaking hands", "open", "ended"};
  static const bool allowed[STATES][STATES] = {[CONNECTING] = {[SHAKING] = true, [OPEN] = true, [ENDED] = true},
                                               [SHAKING] = {[OPEN] = true, [ENDED] = true},
                                               [OPEN] = {[ENDED] = true}};
  assert(allowed[stream->state][to]);
  by_debug("net", "%s: %s, was %s", stream->name, names[to], names[stream->state]);
  stream->state = to;
}

/* ---- buffers: keys and tickets pass through them, so what is given back or no longer needed is wiped */

static void buffer_fini(struct buffer *buffer) {
  if (buffer->data) OPENSSL_cleanse(buffer->data, buffer->capacity);
  free(buffer->data);
  *buffer = (struct buffer){0};
}

/* Makes room for `more` bytes at the end. BANYAN_ERR_NO_MEMORY: nothing has changed. */
static enum banyan_status reserve_space(struct buffer *buffer, size_t more) {
  if (buffer->at) {
    memmove(buffer->data, buffer->data + buffer->at, buffer->length - buffer->at);
    buffer->length -= buffer->at;
    OPENSSL_cleanse(buffer->data + buffer->length, buffer->at);
    buffer->at = 0;
  }
  size_t need = buffer->length + more, capacity = buffer->capacity ? buffer->capacity : FIRST;
  if (need <= buffer->capacity) return BANYAN_OK;
  while (capacity < need) capacity *= 2;
  uint8_t *data = malloc(capacity);
  if (!data) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of a stream", capacity);
  struct buffer old = *buffer;
  if (old.length) memcpy(data, old.data, old.length);
  *buffer = (struct buffer){.data = data, .length = old.length, .capacity = capacity};
  buffer_fini(&old);
  return BANYAN_OK;
}

/* Appends all bytes or none. */
static enum banyan_status append_bytes(struct buffer *buffer, const void *data, size_t length) {
  BY_TRY(reserve_space(buffer, length));
  if (length) memcpy(buffer->data + buffer->length, data, length);
  buffer->length += length;
  return BANYAN_OK;
}

static void consume_bytes(struct buffer *buffer, size_t n) {
  buffer->at += n;
  if (buffer->at < buffer->length) return;
  OPENSSL_cleanse(buffer->data, buffer->length);
  buffer->at = buffer->length = 0;
  if (buffer->capacity > KEEP) buffer_fini(buffer);
}

/* ---- the end */

static void drop_handshake(struct by_stream *stream) {
  if (stream->protection != OPENING) return;
  by_opening_fini(&stream->opening);
  stream->protection = PLAIN;
}

static void free_stream(struct by_stream *stream) {
  drop_handshake(stream);
  by_tls_destroy(stream->tls);
  buffer_fini(&stream->in);
  buffer_fini(&stream->out);
  free(stream);
}

/* Releases everything that the loop or the kernel knows of it. A callback may still be using the buffers. */
static void release_stream(struct by_stream *stream) {
  if (stream->state == ENDED) return;
  by_admission_leave(&stream->admission);
  by_loop_unwatch(stream->watch);
  by_loop_cancel_timer(&stream->deadline);
  by_close(stream->options.fd);
  stream->options.fd = -1;
  set_state(stream, ENDED);
}

void by_stream_destroy(struct by_stream *stream) {
  if (!stream) return;
  release_stream(stream);
  stream->destroyed = true;
  if (!stream->busy) free_stream(stream);
}

/* Ends the stream. `status` was made by by_fail, whose text is the reason. */
static void end_stream(struct by_stream *stream, enum banyan_status status) {
  char reason[1024];
  bool unauthenticated = (stream->state == SHAKING && !stream->unused) || status == BANYAN_ERR_AUTH;
  if (!strstr(banyan_error_text(), stream->name)) (void)by_fail_within(status, "%s", stream->name);
  snprintf(reason, sizeof reason, "%s", banyan_error_text());
  release_stream(stream);
  drop_handshake(stream);
  by_log(unauthenticated && !stream->options.quiet ? BY_LOG_WARN : BY_LOG_DEBUG, "net", "%s", reason);
  stream->options.ended(stream->options.context, status, reason);
}

size_t by_stream_queued(const struct by_stream *stream) {
  return stream->out.length - stream->out.at;
}

/* Queues what TLS itself has to send. */
static enum banyan_status queue_tls(struct by_stream *stream) {
  size_t length = by_tls_pending(stream->tls);
  if (!length) return BANYAN_OK;
  BY_TRY(reserve_space(&stream->out, length));
  stream->out.length += by_tls_take(stream->tls, stream->out.data + stream->out.length, length);
  return BANYAN_OK;
}

static void send_queued(struct by_stream *stream) {
  while (by_stream_queued(stream) && !stream->broken) {
    ssize_t n = send(stream->options.fd, stream->out.data + stream->out.at, by_stream_queued(stream), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    /* This is reported only once everything is read: the peer may have sent the reason. */
    if (n < 0) stream->broken = errno;
    if (n > 0) consume_bytes(&stream->out, (size_t)n);
  }
}

static void flush_queue(struct by_stream *stream) {
  if (stream->state == CONNECTING) return;
  send_queued(stream);
  if (stream->state != OPEN || stream->sending != FINISHING) return;
  if (stream->protection == SECURED) {
    by_tls_finish(stream->tls);
    if (queue_tls(stream) == BANYAN_OK) send_queued(stream);
  }
  if (by_stream_queued(stream) && !stream->broken) return;
  shutdown(stream->options.fd, SHUT_WR);
  stream->sending = FINISHED;
}

static void update_watch(struct by_stream *stream) {
  if (stream->state == CONNECTING)
    by_loop_change(stream->watch, EPOLLOUT);
  else if (stream->state != ENDED)
    by_loop_change(stream->watch, (stream->dismissal == REFUSED ? 0u : EPOLLIN) |
                                      (by_stream_queued(stream) && !stream->broken ? EPOLLOUT : 0u));
}

/* Queues what the handshake has to send. Before the peer proved its identity that is at most 74 bytes, or what TLS
 * answers to BY_TLS_UNAUTHENTICATED. */
static enum banyan_status queue_handshake(struct by_stream *stream) {
  size_t length;
  if (stream->protection == SECURED) {
    stream->shaken += by_tls_pending(stream->tls);
    return queue_tls(stream);
  }
  const uint8_t *data = by_opening_output(&stream->opening, &length);
  if (!length) return BANYAN_OK;
  BY_TRY(append_bytes(&stream->out, data, length));
  by_opening_sent(&stream->opening, length);
  stream->shaken += length;
  return BANYAN_OK;
}

static bool is_read(const struct by_stream *stream) {
  return stream->state == OPEN && stream->dismissal != REFUSED;
}

static enum banyan_status deliver_lines(struct by_stream *stream) {
  struct buffer *in = &stream->in;
  while (is_read(stream) && in->length > in->at) {
    const uint8_t *at = in->data + in->at, *newline = memchr(at, '\n', in->length - in->at);
    size_t length = newline ? (size_t)(newline - at) : in->length - in->at;
    if (length > stream->options.max_line)
      return by_fail(BANYAN_ERR_PROTOCOL, "the peer sent a line of more than %zu bytes", stream->options.max_line);
    if (!newline) return BANYAN_OK;
    stream->options.frame(stream->options.context, 0, at, length);
    if (stream->state == OPEN) consume_bytes(in, length + 1);
  }
  return BANYAN_OK;
}

static enum banyan_status deliver_frames(struct by_stream *stream) {
  struct buffer *in = &stream->in;
  while (is_read(stream) && in->length - in->at >= HEADER) {
    const uint8_t *at = in->data + in->at;
    size_t length = by_get_u32(at), have = in->length - in->at - HEADER;
    uint16_t type = by_get_u16(at + 4);
    if (length > stream->options.max_frame)
      return by_fail(BANYAN_ERR_PROTOCOL, "the peer announced a frame of %zu bytes, the limit is %zu", length,
                     stream->options.max_frame);
    if (have < length) return reserve_space(in, length - have);
    stream->options.frame(stream->options.context, type, at + HEADER, length);
    if (stream->state == OPEN) consume_bytes(in, HEADER + length);
  }
  return BANYAN_OK;
}

static enum banyan_status deliver_input(struct by_stream *stream) {
  return stream->options.max_line ? deliver_lines(stream) : deliver_frames(stream);
}

static void open_stream(struct by_stream *stream) {
  size_t length = 0;
  const void *hello = NULL;
  uint8_t purpose = 0;
  set_state(stream, OPEN);
  by_admission_leave(&stream->admission);
  by_loop_cancel_timer(&stream->deadline);
  if (stream->protection == OPENING) {
    hello = by_handshake_hello(&stream->opening.handshake, &length);
    purpose = stream->opening.handshake.purpose;
    stream->tls = by_opening_take_tls(&stream->opening);
  } else if (stream->protection == SECURED) {
    hello = stream->tls->peer.name;
    length = strlen(hello);
    purpose = (uint8_t)stream->tls->peer.role;
  }
  /* Frames sent in `opened` use TLS already. */
  bool through_opening = stream->protection == OPENING;
  if (through_opening) stream->protection = stream->tls ? SECURED : PLAIN;
  if (stream->options.opened) stream->options.opened(stream->options.context, purpose, hello, length);
  if (through_opening) by_opening_fini(&stream->opening);
}

static enum banyan_status give_up(const struct by_stream *stream, bool late) {
  enum banyan_status status =
      stream->protection == SECURED ? by_tls_ended(stream->tls, late) : by_opening_ended(&stream->opening, late);
  return by_large_loss_add_hint(stream->options.fd, status);
}

static bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* Fails after an error of reading. The kernel reports an error once: to the send call, if that came first. */
static enum banyan_status fail_reading(struct by_stream *stream, int error) {
  struct by_quiet quiet = {0};
  if (stream->state == SHAKING) {
    stream->unused = stream->protection == OPENING && by_opening_is_unused(&stream->opening);
    return give_up(stream, false);
  }
  if (!error && is_silence(stream->broken)) error = stream->broken;
  stream->silent = is_silence(error);
  if (stream->silent && by_socket_get_quiet(stream->options.fd, &quiet) && quiet.milliseconds >= 1000 * BY_SILENCE_MIN)
    (void)by_fail(BANYAN_ERR_PEER_DEAD, "its host has not answered for %.1f s: %s", quiet.milliseconds / 1000.0,
                  strerror(error));
  else if (error)
    (void)by_fail(BANYAN_ERR_PEER_DEAD, "the connection was lost: %s", strerror(error));
  if (stream->silent) return by_large_loss_add_hint(stream->options.fd, BANYAN_ERR_PEER_DEAD);
  if (error) return BANYAN_ERR_PEER_DEAD;
  return by_fail(BANYAN_ERR_PEER_DEAD, "the peer closed the connection%s",
                 stream->in.length > stream->in.at ? " in the middle of a frame" : "");
}

/* Decrypts what was fed, as much as the buffer holds at a time, and delivers it: no more waits than without TLS. */
static enum banyan_status deliver_secured(struct by_stream *stream) {
  struct buffer *in = &stream->in;
  while (is_read(stream)) {
    size_t n;
    if (in->length == in->capacity) BY_TRY(reserve_space(in, 1));
    BY_TRY(by_tls_read(stream->tls, in->data + in->length, in->capacity - in->length, &n));
    if (n == 0) return stream->tls->state == BY_TLS_CLOSED ? fail_reading(stream, 0) : BANYAN_OK;
    in->length += n;
    BY_TRY(deliver_input(stream));
  }
  return BANYAN_OK;
}

/* Limits the data of TLS. What it adds to by_stream_send's data is far less than this limit, so a peer that exceeds
 * it has requested new keys repeatedly without reading the answers. */
static enum banyan_status check_answers(const struct by_stream *stream) {
  size_t max = stream->options.max_queued + stream->shaken;
  if (by_stream_queued(stream) <= max + max / 256 + ANSWERS) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "the peer requests answers of TLS and does not read them");
}

/* Handles data that arrived for TLS: its handshake, and records behind it. An error leaves a last message for the
 * peer. */
static enum banyan_status take_secured(struct by_stream *stream, const uint8_t *data, size_t length) {
  enum banyan_status status = by_tls_feed(stream->tls, data, length);
  if (stream->state == SHAKING) {
    enum banyan_status queued = queue_handshake(stream);
    if (status == BANYAN_OK) status = queued;
    if (status == BANYAN_OK && by_stream_queued(stream)) by_admission_greeted(&stream->admission);
    if (status == BANYAN_OK && by_tls_done(stream->tls)) open_stream(stream);
  }
  if (status == BANYAN_OK && stream->state == OPEN) status = deliver_secured(stream);
  if (stream->state == ENDED) return status;
  if (queue_tls(stream) == BANYAN_OK && status != BANYAN_OK) flush_queue(stream);
  return status == BANYAN_OK && stream->state == OPEN ? check_answers(stream) : status;
}

/* Handles data of the handshake. Bytes behind it are the first frames. */
static enum banyan_status continue_handshake(struct by_stream *stream, const uint8_t *data, size_t length) {
  size_t used;
  enum banyan_status status = by_opening_feed(&stream->opening, data, length, &used);
  enum banyan_status queued = queue_handshake(stream);
  if (status == BANYAN_OK) status = queued;
  if (status != BANYAN_OK) {
    flush_queue(stream); /* Tells the peer why it was refused, without waiting. */
    return status;
  }
  if (by_opening_greeted(&stream->opening)) by_admission_greeted(&stream->admission);
  if (by_opening_proved(&stream->opening)) by_admission_leave(&stream->admission);
  if (!by_opening_done(&stream->opening)) return BANYAN_OK;
  BY_TRY(append_bytes(&stream->in, data + used, length - used));
  open_stream(stream);
  if (stream->state != OPEN) return BANYAN_OK;
  return stream->protection == SECURED ? deliver_secured(stream) : deliver_input(stream);
}

/* Reads once. *more is false if there is nothing left for now. */
static enum banyan_status read_once(struct by_stream *stream, bool *more) {
  uint8_t small[AT_ONCE]; /* All that is read of an unknown peer, or that is to be decrypted. */
  uint8_t *to = small;
  size_t capacity = sizeof small;
  if (stream->state == OPEN && stream->protection != SECURED) {
    if (stream->in.length == stream->in.capacity) BY_TRY(reserve_space(&stream->in, 1));
    to = stream->in.data + stream->in.length;
    capacity = stream->in.capacity - stream->in.length;
  }
  ssize_t n = recv(stream->options.fd, to, capacity, 0);
  *more = n == (ssize_t)capacity || (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return BANYAN_OK;
  if (n <= 0) return fail_reading(stream, n < 0 ? errno : 0);
  if (stream->protection == SECURED) return take_secured(stream, small, (size_t)n);
  if (stream->state == SHAKING) return continue_handshake(stream, small, (size_t)n);
  stream->in.length += (size_t)n;
  return deliver_input(stream);
}

/* Begins the handshake on a new connection, whose ends determine whether it is encrypted. */
static enum banyan_status begin_opening(struct by_stream *stream) {
  BY_TRY(by_opening_start(&stream->opening, stream->options.fd));
  return queue_handshake(stream);
}

static enum banyan_status go_on(struct by_stream *stream, uint32_t events) {
  bool more = true, done;
  if (stream->state == CONNECTING) {
    BY_TRY(by_socket_connect_finish(stream->options.fd, &stream->to, &done));
    if (!done) return BANYAN_OK;
    if (stream->protection == PLAIN)
      open_stream(stream);
    else
      set_state(stream, SHAKING);
    if (stream->protection == OPENING) BY_TRY(begin_opening(stream));
  }
  if (stream->state != ENDED && stream->dismissal == REFUSED)
    return events & (EPOLLERR | EPOLLHUP) ? fail_reading(stream, 0) : BANYAN_OK;
  if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP))) return BANYAN_OK;
  for (int i = 0; i < READS && more && stream->state != ENDED && stream->dismissal != REFUSED; i++)
    BY_TRY(read_once(stream, &more));
  return BANYAN_OK;
}

/* Ends every callback of the loop: reports the end, or goes on, and frees what was destroyed meanwhile. */
static void leave_callback(struct by_stream *stream, enum banyan_status status) {
  if (status != BANYAN_OK && stream->state != ENDED) end_stream(stream, status);
  if (stream->state != ENDED) {
    flush_queue(stream);
    update_watch(stream);
  }
  stream->busy = false;
  if (stream->destroyed) free_stream(stream);
}

static void handle_ready(void *context, uint32_t events) {
  struct by_stream *stream = context;
  stream->busy = true;
  leave_callback(stream, go_on(stream, events));
}

static void too_late(void *context) {
  struct by_stream *stream = context;
  stream->busy = true;
  if (stream->state == CONNECTING)
    leave_callback(stream,
                   by_fail(BANYAN_ERR_CONNECT, "no connection in time; is the host up, does a firewall drop it?"));
  else if (stream->state == OPEN)
    leave_callback(stream, by_fail(BANYAN_ERR_PEER_DEAD, "the peer was rejected and did not close the connection"));
  else if (stream->dismissal == EVICTED)
    leave_callback(stream, by_refuse(BY_REFUSED_EVICTED, BANYAN_ERR_PEER_DEAD,
                                     "closed before it had authenticated, to make room for others"));
  else
    leave_callback(stream, give_up(stream, true));
}

static void handle_eviction(void *context) {
  struct by_stream *stream = context;
  stream->dismissal = EVICTED;
  by_loop_set_delay(stream->options.loop, &stream->deadline, 0);
}

static enum banyan_status start_stream(struct by_stream *stream) {
  const struct by_stream_options *options = &stream->options;
  assert(!options->handshake || !options->tls);
  struct by_address peer = {.length = 0};
  int yes = 1;
  if (options->connecting)
    peer = stream->to = *options->connecting;
  else
    (void)!by_socket_get_peer(options->fd, &peer);
  by_address_print(&peer, stream->name);
  if (!peer.length) strcpy(stream->name, "a local socket");
  (void)setsockopt(options->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* A local socket has no such option. */
  if (options->handshake) {
    by_opening_init(&stream->opening, options->handshake);
    stream->protection = OPENING;
    if (!options->connecting) BY_TRY(begin_opening(stream));
  }
  if (options->tls) {
    stream->tls = calloc(1, sizeof *stream->tls);
    if (!stream->tls) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
    BY_TRY(by_tls_init(stream->tls, options->tls));
    stream->protection = SECURED;
    BY_TRY(queue_handshake(stream));
  }
  if (!options->connecting) set_state(stream, stream->protection == PLAIN ? OPEN : SHAKING);
  uint64_t timeout = options->timeout ? options->timeout : BY_STREAM_TIMEOUT;
  if (stream->state != OPEN) by_loop_set_delay(options->loop, &stream->deadline, timeout);
  stream->admission = (struct by_admission_entry){.evicted = handle_eviction, .context = stream};
  if (stream->state == SHAKING && options->admission)
    by_admission_enter(options->admission, &stream->admission, options->fd);
  return by_loop_watch(options->loop, options->fd, EPOLLIN | EPOLLOUT, handle_ready, stream, &stream->watch);
}

enum banyan_status by_stream_create(const struct by_stream_options *options, struct by_stream **out) {
  struct by_stream *stream = calloc(1, sizeof *stream);
  if (!stream) {
    by_close(options->fd);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a stream");
  }
  stream->options = *options;
  by_timer_init(&stream->deadline, too_late, stream);
  enum banyan_status status = start_stream(stream);
  stream->options.connecting = NULL; /* The caller lent it for this call. */
  stream->options.handshake = NULL;
  stream->options.tls = NULL;
  if (status != BANYAN_OK)
    by_stream_destroy(stream);
  else
    *out = stream;
  return status;
}

static enum banyan_status queue_record(struct by_stream *stream, const uint8_t *record, size_t length) {
  BY_TRY(by_tls_write(stream->tls, record, length));
  return queue_tls(stream);
}

/* Queues encrypted data a record at a time, so that small parts share one, and OpenSSL needs no larger buffers. */
static enum banyan_status queue_encrypted(struct by_stream *stream, const struct iovec *parts, int count) {
  uint8_t record[RECORD];
  size_t filled = 0, max = 0, n;
  enum banyan_status status = BANYAN_OK;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < parts[i].iov_len && status == BANYAN_OK; at += n) {
      n = parts[i].iov_len - at < RECORD - filled ? parts[i].iov_len - at : RECORD - filled;
      memcpy(record + filled, (const uint8_t *)parts[i].iov_base + at, n);
      filled += n;
      if (filled > max) max = filled;
      if (filled < RECORD) continue;
      status = queue_record(stream, record, filled);
      filled = 0;
    }
  }
  if (status == BANYAN_OK) status = queue_record(stream, record, filled);
  OPENSSL_cleanse(record, max);
  return status;
}

/* Queues all parts or none. With TLS, a part that was encrypted cannot be taken back, so an error ends the stream. */
static enum banyan_status queue_all(struct by_stream *stream, const struct iovec *parts, int count) {
  size_t length = 0;
  for (int i = 0; i < count; i++) length += parts[i].iov_len;
  BY_TRY(reserve_space(&stream->out, length));
  if (stream->protection == SECURED) {
    enum banyan_status status = queue_encrypted(stream, parts, count);
    if (status != BANYAN_OK) shutdown(stream->options.fd, SHUT_RDWR);
    return status;
  }
  for (int i = 0; i < count; i++) BY_TRY(append_bytes(&stream->out, parts[i].iov_base, parts[i].iov_len));
  return BANYAN_OK;
}

enum banyan_status by_stream_send(struct by_stream *stream, uint16_t type, const void *payload, size_t length) {
  uint8_t header[HEADER];
  size_t ends = stream->options.max_line ? 1 : HEADER;
  if (stream->state != OPEN || stream->sending != SENDING)
    return by_fail(BANYAN_ERR_CLOSED, "%s: the stream is %s", stream->name,
                   stream->state < OPEN ? "not open yet" : "closed");
  if (length > stream->options.max_frame)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: a frame of %zu bytes is above the limit of %zu", stream->name, length,
                   stream->options.max_frame);
  if (by_stream_queued(stream) + ends + length > stream->options.max_queued + stream->shaken)
    return by_fail(BANYAN_ERR_NO_MEMORY, "%s: %zu bytes wait to be sent, and the peer does not read", stream->name,
                   by_stream_queued(stream));
  by_put_u32(header, (uint32_t)length);
  by_put_u16(header + 4, type);
  struct iovec frame[] = {{header, HEADER}, {(void *)(uintptr_t)payload, length}};
  struct iovec line[] = {{(void *)(uintptr_t)payload, length}, {(char[]){"\n"}, 1}};
  BY_TRY(queue_all(stream, stream->options.max_line ? line : frame, 2));
  flush_queue(stream);
  update_watch(stream);
  return BANYAN_OK;
}

void by_stream_finish(struct by_stream *stream) {
  if (stream->sending == SENDING) stream->sending = FINISHING;
  if (stream->state != OPEN) return;
  flush_queue(stream);
  update_watch(stream);
}

void by_stream_refuse(struct by_stream *stream) {
  stream->dismissal = REFUSED;
  if (stream->state != ENDED) by_loop_set_delay(stream->options.loop, &stream->deadline, BY_STREAM_TIMEOUT);
  by_stream_finish(stream);
}

int by_stream_get_fd(const struct by_stream *stream) {
  return stream->options.fd;
}

bool by_stream_is_silent(const struct by_stream *stream) {
  return stream->silent;
}

bool by_stream_is_unused(const struct by_stream *stream) {
  return stream->unused;
}

const char *by_stream_get_name(const struct by_stream *stream) {
  return stream->name;
}

const struct by_tls_subject *by_stream_get_subject(const struct by_stream *stream) {
  bool named = stream->protection == SECURED && by_tls_done(stream->tls) && !stream->tls->between_processes;
  return named ? &stream->tls->peer : NULL;
}

const struct by_fingerprint *by_stream_get_fingerprint(const struct by_stream *stream) {
  bool proved = stream->protection == SECURED && by_tls_done(stream->tls) && stream->tls->between_processes;
  return proved ? &stream->tls->fingerprint : NULL;
}

bool by_stream_get_ticket(const struct by_stream *stream, uint8_t *out) {
  const struct by_handshake *handshake = &stream->opening.handshake;
  if (!by_opening_done(&stream->opening) || !(handshake->purpose & BY_PURPOSE_HELPER)) return false;
  memcpy(out, handshake->ticket, BY_TICKET_HEAD);
  return true;
}

enum banyan_status by_stream_get_secret(const struct by_stream *stream, struct by_key *out) {
  if (!by_opening_done(&stream->opening))
    return by_fail(BANYAN_ERR_PROTOCOL, "the handshake is over, or has not begun");
  return by_key_hash(&stream->opening.handshake.session, "banyan secrets", out);
}

enum banyan_status by_stream_judge_again(struct by_stream *stream, const struct by_tls_identity *identity) {
  return by_tls_judge_again(stream->tls, identity);
}
