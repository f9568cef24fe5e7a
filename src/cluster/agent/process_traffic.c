#include "process_traffic.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"

enum { MOST_SOCKETS = 4096, ESTABLISHED = 1 << 1 /* TCP_ESTABLISHED */ };

struct looking {
  unsigned long inodes[MOST_SOCKETS]; /* of the process's sockets */
  size_t n_inodes;
  struct by_agent_counter *counters;
  size_t n;
};

static void list_sockets(pid_t pid, struct looking *looking) {
  char path[300], target[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder)) && looking->n_inodes < MOST_SOCKETS;) {
    ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    if (sscanf(target, "socket:[%lu]", &looking->inodes[looking->n_inodes]) == 1) looking->n_inodes++;
  }
  closedir(folder);
}

static bool is_of_process(const struct looking *looking, unsigned long inode) {
  for (size_t i = 0; i < looking->n_inodes; i++)
    if (looking->inodes[i] == inode) return true;
  return false;
}

static struct by_agent_counter *find_interface(const struct looking *looking, const struct inet_diag_msg *socket) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct by_address address;
  char text[BY_ADDRESS_TEXT];
  memcpy(&six.sin6_addr, socket->id.idiag_src, sizeof six.sin6_addr);
  memcpy(&four.sin_addr, socket->id.idiag_src, sizeof four.sin_addr);
  if (socket->idiag_family == AF_INET)
    by_address_set(&address, (const struct sockaddr *)&four, sizeof four);
  else
    by_address_set(&address, (const struct sockaddr *)&six, sizeof six);
  by_address_print_host(&address, text);
  for (size_t i = 0; i < looking->n; i++)
    if (!strcmp(looking->counters[i].address, text)) return &looking->counters[i];
  return NULL;
}

static int take_socket(const struct nlmsghdr *header, void *context) {
  const struct looking *looking = context;
  const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  struct tcp_info info = {0};
  if (!is_of_process(looking, socket->idiag_inode)) return MNL_CB_OK;
  struct by_agent_counter *counter = find_interface(looking, socket);
  if (!counter) return MNL_CB_OK;
  mnl_attr_for_each(attribute, header, sizeof *socket) {
    if (mnl_attr_get_type(attribute) != INET_DIAG_INFO) continue;
    size_t length = mnl_attr_get_payload_len(attribute); /* kernels differ */
    memcpy(&info, mnl_attr_get_payload(attribute), length < sizeof info ? length : sizeof info);
  }
  counter->helped_sent += info.tcpi_bytes_acked;
  counter->helped_received += info.tcpi_bytes_received;
  return MNL_CB_OK;
}

void by_process_traffic_add(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n) {
  static const uint8_t families[] = {AF_INET, AF_INET6};
  struct looking *looking = pid > 0 ? calloc(1, sizeof *looking) : NULL;
  struct by_netlink_request request;
  if (!looking) return;
  looking->counters = counters;
  looking->n = n;
  list_sockets(pid, looking);
  for (size_t i = 0; i < sizeof families && looking->n_inodes > 0; i++) {
    struct inet_diag_req_v2 *body = by_netlink_begin(&request, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sizeof *body);
    body->sdiag_family = families[i];
    body->sdiag_protocol = IPPROTO_TCP;
    body->idiag_ext = 1 << (INET_DIAG_INFO - 1);
    body->idiag_states = ESTABLISHED;
    (void)by_netlink_hear(sockets, &request, take_socket, looking);
  }
  free(looking);
}
