/* Connections between processes of elastic groups, which are made on demand and closed when idle. */
#include "member_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "descriptor.h"
#include "key_ring.h"
#include "log.h"
#include "socket.h"
#include "stream.h"

enum {
  PURPOSE_MEMBER = 'M',
  BUCKETS = 1024,
  MOST_FRAME = 4 << 20, /* Maximum bytes of a frame; a welcome to the largest membership has 2.3 MB. */
  MOST_QUEUED = 2 * MOST_FRAME,
  WAITING_MOST = 64,     /* Maximum frames that wait for one connection. */
  UNAUTHENTICATED = 256, /* Maximum connections in their handshake. */
  VISITORS_MOST = 1024,  /* Maximum processes that are known only because they have connected. */
  ACCEPTED_MOST = 4,     /* Maximum connections accepted from one process. */
  CONNECT_S = 4,         /* Seconds to connect to one address, with the handshake. */
  IDLE_S = 30
};

/* A frame that waits for a connection. */
struct waiting {
  STAILQ_ENTRY(waiting) next;
  uint16_t type;
  size_t length;
  uint8_t payload[];
};

/* Another process. */
struct peer {
  LIST_ENTRY(peer) next; /* Links the processes of one bucket. */
  struct by_member_links *links;
  struct by_handle handle;
  struct by_arena arena;
  const char *text;
  LIST_HEAD(, link) connections;
  STAILQ_HEAD(, waiting) waiting;
  uint32_t n_waiting;
  uint32_t next_address; /* Index of the address to try next. */
  bool dials, visits;    /* visits: the process is known only because it has connected. */
  char why[512];         /* Why the last address could not be used. */
  struct by_timer retry;
};

/* A connection. */
struct link {
  LIST_ENTRY(link) next, of_peer;
  struct by_member_links *links;
  struct peer *peer; /* NULL for an accepted connection until its hello has arrived. */
  struct by_stream *stream;
  bool dialed, open;
  uint64_t used;
  uint8_t *hello; /* This process's hello; NULL once the connection is open. */
  struct by_stated stated;
};

struct by_member_links {
  struct by_member_links_options options;
  struct by_key_ring *keys; /* A reference is held. */
  struct by_acceptor *acceptor;
  struct by_admission admission;
  struct by_repeats rejected;
  struct by_timer idle;
  struct by_host_trust *trust;
  LIST_HEAD(, peer) buckets[BUCKETS];
  LIST_HEAD(, link) all; /* All connections. */
  uint32_t n_visitors;
};

/* ---- processes */

static uint32_t bucket_of(const struct by_fingerprint *fingerprint) {
  return (uint32_t)(by_get_u64(fingerprint->bytes) % BUCKETS);
}

static struct peer *find(const struct by_member_links *links, const struct by_fingerprint *fingerprint) {
  struct peer *peer;
  LIST_FOREACH(peer, &links->buckets[bucket_of(fingerprint)], next)
  if (by_fingerprint_equal(&peer->handle.fingerprint, fingerprint)) return peer;
  return NULL;
}

static void forget_waiting(struct peer *peer) {
  for (struct waiting *frame; (frame = STAILQ_FIRST(&peer->waiting));) {
    STAILQ_REMOVE_HEAD(&peer->waiting, next);
    free(frame);
  }
  peer->n_waiting = 0;
}

static void free_peer(struct peer *peer) {
  forget_waiting(peer);
  by_loop_cancel_timer(&peer->retry);
  by_arena_fini(&peer->arena);
  LIST_REMOVE(peer, next);
  peer->links->n_visitors -= peer->visits;
  free(peer);
}

static void dial(void *argument);

/* Forgets a process that is known only because it had connected. Returns false if there is none that may be forgotten.
 */
