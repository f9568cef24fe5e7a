#include "host_links.h"

#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"
#include "log.h"

static const double guarantee = 0.05; /* of each class */

struct queued {
  char name[IF_NAMESIZE];
  unsigned index;
  double rate; /* of the attempt */
  bool set;    /* else it was in vain */
};

struct by_host_links {
  struct by_host_links_options options;
  struct by_netlink netlink, news;
  double manager_rate;
  bool lost;      /* there was none when they were listed last */
  bool in_charge; /* of the queues: a second agent that is refused must leave them */
  uint32_t n_queued;
  struct queued queued[BY_AGENT_INTERFACES];
};

/* ---- which there are */

static bool is_named_before(const struct by_interface *all, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(all[i].name, name)) return true;
  return false;
}

/* One entry for each interface, with its first address, the fastest first. */
static size_t list_interfaces(struct by_host_links *links, struct by_interface out[BY_AGENT_INTERFACES]) {
  struct by_interface *all;
  size_t n, kept = 0;
  bool lost = by_interface_list(links->options.filter, false, &all, &n) != BANYAN_OK;
  if (lost && !links->lost) by_warn("agent", "%s", banyan_error_text());
  links->lost = lost;
  if (lost) return 0;
  for (size_t i = 0; i < n && kept < BY_AGENT_INTERFACES; i++)
    if (!is_named_before(out, kept, all[i].name)) out[kept++] = all[i];
  free(all);
  return kept;
}

/* ---- what they have carried */

struct counting {
  const struct by_interface *interfaces;
  struct by_agent_counter *out;
  size_t n;
};

static int take_link(const struct nlmsghdr *header, void *context) {
  const struct counting *counting = context;
  const struct ifinfomsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  struct rtnl_link_stats64 stats = {0};
  size_t i = 0, length;
  while (i < counting->n && counting->interfaces[i].index != (unsigned)body->ifi_index) i++;
  if (i == counting->n) return MNL_CB_OK;
  mnl_attr_for_each(attribute, header, sizeof *body) {
    if (mnl_attr_get_type(attribute) != IFLA_STATS64) continue;
    length = mnl_attr_get_payload_len(attribute); /* kernels differ */
    memcpy(&stats, mnl_attr_get_payload(attribute), length < sizeof stats ? length : sizeof stats);
  }
  counting->out[i].sent = stats.tx_bytes;
  counting->out[i].received = stats.rx_bytes;
  return MNL_CB_OK;
}

static struct queued *find_queued(struct by_host_links *links, unsigned index) {
  for (uint32_t i = 0; i < links->n_queued; i++)
    if (links->queued[i].index == index) return &links->queued[i];
  return NULL;
}

static void count_marked(struct by_host_links *links, unsigned index, struct by_agent_counter *out) {
  struct queued *queued = find_queued(links, index);
  struct by_host_queues_sent sent = {0};
  if (!queued || !queued->set) return;
  if (by_host_queues_read(&links->netlink, index, &sent) != BANYAN_OK) {
    by_warn("agent", "%s; they are set once more, where nobody else's are", banyan_error_text());
    queued->set = false;
    queued->rate = 0;
    return;
  }
  out->queues = true;
  for (int i = 0; i < BY_PRIORITY_CLASSES; i++) out->marked += sent.bytes[i];
}

/* What somebody shapes it to, else what was said, else what the driver claims. */
static double rate_of(struct by_host_links *links, const struct by_interface *interface) {
  double shaped = by_host_queues_find_shape(&links->netlink, interface->index);
  return shaped > 0 ? shaped : links->options.rate > 0 ? links->options.rate : interface->speed;
}

size_t by_host_links_count(struct by_host_links *links, struct by_agent_counter *out) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  struct counting counting = {interfaces, out, list_interfaces(links, interfaces)};
  for (size_t i = 0; i < counting.n; i++) {
    char address[BY_ADDRESS_TEXT];
    out[i] = (struct by_agent_counter){.rate = rate_of(links, &interfaces[i])};
    memcpy(out[i].name, interfaces[i].name, IF_NAMESIZE);
    snprintf(out[i].address, sizeof out[i].address, "%s", by_address_print_host(&interfaces[i].address, address));
    count_marked(links, interfaces[i].index, &out[i]);
  }
  int reason = by_netlink_list(&links->netlink, RTM_GETLINK, sizeof(struct ifinfomsg), take_link, &counting);
  if (reason) by_warn("agent", "cannot read the counters of interfaces: %s", strerror(reason));
  return counting.n;
}

