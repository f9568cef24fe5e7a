/* Two workers and their server, directly or through an aggregator. Arbitrary bytes determine what happens to packets:
 * they arrive, get lost, arrive twice, or arrive changed with a correct seal. Invented packets arrive too, and time
 * passes. No endpoint may access memory outside its buffers. */
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "worker.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORKERS = 2, SERVER = WORKERS, AGGREGATOR, QUEUE = 64, ELEMENTS = 100 };

struct packet {
  _Alignas(64) struct by_fragment head;
  unsigned char lines[3 * BY_FRAGMENT_LINE];
};

static struct by_worker *workers[WORKERS];
static struct by_server *server;
static struct by_aggregator *aggregator;
static bool off_path; /* packets with a stack, and results for all, go to the aggregator */
static struct {
  struct packet packet;
  int to; /* a worker, SERVER or AGGREGATOR */
} queue[QUEUE];
static unsigned first, last;
static uint64_t now;

static void enqueue(const struct by_fragment *packet, int to) {
  if (last - first == QUEUE) return;
  memcpy(&queue[last % QUEUE].packet, packet, by_fragment_bytes(packet));
  queue[last++ % QUEUE].to = to;
}

static void worker_emits(void *context, const struct by_fragment *packet) {
  enqueue(packet, off_path && packet->hops && !(packet->flags & BY_FRAGMENT_ESCALATE) ? AGGREGATOR : SERVER);
}

static void aggregator_emits(void *context, const struct by_fragment *packet, enum by_aggregator_direction way) {
  if (way == BY_AGGREGATOR_UP) enqueue(packet, SERVER);
  for (int w = 0; way == BY_AGGREGATOR_DOWN && w < WORKERS; w++) enqueue(packet, w);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  if (off_path && to == BY_SERVER_ALL) {
    enqueue(packet, AGGREGATOR);
    return;
  }
  for (int w = 0; w < WORKERS; w++)
    if (to == BY_SERVER_ALL || to == w) enqueue(packet, w);
}

static void deliver(const struct packet *packet, int to) {
  if (to == SERVER)
    by_server_take(server, &packet->head, by_fragment_bytes(&packet->head));
  else if (to == AGGREGATOR)
    by_aggregator_take(aggregator, &packet->head, by_fragment_bytes(&packet->head), now);
  else
    by_worker_take(workers[to], &packet->head, by_fragment_bytes(&packet->head), now);
}

/* Lets one event happen. Returns how many bytes of the input describe it. */
static size_t happen(const uint8_t *data, size_t size) {
  struct packet packet = {.lines = {0}};
  static const int receivers[] = {SERVER, 0, 1, AGGREGATOR};
  int to = receivers[data[0] >> 4 & 3];
  if (data[0] % 8 == 0 && size > sizeof packet.head) { /* an invented packet */
    memcpy(&packet, data + 1, sizeof packet.head);
    packet.head.magic = BY_FRAGMENT_MAGIC;
    packet.head.version = BY_FRAGMENT_VERSION;
    packet.head.lines %= 4;
    by_fragment_seal(&packet.head);
    deliver(&packet, to);
    return 1 + sizeof packet.head;
  }
  if (data[0] % 8 == 1) now += (uint64_t)data[0] * 1000000;
  if (data[0] % 8 < 2 || first == last) return 1;
  packet = queue[first % QUEUE].packet;
  to = queue[first % QUEUE].to;
  if (data[0] % 8 != 2) first++;
  if (data[0] % 8 == 3) return 1; /* lost; 2: the packet arrives, and again later */
  if (data[0] % 8 > 4 || size < 3) {
    deliver(&packet, to);
    return 1;
  }
  unsigned char *at = (unsigned char *)&packet + data[1] % by_fragment_bytes(&packet.head);
  *at ^= data[2];
  packet.head.lines %= 4;
  by_fragment_seal(&packet.head);
  deliver(&packet, to);
  return 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  float numbers[WORKERS][ELEMENTS];
  uint32_t call;
  bool exact = size && data[0] & 1;
  off_path = size && data[0] & 2;
  first = last = 0;
  now = 1;
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_worker_config config = {.rank = w,
                                      .groups = by_one_group(WORKERS),
                                      .slots = 3,
                                      .lines = 1,
                                      .exact = exact,
                                      .hops = off_path,
                                      .stack = {{.workers = WORKERS}},
                                      .below = {{.workers = 3}},
                                      .timeout = 5000000000,
                                      .emit = worker_emits};
    if (by_worker_create(&config, &workers[w])) abort();
    for (size_t i = 0; i < ELEMENTS; i++) numbers[w][i] = (float)i;
    if (by_worker_begin(workers[w], BANYAN_FLOAT32, BANYAN_SUM, numbers[w], numbers[w], ELEMENTS, &call)) abort();
    by_worker_advance(workers[w], call, ELEMENTS);
  }
  static const unsigned char secret[BY_WORKER_SECRET];
  struct by_server_path ways[WORKERS] = {{0}};
  struct by_server_config config = {.groups = by_one_group(WORKERS),
                                    .slots = 3,
                                    .lines = 1,
                                    .multicast = size % 2,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .paths = ways,
                                    .parts = 4,
                                    .emit = server_emits};
  if (by_server_create(&config, &server)) abort();
  struct by_aggregator_config between = {.groups = by_one_group(WORKERS),
                                         .slots = 3,
                                         .lines = 1,
                                         .exact = exact,
                                         .secret = secret,
                                         .secret_bytes = sizeof secret,
                                         .emit = aggregator_emits};
  if (by_aggregator_create(&between, &aggregator)) abort();
  for (size_t at = 1; at < size;) {
    for (unsigned w = 0; w < WORKERS; w++) by_worker_progress(workers[w], now);
    at += happen(data + at, size - at);
  }
  for (unsigned w = 0; w < WORKERS; w++) {
    assert(by_worker_done(workers[w], call) <= ELEMENTS);
    by_worker_destroy(workers[w]);
  }
  by_server_destroy(server);
  by_aggregator_destroy(aggregator);
  return 0;
}
