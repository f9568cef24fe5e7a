/* Runs an agent: connects it to ranks, to the manager, to interfaces and to its child processes. */
#include "agent_daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "acceptor.h"
#include "address.h"
#include "host_links.h"
#include "log.h"
#include "loop.h"
#include "socket.h"
#include "statement.h"
#include "stream.h"
#include "tls_identity.h"

enum {
  RANK_QUEUED = 2 * BY_CLUSTER_LINE_DOWN,
  MANAGER_QUEUED = 8 * BY_CLUSTER_LINE_UP,
  SILENT_MS = 15000 /* Milliseconds without an acknowledgement of data to the manager. */
};

static const uint64_t close_timeout = 5 * BY_SECOND; /* Time for a refused process to read why. */
static const uint64_t hello_timeout = 10 * BY_SECOND;
static const uint64_t timeout = 5 * BY_SECOND; /* Timeout for resolving the manager's name, and for connecting. */
static const uint64_t check_interval = 20 * BY_MILLISECOND; /* Interval of checks whether the name is resolved. */

/* A connection of a rank or another process. */
struct incoming {
  LIST_ENTRY(incoming) entry;
  struct by_agent_daemon *daemon;
  struct by_stream *stream;
  struct by_agent_rank *rank; /* NULL: it is being ended. */
  uid_t uid;                  /* User of the process. */
  struct by_timer deadline;   /* Deadline of hello, and later of its end. */
};

/* The connection to the manager: one attempt at a time, when the agent requests it. */
struct manager_link {
  struct by_tls_watch *keys; /* NULL: there is no manager. */
  struct by_resolving *resolving;
  unsigned tries; /* Attempts so far, which try its addresses in turn. */
  struct by_timer look;
  uint64_t give_up_at; /* Deadline of resolving the name. */
  struct by_stream *stream;
  int64_t shown;         /* Expiry of the certificate with which the stream was opened. */
  struct by_timer judge; /* Verifies the stream again after the files have changed. */
};

struct by_agent_daemon {
  struct by_agent_daemon_options options;
  struct by_agent *agent;
  struct by_host_links *links;
  struct by_link_neighbours *neighbours;
  struct by_netlink sockets; /* Reads the traffic of helpers' sockets. */
  struct manager_link manager;
  struct by_acceptor *acceptor;
  struct by_watch *news;
  struct by_timer tick;
  LIST_HEAD(, incoming) incoming_connections;
  struct by_helper_processes helpers;
};

static uint64_t now_of(const struct by_agent_daemon *daemon) {
  return by_loop_now(daemon->options.loop);
}

/* Sets the timer after anything that may have changed the agent's next time. */
static void set_tick(struct by_agent_daemon *daemon) {
  by_loop_set_timer(daemon->options.loop, &daemon->tick, by_agent_next(daemon->agent));
}

