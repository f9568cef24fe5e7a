#include "serve.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "events.h"
#include "log.h"
#include "server.h"
#include "tree_message.h"
#include "udp.h"

enum { LOOKS_MS = 50, KEEN_US = 200 };

struct service;

/* One part in the job, and the tree that it is for. */
struct seat {
  struct service *service;
  pthread_t thread; /* joins */
  bool has_thread, over;
  _Atomic bool joined;
  struct by_context *context; /* NULL: could not join */
  enum banyan_status status;
  char text[1024];
  _Atomic int tos; /* -1: the system's */
  struct by_tree_message message;
  struct by_server *server; /* NULL: nobody has said which tree */
  struct by_udp_peer *workers[BY_FRAGMENT_WORKERS];
};

struct service {
  const struct by_serve_options *options;
  struct by_loop *loop; /* moves fragments, on the thread that called by_serve */
  struct by_udp *udp;
  struct by_watch *watch;
  struct by_timer again; /* what found no room in the socket */
  unsigned n;
  struct seat seats[BY_SERVE_TREES];
};

/* ---- fragments */

static void emit(void *context, const struct by_fragment *packet, int to) {
  const struct seat *seat = context;
  if (to != BY_SERVER_ALL) {
    by_udp_send(seat->workers[to], packet);
    return;
  }
  for (uint64_t left = seat->message.spread; left; left &= left - 1)
    by_udp_lend(seat->workers[__builtin_ctzll(left)], packet);
}

static void take(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct seat *seat = context;
  (void)now;
  by_server_take(seat->server, packet, bytes);
}

/* As long as something comes, and a little longer, as what comes next is often on its way. */
static void move(struct service *service) {
  uint64_t last = by_clock_now(&by_clock_system), now = last;
  while (now - last < KEEN_US * BY_MICROSECOND) {
    if (by_udp_progress(service->udp, now))
      last = now;
    else
      sched_yield();
    now = by_clock_now(&by_clock_system);
  }
  if (!by_udp_flush(service->udp)) by_loop_set_delay(service->loop, &service->again, BY_MILLISECOND);
}

static void ready(void *context, uint32_t events) {
  (void)events;
  move(context);
}

static void due(void *context) {
  move(context);
}

/* ---- trees */

static enum banyan_status make_server(struct seat *seat, struct by_server **out) {
  const struct by_tree_message *message = &seat->message;
  struct by_server_way ways[BY_FRAGMENT_WORKERS];
  for (uint32_t w = 0; w < message->workers; w++) {
    ways[w] = (struct by_server_way){.hops = message->ways[w].hops, .alone = message->ways[w].alone};
    memcpy(ways[w].stack, message->ways[w].stack, sizeof ways[w].stack);
    BY_TRY(by_udp_peer_create(seat->service->udp, &message->ways[w].address, &seat->workers[w]));
  }
  struct by_server_config config = {.job = message->job,
                                    .key = message->key,
                                    .workers = message->workers,
                                    .slots = message->slots,
                                    .lines = message->lines,
                                    .multicast = message->spread != 0,
                                    .exact = message->exact,
                                    .n_sets = message->n_sets,
                                    .secret = message->secret,
                                    .secret_bytes = sizeof message->secret,
                                    .ways = ways,
                                    .emit = emit,
                                    .context = seat};
  memcpy(config.sets, message->sets, sizeof config.sets);
  return by_server_create(&config, out);
}

static void fail(struct seat *seat, enum banyan_status status) {
  by_error("communicator", "a tree cannot be served: %s", banyan_error_text());
  by_control_failed(seat->context->control, status, seat->context->job.rank, banyan_error_text());
}

/* On the thread that moves fragments. */
static void begin(void *context) {
  struct seat *seat = context;
  enum banyan_status status = make_server(seat, &seat->server);
  if (status == BANYAN_OK) status = by_udp_listen(seat->service->udp, seat->message.job, take, seat);
  if (status != BANYAN_OK) fail(seat, status);
}

/* On the control thread. */
static enum banyan_status notified(void *context, const struct by_tree_message *message) {
  struct seat *seat = context;
  if (seat->message.workers) return by_fail(BANYAN_ERR_PROTOCOL, "this server has a tree already");
  seat->message = *message;
  return by_loop_post(seat->service->loop, begin, seat);
}

/* On the thread that moves fragments. */
static void mark(void *context) {
  struct seat *seat = context;
  by_udp_set_mark(seat->service->udp, &(struct by_mark){atomic_load(&seat->tos), -1});
}

/* While it joins, or on the control thread. */
static void marked(void *context, const struct by_mark *how) {
  struct seat *seat = context;
  if (atomic_exchange(&seat->tos, how->tos) == how->tos) return;
  if (by_loop_post(seat->service->loop, mark, seat) != BANYAN_OK)
    by_warn("communicator", "what this server sends keeps its ToS: %s", banyan_error_text());
}

