/* Accepts connections with TLS, limits what each certificate may send, and drives the manager, its planner and its
 * store. */
#include "manager_server.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "acceptor.h"
#include "cost.h"
#include "descriptor.h"
#include "json_doc.h"
#include "log.h"
#include "manager_discovery.h"
#include "plan_request.h"
#include "socket.h"
#include "stream.h"

enum {
  TICKS = 4,          /* Ticks in an interval. */
  CONNECTIONS = 4096, /* Maximum of authenticated connections. */
  UNAUTHENTICATED = 256,
  MAX_OF_ONE = 256, /* Maximum of connections with one certificate. */
  QUEUED = 2 * BY_CLUSTER_LINE_DOWN,
};
static const double goodbye = 2;      /* Seconds in which a refused peer can read why. */
static const double retry_after = 10; /* Seconds after which the state's file is tried again. */

struct connection {
  TAILQ_ENTRY(connection) entry;
  struct by_manager_server *server;
  struct by_stream *stream;
  struct by_manager_peer *peer; /* NULL: not authenticated yet, or refused. */
  struct holder *holder;        /* Owner of its certificate; NULL: not authenticated yet. */
  bool agent;                   /* The manager has accepted it as the agent of the certificate's host. */
  double closes;                /* When it is closed; 0: not. */
};

/* The owner of a certificate, whose limits apply to all of its connections together. */
struct holder {
  LIST_ENTRY(holder) entry;
  struct by_tls_subject who;
  uint32_t n; /* Number of connections. */
  struct by_budget budget;
};

/* A thread that makes plans, so that the loop does not wait for them. It runs one request at a time. */
struct worker {
  struct by_manager_server *server;
  pthread_t thread;
  bool has_thread;
  struct by_plan_request *request; /* NULL: idle. */
};

struct by_manager_server {
  struct by_manager_server_options options;
  struct by_loop *loop;
  struct by_manager *manager;
  bool ready; /* It has a topology; before that only agents' reports count. */
  struct by_manager_topology *topology;
  struct by_manager_store *store;
  struct worker *workers; /* The planner threads, options.threads of them; NULL until the manager starts. */
  struct by_acceptor *acceptor;
  struct by_address bound;
  struct by_timer tick;
  double began; /* Seconds since 1970 at time 0 of the loop's clock. */
  double renewed;
  TAILQ_HEAD(, connection) connections;
  uint32_t n_connections;
  struct by_admission admission;
  struct by_repeats rejected;
  LIST_HEAD(, holder) holders;
};

static double now_of(const struct by_manager_server *server) {
  return server->began + by_clock_to_seconds(by_loop_now(server->loop));
}

/* ---- agents' reports about the network */

static void handle_agent(struct connection *c, const struct by_cluster_message *message) {
  struct by_manager_server *server = c->server;
  if (message->type == BY_MESSAGE_HELLO) c->agent = !message->job;
  if (!c->agent || (message->type != BY_MESSAGE_HELLO && message->type != BY_MESSAGE_REPORT)) return;
  by_manager_topology_handle(server->topology, c->holder->who.name, message,
                             by_manager_cells_held(server->manager, c->holder->who.name));
}

static void part_from_agent(struct connection *c) {
  if (!c->agent) return;
  c->agent = false;
  by_manager_topology_part(c->server->topology, c->holder->who.name);
}

/* ---- connections */

static void leave_manager(struct connection *c) {
  if (c->peer) by_manager_gone(c->server->manager, c->peer, now_of(c->server));
  c->peer = NULL;
  part_from_agent(c);
}

static void end_connection(struct connection *c) {
  struct by_manager_server *server = c->server;
  leave_manager(c);
  if (c->holder) c->holder->n--;
  server->n_connections--;
  TAILQ_REMOVE(&server->connections, c, entry);
  by_stream_destroy(c->stream);
  free(c);
}

/* Closes a connection at the next tick, since callers may still use it. */
static void close_soon(struct connection *c, double wait) {
  if (!c->closes) c->closes = now_of(c->server) + wait;
}

