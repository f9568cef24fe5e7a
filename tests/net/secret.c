/* secret send: a rank of a job whose ranks broadcast and add up a text that is easy to find in packets.
 * secret watch DEVICE: counts the packets of this network namespace that hold the text, until its input ends. It prints
 * "ready" first, and in the end how many packets there were, and how many with the text. */
#include <banyan/banyan.h>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };
static const char text[] = "nobody else may read this payload. ";

static int send_text(void) {
  static char bytes[BYTES];
  static uint8_t zeros[BYTES];
  struct banyan_comm *comm;
  if (banyan_comm_create(NULL, &comm) != BANYAN_OK) {
    fprintf(stderr, "%s\n", banyan_error_text());
    return 1;
  }
  for (size_t i = 0; i < BYTES; i++) bytes[i] = banyan_comm_rank(comm) ? 0 : text[i % (sizeof text - 1)];
  enum banyan_status status = banyan_broadcast(comm, bytes, BYTES, BANYAN_UINT8, 0);
  /* The sum is the text again. */
  const void *part = banyan_comm_rank(comm) ? (const void *)bytes : zeros;
  if (status == BANYAN_OK) status = banyan_allreduce(comm, part, zeros, BYTES, BANYAN_UINT8, BANYAN_SUM);
  size_t wrong = 0;
  for (size_t i = 0; i < BYTES; i++) wrong += zeros[i] != (uint8_t)text[i % (sizeof text - 1)];
  if (status != BANYAN_OK) fprintf(stderr, "%s\n", banyan_error_text());
  banyan_comm_destroy(comm);
  printf("%zu wrong\n", wrong);
  return status != BANYAN_OK || wrong;
}

static int watch(const char *device) {
  static char packet[1 << 17];
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), buffer = 64 << 20;
  struct sockaddr_ll at = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(device)};
  struct pollfd ends[] = {{.fd = fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  unsigned long packets = 0, found = 0;
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) return 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    (void)poll(ends, 2, -1);
    ssize_t n = recv(fd, packet, sizeof packet, MSG_DONTWAIT);
    if (n > 0) {
      packets++;
      found += memmem(packet, (size_t)n, text, sizeof text - 1) != NULL;
    } else if (ends[1].revents) {
      break;
    }
  }
  printf("%lu packets, %lu with the text\n", packets, found);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "send")) return send_text();
  return argc == 3 && !strcmp(argv[1], "watch") ? watch(argv[2]) : 2;
}
