/* Builds a lab: namespaces, interfaces, addresses, routes and queues of a layout. */
#include "lab.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "text.h"

enum {
  LOOPBACK = 1,
  FIRST_INTERFACE = 1000,
  MAX_AT_ONCE = 65536,
  PATH_BYTES = 256,
  MAX_HOST_NAME = 64,
  SETTING_BYTES = 256,
  READY_STEPS = 5000
};

struct by_lab {
  const struct by_lab_layout *layout;
  const struct by_lab_options *options;
  int home;
  struct by_arena arena; /* Memory of the arrays. */
  int *spaces;           /* Descriptors; -1: not made. */
  uint32_t *port_first;  /* First port of each space; a port is 2 * wire + end. */
  uint32_t *ports;
  uint32_t n_relayed; /* Number of wires with delay. */
  uint32_t *relayed;
  struct by_relay_link *relay_links; /* Their links. */
  uint64_t *relay_lost;              /* Two counters for each, shared with the relay. */
  pid_t relay;                       /* 0: none. */
  int pass;                          /* The XDP program of fronts; -1: there are no fronts. */
  struct by_netlink netlink;         /* Of the space in which the thread is, if any. */
  struct by_text hosts;              /* Contents of /etc/hosts in the lab. */
};

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab");
  return BANYAN_ERR_NO_MEMORY;
}

/* ---- spaces */

/* ---- Network namespaces without names: descriptors that only this process holds */

/* Opens the calling thread's namespace; the caller closes *out. */
static enum banyan_status open_here(int *out) {
  *out = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (*out >= 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open this process's network namespace");
}

/* Makes a namespace and moves the thread to it. The caller closes *out. */
static enum banyan_status make_space(int *out) {
  if (!unshare(CLONE_NEWNET)) return open_here(out);
  if (errno == EPERM)
    return by_fail(BANYAN_ERR_SYSTEM, "a lab consists of network namespaces, which only root can create: use sudo");
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a network namespace");
}

static enum banyan_status enter_space(int space) {
  if (!setns(space, CLONE_NEWNET)) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot enter a network namespace");
}

static enum banyan_status write_file(const char *path, int flags, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s", path);
  ssize_t n = write(fd, text, strlen(text));
  int reason = errno;
  close(fd);
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot write \"%.64s\" to %s", text, path);
  return BANYAN_OK;
}

/* Sets "net.ipv4.ip_forward" or the like in the thread's namespace: a sysctl's dots are the path's slashes. */
static enum banyan_status set_sysctl(const char *name, const char *value) {
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "/proc/sys/%s", name);
  if (length >= (int)sizeof path || strstr(name, "..") || strncmp(name, "net.", 4) != 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is not a setting of network namespaces (net.*)", name);
  for (char *c = path; *c; c++)
    if (*c == '.') *c = '/';
  return write_file(path, 0, value);
}

static enum banyan_status mount_on(const char *what, const char *where, const char *kind, unsigned long flags) {
  if (!mount(what, where, kind, flags, NULL)) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount %s on %s", what, where);
}

/* Mounts the text over /etc/hosts. That needs a file: one in memory, on a mount that is removed at once. */
static enum banyan_status show_hosts(const char *hosts) {
  /* A chroot made by debootstrap lacks the file. An empty one changes nothing for others. */
  if (access("/etc/hosts", F_OK) && write_file("/etc/hosts", O_CREAT, "") != BANYAN_OK) {
    by_warn("lab", "hosts cannot look up each other's names: %s", banyan_error_text());
    return BANYAN_OK;
  }
  BY_TRY(mount_on("banyan-lab", "/sys", "tmpfs", 0));
  enum banyan_status status = write_file("/sys/hosts", O_CREAT, hosts);
  if (!status) status = mount_on("/sys/hosts", "/etc/hosts", NULL, MS_BIND);
  umount2("/sys", MNT_DETACH);
  return status;
}

/* In a chroot, "/" is a directory on a mount that has no path there. Entering the process's mount namespace leads to
 * the root of all its mounts, and the descriptors lead back into the chroot. */
