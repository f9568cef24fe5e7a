#include "connector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connector_parts.h"
#include "interface.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"

static void accept_tcp(void *context, uint32_t events) {
  struct by_connector *connector = context;
  (void)events;
  int fd = -1;
  if (by_socket_accept(connector->tcp_listener, &fd, NULL) != BANYAN_OK)
    by_warn("net", "a connection could not be taken: %s", banyan_error_text());
  else if (fd >= 0)
    by_visitor_greet(connector, fd, false);
}

static void accept_local(void *context, uint32_t events) {
  struct by_connector *connector = context;
  (void)events;
  int fd = -1;
  if (by_local_accept(connector->local_listener, &fd) != BANYAN_OK)
    by_warn("net", "a local connection could not be taken: %s", banyan_error_text());
  else if (fd >= 0)
    by_visitor_greet(connector, fd, true);
}

struct wish {
  struct by_connector *connector;
  uint32_t process;
};

static void begin_target(void *context) {
  struct wish wish = *(struct wish *)context;
  free(context);
  by_target_begin(&wish.connector->targets[wish.process]);
}

void by_connector_want(struct by_connector *connector, uint32_t process) {
  if (process >= connector->context->rank) return; /* it will come to us */
  struct wish *wish = malloc(sizeof *wish);
  if (wish) {
    *wish = (struct wish){connector, process};
    if (by_loop_post(connector->context->loop, begin_target, wish) == BANYAN_OK) return;
  }
  free(wish);
  by_error("net", "connecting to %s could not begin: %s", by_context_name(connector->context, process),
           banyan_error_text());
}

/* ---- life */

static enum banyan_status add_addresses(const struct by_context *context, int port, bool loopback,
                                        struct by_member *self) {
  struct by_interface *all = NULL;
  size_t n = 0;
  const char *filter = loopback ? "127.0.0.0/8" : context->settings.iface;
  enum banyan_status status = by_interface_list(filter, loopback, &all, &n);
  if (status != BANYAN_OK) return loopback ? BANYAN_OK : by_fail_within(status, "BANYAN_IFACE");
  for (size_t i = 0; i < n && self->n_addresses < BY_MEMBER_ADDRESSES; i++) {
    bool known = false;
    for (uint32_t j = 0; j < self->n_addresses; j++)
      known |= by_address_compare_host(&self->addresses[j], &all[i].address) == 0;
    if (known) continue;
    self->addresses[self->n_addresses] = all[i].address;
    by_address_set_port(&self->addresses[self->n_addresses++], port);
  }
  free(all);
  return BANYAN_OK;
}

/* The loopback address first, so that ranks of one machine use it; others skip it. */
static enum banyan_status listen_tcp(struct by_connector *connector, struct by_member *self) {
  struct by_context *context = connector->context;
  struct by_port_range ports = {0, 0};
  struct by_address bound;
  if (context->settings.ports) {
    enum banyan_status status = by_port_range_parse(context->settings.ports, &ports);
    if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_PORTS");
  }
  BY_TRY(by_socket_listen(NULL, ports, &connector->tcp_listener, &bound));
  self->addresses = BY_ARENA_ARRAY(&context->arena, struct by_address, BY_MEMBER_ADDRESSES);
  if (!self->addresses) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for addresses");
  int port = by_address_port(&bound);
  if (!*context->settings.iface) BY_TRY(add_addresses(context, port, true, self));
  return add_addresses(context, port, false, self);
}

static enum banyan_status listen_local(struct by_connector *connector, struct by_member *self) {
  char name[64], random[BY_KEY_TEXT];
  self->local = "";
  if (!strcmp(connector->context->settings.transport, "tcp")) return BANYAN_OK;
  BY_TRY(by_key_random(random));
  snprintf(name, sizeof name, "banyan-%d-%.16s", (int)getpid(), random);
  BY_TRY(by_local_listen(name, &connector->local_listener));
  self->local = by_arena_string(&connector->context->arena, name);
  return self->local ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a name");
}

enum banyan_status by_connector_create(struct by_context *context, const struct by_key *key, struct by_member *self,
                                       struct by_connector **out) {
  struct by_connector *connector = calloc(1, sizeof *connector);
  if (!connector) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for connections");
  *connector = (struct by_connector){.context = context, .key = *key, .tcp_listener = -1, .local_listener = -1};
  enum banyan_status status = listen_tcp(connector, self);
  if (status == BANYAN_OK) status = listen_local(connector, self);
  if (status != BANYAN_OK) {
    by_connector_destroy(connector);
    return status;
  }
  *out = connector;
  return BANYAN_OK;
}

enum banyan_status by_connector_open(struct by_connector *connector) {
  struct by_context *context = connector->context;
  connector->targets = calloc(context->size, sizeof *connector->targets);
  if (!connector->targets) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", context->size);
  for (uint32_t i = 0; i < context->size; i++) by_target_init(&connector->targets[i], connector, i);
  BY_TRY(by_loop_watch(context->loop, connector->tcp_listener, EPOLLIN, accept_tcp, connector, &connector->tcp_watch));
  if (connector->local_listener < 0) return BANYAN_OK;
  return by_loop_watch(context->loop, connector->local_listener, EPOLLIN, accept_local, connector,
                       &connector->local_watch);
}

void by_connector_destroy(struct by_connector *connector) {
  if (!connector) return;
  by_visitors_free(connector);
  for (uint32_t i = 0; connector->targets && i < connector->context->size; i++) by_target_fini(&connector->targets[i]);
  by_loop_unwatch(connector->tcp_watch);
  by_loop_unwatch(connector->local_watch);
  if (connector->tcp_listener >= 0) close(connector->tcp_listener);
  if (connector->local_listener >= 0) close(connector->local_listener);
  free(connector->targets);
  free(connector);
}