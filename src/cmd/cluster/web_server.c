/* Serves texts and the page over HTTP with libmicrohttpd, on a loop. */
#include "web_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>
#include <openssl/crypto.h>

#include "acceptor.h"
#include "file.h"
#include "handshake.h"
#include "library.h"
#include "log.h"
#include "socket.h"

/* ---- the token */

static const char token_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-";

/* Parses a token; `text` is wiped. */
static enum banyan_status parse_token(const char *path, char *text, size_t read, struct by_token *out) {
  size_t length = read;
  while (length && strchr(" \r\n", text[length - 1])) length--;
  *out = (struct by_token){0};
  if (length <= BY_TOKEN_MAX) memcpy(out->text, text, length);
  explicit_bzero(text, read);
  if (length >= BY_TOKEN_MIN && strspn(out->text, token_letters) == length) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "%s: must hold a token of %d to %d letters, digits and \"_.~-\"; `openssl rand -hex 32` makes one",
                 path, BY_TOKEN_MIN, BY_TOKEN_MAX);
}

enum banyan_status by_token_read(const char *path, struct by_token *out) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("token file", path, BY_TOKEN_MAX + 2, &text, &length));
  enum banyan_status status = parse_token(path, text, length, out);
  free(text);
  return status;
}

static enum banyan_status write_token(const char *path, int fd) {
  char line[BY_KEY_TEXT];
  BY_TRY(by_key_random(line));
  line[sizeof line - 1] = '\n';
  ssize_t written = write(fd, line, sizeof line);
  int why = errno;
  explicit_bzero(line, sizeof line);
  if (written == sizeof line) return BANYAN_OK;
  unlink(path);
  return by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write token file %s", path);
}

enum banyan_status by_token_read_or_make(const char *path, struct by_token *out) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    enum banyan_status status = write_token(path, fd);
    close(fd);
    BY_TRY(status);
  } else if (errno != EEXIST) {
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make token file %s (--token-file)", path);
  }
  char text[BY_TOKEN_MAX + 4];
  size_t length;
  enum banyan_status status = by_secret_file_read(path, text, sizeof text, &length);
  if (status == BANYAN_OK) return parse_token(path, text, length, out);
  explicit_bzero(text, sizeof text);
  return by_fail_within(status, "token file %s (--token-file)", path);
}

/* Compares in constant time. `given` may be NULL. */
static bool is_token(const struct by_token *token, const char *given) {
  char padded[sizeof token->text] = {0};
  size_t length = given ? strnlen(given, sizeof padded) : 0;
  if (length < BY_TOKEN_MIN || length >= sizeof padded) return false;
  memcpy(padded, given, length);
  return CRYPTO_memcmp(padded, token->text, sizeof padded) == 0;
}

/* ---- the server */

/* Functions of libmicrohttpd, which is loaded when a server is made: the command also runs on hosts without it. */
#define BY_MICROHTTPD(each)                                                                                            \
  each(MHD_add_response_header) each(MHD_create_response_from_buffer) each(MHD_destroy_response)                       \
      each(MHD_get_connection_info) each(MHD_get_daemon_info) each(MHD_get_timeout) each(MHD_lookup_connection_value)  \
          each(MHD_queue_response) each(MHD_run) each(MHD_start_daemon) each(MHD_stop_daemon)

/* Its functions, by their names. */
struct by_microhttpd {
  BY_MICROHTTPD(BY_LIBRARY_MEMBER)
};

/* The last text of a route. */
struct by_web_kept {
  struct by_text text;
  unsigned status; /* 0: none yet. */
  uint64_t made;
};

struct by_web {
  struct by_microhttpd mhd;
  struct by_web_options options;
  struct by_token token;
  struct by_address bound;
  struct MHD_Daemon *daemon;
  struct by_watch *watch;
  struct by_timer timer;
  struct by_admission admission; /* Limits connections; one that has made a request counts as known. */
  bool has_capacity;             /* A connection has ended since libmicrohttpd was called. */
  struct by_web_kept kept[BY_WEB_MAX_ROUTES];
};

/* A connection; libmicrohttpd stores the pointer. */
struct by_web_client {
  struct by_web *web;
  struct by_admission_entry admission;
  struct by_timer end;
  int fd;
  uint64_t came;
};

#define COOKIE "banyan_token"

struct answer {
  unsigned status;
  const char *type;
  const void *body; /* A constant, or copied. */
  size_t length;
  bool copied;
  const char *name, *value;       /* An additional header; NULL: none. */
  char cookie[BY_TOKEN_MAX + 96]; /* "": none. */
};

