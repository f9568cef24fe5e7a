#include "negotiate_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"

struct post {
  double at; /* arrival time */
  uint64_t number;
  uint32_t from, to;
  size_t bytes;
  unsigned char data[];
};

/* The kinds of work of a controller: its own rank has submitted, or a message has arrived from below or from above. */
enum work { OWN, UPWARD, DOWNWARD, WORKS };

struct world {
  const struct by_negotiate_case *c;
  struct node {
    struct world *world;
    struct by_controller *controller;
    double free; /* time at which the node has completed its current work */
    uint32_t rank, started;
    bool through; /* The node has everything of the round. */
  } * nodes;
  struct post **heap; /* messages by arrival time, then by number */
  uint32_t n, room;
  struct post **fresh; /* messages that the node at work sends */
  uint32_t n_fresh, room_fresh;
  uint64_t sent, up, down; /* messages of all nodes, to the root, and from it */
  double sending, taking;  /* seconds of a message in the kernel */
  double clock;            /* time at which the node at work sends */
  double root;             /* seconds of work of the root */
  uint32_t through;        /* ranks that have everything of the round */
  double last;             /* time at which the last of them had */
  uint32_t round;
  double spent[WORKS]; /* seconds in the measured round */
  uint64_t times[WORKS];
  bool failed;
};

/* --- the cost of a message --- */

/* Returns the time of this thread, which excludes the work of other threads. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Measures the mean over many messages, one at a time, over a local socket. */
static enum banyan_status measure_messages(struct world *world) {
  enum { ROUNDS = 20000, BYTES = 64 };
  char bytes[BYTES] = {0};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "making a pair of sockets");
  bool failed = false;
  for (int i = 0; i < ROUNDS; i++) {
    double a = now();
    failed |= send(ends[0], bytes, BYTES, 0) != BYTES;
    double b = now();
    failed |= recv(ends[1], bytes, BYTES, 0) != BYTES;
    world->sending += b - a;
    world->taking += now() - b;
  }
  world->sending /= ROUNDS;
  world->taking /= ROUNDS;
  close(ends[0]);
  close(ends[1]);
  return failed ? by_fail(BANYAN_ERR_SYSTEM, "a pair of sockets does not work") : BANYAN_OK;
}

/* --- messages in transit --- */

