/* The control connections of this process, the states of the job's members, and the detection of silent hosts. */
#include "control_peers.h"

#include <linux/sockios.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "descriptor.h"
#include "dialer.h"
#include "formation.h"
#include "job_state.h"
#include "key_ring.h"
#include "large_loss.h"
#include "log.h"
#include "socket.h"

enum {
  UNAUTHENTICATED = 96, /* Unauthenticated connections beyond the number of ranks. */
  SUSPECT_MS = 1500     /* Silence longer than the interval between the kernel's probes. */
};

/* ---- members */

enum banyan_status by_control_peers_make_room(struct by_control_peers *peers, uint32_t before, uint32_t processes) {
  if (!BY_ARRAY_GROW(&peers->of_process, &peers->of_process_room, processes) ||
      !BY_ARRAY_GROW(&peers->states, &peers->states_room, processes))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  for (uint32_t p = before; p < processes; p++) {
    peers->of_process[p] = NULL;
    peers->states[p] = BY_MEMBER_JOINING;
  }
  return BANYAN_OK;
}

bool by_control_peers_set_member(struct by_control_peers *peers, uint32_t process, enum by_member_state state) {
  static const unsigned next[BY_MEMBER_STATES] = {
      [BY_MEMBER_JOINING] = 1u << BY_MEMBER_JOINED | 1u << BY_MEMBER_LOST,
      [BY_MEMBER_JOINED] = 1u << BY_MEMBER_JOINING | 1u << BY_MEMBER_LEAVING | 1u << BY_MEMBER_LOST,
      [BY_MEMBER_LEAVING] = 1u << BY_MEMBER_LEFT,
  };
  static const char *const names[] = {"joining", "joined", "leaving", "left", "lost"};
  enum by_member_state *now = &peers->states[process];
  bool fits = next[*now] >> state & 1;
  by_debug("control", "process %u: %s -> %s%s", process, names[*now], names[state], fits ? "" : " (ignored)");
  if (fits) *now = state;
  return fits;
}

struct by_control_peer *by_control_peers_root(const struct by_control_peers *peers) {
  struct by_control_peer *peer = peers->all;
  while (peer && peer->rank != 0) peer = peer->next;
  return peer;
}

/* ---- connections */

void by_control_peer_set_state(struct by_control_peer *peer, enum by_control_peer_state state) {
  static const char *const names[] = {"greeting", "waiting", "joined", "leaving"};
  bool fits = state == peer->state + 1u;
  by_debug("control", "%s: %s -> %s%s", by_stream_get_name(peer->stream), names[peer->state], names[state],
           fits ? "" : " (ignored)");
  if (fits) peer->state = state;
}

void by_control_peer_join(struct by_control_peer *peer, uint32_t process) {
  peer->rank = process;
  peer->peers->of_process[process] = peer;
  by_control_peer_set_state(peer, BY_PEER_JOINED);
  (void)by_control_peers_set_member(peer->peers, process, BY_MEMBER_JOINED);
}

void by_control_peers_move(struct by_control_peers *peers, uint32_t from, uint32_t to) {
  struct by_control_peer *peer = peers->of_process[from];
  peers->of_process[from] = NULL;
  if (from != to) {
    peers->of_process[to] = peer;
    peer->rank = to;
  }
  (void)by_control_peers_set_member(peers, from, BY_MEMBER_JOINING);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct by_control_peer *peer = context;
  (void)by_stream_get_ticket(peer->stream, peer->ticket);
  free(peer->hello);
  peer->hello = NULL;
  if (by_stream_get_secret(peer->stream, &peer->secret) != BANYAN_OK) {
    by_warn("control", "a connection was dropped: %s", banyan_error_text());
    by_stream_refuse(peer->stream);
    return;
  }
  by_control_peer_set_state(peer, BY_PEER_WAITING);
  peer->peers->events.opened(peer->peers->events.context, peer, purpose, hello, length);
}

static void frame_came(void *context, uint16_t type, const void *payload, size_t length) {
  struct by_control_peer *peer = context;
  peer->peers->events.frame(peer->peers->events.context, &(struct by_received){peer, type, payload, length});
}

