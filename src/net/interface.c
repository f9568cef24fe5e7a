/* Lists this host's interfaces and addresses, filtered and sorted. */
#include "address.h"

#include <errno.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "descriptor.h"
#include "text.h"

enum { MAX_RULES = 64, MAX_PATTERN = 80 };

struct rule {
  bool not ;
  char pattern[MAX_PATTERN]; /* "" for a subnet. */
  struct by_address subnet;
  int bits;
};

struct filter {
  struct rule rule[MAX_RULES];
  int rules;
  bool names_some; /* There is a rule without "!". */
};

static enum banyan_status parse_rule(struct filter *filter, const char *text, size_t length) {
  struct rule *rule = &filter->rule[filter->rules];
  *rule = (struct rule){.not = *text == '!'};
  if (rule->not ) text++, length--;
  if (length == 0 || length >= MAX_PATTERN || filter->rules == MAX_RULES - 1)
    return by_fail(BANYAN_ERR_PARSE, "interface filter: \"%.80s\" is empty, too long or one too many", text);
  memcpy(rule->pattern, text, length);
  rule->pattern[length] = '\0';
  if (strpbrk(rule->pattern, "/:") || by_address_parse_host(rule->pattern, 0, &rule->subnet) == BANYAN_OK) {
    if (by_subnet_parse(rule->pattern, &rule->subnet, &rule->bits) != BANYAN_OK)
      return by_fail_within(BANYAN_ERR_PARSE, "interface filter");
    rule->pattern[0] = '\0';
  }
  if (!rule->not ) filter->names_some = true;
  filter->rules++;
  return BANYAN_OK;
}

static enum banyan_status parse_filter(const char *text, struct filter *filter) {
  filter->rules = 0;
  filter->names_some = false;
  while (*text) {
    size_t length = strcspn(text, ",");
    if (length) BY_TRY(parse_rule(filter, text, length));
    text += length;
    if (*text == ',') text++;
  }
  return BANYAN_OK;
}

static bool is_container_bridge(const char *name) {
  static const char *const patterns[] = {"docker*", "virbr*", "podman*",        "lxcbr*",
                                         "lxdbr*",  "cni*",   "br-????????????" /* Docker's own networks. */};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (fnmatch(patterns[i], name, 0) == 0) return true;
  return false;
}

/* The index of the first rule that names an address; -1 if it is excluded. Without such rules it is 0. */
static int rule_of(const struct filter *filter, bool loopback, const struct by_interface *one) {
  int first = -1;
  for (int i = filter->rules - 1; i >= 0; i--) {
    const struct rule *rule = &filter->rule[i];
    bool matches = rule->pattern[0] ? fnmatch(rule->pattern, one->name, 0) == 0
                                    : by_address_same_subnet(&rule->subnet, &one->address, rule->bits);
    if (matches && rule->not ) return -1;
    if (matches) first = i;
  }
  if (filter->names_some) return first;
  if (by_address_is_loopback(&one->address)) return loopback ? 0 : -1;
  return is_container_bridge(one->name) ? -1 : 0;
}

static int compare_interfaces(const void *x, const void *y) {
  const struct by_interface *a = x, *b = y;
  if (a->rule != b->rule) return a->rule - b->rule;
  int difference = by_address_is_link_local(&a->address) - by_address_is_link_local(&b->address);
  if (!difference) difference = by_address_is_loopback(&a->address) - by_address_is_loopback(&b->address);
  if (!difference) difference = (a->speed < b->speed) - (a->speed > b->speed);
  if (!difference) difference = (a->index > b->index) - (a->index < b->index);
  return difference ? difference : by_address_compare_host(&a->address, &b->address);
}

/* Keeps the addresses that the filter names. If there are none, all stay as they are. */
static size_t keep_wanted(const struct filter *filter, bool loopback, struct by_interface *all, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    all[i].rule = rule_of(filter, loopback, &all[i]);
    if (all[i].rule >= 0) all[kept++] = all[i];
  }
  return kept;
}

enum banyan_status by_interface_choose(const char *filter_text, bool loopback, struct by_interface *all, size_t *n) {
  struct filter filter;
  BY_TRY(parse_filter(filter_text ? filter_text : "", &filter));
  size_t kept = keep_wanted(&filter, loopback, all, *n);
  if (kept == 0) kept = keep_wanted(&filter, true, all, *n);
  qsort(all, kept, sizeof *all, compare_interfaces);
  *n = kept;
  return BANYAN_OK;
}

static double read_speed(const char *name) {
  char path[64 + IF_NAMESIZE];
  double megabits = 0;
  snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%lf", &megabits) != 1 || !(megabits > 0)) megabits = 0; /* -1: the driver does not know. */
  fclose(file);
  return megabits * 1e6;
}

