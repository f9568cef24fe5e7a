#include "connector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "choose.h"
#include "greet.h"
#include "interface.h"
#include "localsocket.h"
#include "log.h"
#include "shm.h"
#include "socket.h"
#include "tcp.h"

enum {
  PURPOSE_TCP = 'D',
  PURPOSE_LOCAL = 'L',
  PATIENCE_S = 30,
  STAGGER_MS = 100,
  OTHER_MS = 1000,
  VERDICT_MS = 1000, /* longer than control waits for the name of a dead rank */
  HELLO = 10,
  UNSENT = 128 << 10
};

struct attempt;

/* What goes on towards one process. */
struct target {
  struct by_connector *connector;
  uint32_t process, next_address, open; /* attempts under way */
  bool active, done, greeting;          /* one attempt at a time shakes hands: the other end takes what it finishes */
  struct by_timer stagger, patience, verdict;
  struct attempt *attempts;
  struct by_address winner; /* where the first connection went */
  /* connections of the link that are there, -1 elsewhere; it begins when it has all `lanes` */
  int fds[BY_LANES];
  uint32_t lanes, have;
  char last_error[400];
};

/* One address that is being tried, or a local socket. */
struct attempt {
  struct attempt *next;
  struct target *target;
  struct by_address to;
  struct by_watch *watch;
  struct by_greet *greet;
  struct by_timer late; /* of the second and later connections: the first one's address is tried instead */
  int fd;
  uint32_t lane;           /* of the link; all attempts for lane 0 race */
  bool connected, greeted; /* connected: waits for its turn to shake hands */
};

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

struct by_connector {
  struct by_context *context;
  struct by_key key;
  int tcp_listener, local_listener;
  struct by_watch *tcp_watch, *local_watch;
  struct target *targets;
  struct visitor *visitors;
};

static uint64_t seconds(uint64_t s) {
  return s * BY_SECOND;
}

/* ---- hello: who connects to whom */

struct hello {
  uint32_t from, to;
  uint8_t lane, lanes; /* which connection of how many of the link */
};

static void write_hello(const struct hello *hello, uint8_t *out) {
  struct by_writer writer;
  by_writer_init(&writer, out, HELLO);
  by_write_u32(&writer, hello->from);
  by_write_u32(&writer, hello->to);
  by_write_u8(&writer, hello->lane);
  by_write_u8(&writer, hello->lanes);
}

static enum banyan_status read_hello(const struct by_context *context, const uint8_t *bytes, size_t length,
                                     struct hello *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  out->from = by_read_u32(&reader);
  out->to = by_read_u32(&reader);
  out->lane = by_read_u8(&reader);
  out->lanes = by_read_u8(&reader);
  BY_TRY(by_reader_check(&reader, "a link's hello"));
  if (out->from >= context->size || out->from == context->rank)
    return by_fail(BANYAN_ERR_PROTOCOL, "a link's hello comes from rank %u", out->from);
  if (out->to != context->rank && out->to != UINT32_MAX)
    return by_fail(BANYAN_ERR_PROTOCOL, "a link's hello is for rank %u, this is rank %u", out->to, context->rank);
  if (out->lanes < 1 || out->lanes > BY_LANES || out->lane >= out->lanes)
    return by_fail(BANYAN_ERR_PROTOCOL, "a link's hello is for connection %u of %u", out->lane, out->lanes);
  return BANYAN_OK;
}

/* ---- lanes */

static enum banyan_status tune_to_peer(const struct by_settings *s, int fd, const struct by_address *peer) {
  char congestion[BY_CHOICE_TEXT], buffer[BY_CHOICE_TEXT];
  uint64_t bytes = 0;
  BY_TRY(by_choose(s->congestion, peer, congestion));
  BY_TRY(by_choose(s->socket_buffer, peer, buffer));
  if (*buffer) BY_TRY(by_parse_bytes(buffer, &bytes));
  if (*congestion) BY_TRY(by_socket_set_congestion(fd, congestion));
  return bytes ? by_socket_set_buffers(fd, (int)bytes, (int)bytes) : BANYAN_OK;
}