static enum banyan_status cut_off_in_chroot(void) {
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int mounts = open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);
  bool cut = root >= 0 && here >= 0 && mounts >= 0 && !setns(mounts, CLONE_NEWNS) &&
             !mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) && !fchdir(root) && !chroot(".") && !fchdir(here);
  int reason = errno;
  close(root);
  close(here);
  close(mounts);
  if (cut) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot make a host's mounts private in a chroot");
}

/* Makes later mounts visible to this process and its children only. */
static enum banyan_status cut_off(void) {
  if (!mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL)) return BANYAN_OK;
  if (errno == EINVAL) return cut_off_in_chroot();
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a host's mounts private");
}

/* Sets the host name `host`, /etc/hosts to `hosts` and /sys to the space's devices, for this process only. The process
 * must have one thread. */
static enum banyan_status furnish_process(const char *host, const char *hosts) {
  if (unshare(CLONE_NEWNS | CLONE_NEWUTS))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a mount namespace");
  if (sethostname(host, MIN(strlen(host), MAX_HOST_NAME)))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot call a host \"%.64s\"", host);
  BY_TRY(cut_off());
  BY_TRY(show_hosts(hosts));
  umount2("/sys", MNT_DETACH);
  return mount_on("sysfs", "/sys", "sysfs", 0);
}

/* ---- preparation */

static enum banyan_status list_ports(struct by_lab *lab) {
  const struct by_lab_layout *l = lab->layout;
  lab->port_first = BY_ARENA_ARRAY(&lab->arena, uint32_t, l->n_spaces + 1);
  lab->ports = BY_ARENA_ARRAY(&lab->arena, uint32_t, 2 * (size_t)l->n_wires);
  if (!lab->port_first || !lab->ports) return no_memory();
  for (uint32_t s = 0; s < l->n_spaces; s++) lab->port_first[s + 1] = lab->port_first[s] + l->spaces[s].n_wires;
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (uint32_t end = 0; end < 2; end++)
      lab->ports[lab->port_first[l->wires[i].space[end]] + l->wires[i].port[end]] = 2 * i + end;
  return BANYAN_OK;
}

static bool is_host_name(const char *name) {
  const char *c = name;
  while (isalnum((unsigned char)*c) || *c == '-' || *c == '.' || *c == '_') c++;
  return *name && !*c;
}

static enum banyan_status list_hosts(struct by_lab *lab) {
  const struct by_lab_layout *l = lab->layout;
  char address[BY_ADDRESS_TEXT];
  by_text_add(&lab->hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
  for (uint32_t s = 0; s < l->n_spaces; s++)
    if (l->spaces[s].address && is_host_name(l->spaces[s].name))
      by_text_add(&lab->hosts, "%s %s\n", by_lab_print_address(l, l->spaces[s].address, address), l->spaces[s].name);
  return lab->hosts.failed ? no_memory() : BANYAN_OK;
}

/* Raises the limit of open files: two at a time besides those of the spaces. */
static void raise_limit(uint32_t spaces) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= spaces + 1024) return;
  files.rlim_cur = spaces + 1024;
  files.rlim_max = MAX(files.rlim_max, files.rlim_cur);
  (void)setrlimit(RLIMIT_NOFILE, &files); /* If it fails, open() fails later. */
}

/* ---- making */

static enum banyan_status set_asked(const char *setting) {
  char name[SETTING_BYTES];
  const char *equals = strchr(setting, '=');
  if (!equals || equals - setting >= (ptrdiff_t)sizeof name)
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is not NAME=VALUE", setting);
  snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
  return set_sysctl(name, equals + 1);
}

