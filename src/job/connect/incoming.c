/* Incoming connections: those accepted, and our own local ones after their handshake, until they are lanes. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "descriptor.h"
#include "job_state.h"
#include "key_ring.h"
#include "log.h"
#include "refusal.h"
#include "socket.h"

/* A connection that a process made to us: its handshake, then for local ones the exchange of descriptors. */
struct incoming {
  LIST_ENTRY(incoming) entry;
  struct by_connector *connector;
  struct by_greet *greet; /* NULL: the handshake is over. */
  struct by_watch *watch;
  struct by_timer timeout;
  struct by_connect_target *target; /* Set once the process is known. */
  int fd;
  bool local, ours; /* ours: this side connected. */
  char peer[BY_ADDRESS_TEXT];
  int segment; /* The link's memory, if this side connected. */
};

static void free_incoming(struct incoming *in) {
  LIST_REMOVE(in, entry);
  by_greet_cancel(in->greet);
  by_loop_unwatch(in->watch);
  by_loop_cancel_timer(&in->timeout);
  if (in->segment >= 0) by_close(in->segment);
  if (in->fd >= 0) by_close(in->fd);
  free(in);
}

/* ---- over a local connection: descriptors */

/* Handles a failed exchange with a process of the job: without this connection there is no link. */
static void exchange_failed(struct incoming *in, enum banyan_status status) {
  struct by_connect_target *target = in->target;
  free_incoming(in);
  by_target_broken(target, status, "setting up shared memory failed");
}

static void incoming_late(void *context) {
  exchange_failed(context, by_fail(BANYAN_ERR_TIMEOUT, "the other side sent no descriptors in time"));
}

static struct incoming *new_incoming(struct by_connector *connector) {
  struct incoming *in = calloc(1, sizeof *in);
  if (!in) return NULL;
  *in = (struct incoming){.connector = connector, .fd = -1, .segment = -1};
  by_timer_init(&in->timeout, incoming_late, in);
  LIST_INSERT_HEAD(&connector->incoming, in, entry);
  return in;
}

static enum banyan_status send_descriptors(struct incoming *in, const char *what, const int *fds, size_t n) {
  bool sent = true;
  BY_TRY(by_local_send(in->fd, what, 1, fds, n, &sent));
  return sent ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "a local socket is full already");
}

/* Receives the peer's descriptors. *n = 0: they have not come yet. */
static enum banyan_status receive_descriptors(struct incoming *in, int *fds, size_t wanted, size_t *n) {
  size_t length;
  char byte;
  BY_TRY(by_local_receive(in->fd, &byte, 1, &length, fds, wanted, n));
  if (!length || *n == wanted) return BANYAN_OK;
  for (size_t i = 0; i < *n; i++) by_close(fds[i]);
  return by_fail(BANYAN_ERR_PROTOCOL, "%zu descriptors came instead of %zu", *n, wanted);
}

static void make_link(struct incoming *in, int segment, int wake) {
  struct by_connect_target *target = in->target;
  struct by_shm_ends ends = {.socket = in->fd, .segment = segment, .peer_wake = wake, .first = in->ours};
  by_loop_unwatch(in->watch);
  in->watch = NULL;
  in->fd = in->segment = -1;
  free_incoming(in);
  by_target_make_shm_link(target, &ends);
}

/* Continues the exchange: the side that connected sends its segment and wake; the other one answers with its wake. */
static void exchange_ready(void *context, uint32_t events) {
  struct incoming *in = context;
  int fds[2];
  size_t n;
  (void)events;
  enum banyan_status status = receive_descriptors(in, fds, in->ours ? 1 : 2, &n);
  if (status == BANYAN_OK && !n) return;
  if (status == BANYAN_OK && !in->ours) {
    status = send_descriptors(in, "w", &in->connector->job->wake, 1);
    for (size_t i = 0; status != BANYAN_OK && i < n; i++) by_close(fds[i]);
  }
  if (status != BANYAN_OK)
    exchange_failed(in, status);
  else if (in->ours)
    make_link(in, in->segment, fds[0]);
  else
    make_link(in, fds[0], fds[1]);
}

static enum banyan_status offer_segment(struct incoming *in) {
  const struct by_job *job = in->connector->job;
  in->segment = by_shm_segment(job->hosts.neighbours, job->members[job->rank].cores);
  if (in->segment < 0) return BANYAN_ERR_SYSTEM;
  int fds[2] = {in->segment, job->wake};
  return send_descriptors(in, "s", fds, 2);
}

static void begin_exchange(struct incoming *in) {
  struct by_loop *loop = in->connector->job->loop;
  enum banyan_status status = in->ours ? offer_segment(in) : BANYAN_OK;
  if (status == BANYAN_OK) status = by_loop_watch(loop, in->fd, EPOLLIN, exchange_ready, in, &in->watch);
  if (status != BANYAN_OK)
    exchange_failed(in, status);
  else
    by_loop_set_delay(loop, &in->timeout, TIMEOUT_S * BY_SECOND);
}

/* ---- accepted */

/* Checks the ticket: helpers and servers use the tickets for links that rank 0 has given them, and no process joins as
 * one of them without a ticket. */
