/* Reads rates and counters of interfaces, and sets and removes the queues of priority classes. */
#include "host_links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <math.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "log.h"
#include "netlink.h"

enum {
  LINK = 1,       /* Class with the link's rate. */
  OTHERS = 2,     /* Class of unmarked traffic. */
  FIRST = 3,      /* Class of priority 0; the others follow. */
  BURST_MS = 2,   /* Milliseconds at the link's rate that a class may send at once. */
  QUANTUM = 30000 /* Bytes that classes of the same priority send in turn. */
};

static uint32_t class_handle(uint32_t minor) {
  return (uint32_t)BY_HOST_QUEUES_MAJOR << 16 | minor;
}

/* ---- the queue at the root */

struct root {
  unsigned interface;
  uint32_t handle; /* 0: the kernel's default queue. */
  char kind[16];
};

static int read_root(const struct nlmsghdr *header, void *context) {
  struct root *root = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  if ((unsigned)body->tcm_ifindex != root->interface || body->tcm_parent != TC_H_ROOT) return MNL_CB_OK;
  root->handle = body->tcm_handle;
  by_netlink_copy(by_netlink_find(header, sizeof *body, TCA_KIND), root->kind, sizeof root->kind - 1);
  return MNL_CB_OK;
}

static const char *name_of(unsigned interface, char name[IF_NAMESIZE]) {
  return if_indextoname(interface, name) ? name : "?";
}

static enum banyan_status find_root(struct by_netlink *netlink, unsigned interface, struct root *out) {
  *out = (struct root){.interface = interface};
  int reason = by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), read_root, out);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot list the queues of interfaces") : BANYAN_OK;
}

static enum banyan_status fail_queues(int reason, unsigned interface, const char *what) {
  char name[IF_NAMESIZE];
  if (!reason) return BANYAN_OK;
  if (reason == EPERM)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "queues of %s: this process may not change them: run it as root, or give it "
                   "CAP_NET_ADMIN",
                   name_of(interface, name));
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "queues of %s: the kernel %s", name_of(interface, name), what);
}

/* ---- setting queues */

static enum banyan_status add_class(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t minor,
                                    double rate, double ceil, uint32_t early) {
  struct by_tc_class class_ = {.parent = parent,
                               .handle = class_handle(minor),
                               .rate = by_tc_bytes(rate),
                               .ceil = by_tc_bytes(ceil),
                               .burst = BURST_MS * 1e-3,
                               .quantum = QUANTUM,
                               .early = early};
  return fail_queues(by_tc_add_class(netlink, interface, &class_), interface, "makes no class of an htb queue");
}

static enum banyan_status add_queues(struct by_netlink *netlink, unsigned interface,
                                     const struct by_host_queues *queues) {
  double rate = queues->rate, guaranteed = rate * queues->guarantee;
  BY_TRY(fail_queues(by_tc_add_htb(netlink, interface, class_handle(0), OTHERS), interface,
                     "makes no htb queue (CONFIG_NET_SCH_HTB)"));
  BY_TRY(add_class(netlink, interface, class_handle(0), LINK, rate, rate, 0));
  BY_TRY(add_class(netlink, interface, class_handle(LINK), OTHERS, guaranteed, rate, 0));
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    BY_TRY(add_class(netlink, interface, class_handle(LINK), FIRST + c, guaranteed, rate, c));
    BY_TRY(
        fail_queues(by_tc_add_mark(netlink, interface, class_handle(0), class_handle(FIRST + c), 1, by_priority_tos(c)),
                    interface, "makes no filter by marks (CONFIG_NET_CLS_U32)"));
  }
  return BANYAN_OK;
}