static void send_line(struct connection *c, const struct by_cluster_message *message) {
  struct by_text line = by_cluster_message_line(message);
  if (line.failed || by_stream_send(c->stream, 0, by_text_get(&line), line.length) != BANYAN_OK) {
    by_warn("manager", "%s is let go: %s", by_stream_get_name(c->stream), banyan_error_text());
    close_soon(c, 0);
  }
  by_text_fini(&line);
}

/* Plans and cells are stored before they are sent, so that a restarted manager gives none of them twice. */
static void send_message(void *context, void *connection, const struct by_cluster_message *message) {
  struct by_manager_server *server = context;
  bool is_stored = message->type == BY_MESSAGE_PLAN || message->type == BY_MESSAGE_CELLS;
  if (is_stored && server->store) by_manager_store_commit(server->store);
  send_line(connection, message);
}

static void keep_row(void *context, const struct by_manager_row *row) {
  struct by_manager_server *server = context;
  if (server->store) by_manager_store_keep(server->store, row);
}

static void refuse_peer(struct connection *c, const char *why) {
  char message[BY_CLUSTER_REASON], line[BY_CLUSTER_REASON + BY_ADDRESS_TEXT + 16];
  const char *name = by_stream_get_name(c->stream);
  by_keep_printable(why, message, sizeof message);
  snprintf(line, sizeof line, "%s is refused: %s", name, message);
  by_repeats_warn(&c->server->rejected, "manager", name, line, now_of(c->server));
  send_line(c, &(struct by_cluster_message){.type = BY_MESSAGE_REFUSED, .why = message});
  leave_manager(c);
  by_stream_refuse(c->stream);
  close_soon(c, goodbye);
}

static enum banyan_status handle_line(struct connection *c, const void *line, size_t length) {
  struct by_cluster_message message;
  if (!by_budget_take(&c->holder->budget, length, now_of(c->server))) {
    by_manager_count_refused(c->server->manager);
    return by_fail(BANYAN_ERR_PROTOCOL, "more is sent with one certificate than %.0f lines or %.0f bytes a second",
                   by_budget_of_peer.lines_a_second, by_budget_of_peer.bytes_a_second);
  }
  enum banyan_status status = by_cluster_message_read(line, length, &message);
  if (status != BANYAN_OK) {
    by_manager_count_refused(c->server->manager);
    return status;
  }
  /* Messages about jobs before there is a topology are ignored; agents send them again when there is one. */
  if (c->server->ready || message.type == BY_MESSAGE_HELLO || message.type == BY_MESSAGE_REPORT)
    status = by_manager_handle(c->server->manager, c->peer, &message, now_of(c->server));
  if (status == BANYAN_OK) handle_agent(c, &message);
  by_cluster_message_fini(&message);
  return status;
}

static void handle_frame(void *context, uint16_t type, const void *line, size_t length) {
  struct connection *c = context;
  (void)type;
  if (c->peer && handle_line(c, line, length) != BANYAN_OK) refuse_peer(c, banyan_error_text());
}

/* Removes the owners of closed connections once their budget is full, so that reconnecting does not increase it. */
static void forget_holders(struct by_manager_server *server) {
  for (struct holder *holder = LIST_FIRST(&server->holders), *next; holder; holder = next) {
    next = LIST_NEXT(holder, entry);
    if (holder->n || !by_budget_is_full(&holder->budget, now_of(server))) continue;
    LIST_REMOVE(holder, entry);
    free(holder);
  }
}

static struct holder *find_holder(struct by_manager_server *server, const struct by_tls_subject *who) {
  struct holder *holder = LIST_FIRST(&server->holders);
  while (holder && (holder->who.role != who->role || strcmp(holder->who.name, who->name) != 0))
    holder = LIST_NEXT(holder, entry);
  if (holder) holder->who.expires = who->expires; /* The certificate may have been renewed. */
  if (holder || !(holder = calloc(1, sizeof *holder))) return holder;
  *holder = (struct holder){.who = *who, .budget = by_budget_full(&by_budget_of_peer, now_of(server))};
  LIST_INSERT_HEAD(&server->holders, holder, entry);
  return holder;
}