/* No user timeout: it would end a connection whose peer computes, and so reads nothing, for that long. That a host
 * vanished is seen on the control connections, where somebody always reads. */
static void tune(const struct by_context *context, int fd, const struct by_address *peer) {
  const struct by_settings *s = &context->settings;
  enum banyan_status status = by_socket_set_nodelay(fd);
  if (status == BANYAN_OK) status = tune_to_peer(s, fd, peer);
  if (status == BANYAN_OK) status = by_socket_set_keepalive(fd, 5, 2, 3);
  if (status != BANYAN_OK) by_warn("net", "a link's socket keeps its defaults: %s", banyan_error_text());
}

static uint8_t lanes_to(const struct by_context *context, const struct by_address *peer) {
  char text[BY_CHOICE_TEXT];
  long n = 1;
  if (by_choose(context->settings.connections, peer, text) != BANYAN_OK || !*text) return 1;
  if (by_parse_int("number of connections", text, 1, BY_LANES, &n) != BANYAN_OK) return 1;
  return (uint8_t)n;
}

/* Takes the socket over, also on failure. */
static enum banyan_status make_tcp_lane(struct by_connector *connector, uint32_t process, int fd,
                                        struct by_lane **out) {
  struct by_context *context = connector->context;
  char congestion[BY_CONGESTION_TEXT] = "?", text[BY_ADDRESS_TEXT];
  struct by_address peer = {0};
  (void)!by_socket_get_peer(fd, &peer);
  tune(context, fd, &peer);
  enum banyan_status status = by_tcp_create(fd, context->settings.chunk, out);
  if (status != BANYAN_OK) {
    close(fd);
    return status;
  }
  (void)!by_socket_get_congestion(fd, congestion);
  by_info("net", "link to %s over TCP, %s, %s", by_context_name(context, process), by_address_print(&peer, text),
          congestion);
  return BANYAN_OK;
}

static void forget_connections(struct target *target) {
  for (uint32_t i = 0; i < BY_LANES; i++) {
    if (target->fds[i] >= 0) close(target->fds[i]);
    target->fds[i] = -1;
  }
  target->have = 0;
}

static void make_tcp_link(struct target *target) {
  struct by_connector *connector = target->connector;
  struct by_lane *lanes[BY_LANES];
  enum banyan_status status = BANYAN_OK;
  uint32_t n = 0;
  for (uint32_t i = 0; i < target->lanes && status == BANYAN_OK; i++) {
    (void)!by_socket_set_unsent(target->fds[i], target->lanes > 1 ? UNSENT : 0);
    status = make_tcp_lane(connector, target->process, target->fds[i], &lanes[i]);
    target->fds[i] = -1;
    if (status == BANYAN_OK) n++;
  }
  forget_connections(target);
  if (status == BANYAN_OK) {
    by_context_attach(connector->context, target->process, lanes, n);
    return;
  }
  by_error("net", "no link to %s: %s", by_context_name(connector->context, target->process), banyan_error_text());
  for (uint32_t i = 0; i < n; i++) lanes[i]->ops->destroy(lanes[i]);
}

/* One more connection of a link. True: that was the last one, and the link has begun. */
static bool add_connection(struct target *target, const struct hello *hello, int fd) {
  if (hello->lanes != target->lanes) forget_connections(target); /* the peer starts again */
  target->lanes = hello->lanes;
  if (target->fds[hello->lane] >= 0)
    close(target->fds[hello->lane]);
  else
    target->have++;
  target->fds[hello->lane] = fd;
  if (target->have < target->lanes) return false;
  make_tcp_link(target);
  return true;
}

