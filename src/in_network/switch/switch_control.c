#include "switch_control.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acceptor.h"
#include "descriptor.h"
#include "json_doc.h"
#include "leases.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"
#include "stream.h"

enum { SESSIONS = 256, UNKNOWN = 256, LISTENERS = 8 };

static const uint64_t first_request_in = 5 * BY_SECOND;

/* One connection. It is known once its peer has authenticated or, where no key is needed, has made a valid request. */
struct session {
  struct by_switch_control *control;
  struct by_stream *stream;
  struct session *next;
  struct by_admission_entry admission; /* where no key is needed */
  struct by_timer late;
  bool known;
};

struct listener {
  struct by_switch_control *control;
  struct by_acceptor *acceptor;
  bool is_local;
  char path[BY_PATH_SOCKET];
};

struct by_switch_control {
  struct by_switch_control_options options;
  struct by_key key;
  struct by_leases *leases;
  struct session *sessions;
  unsigned n_known, n_listeners;
  struct by_admission admission;
  struct by_repeats rejected;
  struct listener listeners[LISTENERS];
  uint64_t started;
};

static void end_session(struct session *session) {
  struct by_switch_control *control = session->control;
  struct session **at = &control->sessions;
  while (*at != session) at = &(*at)->next;
  *at = session->next;
  control->n_known -= session->known;
  by_admission_leave(&session->admission);
  by_loop_cancel_timer(&session->late);
  by_leases_leave(control->leases, session);
  by_stream_destroy(session->stream);
  free(session);
}

/* ---- replies */

/* One that does not read its replies loses them, and waits in vain. */
static void reply_text(const struct session *session, const struct by_text *text) {
  if (text->failed || by_stream_send(session->stream, 0, by_text_get(text), text->length) != BANYAN_OK)
    by_info("switch", "%s: a reply is lost", by_stream_get_name(session->stream));
}

static void reply(void *owner, const struct by_lease_reply *what) {
  struct by_text text;
  by_text_init(&text);
  by_lease_print_reply(what, &text);
  reply_text(owner, &text);
  by_text_fini(&text);
}

static void print_counts(const struct by_plane *plane, struct by_text *text) {
  struct by_plane_counts counts = {0};
  if (plane->ops->count(plane->self, &counts) != BANYAN_OK) by_warn("switch", "%s", banyan_error_text());
  by_text_add(text, ", \"events\": {");
  for (int i = 0; i < BY_EVENTS; i++)
    by_text_add(text, "%s\"%s\": %llu", i ? ", " : "", by_event_name(i), (unsigned long long)counts.events[i]);
  by_text_add(text, "}");
  by_text_add(text, ", \"unsent\": %llu, \"expired\": %llu", (unsigned long long)counts.unsent,
              (unsigned long long)counts.expired);
}

static void send_status(const struct session *session, enum by_lease_operation operation) {
  const struct by_switch_control *control = session->control;
  const struct by_plane *plane = control->options.plane;
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "{\"done\": \"%s\", \"version\": \"%s\", \"kind\": \"%s\", \"seconds\": %.1f",
              by_lease_operation_name(operation), BANYAN_VERSION, plane->ops->name,
              by_clock_to_seconds(by_loop_now(control->options.loop) - control->started));
  if (operation == BY_LEASE_STATUS) {
    by_leases_print(control->leases, &text);
    print_counts(plane, &text);
  }
  by_text_add(&text, "}");
  reply_text(session, &text);
  by_text_fini(&text);
}

static void refuse_line(struct session *session) {
  struct by_lease_reply what = {.operation = BY_LEASE_OPERATIONS};
  by_keep_printable(banyan_error_text(), what.text, sizeof what.text);
  reply(session, &what);
}

static void log_rejected(struct session *session, const char *why) {
  struct by_switch_control *control = session->control;
  by_repeats_warn(&control->rejected, "switch", by_stream_get_name(session->stream), why,
                  by_clock_to_seconds(by_loop_now(control->options.loop)));
}

/* From now on it is not closed to make room for others. False: there is no room for another known session. */
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

static void take_line(void *context, uint16_t type, const void *line, size_t length) {
  struct session *session = context;
  struct by_lease_request request;
  if (by_lease_read_request(line, length, &request) != BANYAN_OK)
    refuse_line(session);
  else if (!become_known(session))
    return;
  else if (request.operation == BY_LEASE_GRANT)
    by_leases_grant(session->control->leases, &request, session);
  else if (request.operation == BY_LEASE_REVOKE)
    by_leases_revoke(session->control->leases, &request, session);
  else
    send_status(session, request.operation);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  (void)become_known(context);
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct session *session = context;
  if (session->known)
    by_info("switch", "control: %s", reason);
  else
    log_rejected(session, reason);
  end_session(session);
}

static void is_late(void *context) {
  struct session *session = context;
  log_rejected(session, "it made no request in time, or was closed to make room for others");
  end_session(session);
}

