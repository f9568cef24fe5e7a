/* Attempts: one address of a process, from connecting to the end of the handshake. */
#include <stdio.h>
#include <stdlib.h>

#include "connector_parts.h"
#include "descriptor.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"

enum { OTHER_MS = 1000 };

static void free_attempt(struct attempt *attempt) {
  attempt->target->open--;
  by_greet_cancel(attempt->greet);
  by_loop_unwatch(attempt->watch);
  by_loop_cancel_timer(&attempt->late);
  if (attempt->fd >= 0) by_close(attempt->fd);
  free(attempt);
}

static void drop_attempt(struct attempt *attempt) {
  struct attempt **place = &attempt->target->attempts;
  while (*place != attempt) place = &(*place)->next;
  *place = attempt->next;
  free_attempt(attempt);
}

static void greet_attempt(struct attempt *attempt, bool local);
static void connect_attempt(struct attempt *attempt, const struct by_address *to);
static void retry_lane(struct target *target, uint32_t lane);

/* The other end closes connections without a greeting after GREET_S: one that has waited for long is made anew. */
static void take_turn(struct attempt *attempt) {
  struct by_loop *loop = attempt->target->connector->context->loop;
  if (by_loop_now(loop) - attempt->connected_at < GREET_S * BY_SECOND / 2) {
    greet_attempt(attempt, false);
    return;
  }
  by_close(attempt->fd);
  attempt->fd = -1;
  attempt->connected = false;
  by_loop_set_delay(loop, &attempt->late, GREET_S * BY_SECOND);
  connect_attempt(attempt, &attempt->to);
}

static void attempt_failed(struct attempt *attempt, enum banyan_status status) {
  struct target *target = attempt->target;
  if (attempt->greeted) target->greeting = false;
  bool closed = attempt->greeted && (status == BANYAN_ERR_TIMEOUT || status == BANYAN_ERR_PEER_DEAD);
  bool own = status == BANYAN_ERR_SYSTEM; /* this process is out of something: its program may give some back */
  by_target_note(target, status);
  if (closed || own) target->again = true;
  snprintf(target->last_error, sizeof target->last_error, "%s", banyan_error_text());
  by_debug("net", "trying %s: %s", by_context_name(target->connector->context, target->process), target->last_error);
  uint32_t lane = attempt->lane;
  bool at_winner = lane && by_address_compare(&attempt->to, &target->winner) == 0;
  drop_attempt(attempt);
  if (lane && at_winner && (closed || own)) {
    retry_lane(target, lane);
    return;
  }
  if (lane && at_winner) by_target_fail(target, "the first connection was taken, a further one was not");
  if (lane && !at_winner) by_attempt_connect_lane(target, lane, &target->winner);
  if (lane) return;
  for (struct attempt *other = target->attempts; other && !target->greeting; other = other->next)
    if (other->connected && !other->greeted) {
      take_turn(other);
      return;
    }
  by_target_try_next(target);
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
  if (by_target_add_connection(target, &ours, fd)) {
    by_target_finish(target);
    return;
  }
  for (uint32_t i = 1; first && i < target->lanes && target->active; i++) {
    struct by_address to = by_target_address_after(target, i);
    by_attempt_connect_lane(target, i, &to);
  }
}

static void attempt_greeted(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
                            size_t length) {
  struct attempt *attempt = context;
  struct target *target = attempt->target;
  struct hello theirs = {0};
  attempt->greet = NULL;
  attempt->fd = fd;
  if (status == BANYAN_OK) status = by_hello_read(target->connector->context, hello, length, &theirs);
  if (status == BANYAN_OK && theirs.from != target->process)
    status = by_fail(BANYAN_ERR_CONNECT, "rank %u answered there", theirs.from);
  if (status != BANYAN_OK) {
    attempt_failed(attempt, status);
    return;
  }
  attempt->fd = -1;
  if (purpose == PURPOSE_TCP) {
    connected_lane(attempt, fd);
    return;
  }
  by_target_finish(target);
  by_visitor_exchange(target, fd);
}

