/* A switch in XDP: loads the programs, fills their maps, attaches them to interfaces. It ends with its process, even if
 * that is killed: attachments belong to file descriptors. Needs root (CAP_BPF and CAP_NET_ADMIN). Interfaces must
 * support native XDP: under generic XDP the kernel has already merged packets, of which only the first would be added.
 * The other end of a veth pair needs a native program, too (XDP_PASS suffices), or packets to it are lost silently. One
 * thread at a time. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "data_plane.h"
#include "library.h"
#include "log.h"
#include "step.h"
#include "xdp_maps.h"

/* ---- libbpf */

/* Loaded by the first XDP switch of a process, since the command must run on hosts without it. */
#define LIBRARY "libbpf.so.1"

#define LIBBPF(X)                                                                                                      \
  X(bpf_link_create)                                                                                                   \
  X(bpf_map__set_max_entries)                                                                                          \
  X(bpf_map__value_size)                                                                                               \
  X(bpf_map_create)                                                                                                    \
  X(bpf_map_delete_elem)                                                                                               \
  X(bpf_map_get_next_key)                                                                                              \
  X(bpf_map_lookup_elem)                                                                                               \
  X(bpf_map_update_elem)                                                                                               \
  X(bpf_object__close)                                                                                                 \
  X(bpf_object__find_map_by_name)                                                                                      \
  X(bpf_object__find_map_fd_by_name)                                                                                   \
  X(bpf_object__find_program_by_name)                                                                                  \
  X(bpf_object__load)                                                                                                  \
  X(bpf_object__open_mem)                                                                                              \
  X(bpf_program__fd)                                                                                                   \
  X(libbpf_num_possible_cpus)                                                                                          \
  X(libbpf_set_print)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct { LIBBPF(BY_LIBRARY_MEMBER) } bpf; /* Its functions, by their names. */
static char missing[256];                        /* Why it cannot be used; "": it can. */

static void load_library(void) {
  static const char *const names[] = {LIBBPF(BY_LIBRARY_NAME)};
  if (by_library_load("a switch in XDP", LIBRARY, "libbpf1", names, sizeof names / sizeof *names, &bpf))
    snprintf(missing, sizeof missing, "%s", banyan_error_text());
}

/* ---- the switch */

struct port {
  char name[IF_NAMESIZE];
  unsigned interface; /* 0: no such port. */
  uint8_t hardware[6];
  int link;       /* Descriptor of the attachment; -1: not attached. */
  uint32_t named; /* Number of addresses with their own next hop. */
  struct by_xdp_hops hops;
};

struct by_xdp {
  struct bpf_object *object;
  uint32_t cells;
  uint32_t granted[BY_XDP_JOBS]; /* Index of the job's grant; 0: none. */
  bool taken[BY_XDP_GRANTS];
  uint32_t last_taken;
  struct port ports[BY_FRAGMENT_PORTS];
  struct by_switch_target targets[BY_XDP_GROUPS][BY_XDP_MEMBERS];
  uint32_t n_targets[BY_XDP_GROUPS];
};

static int log_message(enum libbpf_print_level level, const char *format, va_list values) {
  char text[512];
  vsnprintf(text, sizeof text, format, values);
  text[strcspn(text, "\n")] = 0;
  if (level != LIBBPF_DEBUG) by_info("switch", "libbpf: %s", text);
  return 0;
}

static int map_fd(const struct by_xdp *xdp, const char *name) {
  return bpf.bpf_object__find_map_fd_by_name(xdp->object, name);
}

int by_xdp_program(const struct by_xdp *xdp, const char *name) {
  const struct bpf_program *program = bpf.bpf_object__find_program_by_name(xdp->object, name);
  return program ? bpf.bpf_program__fd(program) : -1;
}

