#include "host_facts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"
#include "text.h"

enum { MOST_FILE = 1 << 20, MOST_ADDRESS = 64 };

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end + 1 : line + strlen(line);
}

/* Finds the neighbour in lines of "IP type flags MAC mask device". */
static bool find_mac(const char *neighbours, const char *ip, char *mac) {
  for (const char *line = next_line(neighbours); *line; line = next_line(line)) {
    char name[MOST_ADDRESS], found[18];
    if (sscanf(line, "%63s 0x%*x 0x%*x %17s", name, found) != 2 || strcmp(name, ip) != 0) continue;
    if (strcmp(found, "00:00:00:00:00:00") == 0) continue; /* asked for, but not answered */
    memcpy(mac, found, sizeof found);
    return true;
  }
  return false;
}

void by_host_facts_gateways(const char *routes, const char *neighbours, char *out, size_t room) {
  size_t length = 0;
  snprintf(out, room, "-");
  for (const char *line = next_line(routes); *line; line = next_line(line)) {
    unsigned gateway;
    char ip[INET_ADDRSTRLEN], mac[18];
    if (sscanf(line, "%*s %*x %x", &gateway) != 1 || !gateway) continue;
    struct in_addr address = {.s_addr = (in_addr_t)gateway}; /* printed as it lies in memory */
    if (!inet_ntop(AF_INET, &address, ip, sizeof ip) || !find_mac(neighbours, ip, mac) || strstr(out, mac)) continue;
    int added = snprintf(out + length, room - length, "%s%s", length ? "," : "", mac);
    if (added < 0 || (size_t)added >= room - length) {
      out[length] = '\0';
      return;
    }
    length += (size_t)added;
  }
}

/* Each interface has one rate, in the kernel's order. */
static void add_rates(const char *filter, char *out, size_t room) {
  struct by_interface *links = NULL;
  size_t n = 0, length = 0;
  snprintf(out, room, "-");
  if (by_interface_list_links(filter, &links, &n) != BANYAN_OK) return;
  for (size_t i = 0; i < n && length + 1 < room; i++) {
    if (!(links[i].speed > 0)) continue;
    int added = snprintf(out + length, room - length, "%s%.0f", length ? "," : "", links[i].speed * 1e-6);
    length += added > 0 ? (size_t)added : 0;
  }
  free(links);
}

const char *by_host_facts(const struct by_address *address, const char *interfaces, char *out) {
  char host[BY_ADDRESS_TEXT] = "-", rates[64], gateways[64] = "-", *routes = NULL, *neighbours = NULL;
  size_t length;
  if (address) by_address_print_host(address, host);
  add_rates(interfaces, rates, sizeof rates);
  if (by_read_file("routes", "/proc/net/route", MOST_FILE, &routes, &length) == BANYAN_OK &&
      by_read_file("neighbours", "/proc/net/arp", MOST_FILE, &neighbours, &length) == BANYAN_OK)
    by_host_facts_gateways(routes, neighbours, gateways, sizeof gateways);
  free(routes);
  free(neighbours);
  snprintf(out, BY_HOST_FACTS, "%s %s %s", host, rates, gateways);
  return out;
}