enum banyan_status by_host_queues_set(struct by_netlink *netlink, unsigned interface,
                                      const struct by_host_queues *queues) {
  struct root root;
  char name[IF_NAMESIZE];
  BY_TRY(find_root(netlink, interface, &root));
  if (root.handle && root.handle != class_handle(0))
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "queues of %s: another program has made one there (%s %x:); remove it with `tc qdisc del dev %s "
                   "root`, or leave this interface to it",
                   name_of(interface, name), root.kind, root.handle >> 16, name_of(interface, name));
  BY_TRY(by_host_queues_remove(netlink, interface));
  enum banyan_status status = add_queues(netlink, interface, queues);
  if (status == BANYAN_OK) return BANYAN_OK;
  char text[400]; /* Incomplete queues would shape without an order. */
  snprintf(text, sizeof text, "%s", banyan_error_text());
  (void)!by_host_queues_remove(netlink, interface);
  return by_fail(status, "%s", text);
}

enum banyan_status by_host_queues_remove(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct root root;
  BY_TRY(find_root(netlink, interface, &root));
  if (root.handle != class_handle(0)) return BANYAN_OK;
  struct tcmsg *body = by_netlink_begin(&request, RTM_DELQDISC, 0, sizeof *body);
  body->tcm_ifindex = (int)interface;
  body->tcm_parent = TC_H_ROOT;
  body->tcm_handle = root.handle;
  return fail_queues(by_netlink_ask(netlink, &request, NULL, NULL), interface, "does not give them back");
}

/* ---- counters of queues */

struct reading {
  unsigned interface;
  struct by_host_queues_sent *out;
  bool found;
};

static int read_class(const struct nlmsghdr *header, void *context) {
  struct reading *reading = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  struct gnet_stats_basic basic;
  struct gnet_stats_queue queue;
  uint32_t minor = body->tcm_handle - class_handle(0);
  if ((unsigned)body->tcm_ifindex != reading->interface || minor < OTHERS || minor >= FIRST + BY_PRIORITY_CLASSES)
    return MNL_CB_OK;
  reading->found = true;
  uint32_t at = minor == OTHERS ? BY_PRIORITY_CLASSES : minor - FIRST;
  by_tc_read(header, &basic, &queue);
  reading->out->bytes[at] = basic.bytes;
  reading->out->drops[at] = queue.drops;
  return MNL_CB_OK;
}

/* The kernel lists classes of one interface at a time. */
enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                       struct by_host_queues_sent *out) {
  struct by_netlink_request request;
  struct reading reading = {.interface = interface, .out = out};
  char name[IF_NAMESIZE];
  *out = (struct by_host_queues_sent){0};
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  int reason = by_netlink_receive(netlink, &request, read_class, &reading);
  BY_TRY(fail_queues(reason, interface, "does not report what has left by them"));
  if (reading.found) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "queues of %s: they were removed or replaced by another program",
                 name_of(interface, name));
}

/* ---- rates of queues of other programs */

struct shape {
  unsigned interface;
  double rate;
};

/* Adopts a rate if it is higher. The 64-bit attribute exists if the other is too small. */
static void read_rate(const struct nlattr *options, struct shape *shape, uint16_t narrow, size_t offset,
                      uint16_t wide) {
  const struct nlattr *parameters = by_netlink_find_nested(options, narrow);
  struct tc_ratespec spec = {0};
  uint64_t rate; /* Bytes per second. */
  by_netlink_copy(by_netlink_find_nested(options, wide), &rate, sizeof rate);
  if (parameters && mnl_attr_get_payload_len(parameters) >= offset + sizeof spec)
    memcpy(&spec, (const char *)mnl_attr_get_payload(parameters) + offset, sizeof spec);
  shape->rate = fmax(shape->rate, 8 * (double)(rate ? rate : spec.rate));
}