static bool forget_visitor(struct by_member_links *links) {
  const struct by_member_links_events *events = &links->options.events;
  struct peer *peer;
  for (uint32_t i = 0; i < BUCKETS; i++) LIST_FOREACH(peer, &links->buckets[i], next)
  if (peer->visits && !peer->dials && LIST_EMPTY(&peer->connections) &&
      !events->keeps(events->context, &peer->handle.fingerprint)) {
    free_peer(peer);
    return true;
  }
  return false;
}

/* Adds or finds a process. `visits`: it is known only because it has connected; BANYAN_ERR_CONNECT if there are too
 * many such processes. */
static enum banyan_status learn(struct by_member_links *links, const char *handle, bool visits, struct peer **out) {
  struct peer *peer = calloc(1, sizeof *peer);
  if (!peer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a member");
  by_arena_init(&peer->arena);
  enum banyan_status status = by_handle_parse(by_key_ring_job(links->keys), handle, &peer->arena, &peer->handle);
  peer->text = status == BANYAN_OK ? by_arena_string(&peer->arena, handle) : NULL;
  if (status == BANYAN_OK && !peer->text) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a member");
  struct peer *known = status == BANYAN_OK ? find(links, &peer->handle.fingerprint) : NULL;
  if (status == BANYAN_OK && !known && visits && links->n_visitors >= VISITORS_MOST && !forget_visitor(links))
    status = by_fail(BANYAN_ERR_CONNECT, "%d processes that are no members are connected here, and no more can be",
                     VISITORS_MOST);
  if (status != BANYAN_OK || known) {
    by_arena_fini(&peer->arena);
    free(peer);
    *out = known;
    return status;
  }
  peer->links = links;
  peer->visits = visits;
  links->n_visitors += visits;
  STAILQ_INIT(&peer->waiting);
  by_timer_init(&peer->retry, dial, peer);
  LIST_INSERT_HEAD(&links->buckets[bucket_of(&peer->handle.fingerprint)], peer, next);
  *out = peer;
  return BANYAN_OK;
}

enum banyan_status by_member_links_learn(struct by_member_links *links, const char *handle,
                                         struct by_fingerprint *fingerprint) {
  struct peer *peer;
  BY_TRY(learn(links, handle, false, &peer));
  links->n_visitors -= peer->visits;
  peer->visits = false;
  if (fingerprint) *fingerprint = peer->handle.fingerprint;
  return BANYAN_OK;
}

const char *by_member_links_handle(const struct by_member_links *links, const struct by_fingerprint *fingerprint) {
  const struct peer *peer = find(links, fingerprint);
  return peer ? peer->text : NULL;
}

const struct by_handle *by_member_links_find(const struct by_member_links *links,
                                             const struct by_fingerprint *fingerprint) {
  const struct peer *peer = find(links, fingerprint);
  return peer ? &peer->handle : NULL;
}

static struct link *find_open(const struct peer *peer) {
  struct link *link;
  LIST_FOREACH(link, &peer->connections, of_peer)
  if (link->open) return link;
  return NULL;
}

void by_member_links_prune(struct by_member_links *links) {
  const struct by_member_links_events *events = &links->options.events;
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct peer *peer = LIST_FIRST(&links->buckets[i]), *next; peer; peer = next) {
      next = LIST_NEXT(peer, next);
      if (!peer->dials && LIST_EMPTY(&peer->connections) && !events->keeps(events->context, &peer->handle.fingerprint))
        free_peer(peer);
    }
}

/* ---- connections */

static void free_link(struct link *link) {
  by_stream_destroy(link->stream);
  by_stated_fini(&link->stated);
  free(link->hello);
  LIST_REMOVE(link, next);
  if (link->peer) LIST_REMOVE(link, of_peer);
  free(link);
}

/* Closes the oldest accepted connection of a process that has made too many; the process may have lost it unnoticed by
 * this end. */
