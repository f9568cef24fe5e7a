/* Visitors: accepted connections, and our own local ones after their handshake, until they are lanes. */
#include <stdlib.h>
#include <unistd.h>

#include "connector_parts.h"
#include "localsocket.h"
#include "log.h"

/* A connection that somebody made to us: its handshake, then for local ones the exchange of descriptors. */
struct visitor {
  struct visitor *next;
  struct by_connector *connector;
  struct by_greet *greet;
  struct by_watch *watch;
  struct by_timer patience;
  int fd;
  uint32_t process;
  bool local, ours; /* ours: we connected */
  int segment;      /* ours: the link's memory */
};

static void free_visitor(struct visitor *v, bool keep_fd) {
  by_greet_cancel(v->greet);
  by_loop_unwatch(v->watch);
  by_loop_cancel_timer(&v->patience);
  if (v->segment >= 0) close(v->segment);
  if (!keep_fd && v->fd >= 0) close(v->fd);
  free(v);
}

static void drop_visitor(struct visitor *v, bool keep_fd) {
  struct visitor **place = &v->connector->visitors;
  while (*place != v) place = &(*place)->next;
  *place = v->next;
  free_visitor(v, keep_fd);
}

static void visitor_late(void *context) {
  struct visitor *v = context;
  by_warn("net", "a local connection exchanged no descriptors in time; closed");
  drop_visitor(v, false);
}

static struct visitor *new_visitor(struct by_connector *connector) {
  struct visitor *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  *v = (struct visitor){.next = connector->visitors, .connector = connector, .fd = -1, .segment = -1};
  by_timer_init(&v->patience, visitor_late, v);
  connector->visitors = v;
  return v;
}

/* The side that connected sends (segment, its wake); the other one answers with its wake. */
static void exchange_ready(void *context, uint32_t events) {
  struct visitor *v = context;
  struct by_connector *connector = v->connector;
  int fds[2] = {-1, -1};
  size_t n = 0, length = 0, wanted = v->ours ? 1 : 2;
  char byte;
  (void)events;
  enum banyan_status status = by_local_receive(v->fd, &byte, 1, &length, fds, 2, &n);
  if (status == BANYAN_OK && !length) return;
  if (status == BANYAN_OK && n != wanted)
    status = by_fail(BANYAN_ERR_PROTOCOL, "%zu descriptors instead of %zu", n, wanted);
  bool sent = true;
  if (status == BANYAN_OK && !v->ours) status = by_local_send(v->fd, "w", 1, &connector->context->wake, 1, &sent);
  if (status != BANYAN_OK || !sent) {
    by_warn("net", "setting up shared memory with %s failed: %s", by_context_name(connector->context, v->process),
            sent ? banyan_error_text() : "its socket is full");
    for (size_t i = 0; i < n; i++) close(fds[i]);
    drop_visitor(v, false);
    return;
  }
  int segment = v->ours ? v->segment : fds[0], wake = v->ours ? fds[0] : fds[1];
  by_loop_unwatch(v->watch);
  v->watch = NULL;
  v->segment = -1;
  struct by_shm_ends ends = {.socket = v->fd, .segment = segment, .peer_wake = wake, .first = v->ours};
  by_connector_make_shm_lane(connector, v->process, &ends);
  drop_visitor(v, true);
}

static void begin_exchange(struct visitor *v) {
  struct by_context *context = v->connector->context;
  bool sent = true;
  enum banyan_status status = BANYAN_OK;
  if (v->ours) {
    v->segment = by_shm_segment(context->neighbours, context->members[context->rank].cores);
    int fds[2] = {v->segment, context->wake};
    status = v->segment < 0 ? BANYAN_ERR_SYSTEM : by_local_send(v->fd, "s", 1, fds, 2, &sent);
  }
  if (status == BANYAN_OK && sent) status = by_loop_watch(context->loop, v->fd, EPOLLIN, exchange_ready, v, &v->watch);
  if (status != BANYAN_OK || !sent) {
    by_error("net", "setting up shared memory failed: %s", banyan_error_text());
    drop_visitor(v, false);
    return;
  }
  by_loop_set_delay(context->loop, &v->patience, PATIENCE_S * BY_SECOND);
}

static void visitor_greeted(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
                            size_t length) {
  struct visitor *v = context;
  struct by_connector *connector = v->connector;
  v->greet = NULL;
  struct hello theirs = {0};
  if (status == BANYAN_OK) {
    v->fd = fd;
    status = by_hello_read(connector->context, hello, length, &theirs);
    v->process = theirs.from;
    if (status == BANYAN_OK && purpose != (v->local ? PURPOSE_LOCAL : PURPOSE_TCP))
      status = by_fail(BANYAN_ERR_PROTOCOL, "a connection for purpose %u", purpose);
  }
  if (status != BANYAN_OK) {
    by_warn("net", "a connection was refused: %s", banyan_error_text());
    drop_visitor(v, false);
  } else if (v->local) {
    begin_exchange(v);
  } else {
    by_target_add_connection(&connector->targets[v->process], &theirs, fd);
    drop_visitor(v, true);
  }
}

void by_visitor_greet(struct by_connector *connector, int fd, bool local) {
  struct visitor *v = new_visitor(connector);
  if (!v) {
    close(fd);
    return;
  }
  uint8_t hello[HELLO];
  by_hello_write(&(struct hello){.from = connector->context->rank, .to = UINT32_MAX, .lanes = 1}, hello);
  v->local = local;
  struct by_greet_options options = {
      .loop = connector->context->loop,
      .fd = fd,
      .packets = local,
      .patience = GREET_S * BY_SECOND,
      .handshake = {.role = BY_ROLE_SERVER, .key = &connector->key, .hello = hello, .hello_length = sizeof hello},
      .done = visitor_greeted,
      .context = v};
  if (by_greet_start(&options, &v->greet) == BANYAN_OK) return;
  by_warn("net", "a connection was dropped: %s", banyan_error_text());
  drop_visitor(v, false);
}
void by_visitor_exchange(struct by_connector *connector, uint32_t process, int fd) {
  struct visitor *v = new_visitor(connector);
  if (!v) {
    close(fd);
    return;
  }
  v->fd = fd;
  v->process = process;
  v->local = v->ours = true;
  begin_exchange(v);
}

void by_visitors_free(struct by_connector *connector) {
  while (connector->visitors) {
    struct visitor *v = connector->visitors;
    connector->visitors = v->next;
    free_visitor(v, false);
  }
}
