/* Receives, processes and sends the fragments of some grants of the user-space switch. */
#include "user_queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "datagram.h"
#include "descriptor.h"
#include "log.h"

/* ---- sockets that receive and send packets with others' addresses */

/* Sets a socket option. */
static enum banyan_status set_option(int fd, int level, int option, int value, const char *what) {
  if (setsockopt(fd, level, option, &value, sizeof value) == 0) return BANYAN_OK;
  return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno, "switch: no socket with %s",
                       what);
}

static enum banyan_status prepare_socket(int fd, bool is_ipv4, const char *interface) {
  BY_TRY(set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  if (is_ipv4) {
    BY_TRY(set_option(fd, SOL_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT (run as root)"));
    BY_TRY(set_option(fd, SOL_IP, IP_RECVTTL, 1, "IP_RECVTTL"));
  } else {
    BY_TRY(set_option(fd, SOL_IPV6, IPV6_TRANSPARENT, 1, "IPV6_TRANSPARENT (run as root)"));
    BY_TRY(set_option(fd, SOL_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
    BY_TRY(set_option(fd, SOL_IPV6, IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT"));
  }
  BY_TRY(by_datagram_prepare(fd));
  if (!interface || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
    return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: interface %s", interface);
}

/* Opens a socket for packets from one address and port to another on this interface; NULL: for sending only. */
static enum banyan_status open_socket(const char *interface, const struct by_udp_end *from,
                                      const struct by_udp_end *end, int *out) {
  struct by_address local, peer;
  char text[BY_ADDRESS_TEXT];
  by_address_set_host(&local, &end->address, end->port);
  by_address_set_host(&peer, &from->address, from->port);
  int fd = socket(by_address_family(&local), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *out = -1;
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket");
  enum banyan_status status = prepare_socket(fd, by_address_family(&local) == AF_INET, interface);
  if (status == BANYAN_OK && bind(fd, (struct sockaddr *)&local.storage, local.length))
    status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket for %s on %s", by_udp_end_print(end, text),
                           interface ? interface : "this host");
  if (status == BANYAN_OK && interface && connect(fd, (struct sockaddr *)&peer.storage, peer.length))
    status =
        by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no way to %s by %s", by_udp_end_print(from, text), interface);
  if (status == BANYAN_OK)
    *out = fd;
  else
    close(fd);
  return status;
}

/* ---- the queue */

enum {
  PASSING = BY_FRAGMENT_PORTS, /* Index, instead of a port, of sockets without an interface, whose packets take the
                                  host's routes. */
  INLET_LISTS,
  RANGES = BY_DATAGRAMS * BY_DATAGRAM_SEGMENTS
};

/* Receives packets that arrive at a port from one end for another, and sends packets by that port from the latter's UDP
 * port. */
struct inlet {
  struct by_queue *queue;
  uint32_t port;
  struct by_udp_end from, end;
  bool captured;
  uint32_t uses; /* Number of grants that use it. */
  bool waits;
  struct by_watch *watch; /* NULL for those that only send. */
  LIST_ENTRY(inlet) link;
  STAILQ_ENTRY(inlet) next_waiting;
  struct by_mailer mailer;
};

LIST_HEAD(inlets, inlet);

struct job {
  struct by_grant grant;
  struct by_hop_key key; /* Valid if the grant is keyed, like `windows`. */
  struct by_replay_window *windows;
  uint32_t n_inlets; /* Inlets that it uses, INLETS for each worker. */
  struct inlet *inlets[];
};

enum { INLETS = 4 };

struct group {
  uint32_t n;
  struct by_switch_target targets[BY_PLANE_MEMBERS];
};

/* Consecutive fragments with the same path. Their ranges are the last ones in use. */
struct run {
  struct by_verdict verdict;
  uint16_t group;
  struct by_datagram_path way;
  unsigned n, n_ranges;
  uint32_t size, bytes; /* Size of all fragments but the last; total. */
};

struct by_queue {
  struct by_loop *loop;
  bool has_thread; /* It has its own thread and loop. */
  pthread_t thread;
  const struct by_queue_options *options;
  struct by_cells cells;
  struct by_float_sums floats; /* From the first grant for them on. */
  struct job *jobs[1 << 16];
  struct group groups[BY_PLANE_GROUPS];
  struct inlets inlets[INLET_LISTS];
  struct inlet *last[INLET_LISTS]; /* The last one that has sent, or NULL. */
  STAILQ_HEAD(, inlet) waiting;    /* Inlets whose mailers have packets. */
  uint64_t events[BY_EVENTS];
  uint64_t datagrams, sent, unsent, expired; /* `sent`, `unsent`: without the mailers' counts. */
  uint32_t now;                              /* Time in ms of the datagrams that are being processed. */
  struct run run;
  unsigned used; /* Ranges in use. */
  struct iovec ranges[RANGES];
  struct by_mailbox mailbox;
};

static void flush_mailers(struct by_queue *queue) {
  struct inlet *inlet;
  while ((inlet = STAILQ_FIRST(&queue->waiting))) {
    STAILQ_REMOVE_HEAD(&queue->waiting, next_waiting);
    inlet->waits = false;
    (void)by_mailer_flush(&inlet->mailer);
  }
}

static bool can_send(const struct inlet *inlet, const struct by_datagram_path *way) {
  return inlet->end.port == way->from_port && by_host_is_ipv4(&inlet->end.address) == by_host_is_ipv4(&way->to);
}

/* Returns an inlet that sends from the packet's UDP port. If the packet is from none of the grants' ends, it returns
 * another one, since no end checks that. */
static struct inlet *inlet_for(struct by_queue *queue, uint32_t port, const struct by_datagram_path *way) {
  struct inlet *inlet = queue->last[port];
  if (inlet && can_send(inlet, way)) return inlet;
  LIST_FOREACH(inlet, &queue->inlets[port], link)
  if (can_send(inlet, way)) return queue->last[port] = inlet;
  return LIST_FIRST(&queue->inlets[port]);
}

static void send_run_to(struct by_queue *queue, uint32_t port, const struct by_datagram_path *way) {
  const struct run *run = &queue->run;
  struct inlet *inlet = port < INLET_LISTS ? inlet_for(queue, port, way) : NULL;
  if (!inlet) {
    queue->unsent += run->n;
    return;
  }
  by_mailer_add(&inlet->mailer, way, &queue->ranges[queue->used - run->n_ranges], run->n_ranges, run->size);
  if (inlet->waits) return;
  inlet->waits = true;
  STAILQ_INSERT_TAIL(&queue->waiting, inlet, next_waiting);
}

static void end_run(struct by_queue *queue) {
  struct run *run = &queue->run;
  if (run->n == 0) return;
  const struct group *group = &queue->groups[run->group];
  bool multicasts = run->verdict.kind == BY_VERDICT_MULTICAST;
  for (uint32_t i = 0; multicasts && i < group->n; i++) {
    struct by_datagram_path way = run->way;
    way.to = group->targets[i].address;
    way.to_port = group->targets[i].udp_port;
    send_run_to(queue, group->targets[i].port, &way);
  }
  if (!multicasts) send_run_to(queue, run->verdict.kind == BY_VERDICT_PASS ? PASSING : run->verdict.port, &run->way);
  run->n = 0;
}

/* Tells whether a fragment fits in the run's datagram, in which all fragments but the last have one size. */
static bool fits_run(const struct run *run, const struct run *next, uint32_t bytes) {
  const struct by_datagram_path *a = &run->way, *b = &next->way;
  return run->n > 0 && run->n < BY_DATAGRAM_SEGMENTS && run->bytes == run->n * run->size && bytes <= run->size &&
         run->bytes + bytes <= BY_DATAGRAM_MAX && run->verdict.kind == next->verdict.kind &&
         run->verdict.port == next->verdict.port && run->group == next->group &&
         IN6_ARE_ADDR_EQUAL(&a->from, &b->from) && IN6_ARE_ADDR_EQUAL(&a->to, &b->to) && a->from_port == b->from_port &&
         a->to_port == b->to_port && a->ttl == b->ttl && a->tos == b->tos;
}

/* Queues a fragment for sending. It stays in the memory where it was received. */
static void queue_fragment(struct by_queue *queue, const struct run *next, struct by_fragment *packet, uint32_t bytes) {
  if (queue->used == RANGES) {
    end_run(queue);
    flush_mailers(queue);
    queue->used = 0;
  }
  if (!fits_run(&queue->run, next, bytes)) {
    end_run(queue);
    queue->run = *next;
    queue->run.size = bytes;
  }
  struct run *run = &queue->run;
  unsigned before = run->n_ranges;
  run->n_ranges = by_ranges_append(&queue->ranges[queue->used - before], before, packet, bytes);
  queue->used += run->n_ranges - before;
  run->bytes += bytes;
  run->n++;
}

static const struct by_hop_key *job_key(const struct job *job) {
  return job && job->grant.keyed ? &job->key : NULL;
}

/* Processes a fragment. `marked`: the IP header reports congestion. */
static struct by_verdict process_fragment(struct by_queue *queue, const struct job *job, uint32_t from, bool marked,
                                          struct by_fragment *packet, uint32_t bytes) {
  const struct by_hop_key *key = job_key(job);
  if (!job) return by_switch_step(NULL, NULL, NULL, &queue->cells, packet, bytes, from, queue->now);
  if (!marked || by_fragment_verify(packet, bytes, key) != BY_FRAGMENT_SOUND)
    return by_switch_step(&job->grant, key, job->windows, &queue->cells, packet, bytes, from, queue->now);
  packet->flags |= BY_FRAGMENT_CE;
  return by_switch_pass(&job->grant, key, job->windows, &queue->cells, packet, from, queue->now);
}

static void handle_fragment(struct by_queue *queue, uint32_t from, const struct by_datagram_path *way,
                            struct by_fragment *packet, uint32_t bytes) {
  const struct job *job = bytes < sizeof *packet ? NULL : queue->jobs[packet->job];
  struct run next = {.verdict = process_fragment(queue, job, from, (way->tos & 3) == 3, packet, bytes), .way = *way};
  queue->events[next.verdict.event]++;
  if (next.verdict.kind == BY_VERDICT_DROP) return;
  if (job) next.group = job->grant.group;
  queue_fragment(queue, &next, packet, bytes);
}

/* Processes the fragments of a datagram, which are whole lines, and so aligned. If its segments are not, none is a
 * fragment. */
static void handle_datagram(struct by_queue *queue, const struct inlet *inlet, struct by_datagram datagram) {
  uint32_t n = datagram.size ? (datagram.n + datagram.size - 1) / datagram.size : 1;
  queue->datagrams++;
  datagram.path.to = inlet->end.address;
  datagram.path.to_port = inlet->end.port;
  if (datagram.size == 0 || datagram.size % BY_FRAGMENT_LINE) {
    queue->events[BY_EVENT_MALFORMED] += n;
    return;
  }
  if (datagram.path.ttl <= 1) {
    queue->expired += n;
    return;
  }
  datagram.path.ttl--;
  for (uint32_t at = 0; at < datagram.n; at += datagram.size) {
    uint32_t bytes = datagram.n - at < datagram.size ? datagram.n - at : datagram.size;
    handle_fragment(queue, inlet->port, &datagram.path, (struct by_fragment *)(void *)(datagram.bytes + at), bytes);
  }
}

static void inlet_ready(void *context, uint32_t events) {
  const struct inlet *inlet = context;
  struct by_queue *queue = inlet->queue;
  int n = by_mailbox_receive(&queue->mailbox, inlet->mailer.fd);
  queue->now = (uint32_t)(by_clock_coarse() / BY_MILLISECOND);
  for (int i = 0; i < n; i++) handle_datagram(queue, inlet, by_mailbox_get(&queue->mailbox, i));
  end_run(queue);
  flush_mailers(queue);
  queue->used = 0;
}

/* ---- inlets, which jobs share */

static struct by_capture_flow flow_of(const struct inlet *inlet) {
  struct by_capture_flow flow = {.from = inlet->from, .to = inlet->end};
  memcpy(flow.interface, inlet->queue->options->ports[inlet->port], IF_NAMESIZE);
  return flow;
}

static void close_inlet(struct inlet *inlet) {
  struct by_queue *queue = inlet->queue;
  if (inlet->captured) {
    struct by_capture_flow flow = flow_of(inlet);
    by_capture_drop(queue->options->capture, &flow);
  }
  if (queue->last[inlet->port] == inlet) queue->last[inlet->port] = NULL;
  by_loop_unwatch(inlet->watch);
  if (inlet->mailer.fd >= 0) close(inlet->mailer.fd);
  queue->sent += inlet->mailer.sent;
  queue->unsent += inlet->mailer.unsent;
  LIST_REMOVE(inlet, link);
  free(inlet);
}

static void release_inlet(struct inlet *inlet) {
  if (--inlet->uses == 0) close_inlet(inlet);
}

/* Opens the socket before the kernel delivers to it. */
static enum banyan_status open_inlet(struct inlet *inlet) {
  struct by_queue *queue = inlet->queue;
  if (inlet->port == PASSING) return open_socket(NULL, &inlet->from, &inlet->end, &inlet->mailer.fd);
  struct by_capture_flow flow = flow_of(inlet);
  BY_TRY(open_socket(flow.interface, &inlet->from, &inlet->end, &inlet->mailer.fd));
  BY_TRY(by_loop_watch(queue->loop, inlet->mailer.fd, EPOLLIN, inlet_ready, inlet, &inlet->watch));
  BY_TRY(by_capture_add(queue->options->capture, &flow));
  inlet->captured = true;
  return BANYAN_OK;
}

/* Finds or opens the inlet for these ends. */
static enum banyan_status add_inlet(struct by_queue *queue, struct job *job, uint32_t port,
                                    const struct by_udp_end *from, const struct by_udp_end *end) {
  struct inlet *inlet;
  LIST_FOREACH(inlet, &queue->inlets[port], link)
  if (by_udp_end_same(&inlet->from, from) && by_udp_end_same(&inlet->end, end)) {
    inlet->uses++;
    job->inlets[job->n_inlets++] = inlet;
    return BANYAN_OK;
  }
  inlet = calloc(1, sizeof *inlet);
  if (!inlet) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  inlet->queue = queue;
  inlet->port = port;
  inlet->from = *from;
  inlet->end = *end;
  inlet->uses = 1;
  inlet->mailer.fd = -1;
  LIST_INSERT_HEAD(&queue->inlets[port], inlet, link);
  enum banyan_status status = open_inlet(inlet);
  if (status == BANYAN_OK)
    job->inlets[job->n_inlets++] = inlet;
  else
    close_inlet(inlet);
  return status;
}

/* ---- grants */

/* Adds the inlets for packets from one end to the other. Packets that are forwarded without a grant leave from their
 * sender's port, too. */
static enum banyan_status add_flow(struct by_queue *queue, struct job *job, const struct by_plane_end *from,
                                   const struct by_plane_end *to) {
  struct by_udp_end nobody = {.port = 0}, passing = {in6addr_loopback, from->end.port};
  if (by_host_is_ipv4(&from->end.address)) passing.address = by_host_of_ipv4((struct in_addr){htonl(INADDR_LOOPBACK)});
  BY_TRY(add_inlet(queue, job, PASSING, &nobody, &passing));
  return add_inlet(queue, job, from->port, &from->end, &to->end);
}

static enum banyan_status add_flows(struct by_queue *queue, struct job *job, const struct by_plane_ends *ends) {
  for (uint32_t w = 0; w < ends->n_workers; w++) {
    BY_TRY(add_flow(queue, job, &ends->workers[w], &ends->server));
    BY_TRY(add_flow(queue, job, &ends->server, &ends->workers[w]));
  }
  return BANYAN_OK;
}

static void free_job(struct job *job) {
  if (!job) return;
  for (uint32_t i = 0; i < job->n_inlets; i++) release_inlet(job->inlets[i]);
  explicit_bzero(&job->key, sizeof job->key);
  free(job->windows);
  free(job);
}

/* ---- calls, which run on the queue's thread while the caller waits */

struct call {
  struct by_queue *queue;
  enum banyan_status (*run)(struct by_queue *queue, const struct call *call);
  const struct by_grant *grant;
  const struct by_plane_ends *ends;
  const struct by_switch_target *targets;
  struct by_plane_counts *counts;
  uint32_t number, n; /* Job, group or cell; targets or cells. */
  sem_t done;
  enum banyan_status status;
  char text[400]; /* Text of the error. */
};

static void run_call(void *context) {
  struct call *call = context;
  call->status = call->run(call->queue, call);
  snprintf(call->text, sizeof call->text, "%s", call->status == BANYAN_OK ? "" : banyan_error_text());
  (void)sem_post(&call->done);
}

static enum banyan_status perform_call(struct by_queue *queue, struct call *call) {
  if (!queue->has_thread) return call->run(queue, call);
  call->queue = queue;
  (void)sem_init(&call->done, 0, 0);
  enum banyan_status posted = by_loop_post(queue->loop, run_call, call);
  while (posted == BANYAN_OK && sem_wait(&call->done) && errno == EINTR) {
  }
  (void)sem_destroy(&call->done);
  if (posted != BANYAN_OK)
    return by_fail(BANYAN_ERR_SYSTEM, "switch: one of its queues has ended or is overloaded: restart the switch");
  return call->status == BANYAN_OK ? BANYAN_OK : by_fail(call->status, "%s", call->text);
}

static enum banyan_status run_grant(struct by_queue *queue, const struct call *call) {
  const struct by_grant *grant = call->grant;
  if (grant->dtype == BY_FRAGMENT_FLOAT32 && !queue->cells.floats) {
    by_float_sums_fini(&queue->floats); /* From a failed attempt. */
    BY_TRY(by_float_sums_init(&queue->floats, queue->cells.count));
    queue->cells.floats = &queue->floats;
  }
  struct job *before = queue->jobs[grant->job];
  struct job *job = calloc(1, sizeof *job + (size_t)INLETS * call->ends->n_workers * sizeof *job->inlets);
  if (!job) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  job->grant = *grant;
  enum banyan_status status = BANYAN_OK;
  if (grant->keyed) {
    job->key = *call->ends->key;
    job->windows =
        calloc(BY_REPLAY_SENDERS, sizeof *job->windows); /* Memory is used only when a worker sends probes. */
    if (!job->windows) status = by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  }
  if (status == BANYAN_OK) status = add_flows(queue, job, call->ends);
  if (status == BANYAN_OK) queue->jobs[grant->job] = job;
  free_job(status == BANYAN_OK ? before : job);
  return status;
}

enum banyan_status by_queue_grant(struct by_queue *queue, const struct by_grant *grant,
                                  const struct by_plane_ends *ends) {
  return perform_call(queue, &(struct call){.run = run_grant, .grant = grant, .ends = ends});
}

static enum banyan_status run_revoke(struct by_queue *queue, const struct call *call) {
  free_job(queue->jobs[call->number]);
  queue->jobs[call->number] = NULL;
  return BANYAN_OK;
}

enum banyan_status by_queue_revoke(struct by_queue *queue, uint16_t job) {
  return perform_call(queue, &(struct call){.run = run_revoke, .number = job});
}

static enum banyan_status run_set_group(struct by_queue *queue, const struct call *call) {
  memcpy(queue->groups[call->number].targets, call->targets, call->n * sizeof *call->targets);
  queue->groups[call->number].n = call->n;
  return BANYAN_OK;
}

enum banyan_status by_queue_set_group(struct by_queue *queue, uint16_t group, const struct by_switch_target *targets,
                                      uint32_t n) {
  return perform_call(queue, &(struct call){.run = run_set_group, .number = group, .targets = targets, .n = n});
}

static enum banyan_status run_clear(struct by_queue *queue, const struct call *call) {
  if (queue->cells.floats) by_float_sums_clear(queue->cells.floats, call->number, call->n);
  return BANYAN_OK;
}

enum banyan_status by_queue_clear(struct by_queue *queue, uint32_t base, uint32_t count) {
  return perform_call(queue, &(struct call){.run = run_clear, .number = base, .n = count});
}

static enum banyan_status run_count(struct by_queue *queue, const struct call *call) {
  struct by_plane_counts *out = call->counts;
  const struct inlet *inlet;
  for (int i = 0; i < BY_EVENTS; i++) out->events[i] += queue->events[i];
  out->datagrams += queue->datagrams;
  out->expired += queue->expired;
  out->sent += queue->sent;
  out->unsent += queue->unsent;
  for (int i = 0; i < INLET_LISTS; i++) LIST_FOREACH(inlet, &queue->inlets[i], link) {
      out->sent += inlet->mailer.sent;
      out->unsent += inlet->mailer.unsent;
    }
  return BANYAN_OK;
}

enum banyan_status by_queue_count(struct by_queue *queue, struct by_plane_counts *counts) {
  return perform_call(queue, &(struct call){.run = run_count, .counts = counts});
}

/* ---- beginning and end */

/* Runs the loop. Posted calls are run at the end, too, since callers wait for them; none is posted later. */
static void *queue_main(void *argument) {
  const struct by_queue *queue = argument;
  if (by_loop_run(queue->loop) != BANYAN_OK) by_error("switch", "a queue ended: %s", banyan_error_text());
  by_loop_close(queue->loop);
  return NULL;
}

static enum banyan_status start_thread(struct by_queue *queue) {
  BY_TRY(by_loop_create(&by_clock_system, &queue->loop));
  int error = by_thread_start(&queue->thread, queue_main, queue);
  if (!error) {
    queue->has_thread = true;
    return BANYAN_OK;
  }
  by_loop_destroy(queue->loop);
  return by_fail_errno(BANYAN_ERR_SYSTEM, error, "switch: no thread for a queue");
}

enum banyan_status by_queue_create(const struct by_queue_options *options, struct by_queue **out) {
  size_t bytes = (sizeof(struct by_queue) + 63) / 64 * 64;
  struct by_queue *queue = aligned_alloc(64, bytes);
  *out = NULL;
  if (!queue) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  memset(queue, 0, bytes);
  queue->options = options;
  queue->cells = options->cells;
  queue->loop = options->loop;
  STAILQ_INIT(&queue->waiting);
  by_mailbox_init(&queue->mailbox);
  enum banyan_status status = options->loop ? BANYAN_OK : start_thread(queue);
  if (status == BANYAN_OK)
    *out = queue;
  else
    free(queue);
  return status;
}

void by_queue_destroy(struct by_queue *queue) {
  if (!queue) return;
  if (queue->has_thread) {
    by_loop_stop(queue->loop);
    pthread_join(queue->thread, NULL);
  }
  for (int i = 0; i < 1 << 16; i++) free_job(queue->jobs[i]);
  if (queue->has_thread) by_loop_destroy(queue->loop);
  by_float_sums_fini(&queue->floats);
  free(queue);
}