static void limit_accepted(struct peer *peer) {
  struct link *link, *oldest = NULL;
  uint32_t n = 0;
  LIST_FOREACH(link, &peer->connections, of_peer)
  if (!link->dialed) oldest = link, n++;
  /* Unlisted processes get one, since anyone with the job's key can connect as many. */
  uint32_t most = peer->visits ? 1 : ACCEPTED_MOST;
  if (n <= most) return;
  by_info("member", "process %u on host %s has made more than %u connection%s: the oldest is closed",
          peer->handle.member.pid, peer->handle.member.host, most, most == 1 ? "" : "s");
  free_link(oldest);
}

/* Sends the frames that waited for the connection. */
static void flush(struct link *link) {
  struct waiting *frame;
  STAILQ_FOREACH(frame, &link->peer->waiting, next)
  (void)!by_stream_send(link->stream, frame->type, frame->payload, frame->length);
  forget_waiting(link->peer);
}

/* Whether the peer is not the process that it claims to be or that was dialed, or wants to reach another process than
 * this. Checked before its handle is kept, since anyone with the job's key can make a handle with another process's
 * fingerprint. */
static bool is_another(const struct link *link, const struct by_fingerprint *claimed, const struct by_fingerprint *to) {
  const struct by_fingerprint *proved = by_stream_get_fingerprint(link->stream);
  if (proved && !by_fingerprint_equal(proved, claimed)) return true;
  if (link->dialed) return !by_fingerprint_equal(claimed, &link->peer->handle.fingerprint);
  return !by_fingerprint_equal(to, &link->links->options.self->fingerprint);
}

static enum banyan_status check_host(struct link *link, const struct by_handle *claimed,
                                     const struct by_member_hello *hello) {
  return by_host_trust_check(link->links->trust,
                             &(struct by_trust_peer){.process = by_stream_get_fingerprint(link->stream),
                                                     .host = claimed->member.host,
                                                     .statement = hello->statement,
                                                     .length = hello->statement_length},
                             &link->stated);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct link *link = context;
  struct by_member_links *links = link->links;
  struct by_arena scratch;
  struct by_member_hello read;
  struct by_handle claimed;
  struct peer *peer = NULL;
  by_arena_init(&scratch);
  enum banyan_status status = by_member_hello_read(hello, length, &scratch, &read);
  if (status == BANYAN_OK && purpose != PURPOSE_MEMBER)
    status = by_fail(BANYAN_ERR_PROTOCOL, "it is no connection between members of groups");
  if (status == BANYAN_OK) status = by_handle_parse(by_key_ring_job(links->keys), read.handle, &scratch, &claimed);
  bool wrong = status == BANYAN_OK && is_another(link, &claimed.fingerprint, &read.to);
  bool judged = status == BANYAN_OK && !wrong;
  if (judged) status = check_host(link, &claimed, &read);
  bool distrusted = judged && status != BANYAN_OK;
  if (status == BANYAN_OK && !wrong) status = learn(links, read.handle, true, &peer);
  by_arena_fini(&scratch);
  if (wrong) status = by_fail(BANYAN_ERR_CONNECT, "another process has its place");
  if (status == BANYAN_OK && by_fingerprint_equal(&peer->handle.fingerprint, &links->options.self->fingerprint))
    status = by_fail(BANYAN_ERR_CONNECT, "it is this process");
  if (status != BANYAN_OK) {
    if (distrusted || links->n_visitors >= VISITORS_MOST)
      by_repeats_warn(&links->rejected, "member", by_stream_get_name(link->stream), banyan_error_text(),
                      by_clock_to_seconds(by_loop_now(links->options.loop)));
    else
      by_debug("member", "a connection with %s is of no use: %s", by_stream_get_name(link->stream),
               banyan_error_text());
    struct peer *dialed = link->dialed ? link->peer : NULL;
    if (dialed)
      snprintf(dialed->why, sizeof dialed->why, "%s: %s", by_stream_get_name(link->stream), banyan_error_text());
    free_link(link);
    if (dialed && dialed->dials) dial(dialed);
    return;
  }
  if (!link->dialed) LIST_INSERT_HEAD(&peer->connections, link, of_peer);
  link->peer = peer;
  limit_accepted(peer);
  link->open = true;
  free(link->hello);
  link->hello = NULL;
  link->used = by_loop_now(links->options.loop);
  peer->dials = false;
  by_loop_cancel_timer(&peer->retry);
  bool silent = STAILQ_EMPTY(&peer->waiting);
  flush(link);
  if (!by_timer_is_set(&links->idle)) by_loop_set_delay(links->options.loop, &links->idle, IDLE_S * BY_SECOND);
  struct by_fingerprint to = peer->handle.fingerprint;
  links->options.events.reached(links->options.events.context, &to, silent);
}

