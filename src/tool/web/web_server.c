#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "socket.h"
#include "web_parts.h"

enum {
  MOST_CONNECTIONS = 128,
  CLOSING = 32,      /* that were closed to make room, and of which libmicrohttpd has not heard yet */
  MOST_HEAD = 16384, /* bytes of memory for a connection: its request's line and headers fit, or it is refused */
};

/* --- libmicrohttpd on the loop --- */

/* All that is ready; then again when libmicrohttpd wants to be called for what no descriptor tells: it does not say so
 * when a connection has gone, but only looks for those that wait for room when it is called. */
static void run(void *context) {
  struct by_web *web = context;
  MHD_UNSIGNED_LONG_LONG milliseconds;
  web->has_room = false;
  if (web->mhd.MHD_run(web->daemon) != MHD_YES) by_warn("web", "the page's server failed once");
  if (web->has_room)
    by_loop_set_delay(web->options.loop, &web->timer, 0);
  else if (web->mhd.MHD_get_timeout(web->daemon, &milliseconds) == MHD_YES)
    by_loop_set_delay(web->options.loop, &web->timer, milliseconds * BY_MILLISECOND);
  else
    by_loop_cancel_timer(&web->timer);
}

static void ready(void *context, uint32_t events) {
  run(context);
}

__attribute__((format(printf, 2, 0))) static void log_text(void *context, const char *format, va_list arguments) {
  char line[256];
  vsnprintf(line, sizeof line, format, arguments);
  line[strcspn(line, "\n")] = '\0';
  by_debug("web", "%s", line);
}

/* --- connections --- */

/* libmicrohttpd hears of it as if the peer had closed. */
static void end_visit(void *context) {
  const struct by_web_visitor *visitor = context;
  shutdown(visitor->fd, SHUT_RDWR);
}

/* Not at once: libmicrohttpd is in the middle of accepting another connection. */
static void evicted(void *context) {
  struct by_web_visitor *visitor = context;
  by_loop_set_delay(visitor->web->options.loop, &visitor->end, 0);
}

static void begin_visit(struct by_web *web, int fd, void **of_connection) {
  struct by_web_visitor *visitor = calloc(1, sizeof *visitor);
  *of_connection = visitor;
  if (!visitor) {
    shutdown(fd, SHUT_RDWR);
    return;
  }
  *visitor = (struct by_web_visitor){.web = web, .fd = fd, .came = by_loop_now(web->options.loop)};
  visitor->admission = (struct by_admission_entry){.evicted = evicted, .context = visitor};
  by_timer_init(&visitor->end, end_visit, visitor);
  by_loop_set_delay(web->options.loop, &visitor->end, BY_WEB_MOST_AGE);
  by_admission_enter(&web->admission, &visitor->admission, fd);
}

static void visited(void *context, struct MHD_Connection *connection, void **of_connection,
                    enum MHD_ConnectionNotificationCode code) {
  struct by_web *web = context;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    begin_visit(web, web->mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                of_connection);
    return;
  }
  struct by_web_visitor *visitor = *of_connection;
  web->has_room = true;
  if (visitor) {
    by_loop_cancel_timer(&visitor->end);
    by_admission_leave(&visitor->admission);
  }
  free(visitor);
}

/* --- made and gone --- */

static enum banyan_status start(struct by_web *web, int listener) {
  const struct by_web_options *o = &web->options;
  struct MHD_OptionItem with_tls[] = {
      {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->key},
      {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->certificate},
      {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
      {MHD_OPTION_END, 0, NULL},
  };
  unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | (o->key ? MHD_USE_TLS : 0);
  errno = 0;
  web->daemon = web->mhd.MHD_start_daemon(
      flags, 0, NULL, NULL, by_web_answer, web, MHD_OPTION_EXTERNAL_LOGGER, log_text, web, MHD_OPTION_LISTEN_SOCKET,
      listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(web->admission.most + CLOSING),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MOST_HEAD, MHD_OPTION_NOTIFY_CONNECTION, visited, web,
      MHD_OPTION_ARRAY, o->key ? with_tls : &with_tls[3], MHD_OPTION_END);
  if (web->daemon) return BANYAN_OK;
  close(listener);
  return o->key ? by_fail(BANYAN_ERR_ARGUMENT, "the page's server does not start: do its key and certificate belong "
                                               "together, and are both PEM? (BANYAN_LOG=web:debug says more)")
                : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the page's server does not start");
}

static enum banyan_status serve_at(struct by_web *web, int listener) {
  BY_TRY(start(web, listener));
  int epoll = web->mhd.MHD_get_daemon_info(web->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  return by_loop_watch(web->options.loop, epoll, EPOLLIN, ready, web, &web->watch);
}

static enum banyan_status open_server(struct by_web *web) {
  int listener;
  BY_TRY(by_microhttpd_load(&web->mhd));
  BY_TRY(by_socket_listen(&web->options.at, (struct by_port_range){0}, &listener, &web->bound));
  return serve_at(web, listener);
}

static void stop(struct by_web *web) {
  by_loop_unwatch(web->watch);
  by_loop_cancel_timer(&web->timer);
  if (web->daemon) web->mhd.MHD_stop_daemon(web->daemon);
  web->watch = NULL;
  web->daemon = NULL;
}

enum banyan_status by_web_create(const struct by_web_options *options, struct by_web **out) {
  struct by_web *web = calloc(1, sizeof *web);
  if (!web) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the page's server");
  web->options = *options;
  web->token = *options->token;
  by_admission_init(&web->admission, MOST_CONNECTIONS);
  by_timer_init(&web->timer, run, web);
  enum banyan_status status = open_server(web);
  if (status != BANYAN_OK) {
    by_web_destroy(web);
    return status;
  }
  *out = web;
  return BANYAN_OK;
}

/* libmicrohttpd closes the socket that it listens at: each attempt has a copy. */
static enum banyan_status serve_with(struct by_web *web, int listener, const char *certificate, const char *key) {
  int copy = fcntl(listener, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the page's server does not start again");
  stop(web);
  web->options.certificate = certificate;
  web->options.key = key;
  return serve_at(web, copy);
}

enum banyan_status by_web_renew(struct by_web *web, const char *certificate, const char *key) {
  const struct by_web_options before = web->options;
  char why[256];
  if (!web->daemon) return by_fail(BANYAN_ERR_CLOSED, "the page's server has stopped");
  int listener = web->mhd.MHD_get_daemon_info(web->daemon, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd;
  listener = fcntl(listener, F_DUPFD_CLOEXEC, 0);
  if (listener < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the page's server does not start again");
  enum banyan_status status = serve_with(web, listener, certificate, key);
  if (status != BANYAN_OK) {
    snprintf(why, sizeof why, "%s", banyan_error_text());
    if (serve_with(web, listener, before.certificate, before.key) != BANYAN_OK)
      by_error("web", "the page's server has stopped: %s", banyan_error_text());
    (void)by_fail(status, "%s", why);
  }
  close(listener);
  return status;
}

void by_web_destroy(struct by_web *web) {
  if (!web) return;
  stop(web);
  for (size_t i = 0; i < web->options.n_routes; i++) by_text_fini(&web->kept[i].text);
  explicit_bzero(&web->token, sizeof web->token);
  free(web);
}

const struct by_address *by_web_get_address(const struct by_web *web) {
  return &web->bound;
}