static enum banyan_status admit_peer(struct connection *c, const struct by_tls_subject *who) {
  struct by_manager_server *server = c->server;
  enum by_manager_role as = who->role == BY_TLS_AGENT ? BY_ROLE_AGENT : BY_ROLE_JOB;
  if (!(c->holder = find_holder(server, who))) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a connection");
  if (++c->holder->n > MAX_OF_ONE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%d connections are there already with the certificate of %s \"%s\"",
                   MAX_OF_ONE, by_tls_role_name(who->role), who->name);
  return by_manager_joined(server->manager, c, as, who->name, now_of(server), &c->peer);
}

static void handle_opened(void *context, uint8_t role, const void *name, size_t length) {
  struct connection *c = context;
  (void)role;
  (void)name;
  (void)length;
  if (admit_peer(c, by_stream_get_subject(c->stream)) == BANYAN_OK) return;
  by_manager_count_refused(c->server->manager);
  refuse_peer(c, banyan_error_text());
}

static void handle_ended(void *context, enum banyan_status status, const char *reason) {
  struct connection *c = context;
  if (!by_stream_get_subject(c->stream)) { /* The peer never authenticated. */
    by_manager_count_refused(c->server->manager);
    by_repeats_warn(&c->server->rejected, "manager", by_stream_get_name(c->stream), reason, now_of(c->server));
  } else if (status != BANYAN_ERR_PEER_DEAD)
    by_warn("manager", "%s", reason);
  end_connection(c);
}

static void handle_accepted(void *context, int fd) {
  struct by_manager_server *server = context;
  struct connection *c = calloc(1, sizeof *c);
  struct by_tls_options tls = {
      .identity = server->options.identity, .server = true, .peers = BY_TLS_AGENT | BY_TLS_JOB};
  struct by_stream_options of_stream = {.loop = server->loop,
                                        .fd = fd,
                                        .tls = &tls,
                                        .admission = &server->admission,
                                        .max_frame = BY_CLUSTER_LINE_DOWN,
                                        .max_queued = QUEUED,
                                        .max_line = BY_CLUSTER_LINE_UP,
                                        .quiet = true,
                                        .opened = handle_opened,
                                        .frame = handle_frame,
                                        .ended = handle_ended,
                                        .context = c};
  bool full = server->n_connections - by_admission_count(&server->admission) >= CONNECTIONS;
  if (!c || full) {
    by_manager_count_refused(server->manager);
    free(c);
    by_close(fd);
    return;
  }
  (void)!by_socket_set_keepalive(fd, 1, 1, 3); /* Detects within 4 s that a host has vanished. */
  c->server = server;
  if (by_stream_create(&of_stream, &c->stream) != BANYAN_OK) {
    by_warn("manager", "a connection is refused: %s", banyan_error_text());
    free(c);
    return;
  }
  TAILQ_INSERT_TAIL(&server->connections, c, entry);
  server->n_connections++;
}

/* ---- plans */

static void *run_request(void *argument);

static void join_thread(struct worker *worker) {
  if (worker->has_thread) pthread_join(worker->thread, NULL);
  worker->has_thread = false;
}

/* Begins a request on each idle thread. */
static void start_requests(struct by_manager_server *server) {
  double now = now_of(server);
  for (unsigned i = 0; i < server->options.threads && !by_manager_topology_next(server->topology); i++) {
    struct worker *worker = &server->workers[i];
    if (worker->has_thread) continue;
    if (!worker->request && !by_manager_next(server->manager, now, &worker->request)) return;
    int error = by_thread_start(&worker->thread, run_request, worker);
    worker->has_thread = !error;
    if (error) by_repeats_warn(&server->rejected, "manager", "a thread for the planner", strerror(error), now);
  }
}

static bool is_planning(const struct by_manager_server *server) {
  unsigned i = 0;
  while (i < server->options.threads && !server->workers[i].has_thread) i++;
  return i < server->options.threads;
}

/* Discards requests that wait for a thread. */
static void discard_requests(struct by_manager_server *server) {
  for (unsigned i = 0; i < server->options.threads; i++) {
    struct worker *worker = &server->workers[i];
    if (worker->has_thread) continue;
    by_plan_request_destroy(worker->request);
    worker->request = NULL;
  }
}