static void tick_agent(void *context) {
  struct by_agent_daemon *daemon = context;
  by_host_links_set_queues(daemon->links);
  by_agent_tick(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

/* ---- ranks */

static void drop_incoming(struct incoming *incoming) {
  LIST_REMOVE(incoming, entry);
  by_loop_cancel_timer(&incoming->deadline);
  by_stream_destroy(incoming->stream);
  free(incoming);
}

/* Ends a connection after sending what is queued, or by a timeout if the process does not close it. */
static void finish_connection(struct incoming *incoming) {
  incoming->rank = NULL;
  by_stream_refuse(incoming->stream);
  by_loop_set_delay(incoming->daemon->options.loop, &incoming->deadline, close_timeout);
}

/* Ends the connection of a process that does not read. When it reconnects, it gets everything. */
static void send_to_rank(void *context, void *connection, const char *line, size_t length) {
  struct incoming *incoming = connection;
  struct by_agent_daemon *daemon = context;
  if (by_stream_send(incoming->stream, 0, line, length) == BANYAN_OK) return;
  by_agent_log_user(daemon->agent, incoming->uid, banyan_error_text(), now_of(daemon));
  by_loop_set_delay(daemon->options.loop, &incoming->deadline, 0);
}

static void end_rank(void *context, void *connection) {
  (void)context;
  finish_connection(connection);
}

static void handle_rank(void *context, uint16_t type, const void *line, size_t length) {
  struct incoming *incoming = context;
  struct by_agent_daemon *daemon = incoming->daemon;
  (void)type;
  if (!incoming->rank) return;
  by_loop_cancel_timer(&incoming->deadline);
  if (!by_agent_handle_rank(daemon->agent, incoming->rank, line, length, now_of(daemon))) finish_connection(incoming);
  set_tick(daemon);
}

static void incoming_ended(void *context, enum banyan_status status, const char *reason) {
  struct incoming *incoming = context;
  struct by_agent_daemon *daemon = incoming->daemon;
  if (status != BANYAN_ERR_PEER_DEAD) by_agent_log_user(daemon->agent, incoming->uid, reason, now_of(daemon));
  if (incoming->rank) by_agent_rank_gone(daemon->agent, incoming->rank, now_of(daemon));
  drop_incoming(incoming);
  set_tick(daemon);
}

static void incoming_late(void *context) {
  struct incoming *incoming = context;
  if (incoming->rank) by_agent_rank_gone(incoming->daemon->agent, incoming->rank, now_of(incoming->daemon));
  drop_incoming(incoming);
}

static enum banyan_status admit_process(struct incoming *incoming, int fd) {
  struct by_agent_daemon *daemon = incoming->daemon;
  struct by_stream_options options = {.loop = daemon->options.loop,
                                      .fd = fd,
                                      .max_frame = BY_CLUSTER_LINE_DOWN,
                                      .max_line = BY_CLUSTER_LINE_UP,
                                      .max_queued = RANK_QUEUED,
                                      .frame = handle_rank,
                                      .ended = incoming_ended,
                                      .context = incoming};
  pid_t pid;
  enum banyan_status status = by_local_get_peer(fd, &pid, &incoming->uid);
  if (status != BANYAN_OK) {
    close(fd);
    return status;
  }
  BY_TRY(by_stream_create(&options, &incoming->stream));
  by_debug("agent", "process %d of user %u has connected", (int)pid, (unsigned)incoming->uid);
  return by_agent_rank_came(daemon->agent, incoming, incoming->uid, now_of(daemon), &incoming->rank);
}

static void handle_accepted(void *context, int fd) {
  struct by_agent_daemon *daemon = context;
  struct incoming *incoming = calloc(1, sizeof *incoming);
  if (!incoming) {
    close(fd);
    return;
  }
  incoming->daemon = daemon;
  by_timer_init(&incoming->deadline, incoming_late, incoming);
  LIST_INSERT_HEAD(&daemon->incoming_connections, incoming, entry);
  if (admit_process(incoming, fd) == BANYAN_OK) {
    by_loop_set_delay(daemon->options.loop, &incoming->deadline, hello_timeout);
    return;
  }
  by_agent_log_user(daemon->agent, incoming->uid, banyan_error_text(), now_of(daemon));
  drop_incoming(incoming);
}

/* ---- the manager */

static void disconnect_manager(void *context) {
  struct manager_link *link = &((struct by_agent_daemon *)context)->manager;
  by_loop_cancel_timer(&link->look);
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  by_stream_destroy(link->stream);
  link->stream = NULL;
}

/* Handles that the connection failed or ended. */
static void manager_gone(void *context, enum banyan_status status, const char *why) {
  struct by_agent_daemon *daemon = context;
  (void)status;
  char text[BY_AGENT_TEXT]; /* A copy, since the stream owns the text and is destroyed. */
  snprintf(text, sizeof text, "%s", why);
  disconnect_manager(daemon);
  by_agent_manager_gone(daemon->agent, text, now_of(daemon));
  set_tick(daemon);
}

static void manager_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct by_agent_daemon *daemon = context;
  (void)purpose;
  (void)hello;
  (void)length;
  by_agent_manager_came(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

static void manager_received(void *context, uint16_t type, const void *line, size_t length) {
  struct by_agent_daemon *daemon = context;
  (void)type;
  by_agent_handle_manager(daemon->agent, line, length, now_of(daemon));
  set_tick(daemon);
}

/* Connects with timeouts that detect that the manager's host vanished. */
static enum banyan_status connect_to(struct by_agent_daemon *daemon, const struct by_address *address) {
  const struct by_tls_identity *identity = by_tls_watch_get(daemon->manager.keys);
  struct by_tls_options tls = {.identity = identity, .peers = BY_TLS_MANAGER};
  struct by_stream_options options = {.loop = daemon->options.loop,
                                      .connecting = address,
                                      .tls = &tls,
                                      .timeout = timeout,
                                      .max_frame = BY_CLUSTER_LINE_UP,
                                      .max_line = BY_CLUSTER_LINE_DOWN,
                                      .max_queued = MANAGER_QUEUED,
                                      .quiet = true,
                                      .opened = manager_opened,
                                      .frame = manager_received,
                                      .ended = manager_gone,
                                      .context = daemon};
  daemon->manager.shown = identity->subject.expires;
  BY_TRY(by_socket_connect_start(address, &options.fd));
  (void)!by_socket_set_keepalive(options.fd, 5, 5, 2);
  (void)!by_socket_set(options.fd, BY_SOCKET_USER_TIMEOUT, SILENT_MS);
  return by_stream_create(&options, &daemon->manager.stream);
}

static void check_name(void *context) {
  struct by_agent_daemon *daemon = context;
  struct manager_link *link = &daemon->manager;
  struct by_address address;
  bool done;
  size_t n;
  enum banyan_status status = by_resolving_look(link->resolving, &address, 1, &n, &done);
  if (!done && now_of(daemon) < link->give_up_at) {
    by_loop_set_delay(daemon->options.loop, &link->look, check_interval);
    return;
  }
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  if (!done) status = by_fail(BANYAN_ERR_TIMEOUT, "the name was not found in time; is there an answer from DNS?");
  if (status == BANYAN_OK) status = connect_to(daemon, &address);
  if (status != BANYAN_OK) manager_gone(daemon, status, banyan_error_text());
}

static enum banyan_status connect_manager(void *context) {
  struct by_agent_daemon *daemon = context;
  const char *name = daemon->options.agent.manager;
  struct by_address address;
  disconnect_manager(daemon);
  if (by_address_parse(name, &address) == BANYAN_OK) return connect_to(daemon, &address);
  BY_TRY(by_resolving_start(name, daemon->manager.tries++, &daemon->manager.resolving));
  daemon->manager.give_up_at = now_of(daemon) + timeout;
  by_loop_set_delay(daemon->options.loop, &daemon->manager.look, 0);
  return BANYAN_OK;
}

static bool send_to_manager(void *context, const char *line, size_t length) {
  const struct by_agent_daemon *daemon = context;
  return daemon->manager.stream && by_stream_send(daemon->manager.stream, 0, line, length) == BANYAN_OK;
}

static int64_t get_expiry(void *context) {
  const struct by_agent_daemon *daemon = context;
  return by_tls_watch_get(daemon->manager.keys)->expires;
}

static enum banyan_status sign_statement(void *context, const struct by_statement *statement, uint8_t *out,
                                         size_t *length) {
  const struct by_agent_daemon *daemon = context;
  if (!daemon->manager.keys)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent has no certificate, as it has no manager");
  return by_statement_sign(by_tls_watch_get(daemon->manager.keys), statement, (uint64_t)time(NULL), out, length);
}

static void verify_manager(void *context) {
  struct by_agent_daemon *daemon = context;
  const struct manager_link *link = &daemon->manager;
  const struct by_tls_identity *identity = by_tls_watch_get(link->keys);
  if (!link->stream) return;
  if (identity->subject.expires != link->shown || !by_stream_get_subject(link->stream))
    manager_gone(daemon, BANYAN_ERR_CLOSED, "there is a new certificate, and another connection is made with it");
  else if (by_stream_judge_again(link->stream, identity) != BANYAN_OK)
    manager_gone(daemon, BANYAN_ERR_AUTH, banyan_error_text());
}

/* The check is deferred, since the caller that has files read again may use the stream. */
static void keys_changed(void *context) {
  struct by_agent_daemon *daemon = context;
  by_loop_set_delay(daemon->options.loop, &daemon->manager.judge, 0);
}

/* A stream that is still connecting has no certificate that could have expired. */
static void handle_checked(void *context) {
  const struct by_agent_daemon *daemon = context;
  const struct by_stream *stream = daemon->manager.stream;
  if (stream && by_stream_get_subject(stream)) verify_manager(context);
}

/* Watches the files of the certificate. If they change, it reconnects if the certificate is a new one, or disconnects
 * if the manager's is no longer accepted. */
static enum banyan_status watch_keys(struct by_agent_daemon *daemon) {
  const struct by_tls_watch_options options = {.loop = daemon->options.loop,
                                               .folder = daemon->options.keys,
                                               .role = BY_TLS_AGENT,
                                               .name = daemon->options.agent.host,
                                               .changed = keys_changed,
                                               .looked = handle_checked,
                                               .context = daemon};
  char host[BY_HOST_TEXT];
  int port;
  BY_TRY(by_address_split(daemon->options.agent.manager, host, &port));
  return by_tls_watch_create(&options, &daemon->manager.keys);
}

/* ---- interfaces */

static size_t read_counters(void *context, struct by_agent_counter *out) {
  struct by_agent_daemon *daemon = context;
  size_t n = by_host_links_count(daemon->links, out);
  for (size_t i = 0; i < n; i++) {
    const struct by_lldp *info = by_link_neighbours_get(daemon->neighbours, out[i].name);
    snprintf(out[i].neighbour, sizeof out[i].neighbour, "%s", info ? by_lldp_name(info) : "");
    snprintf(out[i].neighbour_port, sizeof out[i].neighbour_port, "%s", info ? info->port : "");
  }
  by_helper_processes_add_traffic(&daemon->helpers, &daemon->sockets, out, n);
  return n;
}

static void set_rate(void *context, double rate) {
  struct by_agent_daemon *daemon = context;
  by_host_links_set_rate(daemon->links, rate);
}

static void neighbours_changed(void *context) {
  struct by_agent_daemon *daemon = context;
  by_agent_links_changed(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

static void links_changed(void *context, uint32_t events) {
  struct by_agent_daemon *daemon = context;
  (void)events;
  if (!by_host_links_look(daemon->links)) return;
  by_link_neighbours_look(daemon->neighbours);
  neighbours_changed(daemon);
}

static void helper_joined(void *context, const char *job, bool server) {
  struct by_agent_daemon *daemon = context;
  by_agent_helper_joined(daemon->agent, job, server, now_of(daemon));
}

static void helper_ended(void *context, const char *job, bool server, const char *why) {
  struct by_agent_daemon *daemon = context;
  by_info("agent", "job %s is %s no more: %s", job, server ? "served" : "helped", why);
  by_agent_helper_ended(daemon->agent, job, server, why,
                        now_of(daemon)); /* The agent may start another one in this call. */
}

static enum banyan_status start_helper(void *context, const struct by_cluster_message *request) {
  return by_helper_processes_start(&((struct by_agent_daemon *)context)->helpers, request);
}

/* Returns 0 if this host is no switch. */
static uint32_t used_cells(void *context) {
  const struct by_agent_daemon *daemon = context;
  return daemon->options.used_cells ? daemon->options.used_cells(daemon->options.context) : 0;
}

static void release_helper(void *context, const char *job, bool server) {
  by_helper_processes_rest(&((struct by_agent_daemon *)context)->helpers, job, server);
}

/* ---- beginning and end */

static enum banyan_status listen_for_ranks(struct by_agent_daemon *daemon) {
  const struct by_path_socket *place = &daemon->options.socket;
  int fd;
  if (!place->path) return BANYAN_OK;
  BY_TRY(by_path_socket_listen(place, &fd));
  BY_TRY(by_acceptor_create(daemon->options.loop, fd, handle_accepted, daemon, &daemon->acceptor));
  if (daemon->options.group < 0 || chown(place->path, (uid_t)-1, (gid_t)daemon->options.group) == 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot give %s to group %ld", place->path, daemon->options.group);
}

/* Neighbours are only of interest to a manager. */
static enum banyan_status watch_neighbours(struct by_agent_daemon *daemon) {
  const struct by_link_neighbours_options options = {.loop = daemon->options.loop,
                                                     .filter = daemon->options.links.filter,
                                                     .host = daemon->options.agent.host,
                                                     .changed = neighbours_changed,
                                                     .context = daemon};
  return daemon->options.agent.manager ? by_link_neighbours_create(&options, &daemon->neighbours) : BANYAN_OK;
}

static enum banyan_status make_agent(struct by_agent_daemon *daemon) {
  static const struct by_agent_calls calls = {.send_to_manager = send_to_manager,
                                              .connect = connect_manager,
                                              .disconnect = disconnect_manager,
                                              .send_to_rank = send_to_rank,
                                              .end_rank = end_rank,
                                              .count = read_counters,
                                              .take_rate = set_rate,
                                              .help = start_helper,
                                              .rest = release_helper,
                                              .used_cells = used_cells,
                                              .certify = sign_statement,
                                              .expires = get_expiry};
  struct by_agent_options options = daemon->options.agent;
  (void)!getrandom(&options.seed, sizeof options.seed, GRND_NONBLOCK);
  options.calls = &calls;
  options.context = daemon;
  return by_agent_create(&options, now_of(daemon), &daemon->agent);
}

static enum banyan_status start_agent(struct by_agent_daemon *daemon) {
  const char *manager = daemon->options.agent.manager;
  BY_TRY(by_host_links_create(&daemon->options.links, &daemon->links));
  BY_TRY(by_netlink_open_protocol(&daemon->sockets, NETLINK_SOCK_DIAG, 0));
  if (manager) BY_TRY(watch_keys(daemon));
  BY_TRY(watch_neighbours(daemon));
  BY_TRY(make_agent(daemon));
  BY_TRY(listen_for_ranks(daemon)); /* Another agent is detected here, before its queues are touched. */
  BY_TRY(by_loop_watch(daemon->options.loop, by_host_links_get_fd(daemon->links), EPOLLIN, links_changed, daemon,
                       &daemon->news));
  by_loop_set_delay(daemon->options.loop, &daemon->tick, 0);
  const struct by_host_links_options *links = &daemon->options.links;
  if (!manager && !(links->rate > 0) && !strcmp(links->queues, "auto"))
    by_warn("agent", "no queues are set, as the rate of this host's link is not known (--rate RATE)");
  return BANYAN_OK;
}

enum banyan_status by_agent_daemon_create(const struct by_agent_daemon_options *options, struct by_agent_daemon **out) {
  struct by_agent_daemon *daemon = calloc(1, sizeof *daemon);
  *out = NULL;
  if (!daemon) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  daemon->options = *options;
  daemon->helpers = (struct by_helper_processes){.loop = options->loop,
                                                 .program = options->program,
                                                 .agent = options->socket.path,
                                                 .joined = helper_joined,
                                                 .ended = helper_ended,
                                                 .context = daemon};
  by_timer_init(&daemon->tick, tick_agent, daemon);
  by_timer_init(&daemon->manager.look, check_name, daemon);
  by_timer_init(&daemon->manager.judge, verify_manager, daemon);
  enum banyan_status status = start_agent(daemon);
  if (status != BANYAN_OK) {
    by_agent_daemon_destroy(daemon);
    return status;
  }
  *out = daemon;
  return BANYAN_OK;
}

void by_agent_daemon_renew(struct by_agent_daemon *daemon) {
  if (daemon->manager.keys) by_tls_watch_read(daemon->manager.keys);
}

void by_agent_daemon_destroy(struct by_agent_daemon *daemon) {
  if (!daemon) return;
  if (daemon->acceptor) unlink(daemon->options.socket.path);
  by_acceptor_destroy(daemon->acceptor);
  by_helper_processes_fini(&daemon->helpers);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&daemon->incoming_connections)) drop_incoming(LIST_FIRST(&daemon->incoming_connections));
  disconnect_manager(daemon);
  by_loop_cancel_timer(&daemon->manager.judge);
  by_tls_watch_destroy(daemon->manager.keys);
  by_loop_cancel_timer(&daemon->tick);
  by_loop_unwatch(daemon->news);
  by_link_neighbours_destroy(daemon->neighbours);
  by_host_links_destroy(daemon->links);
  by_netlink_close(&daemon->sockets);
  by_agent_destroy(daemon->agent);
  free(daemon);
}
