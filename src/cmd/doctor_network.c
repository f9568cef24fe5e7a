/* Checks interfaces, names and TCP for `banyan doctor`. */
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "doctor.h"
#include "interface.h"
#include "process.h"
#include "socket.h"
#include "text.h"

enum { ROUND_TRIPS = 200, SLOW_ROUND_US = 500 };

/* A window fills a link up to some delay; in a building a millisecond is usual. */
static const double lan_delay = 1e-3;

struct pair {
  int listener, client, server;
};

static enum banyan_status wait_for(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  return poll(&p, 1, 2000) == 1 ? BANYAN_OK : by_fail(BANYAN_ERR_TIMEOUT, "no answer on loopback in 2 s");
}

static enum banyan_status connect_pair(struct pair *pair) {
  struct by_address any, at;
  bool done = false;
  BY_TRY(by_address_parse("127.0.0.1:0", &any));
  BY_TRY(by_socket_listen(&any, (struct by_port_range){0}, &pair->listener, &at));
  BY_TRY(by_socket_connect_start(&at, &pair->client));
  BY_TRY(wait_for(pair->listener, POLLIN));
  BY_TRY(by_socket_accept(pair->listener, &pair->server, NULL));
  BY_TRY(wait_for(pair->client, POLLOUT));
  BY_TRY(by_socket_connect_finish(pair->client, &at, &done));
  BY_TRY(by_socket_set_nodelay(pair->client));
  return by_socket_set_nodelay(pair->server);
}

static enum banyan_status pass_byte(int from, int to) {
  char byte = 1;
  if (send(from, &byte, 1, MSG_NOSIGNAL) != 1) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "send on loopback");
  BY_TRY(wait_for(to, POLLIN));
  return recv(to, &byte, 1, 0) == 1 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "recv on loopback");
}

static enum banyan_status time_round_trips(const struct pair *pair, double *microseconds) {
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < ROUND_TRIPS; i++) {
    BY_TRY(pass_byte(pair->client, pair->server));
    BY_TRY(pass_byte(pair->server, pair->client));
  }
  *microseconds = (double)(by_clock_now(&by_clock_system) - start) / 1e3 / ROUND_TRIPS;
  return BANYAN_OK;
}

static enum banyan_status report_congestion(struct by_findings *findings, int fd) {
  char name[BY_CONGESTION_TEXT], available[256] = "unknown";
  BY_TRY(by_socket_get_congestion(fd, name));
  by_read_line("/proc/sys/net/ipv4/tcp_available_congestion_control", available, sizeof available);
  bool bbr = !strncmp(name, "bbr", 3);
  by_finding(findings, bbr ? BY_FINDING_WARN : BY_FINDING_OK, "congestion",
             "sysctl -w net.ipv4.tcp_congestion_control=cubic (keep bbr for long and lossy links)",
             "%s is in force; there are: %s%s", name, available,
             bbr ? ". BBR can halve one stream on loopback and in a local network: name it with every figure" : "");
  return BANYAN_OK;
}

static void check_loopback(struct by_findings *findings) {
  struct pair pair = {-1, -1, -1};
  double microseconds = 0;
  enum banyan_status status = connect_pair(&pair);
  if (!status) status = time_round_trips(&pair, &microseconds);
  bool slow = microseconds > SLOW_ROUND_US;
  if (!status)
    by_finding(findings, slow ? BY_FINDING_WARN : BY_FINDING_OK, "loopback",
               "look for a busy machine, power saving or a slow hypervisor", "TCP connects; %.0f us a round trip",
               microseconds);
  /* The client connects to loopback, so it does not have the system's default. */
  if (!status) status = report_congestion(findings, pair.server);
  if (status)
    by_finding(findings, BY_FINDING_FAIL, "loopback", "ip link set lo up; allow 127.0.0.1 in the firewall", "%s",
               banyan_error_text());
  by_cli_close(&pair.listener);
  by_cli_close(&pair.client);
  by_cli_close(&pair.server);
}

