#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "interface.h"
#include "text.h"

static int read_mtu(const char *name) {
  char path[128], line[32] = "0";
  snprintf(path, sizeof path, "/sys/class/net/%s/mtu", name);
  by_read_line(path, line, sizeof line);
  return atoi(line);
}

static void print_interface(const struct by_interface *one, char *out, size_t room) {
  char address[BY_ADDRESS_TEXT], speed[32] = "speed unknown";
  if (one->speed > 0) by_print_rate(one->speed, speed);
  snprintf(out, room, "%s, %s/%d, %s, MTU %d", one->name, by_address_print_host(&one->address, address), one->bits,
           speed, read_mtu(one->name));
}

/* Interfaces apart from the first one's that could be used as well. */
static int count_others(const struct by_interface *all, size_t n) {
  int others = 0;
  for (size_t i = 1; i < n; i++) {
    bool seen = by_address_is_link_local(&all[i].address);
    for (size_t k = 0; k < i && !seen; k++) seen = all[k].index == all[i].index;
    others += !seen;
  }
  return others;
}

static void check_interfaces(struct by_findings *findings) {
  struct by_interface *all = NULL;
  size_t n = 0;
  char text[256], mend[128];
  const char *filter = getenv("BANYAN_IFACE");
  if (by_interface_list(filter ? filter : "", false, &all, &n)) {
    by_finding(findings, BY_FINDING_FAIL, "interfaces", filter ? "correct BANYAN_IFACE" : "bring an interface up", "%s",
               banyan_error_text());
    return;
  }
  for (size_t i = 0; i < n; i++) {
    print_interface(&all[i], text, sizeof text);
    bool only_loopback = by_address_is_loopback(&all[i].address);
    by_finding(findings, BY_FINDING_OK, "interface", NULL, "%s%s", text,
               only_loopback ? "; this machine only"
               : i == 0      ? "; offered to peers first"
                             : "");
  }
  int others = count_others(all, n);
  snprintf(mend, sizeof mend, "BANYAN_IFACE=%s (or a subnet) keeps Banyan to one", all[0].name);
  if (others && !filter)
    by_finding(findings, BY_FINDING_WARN, "interfaces", mend,
               "%d more could be used: peers must reach this machine through each that is offered", others);
  free(all);
}

/* Whether an address belongs to this machine. */
static bool is_own(const struct by_address *address) {
  struct by_interface *all = NULL;
  size_t n = 0;
  bool own = false;
  if (by_interface_list("*", true, &all, &n)) return false;
  for (size_t i = 0; i < n && !own; i++) own = !by_address_compare_host(&all[i].address, address);
  free(all);
  return own;
}

static bool first_address(const char *name, struct by_address *out) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  if (getaddrinfo(name, NULL, &hints, &found)) return false;
  by_address_set(out, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return true;
}

/* Launchers have ranks meet under a host's name: one that means loopback is a common cause of jobs that never start,
 * above all where several hosts have the same name. */
static void check_own_name(struct by_findings *findings) {
  char name[BY_HOST_TEXT] = "", text[BY_ADDRESS_TEXT];
  struct by_address address;
  gethostname(name, sizeof name - 1);
  if (!first_address(name, &address)) {
    by_finding(findings, BY_FINDING_WARN, "host name", "add the name to DNS or to /etc/hosts on all machines",
               "%s cannot be looked up", name);
    return;
  }
  by_address_print_host(&address, text);
  if (by_address_is_loopback(&address))
    by_finding(
        findings, BY_FINDING_WARN, "host name",
        "give the name its network address in /etc/hosts; or have ranks meet at an address: with `banyan run` they "
        "do, elsewhere set BANYAN_ROOT or MASTER_ADDR to one",
        "%s means %s here: ranks on this host that look for rank 0 under this name do not find it elsewhere", name,
        text);
  else if (!is_own(&address))
    by_finding(findings, BY_FINDING_WARN, "host name", "correct DNS or /etc/hosts",
               "%s means %s, which is no address of this machine", name, text);
  else
    by_finding(findings, BY_FINDING_OK, "host name", NULL, "%s is %s", name, text);
}

void by_doctor_network(struct by_findings *findings) {
  check_interfaces(findings);
  check_own_name(findings);
}
