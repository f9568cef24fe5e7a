#include "agent_daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "acceptor.h"
#include "helper_process.h"
#include "localsocket.h"
#include "log.h"
#include "loop.h"
#include "manager_link.h"
#include "stream.h"

enum { RANK_QUEUED = 2 * BY_CLUSTER_LINE_DOWN };

static const uint64_t farewell = 5 * BY_SECOND; /* to read why it is refused */
static const uint64_t hello_in = 10 * BY_SECOND;

/* One of the ranks' connections. */
struct visitor {
  struct by_agent_daemon *daemon;
  struct visitor *next;
  struct by_stream *stream;
  struct by_agent_rank *rank; /* NULL: it is being finished */
  uid_t uid;                  /* of the process */
  struct by_timer deadline;   /* of hello, and of its end */
};

struct child {
  struct child *next;
  struct by_helper_process *process;
};

struct by_agent_daemon {
  struct by_agent_daemon_options options;
  struct by_agent *agent;
  struct by_host_links *links;
  struct by_netlink sockets;       /* to ask about those of helpers */
  struct by_manager_link *manager; /* NULL: none */
  struct by_acceptor *acceptor;
  struct by_watch *news;
  struct by_timer tick;
  struct visitor *visitors;
  struct child *children;
};

static uint64_t now_of(const struct by_agent_daemon *daemon) {
  return by_loop_now(daemon->options.loop);
}

/* After whatever may have changed when it is to look next. */
static void set_tick(struct by_agent_daemon *daemon) {
  by_loop_set_timer(daemon->options.loop, &daemon->tick, by_agent_next(daemon->agent));
}