/* Sets sysctls before there is an interface, so that each gets them from the start. */
static enum banyan_status set_sysctls(const struct by_lab *lab) {
  static const struct {
    const char *name, *value;
    bool ipv6; /* Only for labs of IPv6. */
  } settings[] = {
      {"net.ipv4.ip_forward", "1", false},
      {"net.ipv4.ip_default_ttl", "255", false}, /* Paths may be long. */
      {"net.ipv4.conf.all.rp_filter", "0", false},
      {"net.ipv4.conf.default.rp_filter", "0", false},
      {"net.ipv4.conf.all.send_redirects", "0", false},
      {"net.ipv4.conf.default.send_redirects", "0", false},
      {"net.ipv6.conf.all.disable_ipv6", "0", true},
      {"net.ipv6.conf.default.disable_ipv6", "0", true},
      {"net.ipv6.conf.all.forwarding", "1", true},
      {"net.ipv6.conf.default.hop_limit", "255", true},
      {"net.ipv6.conf.default.addr_gen_mode", "1", true}, /* No link-local addresses. */
  };
  const char *congestion = lab->options->congestion;
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    if (settings[i].ipv6 && !lab->layout->ipv6) continue;
    BY_TRY(set_sysctl(settings[i].name, settings[i].value));
  }
  /* Its own traffic would be counted. A kernel may lack it. */
  if (!lab->layout->ipv6) (void)set_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
  if (*congestion && set_sysctl("net.ipv4.tcp_congestion_control", congestion))
    return by_fail(BANYAN_ERR_SYSTEM,
                   "namespaces of this machine may not use \"%.32s\" for TCP: add it to "
                   "net.ipv4.tcp_allowed_congestion_control, or choose another one, such as \"reno\"",
                   congestion);
  for (const char *const *s = lab->options->sysctls; s && *s; s++) BY_TRY(set_asked(*s));
  return BANYAN_OK;
}

/* Moves the thread to a space, where lab->netlink is used until it moves again. */
static enum banyan_status go_to(struct by_lab *lab, uint32_t space) {
  by_netlink_close(&lab->netlink);
  BY_TRY(enter_space(lab->spaces[space]));
  return by_netlink_open(&lab->netlink);
}

/* Moves the thread back; an earlier error stays. */
static enum banyan_status go_home(struct by_lab *lab, enum banyan_status status) {
  by_netlink_close(&lab->netlink);
  if (lab->home < 0 || !setns(lab->home, CLONE_NEWNET) || status) return status;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot return to the original network namespace");
}

static enum banyan_status make_spaces(struct by_lab *lab) {
  uint32_t n = lab->layout->n_spaces;
  lab->spaces = BY_ARENA_ARRAY(&lab->arena, int, n);
  if (!lab->spaces) return no_memory();
  for (uint32_t s = 0; s < n; s++) lab->spaces[s] = -1;
  for (uint32_t s = 0; s < n; s++) {
    enum banyan_status status = make_space(&lab->spaces[s]);
    if (!status) status = set_sysctls(lab);
    if (status) return by_fail_within(status, "\"%s\"", lab->layout->spaces[s].name);
  }
  return BANYAN_OK;
}

/* Returns the bytes that TCP may pass at once: they are cut only after the queue, so they should not exceed a burst. */
static uint32_t max_segment(const struct by_lab *lab, double rate) {
  double min = 4 * (double)lab->options->mtu, bytes = lab->options->burst * rate / 8;
  return (uint32_t)MIN(MAX(bytes, min), MAX_AT_ONCE);
}

/* A wire's two ends, and the hardware address of both. */
struct wire_ends {
  struct by_netlink_end ends[2];
  uint8_t mac[6];
};