struct file {
  const char *path, *type;
  bool open; /* For everybody: the request for the token itself needs none. */
  const unsigned char *bytes;
  const size_t *length;
};

#define FILE_OF(name) by_##name, &by_##name##_bytes

static const struct file files[] = {
    {"/", "text/html; charset=utf-8", false, FILE_OF(page_index)},
    {"/banyan.css", "text/css; charset=utf-8", true, FILE_OF(page_style)},
    {"/icon.svg", "image/svg+xml", true, FILE_OF(page_icon)},
    {"/main.js", "text/javascript; charset=utf-8", false, FILE_OF(page_main)},
    {"/topology.js", "text/javascript; charset=utf-8", false, FILE_OF(page_topology)},
    {"/tables.js", "text/javascript; charset=utf-8", false, FILE_OF(page_tables)},
    {"/units.js", "text/javascript; charset=utf-8", false, FILE_OF(page_units)},
};

/* Headers that forbid the page to load anything from others, and others to embed it. */
static const struct {
  const char *name, *value;
} guards[] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                                "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

static struct by_web_client *find_client(struct by_web *web, struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      web->mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static enum MHD_Result send_answer(struct by_web *web, struct MHD_Connection *connection, const struct answer *a) {
  const struct by_microhttpd *mhd = &web->mhd;
  struct MHD_Response *response = mhd->MHD_create_response_from_buffer(
      a->length, (void *)a->body, a->copied ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
  if (!response) return MHD_NO;
  bool well = mhd->MHD_add_response_header(response, "Content-Type", a->type) == MHD_YES;
  for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
    well = well && mhd->MHD_add_response_header(response, guards[i].name, guards[i].value) == MHD_YES;
  if (a->name) well = well && mhd->MHD_add_response_header(response, a->name, a->value) == MHD_YES;
  if (*a->cookie) well = well && mhd->MHD_add_response_header(response, "Set-Cookie", a->cookie) == MHD_YES;
  const struct by_web_client *client = find_client(web, connection);
  bool old = client && by_loop_now(web->options.loop) - client->came > BY_WEB_MAX_AGE / 2;
  if (old) well = well && mhd->MHD_add_response_header(response, "Connection", "close") == MHD_YES;
  enum MHD_Result result = well ? mhd->MHD_queue_response(connection, a->status, response) : MHD_NO;
  mhd->MHD_destroy_response(response);
  return result;
}

static struct answer short_answer(unsigned status, const char *text, const char *name, const char *value) {
  return (struct answer){.status = status,
                         .type = "text/plain; charset=utf-8",
                         .body = text,
                         .length = strlen(text),
                         .name = name,
                         .value = value};
}

/* --- the token --- */

static const char *value_of(struct by_web *web, struct MHD_Connection *connection, enum MHD_ValueKind kind,
                            const char *name) {
  return web->mhd.MHD_lookup_connection_value(connection, kind, name);
}

static bool is_allowed(struct by_web *web, struct MHD_Connection *connection) {
  static const char scheme[] = "Bearer ";
  const char *header = value_of(web, connection, MHD_HEADER_KIND, "Authorization");
  if (header && !strncasecmp(header, scheme, sizeof scheme - 1))
    return is_token(&web->token, header + sizeof scheme - 1);
  return is_token(&web->token, value_of(web, connection, MHD_COOKIE_KIND, COOKIE));
}

/* Moves the token from the address, where others may read it, into a cookie. Lax, so that a link in a mail works. */
static struct answer set_cookie(const struct by_web *web) {
  struct answer a = short_answer(MHD_HTTP_SEE_OTHER, "see /\n", "Location", "/");
  snprintf(a.cookie, sizeof a.cookie, COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000%s", web->token.text,
           web->options.key ? "; Secure" : "");
  return a;
}

static struct answer deny_access(bool to_person) {
  struct answer a = short_answer(MHD_HTTP_UNAUTHORIZED,
                                 "this needs the token: \"Authorization: Bearer TOKEN\", or /?token=TOKEN once\n",
                                 "WWW-Authenticate", "Bearer realm=\"banyan\"");
  if (!to_person) return a;
  a.type = "text/html; charset=utf-8";
  a.body = by_page_denied;
  a.length = by_page_denied_bytes;
  return a;
}

/* --- routes --- */

static struct answer print_route(struct by_web *web, size_t i) {
  const struct by_web_route *route = &web->options.routes[i];
  struct by_web_kept *kept = &web->kept[i];
  uint64_t now = by_loop_now(web->options.loop);
  if (!kept->status || now - kept->made >= BY_WEB_FRESH) {
    by_text_fini(&kept->text);
    kept->status = route->print(route->context, &kept->text);
    kept->made = now;
  }
  if (kept->text.failed) return short_answer(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n", NULL, NULL);
  return (struct answer){.status = kept->status,
                         .type = route->type,
                         .body = by_text_get(&kept->text),
                         .length = kept->text.length,
                         .copied = true};
}

static struct answer find_answer(struct by_web *web, struct MHD_Connection *connection, const char *path) {
  bool to_page = !strcmp(path, "/"), allowed = is_allowed(web, connection);
  if (to_page && is_token(&web->token, value_of(web, connection, MHD_GET_ARGUMENT_KIND, "token")))
    return set_cookie(web);
  for (size_t i = 0; i < web->options.n_routes; i++)
    if (!strcmp(web->options.routes[i].path, path))
      return allowed || web->options.routes[i].open ? print_route(web, i) : deny_access(false);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (strcmp(files[i].path, path) != 0) continue;
    if (!allowed && !files[i].open) return deny_access(to_page);
    return (struct answer){
        .status = MHD_HTTP_OK, .type = files[i].type, .body = files[i].bytes, .length = *files[i].length};
  }
  return short_answer(MHD_HTTP_NOT_FOUND, "there is nothing here; see /\n", NULL, NULL);
}

/* Called twice for a request. An answer in the first call ends its connection without reading the body: right for
 * requests with one, but others must keep their connections. */
static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *upload, size_t *upload_size,
                                      void **of_request) {
  struct by_web *web = context;
  struct by_web_client *client = find_client(web, connection);
  struct answer a;
  if (client) by_admission_greeted(&client->admission);
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
    a = short_answer(MHD_HTTP_METHOD_NOT_ALLOWED, "nothing can be changed here\n", "Allow", "GET, HEAD");
  } else if (*of_request || value_of(web, connection, MHD_HEADER_KIND, "Content-Length") ||
             value_of(web, connection, MHD_HEADER_KIND, "Transfer-Encoding")) {
    a = find_answer(web, connection, url);
  } else {
    *of_request = web;
    return MHD_YES;
  }
  return send_answer(web, connection, &a);
}