static enum banyan_status put_value(const struct by_xdp *xdp, const char *map, const void *key, const void *value) {
  if (bpf.bpf_map_update_elem(map_fd(xdp, map), key, value, BPF_ANY) == 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: cannot write to the XDP program's map \"%s\"", map);
}

static enum banyan_status load_programs(struct by_xdp *xdp, const struct by_plane_options *options, const void *object,
                                        size_t bytes) {
  struct bpf_object_open_opts open = {.sz = sizeof open, .object_name = "banyan_switch"};
  bpf.libbpf_set_print(log_message);
  if (!(xdp->object = bpf.bpf_object__open_mem(object, bytes, &open)))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: libbpf cannot read the XDP object");
  struct bpf_map *cells = bpf.bpf_object__find_map_by_name(xdp->object, "cells");
  if (!cells || bpf.bpf_map__set_max_entries(cells, options->cells ? options->cells : 1))
    return by_fail(BANYAN_ERR_SYSTEM, "switch: the XDP object has no cells");
  int result = bpf.bpf_object__load(xdp->object);
  if (result == -EPERM)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: the kernel does not let this user load XDP programs; run as root");
  if (result)
    return by_fail_errno(BANYAN_ERR_SYSTEM, -result,
                         "switch: the kernel refused the XDP program; BANYAN_LOG=info says why");
  return BANYAN_OK;
}

static void destroy_switch(void *self) {
  struct by_xdp *xdp = self;
  for (int i = 0; i < BY_FRAGMENT_PORTS; i++)
    if (xdp->ports[i].link >= 0) close(xdp->ports[i].link);
  bpf.bpf_object__close(xdp->object);
  free(xdp);
}

static enum banyan_status check_port(const struct by_xdp *xdp, uint32_t number) {
  if (number < BY_FRAGMENT_PORTS && xdp->ports[number].interface) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "switch: there is no port %u", number);
}

/* Each frame that leaves the interface must pass this program, whichever map selected it: the kernel uses the program
 * of the first frame of a batch for all. */
static struct bpf_devmap_val device_of(const struct by_xdp *xdp, unsigned interface) {
  return (struct bpf_devmap_val){.ifindex = interface, .bpf_prog.fd = by_xdp_program(xdp, "by_xdp_leave")};
}

static enum banyan_status add_port(void *self, uint32_t number, const char *interface) {
  struct by_xdp *xdp = self;
  if (number >= BY_FRAGMENT_PORTS || xdp->ports[number].interface)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: %s cannot be port %u: ports are numbered 0 to %d, each once",
                   interface, number, BY_FRAGMENT_PORTS - 1);
  struct port *port = &xdp->ports[number];
  unsigned index = if_nametoindex(interface);
  if (!index) return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: no interface %s", interface);
  if (index >= BY_XDP_INTERFACES)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: %s is interface %u; only those below %d can be ports", interface,
                   index, BY_XDP_INTERFACES);
  struct ifreq request = {0};
  int reason = by_interface_ask(interface, SIOCGIFHWADDR, &request);
  if (reason) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: cannot ask for the address of %s", interface);
  memcpy(port->hardware, request.ifr_hwaddr.sa_data, 6);
  struct by_xdp_port value = {.ours = 1, .number = number};
  struct bpf_devmap_val device = device_of(xdp, index);
  BY_TRY(put_value(xdp, "ports", &index, &value));
  BY_TRY(put_value(xdp, "interfaces", &number, &device));
  snprintf(port->name, sizeof port->name, "%s", interface);
  port->interface = index;
  return BANYAN_OK;
}

enum banyan_status by_xdp_attach(struct by_xdp *xdp, uint32_t number) {
  BY_TRY(check_port(xdp, number));
  struct port *port = &xdp->ports[number];
  struct bpf_link_create_opts options = {.sz = sizeof options, .flags = XDP_FLAGS_DRV_MODE};
  int link = bpf.bpf_link_create(by_xdp_program(xdp, "by_xdp_switch"), (int)port->interface, BPF_XDP, &options);
  if (link == -EOPNOTSUPP || link == -EINVAL)
    return by_fail_errno(BANYAN_ERR_UNSUPPORTED, -link,
                         "switch: the driver of %s takes no native XDP program (veth: is its MTU above 3506?); generic "
                         "mode would lose fragments, use the user-space switch",
                         port->name);
  if (link == -EBUSY)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "switch: %s has an XDP program already, of another switch or other software; see "
                   "bpftool net",
                   port->name);
  if (link < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, -link, "switch: cannot attach to %s", port->name);
  port->link = link;
  return BANYAN_OK;
}

static struct by_xdp_neighbour neighbour_by(const struct port *port, const uint8_t hardware[6]) {
  struct by_xdp_neighbour neighbour;
  memcpy(neighbour.to, hardware, 6);
  memcpy(neighbour.from, port->hardware, 6);
  return neighbour;
}

static struct by_xdp_host host_of(const struct in6_addr *address) {
  struct by_xdp_host host;
  memcpy(&host, address, sizeof host);
  return host;
}