static void make_shm_lane(struct by_connector *connector, const struct visitor *v, int segment, int wake) {
  struct by_context *context = connector->context;
  struct by_shm_ends ends = {.socket = v->fd,
                             .segment = segment,
                             .peer_wake = wake,
                             .first = v->ours,
                             .attach_from = context->settings.attach};
  struct by_lane *lane = NULL;
  uid_t uid;
  if (by_local_get_peer(v->fd, &ends.peer, &uid) != BANYAN_OK) ends.peer = (pid_t)context->members[v->process].pid;
  if (by_shm_create(&ends, &lane) != BANYAN_OK) {
    by_error("net", "no shared memory with %s: %s", by_context_name(context, v->process), banyan_error_text());
    return;
  }
  by_info("net", "link to %s over shared memory", by_context_name(context, v->process));
  by_context_attach(context, v->process, &lane, 1);
}

/* ---- visitors: accepted connections, and our own local ones after their handshake */

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
  make_shm_lane(connector, v, segment, wake);
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
  by_loop_set_delay(context->loop, &v->patience, seconds(PATIENCE_S));
}

static void visitor_greeted(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
                            size_t length) {
  struct visitor *v = context;
  struct by_connector *connector = v->connector;
  v->greet = NULL;
  struct hello theirs = {0};
  if (status == BANYAN_OK) {
    v->fd = fd;
    status = read_hello(connector->context, hello, length, &theirs);
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
    add_connection(&connector->targets[v->process], &theirs, fd);
    drop_visitor(v, true);
  }
}

static void greet_visitor(struct by_connector *connector, int fd, bool local) {
  struct visitor *v = new_visitor(connector);
  if (!v) {
    close(fd);
    return;
  }
  uint8_t hello[HELLO];
  write_hello(&(struct hello){.from = connector->context->rank, .to = UINT32_MAX, .lanes = 1}, hello);
  v->local = local;
  struct by_greet_options options = {
      .loop = connector->context->loop,
      .fd = fd,
      .packets = local,
      .patience = seconds(5),
      .handshake = {.role = BY_ROLE_SERVER, .key = &connector->key, .hello = hello, .hello_length = sizeof hello},
      .done = visitor_greeted,
      .context = v};
  if (by_greet_start(&options, &v->greet) == BANYAN_OK) return;
  by_warn("net", "a connection was dropped: %s", banyan_error_text());
  drop_visitor(v, false);
}

static void accept_tcp(void *context, uint32_t events) {
  struct by_connector *connector = context;
  (void)events;
  int fd = -1;
  if (by_socket_accept(connector->tcp_listener, &fd, NULL) != BANYAN_OK)
    by_warn("net", "a connection could not be taken: %s", banyan_error_text());
  else if (fd >= 0)
    greet_visitor(connector, fd, false);
}

static void accept_local(void *context, uint32_t events) {
  struct by_connector *connector = context;
  (void)events;
  int fd = -1;
  if (by_local_accept(connector->local_listener, &fd) != BANYAN_OK)
    by_warn("net", "a local connection could not be taken: %s", banyan_error_text());
  else if (fd >= 0)
    greet_visitor(connector, fd, true);
}

/* ---- our own attempts */

static void try_next(struct target *target);

static void free_attempt(struct attempt *attempt) {
  attempt->target->open--;
  by_greet_cancel(attempt->greet);
  by_loop_unwatch(attempt->watch);
  by_loop_cancel_timer(&attempt->late);
  if (attempt->fd >= 0) close(attempt->fd);
  free(attempt);
}

static void drop_attempt(struct attempt *attempt) {
  struct attempt **place = &attempt->target->attempts;
  while (*place != attempt) place = &(*place)->next;
  *place = attempt->next;
  free_attempt(attempt);
}

static void finish_target(struct target *target) {
  target->done = true;
  target->active = false;
  by_loop_cancel_timer(&target->stagger);
  by_loop_cancel_timer(&target->patience);
  while (target->attempts) {
    struct attempt *attempt = target->attempts;
    target->attempts = attempt->next;
    free_attempt(attempt);
  }
  if (target->winner.length) forget_connections(target); /* what was made from here */
}