enum {
  MAX_CONNECTIONS = 128,
  CLOSING = 32,     /* Connections that were closed in favour of others, which libmicrohttpd does not know yet. */
  MAX_HEAD = 16384, /* Bytes of memory for a connection: its request line and headers must fit. */
};

/* --- libmicrohttpd on the loop --- */

/* Handles everything that is ready, and is called again if libmicrohttpd asks for it without a ready descriptor.
 * libmicrohttpd does not report that a connection has ended, but admits waiting ones whenever it is called. */
static void run_server(void *context) {
  struct by_web *web = context;
  MHD_UNSIGNED_LONG_LONG milliseconds;
  web->has_capacity = false;
  if (web->mhd.MHD_run(web->daemon) != MHD_YES) by_warn("web", "the page's server failed once");
  if (web->has_capacity)
    by_loop_set_delay(web->options.loop, &web->timer, 0);
  else if (web->mhd.MHD_get_timeout(web->daemon, &milliseconds) == MHD_YES)
    by_loop_set_delay(web->options.loop, &web->timer, milliseconds * BY_MILLISECOND);
  else
    by_loop_cancel_timer(&web->timer);
}

static void handle_ready(void *context, uint32_t events) {
  run_server(context);
}

__attribute__((format(printf, 2, 0))) static void log_text(void *context, const char *format, va_list arguments) {
  char line[256];
  vsnprintf(line, sizeof line, format, arguments);
  line[strcspn(line, "\n")] = '\0';
  by_debug("web", "%s", line);
}

/* --- connections --- */

/* Ends a connection as if the peer had closed it. */
static void end_visit(void *context) {
  const struct by_web_client *client = context;
  shutdown(client->fd, SHUT_RDWR);
}

/* Deferred, since libmicrohttpd is accepting another connection. */
static void handle_evicted(void *context) {
  struct by_web_client *client = context;
  by_loop_set_delay(client->web->options.loop, &client->end, 0);
}