static enum banyan_status set_neighbour(void *self, uint32_t number, const struct in6_addr *address,
                                        const uint8_t hardware[6]) {
  struct by_xdp *xdp = self;
  BY_TRY(check_port(xdp, number));
  struct port *port = &xdp->ports[number];
  struct by_xdp_next next = {.port = number};
  if (address) next.address = host_of(address);
  if (hardware) {
    struct by_xdp_neighbour neighbour = neighbour_by(port, hardware), before;
    bool is_new = address && bpf.bpf_map_lookup_elem(map_fd(xdp, "neighbours"), &next, &before) != 0;
    if (address) BY_TRY(put_value(xdp, "neighbours", &next, &neighbour));
    if (!address) port->hops.has_other = 1, port->hops.other = neighbour;
    port->named += is_new;
  } else if (!address) {
    port->hops.has_other = 0;
  } else if (bpf.bpf_map_delete_elem(map_fd(xdp, "neighbours"), &next) == 0) {
    port->named--;
  }
  struct by_xdp_hops hops = port->hops;
  hops.has_named = port->named > 0;
  return put_value(xdp, "ways", &number, &hops);
}

static enum banyan_status clear_cells(void *self, uint32_t base, uint32_t count_events) {
  const struct by_xdp *xdp = self;
  const struct bpf_map *map = bpf.bpf_object__find_map_by_name(xdp->object, "cells");
  void *nothing = calloc(1, bpf.bpf_map__value_size(map));
  enum banyan_status status = BANYAN_OK;
  if (!nothing) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  for (uint32_t at = base; at < base + count_events && status == BANYAN_OK; at++)
    status = put_value(xdp, "cells", &at, nothing);
  free(nothing);
  return status;
}

/* Returns the grant index that was freed longest ago, so that no packet still uses it; 0: none is free. */
static uint32_t take_index(struct by_xdp *xdp) {
  for (uint32_t i = 0; i < BY_XDP_GRANTS; i++) {
    uint32_t grant_index = xdp->last_taken = (xdp->last_taken + 1) % BY_XDP_GRANTS;
    if (grant_index && !xdp->taken[grant_index]) return grant_index;
  }
  return 0;
}

static enum banyan_status move_grant(struct by_xdp *xdp, uint32_t job, uint32_t grant_index) {
  BY_TRY(put_value(xdp, "jobs", &job, &grant_index));
  xdp->taken[xdp->granted[job]] = false;
  xdp->taken[grant_index] = grant_index != 0;
  xdp->granted[job] = grant_index;
  return BANYAN_OK;
}

/* Removes the windows of sequence numbers, for a new key. */
static void forget_windows(const struct by_xdp *xdp, uint32_t group) {
  struct by_xdp_sender key, next;
  int windows = map_fd(xdp, "windows");
  bool found = bpf.bpf_map_get_next_key(windows, NULL, &next) == 0;
  while (found) {
    key = next;
    found =
        bpf.bpf_map_get_next_key(windows, &key, &next) == 0; /* The next key must be read before this one is deleted. */
    if (key.group == group) bpf.bpf_map_delete_elem(windows, &key);
  }
}

static enum banyan_status give_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  struct by_xdp *xdp = self;
  const struct by_xdp_grant granted = {.grant = *grant, .udp_port = ends->server.end.port};
  BY_TRY(by_grant_check(grant, xdp->cells, BY_XDP_GROUPS));
  if (grant->dtype != BY_FRAGMENT_PAIRS)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "switch: job %u wants float32 added, which XDP cannot; run it with --user, or leave BANYAN_SUMS "
                   "at fixed",
                   grant->job);
  uint32_t grant_index = take_index(xdp);
  if (!grant_index) return by_fail(BANYAN_ERR_UNSUPPORTED, "switch: there are %d grants already", BY_XDP_GRANTS - 1);
  uint32_t group = grant->group;
  if (grant->keyed) BY_TRY(put_value(xdp, "hop_keys", &group, ends->key));
  forget_windows(xdp, group); /* Fragments with the previous key are now rejected, and create no windows. */
  BY_TRY(put_value(xdp, "grants", &grant_index, &granted));
  return move_grant(xdp, grant->job, grant_index);
}

static enum banyan_status revoke_grant(void *self, uint16_t job) {
  struct by_xdp *xdp = self;
  if (!xdp->granted[job]) return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u has no grant to revoke", job);
  return move_grant(xdp, job, 0);
}

/* Returns the number of the first `n` targets that leave by this port. */
static uint32_t count_by_port(const struct by_switch_target *targets, uint32_t n, uint32_t port) {
  uint32_t n_found = 0;
  for (uint32_t i = 0; i < n; i++) n_found += targets[i].port == port;
  return n_found;
}

