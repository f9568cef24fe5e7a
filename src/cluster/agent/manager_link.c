#include "manager_link.h"

#include <stdlib.h>

#include "cluster_message.h"
#include "resolve.h"
#include "socket.h"
#include "stream.h"
#include "tls_watch.h"

static const uint64_t patience = 5 * BY_SECOND;
static const uint64_t look_again = 20 * BY_MILLISECOND; /* whether a name has been found */

enum { SILENT_MS = 15000, /* sent data that nobody acknowledges */ QUEUED = 8 * BY_CLUSTER_LINE_UP };

struct by_manager_link {
  struct by_manager_link_options options;
  struct by_resolving *resolving;
  unsigned tries; /* of its addresses, in turn */
  struct by_timer look;
  uint64_t give_up_at; /* looking the name up */
  struct by_stream *stream;
  struct by_tls_watch *keys;
  int64_t shown;         /* the end of the certificate that the stream was begun with */
  struct by_timer judge; /* the stream, after the files have changed */
};

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct by_manager_link *link = context;
  (void)purpose;
  (void)hello;
  (void)length;
  link->options.came(link->options.context);
}

static void heard(void *context, uint16_t type, const void *line, size_t length) {
  struct by_manager_link *link = context;
  (void)type;
  link->options.heard(link->options.context, line, length);
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct by_manager_link *link = context;
  (void)status;
  link->options.gone(link->options.context, reason);
}

/* Not at once: whoever has files read again may be the owner. */
static void keys_changed(void *context) {
  struct by_manager_link *link = context;
  by_loop_set_delay(link->options.loop, &link->judge, 0);
}

static enum banyan_status judge_stream(struct by_manager_link *link) {
  const struct by_tls_identity *identity = by_tls_watch_get(link->keys);
  if (by_tls_identity_who(identity)->expires != link->shown || !by_stream_get_who(link->stream))
    return by_fail(BANYAN_ERR_CLOSED, "there is a new certificate, and another connection is made with it");
  return by_stream_judge_again(link->stream, identity);
}

static void judge(void *context) {
  struct by_manager_link *link = context;
  if (link->stream && judge_stream(link) != BANYAN_OK) link->options.gone(link->options.context, banyan_error_text());
}

/* A manager whose host vanished is noticed too. */
static enum banyan_status connect_to(struct by_manager_link *link, const struct by_address *address) {
  const struct by_tls_identity *identity = by_tls_watch_get(link->keys);
  struct by_tls_options tls = {.identity = identity, .peers = BY_TLS_MANAGER};
  struct by_stream_options options = {.loop = link->options.loop,
                                      .connecting = address,
                                      .tls = &tls,
                                      .patience = patience,
                                      .most_frame = BY_CLUSTER_LINE_UP,
                                      .most_line = BY_CLUSTER_LINE_DOWN,
                                      .most_queued = QUEUED,
                                      .quiet = true,
                                      .opened = opened,
                                      .frame = heard,
                                      .ended = ended,
                                      .context = link};
  link->shown = by_tls_identity_who(identity)->expires;
  BY_TRY(by_socket_connect_start(address, &options.fd));
  (void)!by_socket_set_keepalive(options.fd, 5, 5, 2);
  (void)!by_socket_set_user_timeout(options.fd, SILENT_MS);
  return by_stream_create(&options, &link->stream);
}

static void look(void *context) {
  struct by_manager_link *link = context;
  struct by_address address;
  bool done;
  enum banyan_status status = by_resolving_look(link->resolving, &address, &done);
  if (!done && by_loop_now(link->options.loop) < link->give_up_at) {
    by_loop_set_delay(link->options.loop, &link->look, look_again);
    return;
  }
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  if (!done) status = by_fail(BANYAN_ERR_TIMEOUT, "the name was not found in time; is there an answer from DNS?");
  if (status == BANYAN_OK) status = connect_to(link, &address);
  if (status != BANYAN_OK) link->options.gone(link->options.context, banyan_error_text());
}

enum banyan_status by_manager_link_connect(struct by_manager_link *link) {
  struct by_address address;
  by_manager_link_disconnect(link);
  if (by_address_parse(link->options.manager, &address) == BANYAN_OK) return connect_to(link, &address);
  BY_TRY(by_resolving_start(link->options.manager, link->tries++, &link->resolving));
  link->give_up_at = by_loop_now(link->options.loop) + patience;
  by_loop_set_delay(link->options.loop, &link->look, 0);
  return BANYAN_OK;
}

void by_manager_link_disconnect(struct by_manager_link *link) {
  by_loop_cancel_timer(&link->look);
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  by_stream_destroy(link->stream);
  link->stream = NULL;
}

bool by_manager_link_say(struct by_manager_link *link, const char *line, size_t length) {
  return link->stream && by_stream_send(link->stream, 0, line, length) == BANYAN_OK;
}

void by_manager_link_renew(struct by_manager_link *link) {
  by_tls_watch_read(link->keys);
}

int64_t by_manager_link_expires(const struct by_manager_link *link) {
  return by_tls_identity_expires(by_tls_watch_get(link->keys));
}

static enum banyan_status watch_keys(struct by_manager_link *link) {
  const struct by_tls_watch_options of_keys = {.loop = link->options.loop,
                                               .folder = link->options.keys,
                                               .role = BY_TLS_AGENT,
                                               .name = link->options.host,
                                               .changed = keys_changed,
                                               .context = link};
  return by_tls_watch_create(&of_keys, &link->keys);
}

enum banyan_status by_manager_link_create(const struct by_manager_link_options *options, struct by_manager_link **out) {
  char host[BY_HOST_TEXT];
  int port;
  *out = NULL;
  BY_TRY(by_address_split(options->manager, host, &port));
  struct by_manager_link *link = calloc(1, sizeof *link);
  if (!link) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  link->options = *options;
  by_timer_init(&link->look, look, link);
  by_timer_init(&link->judge, judge, link);
  enum banyan_status status = watch_keys(link);
  if (status != BANYAN_OK) {
    free(link);
    return status;
  }
  *out = link;
  return BANYAN_OK;
}

void by_manager_link_destroy(struct by_manager_link *link) {
  if (!link) return;
  by_manager_link_disconnect(link);
  by_loop_cancel_timer(&link->judge);
  by_tls_watch_destroy(link->keys);
  free(link);
}