static enum banyan_status make_workers(struct by_manager_server *server) {
  server->workers = calloc((size_t)server->options.threads + 1, sizeof *server->workers);
  if (!server->workers) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the planner's threads");
  for (unsigned i = 0; i < server->options.threads; i++) server->workers[i].server = server;
  return BANYAN_OK;
}

/* Waits for plans in the making, discards them, and closes the loop. */
static void free_workers(struct by_manager_server *server) {
  if (!server->workers) return;
  for (unsigned i = 0; i < server->options.threads; i++) join_thread(&server->workers[i]);
  by_loop_close(server->loop); /* Nothing that was posted refers to the threads any more. */
  discard_requests(server);
  free(server->workers);
}

/* ---- another topology: the manager is replaced as if it was restarted, but in the same process */

static void restore_row(void *context, const struct by_manager_row *row) {
  struct by_manager_server *server = context;
  by_manager_restore(server->manager, row, now_of(server));
}

/* Makes agents, and ranks without one, connect and send everything again. */
static void renew_connections(struct by_manager_server *server) {
  static const struct by_cluster_message again = {.type = BY_MESSAGE_AGAIN};
  struct connection *c;
  TAILQ_FOREACH(c, &server->connections, entry) {
    if (!c->peer) continue;
    c->peer = NULL; /* The old manager frees it. */
    bool agent = c->agent;
    part_from_agent(c);
    if (agent) send_line(c, &again);
    close_soon(c, agent ? goodbye : 0);
  }
}

/* Creates a manager with the next topology, which knows only the stored rows. While these cannot be written, the old
 * topology stays. */
static void use_next(struct by_manager_server *server) {
  struct by_manager_options options = server->options.manager;
  struct by_manager *fresh, *before = server->manager;
  options.topology = by_manager_topology_next(server->topology);
  if (!options.topology || is_planning(server) || by_manager_store_lost(server->store)) return;
  if (by_manager_create(&options, now_of(server), &fresh) != BANYAN_OK) {
    by_repeats_warn(&server->rejected, "manager", "another topology", banyan_error_text(), now_of(server));
    return;
  }
  by_manager_store_commit(server->store);
  discard_requests(server);
  server->manager = fresh;
  server->options.manager = options;
  if (by_manager_store_load(server->store, restore_row, server) != BANYAN_OK)
    by_error("manager", "%s", banyan_error_text());
  server->ready = true;
  renew_connections(server);
  by_manager_destroy(before);
  by_manager_topology_advance(server->topology, server->store);
  server->options.changed(server->options.context, options.topology);
}

/* The thread of a request has ended. */
static void finish_request(void *context) {
  struct worker *worker = context;
  struct by_manager_server *server = worker->server;
  struct by_plan_request *request = worker->request;
  join_thread(worker);
  worker->request = NULL;
  by_manager_planned(server->manager, request, now_of(server));
  use_next(server);
  start_requests(server);
}

static void *run_request(void *argument) {
  struct worker *worker = argument;
  by_plan_request_run(worker->request);
  (void)!by_loop_post(worker->server->loop, finish_request, worker); /* It fails only if the loop ends. */
  return NULL;
}

static void topology_composed(void *context) {
  use_next(context);
}

static void topology_rejected(void *context, const char *why) {
  const struct by_manager_server *server = context;
  server->options.rejected(server->options.context, why);
}

/* ---- timer */

/* Stores the numbers of revocation lists, so that no older list is accepted after a restart. */
static void keep_lists(struct by_manager_server *server) {
  struct by_tls_list lists[BY_TLS_LISTS];
  uint32_t n = server->store ? by_tls_identity_lists(server->options.identity, lists, BY_TLS_LISTS) : 0;
  for (uint32_t i = 0; i < n; i++)
    if (lists[i].number >= 0) by_manager_store_keep_list(server->store, lists[i].authority, lists[i].number);
  if (server->store) by_manager_store_commit(server->store);
}

