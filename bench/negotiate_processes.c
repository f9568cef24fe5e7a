#include "negotiate_ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { MESSAGE_MOST = 1 << 20, LIMIT_S = 150, EVENTS = 64, RETRY_US = 50 };

/* Memory that all processes share. */
struct board {
  _Atomic uint64_t messages;   /* messages sent so far */
  pthread_barrier_t ready;     /* barrier before the start */
  _Atomic uint32_t through;    /* processes that have completed all rounds */
  _Atomic uint64_t then, idle; /* messages when all processes had completed, and after the pause */
  _Atomic bool over;
  struct by_negotiate_result result;
};

struct node {
  const struct by_negotiate_case *c;
  struct board *board;
  struct by_controller *controller;
  uint32_t rank, first, children;
  int up, *down, epoll; /* the parent's descriptor, and one for each child */
  int (*ends)[2];       /* ends of all ranks: [0] is that of rank r, [1] that of its parent */
  uint32_t started;
  double submitting; /* CPU seconds of submissions */
  char *message;
};

static double seconds_of(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void give_up(const char *what) {
  fprintf(stderr, "negotiate_bench: %s: %s\n", what, errno ? strerror(errno) : banyan_error_text());
  _exit(1);
}

static void on_send(void *context, uint32_t to, const void *message, size_t bytes) {
  struct node *node = context;
  int fd = to >= node->first && to < node->first + node->children ? node->down[to - node->first] : node->up;
  while (send(fd, message, bytes, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR && errno != ENOBUFS) give_up("sending a letter");
    usleep(RETRY_US);
  }
  atomic_fetch_add_explicit(&node->board->messages, 1, memory_order_relaxed);
}

static void on_start(void *context, void *const *cookies, uint32_t n) {
  struct node *node = context;
  (void)cookies;
  node->started += n;
}

static void watch(const struct node *node, int fd, uint32_t rank) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)rank << 32 | (uint32_t)fd};
  if (epoll_ctl(node->epoll, EPOLL_CTL_ADD, fd, &event) != 0) give_up("watching a socket");
}

/* Keeps this rank's ends and closes all others. */
static void sort_ends(struct node *node) {
  node->epoll = epoll_create1(0);
  node->down = calloc((size_t)node->children + 1, sizeof *node->down);
  node->message = malloc(MESSAGE_MOST);
  if (node->epoll < 0 || !node->down || !node->message) give_up("making a rank");
  for (uint32_t r = 1; r < node->c->ranks; r++) {
    bool own = r == node->rank, child = r >= node->first && r < node->first + node->children;
    if (!own) close(node->ends[r][0]);
    if (!child) close(node->ends[r][1]);
    if (own) node->up = node->ends[r][0];
    if (child) node->down[r - node->first] = node->ends[r][1];
    if (own) watch(node, node->up, by_control_parent(&node->c->shape, node->rank));
    if (child) watch(node, node->down[r - node->first], r);
  }
}

static void take(struct node *node, const struct epoll_event *event) {
  int fd = (int)(uint32_t)event->data.u64;
  ssize_t n = recv(fd, node->message, MESSAGE_MOST, MSG_DONTWAIT);
  if (n <= 0) {
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (atomic_load(&node->board->over)) _exit(0);
    give_up("a letter does not come");
  }
  errno = 0;
  if (by_controller_take(node->controller, (uint32_t)(event->data.u64 >> 32), node->message, (size_t)n, 1) != BANYAN_OK)
    give_up("taking a letter");
}

static void flush(const struct node *node) {
  errno = 0;
  if (by_controller_flush(node->controller) != BANYAN_OK) give_up("negotiating");
}

static void take_some(struct node *node, int milliseconds) {
  struct epoll_event events[EVENTS];
  int n = epoll_wait(node->epoll, events, EVENTS, milliseconds);
  for (int i = 0; i < n; i++) take(node, &events[i]);
  if (n > 0) flush(node);
}

static void run_round(struct node *node, struct by_rng *rng, uint32_t round) {
  by_controller_step(node->controller, round);
  errno = 0;
  double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  if (by_negotiate_submit(node->c, node->controller, rng) != BANYAN_OK) give_up("submitting");
  node->submitting += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
  flush(node);
  while (node->started < node->c->operations * (round + 1)) take_some(node, -1);
}

/* Measures the root's figures: messages of the rounds from the third on. */
static void run_root(struct node *node, struct by_rng *rng) {
  const struct by_negotiate_case *c = node->c;
  struct by_negotiate_result *result = &node->board->result;
  const struct by_controller_counters *counters = by_controller_counters(node->controller);
  double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID), began = 0;
  uint64_t up = 0, down = 0, messages = 0;
  for (uint32_t round = 0; round < c->rounds; round++) {
    if (round == BY_NEGOTIATE_COLD) {
      node->submitting = 0;
      before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
      began = seconds_of(CLOCK_MONOTONIC);
      up = counters->taken;
      down = counters->messages_down;
      messages = atomic_load(&node->board->messages);
    }
    run_round(node, rng, round);
    if (round == 0) result->cold = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before - node->submitting;
  }
  double rounds = c->rounds - BY_NEGOTIATE_COLD;
  result->by_bits = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before - node->submitting) / rounds;
  result->submitting = node->submitting / rounds;
  result->round = (seconds_of(CLOCK_MONOTONIC) - began) / rounds;
  result->up = (double)(counters->taken - up) / rounds;
  result->down = (double)(counters->messages_down - down) / rounds;
  result->messages = (double)(atomic_load(&node->board->messages) - messages) / rounds;
  result->children = node->children;
}