static void frame_came(void *context, uint16_t type, const void *payload, size_t length) {
  struct link *link = context;
  struct by_member_links *links = link->links;
  struct by_fingerprint from = link->peer->handle.fingerprint;
  link->used = by_loop_now(links->options.loop);
  links->options.events.frame(links->options.events.context, &from, type, payload, length);
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct link *link = context;
  struct by_member_links *links = link->links;
  struct peer *peer = link->peer;
  bool open = link->open, dialed = link->dialed;
  if (!peer && !by_stream_is_unused(link->stream))
    by_repeats_warn(&links->rejected, "member", by_stream_get_name(link->stream), reason,
                    by_clock_to_seconds(by_loop_now(links->options.loop)));
  (void)status;
  if (peer && !open) snprintf(peer->why, sizeof peer->why, "%s", reason);
  free_link(link);
  if (!peer) return;
  if (!open && dialed) {
    if (peer->dials) dial(peer); /* Try the next address. */
    return;
  }
  struct by_fingerprint to = peer->handle.fingerprint;
  if (!open) return;
  if (find_open(peer)) /* The other connection can carry what this one has lost. */
    links->options.events.reached(links->options.events.context, &to, true);
  else
    links->options.events.lost(links->options.events.context, &to);
}

/* Ends connections to hosts whose agents' certificates were revoked or have expired. */
static void looked(void *context) {
  struct by_member_links *links = context;
  struct link *link;
  LIST_FOREACH(link, &links->all, next) {
    if (!link->open || by_host_trust_judge(links->trust, &link->stated) == BANYAN_OK) continue;
    by_warn("member", "the connection with process %u on host %s ends: %s", link->peer->handle.member.pid,
            link->peer->handle.member.host, banyan_error_text());
    by_stated_fini(&link->stated);
    (void)shutdown(by_stream_get_fd(link->stream), SHUT_RDWR); /* The loop then reports the end of the connection. */
  }
}

void by_member_links_judge(struct by_member_links *links) {
  by_host_trust_look(links->trust);
}

/* Returns NULL if memory is exhausted. */
static uint8_t *make_hello(const struct by_member_links *links, const struct peer *peer, size_t *length) {
  uint8_t statement[BY_STATEMENT_MAX];
  struct by_member_hello hello = {.handle = links->options.handle, .statement = statement};
  struct by_writer writer;
  hello.statement_length = by_own_statement_get(links->options.statement, statement, NULL);
  if (peer) hello.to = peer->handle.fingerprint;
  by_writer_init(&writer, NULL, 0);
  by_member_hello_write(&writer, &hello);
  *length = writer.length;
  uint8_t *bytes = malloc(*length);
  if (!bytes) return NULL;
  by_writer_init(&writer, bytes, *length);
  by_member_hello_write(&writer, &hello);
  return bytes;
}