/* ---- queues */

static void set_one(struct by_host_links *links, struct queued *queued, double rate) {
  struct by_host_queues wanted = {.rate = rate, .guarantee = guarantee};
  char text[32];
  queued->rate = rate;
  queued->set = by_host_queues_set(&links->netlink, queued->index, &wanted) == BANYAN_OK;
  if (queued->set)
    by_info("agent", "queues of %s: four classes in %s", queued->name, by_print_rate(rate, text));
  else
    by_warn("agent", "%s; jobs go on without priorities there", banyan_error_text());
}

/* An interface that was made anew has another index. */
static void want_queues(struct by_host_links *links, const struct by_interface *interface, double rate) {
  struct queued *queued = NULL;
  for (uint32_t i = 0; i < links->n_queued && !queued; i++)
    if (!strcmp(links->queued[i].name, interface->name)) queued = &links->queued[i];
  if (!queued && links->n_queued == BY_AGENT_INTERFACES) return;
  if (!queued) {
    queued = &links->queued[links->n_queued++];
    *queued = (struct queued){.index = 0};
    memcpy(queued->name, interface->name, IF_NAMESIZE);
  }
  if (queued->index == interface->index && queued->rate == rate) return;
  queued->index = interface->index;
  set_one(links, queued, rate);
}

static bool is_in_list(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; *at; at += strspn(at, ",")) {
    size_t n = strcspn(at, ",");
    if (n == length && !strncmp(at, name, n)) return true;
    at += n;
  }
  return false;
}

/* One that is named wrongly would stay without them in silence. */
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

static double said_rate(const struct by_host_links *links) {
  return links->options.rate > 0 ? links->options.rate : links->manager_rate;
}

void by_host_links_set_queues(struct by_host_links *links) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  bool only_one = !strcmp(links->options.queues, "auto");
  double said = said_rate(links);
  links->in_charge = true;
  if (!strcmp(links->options.queues, "none") || (only_one && !(said > 0))) return;
  size_t n = list_interfaces(links, interfaces);
  for (size_t i = 0; i < n; i++) {
    double rate = said > 0 ? said : interfaces[i].speed;
    if (only_one ? i == 0 : is_in_list(links->options.queues, interfaces[i].name) && rate > 0)
      want_queues(links, &interfaces[i], rate);
  }
}

void by_host_links_set_rate(struct by_host_links *links, double rate) {
  links->manager_rate = rate;
}

static void remove_from(struct by_host_links *links, unsigned index) {
  if (by_host_queues_remove(&links->netlink, index) != BANYAN_OK) by_warn("agent", "%s", banyan_error_text());
}

/* Also those that an agent has left which was killed; and those of interfaces that are down now. */
static void remove_queues(struct by_host_links *links) {
  struct by_interface interfaces[BY_AGENT_INTERFACES];
  size_t n = list_interfaces(links, interfaces);
  for (size_t i = 0; i < n; i++) remove_from(links, interfaces[i].index);
  for (uint32_t i = 0; i < links->n_queued; i++) remove_from(links, links->queued[i].index);
}

/* ---- all */

int by_host_links_get_fd(const struct by_host_links *links) {
  return by_netlink_get_fd(&links->news);
}

bool by_host_links_look(struct by_host_links *links) {
  return by_netlink_look(&links->news);
}

static enum banyan_status open_both(struct by_host_links *links) {
  struct by_interface *all;
  size_t n;
  BY_TRY(by_interface_list(links->options.filter, false, &all, &n)); /* a wrong filter is told now */
  free(all);
  BY_TRY(by_netlink_open(&links->netlink));
  return by_netlink_open_news(&links->news, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_TC);
}

enum banyan_status by_host_links_create(const struct by_host_links_options *options, struct by_host_links **out) {
  struct by_host_links *links = calloc(1, sizeof *links);
  *out = NULL;
  if (!links) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  links->options = *options;
  enum banyan_status status = open_both(links);
  if (status != BANYAN_OK) {
    by_host_links_destroy(links);
    return status;
  }
  check_names(options->queues);
  *out = links;
  return BANYAN_OK;
}

void by_host_links_destroy(struct by_host_links *links) {
  if (!links) return;
  if (links->in_charge) remove_queues(links);
  by_netlink_close(&links->netlink);
  by_netlink_close(&links->news);
  free(links);
}