static void greet_attempt(struct attempt *attempt, bool local) {
  struct by_connector *connector = attempt->target->connector;
  struct target *target = attempt->target;
  uint8_t hello[HELLO],
      lanes = attempt->lane ? (uint8_t)target->lanes : by_connector_lanes_to(connector->context, &attempt->to);
  attempt->greeted = target->greeting = true;
  if (!attempt->lane) target->lanes = local ? 1 : lanes;
  by_hello_write(&(struct hello){.from = connector->context->rank,
                                 .to = target->process,
                                 .lane = (uint8_t)attempt->lane,
                                 .lanes = (uint8_t)target->lanes},
                 hello);
  struct by_greet_options options = {.loop = connector->context->loop,
                                     .fd = attempt->fd,
                                     .packets = local,
                                     .patience = GREET_S * BY_SECOND,
                                     .handshake = {.role = BY_ROLE_CLIENT,
                                                   .purpose = local ? PURPOSE_LOCAL : PURPOSE_TCP,
                                                   .key = &connector->key,
                                                   .hello = hello,
                                                   .hello_length = sizeof hello},
                                     .done = attempt_greeted,
                                     .context = attempt};
  attempt->fd = -1;
  enum banyan_status status = by_greet_start(&options, &attempt->greet);
  if (status != BANYAN_OK) attempt_failed(attempt, status);
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
    attempt_failed(attempt, status);
    return;
  }
  attempt->connected = true;
  attempt->connected_at = by_loop_now(attempt->target->connector->context->loop);
  by_loop_cancel_timer(&attempt->late);
  if (attempt->lane || !attempt->target->greeting) greet_attempt(attempt, false);
}

static void attempt_late(void *context) {
  struct attempt *attempt = context;
  attempt_failed(attempt, by_fail(BANYAN_ERR_CONNECT, "no answer in time"));
}

static struct attempt *new_attempt(struct target *target, uint32_t lane) {
  struct attempt *attempt = calloc(1, sizeof *attempt);
  if (!attempt) {
    by_target_broken(target, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory"), "connecting could not begin");
    return NULL;
  }
  *attempt = (struct attempt){.next = target->attempts, .target = target, .fd = -1, .lane = lane};
  by_timer_init(&attempt->late, attempt_late, attempt);
  target->attempts = attempt;
  target->open++;
  return attempt;
}

static void connect_attempt(struct attempt *attempt, const struct by_address *to) {
  struct by_loop *loop = attempt->target->connector->context->loop;
  attempt->to = *to;
  enum banyan_status status = by_socket_connect_start(to, &attempt->fd);
  if (status == BANYAN_OK)
    status = by_loop_watch(loop, attempt->fd, EPOLLOUT, attempt_writable, attempt, &attempt->watch);
  if (status != BANYAN_OK) attempt_failed(attempt, status);
}

void by_attempt_race(struct target *target, const struct by_address *to) {
  struct attempt *attempt = new_attempt(target, 0);
  if (attempt) connect_attempt(attempt, to);
}

void by_attempt_connect_lane(struct target *target, uint32_t lane, const struct by_address *to) {
  struct attempt *attempt = new_attempt(target, lane);
  if (!attempt) return;
  if (by_address_compare(to, &target->winner))
    by_loop_set_delay(target->connector->context->loop, &attempt->late, OTHER_MS * BY_MILLISECOND);
  connect_attempt(attempt, to);
}

static void lane_again(void *context) {
  struct attempt *attempt = context;
  connect_attempt(attempt, &attempt->target->winner);
}

/* The other end had more connections than it takes at once; the link's patience ends this. */
static void retry_lane(struct target *target, uint32_t lane) {
  struct attempt *attempt = new_attempt(target, lane);
  if (!attempt) return;
  by_timer_init(&attempt->late, lane_again, attempt);
  by_loop_set_delay(target->connector->context->loop, &attempt->late, AGAIN_MS * BY_MILLISECOND);
}

void by_attempt_local(struct target *target) {
  struct attempt *attempt = new_attempt(target, 0);
  if (!attempt) return;
  const char *name = target->connector->context->members[target->process].local;
  enum banyan_status status = by_local_connect(name, &attempt->fd);
  if (status != BANYAN_OK)
    attempt_failed(attempt, status);
  else
    greet_attempt(attempt, true);
}

void by_attempts_free(struct target *target) {
  while (target->attempts) {
    struct attempt *attempt = target->attempts;
    target->attempts = attempt->next;
    free_attempt(attempt);
  }
}
