/* Accepts control connections, passes requests to the reservations, and answers. */
#include "switch_control.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "acceptor.h"
#include "descriptor.h"
#include "json_doc.h"
#include "log.h"
#include "process_identity.h"
#include "reservations.h"
#include "socket.h"
#include "stream.h"

enum { SESSIONS = 256, UNKNOWN = 256, LISTENERS = 8 };

static const uint64_t request_timeout = 5 * BY_SECOND;

/* A connection. It is known once its peer has authenticated or, if no key is needed, has sent a valid request. */
struct session {
  struct by_switch_control *control;
  struct by_stream *stream;
  LIST_ENTRY(session) link;
  struct by_admission_entry admission; /* Only without a key. */
  struct by_timer late;
  bool known;
};

struct listener {
  struct by_switch_control *control;
  struct by_acceptor *acceptor;
  char path[BY_PATH_SOCKET]; /* Path of a Unix socket; "": it listens for TCP. */
};

struct by_switch_control {
  struct by_switch_control_options options;
  struct by_key key;
  struct by_process_identity *identity; /* NULL: there is no key. */
  struct by_reservations *reservations;
  LIST_HEAD(, session) sessions;
  unsigned n_known, n_listeners;
  struct by_admission admission;
  struct by_repeats rejected;
  struct listener listeners[LISTENERS];
  uint64_t started;
};

static void end_session(struct session *session) {
  struct by_switch_control *control = session->control;
  LIST_REMOVE(session, link);
  control->n_known -= session->known;
  by_admission_leave(&session->admission);
  by_loop_cancel_timer(&session->late);
  by_reservations_leave(control->reservations, session);
  by_stream_destroy(session->stream);
  free(session);
}

/* ---- replies */

/* A peer that does not read its replies loses them. */
static void reply_text(const struct session *session, const struct by_text *text) {
  if (text->failed || by_stream_send(session->stream, 0, by_text_get(text), text->length) != BANYAN_OK)
    by_info("switch", "%s: a reply is lost", by_stream_get_name(session->stream));
}

static void send_reply(void *owner, const struct by_reservation_reply *what) {
  struct by_text text;
  by_text_init(&text);
  by_reservation_print_reply(what, &text);
  reply_text(owner, &text);
  by_text_fini(&text);
}

static void send_status(const struct session *session, enum by_reservation_operation operation) {
  const struct by_switch_control *control = session->control;
  const struct by_plane *plane = control->options.plane;
  struct by_plane_counts counts = {0};
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "{\"done\": \"%s\", \"version\": \"%s\", \"kind\": \"%s\", \"seconds\": %.1f",
              by_reservation_operation_name(operation), BANYAN_VERSION, plane->ops->name,
              by_clock_to_seconds(by_loop_now(control->options.loop) - control->started));
  if (operation == BY_RESERVATION_STATUS) {
    by_reservations_print(control->reservations, &text);
    if (plane->ops->count(plane->self, &counts) != BANYAN_OK) by_warn("switch", "%s", banyan_error_text());
    by_text_add(&text, ", \"events\": {");
    for (int i = 0; i < BY_EVENTS; i++)
      by_text_add(&text, "%s\"%s\": %" PRIu64, i ? ", " : "", by_event_name(i), counts.events[i]);
    by_text_add(&text, "}, \"unsent\": %" PRIu64 ", \"expired\": %" PRIu64, counts.unsent, counts.expired);
  }
  by_text_add(&text, "}");
  reply_text(session, &text);
  by_text_fini(&text);
}

static void log_rejected(struct session *session, const char *why) {
  struct by_switch_control *control = session->control;
  by_repeats_warn(&control->rejected, "switch", by_stream_get_name(session->stream), why,
                  by_clock_to_seconds(by_loop_now(control->options.loop)));
}

/* Protects the session from being closed in favour of others. Returns false if there are too many known sessions. */
static bool become_known(struct session *session) {
  char text[80];
  if (session->known) return true;
  by_admission_leave(&session->admission);
  by_loop_cancel_timer(&session->late);
  if (session->control->n_known < SESSIONS) {
    session->control->n_known++;
    session->known = true;
    return true;
  }
  snprintf(text, sizeof text, "there are %d connections already, another is refused", SESSIONS);
  log_rejected(session, text);
  by_stream_refuse(session->stream);
  return false;
}

static void handle_line(void *context, uint16_t type, const void *line, size_t length) {
  struct session *session = context;
  struct by_reservation_request request;
  if (by_reservation_read_request(line, length, &request) != BANYAN_OK) {
    struct by_reservation_reply what = {.operation = BY_RESERVATION_OPERATIONS};
    by_keep_printable(banyan_error_text(), what.text, sizeof what.text);
    send_reply(session, &what);
    return;
  }
  if (!become_known(session)) return;
  if (request.operation == BY_RESERVATION_GRANT)
    by_reservations_grant(session->control->reservations, &request, session);
  else if (request.operation == BY_RESERVATION_REVOKE)
    by_reservations_revoke(session->control->reservations, &request, session);
  else
    send_status(session, request.operation);
}

static void handle_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  (void)become_known(context);
}

static void handle_ended(void *context, enum banyan_status status, const char *reason) {
  struct session *session = context;
  if (session->known)
    by_info("switch", "control: %s", reason);
  else
    log_rejected(session, reason);
  end_session(session);
}

static void handle_timeout(void *context) {
  struct session *session = context;
  log_rejected(session, "it made no request in time, or was closed to make room for others");
  end_session(session);
}

static void handle_evicted(void *context) {
  struct session *session = context;
  by_loop_set_delay(session->control->options.loop, &session->late, 0);
}

