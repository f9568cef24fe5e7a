/* The handshake on a data connection, which reads not a byte beyond it. */
#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor.h"
#include "job_state.h"
#include "key_ring.h"
#include "large_loss.h"
#include "refusal.h"

struct by_greet {
  struct by_greet_options options;
  struct by_opening opening;
  struct by_watch *watch;
  struct by_timer timer;
  struct by_admission_entry admission;
  bool evicted; /* The connection was closed in favour of other connections. */
  void *hello;
};

enum { READ_MOST = 4096 };

static void free_greet(struct by_greet *greet, bool keep_fd) {
  by_admission_leave(&greet->admission);
  by_loop_unwatch(greet->watch);
  by_loop_cancel_timer(&greet->timer);
  by_opening_fini(&greet->opening);
  if (!keep_fd) by_close(greet->options.fd);
  free(greet->hello);
  free(greet);
}

void by_greet_cancel(struct by_greet *greet) {
  if (greet) free_greet(greet, false);
}

static void give_up(struct by_greet *greet, enum banyan_status status) {
  struct by_greet_options options = greet->options;
  bool unused = status == BANYAN_ERR_PEER_DEAD && !greet->evicted && by_opening_is_unused(&greet->opening);
  free_greet(greet, false);
  options.done(options.context, status, &(struct by_greeted){.fd = -1, .unused = unused});
}

static void succeed(struct by_greet *greet) {
  size_t length;
  const uint8_t *hello = by_handshake_hello(&greet->opening.handshake, &length);
  struct by_greet_options options = greet->options;
  uint8_t purpose = greet->opening.handshake.purpose, ticket[BY_TICKET_HEAD], *copy = malloc(length + 1);
  if (!copy) {
    give_up(greet, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a hello"));
    return;
  }
  memcpy(copy, hello, length);
  memcpy(ticket, greet->opening.handshake.ticket, sizeof ticket);
  struct by_tls *tls = by_opening_take_tls(&greet->opening);
  free_greet(greet, true);
  options.done(
      options.context, BANYAN_OK,
      &(struct by_greeted){
          .fd = options.fd, .tls = tls, .purpose = purpose, .ticket = ticket, .hello = copy, .length = length});
  free(copy);
}

/* Sends pending output. False: the connection broke. */
static bool send_output(struct by_greet *greet) {
  for (;;) {
    size_t length;
    const uint8_t *bytes = by_opening_output(&greet->opening, &length);
    if (!length) return true;
    ssize_t n = send(greet->options.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    by_opening_sent(&greet->opening, (size_t)n);
  }
}

/* Reads available input, but not what follows the handshake. */
static enum banyan_status take_input(struct by_greet *greet, bool *ended) {
  uint8_t bytes[READ_MOST];
  size_t used = 0;
  int peek = greet->options.packets ? 0 : MSG_PEEK;
  ssize_t n = recv(greet->options.fd, bytes, sizeof bytes, MSG_DONTWAIT | peek);
  *ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  if (n <= 0) return BANYAN_OK;
  enum banyan_status status = by_opening_feed(&greet->opening, bytes, (size_t)n, &used);
  if (!greet->options.packets && used && recv(greet->options.fd, bytes, used, MSG_DONTWAIT) != (ssize_t)used)
    return by_fail(BANYAN_ERR_PROTOCOL, "the connection lost bytes during the handshake");
  return status;
}

static void ready(void *context, uint32_t events) {
  struct by_greet *greet = context;
  bool ended = false;
  enum banyan_status status = BANYAN_OK;
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !by_opening_done(&greet->opening)) status = take_input(greet, &ended);
  if (by_opening_greeted(&greet->opening)) by_admission_greeted(&greet->admission);
  if (by_opening_proved(&greet->opening)) by_admission_leave(&greet->admission);
  bool sent = send_output(greet);
  if (status == BANYAN_OK && (ended || !sent))
    status = by_large_loss_add_hint(greet->options.fd, by_opening_ended(&greet->opening, false));
  size_t left;
  by_opening_output(&greet->opening, &left);
  if (status != BANYAN_OK)
    give_up(greet, status);
  else if (by_opening_done(&greet->opening) && !left)
    succeed(greet);
  else
    by_loop_change(greet->watch, EPOLLIN | (left ? EPOLLOUT : 0u));
}

static void too_late(void *context) {
  struct by_greet *greet = context;
  give_up(greet, greet->evicted ? by_refuse(BY_REFUSED_EVICTED, BANYAN_ERR_PEER_DEAD,
                                            "closed before it had authenticated, to make room for others")
                                : by_large_loss_add_hint(greet->options.fd, by_opening_ended(&greet->opening, true)));
}

static void evicted(void *context) {
  struct by_greet *greet = context;
  greet->evicted = true;
  by_loop_set_delay(greet->options.loop, &greet->timer, 0);
}

static enum banyan_status start(struct by_greet *greet) {
  struct by_handshake_options handshake = greet->options.handshake;
  greet->hello = malloc(handshake.hello_length + 1);
  if (!greet->hello) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a handshake");
  memcpy(greet->hello, handshake.hello, handshake.hello_length);
  handshake.hello = greet->hello;
  by_opening_init(&greet->opening, &handshake);
  enum banyan_status status = by_opening_start(&greet->opening, greet->options.fd);
  if (status == BANYAN_OK)
    status = by_loop_watch(greet->options.loop, greet->options.fd, EPOLLIN | EPOLLOUT, ready, greet, &greet->watch);
  if (status != BANYAN_OK) by_opening_fini(&greet->opening);
  return status;
}

enum banyan_status by_links_ticket(const struct by_job *job, uint32_t process, uint8_t *out) {
  const struct by_member *member = &job->members[process];
  return by_ticket_begin_links(&(struct by_ticket_subject){(uint8_t)member->kind, member->host}, process, out);
}

/* Returns the keys. Links between ranks use the job's current key; those of helpers and servers the membership's,
 * whatever has become of the tickets with which these joined. */
void by_greet_get_keys(const struct by_connector *connector, uint32_t process, struct by_job_keys *out) {
  const struct by_job *job = connector->job;
  uint32_t helper = process - job->size;
  if (job->role.kind == BY_MEMBER_RANK) {
    by_key_ring_get(job->keys, out);
    out->tickets = out->old_tickets = connector->links;
    return;
  }
  *out = (struct by_job_keys){.own = connector->links, .tickets = connector->links, .purpose = BY_PURPOSE_HELPER};
  memcpy(out->ticket, connector->ticket, sizeof out->ticket);
  if (process != UINT32_MAX && process >= job->size && helper < connector->n_helper_keys)
    out->own = connector->helper_keys[helper];
}

enum banyan_status by_greet_start(const struct by_greet_options *options, struct by_greet **out) {
  struct by_greet *greet = calloc(1, sizeof *greet);
  if (!greet) {
    by_close(options->fd);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a handshake");
  }
  greet->options = *options;
  by_timer_init(&greet->timer, too_late, greet);
  enum banyan_status status = start(greet);
  if (status != BANYAN_OK) {
    free(greet->hello);
    free(greet);
    by_close(options->fd);
    return status;
  }
  by_loop_set_delay(options->loop, &greet->timer, options->timeout);
  greet->admission = (struct by_admission_entry){.evicted = evicted, .context = greet};
  if (options->admission) by_admission_enter(options->admission, &greet->admission, options->fd);
  *out = greet;
  return BANYAN_OK;
}