/* Reads the rate of a tbf, or of the top classes of htb, which limit the link together. */
static int read_shape(const struct nlmsghdr *header, void *context) {
  struct shape *shape = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *kind = by_netlink_find(header, sizeof *body, TCA_KIND);
  const struct nlattr *options = by_netlink_find(header, sizeof *body, TCA_OPTIONS);
  bool ours = body->tcm_handle >> 16 == BY_HOST_QUEUES_MAJOR;
  if ((unsigned)body->tcm_ifindex != shape->interface || body->tcm_parent != TC_H_ROOT || ours || !kind)
    return MNL_CB_OK;
  if (!strcmp(mnl_attr_get_str(kind), "tbf"))
    read_rate(options, shape, TCA_TBF_PARMS, offsetof(struct tc_tbf_qopt, rate), TCA_TBF_RATE64);
  if (!strcmp(mnl_attr_get_str(kind), "htb"))
    read_rate(options, shape, TCA_HTB_PARMS, offsetof(struct tc_htb_opt, ceil), TCA_HTB_CEIL64);
  return MNL_CB_OK;
}

/* Returns the rate in bit/s to which another program shapes an interface, by htb or tbf at its root; 0: none is known.
 * The agent's own queues do not count. */
static double host_queues_find_shape(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct shape shape = {.interface = interface};
  (void)by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), read_shape, &shape);
  if (shape.rate > 0) return shape.rate;
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  (void)by_netlink_receive(netlink, &request, read_shape, &shape);
  return shape.rate;
}

static const double guarantee = 0.05; /* Minimum share of each class. */

struct queued {
  char name[IF_NAMESIZE];
  unsigned index;
  double rate; /* The rate of the last attempt. */
  bool is_set; /* The attempt succeeded. */
};

struct by_host_links {
  struct by_host_links_options options;
  struct by_netlink netlink, news;
  double manager_rate;
  bool failed;    /* The last attempt to list them failed. */
  bool in_charge; /* This agent sets queues: a second agent that is refused must not remove them. */
  uint32_t n_queued;
  struct queued queued[BY_AGENT_INTERFACES];
};

/* ---- interfaces */

/* Lists interfaces, the fastest first. */
static size_t list_interfaces(struct by_host_links *links, struct by_interface out[BY_AGENT_INTERFACES]) {
  struct by_interface *all;
  size_t n;
  bool failed = by_interface_list_links(links->options.filter, &all, &n) != BANYAN_OK;
  if (failed && !links->failed) by_warn("agent", "%s", banyan_error_text());
  links->failed = failed;
  if (failed) return 0;
  if (n > BY_AGENT_INTERFACES) n = BY_AGENT_INTERFACES;
  memcpy(out, all, n * sizeof *out);
  free(all);
  return n;
}

/* ---- configured rates */

/* Reads the rate and the name of an interface in a list at *at, and advances *at to the next one. */
static enum banyan_status next_rate(const char **at, char name[IF_NAMESIZE], double *out) {
  size_t length = strcspn(*at, ","), n = strcspn(*at, "=,");
  char text[32];
  snprintf(name, IF_NAMESIZE, "%.*s", (int)n, *at);
  snprintf(text, sizeof text, "%.*s", n < length ? (int)(length - n - 1) : 0, *at + n + (n < length));
  if (!n || n >= IF_NAMESIZE || n == length || length - n > sizeof text - 1)
    return by_fail(BANYAN_ERR_PARSE, "\"%.*s\" is not INTERFACE=RATE", (int)(length < 64 ? length : 64), *at);
  BY_TRY(by_parse_rate(text, out));
  *at += length + ((*at)[length] == ',');
  return BANYAN_OK;
}

enum banyan_status by_host_links_parse_rates(const char *text, struct by_host_links_options *out) {
  char name[IF_NAMESIZE];
  double rate;
  if (!text) return BANYAN_OK;
  if (!strchr(text, '=')) return by_parse_rate(text, &out->rate);
  out->rates = text;
  for (const char *at = text; *at;) BY_TRY(next_rate(&at, name, &rate));
  return BANYAN_OK;
}