static void verdict_due(void *argument) {
  struct target *target = argument;
  struct by_context *context = target->connector->context;
  char text[600];
  snprintf(text, sizeof text,
           "cannot connect to %s: %s; check the firewall between the hosts, and set BANYAN_IFACE if the wrong "
           "interface was used",
           by_context_name(context, target->process), target->last_error);
  by_context_lock(context);
  by_engine_fail(context->engine, BANYAN_ERR_CONNECT, target->process, text);
  pthread_cond_broadcast(&context->changed);
  by_context_unlock(context);
  by_context_wake(context);
}

/* Perhaps it died, or ended because the job failed: if so, rank 0 says that first. */
static void fail_target(struct target *target, const char *why) {
  if (!target->last_error[0]) snprintf(target->last_error, sizeof target->last_error, "%s", why);
  finish_target(target);
  by_loop_set_delay(target->connector->context->loop, &target->verdict, VERDICT_MS * BY_MILLISECOND);
}

static void greet_attempt(struct attempt *attempt, bool local);
static void connect_lane(struct target *target, uint32_t lane, const struct by_address *to);

static void attempt_failed(struct attempt *attempt) {
  struct target *target = attempt->target;
  if (attempt->greeted) target->greeting = false;
  snprintf(target->last_error, sizeof target->last_error, "%s", banyan_error_text());
  by_debug("net", "trying %s: %s", by_context_name(target->connector->context, target->process), target->last_error);
  uint32_t lane = attempt->lane;
  bool at_winner = lane && by_address_compare(&attempt->to, &target->winner) == 0;
  drop_attempt(attempt);
  if (lane && at_winner) fail_target(target, "the first connection was taken, a further one was not");
  if (lane && !at_winner) connect_lane(target, lane, &target->winner);
  if (lane) return;
  for (struct attempt *other = target->attempts; other && !target->greeting; other = other->next)
    if (other->connected && !other->greeted) {
      greet_attempt(other, false);
      return;
    }
  try_next(target);
}

static bool usable_from_here(const struct by_context *context, const struct by_member *peer,
                             const struct by_address *a) {
  return !by_address_is_loopback(a) || !strcmp(peer->machine, context->members[context->rank].machine);
}

/* Other interfaces are meant, not other names of the same one: the winner's loopback, and its other families. */
static bool is_like(const struct by_address *a, const struct by_address *b) {
  return by_address_family(a) == by_address_family(b) && by_address_is_loopback(a) == by_address_is_loopback(b) &&
         by_address_is_link_local(a) == by_address_is_link_local(b);
}

/* The usable address so many places after the one that won, round and round. */
static struct by_address address_after(const struct target *target, uint32_t places) {
  const struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process];
  const struct by_address *usable[BY_MEMBER_ADDRESSES];
  uint32_t n = 0, won = 0;
  for (uint32_t i = 0; i < peer->n_addresses && n < BY_MEMBER_ADDRESSES; i++) {
    const struct by_address *a = &peer->addresses[i];
    if (!usable_from_here(context, peer, a) || !is_like(a, &target->winner)) continue;
    if (by_address_compare(a, &target->winner) == 0) won = n;
    usable[n++] = a;
  }
  return n ? *usable[(won + places) % n] : target->winner;
}

/* A connection of the link is there. The first one settles where the others go. */
static void connected_lane(struct attempt *attempt, int fd) {
  struct target *target = attempt->target;
  struct hello ours = {.lane = (uint8_t)attempt->lane, .lanes = (uint8_t)target->lanes};
  bool first = !attempt->lane;
  if (first) target->winner = attempt->to;
  drop_attempt(attempt);
  while (first && target->attempts) drop_attempt(target->attempts);
  by_loop_cancel_timer(&target->stagger);
  if (add_connection(target, &ours, fd)) {
    finish_target(target);
    return;
  }
  for (uint32_t i = 1; first && i < target->lanes && target->active; i++) {
    struct by_address to = address_after(target, i);
    connect_lane(target, i, &to);
  }
}