static void describe_ends(const struct by_lab *lab, uint32_t i, struct wire_ends *out) {
  const struct by_lab_wire *wire = &lab->layout->wires[i];
  const uint8_t mac[6] = {2, 0, (uint8_t)(i >> 24), (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
  memcpy(out->mac, mac, sizeof mac);
  for (int end = 0; end < 2; end++) {
    out->ends[end] = (struct by_netlink_end){.interface = FIRST_INTERFACE + wire->port[end],
                                             .namespace_fd = lab->spaces[wire->space[end]],
                                             .at_once = max_segment(lab, wire->rate[end]),
                                             .cut = wire->loss > 0};
    snprintf(out->ends[end].name, sizeof out->ends[end].name, "eth%u", wire->port[end]);
  }
}

/* Delays need the relay; losses only together with a delay. */
static bool is_relayed(const struct by_lab_wire *wire) {
  return wire->delay > 0;
}

/* Returns the index of a front's interface towards its switch. */
static unsigned inner_interface(const struct by_lab *lab, uint32_t front, uint32_t port) {
  return FIRST_INTERFACE + lab->layout->spaces[front].n_wires + port;
}

/* Makes the pair between a front and its switch, whose end has the wire's name, index and address. */
static enum banyan_status make_inner_pair(struct by_lab *lab, uint32_t front, uint32_t port) {
  struct wire_ends ends;
  uint32_t wire = lab->ports[lab->port_first[front] + port] / 2;
  describe_ends(lab, wire, &ends);
  struct by_netlink_end *outside = &ends.ends[lab->layout->wires[wire].space[0] == front ? 0 : 1];
  struct by_netlink_end pair[2] = {*outside, *outside};
  pair[0].namespace_fd = lab->spaces[lab->layout->spaces[front].node];
  snprintf(pair[1].name, sizeof pair[1].name, "in%u", port);
  pair[1].interface = inner_interface(lab, front, port);
  return by_netlink_add_pair(&lab->netlink, pair, ends.mac, lab->options->mtu);
}

/* Makes the wires without delay, and those between fronts and their switches. */
static enum banyan_status make_pairs(struct by_lab *lab) {
  const struct by_lab_layout *l = lab->layout;
  struct wire_ends ends;
  if (lab->options->xdp) BY_TRY(by_program_pass(&lab->pass));
  BY_TRY(by_netlink_open(&lab->netlink));
  for (uint32_t i = 0; i < l->n_wires; i++) {
    if (is_relayed(&l->wires[i])) continue;
    describe_ends(lab, i, &ends);
    BY_TRY(by_netlink_add_pair(&lab->netlink, ends.ends, ends.mac, lab->options->mtu));
  }
  for (uint32_t s = 0; s < l->n_spaces; s++)
    for (uint32_t k = 0; l->spaces[s].front && k < l->spaces[s].n_wires; k++) BY_TRY(make_inner_pair(lab, s, k));
  return BANYAN_OK;
}

/* Makes one end of a wire with delay in its space. */
static enum banyan_status make_tap(struct by_lab *lab, const struct wire_ends *ends, uint32_t space, int end,
                                   bool whole, int *out) {
  const struct by_netlink_end *it = &ends->ends[end];
  BY_TRY(go_to(lab, space));
  BY_TRY(by_tap_make(it->name, it->interface, whole, out));
  return by_netlink_fit(&lab->netlink, it, ends->mac, lab->options->mtu);
}

static enum banyan_status make_relayed(struct by_lab *lab) {
  struct wire_ends ends;
  for (uint32_t k = 0; k < lab->n_relayed; k++) {
    struct by_relay_link *link = &lab->relay_links[k];
    describe_ends(lab, lab->relayed[k], &ends);
    for (int end = 0; end < 2; end++) {
      uint32_t space = lab->layout->wires[lab->relayed[k]].space[end];
      BY_TRY(make_tap(lab, &ends, space, end, link->loss <= 0, &link->fds[end]));
    }
  }
  by_netlink_close(&lab->netlink); /* The relay would inherit it. */
  return by_relay_start(lab->relay_links, lab->n_relayed, lab->relay_lost, &lab->relay);
}

static size_t lost_bytes(const struct by_lab *lab) {
  return 2 * (size_t)lab->n_relayed * sizeof *lab->relay_lost;
}

static enum banyan_status make_delays(struct by_lab *lab) {
  uint32_t n = lab->layout->n_wires;
  lab->relayed = BY_ARENA_ARRAY(&lab->arena, uint32_t, n);
  lab->relay_links = BY_ARENA_ARRAY(&lab->arena, struct by_relay_link, n);
  if (!lab->relayed || !lab->relay_links) return no_memory();
  for (uint32_t i = 0; i < n; i++) {
    const struct by_lab_wire *wire = &lab->layout->wires[i];
    if (!is_relayed(wire)) continue;
    lab->relay_links[lab->n_relayed] =
        (struct by_relay_link){.fds = {-1, -1}, .delay = wire->delay, .loss = wire->loss};
    lab->relayed[lab->n_relayed++] = i;
  }
  if (!lab->n_relayed) return BANYAN_OK;
  void *shared = mmap(NULL, lost_bytes(lab), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return no_memory();
  lab->relay_lost = shared;
  enum banyan_status status = make_relayed(lab);
  /* The descriptors belong to the relay only, so that interfaces end with it. */
  for (uint32_t k = 0; k < lab->n_relayed; k++)
    for (int end = 0; end < 2; end++)
      if (lab->relay_links[k].fds[end] >= 0) close(lab->relay_links[k].fds[end]);
  return status;
}

static enum banyan_status shape_port(struct by_lab *lab, unsigned interface, double rate, bool there) {
  const struct by_lab_options *options = lab->options;
  double min = 8. * (double)options->mtu / rate;
  if (!(rate > 0)) return BANYAN_OK; /* No route leads there. */
  return by_netlink_shape(&lab->netlink, interface,
                          &(struct by_netlink_shape){.rate = rate,
                                                     .burst = MAX(options->burst, min),
                                                     .queue = by_lab_queue_bytes(options, rate),
                                                     .fifo = options->fifo,
                                                     .ipv6 = options->ipv6,
                                                     .there = there,
                                                     .by_tos = options->by_tos});
}

/* Drops a share of the packets that arrive from the other end. */
static enum banyan_status drop_share(struct by_netlink *netlink, unsigned interface, double share) {
  int program;
  BY_TRY(by_program_lose(share, &program));
  enum banyan_status status = by_netlink_lose(netlink, interface, program);
  close(program);
  return status;
}

/* Connects a link's end at a front with the switch. Packets that XDP sends into a veth are lost if its other end has no
 * program. */
static enum banyan_status connect_front(struct by_lab *lab, unsigned inner, unsigned outer) {
  struct by_netlink *netlink = &lab->netlink;
  BY_TRY(by_netlink_attach(netlink, inner, lab->pass));
  BY_TRY(by_netlink_redirect(netlink, inner, outer));
  BY_TRY(by_netlink_redirect(netlink, outer, inner));
  return by_netlink_up(netlink, inner, false);
}

/* Configures the space's end of a wire. */
static enum banyan_status furnish_wire(struct by_lab *lab, uint32_t space, uint32_t k) {
  uint32_t port = lab->ports[lab->port_first[space] + k];
  const struct by_lab_wire *wire = &lab->layout->wires[port / 2];
  BY_TRY(shape_port(lab, FIRST_INTERFACE + k, wire->rate[port % 2], false));
  if (wire->loss > 0 && !is_relayed(wire)) BY_TRY(drop_share(&lab->netlink, FIRST_INTERFACE + k, wire->loss));
  if (!lab->layout->spaces[space].front) return BANYAN_OK;
  return connect_front(lab, inner_interface(lab, space, k), FIRST_INTERFACE + k);
}

static uint32_t count_interfaces(const struct by_lab *lab, uint32_t space) {
  const struct by_lab_layout *l = lab->layout;
  return l->spaces[l->spaces[space].outside].n_wires;
}

static enum banyan_status furnish_ports(struct by_lab *lab, uint32_t space) {
  struct by_netlink *netlink = &lab->netlink;
  const struct by_lab_space *it = &lab->layout->spaces[space];
  BY_TRY(by_netlink_up(netlink, LOOPBACK, true));
  for (uint32_t k = 0; k < count_interfaces(lab, space); k++) {
    if (k < it->n_wires) BY_TRY(furnish_wire(lab, space, k));
    BY_TRY(by_netlink_up(netlink, FIRST_INTERFACE + k, false));
    const struct in6_addr address = by_lab_host(lab->layout, it->address);
    if (!k && it->address) BY_TRY(by_netlink_add_address(netlink, FIRST_INTERFACE, &address));
  }
  return BANYAN_OK;
}

static enum banyan_status lay_routes(struct by_lab *lab, uint32_t space, uint32_t *next) {
  const struct by_lab_layout *l = lab->layout;
  for (; *next < l->n_routes && l->routes[*next].space == space; ++*next) {
    const struct by_lab_route *route = &l->routes[*next];
    const struct by_lab_wire *wire = &l->wires[route->wire];
    unsigned interface = FIRST_INTERFACE + wire->port[wire->space[0] != l->spaces[space].outside];
    const struct in6_addr to = by_lab_host(l, route->to), source = by_lab_host(l, l->spaces[space].address);
    const struct by_netlink_route added = {l->ipv6, route->to ? &to : NULL, l->spaces[space].address ? &source : NULL,
                                           false};
    BY_TRY(by_netlink_add_route(&lab->netlink, interface, &added));
  }
  return BANYAN_OK;
}

/* A switch that aggregates sends by the port that a tree names, whatever its routes prefer. For that IPv4 needs all
 * addresses on the link; IPv6 needs a route. */
static enum banyan_status add_default_routes(struct by_lab *lab, uint32_t space) {
  const struct by_lab_layout *l = lab->layout;
  const struct by_node *node = &l->topology->nodes[l->spaces[space].node];
  const struct by_netlink_route everywhere = {.ipv6 = true, .last = true};
  if (!l->ipv6 || node->kind != BY_NODE_SWITCH || !node->aggregates || l->spaces[space].front) return BANYAN_OK;
  for (uint32_t k = 0; k < count_interfaces(lab, space); k++)
    BY_TRY(by_netlink_add_route(&lab->netlink, FIRST_INTERFACE + k, &everywhere));
  return BANYAN_OK;
}

static enum banyan_status furnish_space(struct by_lab *lab, uint32_t space, uint32_t *next_route) {
  BY_TRY(go_to(lab, space));
  enum banyan_status status = furnish_ports(lab, space);
  if (!status) status = lay_routes(lab, space, next_route);
  if (!status) status = add_default_routes(lab, space);
  return status ? by_fail_within(status, "\"%s\"", lab->layout->spaces[space].name) : BANYAN_OK;
}

/* Waits until the interfaces are ready: before that a host would seem to have no address. */
static enum banyan_status await_space(struct by_lab *lab, uint32_t space) {
  unsigned running = 0, wanted = count_interfaces(lab, space) * (lab->layout->spaces[space].front ? 2 : 1);
  BY_TRY(go_to(lab, space));
  for (int i = 0; i < READY_STEPS; i++) {
    BY_TRY(by_netlink_count_running(&lab->netlink, FIRST_INTERFACE, &running));
    if (running >= wanted) return BANYAN_OK;
    usleep(2000);
  }
  return by_fail(BANYAN_ERR_SYSTEM, "\"%s\": only %u of %u interfaces are ready after %d s",
                 lab->layout->spaces[space].name, running, wanted, READY_STEPS / 500);
}

static enum banyan_status make(struct by_lab *lab) {
  uint32_t next_route = 0;
  BY_TRY(list_ports(lab));
  BY_TRY(list_hosts(lab));
  raise_limit(lab->layout->n_spaces);
  BY_TRY(open_here(&lab->home));
  BY_TRY(make_spaces(lab));
  BY_TRY(make_pairs(lab));
  BY_TRY(make_delays(lab));
  for (uint32_t s = 0; s < lab->layout->n_spaces; s++) BY_TRY(furnish_space(lab, s, &next_route));
  for (uint32_t s = 0; s < lab->layout->n_spaces; s++) BY_TRY(await_space(lab, s));
  return BANYAN_OK;
}

enum banyan_status by_lab_create(const struct by_lab_layout *layout, const struct by_lab_options *options,
                                 struct by_lab **out) {
  struct by_lab *lab = calloc(1, sizeof *lab);
  if (!lab) return no_memory();
  *lab = (struct by_lab){.layout = layout, .options = options, .home = -1, .pass = -1};
  by_arena_init(&lab->arena);
  by_text_init(&lab->hosts);
  enum banyan_status status = go_home(lab, make(lab));
  if (status)
    by_lab_destroy(lab);
  else
    *out = lab;
  return status;
}

void by_lab_destroy(struct by_lab *lab) {
  if (!lab) return;
  if (lab->relay) by_relay_stop(lab->relay);
  if (lab->relay_lost) munmap(lab->relay_lost, lost_bytes(lab));
  for (uint32_t s = 0; lab->spaces && s < lab->layout->n_spaces; s++)
    if (lab->spaces[s] >= 0) close(lab->spaces[s]);
  if (lab->home >= 0) close(lab->home);
  if (lab->pass >= 0) close(lab->pass);
  by_text_fini(&lab->hosts);
  by_arena_fini(&lab->arena);
  free(lab);
}

enum banyan_status by_lab_enter(const struct by_lab *lab, uint32_t space) {
  BY_TRY(enter_space(lab->spaces[space]));
  return furnish_process(lab->layout->spaces[space].name, by_text_get(&lab->hosts));
}

enum banyan_status by_lab_change(struct by_lab *lab, uint32_t wire, double rate) {
  const struct by_lab_wire *it = &lab->layout->wires[wire];
  for (int end = 0; end < 2; end++) {
    BY_TRY(go_to(lab, it->space[end]));
    if (it->rate[end] > 0) BY_TRY(shape_port(lab, FIRST_INTERFACE + it->port[end], rate, true));
  }
  return BANYAN_OK;
}

/* ---- counters */

static enum banyan_status read_space(struct by_lab *lab, uint32_t space, struct by_netlink_counters *counters,
                                     struct by_lab_traffic *out) {
  uint32_t n = lab->layout->spaces[space].n_wires;
  memset(counters, 0, (FIRST_INTERFACE + n) * sizeof *counters);
  BY_TRY(go_to(lab, space));
  BY_TRY(by_netlink_read(&lab->netlink, counters, FIRST_INTERFACE + n));
  for (uint32_t k = 0; k < n; k++) {
    const struct by_netlink_counters *c = &counters[FIRST_INTERFACE + k];
    uint32_t port = lab->ports[lab->port_first[space] + k];
    out[port].bytes = c->bytes;
    out[port].packets = c->packets;
    out[port].drops += c->drops;
    out[port ^ 1].drops += c->lost; /* Lost on arrival here. */
  }
  return BANYAN_OK;
}

/* Adds packets that the relay lost. */
static enum banyan_status add_relayed(const struct by_lab *lab, struct by_lab_traffic *out) {
  if (lab->relay && !by_relay_lives(lab->relay))
    return by_fail(BANYAN_ERR_SYSTEM,
                   "the process that delays packets has ended; since then links with delay have carried nothing");
  for (uint32_t k = 0; k < lab->n_relayed; k++)
    for (uint32_t end = 0; end < 2; end++) out[2 * lab->relayed[k] + end].drops += lab->relay_lost[2 * k + end];
  return BANYAN_OK;
}

enum banyan_status by_lab_read(struct by_lab *lab, struct by_lab_traffic *out) {
  uint32_t max = 0;
  for (uint32_t s = 0; s < lab->layout->n_spaces; s++) max = MAX(max, lab->layout->spaces[s].n_wires);
  struct by_netlink_counters *counters = calloc(FIRST_INTERFACE + max, sizeof *counters);
  if (!counters) return no_memory();
  enum banyan_status status = BANYAN_OK;
  memset(out, 0, 2 * (size_t)lab->layout->n_wires * sizeof *out);
  for (uint32_t s = 0; !status && s < lab->layout->n_spaces; s++) status = read_space(lab, s, counters, out);
  free(counters);
  if (!status) status = add_relayed(lab, out);
  return go_home(lab, status);
}
