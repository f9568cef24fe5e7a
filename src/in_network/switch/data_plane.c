/* Opens a data plane of either kind, and names events. */
#include "data_plane.h"

enum banyan_status by_plane_open(struct by_loop *loop, const struct by_plane_options *options, struct by_plane *out) {
  *out = (struct by_plane){0};
  if (options->kind == BY_PLANE_USER) return by_user_open(loop, options, out);
#ifdef BY_HAVE_XDP
  return by_xdp_open(options, by_xdp_object, by_xdp_object_bytes, out);
#else
  return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: built without XDP; install clang and libbpf (scripts/install-deps) "
                                         "and build again, or use --user");
#endif
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
      [BY_EVENT_FORGED] = "forged",       [BY_EVENT_REPLAYED] = "replayed",
  };
  return names[event];
}
