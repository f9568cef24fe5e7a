/* Visitors: accepted connections, and our own local ones after their handshake, until they are lanes. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connector_parts.h"
#include "descriptor.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"

/* A connection that somebody made to us: its handshake, then for local ones the exchange of descriptors. */
struct visitor {
  struct visitor *next;
  struct by_connector *connector;
  struct by_greet *greet; /* NULL: it is over */
  struct by_watch *watch;
  struct by_timer patience;
  struct target *target; /* once it is known */
  int fd;
  bool local, ours; /* ours: we connected */
  char peer[BY_ADDRESS_TEXT];
  int segment; /* ours: the link's memory */
};

static void free_visitor(struct visitor *v) {
  by_greet_cancel(v->greet);
  by_loop_unwatch(v->watch);
  by_loop_cancel_timer(&v->patience);
  if (v->segment >= 0) by_close(v->segment);
  if (v->fd >= 0) by_close(v->fd);
  free(v);
}

static void drop_visitor(struct visitor *v) {
  struct visitor **place = &v->connector->visitors;
  while (*place != v) place = &(*place)->next;
  *place = v->next;
  free_visitor(v);
}

/* ---- over a local connection: descriptors */

/* It was a rank of the job: without this connection there is no link. */
static void exchange_failed(struct visitor *v, enum banyan_status status) {
  struct target *target = v->target;
  drop_visitor(v);
  by_target_broken(target, status, "setting up shared memory failed");
}

static void visitor_late(void *context) {
  exchange_failed(context, by_fail(BANYAN_ERR_TIMEOUT, "the other side sent no descriptors in time"));
}

static struct visitor *new_visitor(struct by_connector *connector) {
  struct visitor *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  *v = (struct visitor){.next = connector->visitors, .connector = connector, .fd = -1, .segment = -1};
  by_timer_init(&v->patience, visitor_late, v);
  connector->visitors = v;
  return v;
}

static enum banyan_status send_descriptors(struct visitor *v, const char *what, const int *fds, size_t n) {
  bool sent = true;
  BY_TRY(by_local_send(v->fd, what, 1, fds, n, &sent));
  return sent ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "a local socket is full already");
}

/* *n = 0: they have not come yet. */
static enum banyan_status receive_descriptors(struct visitor *v, int *fds, size_t wanted, size_t *n) {
  size_t length;
  char byte;
  BY_TRY(by_local_receive(v->fd, &byte, 1, &length, fds, wanted, n));
  if (!length || *n == wanted) return BANYAN_OK;
  for (size_t i = 0; i < *n; i++) by_close(fds[i]);
  return by_fail(BANYAN_ERR_PROTOCOL, "%zu descriptors came instead of %zu", *n, wanted);
}

static void make_link(struct visitor *v, int segment, int wake) {
  struct target *target = v->target;
  struct by_shm_ends ends = {.socket = v->fd, .segment = segment, .peer_wake = wake, .first = v->ours};
  by_loop_unwatch(v->watch);
  v->watch = NULL;
  v->fd = v->segment = -1;
  drop_visitor(v);
  by_target_make_shm_link(target, &ends);
}

/* The side that connected sends (segment, its wake); the other one answers with its wake. */
static void exchange_ready(void *context, uint32_t events) {
  struct visitor *v = context;
  int fds[2];
  size_t n;
  (void)events;
  enum banyan_status status = receive_descriptors(v, fds, v->ours ? 1 : 2, &n);
  if (status == BANYAN_OK && !n) return;
  if (status == BANYAN_OK && !v->ours) {
    status = send_descriptors(v, "w", &v->connector->context->wake, 1);
    for (size_t i = 0; status != BANYAN_OK && i < n; i++) by_close(fds[i]);
  }
  if (status != BANYAN_OK)
    exchange_failed(v, status);
  else if (v->ours)
    make_link(v, v->segment, fds[0]);
  else
    make_link(v, fds[0], fds[1]);
}

static enum banyan_status offer_segment(struct visitor *v) {
  const struct by_context *context = v->connector->context;
  v->segment = by_shm_segment(context->neighbours, context->members[context->rank].cores);
  if (v->segment < 0) return BANYAN_ERR_SYSTEM;
  int fds[2] = {v->segment, context->wake};
  return send_descriptors(v, "s", fds, 2);
}