static void attempt_greeted(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
                            size_t length) {
  struct attempt *attempt = context;
  struct target *target = attempt->target;
  struct by_connector *connector = target->connector;
  struct hello theirs = {0};
  attempt->greet = NULL;
  attempt->fd = fd;
  if (status == BANYAN_OK) status = read_hello(connector->context, hello, length, &theirs);
  if (status == BANYAN_OK && theirs.from != target->process)
    status = by_fail(BANYAN_ERR_CONNECT, "rank %u answered there", theirs.from);
  if (status != BANYAN_OK) {
    attempt_failed(attempt);
    return;
  }
  attempt->fd = -1;
  if (purpose == PURPOSE_TCP) {
    connected_lane(attempt, fd);
    return;
  } else {
    struct visitor *v = new_visitor(connector);
    if (v) {
      v->fd = fd;
      v->process = target->process;
      v->local = v->ours = true;
      begin_exchange(v);
    } else {
      close(fd);
    }
  }
  finish_target(target);
}

static void greet_attempt(struct attempt *attempt, bool local) {
  struct by_connector *connector = attempt->target->connector;
  struct target *target = attempt->target;
  uint8_t hello[HELLO], lanes = attempt->lane ? (uint8_t)target->lanes : lanes_to(connector->context, &attempt->to);
  attempt->greeted = target->greeting = true;
  if (!attempt->lane) target->lanes = local ? 1 : lanes;
  write_hello(&(struct hello){.from = connector->context->rank,
                              .to = target->process,
                              .lane = (uint8_t)attempt->lane,
                              .lanes = (uint8_t)target->lanes},
              hello);
  struct by_greet_options options = {.loop = connector->context->loop,
                                     .fd = attempt->fd,
                                     .packets = local,
                                     .patience = seconds(5),
                                     .handshake = {.role = BY_ROLE_CLIENT,
                                                   .purpose = local ? PURPOSE_LOCAL : PURPOSE_TCP,
                                                   .key = &connector->key,
                                                   .hello = hello,
                                                   .hello_length = sizeof hello},
                                     .done = attempt_greeted,
                                     .context = attempt};
  attempt->fd = -1;
  if (by_greet_start(&options, &attempt->greet) != BANYAN_OK) attempt_failed(attempt);
}

static void attempt_writable(void *context, uint32_t events) {
  struct attempt *attempt = context;
  bool done = false;
  (void)events;
  enum banyan_status status = by_socket_connect_finish(attempt->fd, &attempt->to, &done);
  if (status == BANYAN_OK && !done) return;
  by_loop_unwatch(attempt->watch);
  attempt->watch = NULL;
  if (status != BANYAN_OK) {
    attempt_failed(attempt);
    return;
  }
  attempt->connected = true;
  by_loop_cancel_timer(&attempt->late);
  if (attempt->lane || !attempt->target->greeting) greet_attempt(attempt, false);
}

static void other_late(void *context);

static struct attempt *new_attempt(struct target *target) {
  struct attempt *attempt = calloc(1, sizeof *attempt);
  if (!attempt) return NULL;
  *attempt = (struct attempt){.next = target->attempts, .target = target, .fd = -1};
  by_timer_init(&attempt->late, other_late, attempt);
  target->attempts = attempt;
  target->open++;
  return attempt;
}

static void try_next(struct target *target) {
  struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process];
  if (!target->active) return;
  while (target->next_address < peer->n_addresses &&
         !usable_from_here(context, peer, &peer->addresses[target->next_address]))
    target->next_address++;
  if (target->next_address >= peer->n_addresses) {
    if (!target->open) fail_target(target, "it offers no address that can be used from here");
    return;
  }
  struct attempt *attempt = new_attempt(target);
  if (!attempt) return;
  attempt->to = peer->addresses[target->next_address++];
  by_loop_set_delay(context->loop, &target->stagger, STAGGER_MS * BY_MILLISECOND);
  if (by_socket_connect_start(&attempt->to, NULL, &attempt->fd) != BANYAN_OK ||
      by_loop_watch(context->loop, attempt->fd, EPOLLOUT, attempt_writable, attempt, &attempt->watch) != BANYAN_OK)
    attempt_failed(attempt);
}