static enum banyan_status check_ticket(const struct by_job *job, uint32_t from, uint8_t purpose,
                                       const uint8_t *ticket) {
  uint8_t expected[BY_TICKET_HEAD];
  bool helps = purpose & BY_PURPOSE_HELPER;
  if (helps != (from >= job->size))
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "%s connects %s the ticket of a helper or server",
                     by_job_name(job, from), helps ? "with" : "without");
  if (!helps) return BANYAN_OK;
  BY_TRY(by_links_ticket(job, from, expected));
  if (memcmp(ticket, expected, sizeof expected) == 0) return BANYAN_OK;
  return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "%s connects with the ticket of another one",
                   by_job_name(job, from));
}

static enum banyan_status check_hello(const struct incoming *in, uint8_t purpose, const uint8_t *ticket,
                                      const struct by_link_hello *theirs) {
  const struct by_job *job = in->connector->job;
  char byte;
  if ((purpose & ~BY_PURPOSE_HELPER) != (in->local ? PURPOSE_LOCAL : PURPOSE_TCP))
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL, "a connection for purpose %u", purpose);
  BY_TRY(check_ticket(job, theirs->from, purpose, ticket));
  if (theirs->from < job->rank || theirs->to != job->rank)
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL, "rank %u connects to rank %u at rank %u", theirs->from,
                     theirs->to, job->rank);
  /* The peer may have timed out while this process was held up; a link must not begin with a dead connection. */
  if (recv(in->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
    return by_fail(BANYAN_ERR_PEER_DEAD, "%s closed it again", by_job_name(in->connector->job, theirs->from));
  return BANYAN_OK;
}

/* Checks the peer's identity: whoever holds the job's key could otherwise take another rank's place. */
static enum banyan_status check_identity(const struct incoming *in, const struct by_link_hello *theirs,
                                         const struct by_tls *tls) {
  const struct by_job *job = in->connector->job;
  if (!tls || by_fingerprint_equal(&tls->fingerprint, &job->members[theirs->from].fingerprint)) return BANYAN_OK;
  return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                   "a process that is not %s connects as it: its key is not the one in the list of members",
                   by_job_name(job, theirs->from));
}

static void incoming_greeted(void *context, enum banyan_status status, const struct by_greeted *greeted) {
  struct incoming *in = context;
  struct by_link_hello theirs = {0};
  in->greet = NULL;
  in->fd = greeted->fd;
  if (status == BANYAN_OK) status = by_hello_read(in->connector->job, greeted->hello, greeted->length, &theirs);
  if (status == BANYAN_OK) status = check_hello(in, greeted->purpose, greeted->ticket, &theirs);
  if (status == BANYAN_OK) status = check_identity(in, &theirs, greeted->tls);
  if (status != BANYAN_OK) {
    bool given_up = status == BANYAN_ERR_PEER_DEAD && by_job_has_failed(in->connector->job); /* The job ends. */
    if (!greeted->unused && !given_up)
      by_repeats_warn(&in->connector->rejected, "net", in->peer, banyan_error_text(),
                      by_clock_to_seconds(by_loop_now(in->connector->job->loop)));
    by_tls_destroy(greeted->tls);
    free_incoming(in);
    return;
  }
  in->target = in->connector->targets[theirs.from];
  if (in->local) {
    begin_exchange(in);
  } else {
    struct by_connect_target *target = in->target;
    in->fd = -1;
    free_incoming(in);
    by_target_add_connection(target, &theirs, greeted);
  }
}

void by_incoming_accept(struct by_connector *connector, int fd, bool local) {
  struct incoming *in = new_incoming(connector);
  if (!in) {
    by_close(fd);
    return;
  }
  struct by_job_keys keys;
  uint8_t hello[HELLO];
  struct by_address peer;
  by_hello_write(
      &(struct by_link_hello){
          .from = connector->job->rank, .to = UINT32_MAX, .lanes = 1, .membership = connector->job->membership},
      hello);
  in->local = local;
  strcpy(in->peer, "a process of this host");
  if (!local && by_socket_get_peer(fd, &peer) == BANYAN_OK) by_address_print(&peer, in->peer);
  struct by_greet_options options = {
      .loop = connector->job->loop,
      .fd = fd,
      .packets = local,
      .timeout = GREET_S * BY_SECOND,
      .admission = local ? &connector->local_admission : &connector->tcp_admission,
      .handshake = {.role = BY_ROLE_SERVER,
                    .identity = connector->job->identity,
                    .encryption = local ? BY_ENCRYPT_OFF : by_encryption_of(connector->job->settings.encrypt),
                    .hello = hello,
                    .hello_length = sizeof hello},
      .done = incoming_greeted,
      .context = in};
  by_greet_get_keys(connector, UINT32_MAX, &keys);
  by_job_keys_use(&keys, true, &options.handshake);
  enum banyan_status status = by_greet_start(&options, &in->greet);
  explicit_bzero(&keys, sizeof keys);
  if (status != BANYAN_OK) {
    by_warn("net", "a connection was dropped: %s", banyan_error_text());
    free_incoming(in);
  }
}

void by_incoming_exchange(struct by_connect_target *target, int fd) {
  struct incoming *in = new_incoming(target->connector);
  if (!in) {
    by_close(fd);
    by_target_broken(target, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory"), "setting up shared memory failed");
    return;
  }
  in->fd = fd;
  in->target = target;
  in->local = in->ours = true;
  begin_exchange(in);
}

void by_incoming_free(struct by_connector *connector) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&connector->incoming)) free_incoming(LIST_FIRST(&connector->incoming));
}
