/* Collects what tells one network from another, as seen from this host: addresses, rates, and gateways. */
#include "network_cache.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "file.h"
#include "text.h"

enum { MAX_FILE = 16 << 20, MAX_ADDRESS = 64 };

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

/* Finds the neighbour in lines of "IP type flags MAC mask device". `device` NULL: at any. */
static bool find_mac(const char *neighbours, const char *ip, const char *device, char *mac) {
  for (const char *line = next_line(neighbours); *line; line = next_line(line)) {
    char name[MAX_ADDRESS], found[18], at[IF_NAMESIZE];
    if (sscanf(line, "%63s 0x%*x 0x%*x %17s %*s %15s", name, found, at) != 3 || strcmp(name, ip) != 0) continue;
    if (strcmp(found, "00:00:00:00:00:00") == 0) continue; /* The neighbour did not answer. */
    if (device && strcmp(at, device) != 0) continue;
    memcpy(mac, found, sizeof found);
    return true;
  }
  return false;
}

/* The gateway of a line of /proc/net/route. */
static bool read_route(const char *line, char *ip) {
  unsigned gateway;
  if (sscanf(line, "%*s %*x %x", &gateway) != 1 || !gateway) return false;
  struct in_addr address = {.s_addr = (in_addr_t)gateway}; /* The value is printed in the byte order of memory. */
  return inet_ntop(AF_INET, &address, ip, INET6_ADDRSTRLEN) != NULL;
}

/* Reads a gateway of /proc/net/ipv6_route, and its device: link-local addresses may occur on several. */
static bool read_route6(const char *line, char *ip, char *device) {
  struct in6_addr address;
  char digits[33];
  if (sscanf(line, "%*32s %*x %*32s %*x %32s %*x %*x %*x %*x %15s", digits, device) != 2) return false;
  if (strlen(digits) != 32 || strspn(digits, "0") == 32) return false;
  for (int i = 0; i < 16; i++)
    if (sscanf(digits + 2 * (size_t)i, "%2hhx", &address.s6_addr[i]) != 1) return false;
  return inet_ntop(AF_INET6, &address, ip, INET6_ADDRSTRLEN) != NULL;
}

void by_host_facts_gateways(bool ipv6, const char *routes, const char *neighbours, char *out, size_t capacity) {
  size_t length = 0;
  snprintf(out, capacity, "-");
  for (const char *line = ipv6 ? routes : next_line(routes); *line; line = next_line(line)) {
    char ip[INET6_ADDRSTRLEN], mac[18], device[IF_NAMESIZE];
    if (!(ipv6 ? read_route6(line, ip, device) : read_route(line, ip))) continue;
    if (!find_mac(neighbours, ip, ipv6 ? device : NULL, mac) || strstr(out, mac)) continue;
    int added = snprintf(out + length, capacity - length, "%s%s", length ? "," : "", mac);
    if (added < 0 || (size_t)added >= capacity - length) {
      out[length] = '\0';
      return;
    }
    length += (size_t)added;
  }
}

/* ---- IPv6 neighbours, which no file lists */

static void add_neighbour(const struct nlmsghdr *header, struct by_text *text) {
  const struct ndmsg *neighbour = NLMSG_DATA(header);
  const struct rtattr *attribute = (const struct rtattr *)((const char *)neighbour + NLMSG_ALIGN(sizeof *neighbour));
  const unsigned char *address = NULL, *mac = NULL;
  char ip[INET6_ADDRSTRLEN], device[IF_NAMESIZE];
  int left = (int)NLMSG_PAYLOAD(header, sizeof *neighbour);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type == NDA_DST && RTA_PAYLOAD(attribute) == 16) address = RTA_DATA(attribute);
    if (attribute->rta_type == NDA_LLADDR && RTA_PAYLOAD(attribute) == 6) mac = RTA_DATA(attribute);
  }
  if (!address || !mac || !inet_ntop(AF_INET6, address, ip, sizeof ip) ||
      !if_indextoname((unsigned)neighbour->ndm_ifindex, device))
    return;
  by_text_add(text, "%s 0x1 0x2 %02x:%02x:%02x:%02x:%02x:%02x * %s\n", ip, mac[0], mac[1], mac[2], mac[3], mac[4],
              mac[5], device);
}

/* Takes one answer of the kernel. False: it was the last. */
static bool take_neighbours(int fd, struct by_text *text) {
  union {
    struct nlmsghdr header;
    char bytes[16 << 10];
  } answer;
  ssize_t got = recv(fd, &answer, sizeof answer, 0);
  int left = (int)got;
  if (got <= 0) return false;
  for (const struct nlmsghdr *header = &answer.header; NLMSG_OK(header, (unsigned)left);
       header = NLMSG_NEXT(header, left)) {
    if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return false;
    if (header->nlmsg_type == RTM_NEWNEIGH) add_neighbour(header, text);
  }
  return true;
}

/* Lists IPv6 neighbours in the format of /proc/net/arp; the kernel answers at once. */
static void list_neighbours6(struct by_text *text) {
  struct {
    struct nlmsghdr header;
    struct ndmsg neighbour;
  } request = {
      .header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETNEIGH, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
      .neighbour = {.ndm_family = AF_INET6}};
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  by_text_add(text, "IP\n");
  if (fd < 0) return;
  bool more = send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request;
  while (more) more = take_neighbours(fd, text);
  close(fd);
}

/* ---- all of it */

static void find_gateways(bool ipv6, char *out, size_t capacity) {
  struct by_text listed;
  char *routes = NULL, *neighbours = NULL;
  size_t length;
  by_text_init(&listed);
  if (ipv6) list_neighbours6(&listed);
  bool known = by_read_file("routes", ipv6 ? "/proc/net/ipv6_route" : "/proc/net/route", MAX_FILE, &routes, &length) ==
               BANYAN_OK;
  if (known && !ipv6) known = by_read_file("neighbours", "/proc/net/arp", MAX_FILE, &neighbours, &length) == BANYAN_OK;
  if (known && !listed.failed)
    by_host_facts_gateways(ipv6, routes, ipv6 ? by_text_get(&listed) : neighbours, out, capacity);
  free(routes);
  free(neighbours);
  by_text_fini(&listed);
}

/* Each interface has one rate, in the kernel's order. */
static void add_rates(const char *filter, char *out, size_t capacity) {
  struct by_interface *links = NULL;
  size_t n = 0, length = 0;
  snprintf(out, capacity, "-");
  if (by_interface_list_links(filter, &links, &n) != BANYAN_OK) return;
  for (size_t i = 0; i < n && length + 1 < capacity; i++) {
    if (!(links[i].speed > 0)) continue;
    int added = snprintf(out + length, capacity - length, "%s%.0f", length ? "," : "", links[i].speed * 1e-6);
    length += added > 0 ? (size_t)added : 0;
  }
  free(links);
}

const char *by_host_facts(const struct by_address *address, const char *interfaces, char *out) {
  char host[BY_ADDRESS_TEXT] = "-", rates[64], gateways[64] = "-";
  if (address) by_address_print_host(address, host);
  add_rates(interfaces, rates, sizeof rates);
  find_gateways(address && by_address_family(address) == AF_INET6, gateways, sizeof gateways);
  snprintf(out, BY_HOST_FACTS, "%s %s %s", host, rates, gateways);
  return out;
}
