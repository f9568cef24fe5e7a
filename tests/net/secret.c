/* secret send [ROUNDS]: a rank of a job whose ranks broadcast and reduce a text that is easy to find in packets.
 * secret member ROUNDS MARK: the same in a group whose processes change. The process that was started as rank 2 kills
 * itself in the third round, unless there is a file MARK, which it makes; when it is started again, it gets the text as
 * the others' state.
 * secret watch DEVICE [TEXT...]: counts the packets of this network namespace that hold the text, or one of these,
 * until its input ends. DEVICE "all" means all devices. It prints "ready" first, then a line for each other text that
 * was found, and in the end how many packets there were, and how many with a text. */
#include <banyan/banyan.h>
#include <banyan/elastic.h>
#include <banyan/state.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PAUSE_US = 50000, WAIT_S = 40 };
static const char text[] = "nobody else may read this payload. ";
static char bytes[BYTES];
static uint8_t sums[BYTES];

static void write_text(char *to) {
  for (size_t i = 0; i < BYTES; i++) to[i] = text[i % (sizeof text - 1)];
}

/* *wrong: a sum was. The result is the text again. */
static enum banyan_status work(struct banyan_comm *comm, int *wrong) {
  memset(bytes, 0, BYTES);
  memset(sums, 0, BYTES);
  if (banyan_comm_rank(comm) == 0) write_text(bytes);
  enum banyan_status status = banyan_broadcast(comm, bytes, BYTES, BANYAN_UINT8, 0);
  if (status == BANYAN_OK) status = banyan_allreduce(comm, bytes, sums, BYTES, BANYAN_UINT8, BANYAN_MAX);
  for (size_t i = 0; status == BANYAN_OK && i < BYTES; i++) *wrong |= sums[i] != (uint8_t)text[i % (sizeof text - 1)];
  return status;
}

static int finish(enum banyan_status status, int wrong) {
  if (status != BANYAN_OK) fprintf(stderr, "%s\n", banyan_error_text());
  printf("%d wrong\n", wrong);
  return status != BANYAN_OK || wrong;
}

static int send_text(int rounds) {
  struct banyan_comm *comm = NULL;
  int wrong = 0;
  enum banyan_status status = banyan_comm_create(NULL, &comm);
  for (int i = 0; status == BANYAN_OK && i < rounds; i++) {
    if (i) usleep(PAUSE_US);
    status = work(comm, &wrong);
  }
  int code = finish(status, wrong);
  banyan_comm_destroy(comm);
  return code;
}

/* A membership: what others have, and then rounds until the last one or a failure. */
static enum banyan_status go_on(struct banyan_member *member, struct banyan_comm *comm, struct banyan_state *state,
                                int rounds, const char *mark, int *wrong) {
  struct banyan_state_report got;
  const char *self = getenv("BANYAN_RANK");
  enum banyan_status status = banyan_state_sync(state, comm, NULL, &got);
  if (status == BANYAN_OK && got.bytes) printf("received %llu bytes of state\n", (unsigned long long)got.bytes);
  while (status == BANYAN_OK && banyan_state_version(state) < rounds) {
    int32_t changes = banyan_member_change_wanted(member) > 0;
    if (banyan_state_version(state) == 3 && self && !strcmp(self, "2") && access(mark, F_OK)) {
      (void)!open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      raise(SIGKILL);
    }
    usleep(PAUSE_US);
    status = work(comm, wrong);
    if (status == BANYAN_OK) status = banyan_allreduce(comm, &changes, &changes, 1, BANYAN_INT32, BANYAN_MAX);
    if (status == BANYAN_OK) status = banyan_state_commit(state, banyan_state_version(state) + 1);
    if (status == BANYAN_OK && changes) return BANYAN_ERR_CLOSED;
  }
  return status;
}

static int be_member(int rounds, const char *mark) {
  static uint8_t kept[BYTES];
  struct banyan_state_buffer buffer = {"kept", kept, BYTES, BANYAN_UINT8};
  struct banyan_member *member = NULL;
  struct banyan_state *state = NULL;
  struct banyan_comm *comm = NULL;
  int wrong = 0;
  if (access(mark, F_OK)) write_text((char *)kept);
  enum banyan_status status = banyan_state_create(&buffer, 1, &state);
  if (status == BANYAN_OK) status = banyan_member_create(NULL, &member);
  if (status == BANYAN_OK) status = banyan_member_start(member, WAIT_S, &comm);
  while (status == BANYAN_OK && go_on(member, comm, state, rounds, mark, &wrong) != BANYAN_OK) {
    banyan_comm_destroy(comm);
    comm = NULL;
    status = banyan_member_recover(member, WAIT_S, &comm);
  }
  for (size_t i = 0; i < BYTES; i++) wrong |= kept[i] != (uint8_t)text[i % (sizeof text - 1)];
  int code = finish(status, wrong);
  banyan_comm_destroy(comm);
  banyan_member_destroy(member);
  banyan_state_destroy(state);
  return code;
}

static int watch(const char *device, int n, char **texts) {
  static char packet[1 << 17];
  static unsigned long found[64];
  static char *own[] = {(char *)text};
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), buffer = 64 << 20;
  struct sockaddr_ll at = {.sll_family = AF_PACKET,
                           .sll_protocol = htons(ETH_P_ALL),
                           .sll_ifindex = strcmp(device, "all") ? (int)if_nametoindex(device) : 0};
  struct pollfd ends[] = {{.fd = fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  unsigned long packets = 0, with = 0;
  if (n > 64 || fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) return 1;
  if (!n) texts = own, n = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    (void)poll(ends, 2, -1);
    ssize_t length = recv(fd, packet, sizeof packet, MSG_DONTWAIT);
    if (length > 0) {
      bool has = false;
      packets++;
      for (int i = 0; i < n; i++)
        if (memmem(packet, (size_t)length, texts[i], strlen(texts[i]))) found[i]++, has = true;
      with += has;
    } else if (ends[1].revents) {
      break;
    }
  }
  for (int i = 0; texts != own && i < n; i++)
    if (found[i]) printf("in %lu packets: %s\n", found[i], texts[i]);
  printf("%lu packets, %lu with the text\n", packets, with);
  return 0;
}

int main(int argc, char **argv) {
  if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "send")) return send_text(argc == 3 ? atoi(argv[2]) : 1);
  if (argc == 4 && !strcmp(argv[1], "member")) return be_member(atoi(argv[2]), argv[3]);
  return argc >= 3 && !strcmp(argv[1], "watch") ? watch(argv[2], argc - 3, argv + 3) : 2;
}