/* Returns bit/s; 0: none is configured. */
static double configured_rate(const struct by_host_links *links, const char *interface) {
  char name[IF_NAMESIZE];
  double rate;
  for (const char *at = links->options.rates; at && *at && next_rate(&at, name, &rate) == BANYAN_OK;)
    if (!strcmp(name, interface)) return rate;
  return links->options.rate;
}

/* ---- counters of interfaces */

struct counting {
  const struct by_interface *interfaces;
  struct by_agent_counter *out;
  size_t n;
};

static int read_link(const struct nlmsghdr *header, void *context) {
  const struct counting *counting = context;
  const struct ifinfomsg *body = mnl_nlmsg_get_payload(header);
  struct rtnl_link_stats64 stats;
  size_t i = 0;
  while (i < counting->n && counting->interfaces[i].index != (unsigned)body->ifi_index) i++;
  if (i == counting->n) return MNL_CB_OK;
  by_netlink_copy(by_netlink_find(header, sizeof *body, IFLA_STATS64), &stats, sizeof stats);
  counting->out[i].sent = stats.tx_bytes;
  counting->out[i].received = stats.rx_bytes;
  return MNL_CB_OK;
}

static void count_marked(struct by_host_links *links, unsigned index, struct by_agent_counter *out) {
  struct queued *queued = links->queued, *end = queued + links->n_queued;
  struct by_host_queues_sent sent = {0};
  while (queued < end && queued->index != index) queued++;
  if (queued == end || !queued->is_set) return;
  if (by_host_queues_read(&links->netlink, index, &sent) != BANYAN_OK) {
    by_warn("agent", "%s; they are set once more, where nobody else's are", banyan_error_text());
    queued->is_set = false;
    queued->rate = 0;
    return;
  }
  out->queues = true;
  for (int i = 0; i < BY_PRIORITY_CLASSES; i++) out->marked += sent.bytes[i];
}

size_t by_host_links_count(struct by_host_links *links, struct by_agent_counter *out) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  struct counting counting = {interfaces, out, list_interfaces(links, interfaces)};
  for (size_t i = 0; i < counting.n; i++) {
    char address[BY_ADDRESS_TEXT];
    double shaped = host_queues_find_shape(&links->netlink, interfaces[i].index);
    double configured = configured_rate(links, interfaces[i].name);
    /* The rate of another program's queues, otherwise the configured one, otherwise the driver's. */
    double rate = shaped > 0 ? shaped : configured > 0 ? configured : interfaces[i].speed;
    out[i] = (struct by_agent_counter){.rate = rate};
    memcpy(out[i].name, interfaces[i].name, IF_NAMESIZE);
    if (interfaces[i].address.length)
      snprintf(out[i].address, sizeof out[i].address, "%s", by_address_print_host(&interfaces[i].address, address));
    count_marked(links, interfaces[i].index, &out[i]);
  }
  int reason = by_netlink_list(&links->netlink, RTM_GETLINK, sizeof(struct ifinfomsg), read_link, &counting);
  if (reason) by_warn("agent", "cannot read the counters of interfaces: %s", strerror(reason));
  return counting.n;
}

/* ---- queues */

static void set_queues(struct by_host_links *links, struct queued *queued, double rate) {
  struct by_host_queues wanted = {.rate = rate, .guarantee = guarantee};
  char text[32];
  queued->rate = rate;
  queued->is_set = by_host_queues_set(&links->netlink, queued->index, &wanted) == BANYAN_OK;
  if (queued->is_set)
    by_info("agent", "queues of %s: four classes in %s", queued->name, by_print_rate(rate, text));
  else
    by_warn("agent", "%s; jobs go on without priorities there", banyan_error_text());
}