static void begin_exchange(struct visitor *v) {
  struct by_loop *loop = v->connector->context->loop;
  enum banyan_status status = v->ours ? offer_segment(v) : BANYAN_OK;
  if (status == BANYAN_OK) status = by_loop_watch(loop, v->fd, EPOLLIN, exchange_ready, v, &v->watch);
  if (status != BANYAN_OK)
    exchange_failed(v, status);
  else
    by_loop_set_delay(loop, &v->patience, PATIENCE_S * BY_SECOND);
}

/* ---- accepted */

static enum banyan_status check_hello(const struct visitor *v, uint8_t purpose, const struct hello *theirs) {
  const struct by_context *context = v->connector->context;
  char byte;
  if (purpose != (v->local ? PURPOSE_LOCAL : PURPOSE_TCP))
    return by_fail(BANYAN_ERR_PROTOCOL, "a connection for purpose %u", purpose);
  if (theirs->from < context->rank || theirs->to != context->rank)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u connects to rank %u at rank %u", theirs->from, theirs->to,
                   context->rank);
  /* it may have lost patience while this process was held up; a link must not begin with a dead connection */
  if (recv(v->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
    return by_fail(BANYAN_ERR_PEER_DEAD, "%s closed it again", by_context_name(v->connector->context, theirs->from));
  return BANYAN_OK;
}

static void log_rejected(const struct visitor *v) {
  by_repeats_warn(&v->connector->rejected, "net", v->peer, banyan_error_text(),
                  by_clock_to_seconds(by_loop_now(v->connector->context->loop)));
}

static void visitor_greeted(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
                            size_t length) {
  struct visitor *v = context;
  struct hello theirs = {0};
  v->greet = NULL;
  v->fd = fd;
  if (status == BANYAN_OK) status = by_hello_read(v->connector->context, hello, length, &theirs);
  if (status == BANYAN_OK) status = check_hello(v, purpose, &theirs);
  if (status != BANYAN_OK) {
    log_rejected(v);
    drop_visitor(v);
    return;
  }
  v->target = v->connector->targets[theirs.from];
  if (v->local) {
    begin_exchange(v);
  } else {
    struct target *target = v->target;
    v->fd = -1;
    drop_visitor(v);
    by_target_add_connection(target, &theirs, fd);
  }
}

static void name_peer(struct visitor *v, int fd) {
  struct by_address peer;
  if (!v->local && by_socket_get_peer(fd, &peer) == BANYAN_OK)
    by_address_print(&peer, v->peer);
  else
    strcpy(v->peer, "a process of this host");
}

void by_visitor_greet(struct by_connector *connector, int fd, bool local) {
  struct visitor *v = new_visitor(connector);
  if (!v) {
    by_close(fd);
    return;
  }
  uint8_t hello[HELLO];
  by_hello_write(&(struct hello){.from = connector->context->rank, .to = UINT32_MAX, .lanes = 1}, hello);
  v->local = local;
  name_peer(v, fd);
  struct by_greet_options options = {
      .loop = connector->context->loop,
      .fd = fd,
      .packets = local,
      .patience = GREET_S * BY_SECOND,
      .admission = local ? &connector->local_admission : &connector->tcp_admission,
      .handshake = {.role = BY_ROLE_SERVER, .key = &connector->key, .hello = hello, .hello_length = sizeof hello},
      .done = visitor_greeted,
      .context = v};
  if (by_greet_start(&options, &v->greet) != BANYAN_OK) {
    by_warn("net", "a connection was dropped: %s", banyan_error_text());
    drop_visitor(v);
  }
}

void by_visitor_exchange(struct target *target, int fd) {
  struct visitor *v = new_visitor(target->connector);
  if (!v) {
    by_close(fd);
    by_target_broken(target, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory"), "setting up shared memory failed");
    return;
  }
  v->fd = fd;
  v->target = target;
  v->local = v->ours = true;
  begin_exchange(v);
}

void by_visitors_free(struct by_connector *connector) {
  while (connector->visitors) {
    struct visitor *v = connector->visitors;
    connector->visitors = v->next;
    free_visitor(v);
  }
}
