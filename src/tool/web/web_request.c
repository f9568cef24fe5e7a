/* Who may see what. Only GET and HEAD, no bodies, exact paths. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "page.h"
#include "web_parts.h"

#define COOKIE "banyan_token"

struct answer {
  unsigned status;
  const char *type;
  const void *body; /* constant, or copied */
  size_t length;
  bool copied;
  const char *name, *value; /* one header more; NULL: none */
  const char *cookie;       /* NULL: none */
};

struct file {
  const char *path, *type;
  bool open; /* to everybody: what asks for the token needs it */
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

/* What the page needs of others, which is nothing: no script but its own, no frame around it. */
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

static struct by_web_visitor *find_visitor(struct by_web *web, struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      web->mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static bool is_old(struct by_web *web, struct MHD_Connection *connection) {
  const struct by_web_visitor *visitor = find_visitor(web, connection);
  return visitor && by_loop_now(web->options.loop) - visitor->came > BY_WEB_MOST_AGE / 2;
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
  if (a->cookie) well = well && mhd->MHD_add_response_header(response, "Set-Cookie", a->cookie) == MHD_YES;
  if (is_old(web, connection)) well = well && mhd->MHD_add_response_header(response, "Connection", "close") == MHD_YES;
  enum MHD_Result result = well ? mhd->MHD_queue_response(connection, a->status, response) : MHD_NO;
  mhd->MHD_destroy_response(response);
  return result;
}

static struct answer short_answer(unsigned status, const char *text) {
  return (struct answer){.status = status, .type = "text/plain; charset=utf-8", .body = text, .length = strlen(text)};
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
    return by_token_is(&web->token, header + sizeof scheme - 1);
  return by_token_is(&web->token, value_of(web, connection, MHD_COOKIE_KIND, COOKIE));
}

/* The token moves from the address, where others may read it, into a cookie. Lax: so that a link in a mail works. */
static enum MHD_Result let_in(struct by_web *web, struct MHD_Connection *connection) {
  char cookie[BY_TOKEN_MOST + 96];
  snprintf(cookie, sizeof cookie, COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000%s", web->token.text,
           web->options.key ? "; Secure" : "");
  struct answer a = short_answer(MHD_HTTP_SEE_OTHER, "see /\n");
  a.name = "Location";
  a.value = "/";
  a.cookie = cookie;
  return send_answer(web, connection, &a);
}

static enum MHD_Result deny(struct by_web *web, struct MHD_Connection *connection, bool to_person) {
  struct answer a = short_answer(MHD_HTTP_UNAUTHORIZED,
                                 "this needs the token: \"Authorization: Bearer TOKEN\", or /?token=TOKEN once\n");
  if (to_person) {
    a.type = "text/html; charset=utf-8";
    a.body = by_page_denied;
    a.length = by_page_denied_bytes;
  }
  a.name = "WWW-Authenticate";
  a.value = "Bearer realm=\"banyan\"";
  return send_answer(web, connection, &a);
}

/* --- what there is --- */

static const struct file *find_file(const char *path) {
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (!strcmp(files[i].path, path)) return &files[i];
  return NULL;
}

static enum MHD_Result send_file(struct by_web *web, struct MHD_Connection *connection, const struct file *file) {
  return send_answer(
      web, connection,
      &(struct answer){.status = MHD_HTTP_OK, .type = file->type, .body = file->bytes, .length = *file->length});
}

static void print_again(struct by_web *web, const struct by_web_route *route, struct by_web_kept *kept) {
  uint64_t now = by_loop_now(web->options.loop);
  if (kept->status && now - kept->made < BY_WEB_FRESH) return;
  by_text_fini(&kept->text);
  by_text_init(&kept->text);
  kept->status = route->print(route->context, &kept->text);
  kept->made = now;
}

static enum MHD_Result send_route(struct by_web *web, struct MHD_Connection *connection, size_t i) {
  const struct by_web_route *route = &web->options.routes[i];
  struct by_web_kept *kept = &web->kept[i];
  print_again(web, route, kept);
  struct answer a = short_answer(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
  if (!kept->text.failed)
    a = (struct answer){.status = kept->status,
                        .type = route->type,
                        .body = by_text_get(&kept->text),
                        .length = kept->text.length,
                        .copied = true};
  return send_answer(web, connection, &a);
}

static enum MHD_Result find(struct by_web *web, struct MHD_Connection *connection, const char *path) {
  for (size_t i = 0; i < web->options.n_routes; i++) {
    if (strcmp(web->options.routes[i].path, path) != 0) continue;
    if (!web->options.routes[i].open && !is_allowed(web, connection)) return deny(web, connection, false);
    return send_route(web, connection, i);
  }
  const struct file *file = find_file(path);
  struct answer none = short_answer(MHD_HTTP_NOT_FOUND, "there is nothing here; see /\n");
  if (!file) return send_answer(web, connection, &none);
  return file->open || is_allowed(web, connection) ? send_file(web, connection, file)
                                                   : deny(web, connection, file == files);
}

static enum MHD_Result answer(struct by_web *web, struct MHD_Connection *connection, const char *url) {
  bool to_page = !strcmp(url, "/");
  if (to_page && by_token_is(&web->token, value_of(web, connection, MHD_GET_ARGUMENT_KIND, "token")))
    return let_in(web, connection);
  return find(web, connection, url);
}

static enum MHD_Result refuse(struct by_web *web, struct MHD_Connection *connection) {
  struct answer a = short_answer(MHD_HTTP_METHOD_NOT_ALLOWED, "nothing can be changed here\n");
  a.name = "Allow";
  a.value = "GET, HEAD";
  return send_answer(web, connection, &a);
}

static bool has_body(struct by_web *web, struct MHD_Connection *connection) {
  return value_of(web, connection, MHD_HEADER_KIND, "Content-Length") ||
         value_of(web, connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

/* Called twice for a request. What is answered in the first call ends its connection unread: right for those with a
 * body, but others shall keep theirs. */
enum MHD_Result by_web_answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **of_request) {
  struct by_web *web = context;
  struct by_web_visitor *visitor = find_visitor(web, connection);
  if (visitor) by_admission_greeted(&visitor->admission);
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return refuse(web, connection);
  if (*of_request || has_body(web, connection)) return answer(web, connection, url);
  *of_request = web;
  return MHD_YES;
}
