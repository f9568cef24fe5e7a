/* Makes and accepts the data connections of a job: its listeners, its requests for links, and its life. */
#include "connector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acceptor.h"
#include "address.h"
#include "connection.h"
#include "descriptor.h"
#include "dialer.h"
#include "job_state.h"
#include "log.h"
#include "socket.h"
#include "text.h"

enum { UNAUTHENTICATED = 96 }; /* Unauthenticated connections beyond those that the job can have. */

static void accepted_tcp(void *connector, int fd) {
  by_incoming_accept(connector, fd, false);
}

static void accepted_local(void *connector, int fd) {
  by_incoming_accept(connector, fd, true);
}

/* Ends the job, with the reason, if its calls need a connection: the others would look for firewalls otherwise. */
static void exhausted(void *argument) {
  const struct by_connector *connector = argument;
  struct by_job *job = connector->job;
  char text[400];
  snprintf(text, sizeof text, "%s takes no connections: %s", by_job_name(job, job->rank), banyan_error_text());
  by_job_lock(job);
  bool lacks = !job->engine || by_engine_lacks_lanes(job->engine);
  by_job_unlock(job);
  if (lacks) by_job_fail(job, BANYAN_ERR_CONNECT, job->rank, text);
}

/* ---- requests for links */

/* Returns the next process to connect to; UINT32_MAX: none is left. */
static uint32_t take_request(struct by_connector *connector) {
  uint32_t process = UINT32_MAX;
  pthread_mutex_lock(&connector->lock);
  if (connector->taken < connector->n_requests)
    process = connector->requests[connector->taken++];
  else
    connector->posted = false;
  pthread_mutex_unlock(&connector->lock);
  return process;
}

static void take_requests(void *context) {
  struct by_connector *connector = context;
  for (uint32_t process; (process = take_request(connector)) != UINT32_MAX;)
    by_target_begin(connector->targets[process]);
}

/* Requests a link. One task serves all requests: a first call may need a thousand links, and a loop's queue is
 * bounded. */
void by_connector_want(struct by_connector *connector, uint32_t process) {
  if (process >= connector->job->rank) return; /* The higher rank connects. */
  pthread_mutex_lock(&connector->lock);
  struct by_connect_target *target = connector->targets[process];
  if (!target->requested) connector->requests[connector->n_requests++] = process;
  target->requested = true;
  bool post = !connector->posted;
  connector->posted = true;
  if (post && by_loop_post(connector->job->loop, take_requests, connector) != BANYAN_OK) {
    connector->posted = false; /* The next request posts again. */
    by_error("net", "connecting to %s could not begin: %s", by_job_name(connector->job, process), banyan_error_text());
  }
  pthread_mutex_unlock(&connector->lock);
}

/* ---- life */

static enum banyan_status add_addresses(const struct by_settings *settings, int port, bool loopback,
                                        struct by_member *self) {
  struct by_interface *all = NULL;
  size_t n = 0;
  bool has_ipv4 = false;
  const char *filter = loopback ? "127.0.0.0/8" : settings->iface;
  enum banyan_status status = by_interface_list(filter, loopback, &all, &n);
  if (status != BANYAN_OK) return loopback ? BANYAN_OK : by_fail_within(status, "BANYAN_IFACE");
  for (size_t i = 0; i < n && self->n_addresses < BY_MEMBER_ADDRESSES; i++) {
    bool known = false;
    for (uint32_t j = 0; j < self->n_addresses; j++)
      known |= by_address_compare_host(&self->addresses[j], &all[i].address) == 0;
    if (known) continue;
    self->addresses[self->n_addresses] = all[i].address;
    by_address_set_port(&self->addresses[self->n_addresses++], port);
    if (by_address_is_loopback(&all[i].address) || has_ipv4) continue;
    has_ipv4 = by_address_family(&all[i].address) == AF_INET;
    if (has_ipv4 || !self->mtu) self->mtu = by_interface_mtu(all[i].name);
  }
  free(all);
  return BANYAN_OK;
}

/* Listens in the range of ports, but not where ranks meet: rank 0 of this host, or PyTorch's store, may not listen
 * there yet. */
static enum banyan_status listen_in_range(const struct by_settings *settings, int *listener, struct by_address *bound) {
  struct by_port_range ports = {0, 0};
  const char *store = getenv("MASTER_PORT");
  long store_port = 0;
  int spared[BY_SPARED_PORTS] = {0};
  BY_TRY(by_port_range_parse(settings->ports, &ports));
  if (settings->root && by_dialer_check(settings->root, &spared[0]) != BANYAN_OK) spared[0] = 0;
  if (store && by_parse_int("MASTER_PORT", store, 1, 65535, &store_port) == BANYAN_OK) spared[1] = (int)store_port;
  return by_socket_listen_sparing(ports, spared, listener, bound);
}