static int count_bits(const struct sockaddr *mask, int family) {
  const uint8_t *bytes;
  size_t n;
  int bits = 0;
  if (!mask) return family == AF_INET ? 32 : 128;
  if (family == AF_INET)
    bytes = (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr, n = 4;
  else
    bytes = ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr, n = 16;
  for (size_t i = 0; i < n; i++) bits += __builtin_popcount(bytes[i]);
  return bits;
}

/* Reads an address. Returns false if there is none, or the interface carries no packets though `running`. */
static bool read_address(const struct ifaddrs *from, bool running, struct by_address *out) {
  int family = from->ifa_addr ? from->ifa_addr->sa_family : AF_UNSPEC;
  if (running && (!(from->ifa_flags & IFF_UP) || !(from->ifa_flags & IFF_RUNNING))) return false;
  if (family != AF_INET && family != AF_INET6) return false;
  by_address_set(out, from->ifa_addr, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
  return true;
}

static bool read_one(const struct ifaddrs *from, struct by_interface *out) {
  memset(out, 0, sizeof *out);
  if (!read_address(from, true, &out->address)) return false;
  snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(from->ifa_name, ":"), from->ifa_name); /* Cut "eth0:1". */
  out->index = if_nametoindex(out->name);
  out->bits = count_bits(from->ifa_netmask, from->ifa_addr->sa_family);
  out->speed = read_speed(out->name);
  return true;
}

/* Reads the entry of an interface itself, which each has that is up and running. */
static bool read_link(const struct ifaddrs *from, struct by_interface *out) {
  memset(out, 0, sizeof *out);
  if (!from->ifa_addr || from->ifa_addr->sa_family != AF_PACKET || from->ifa_flags & IFF_LOOPBACK) return false;
  if (!(from->ifa_flags & IFF_UP) || !(from->ifa_flags & IFF_RUNNING)) return false;
  snprintf(out->name, sizeof out->name, "%s", from->ifa_name);
  out->index = if_nametoindex(out->name);
  out->speed = read_speed(out->name);
  return true;
}

static enum banyan_status choose_some(const char *filter, bool loopback, struct by_interface *all, size_t *n) {
  struct by_text names;
  by_text_init(&names);
  for (size_t i = 0, j; i < *n; i++) { /* An interface has an entry for each of its addresses. */
    for (j = 0; j < i && strcmp(all[j].name, all[i].name) != 0;) j++;
    if (j == i) by_text_add(&names, "%s%s", i ? ", " : "", all[i].name);
  }
  enum banyan_status status = by_interface_choose(filter, loopback, all, n);
  if (status == BANYAN_OK && *n == 0)
    status = by_fail(BANYAN_ERR_ARGUMENT, "interface filter \"%s\" leaves no address of this host, which has: %.400s",
                     filter ? filter : "", names.length ? by_text_get(&names) : "none");
  by_text_fini(&names);
  return status;
}

/* Lists addresses; `links`: also interfaces without one. */
static enum banyan_status list_interfaces(const char *filter, bool loopback, bool links, struct by_interface **out,
                                          size_t *n) {
  struct ifaddrs *list_interfaces;
  size_t count = 0, capacity = 0;
  if (getifaddrs(&list_interfaces) < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot list this host's interfaces");
  for (struct ifaddrs *one = list_interfaces; one; one = one->ifa_next) capacity++;
  struct by_interface *all = calloc(capacity + 1, sizeof *all);
  for (struct ifaddrs *one = list_interfaces; all && one; one = one->ifa_next) count += read_one(one, &all[count]);
  for (struct ifaddrs *one = list_interfaces; links && all && one; one = one->ifa_next)
    count += read_link(one, &all[count]);
  freeifaddrs(list_interfaces);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu interfaces", capacity);
  enum banyan_status status = choose_some(filter, loopback, all, &count);
  if (status != BANYAN_OK) {
    free(all);
    return status;
  }
  *out = all;
  *n = count;
  return BANYAN_OK;
}

enum banyan_status by_interface_list(const char *filter, bool loopback, struct by_interface **out, size_t *n) {
  return list_interfaces(filter, loopback, false, out, n);
}

enum banyan_status by_interface_list_links(const char *filter_text, struct by_interface **out, size_t *n) {
  struct filter filter;
  size_t kept = 0;
  BY_TRY(parse_filter(filter_text ? filter_text : "", &filter));
  BY_TRY(list_interfaces(filter_text, false, filter.names_some, out, n));
  for (size_t i = 0; i < *n; i++) {
    struct by_interface *one = &(*out)[i];
    size_t k = 0;
    while (k < kept && (*out)[k].index != one->index) k++;
    if (k == kept)
      (*out)[kept++] = *one;
    else if (!(*out)[k].address.length)
      (*out)[k] = *one;
  }
  *n = kept;
  return BANYAN_OK;
}

enum banyan_status by_interface_offer(const char *filter, int port, char *out, size_t capacity) {
  struct by_interface *all = NULL;
  size_t n = 0, used = 0;
  BY_TRY(by_interface_list(filter, false, &all, &n));
  bool only_link_local = by_address_is_link_local(&all[0].address); /* They are last. */
  *out = '\0';
  for (size_t i = 0; i < n; i++) {
    char text[BY_ADDRESS_TEXT];
    if (by_address_is_link_local(&all[i].address) && !only_link_local) continue;
    by_address_set_port(&all[i].address, port);
    by_address_print(&all[i].address, text);
    if (used + strlen(text) + 1 >= capacity) break;
    used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? "," : "", text);
  }
  free(all);
  return BANYAN_OK;
}

bool by_interface_is_own(const struct by_address *address, bool running) {
  struct ifaddrs *list_interfaces;
  struct by_address here;
  bool own = false;
  if (getifaddrs(&list_interfaces) < 0) return false;
  for (struct ifaddrs *one = list_interfaces; one && !own; one = one->ifa_next)
    own = read_address(one, running, &here) && !by_address_compare_host(&here, address);
  freeifaddrs(list_interfaces);
  return own;
}

int by_interface_ask(const char *name, unsigned long what, struct ifreq *request) {
  int fd = BY_DESCRIPTOR(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return errno;
  snprintf(request->ifr_name, sizeof request->ifr_name, "%s", name);
  int reason = ioctl(fd, what, request) == 0 ? 0 : errno;
  by_close(fd);
  return reason;
}

uint32_t by_interface_mtu(const char *name) {
  struct ifreq request = {.ifr_mtu = 0};
  return by_interface_ask(name, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0 ? (uint32_t)request.ifr_mtu : 0;
}