/* Creates a connection, which owns the descriptor also after a failure. `connecting` is NULL for an accepted one. */
static enum banyan_status make_link(struct by_member_links *links, int fd, const struct by_address *connecting,
                                    struct peer *peer) {
  struct link *link = calloc(1, sizeof *link);
  struct by_job_keys keys;
  size_t length = 0;
  uint8_t *hello = link ? make_hello(links, peer, &length) : NULL;
  if (!hello) {
    free(link);
    by_close(fd);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection");
  }
  *link = (struct link){.links = links, .peer = peer, .dialed = connecting, .hello = hello};
  struct by_handshake_options handshake = {.role = connecting ? BY_ROLE_CLIENT : BY_ROLE_SERVER,
                                           .purpose = PURPOSE_MEMBER,
                                           .encryption = links->options.encryption,
                                           .identity = links->options.identity,
                                           .expected = peer ? &peer->handle.fingerprint : NULL,
                                           .hello = hello,
                                           .hello_length = length};
  struct by_stream_options options = {.loop = links->options.loop,
                                      .fd = fd,
                                      .connecting = connecting,
                                      .handshake = &handshake,
                                      .admission = connecting ? NULL : &links->admission,
                                      .timeout = connecting ? CONNECT_S * BY_SECOND : 0,
                                      .max_frame = MOST_FRAME,
                                      .max_queued = MOST_QUEUED,
                                      .quiet = true,
                                      .opened = opened,
                                      .frame = frame_came,
                                      .ended = ended,
                                      .context = link};
  (void)!by_socket_set(fd, BY_SOCKET_NODELAY, 1);
  (void)!by_socket_set_vigilant(fd, links->options.silence);
  by_key_ring_get(links->keys, &keys);
  by_job_keys_use(&keys, false, &handshake);
  enum banyan_status status = by_stream_create(&options, &link->stream);
  explicit_bzero(&keys, sizeof keys);
  if (status != BANYAN_OK) {
    free(hello);
    free(link);
    return status;
  }
  LIST_INSERT_HEAD(&links->all, link, next);
  if (peer) LIST_INSERT_HEAD(&peer->connections, link, of_peer);
  return BANYAN_OK;
}

static void accepted(void *context, int fd) {
  if (make_link(context, fd, NULL, NULL) != BANYAN_OK)
    by_warn("member", "a connection was dropped: %s", banyan_error_text());
}

/* Loopback addresses are usable only by processes in the same network namespace. */
static bool is_usable(const struct peer *peer, const struct by_address *address) {
  return !by_address_is_loopback(address) ||
         by_member_same_network(&peer->handle.member, &peer->links->options.self->member);
}

/* Connects to the next address; reports the process as unreachable if there is none. */
static void dial(void *argument) {
  struct peer *peer = argument;
  struct by_member_links *links = peer->links;
  const struct by_member *member = &peer->handle.member;
  while (peer->next_address < member->n_addresses) {
    struct by_address address = member->addresses[peer->next_address++];
    int fd;
    if (!is_usable(peer, &address)) continue;
    by_address_set_port(&address, (int)peer->handle.service_port);
    enum banyan_status status = by_socket_connect_start(&address, &fd);
    if (status == BANYAN_OK) status = make_link(links, fd, &address, peer);
    if (status == BANYAN_OK) return;
    snprintf(peer->why, sizeof peer->why, "%s", banyan_error_text());
  }
  struct by_fingerprint to = peer->handle.fingerprint;
  char text[1024];
  snprintf(text, sizeof text, "process %u on host %s: %s", member->pid, member->host,
           peer->why[0] ? peer->why : "no address of it can be used from here");
  peer->dials = false;
  forget_waiting(peer);
  links->options.events.unreachable(links->options.events.context, &to, text);
}

static void begin_to_dial(struct peer *peer) {
  if (peer->dials) return;
  peer->dials = true;
  peer->next_address = 0;
  peer->why[0] = 0;
  /* Dial from the loop, so that no event is reported from within a call. */
  by_loop_set_delay(peer->links->options.loop, &peer->retry, 0);
}

static void keep_for_later(struct peer *peer, uint16_t type, const void *payload, size_t length) {
  struct waiting *frame = peer->n_waiting < WAITING_MOST ? malloc(sizeof *frame + length) : NULL;
  if (!frame) return;
  *frame = (struct waiting){.type = type, .length = length};
  if (length) memcpy(frame->payload, payload, length);
  STAILQ_INSERT_TAIL(&peer->waiting, frame, next);
  peer->n_waiting++;
}