/* An interface that was made again has a new index. */
static void update_queues(struct by_host_links *links, const struct by_interface *interface, double rate) {
  struct queued *queued = links->queued, *end = queued + links->n_queued;
  while (queued < end && strcmp(queued->name, interface->name) != 0) queued++;
  if (queued == end) {
    if (links->n_queued == BY_AGENT_INTERFACES) return;
    links->n_queued++;
    *queued = (struct queued){.index = 0};
    memcpy(queued->name, interface->name, IF_NAMESIZE);
  }
  if (queued->index == interface->index && queued->rate == rate) return;
  queued->index = interface->index;
  set_queues(links, queued, rate);
}

static bool is_in_list(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ',')) return true;
  return false;
}

/* Warns of a wrong name, which would otherwise have no effect at all. */
static void check_names(const char *queues) {
  char name[IF_NAMESIZE];
  if (!strcmp(queues, "auto") || !strcmp(queues, "none")) return;
  for (const char *at = queues; *at; at += strspn(at, ",")) {
    int length = (int)strcspn(at, ",");
    bool known = length < IF_NAMESIZE && snprintf(name, sizeof name, "%.*s", length, at) > 0 && if_nametoindex(name);
    if (!known)
      by_warn("agent", "--queues: there is no interface \"%.*s\" here now; it gets queues once it comes", length, at);
    at += length;
  }
}

void by_host_links_set_queues(struct by_host_links *links) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  bool only_one = !strcmp(links->options.queues, "auto");
  double default_rate = links->options.rate > 0 ? links->options.rate : links->manager_rate;
  links->in_charge = true;
  if (!strcmp(links->options.queues, "none") || (only_one && !(default_rate > 0) && !links->options.rates)) return;
  size_t n = list_interfaces(links, interfaces);
  for (size_t i = 0; i < n; i++) {
    double configured = configured_rate(links, interfaces[i].name);
    double rate = configured > 0 ? configured : default_rate > 0 ? default_rate : interfaces[i].speed;
    if (only_one ? i == 0 && (default_rate > 0 || configured > 0)
                 : is_in_list(links->options.queues, interfaces[i].name) && rate > 0)
      update_queues(links, &interfaces[i], rate);
  }
}

void by_host_links_set_rate(struct by_host_links *links, double rate) {
  links->manager_rate = rate;
  by_host_links_set_queues(links);
}

static void remove_from(struct by_host_links *links, unsigned index) {
  if (by_host_queues_remove(&links->netlink, index) != BANYAN_OK) by_warn("agent", "%s", banyan_error_text());
}

/* ---- beginning and end */

int by_host_links_get_fd(const struct by_host_links *links) {
  return mnl_socket_get_fd(links->news.socket);
}

bool by_host_links_look(struct by_host_links *links) {
  return by_netlink_look(&links->news);
}

static enum banyan_status open_both(struct by_host_links *links) {
  struct by_interface *all;
  size_t n;
  BY_TRY(by_interface_list_links(links->options.filter, &all, &n)); /* Reports a wrong filter now. */
  free(all);
  BY_TRY(by_netlink_open(&links->netlink));
  return by_netlink_open_protocol(&links->news, NETLINK_ROUTE,
                                  RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_TC);
}

enum banyan_status by_host_links_create(const struct by_host_links_options *options, struct by_host_links **out) {
  struct by_host_links *links = calloc(1, sizeof *links);
  *out = NULL;
  if (!links) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  links->options = *options;
  enum banyan_status status = open_both(links);
  if (status == BANYAN_OK) {
    check_names(options->queues);
    *out = links;
  } else {
    by_host_links_destroy(links);
  }
  return status;
}

void by_host_links_destroy(struct by_host_links *links) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  if (!links) return;
  /* Includes queues of an agent that was killed, and those of interfaces that are down. */
  size_t n = links->in_charge ? list_interfaces(links, interfaces) : 0;
  for (size_t i = 0; i < n; i++) remove_from(links, interfaces[i].index);
  for (uint32_t i = 0; i < links->n_queued; i++) remove_from(links, links->queued[i].index);
  by_netlink_close(&links->netlink);
  by_netlink_close(&links->news);
  free(links);
}