/* Logs a peer that did not authenticate. Processes of an ending job give up connections that they had begun, which is
 * not logged. */
static void log_stranger(struct by_control_peers *peers, const struct by_control_peer *peer, enum banyan_status status,
                         const char *reason) {
  bool over = atomic_load(&peers->leaving) || by_job_has_failed(peers->job);
  if (over && status == BANYAN_ERR_PEER_DEAD)
    by_debug("control", "%s", reason);
  else
    by_repeats_warn(&peers->rejected, "control", by_stream_get_name(peer->stream), reason,
                    by_clock_to_seconds(by_loop_now(peers->job->loop)));
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct by_control_peer *peer = context;
  struct by_control_peers *peers = peer->peers;
  peer->vanished |= by_stream_is_silent(peer->stream);
  if (by_control_peers_is_root(peers) && peer->state == BY_PEER_GREETING && !by_stream_is_unused(peer->stream))
    log_stranger(peers, peer, status, reason);
  peers->events.ended(peers->events.context, peer, status, reason);
}

/* ---- hosts that vanished. The kernel finds them, but counts anew from the moment when something is sent in the midst
 * of an outage: then the time since the last sign of life counts here. Nothing is done while there are signs of life.
 */

/* Returns the limit of silence: an interval after the last retransmission that may still be answered. */
static uint32_t silence_limit(const struct by_control_peers *peers) {
  uint32_t limit = by_silence_limit(peers->job->settings.silence);
  return limit + limit / 100;
}

static bool is_quiet(const struct by_control_peer *peer, struct by_quiet *out) {
  return by_socket_get_quiet(by_stream_get_fd(peer->stream), out) && out->milliseconds >= SUSPECT_MS;
}

static void look_again(struct by_control_peers *peers, uint32_t quiet) {
  uint32_t limit = silence_limit(peers), delay = quiet < limit ? limit - quiet : SUSPECT_MS;
  uint64_t at = by_loop_now(peers->job->loop) + delay * BY_MILLISECOND;
  if (!by_timer_is_set(&peers->silence) || at < peers->silence.at)
    by_loop_set_timer(peers->job->loop, &peers->silence, at);
}

static void watch(const struct by_control_peer *peer) {
  struct by_quiet quiet;
  if (is_quiet(peer, &quiet)) look_again(peer->peers, quiet.milliseconds);
}

static void vanished(struct by_control_peer *peer, uint32_t quiet) {
  char reason[TEXT_MOST], hint[512];
  bool large = by_large_loss_hint(by_stream_get_fd(peer->stream), hint, sizeof hint);
  snprintf(reason, sizeof reason, "%s: its host has not answered for %.1f s%s%s", by_stream_get_name(peer->stream),
           quiet / 1000.0, large ? "; " : "", large ? hint : "");
  peer->vanished = true;
  ended(peer, BANYAN_ERR_PEER_DEAD, reason);
}

/* Finds one vanished peer at a time, as its end may change the list. */
static bool find_vanished(struct by_control_peers *peers) {
  struct by_quiet quiet;
  for (struct by_control_peer *peer = peers->all; peer; peer = peer->next) {
    if (!is_quiet(peer, &quiet)) continue;
    if (quiet.unanswered && quiet.milliseconds >= silence_limit(peers)) {
      vanished(peer, quiet.milliseconds);
      return true;
    }
    look_again(peers, quiet.milliseconds);
  }
  return false;
}

static void silence_over(void *argument) {
  while (find_vanished(argument)) {
  }
}

/* Returns the expected fingerprint of rank 0: of a membership, the one in its handle; of a job, the one in BANYAN_ROOT,
 * if any. NULL: any holder of the job's key at that address. */
static const struct by_fingerprint *expected_root(const struct by_job *job, enum by_role role,
                                                  struct by_fingerprint *room) {
  const struct by_formation *formation = job->role.formation;
  if (role != BY_ROLE_CLIENT) return NULL;
  if (formation) return &formation->membership->members[0].fingerprint;
  return by_dialer_fingerprint(job->settings.root, room) ? room : NULL;
}