static void other_late(void *context) {
  struct attempt *attempt = context;
  (void)!by_fail(BANYAN_ERR_CONNECT, "no answer in time");
  attempt_failed(attempt);
}

/* The second and later connections of a link: where the first one won if this address does not answer soon. */
static void connect_lane(struct target *target, uint32_t lane, const struct by_address *to) {
  struct by_context *context = target->connector->context;
  struct attempt *attempt = new_attempt(target);
  if (!attempt) return;
  attempt->lane = lane;
  attempt->to = *to;
  if (by_address_compare(to, &target->winner))
    by_loop_set_delay(context->loop, &attempt->late, OTHER_MS * BY_MILLISECOND);
  if (by_socket_connect_start(to, NULL, &attempt->fd) != BANYAN_OK ||
      by_loop_watch(context->loop, attempt->fd, EPOLLOUT, attempt_writable, attempt, &attempt->watch) != BANYAN_OK)
    attempt_failed(attempt);
}

static void stagger_over(void *context) {
  try_next(context);
}

static void patience_over(void *context) {
  fail_target(context, "nobody answered in time");
}

static void try_local(struct target *target) {
  struct by_context *context = target->connector->context;
  struct attempt *attempt = new_attempt(target);
  if (!attempt) return;
  target->next_address = UINT32_MAX; /* shared memory or nothing */
  if (by_local_connect(context->members[target->process].local, &attempt->fd) != BANYAN_OK)
    attempt_failed(attempt);
  else
    greet_attempt(attempt, true);
}

struct wish {
  struct by_connector *connector;
  uint32_t process;
};

static void begin_target(void *context) {
  struct wish wish = *(struct wish *)context;
  free(context);
  struct by_context *job = wish.connector->context;
  struct target *target = &wish.connector->targets[wish.process];
  const struct by_member *peer = &job->members[wish.process], *self = &job->members[job->rank];
  if (target->active || target->done) return;
  target->active = true;
  by_loop_set_delay(job->loop, &target->patience, seconds(PATIENCE_S));
  if (*peer->local && *self->local && by_member_same_host(peer, self))
    try_local(target);
  else
    try_next(target);
}

void by_connector_want(struct by_connector *connector, uint32_t process) {
  if (process >= connector->context->rank) return; /* it will come to us */
  struct wish *wish = malloc(sizeof *wish);
  if (wish) {
    *wish = (struct wish){connector, process};
    if (by_loop_post(connector->context->loop, begin_target, wish) == BANYAN_OK) return;
  }
  free(wish);
  by_error("net", "connecting to %s could not begin: %s", by_context_name(connector->context, process),
           banyan_error_text());
}

/* ---- life */

static enum banyan_status add_addresses(const struct by_context *context, int port, bool loopback,
                                        struct by_member *self) {
  struct by_interface *all = NULL;
  size_t n = 0;
  const char *filter = loopback ? "127.0.0.0/8" : context->settings.iface;
  enum banyan_status status = by_interface_list(filter, loopback, &all, &n);
  if (status != BANYAN_OK) return loopback ? BANYAN_OK : by_fail_within(status, "BANYAN_IFACE");
  for (size_t i = 0; i < n && self->n_addresses < BY_MEMBER_ADDRESSES; i++) {
    bool known = false;
    for (uint32_t j = 0; j < self->n_addresses; j++)
      known |= by_address_compare_host(&self->addresses[j], &all[i].address) == 0;
    if (known) continue;
    self->addresses[self->n_addresses] = all[i].address;
    by_address_set_port(&self->addresses[self->n_addresses++], port);
  }
  free(all);
  return BANYAN_OK;
}