static void evicted(void *context) {
  struct session *session = context;
  by_loop_set_delay(session->control->options.loop, &session->late, 0);
}

/* ---- connections */

static enum banyan_status begin_session(struct listener *listener, int fd, struct session *session) {
  struct by_switch_control *control = listener->control;
  struct by_handshake_options handshake = {
      .role = BY_ROLE_SERVER, .purpose = BY_LEASE_PURPOSE, .key = &control->key, .hello = ""};
  bool proves = control->options.key && !listener->is_local;
  struct by_stream_options options = {.loop = control->options.loop,
                                      .fd = fd,
                                      .handshake = proves ? &handshake : NULL,
                                      .admission = &control->admission,
                                      .quiet = true,
                                      .most_frame = BY_LEASE_REPLY,
                                      .most_line = BY_LEASE_LINE,
                                      .most_queued = 2 * BY_LEASE_REPLY,
                                      .opened = opened,
                                      .frame = take_line,
                                      .ended = ended,
                                      .context = session};
  if (!listener->is_local && by_socket_set_keepalive(fd, 10, 5, 3) != BANYAN_OK)
    by_info("switch", "%s", banyan_error_text());
  BY_TRY(by_stream_create(&options, &session->stream));
  session->control = control;
  session->next = control->sessions;
  control->sessions = session;
  session->admission = (struct by_admission_entry){.evicted = evicted, .context = session};
  by_timer_init(&session->late, is_late, session);
  if (proves) return BANYAN_OK;
  by_loop_set_delay(control->options.loop, &session->late, first_request_in);
  by_admission_enter(&control->admission, &session->admission, fd);
  return BANYAN_OK;
}

static void accepted(void *context, int fd) {
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

static enum banyan_status add_listener(struct by_switch_control *control, int fd, bool is_local) {
  struct listener *listener = &control->listeners[control->n_listeners];
  *listener = (struct listener){.control = control, .is_local = is_local};
  BY_TRY(by_acceptor_create(control->options.loop, fd, accepted, listener, &listener->acceptor));
  control->n_listeners++;
  return BANYAN_OK;
}

static enum banyan_status check_room(const struct by_switch_control *control) {
  if (control->n_listeners < LISTENERS) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "switch: listens at %d places at most", LISTENERS);
}

enum banyan_status by_switch_control_listen_at(struct by_switch_control *control, const char *path) {
  struct by_path_socket place = {.path = path, .who = "switch", .option = "--control PATH", .mode = 0600};
  int fd;
  BY_TRY(check_room(control));
  BY_TRY(by_path_socket_listen(&place, &fd));
  struct listener *listener = &control->listeners[control->n_listeners];
  BY_TRY(add_listener(control, fd, true));
  snprintf(listener->path, sizeof listener->path, "%s", path);
  return BANYAN_OK;
}

enum banyan_status by_switch_control_listen(struct by_switch_control *control, const struct by_address *address) {
  struct by_address bound;
  char text[BY_ADDRESS_TEXT];
  int fd;
  BY_TRY(check_room(control));
  if (!control->options.key && !by_address_is_loopback(address))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "switch: anybody could take cells at %s: name the secret that jobs have too, with --secret-file or "
                   "BANYAN_SWITCH_KEY",
                   by_address_print(address, text));
  BY_TRY(by_socket_listen(address, (struct by_port_range){0, 0}, &fd, &bound));
  return add_listener(control, fd, false);
}

/* ---- all */

enum banyan_status by_switch_control_create(const struct by_switch_control_options *options,
                                            struct by_switch_control **out) {
  struct by_switch_control *control = calloc(1, sizeof *control);
  struct by_leases_options leases = {.loop = options->loop,
                                     .plane = options->plane,
                                     .cells = options->cells,
                                     .n_ports = options->n_ports,
                                     .ports = options->ports,
                                     .answer = reply};
  *out = NULL;
  if (!control) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  control->options = *options;
  control->started = by_loop_now(options->loop);
  by_admission_init(&control->admission, UNKNOWN);
  if (options->key) control->key = *options->key;
  enum banyan_status status = by_leases_create(&leases, &control->leases);
  if (status == BANYAN_OK)
    *out = control;
  else
    free(control);
  return status;
}

void by_switch_control_destroy(struct by_switch_control *control) {
  if (!control) return;
  for (struct session *session = control->sessions, *next; session; session = next) {
    next = session->next;
    end_session(session);
  }
  for (unsigned i = 0; i < control->n_listeners; i++) {
    by_acceptor_destroy(control->listeners[i].acceptor);
    if (control->listeners[i].is_local) unlink(control->listeners[i].path);
  }
  by_repeats_flush(&control->rejected, "switch", INFINITY);
  by_leases_destroy(control->leases);
  explicit_bzero(&control->key, sizeof control->key);
  free(control);
}