/* Lists the loopback address first, so that ranks of one machine use it; others skip it. */
enum banyan_status by_member_listen(const struct by_settings *settings, struct by_arena *arena, struct by_member *self,
                                    int *listener) {
  struct by_address bound;
  enum banyan_status status = settings->ports ? listen_in_range(settings, listener, &bound)
                                              : by_socket_listen(NULL, (struct by_port_range){0, 0}, listener, &bound);
  if (status != BANYAN_OK) return settings->ports ? by_fail_within(status, "BANYAN_PORTS") : status;
  self->addresses = BY_ARENA_ARRAY(arena, struct by_address, BY_MEMBER_ADDRESSES);
  if (!self->addresses) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for addresses");
  int port = by_address_port(&bound);
  if (!*settings->iface) BY_TRY(add_addresses(settings, port, true, self));
  return add_addresses(settings, port, false, self);
}

static enum banyan_status listen_local(struct by_connector *connector, struct by_member *self) {
  char name[64], random[BY_KEY_TEXT];
  self->local = "";
  if (!strcmp(connector->job->settings.transport, "tcp")) return BANYAN_OK;
  BY_TRY(by_key_random(random));
  snprintf(name, sizeof name, "banyan-%d-%.16s", (int)getpid(), random);
  BY_TRY(by_local_listen(name, &connector->local_listener));
  self->local = by_arena_string(&connector->job->arena, name);
  return self->local ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a name");
}

enum banyan_status by_connector_create(struct by_job *job, struct by_member *self,
                                       const struct by_connector_events *events, struct by_connector **out) {
  struct by_connector *connector = calloc(1, sizeof *connector);
  if (!connector) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for connections");
  *connector = (struct by_connector){.job = job, .events = *events, .tcp_listener = -1, .local_listener = -1};
  pthread_mutex_init(&connector->lock, NULL);
  enum banyan_status status = by_member_listen(&job->settings, &job->arena, self, &connector->tcp_listener);
  if (status == BANYAN_OK) status = listen_local(connector, self);
  if (status != BANYAN_OK) {
    by_connector_destroy(connector);
    return status;
  }
  *out = connector;
  return BANYAN_OK;
}

static enum banyan_status take_connections(struct by_connector *connector, int *listener,
                                           void (*accepted)(void *context, int fd), struct by_acceptor **out) {
  int fd = *listener;
  *listener = -1; /* The acceptor owns it, on failure too. */
  if (fd < 0) return BANYAN_OK;
  BY_TRY(by_acceptor_create(connector->job->loop, fd, accepted, connector, out));
  by_acceptor_on_exhaustion(*out, exhausted);
  return BANYAN_OK;
}

/* Grows the list of targets, which stay at their addresses. Each process is requested once. */
static enum banyan_status grow(struct by_connector *connector, uint32_t n) {
  pthread_mutex_lock(&connector->lock);
  bool room = BY_ARRAY_GROW(&connector->targets, &connector->targets_room, n) &&
              BY_ARRAY_GROW(&connector->requests, &connector->requests_room, n);
  while (room && connector->n_targets < n) {
    struct by_connect_target *target = calloc(1, sizeof *target);
    if (!target) break;
    by_target_init(target, connector, connector->n_targets);
    connector->targets[connector->n_targets++] = target;
  }
  room = connector->n_targets == n;
  pthread_mutex_unlock(&connector->lock);
  return room ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", n);
}

enum banyan_status by_connector_take_keys(struct by_connector *connector, const struct by_key *links,
                                          struct by_key *before, uint32_t n) {
  const struct by_job *job = connector->job;
  connector->links = *links;
  connector->helper_keys = before;
  connector->n_helper_keys = n;
  return job->role.kind == BY_MEMBER_RANK ? BANYAN_OK : by_links_ticket(job, job->rank, connector->ticket);
}

enum banyan_status by_connector_add(struct by_connector *connector) {
  return grow(connector, connector->n_targets + 1);
}

enum banyan_status by_connector_open(struct by_connector *connector) {
  uint32_t n = connector->job->processes;
  by_admission_init(&connector->tcp_admission, UNAUTHENTICATED + BY_LANES * n);
  by_admission_init(&connector->local_admission, UNAUTHENTICATED + n);
  BY_TRY(grow(connector, n));
  BY_TRY(take_connections(connector, &connector->tcp_listener, accepted_tcp, &connector->tcp));
  return take_connections(connector, &connector->local_listener, accepted_local, &connector->local);
}

void by_connector_stop_listening(struct by_connector *connector) {
  if (connector->tcp_listener >= 0) by_close(connector->tcp_listener);
  if (connector->local_listener >= 0) by_close(connector->local_listener);
  connector->tcp_listener = connector->local_listener = -1;
}

void by_connector_destroy(struct by_connector *connector) {
  if (!connector) return;
  by_acceptor_destroy(connector->tcp);
  by_acceptor_destroy(connector->local);
  by_incoming_free(connector);
  by_repeats_flush(&connector->rejected, "net", INFINITY);
  for (uint32_t i = 0; i < connector->n_targets; i++) {
    by_target_fini(connector->targets[i]);
    free(connector->targets[i]);
  }
  by_connector_stop_listening(connector);
  pthread_mutex_destroy(&connector->lock);
  free(connector->targets);
  free(connector->requests);
  explicit_bzero(&connector->links, sizeof connector->links);
  if (connector->helper_keys)
    explicit_bzero(connector->helper_keys, connector->n_helper_keys * sizeof *connector->helper_keys);
  free(connector->helper_keys);
  free(connector);
}