static void tick(void *context) {
  struct by_agent_daemon *daemon = context;
  by_host_links_set_queues(daemon->links);
  by_agent_tick(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

/* ---- ranks */

static void drop_visitor(struct visitor *visitor) {
  struct visitor **at = &visitor->daemon->visitors;
  while (*at != visitor) at = &(*at)->next;
  *at = visitor->next;
  by_loop_cancel_timer(&visitor->deadline);
  by_stream_destroy(visitor->stream);
  free(visitor);
}

/* What was said last is still sent; whoever does not close is closed. */
static void finish(struct visitor *visitor) {
  visitor->rank = NULL;
  by_stream_refuse(visitor->stream);
  by_loop_set_delay(visitor->daemon->options.loop, &visitor->deadline, farewell);
}

/* One that does not read is ended, and told everything when it connects again. */
static void say_rank(void *context, void *connection, const char *line, size_t length) {
  struct visitor *visitor = connection;
  struct by_agent_daemon *daemon = context;
  if (by_stream_send(visitor->stream, 0, line, length) == BANYAN_OK) return;
  by_agent_log_user(daemon->agent, visitor->uid, banyan_error_text(), now_of(daemon));
  by_loop_set_delay(daemon->options.loop, &visitor->deadline, 0);
}

static void end_rank(void *context, void *connection) {
  (void)context;
  finish(connection);
}

static void heard_rank(void *context, uint16_t type, const void *line, size_t length) {
  struct visitor *visitor = context;
  struct by_agent_daemon *daemon = visitor->daemon;
  (void)type;
  if (!visitor->rank) return;
  by_loop_cancel_timer(&visitor->deadline);
  if (!by_agent_rank_hear(daemon->agent, visitor->rank, line, length, now_of(daemon))) finish(visitor);
  set_tick(daemon);
}

static void visitor_ended(void *context, enum banyan_status status, const char *reason) {
  struct visitor *visitor = context;
  struct by_agent_daemon *daemon = visitor->daemon;
  if (status != BANYAN_ERR_PEER_DEAD) by_agent_log_user(daemon->agent, visitor->uid, reason, now_of(daemon));
  if (visitor->rank) by_agent_rank_gone(daemon->agent, visitor->rank, now_of(daemon));
  drop_visitor(visitor);
  set_tick(daemon);
}

static void visitor_late(void *context) {
  struct visitor *visitor = context;
  if (visitor->rank) by_agent_rank_gone(visitor->daemon->agent, visitor->rank, now_of(visitor->daemon));
  drop_visitor(visitor);
}

static enum banyan_status take_in(struct visitor *visitor, int fd) {
  struct by_agent_daemon *daemon = visitor->daemon;
  struct by_stream_options options = {.loop = daemon->options.loop,
                                      .fd = fd,
                                      .most_frame = BY_CLUSTER_LINE_DOWN,
                                      .most_line = BY_CLUSTER_LINE_UP,
                                      .most_queued = RANK_QUEUED,
                                      .frame = heard_rank,
                                      .ended = visitor_ended,
                                      .context = visitor};
  pid_t pid;
  enum banyan_status status = by_local_get_peer(fd, &pid, &visitor->uid);
  if (status != BANYAN_OK) {
    close(fd);
    return status;
  }
  BY_TRY(by_stream_create(&options, &visitor->stream));
  by_debug("agent", "process %d of user %u has connected", (int)pid, (unsigned)visitor->uid);
  return by_agent_rank_came(daemon->agent, visitor, visitor->uid, now_of(daemon), &visitor->rank);
}

static void accepted(void *context, int fd) {
  struct by_agent_daemon *daemon = context;
  struct visitor *visitor = calloc(1, sizeof *visitor);
  if (!visitor) {
    close(fd);
    return;
  }
  visitor->daemon = daemon;
  by_timer_init(&visitor->deadline, visitor_late, visitor);
  visitor->next = daemon->visitors;
  daemon->visitors = visitor;
  if (take_in(visitor, fd) == BANYAN_OK) {
    by_loop_set_delay(daemon->options.loop, &visitor->deadline, hello_in);
    return;
  }
  by_agent_log_user(daemon->agent, visitor->uid, banyan_error_text(), now_of(daemon));
  drop_visitor(visitor);
}

/* ---- the manager */

static enum banyan_status connect_manager(void *context) {
  struct by_agent_daemon *daemon = context;
  return by_manager_link_connect(daemon->manager);
}

static void disconnect_manager(void *context) {
  struct by_agent_daemon *daemon = context;
  by_manager_link_disconnect(daemon->manager);
}

static bool say_manager(void *context, const char *line, size_t length) {
  struct by_agent_daemon *daemon = context;
  return by_manager_link_say(daemon->manager, line, length);
}

static int64_t expires(void *context) {
  const struct by_agent_daemon *daemon = context;
  return by_manager_link_expires(daemon->manager);
}

static void manager_came(void *context) {
  struct by_agent_daemon *daemon = context;
  by_agent_manager_came(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

static void manager_heard(void *context, const char *line, size_t length) {
  struct by_agent_daemon *daemon = context;
  by_agent_manager_hear(daemon->agent, line, length, now_of(daemon));
  set_tick(daemon);
}

static void manager_gone(void *context, const char *why) {
  struct by_agent_daemon *daemon = context;
  char text[BY_AGENT_TEXT];
  snprintf(text, sizeof text, "%s", why);
  by_manager_link_disconnect(daemon->manager);
  by_agent_manager_gone(daemon->agent, text, now_of(daemon));
  set_tick(daemon);
}

/* ---- interfaces */

static size_t count(void *context, struct by_agent_counter *out) {
  struct by_agent_daemon *daemon = context;
  size_t n = by_host_links_count(daemon->links, out);
  for (const struct child *child = daemon->children; child; child = child->next)
    by_helper_process_add_traffic(&daemon->sockets, by_helper_process_get_pid(child->process), out, n);
  return n;
}

static void take_rate(void *context, double rate) {
  struct by_agent_daemon *daemon = context;
  by_host_links_set_rate(daemon->links, rate);
  by_host_links_set_queues(daemon->links);
}

static void links_changed(void *context, uint32_t events) {
  struct by_agent_daemon *daemon = context;
  (void)events;
  if (!by_host_links_look(daemon->links)) return;
  by_agent_links_changed(daemon->agent, now_of(daemon));
  set_tick(daemon);
}

/* ---- helpers */

static void helper_joined(void *context, const char *job) {
  struct by_agent_daemon *daemon = context;
  by_agent_helper_joined(daemon->agent, job, now_of(daemon));
}

static struct child **find_child(struct by_agent_daemon *daemon, const char *job) {
  struct child **at = &daemon->children;
  while (*at && strcmp(by_helper_process_get_job((*at)->process), job) != 0) at = &(*at)->next;
  return at;
}

static void drop_child(struct child **at) {
  struct child *child = *at;
  *at = child->next;
  by_helper_process_destroy(child->process);
  free(child);
}

static void helper_ended(void *context, const char *job, const char *why) {
  struct by_agent_daemon *daemon = context;
  char id[BY_CLUSTER_JOB_ID + 1]; /* what the child has is gone with it */
  snprintf(id, sizeof id, "%s", job);
  by_info("agent", "job %s is helped no more: %s", id, why);
  drop_child(find_child(daemon, id));
  by_agent_helper_ended(daemon->agent, id, why, now_of(daemon)); /* which may have another one started */
}

static enum banyan_status help(void *context, const struct by_cluster_message *help) {
  struct by_agent_daemon *daemon = context;
  struct by_helper_process_options options = {.loop = daemon->options.loop,
                                              .program = daemon->options.program,
                                              .joined = helper_joined,
                                              .ended = helper_ended,
                                              .context = daemon};
  struct child *child = calloc(1, sizeof *child);
  if (!child) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  enum banyan_status status = by_helper_process_start(&options, help, &child->process);
  if (status != BANYAN_OK) {
    free(child);
    return status;
  }
  child->next = daemon->children;
  daemon->children = child;
  return BANYAN_OK;
}

static void rest(void *context, const char *job) {
  struct by_agent_daemon *daemon = context;
  const struct child *child = *find_child(daemon, job);
  if (child) by_helper_process_rest(child->process);
}

/* ---- all */

static enum banyan_status listen_for_ranks(struct by_agent_daemon *daemon) {
  const struct by_path_socket *place = &daemon->options.socket;
  int fd;
  BY_TRY(by_path_socket_listen(place, &fd));
  BY_TRY(by_acceptor_create(daemon->options.loop, fd, accepted, daemon, &daemon->acceptor));
  if (daemon->options.group < 0 || chown(place->path, (uid_t)-1, (gid_t)daemon->options.group) == 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot give %s to group %ld", place->path, daemon->options.group);
}

static enum banyan_status make_agent(struct by_agent_daemon *daemon) {
  static const struct by_agent_calls calls = {.say_manager = say_manager,
                                              .connect = connect_manager,
                                              .disconnect = disconnect_manager,
                                              .say_rank = say_rank,
                                              .end_rank = end_rank,
                                              .count = count,
                                              .take_rate = take_rate,
                                              .help = help,
                                              .rest = rest,
                                              .expires = expires};
  struct by_agent_options options = daemon->options.agent;
  (void)!getrandom(&options.seed, sizeof options.seed, GRND_NONBLOCK);
  options.calls = &calls;
  options.context = daemon;
  return by_agent_create(&options, now_of(daemon), &daemon->agent);
}

static enum banyan_status start(struct by_agent_daemon *daemon) {
  struct by_manager_link_options of_link = {.loop = daemon->options.loop,
                                            .manager = daemon->options.agent.manager,
                                            .keys = daemon->options.keys,
                                            .host = daemon->options.agent.host,
                                            .came = manager_came,
                                            .heard = manager_heard,
                                            .gone = manager_gone,
                                            .context = daemon};
  BY_TRY(by_host_links_create(&daemon->options.links, &daemon->links));
  BY_TRY(by_netlink_open_sockets(&daemon->sockets));
  if (of_link.manager) BY_TRY(by_manager_link_create(&of_link, &daemon->manager));
  BY_TRY(make_agent(daemon));
  BY_TRY(listen_for_ranks(daemon)); /* another agent is found here, before its queues are touched */
  BY_TRY(by_loop_watch(daemon->options.loop, by_host_links_get_fd(daemon->links), EPOLLIN, links_changed, daemon,
                       &daemon->news));
  by_loop_set_delay(daemon->options.loop, &daemon->tick, 0);
  const struct by_host_links_options *links = &daemon->options.links;
  if (!of_link.manager && !(links->rate > 0) && !strcmp(links->queues, "auto"))
    by_warn("agent", "no queues are set, as nobody says what this host's link carries (--rate RATE)");
  return BANYAN_OK;
}

enum banyan_status by_agent_daemon_create(const struct by_agent_daemon_options *options, struct by_agent_daemon **out) {
  struct by_agent_daemon *daemon = calloc(1, sizeof *daemon);
  *out = NULL;
  if (!daemon) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  daemon->options = *options;
  by_timer_init(&daemon->tick, tick, daemon);
  enum banyan_status status = start(daemon);
  if (status != BANYAN_OK) {
    by_agent_daemon_destroy(daemon);
    return status;
  }
  *out = daemon;
  return BANYAN_OK;
}

void by_agent_daemon_renew(struct by_agent_daemon *daemon) {
  if (daemon->manager) by_manager_link_renew(daemon->manager);
}

void by_agent_daemon_destroy(struct by_agent_daemon *daemon) {
  if (!daemon) return;
  if (daemon->acceptor) unlink(daemon->options.socket.path);
  by_acceptor_destroy(daemon->acceptor);
  while (daemon->children) drop_child(&daemon->children);
  for (struct visitor *visitor = daemon->visitors, *next; visitor; visitor = next) {
    next = visitor->next;
    drop_visitor(visitor);
  }
  by_manager_link_destroy(daemon->manager);
  by_loop_cancel_timer(&daemon->tick);
  by_loop_unwatch(daemon->news);
  by_host_links_destroy(daemon->links);
  by_netlink_close(&daemon->sockets);
  by_agent_destroy(daemon->agent);
  free(daemon);
}