static void begin_visit(struct by_web *web, int fd, void **of_connection) {
  struct by_web_client *client = calloc(1, sizeof *client);
  *of_connection = client;
  if (!client) {
    shutdown(fd, SHUT_RDWR);
    return;
  }
  *client = (struct by_web_client){.web = web, .fd = fd, .came = by_loop_now(web->options.loop)};
  client->admission = (struct by_admission_entry){.evicted = handle_evicted, .context = client};
  by_timer_init(&client->end, end_visit, client);
  by_loop_set_delay(web->options.loop, &client->end, BY_WEB_MAX_AGE);
  by_admission_enter(&web->admission, &client->admission, fd);
}

static void handle_visit(void *context, struct MHD_Connection *connection, void **of_connection,
                         enum MHD_ConnectionNotificationCode code) {
  struct by_web *web = context;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    begin_visit(web, web->mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                of_connection);
    return;
  }
  struct by_web_client *client = *of_connection;
  web->has_capacity = true;
  if (client) {
    by_loop_cancel_timer(&client->end);
    by_admission_leave(&client->admission);
  }
  free(client);
}

/* --- create and destroy --- */

static enum banyan_status start_server(struct by_web *web, int listener) {
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
      flags, 0, NULL, NULL, answer_request, web, MHD_OPTION_EXTERNAL_LOGGER, log_text, web, MHD_OPTION_LISTEN_SOCKET,
      listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(web->admission.max + CLOSING),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_HEAD, MHD_OPTION_NOTIFY_CONNECTION, handle_visit, web,
      MHD_OPTION_ARRAY, o->key ? with_tls : &with_tls[3], MHD_OPTION_END);
  if (web->daemon) return BANYAN_OK;
  close(listener);
  return o->key ? by_fail(BANYAN_ERR_ARGUMENT, "the page's server does not start: do its key and certificate belong "
                                               "together, and are both PEM? (BANYAN_LOG=web:debug prints more)")
                : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the page's server does not start");
}

static enum banyan_status serve_at(struct by_web *web, int listener) {
  BY_TRY(start_server(web, listener));
  int epoll = web->mhd.MHD_get_daemon_info(web->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  return by_loop_watch(web->options.loop, epoll, EPOLLIN, handle_ready, web, &web->watch);
}

static void stop_server(struct by_web *web) {
  by_loop_unwatch(web->watch);
  by_loop_cancel_timer(&web->timer);
  if (web->daemon) web->mhd.MHD_stop_daemon(web->daemon);
  web->watch = NULL;
  web->daemon = NULL;
}

/* Opens a listener whose port is not blocked by connections that have ended. */
static enum banyan_status open_listener(struct by_web *web, int *out) {
  const struct by_web_options *o = &web->options;
  if (!o->listener) return by_socket_listen(&o->at, (struct by_port_range){0}, out, &web->bound);
  BY_TRY(by_socket_get_local(o->listener, &web->bound));
  *out = fcntl(o->listener, F_DUPFD_CLOEXEC, 0);
  if (*out >= 0 && !fcntl(*out, F_SETFL, fcntl(*out, F_GETFL) | O_NONBLOCK)) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot use descriptor %d as the page's socket", o->listener);
}

enum banyan_status by_web_create(const struct by_web_options *options, struct by_web **out) {
  static const char *const names[] = {BY_MICROHTTPD(BY_LIBRARY_NAME)};
  struct by_web *web = calloc(1, sizeof *web);
  int listener;
  if (!web) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the page's server");
  web->options = *options;
  web->token = *options->token;
  by_admission_init(&web->admission, MAX_CONNECTIONS);
  by_timer_init(&web->timer, run_server, web);
  enum banyan_status status = by_library_load("the page", "libmicrohttpd.so.12", "libmicrohttpd12", names,
                                              sizeof names / sizeof *names, &web->mhd);
  if (status == BANYAN_OK) status = open_listener(web, &listener);
  if (status == BANYAN_OK) status = serve_at(web, listener);
  if (status == BANYAN_OK)
    *out = web;
  else
    by_web_destroy(web);
  return status;
}

/* Each attempt gets a copy of the socket, since libmicrohttpd closes the one on which it listens. */
static enum banyan_status serve_with(struct by_web *web, int listener, const char *certificate, const char *key) {
  int copy = fcntl(listener, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the page's server does not start again");
  stop_server(web);
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
  stop_server(web);
  for (size_t i = 0; i < web->options.n_routes; i++) by_text_fini(&web->kept[i].text);
  explicit_bzero(&web->token, sizeof web->token);
  free(web);
}

const struct by_address *by_web_get_address(const struct by_web *web) {
  return &web->bound;
}