static void report(const struct seat *seat) {
  const struct by_server_counters *c = by_server_counters(seat->server);
  by_info("innetwork",
          "server of tree %u: %" PRIu64 " results, %" PRIu64 " asked for again, %" PRIu64 " probes; %" PRIu64
          " terms, of them %" PRIu64 " sums, %" PRIu64 " unmerged; %" PRIu64 " twice, %" PRIu64 " overlapping, %" PRIu64
          " wrong",
          seat->message.job, c->results, c->repeated, c->probes, c->terms, c->merged, c->unmerged, c->duplicates,
          c->overlapping, c->failed_checks);
}

static void end_seat(struct seat *seat) {
  if (seat->server) {
    by_udp_forget(seat->service->udp, seat->message.job);
    report(seat);
  }
  by_context_release(seat->context);
  for (uint32_t w = 0; w < BY_FRAGMENT_WORKERS; w++) by_udp_peer_destroy(seat->workers[w]);
  by_server_destroy(seat->server); /* whose results they were lent */
}

/* ---- the job */

/* Each seat joins on a thread of its own, as rank 0 answers when all have come. */
static void *join_main(void *argument) {
  struct seat *seat = argument;
  struct service *service = seat->service;
  struct by_job_role part = {.kind = BY_MEMBER_SERVER,
                             .udp_port = by_udp_port(service->udp),
                             .serve = notified,
                             .mark = marked,
                             .context = seat};
  seat->status = by_context_create(&service->options->joining, &part, &by_context_events, &seat->context);
  snprintf(seat->text, sizeof seat->text, "%s", banyan_error_text());
  atomic_store(&seat->joined, true);
  by_loop_wake(service->loop);
  return NULL;
}

static enum banyan_status sit_down(struct service *service) {
  for (unsigned i = 0; i < service->n; i++) {
    struct seat *seat = &service->seats[i];
    int error = pthread_create(&seat->thread, NULL, join_main, seat);
    if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread to join the job");
    seat->has_thread = true;
  }
  return BANYAN_OK;
}

static void look_at(struct seat *seat) {
  struct by_context *context = seat->context;
  if (!context) {
    seat->over = true;
    return;
  }
  by_context_lock(context);
  seat->status = by_engine_status(context->job.engine);
  if (seat->status != BANYAN_OK) snprintf(seat->text, sizeof seat->text, "%s", by_engine_error(context->job.engine));
  seat->over = seat->status != BANYAN_OK || by_control_is_over(context->control);
  by_context_unlock(context);
}

static bool all_over(struct service *service) {
  unsigned over = 0;
  for (unsigned i = 0; i < service->n; i++) {
    struct seat *seat = &service->seats[i];
    if (!seat->over && atomic_load(&seat->joined)) look_at(seat);
    over += seat->over;
  }
  return over == service->n;
}

static enum banyan_status serve(struct service *service, volatile sig_atomic_t *stop) {
  BY_TRY(by_loop_watch(service->loop, by_udp_fd(service->udp), EPOLLIN, ready, service, &service->watch));
  BY_TRY(sit_down(service));
  while (!*stop && !all_over(service)) BY_TRY(by_loop_run_once(service->loop, LOOKS_MS * BY_MILLISECOND));
  for (unsigned i = 0; i < service->n; i++)
    if (service->seats[i].status != BANYAN_OK) return by_fail(service->seats[i].status, "%s", service->seats[i].text);
  return BANYAN_OK;
}

static enum banyan_status open_service(struct service *service) {
  int port = service->options->udp_port;
  BY_TRY(by_loop_create(&by_clock_system, &service->loop));
  BY_TRY(by_udp_create(port, true, &service->udp));
  if (by_udp_port(service->udp) != port)
    by_warn("communicator", "UDP port %d is taken; on port %d, switches add for this server only if they know it", port,
            by_udp_port(service->udp));
  by_timer_init(&service->again, due, service);
  service->n = service->options->trees;
  for (unsigned i = 0; i < service->n; i++) {
    service->seats[i].service = service;
    atomic_init(&service->seats[i].tos, -1);
  }
  return BANYAN_OK;
}

static void close_service(struct service *service) {
  for (unsigned i = 0; i < service->n; i++)
    if (service->seats[i].has_thread) pthread_join(service->seats[i].thread, NULL);
  if (service->loop) by_loop_close(service->loop); /* its tasks are about the seats */
  for (unsigned i = 0; i < service->n; i++) end_seat(&service->seats[i]);
  by_loop_unwatch(service->watch);
  by_loop_cancel_timer(&service->again);
  by_loop_destroy(service->loop);
  by_udp_destroy(service->udp);
  free(service);
}

enum banyan_status by_serve(const struct by_serve_options *options, volatile sig_atomic_t *stop) {
  if (options->trees < 1 || options->trees > BY_SERVE_TREES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u trees to serve: give 1 to %d", options->trees, BY_SERVE_TREES);
  struct service *service = calloc(1, sizeof *service);
  char text[1024];
  if (!service) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  service->options = options;
  enum banyan_status status = open_service(service);
  if (status == BANYAN_OK) status = serve(service, stop);
  snprintf(text, sizeof text, "%s", banyan_error_text());
  close_service(service);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}
