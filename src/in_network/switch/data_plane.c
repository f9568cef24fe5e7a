#include "data_plane.h"

#include "user.h"
#ifdef BY_HAVE_XDP
#include "xdp.h"
#endif

/* ---- sockets */

static void user_destroy(void *self) {
  by_user_destroy(self);
}

static enum banyan_status user_add_port(void *self, uint32_t number, const char *interface) {
  return by_user_add_port(self, number, interface);
}

static enum banyan_status user_start(void *self, uint32_t n) {
  return by_user_take(self, 0);
}

static enum banyan_status user_clear(void *self, uint32_t base, uint32_t count) {
  return by_user_clear(self, base, count);
}

static enum banyan_status user_grant(void *self, const struct by_grant *grant) {
  return by_user_grant(self, grant);
}

static enum banyan_status user_revoke(void *self, uint16_t job) {
  return by_user_revoke(self, job);
}

static enum banyan_status user_set_group(void *self, uint16_t group, const struct by_switch_target *targets,
                                         uint32_t n) {
  return by_user_set_group(self, group, targets, n);
}

static enum banyan_status user_count(const void *self, struct by_plane_counts *out) {
  struct by_user_traffic traffic;
  by_user_count(self, out->events);
  by_user_get_traffic(self, &traffic);
  out->unsent = traffic.unsent;
  out->expired = traffic.expired;
  return BANYAN_OK;
}

static const struct by_plane_ops user_ops = {
    .name = "user",
    .destroy = user_destroy,
    .add_port = user_add_port,
    .start = user_start,
    .clear = user_clear,
    .grant = user_grant,
    .revoke = user_revoke,
    .set_group = user_set_group,
    .count = user_count,
};

static enum banyan_status open_user(struct by_loop *loop, const struct by_plane_options *options,
                                    struct by_plane *out) {
  struct by_user_options of_user = {.cells = options->cells, .udp_port = options->udp_port};
  struct by_user *user;
  BY_TRY(by_user_create(loop, &of_user, &user));
  *out = (struct by_plane){&user_ops, user};
  return BANYAN_OK;
}

/* ---- XDP */

#ifdef BY_HAVE_XDP

static void xdp_destroy(void *self) {
  by_xdp_destroy(self);
}

static enum banyan_status xdp_add_port(void *self, uint32_t number, const char *interface) {
  return by_xdp_add_port(self, number, interface);
}

static enum banyan_status xdp_start(void *self, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_xdp_attach(self, i));
  return BANYAN_OK;
}

static enum banyan_status xdp_clear(void *self, uint32_t base, uint32_t count) {
  return by_xdp_clear(self, base, count);
}

static enum banyan_status xdp_grant(void *self, const struct by_grant *grant) {
  return by_xdp_grant(self, grant);
}

static enum banyan_status xdp_revoke(void *self, uint16_t job) {
  return by_xdp_revoke(self, job);
}

static enum banyan_status xdp_set_group(void *self, uint16_t group, const struct by_switch_target *targets,
                                        uint32_t n) {
  return by_xdp_set_group(self, group, targets, n);
}

static enum banyan_status xdp_set_neighbour(void *self, uint32_t port, uint32_t address, const uint8_t hardware[6]) {
  return hardware ? by_xdp_set_neighbour(self, port, address, hardware) : by_xdp_drop_neighbour(self, port, address);
}

static enum banyan_status xdp_count(const void *self, struct by_plane_counts *out) {
  return by_xdp_count(self, out->events, &out->unsent);
}

static const struct by_plane_ops xdp_ops = {
    .name = "xdp",
    .needs_neighbours = true,
    .destroy = xdp_destroy,
    .add_port = xdp_add_port,
    .start = xdp_start,
    .clear = xdp_clear,
    .grant = xdp_grant,
    .revoke = xdp_revoke,
    .set_group = xdp_set_group,
    .set_neighbour = xdp_set_neighbour,
    .count = xdp_count,
};

static enum banyan_status open_xdp(const struct by_plane_options *options, struct by_plane *out) {
  struct by_xdp_options of_xdp = {.cells = options->cells, .udp_port = options->udp_port};
  struct by_xdp *xdp;
  BY_TRY(by_xdp_create(&of_xdp, &xdp));
  *out = (struct by_plane){&xdp_ops, xdp};
  return BANYAN_OK;
}

#else

static enum banyan_status open_xdp(const struct by_plane_options *options, struct by_plane *out) {
  return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: built without XDP; install clang and libbpf (scripts/install-deps) "
                                         "and build again, or use --user");
}

#endif

enum banyan_status by_plane_open(struct by_loop *loop, const struct by_plane_options *options, struct by_plane *out) {
  *out = (struct by_plane){0};
  return options->kind == BY_PLANE_XDP ? open_xdp(options, out) : open_user(loop, options, out);
}

void by_plane_close(struct by_plane *plane) {
  if (plane->ops) plane->ops->destroy(plane->self);
  plane->ops = NULL;
}

const char *by_event_name(enum by_event event) {
  static const char *const names[BY_EVENTS] = {
      [BY_EVENT_MALFORMED] = "malformed", [BY_EVENT_WRONG_KEY] = "wrong_key", [BY_EVENT_WRONG_PORT] = "wrong_port",
      [BY_EVENT_NO_GRANT] = "no_grant",   [BY_EVENT_NO_ENTRY] = "no_entry",   [BY_EVENT_NO_CELL] = "no_cell",
      [BY_EVENT_CONFLICT] = "conflict",   [BY_EVENT_STALE] = "stale",         [BY_EVENT_UNMERGED] = "unmerged",
      [BY_EVENT_FORWARDED] = "forwarded", [BY_EVENT_STORED] = "stored",       [BY_EVENT_ADDED] = "added",
      [BY_EVENT_COMPLETED] = "completed", [BY_EVENT_REPEATED] = "repeated",   [BY_EVENT_DUPLICATE] = "duplicate",
      [BY_EVENT_RELEASED] = "released",   [BY_EVENT_RESULT] = "result",       [BY_EVENT_PROBED] = "probed",
  };
  return names[event];
}