static void renew_store(struct by_manager_server *server, double now) {
  if (!server->store || !by_manager_store_lost(server->store) || now - server->renewed < retry_after) return;
  server->renewed = now;
  if (server->ready) {
    by_manager_store_renew(server->store);
    by_manager_keep_all(server->manager);
    by_manager_topology_keep(server->topology, server->store);
  } else {
    by_manager_store_retry(server->store); /* The stored rows are loaded once there is a topology. */
  }
  keep_lists(server);
  by_manager_store_commit(server->store);
  if (!by_manager_store_lost(server->store)) by_info("manager", "the state is kept again");
}

static void tick_server(void *context) {
  struct by_manager_server *server = context;
  double now = now_of(server);
  for (struct connection *c = TAILQ_FIRST(&server->connections), *next; c; c = next) {
    next = TAILQ_NEXT(c, entry);
    if (c->closes && now >= c->closes) end_connection(c);
  }
  forget_holders(server);
  by_manager_tick(server->manager, now);
  use_next(server);
  start_requests(server);
  by_repeats_flush(&server->rejected, "manager", now);
  by_log_report_omitted();
  if (server->store) by_manager_store_commit(server->store);
  renew_store(server, now);
  by_loop_set_delay(server->loop, &server->tick, by_clock_from_seconds(server->options.manager.interval / TICKS));
}

/* ---- state */

static void print_certificate(const char *before, enum by_tls_role role, const char *name, int64_t expires,
                              struct by_text *text) {
  by_text_add(text, "%s{\"role\":\"%s\",\"name\":", before, by_tls_role_name(role));
  by_json_add_string(text, name);
  by_text_add(text, ",\"expires\":%lld}", (long long)expires);
}

/* Prints agents' reports, and certificates: its own, and those of connected peers. */
static void print_more(void *context, struct by_text *text) {
  const struct by_manager_server *server = context;
  const struct by_tls_identity *own = server->options.identity;
  int revoked = own->revoked;
  by_manager_topology_print(server->topology, text);
  print_certificate(",\"certificates\":[", BY_TLS_MANAGER, own->subject.name, own->expires, text);
  for (const struct holder *holder = LIST_FIRST(&server->holders); holder; holder = LIST_NEXT(holder, entry))
    if (holder->n) print_certificate(",", holder->who.role, holder->who.name, holder->who.expires, text);
  by_text_add(text, "],\"revoked\":%d", revoked > 0 ? revoked : 0);
}

/* ---- beginning and end */

static enum banyan_status check_lists(struct by_manager_server *server) {
  struct by_tls_list known[BY_TLS_LISTS];
  uint32_t n = by_tls_identity_lists(server->options.identity, known, BY_TLS_LISTS);
  for (uint32_t i = 0; i < n; i++) {
    BY_TRY(by_manager_store_get_list(server->store, known[i].authority, &known[i].number));
    if (by_tls_identity_check_list(server->options.identity, &known[i]) != BANYAN_OK)
      return by_fail(BANYAN_ERR_AUTH, "%s; to believe all that it named, name another file with --state",
                     banyan_error_text());
  }
  return BANYAN_OK;
}

static enum banyan_status open_store(struct by_manager_server *server) {
  BY_TRY(by_manager_store_open(server->options.state, &server->store));
  BY_TRY(check_lists(server));
  keep_lists(server);
  return server->ready ? by_manager_store_load(server->store, restore_row, server) : BANYAN_OK;
}

static double now_of_server(const void *context) {
  return now_of(context);
}

static enum banyan_status begin_topology(struct by_manager_server *server) {
  struct by_manager_server_options *o = &server->options;
  const struct by_manager_topology_options options = {.loop = server->loop,
                                                      .written = o->manager.topology,
                                                      .trust = o->trust,
                                                      .now = now_of_server,
                                                      .composed = topology_composed,
                                                      .rejected = topology_rejected,
                                                      .context = server};
  server->ready = options.written;
  o->manager.discovers = !options.written;
  BY_TRY(by_manager_topology_create(&options, &server->topology));
  o->manager.topology = by_manager_topology_get(server->topology);
  return BANYAN_OK;
}