/* The loopback address first, so that ranks of one machine use it; others skip it. */
static enum banyan_status listen_tcp(struct by_connector *connector, struct by_member *self) {
  struct by_context *context = connector->context;
  struct by_port_range ports = {0, 0};
  struct by_address bound;
  if (context->settings.ports) {
    enum banyan_status status = by_port_range_parse(context->settings.ports, &ports);
    if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_PORTS");
  }
  BY_TRY(by_socket_listen(NULL, ports, &connector->tcp_listener, &bound));
  self->addresses = BY_ARENA_ARRAY(&context->arena, struct by_address, BY_MEMBER_ADDRESSES);
  if (!self->addresses) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for addresses");
  int port = by_address_port(&bound);
  if (!*context->settings.iface) BY_TRY(add_addresses(context, port, true, self));
  return add_addresses(context, port, false, self);
}

static enum banyan_status listen_local(struct by_connector *connector, struct by_member *self) {
  char name[64], random[BY_KEY_TEXT];
  self->local = "";
  if (!strcmp(connector->context->settings.transport, "tcp")) return BANYAN_OK;
  BY_TRY(by_key_random(random));
  snprintf(name, sizeof name, "banyan-%d-%.16s", (int)getpid(), random);
  BY_TRY(by_local_listen(name, &connector->local_listener));
  self->local = by_arena_string(&connector->context->arena, name);
  return self->local ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a name");
}

enum banyan_status by_connector_create(struct by_context *context, const struct by_key *key, struct by_member *self,
                                       struct by_connector **out) {
  struct by_connector *connector = calloc(1, sizeof *connector);
  if (!connector) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for connections");
  *connector = (struct by_connector){.context = context, .key = *key, .tcp_listener = -1, .local_listener = -1};
  enum banyan_status status = listen_tcp(connector, self);
  if (status == BANYAN_OK) status = listen_local(connector, self);
  if (status != BANYAN_OK) {
    by_connector_destroy(connector);
    return status;
  }
  *out = connector;
  return BANYAN_OK;
}

enum banyan_status by_connector_open(struct by_connector *connector) {
  struct by_context *context = connector->context;
  connector->targets = calloc(context->size, sizeof *connector->targets);
  if (!connector->targets) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", context->size);
  for (uint32_t i = 0; i < context->size; i++) {
    struct target *target = &connector->targets[i];
    target->connector = connector;
    target->process = i;
    memset(target->fds, 0xff, sizeof target->fds);
    by_timer_init(&target->stagger, stagger_over, target);
    by_timer_init(&target->patience, patience_over, target);
    by_timer_init(&target->verdict, verdict_due, target);
  }
  BY_TRY(by_loop_watch(context->loop, connector->tcp_listener, EPOLLIN, accept_tcp, connector, &connector->tcp_watch));
  if (connector->local_listener < 0) return BANYAN_OK;
  return by_loop_watch(context->loop, connector->local_listener, EPOLLIN, accept_local, connector,
                       &connector->local_watch);
}

static void drop_target(struct target *target) {
  finish_target(target);
  by_loop_cancel_timer(&target->verdict);
  forget_connections(target);
}

void by_connector_destroy(struct by_connector *connector) {
  if (!connector) return;
  while (connector->visitors) {
    struct visitor *v = connector->visitors;
    connector->visitors = v->next;
    free_visitor(v, false);
  }
  for (uint32_t i = 0; connector->targets && i < connector->context->size; i++) drop_target(&connector->targets[i]);
  by_loop_unwatch(connector->tcp_watch);
  by_loop_unwatch(connector->local_watch);
  if (connector->tcp_listener >= 0) close(connector->tcp_listener);
  if (connector->local_listener >= 0) close(connector->local_listener);
  free(connector->targets);
  free(connector);
}