static void check_window(struct by_findings *findings, const char *name) {
  char path[128], line[128], have[32], rate[32], delay[32], fix[192];
  snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
  struct by_interface *all = NULL;
  size_t n = 0;
  double bytes, speed = 0; /* Speed of the fastest interface; 10 Gbit/s if the driver does not report it. */
  if (by_interface_list("", false, &all, &n) != BANYAN_OK) n = 0;
  for (size_t i = 0; i < n; i++) speed = fmax(speed, all[i].speed);
  free(all);
  if (speed <= 0) speed = 10e9;
  double need = 2 * speed * lan_delay / 8;
  /* The values are "least default greatest". */
  if (!by_read_line(path, line, sizeof line) || sscanf(line, "%*f %*f %lf", &bytes) != 1 || bytes <= 0) return;
  /* Half of a buffer is used for bookkeeping (tcp_adv_win_scale). */
  snprintf(fix, sizeof fix, "sysctl -w net.ipv4.%s=\"4096 131072 %.0f\"", name, need * 4);
  bool small = bytes < need;
  by_finding(findings, small ? BY_FINDING_WARN : BY_FINDING_OK, name, fix,
             "at most %s: one connection fills %s up to a round trip of %s", by_print_bytes((uint64_t)bytes, have),
             by_print_rate(speed, rate), by_print_seconds(bytes / 2 * 8 / speed, delay));
}

static void check_idle(struct by_findings *findings) {
  char line[16];
  if (!by_read_line("/proc/sys/net/ipv4/tcp_slow_start_after_idle", line, sizeof line)) return;
  bool on = atoi(line) != 0;
  by_finding(findings, on ? BY_FINDING_WARN : BY_FINDING_OK, "idle restart",
             "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
             on ? "a connection that rested while the ranks computed starts slowly again"
                : "connections keep their speed while the ranks compute");
}

/* Counts interfaces besides the first one that could be used. */
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
  char address[BY_ADDRESS_TEXT], path[128], fix[128];
  const char *filter = getenv("BANYAN_IFACE");
  if (by_interface_list(filter ? filter : "", false, &all, &n)) {
    by_finding(findings, BY_FINDING_FAIL, "interfaces", filter ? "correct BANYAN_IFACE" : "bring an interface up", "%s",
               banyan_error_text());
    return;
  }
  for (size_t i = 0; i < n; i++) {
    char speed[32] = "speed unknown", mtu[32] = "0";
    if (all[i].speed > 0) by_print_rate(all[i].speed, speed);
    snprintf(path, sizeof path, "/sys/class/net/%s/mtu", all[i].name);
    by_read_line(path, mtu, sizeof mtu);
    bool only_loopback = by_address_is_loopback(&all[i].address);
    by_finding(findings, BY_FINDING_OK, "interface", NULL, "%s, %s/%d, %s, MTU %s%s", all[i].name,
               by_address_print_host(&all[i].address, address), all[i].bits, speed, mtu,
               only_loopback ? "; this machine only"
               : i == 0      ? "; offered to peers first"
                             : "");
  }
  int others = count_others(all, n);
  snprintf(fix, sizeof fix, "BANYAN_IFACE=%s (or a subnet) keeps Banyan to one", all[0].name);
  if (others && !filter)
    by_finding(findings, BY_FINDING_WARN, "interfaces", fix,
               "%d more could be used: peers must reach this machine through each that is offered", others);
  free(all);
}

/* Launchers make ranks meet under a host's name: a name of loopback is a common cause of jobs that never start,
 * especially if several hosts have the same name. */
static void check_own_name(struct by_findings *findings) {
  char name[BY_HOST_TEXT] = "", text[BY_ADDRESS_TEXT];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  struct by_address address;
  gethostname(name, sizeof name - 1);
  if (getaddrinfo(name, NULL, &hints, &found)) {
    by_finding(findings, BY_FINDING_WARN, "host name", "add the name to DNS or to /etc/hosts on all machines",
               "%s cannot be looked up", name);
    return;
  }
  by_address_set(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  by_address_print_host(&address, text);
  if (by_address_is_loopback(&address))
    by_finding(
        findings, BY_FINDING_WARN, "host name",
        "give the name its network address in /etc/hosts; or have ranks meet at an address: with `banyan run` they "
        "do, elsewhere set BANYAN_ROOT or MASTER_ADDR to one",
        "%s means %s here: ranks on this host that look for rank 0 under this name do not find it elsewhere", name,
        text);
  else if (!by_interface_is_own(&address, true))
    by_finding(findings, BY_FINDING_WARN, "host name", "correct DNS or /etc/hosts",
               "%s means %s, which is no address of this machine", name, text);
  else
    by_finding(findings, BY_FINDING_OK, "host name", NULL, "%s is %s", name, text);
}

void by_doctor_network(struct by_findings *findings) {
  check_interfaces(findings);
  check_own_name(findings);
  check_loopback(findings);
  check_window(findings, "tcp_rmem");
  check_window(findings, "tcp_wmem");
  check_idle(findings);
}