static enum banyan_status start_server(struct by_manager_server *server) {
  struct by_manager_server_options *o = &server->options;
  struct timespec wall;
  int listener;
  clock_gettime(CLOCK_REALTIME, &wall);
  server->began = (double)wall.tv_sec + (double)wall.tv_nsec * 1e-9 - by_clock_to_seconds(by_loop_now(server->loop));
  o->manager.send = send_message;
  o->manager.keep = keep_row;
  o->manager.print_more = print_more;
  o->manager.context = server;
  BY_TRY(begin_topology(server));
  BY_TRY(by_manager_create(&o->manager, now_of(server), &server->manager));
  BY_TRY(open_store(server));
  BY_TRY(make_workers(server));
  if (!server->ready) by_manager_topology_restore(server->topology, server->store);
  BY_TRY(by_socket_listen(&o->at, (struct by_port_range){0, 0}, &listener, &server->bound));
  return by_acceptor_create(server->loop, listener, handle_accepted, server, &server->acceptor);
}

enum banyan_status by_manager_server_create(const struct by_manager_server_options *options,
                                            struct by_manager_server **out) {
  struct by_manager_server *server = calloc(1, sizeof *server);
  if (!server) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the manager");
  server->options = *options;
  by_machine_costs_use(&server->options.manager.rates);
  server->loop = options->loop;
  TAILQ_INIT(&server->connections);
  by_admission_init(&server->admission, UNAUTHENTICATED);
  by_timer_init(&server->tick, tick_server, server);
  enum banyan_status status = start_server(server);
  if (status != BANYAN_OK) {
    by_manager_server_destroy(server);
    return status;
  }
  by_loop_set_delay(server->loop, &server->tick, 0);
  *out = server;
  return BANYAN_OK;
}

void by_manager_server_destroy(struct by_manager_server *server) {
  if (!server) return;
  by_loop_cancel_timer(&server->tick);
  by_acceptor_destroy(server->acceptor);
  by_repeats_flush(&server->rejected, "manager", INFINITY);
  by_log_flush();
  free_workers(server);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!TAILQ_EMPTY(&server->connections)) end_connection(TAILQ_FIRST(&server->connections));
  for (struct holder *holder; (holder = LIST_FIRST(&server->holders)); free(holder)) LIST_REMOVE(holder, entry);
  by_manager_destroy(server->manager);
  by_manager_topology_destroy(server->topology);
  by_manager_store_close(server->store);
  free(server);
}

static void verify_again(struct connection *c) {
  struct by_manager_server *server = c->server;
  if (!by_stream_get_subject(c->stream)) /* The old identity's verification is in progress. */
    end_connection(c);
  else if (c->peer && by_stream_judge_again(c->stream, server->options.identity) != BANYAN_OK) {
    by_manager_count_refused(server->manager);
    refuse_peer(c, banyan_error_text());
  }
}

void by_manager_server_use(struct by_manager_server *server, const struct by_tls_identity *identity) {
  server->options.identity = identity;
  keep_lists(server);
  for (struct connection *c = TAILQ_FIRST(&server->connections), *next; c; c = next) {
    next = TAILQ_NEXT(c, entry);
    verify_again(c);
  }
}

void by_manager_server_judge(struct by_manager_server *server) {
  int64_t now = time(NULL);
  bool authority = now >= server->options.identity->expires; /* The authority's or its own certificate has expired. */
  for (struct connection *c = TAILQ_FIRST(&server->connections), *next; c; c = next) {
    next = TAILQ_NEXT(c, entry);
    const struct by_tls_subject *subject = by_stream_get_subject(c->stream);
    if (subject && (authority || now >= subject->expires)) verify_again(c);
  }
}

struct by_address by_manager_server_get_address(const struct by_manager_server *server) {
  return server->bound;
}

struct by_manager_counters by_manager_server_get_counters(const struct by_manager_server *server) {
  return by_manager_get_counters(server->manager);
}

void by_manager_server_state(const struct by_manager_server *server, struct by_text *text) {
  by_manager_state(server->manager, now_of(server), text);
}