/* ---- connections */

static enum banyan_status begin_session(struct listener *listener, int fd, struct session *session) {
  struct by_switch_control *control = listener->control;
  struct by_handshake_options handshake = {.role = BY_ROLE_SERVER,
                                           .purpose = BY_RESERVATION_PURPOSE,
                                           .key = &control->key,
                                           .hello = "",
                                           .encryption = BY_ENCRYPT_BETWEEN_HOSTS,
                                           .identity = control->identity};
  bool is_local = listener->path[0], proves = control->options.key && !is_local;
  struct by_stream_options options = {.loop = control->options.loop,
                                      .fd = fd,
                                      .handshake = proves ? &handshake : NULL,
                                      .admission = &control->admission,
                                      .quiet = true,
                                      .max_frame = BY_RESERVATION_REPLY,
                                      .max_line = BY_RESERVATION_LINE,
                                      .max_queued = 2 * BY_RESERVATION_REPLY,
                                      .opened = handle_opened,
                                      .frame = handle_line,
                                      .ended = handle_ended,
                                      .context = session};
  if (!is_local && by_socket_set_keepalive(fd, 10, 5, 3) != BANYAN_OK) by_info("switch", "%s", banyan_error_text());
  BY_TRY(by_stream_create(&options, &session->stream));
  session->control = control;
  LIST_INSERT_HEAD(&control->sessions, session, link);
  session->admission = (struct by_admission_entry){.evicted = handle_evicted, .context = session};
  by_timer_init(&session->late, handle_timeout, session);
  if (proves) return BANYAN_OK;
  by_loop_set_delay(control->options.loop, &session->late, request_timeout);
  by_admission_enter(&control->admission, &session->admission, fd);
  return BANYAN_OK;
}

static void handle_accepted(void *context, int fd) {
  struct listener *listener = context;
  struct session *session = calloc(1, sizeof *session);
  if (!session) {
    by_close(fd);
    return;
  }
  if (begin_session(listener, fd, session) == BANYAN_OK) return;
  by_warn("switch", "control: %s", banyan_error_text());
  free(session);
}

static enum banyan_status check_listeners(const struct by_switch_control *control) {
  if (control->n_listeners < LISTENERS) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "switch: listens at %d places at most", LISTENERS);
}

static enum banyan_status add_listener(struct by_switch_control *control, int fd, const char *path) {
  struct listener *listener = &control->listeners[control->n_listeners];
  *listener = (struct listener){.control = control};
  snprintf(listener->path, sizeof listener->path, "%s", path);
  BY_TRY(by_acceptor_create(control->options.loop, fd, handle_accepted, listener, &listener->acceptor));
  control->n_listeners++;
  return BANYAN_OK;
}

enum banyan_status by_switch_control_listen_at(struct by_switch_control *control, const char *path) {
  struct by_path_socket place = {.path = path, .program = "switch", .option = "--control PATH", .mode = 0600};
  int fd;
  BY_TRY(check_listeners(control));
  BY_TRY(by_path_socket_listen(&place, &fd));
  return add_listener(control, fd, path);
}

enum banyan_status by_switch_control_listen(struct by_switch_control *control, const struct by_address *address) {
  struct by_address bound;
  char text[BY_ADDRESS_TEXT];
  int fd;
  BY_TRY(check_listeners(control));
  if (!control->options.key && !by_address_is_loopback(address))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "switch: anybody could take cells at %s: name the secret that jobs have too, with --secret-file or "
                   "BANYAN_SWITCH_KEY",
                   by_address_print(address, text));
  BY_TRY(by_socket_listen(address, (struct by_port_range){0, 0}, &fd, &bound));
  return add_listener(control, fd, "");
}

uint32_t by_switch_control_used(const struct by_switch_control *control) {
  return by_reservations_used(control->reservations);
}

/* ---- beginning and end */

enum banyan_status by_switch_control_create(const struct by_switch_control_options *options,
                                            struct by_switch_control **out) {
  struct by_switch_control *control = calloc(1, sizeof *control);
  struct by_reservations_options reservations = {.loop = options->loop,
                                                 .plane = options->plane,
                                                 .cells = options->cells,
                                                 .n_ports = options->n_ports,
                                                 .ports = options->ports,
                                                 .accepts_unauthenticated = options->accepts_unauthenticated,
                                                 .answer = send_reply};
  *out = NULL;
  if (!control) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  control->options = *options;
  control->started = by_loop_now(options->loop);
  by_admission_init(&control->admission, UNKNOWN);
  if (options->key) control->key = *options->key;
  enum banyan_status status = options->key ? by_process_identity_create(&control->identity) : BANYAN_OK;
  if (status == BANYAN_OK) status = by_reservations_create(&reservations, &control->reservations);
  if (status == BANYAN_OK)
    *out = control;
  else
    by_switch_control_destroy(control);
  return status;
}

void by_switch_control_destroy(struct by_switch_control *control) {
  if (!control) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE, which the analyzer does not follow */
  while (!LIST_EMPTY(&control->sessions)) end_session(LIST_FIRST(&control->sessions));
  for (unsigned i = 0; i < control->n_listeners; i++) {
    by_acceptor_destroy(control->listeners[i].acceptor);
    if (control->listeners[i].path[0]) unlink(control->listeners[i].path);
  }
  by_repeats_flush(&control->rejected, "switch", INFINITY);
  by_log_flush();
  by_reservations_destroy(control->reservations);
  by_process_identity_destroy(control->identity);
  explicit_bzero(&control->key, sizeof control->key);
  free(control);
}