static struct by_xdp_member member_key(uint32_t group, const struct by_switch_target *targets, uint32_t i) {
  uint32_t port = targets[i].port;
  return (struct by_xdp_member){.group = group, .port = port, .number = count_by_port(targets, i, port)};
}

static enum banyan_status add_member(struct by_xdp *xdp, uint32_t group, uint32_t i, int devices) {
  const struct by_switch_target *targets = xdp->targets[group], *target = &targets[i];
  struct by_xdp_member key = member_key(group, targets, i);
  uint32_t members = count_by_port(targets, xdp->n_targets[group], target->port);
  struct by_xdp_address address = {.neighbour = neighbour_by(&xdp->ports[target->port], target->hardware),
                                   .udp_port = target->udp_port,
                                   .members = (uint16_t)members,
                                   .address = host_of(&target->address)};
  struct bpf_devmap_val device = device_of(xdp, xdp->ports[target->port].interface);
  BY_TRY(put_value(xdp, "members", &key, &address));
  if (bpf.bpf_map_update_elem(devices, &i, &device, BPF_ANY))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: cannot add a member to group %u", group);
  return BANYAN_OK;
}

static enum banyan_status set_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  struct by_xdp *xdp = self;
  if (group >= BY_XDP_GROUPS || n > BY_XDP_MEMBERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: group %u with %u members; groups are 0 to %d, of at most %d", group, n,
                   BY_XDP_GROUPS - 1, BY_XDP_MEMBERS);
  for (uint32_t i = 0; i < n; i++) BY_TRY(check_port(xdp, targets[i].port));
  for (uint32_t i = 0; i < xdp->n_targets[group]; i++) {
    struct by_xdp_member key = member_key(group, xdp->targets[group], i);
    bpf.bpf_map_delete_elem(map_fd(xdp, "members"), &key);
  }
  memcpy(xdp->targets[group], targets, n * sizeof *targets);
  xdp->n_targets[group] = n;
  int devices = bpf.bpf_map_create(BPF_MAP_TYPE_DEVMAP, "group", sizeof(uint32_t), sizeof(struct bpf_devmap_val),
                                   BY_XDP_MEMBERS, NULL);
  if (devices < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, -devices, "switch: cannot make group %u", group);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) status = add_member(xdp, group, i, devices);
  uint32_t key = group;
  if (status == BANYAN_OK) status = put_value(xdp, "groups", &key, &devices);
  close(devices);
  return status;
}

static enum banyan_status count_events(const void *self, struct by_plane_counts *out) {
  const struct by_xdp *xdp = self;
  int cores = bpf.libbpf_num_possible_cpus();
  if (cores < 1) return by_fail_errno(BANYAN_ERR_SYSTEM, -cores, "switch: cannot tell the number of cores");
  uint64_t *of_cores = calloc((size_t)cores, sizeof *of_cores);
  if (!of_cores) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  *out = (struct by_plane_counts){0};
  for (uint32_t i = 0; i < BY_XDP_COUNTERS; i++) {
    uint64_t *sum = i == BY_XDP_UNSENT ? &out->unsent : &out->events[i];
    if (bpf.bpf_map_lookup_elem(map_fd(xdp, "counters"), &i, of_cores)) continue;
    for (int core = 0; core < cores; core++) *sum += of_cores[core];
  }
  free(of_cores);
  return BANYAN_OK;
}

static enum banyan_status attach_all(void *self, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_xdp_attach(self, i));
  return BANYAN_OK;
}

static const struct by_plane_ops ops = {
    .name = "xdp",
    .needs_neighbours = true,
    .destroy = destroy_switch,
    .add_port = add_port,
    .start = attach_all,
    .clear = clear_cells,
    .grant = give_grant,
    .revoke = revoke_grant,
    .set_group = set_group,
    .set_neighbour = set_neighbour,
    .count = count_events,
};

enum banyan_status by_xdp_open(const struct by_plane_options *options, const void *object, size_t bytes,
                               struct by_plane *out) {
  *out = (struct by_plane){0};
  pthread_once(&once, load_library);
  if (*missing) return by_fail(BANYAN_ERR_UNSUPPORTED, "%s", missing);
  struct by_xdp *xdp = calloc(1, sizeof *xdp);
  if (!xdp) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  for (int i = 0; i < BY_FRAGMENT_PORTS; i++) xdp->ports[i].link = -1;
  xdp->cells = options->cells;
  enum banyan_status status = load_programs(xdp, options, object, bytes);
  if (status == BANYAN_OK)
    *out = (struct by_plane){&ops, xdp};
  else
    destroy_switch(xdp);
  return status;
}