/* Makes a hello with the current statement of this host's agent. NULL: out of memory. The caller frees it. */
static uint8_t *make_hello(const struct by_control_peers *peers, size_t *length, uint32_t *version) {
  uint8_t statement[BY_STATEMENT_MAX];
  struct by_writer writer;
  size_t n = by_own_statement_get(peers->job->statement, statement, version);
  *length = peers->hello_length ? peers->hello_length + n : 0;
  uint8_t *hello = malloc(*length + 1);
  if (!hello || !*length) return hello;
  by_writer_init(&writer, hello, *length);
  by_join_add_statement(&writer, peers->hello, peers->hello_length, statement, n);
  return hello;
}

struct by_control_peer *by_control_peer_create(struct by_control_peers *peers, int fd,
                                               const struct by_address *connecting, enum by_role role) {
  struct by_control_peer *peer = calloc(1, sizeof *peer);
  if (!peer) {
    by_close(fd);
    return NULL;
  }
  *peer = (struct by_control_peer){.next = peers->all, .peers = peers, .rank = role == BY_ROLE_CLIENT ? 0 : -1};
  size_t length;
  if (!(peer->hello = make_hello(peers, &length, &peer->shown))) {
    by_warn("control", "a connection was dropped: out of memory for its hello");
    free(peer);
    by_close(fd);
    return NULL;
  }
  struct by_job_keys keys;
  struct by_fingerprint root;
  by_key_ring_get(peers->job->keys, &keys);
  struct by_handshake_options handshake = {.role = role,
                                           .purpose = PURPOSE_CONTROL | (role == BY_ROLE_CLIENT ? keys.purpose : 0),
                                           .encryption = by_encryption_of(peers->job->settings.encrypt),
                                           .identity = peers->job->identity,
                                           .expected = expected_root(peers->job, role, &root),
                                           .hello = peer->hello,
                                           .hello_length = length};
  struct by_stream_options options = {.loop = peers->job->loop,
                                      .fd = fd,
                                      .connecting = connecting,
                                      .handshake = &handshake,
                                      .max_frame = MOST_FRAME,
                                      .max_queued = MOST_QUEUED,
                                      .admission = role == BY_ROLE_SERVER ? &peers->admission : NULL,
                                      .quiet = role == BY_ROLE_SERVER,
                                      .opened = opened,
                                      .frame = frame_came,
                                      .ended = ended,
                                      .context = peer};
  (void)!by_socket_set(fd, BY_SOCKET_NODELAY, 1);
  (void)!by_socket_set_vigilant(fd, peers->job->settings.silence);
  by_job_keys_use(&keys, role == BY_ROLE_SERVER, &handshake);
  enum banyan_status status = by_stream_create(&options, &peer->stream);
  explicit_bzero(&keys, sizeof keys);
  if (status != BANYAN_OK) {
    by_warn("control", "a connection was dropped: %s", banyan_error_text());
    free(peer->hello);
    free(peer);
    return NULL;
  }
  peers->all = peer;
  return peer;
}

void by_control_peer_detach(struct by_control_peer *peer) {
  struct by_control_peer **place = &peer->peers->all;
  while (*place != peer) place = &(*place)->next;
  *place = peer->next;
  struct by_control_peer **of_process = peer->rank < 0 ? NULL : &peer->peers->of_process[peer->rank];
  if (of_process && *of_process == peer) *of_process = NULL;
}

void by_control_peer_destroy(struct by_control_peer *peer) {
  by_stream_destroy(peer->stream);
  explicit_bzero(&peer->secret, sizeof peer->secret);
  by_stated_fini(&peer->stated);
  free(peer->hello);
  free(peer);
}

enum banyan_status by_control_peers_init(struct by_control_peers *peers, struct by_job *job,
                                         const struct by_control_peer_events *events, uint32_t processes) {
  *peers = (struct by_control_peers){.job = job, .events = *events};
  by_admission_init(&peers->admission, UNAUTHENTICATED + job->size);
  by_timer_init(&peers->silence, silence_over, peers);
  return by_control_peers_make_room(peers, 0, processes);
}