/* Reads the number of messages when all ranks have completed all rounds, and again after the pause. */
static void stay_idle(struct node *node) {
  struct board *board = node->board;
  while (atomic_load(&board->through) < node->c->ranks) take_some(node, 1);
  board->then = atomic_load(&board->messages);
  double until = seconds_of(CLOCK_MONOTONIC) + node->c->idle;
  while (seconds_of(CLOCK_MONOTONIC) < until) take_some(node, 10);
  board->result.idle = atomic_load(&board->messages) - board->then;
  atomic_store(&board->over, true);
}

static _Noreturn void be_node(const struct by_negotiate_case *c, struct board *board, int (*ends)[2], uint32_t rank) {
  struct node node = {.c = c, .board = board, .rank = rank, .up = -1, .ends = ends};
  struct by_controller_config config = {.send = on_send, .start = on_start, .context = &node};
  struct by_rng rng;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(LIMIT_S);
  by_rng_init(&rng, rank + 1);
  node.children = by_negotiate_children(c, rank, &node.first);
  sort_ends(&node);
  errno = 0;
  if (by_negotiate_join(c, rank, &config, &node.controller) != BANYAN_OK) give_up("making a controller");
  pthread_barrier_wait(&board->ready);
  if (rank == 0)
    run_root(&node, &rng);
  else
    for (uint32_t round = 0; round < c->rounds; round++) run_round(&node, &rng, round);
  atomic_fetch_add(&board->through, 1);
  if (rank == 0) stay_idle(&node);
  while (!atomic_load(&board->over)) take_some(&node, 1000);
  _exit(0);
}

static enum banyan_status make_ends(uint32_t ranks, int (*ends)[2]) {
  for (uint32_t r = 1; r < ranks; r++)
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends[r]) != 0)
      return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                           "a socket for rank %u of %u: more open files are needed (ulimit -n %u)", r, ranks,
                           2 * ranks + 64);
  return BANYAN_OK;
}

static enum banyan_status start_all(const struct by_negotiate_case *c, struct board *board, int (*ends)[2],
                                    pid_t *pids) {
  for (uint32_t r = 0; r < c->ranks; r++) {
    pids[r] = fork();
    if (pids[r] == 0) be_node(c, board, ends, r);
    if (pids[r] < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "starting rank %u of %u", r, c->ranks);
  }
  return BANYAN_OK;
}

/* The first process that fails ends all processes. */
static enum banyan_status wait_for_all(uint32_t ranks, const pid_t *pids, bool failed) {
  enum banyan_status status = BANYAN_OK;
  int how;
  for (uint32_t r = 0; failed && r < ranks && pids[r] > 0; r++) kill(pids[r], SIGKILL);
  for (uint32_t n = 0; n < ranks && pids[n] > 0; n++) {
    pid_t pid = wait(&how);
    if (pid < 0) break;
    if ((WIFEXITED(how) && WEXITSTATUS(how) == 0) || failed) continue;
    failed = true;
    status = by_fail(BANYAN_ERR_SYSTEM, "a rank of the bench failed");
    for (uint32_t r = 0; r < ranks; r++) kill(pids[r], SIGKILL);
  }
  return status;
}

static void init_barrier(pthread_barrier_t *barrier, uint32_t n) {
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(barrier, &shared, n);
  pthread_barrierattr_destroy(&shared);
}

static enum banyan_status run_all(const struct by_negotiate_case *c, struct board *board, int (*ends)[2], pid_t *pids) {
  init_barrier(&board->ready, c->ranks);
  enum banyan_status status = make_ends(c->ranks, ends);
  if (status == BANYAN_OK) status = start_all(c, board, ends, pids);
  for (uint32_t r = 1; r < c->ranks; r++)
    for (int side = 0; side < 2; side++)
      if (ends[r][side] > 0) close(ends[r][side]);
  enum banyan_status ended = wait_for_all(c->ranks, pids, status != BANYAN_OK);
  return status == BANYAN_OK ? ended : status;
}

enum banyan_status by_negotiate_processes(const struct by_negotiate_case *c, struct by_negotiate_result *out) {
  struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int(*ends)[2] = calloc(c->ranks, sizeof *ends);
  pid_t *pids = calloc(c->ranks, sizeof *pids);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (board != MAP_FAILED && ends && pids)
    status = run_all(c, board, ends, pids);
  else
    status = by_fail(status, "out of memory for %u ranks", c->ranks);
  if (status == BANYAN_OK) *out = board->result;
  if (board != MAP_FAILED) munmap(board, sizeof *board);
  free(ends);
  free(pids);
  return status;
}