void by_member_links_send(struct by_member_links *links, const struct by_fingerprint *to, uint16_t type,
                          const void *payload, size_t length) {
  struct peer *peer = find(links, to);
  if (!peer) return;
  struct link *link = find_open(peer);
  if (link) {
    link->used = by_loop_now(links->options.loop);
    if (by_stream_send(link->stream, type, payload, length) != BANYAN_OK)
      by_debug("member", "a message to %s was dropped: %s", by_stream_get_name(link->stream), banyan_error_text());
    return;
  }
  keep_for_later(peer, type, payload, length);
  begin_to_dial(peer);
}

void by_member_links_probe(struct by_member_links *links, const struct by_fingerprint *to) {
  struct peer *peer = find(links, to);
  if (peer && !find_open(peer)) begin_to_dial(peer);
}

enum by_member_link by_member_links_state(const struct by_member_links *links, const struct by_fingerprint *to) {
  const struct peer *peer = find(links, to);
  if (peer && find_open(peer)) return BY_LINK_OPEN;
  return peer && peer->dials ? BY_LINK_BEGUN : BY_LINK_NONE;
}

void by_member_links_close(struct by_member_links *links, const struct by_fingerprint *to) {
  struct peer *peer = find(links, to);
  if (!peer) return;
  for (struct link *link = LIST_FIRST(&links->all), *next; link; link = next) {
    next = LIST_NEXT(link, next);
    if (link->peer == peer) free_link(link);
  }
  peer->dials = false;
  by_loop_cancel_timer(&peer->retry);
  forget_waiting(peer);
}

/* Closes idle connections that this process has made. The end that accepted a connection does not close it, so that no
 * message is lost unnoticed in a connection that is being closed. */
static void close_idle(void *context) {
  struct by_member_links *links = context;
  uint64_t now = by_loop_now(links->options.loop);
  bool left = false;
  for (struct link *link = LIST_FIRST(&links->all), *next; link; link = next) {
    next = LIST_NEXT(link, next);
    bool idle = link->open && link->dialed && now - link->used >= IDLE_S * BY_SECOND && !by_stream_queued(link->stream);
    if (idle)
      free_link(link);
    else
      left |= link->dialed;
  }
  if (left) by_loop_set_delay(links->options.loop, &links->idle, IDLE_S * BY_SECOND);
}

/* ---- life */

enum banyan_status by_member_links_create(const struct by_member_links_options *options, struct by_member_links **out) {
  struct by_member_links *links = calloc(1, sizeof *links);
  if (!links) {
    by_close(options->listener);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for connections");
  }
  links->options = *options;
  links->keys = by_key_ring_hold(options->keys);
  by_admission_init(&links->admission, UNAUTHENTICATED);
  by_timer_init(&links->idle, close_idle, links);
  enum banyan_status status = by_acceptor_create(options->loop, options->listener, accepted, links, &links->acceptor);
  if (status == BANYAN_OK)
    status = by_host_trust_create(options->loop, options->statement, looked, links, &links->trust);
  if (status == BANYAN_OK)
    *out = links;
  else
    by_member_links_destroy(links);
  return status;
}

void by_member_links_destroy(struct by_member_links *links) {
  if (!links) return;
  by_acceptor_destroy(links->acceptor);
  for (struct link *link = LIST_FIRST(&links->all), *next; link; link = next) {
    next = LIST_NEXT(link, next);
    free_link(link);
  }
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (struct peer *peer = LIST_FIRST(&links->buckets[i]), *next; peer; peer = next) {
      next = LIST_NEXT(peer, next);
      free_peer(peer);
    }
  by_loop_cancel_timer(&links->idle);
  by_host_trust_destroy(links->trust);
  by_key_ring_destroy(links->keys);
  free(links);
}