static bool is_before(const struct post *a, const struct post *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(struct world *world, struct post *post) {
  if (!BY_ARRAY_GROW(&world->heap, &world->room, (size_t)world->n + 1)) {
    world->failed = true;
    free(post);
    return;
  }
  uint32_t i = world->n++;
  for (; i && is_before(post, world->heap[(i - 1) / 2]); i = (i - 1) / 2) world->heap[i] = world->heap[(i - 1) / 2];
  world->heap[i] = post;
}

static struct post *pop(struct world *world) {
  struct post *first = world->heap[0], *last = world->heap[--world->n];
  uint32_t i = 0;
  for (uint32_t child = 1; child < world->n; child = 2 * i + 1) {
    if (child + 1 < world->n && is_before(world->heap[child + 1], world->heap[child])) child++;
    if (!is_before(world->heap[child], last)) break;
    world->heap[i] = world->heap[child];
    i = child;
  }
  world->heap[i] = last;
  return first;
}

/* --- nodes --- */

static void on_send(void *context, uint32_t to, const void *message, size_t bytes) {
  const struct node *node = context;
  struct world *world = node->world;
  struct post *post = malloc(sizeof *post + bytes);
  if (!post || !BY_ARRAY_GROW(&world->fresh, &world->room_fresh, (size_t)world->n_fresh + 1)) {
    world->failed = true;
    free(post);
    return;
  }
  *post = (struct post){.number = world->sent++, .from = node->rank, .to = to, .bytes = bytes};
  memcpy(post->data, message, bytes);
  world->up += to == 0;
  world->down += node->rank == 0;
  world->fresh[world->n_fresh++] = post;
}

static void send_off(struct world *world, struct post *post) {
  world->clock += world->sending;
  post->at = world->clock + world->c->delay;
  push(world, post);
}

static void on_start(void *context, void *const *cookies, uint32_t n) {
  struct node *node = context;
  (void)cookies;
  node->started += n;
}

/* Returns how long the work took here. In later rounds than the measured one it returns the mean of that round,
 * since otherwise the longest path through many controllers would consist of whatever disturbed this machine. */
static double cost_of(struct world *world, enum work kind, double took) {
  if (world->round > BY_NEGOTIATE_COLD) return world->spent[kind] / (double)world->times[kind];
  if (world->round == BY_NEGOTIATE_COLD) {
    world->spent[kind] += took;
    world->times[kind]++;
  }
  return took;
}

/* Lets the node work from `at` on, or when it is free: it takes `post` or what it has submitted, then sends what is
 * due. Its work comes before its messages. */
static void work(struct world *world, struct node *node, double at, const struct post *post) {
  enum work kind = !post ? OWN : post->from > node->rank ? UPWARD : DOWNWARD;
  uint32_t first = world->n_fresh = 0;
  double from = at > node->free ? at : node->free, began = now();
  if (post && by_controller_take(node->controller, post->from, post->data, post->bytes, 1) != BANYAN_OK)
    world->failed = true;
  if (by_controller_flush(node->controller) != BANYAN_OK) world->failed = true;
  world->clock = from + (post ? world->taking : 0) + cost_of(world, kind, now() - began);
  for (; first < world->n_fresh; first++) send_off(world, world->fresh[first]);
  if (node->started == world->c->operations * (world->round + 1) && !node->through) {
    node->through = true;
    world->through++;
    if (world->clock > world->last) world->last = world->clock;
  }
  node->free = world->clock;
  if (node->rank == 0) world->root += node->free - from;
}

/* Submits everything on all ranks at time 0. The submissions are not timed; what follows is. */
static enum banyan_status submit_all(struct world *world, struct by_rng *rng) {
  world->through = 0;
  world->last = 0;
  for (uint32_t r = 0; r < world->c->ranks; r++) {
    struct node *node = &world->nodes[r];
    node->free = 0;
    node->through = false;
    by_controller_step(node->controller, world->round);
    BY_TRY(by_negotiate_submit(world->c, node->controller, rng));
  }
  return BANYAN_OK;
}

static enum banyan_status run_round(struct world *world, struct by_rng *rng) {
  BY_TRY(submit_all(world, rng));
  for (uint32_t r = 0; r < world->c->ranks; r++) work(world, &world->nodes[r], 0, NULL);
  while (world->n && !world->failed) {
    struct post *post = pop(world);
    work(world, &world->nodes[post->to], post->at, post);
    free(post);
  }
  if (world->failed || world->through != world->c->ranks)
    return by_fail(BANYAN_ERR_NO_MEMORY, "the simulated negotiation did not end: %s", banyan_error_text());
  return BANYAN_OK;
}

static enum banyan_status run_rounds(struct world *world, struct by_negotiate_result *out) {
  const struct by_negotiate_case *c = world->c;
  double rounds = c->rounds - BY_NEGOTIATE_COLD - 1;
  uint64_t sent = 0, up = 0, down = 0;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  BY_TRY(measure_messages(world));
  for (world->round = 0; world->round < c->rounds; world->round++) {
    if (world->round == BY_NEGOTIATE_COLD + 1) {
      world->root = 0;
      sent = world->sent;
      up = world->up;
      down = world->down;
    }
    BY_TRY(run_round(world, &rng));
    if (world->round == 0) out->cold = world->root;
    if (world->round > BY_NEGOTIATE_COLD) out->round += world->last / rounds;
  }
  out->by_bits = world->root / rounds;
  out->up = (double)(world->up - up) / rounds;
  out->down = (double)(world->down - down) / rounds;
  out->messages = (double)(world->sent - sent) / rounds;
  out->message = world->sending + world->taking;
  return BANYAN_OK;
}

enum banyan_status by_negotiate_simulated(const struct by_negotiate_case *c, struct by_negotiate_result *out) {
  struct world world = {.c = c};
  uint32_t first;
  *out = (struct by_negotiate_result){.children = by_negotiate_children(c, 0, &first)};
  world.nodes = calloc(c->ranks, sizeof *world.nodes);
  enum banyan_status status = world.nodes ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for ranks");
  for (uint32_t r = 0; r < c->ranks && status == BANYAN_OK; r++) {
    struct by_controller_config config = {.send = on_send, .start = on_start, .context = &world.nodes[r]};
    world.nodes[r] = (struct node){.world = &world, .rank = r};
    status = by_negotiate_join(c, r, &config, &world.nodes[r].controller);
  }
  if (status == BANYAN_OK) status = run_rounds(&world, out);
  while (world.n) free(world.heap[--world.n]);
  for (uint32_t r = 0; world.nodes && r < c->ranks; r++) by_controller_destroy(world.nodes[r].controller);
  free(world.nodes);
  free(world.heap);
  free(world.fresh);
  return status;
}