void by_control_peers_close(struct by_control_peers *peers) {
  while (peers->all) {
    struct by_control_peer *peer = peers->all;
    by_control_peer_detach(peer); /* NOLINT(clang-analyzer-unix.Malloc): what is freed has left the list */
    by_control_peer_destroy(peer);
  }
}

void by_control_peers_fini(struct by_control_peers *peers) {
  by_control_peers_close(peers);
  by_loop_cancel_timer(&peers->silence);
  by_repeats_flush(&peers->rejected, "control", INFINITY);
  by_repeats_flush(&peers->refused, "control", INFINITY);
  by_log_flush();
  free(peers->of_process);
  free(peers->states);
}

/* ---- sending */

/* Shuts the connection down; the loop is notified of its end. */
void by_control_peer_cut(const struct by_control_peer *peer, const char *why) {
  by_error("control", "%s cannot be sent a required message, and is given up: %s", by_stream_get_name(peer->stream),
           why);
  (void)shutdown(by_stream_get_fd(peer->stream), SHUT_RDWR);
}

enum banyan_status by_control_peer_try_send(const struct by_control_peer *peer, enum message type, const void *bytes,
                                            size_t length) {
  enum banyan_status status = by_stream_send(peer->stream, (uint16_t)type, bytes, length);
  if (status == BANYAN_OK) watch(peer);
  return status;
}

/* Returns whether the peer's kernel has all data. On one machine the kernel delivers data whatever becomes of this
 * process. */
bool by_control_peer_has_all(const struct by_control_peer *peer) {
  const struct by_job *job = peer->peers->job;
  bool here = !strcmp(job->members[peer->rank].machine, job->members[job->rank].machine);
  int left = 0;
  if (by_stream_queued(peer->stream)) return false;
  return here || ioctl(by_stream_get_fd(peer->stream), SIOCOUTQ, &left) || !left;
}

bool by_control_peer_send(const struct by_control_peer *peer, enum message type, const void *bytes, size_t length) {
  enum banyan_status status = by_control_peer_try_send(peer, type, bytes, length);
  if (status == BANYAN_ERR_NO_MEMORY)
    by_control_peer_cut(peer, banyan_error_text());
  else if (status != BANYAN_OK) /* The stream is closed already. */
    by_warn("control", "%s: a message could not be sent: %s", by_stream_get_name(peer->stream), banyan_error_text());
  return status == BANYAN_OK;
}

void by_control_peer_send_text(struct by_control_peer *peer, enum message type, enum banyan_status status,
                               uint32_t process, const char *text) {
  uint8_t bytes[TEXT_MOST + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, status, process, text);
  if (!writer.failed) (void)by_control_peer_send(peer, type, bytes, writer.length);
}

void by_control_peers_send_text(struct by_control_peers *peers, enum message type, enum banyan_status status,
                                uint32_t process, const char *text) {
  for (struct by_control_peer *peer = peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer)) by_control_peer_send_text(peer, type, status, process, text);
}

void by_control_peer_refuse(struct by_control_peer *peer, enum banyan_status status, const char *text) {
  by_repeats_warn(&peer->peers->refused, "control", by_stream_get_name(peer->stream), text,
                  by_clock_to_seconds(by_loop_now(peer->peers->job->loop)));
  by_control_peer_send_text(peer, REFUSED, status, 0, text);
  by_stream_refuse(peer->stream);
}

/* ---- from other threads */

static void handle_report(void *context) {
  struct by_control_report *report = context;
  report->handle(report);
  free(report);
}

bool by_control_peers_post(const struct by_control_peers *peers, const struct by_control_report *report,
                           const void *bytes, const char *text) {
  struct by_control_report *copy = malloc(sizeof *copy + report->length);
  if (copy) {
    *copy = *report;
    snprintf(copy->text, sizeof copy->text, "%s", text);
    if (report->length) memcpy(copy->bytes, bytes, report->length);
    if (by_loop_post(peers->job->loop, handle_report, copy) == BANYAN_OK) return true;
  }
  free(copy);
  by_error("control", "this could not be sent to the others: %s", text);
  return false;
}
