/* Finds the links of hosts that are wired to each other, and measures them.
 *
 * Each rank sends a datagram with TTL 1 to each other rank, whose number and nonce it carries. It arrives only if
 * nothing on the path forwards packets. Ranks from which nothing has arrived get it again, since it may be lost. */
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>
#include <unistd.h>

#include "log.h"
#include "measure_parts.h"
#include "survey.h"
#include "thresholds.h"

/* ---- which hosts reach each other without a hop */

enum { TIMES = 3 };

/* Where a rank receives datagrams. */
struct slot {
  uint64_t nonce;
  uint32_t port, family; /* With port 0 it receives none. */
};

struct hello {
  uint64_t nonce; /* The nonce of the receiver. */
  uint32_t from;
};

struct around {
  struct banyan_comm *comm;
  struct slot *slots; /* The slots of all ranks. */
  uint8_t *received;  /* For each rank: its datagram has arrived. */
  int fd;
  uint32_t missing;
};

static const struct by_member *member_of(const struct banyan_comm *comm, uint32_t rank) {
  const struct by_member *members = by_job_members(comm->job);
  return &members[comm->processes[rank]];
}

/* Opens a socket whose datagrams go no further than one hop; -1: there is none. */
static int open_socket(int family) {
  int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
  struct by_address any;
  by_address_any(&any, family, 0);
  bool limited = fd >= 0 && (family == AF_INET6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof one) == 0
                                                : setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof one) == 0);
  if (limited && bind(fd, (struct sockaddr *)&any.storage, any.length) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static int port_of(int fd) {
  struct sockaddr_storage name;
  socklen_t length = sizeof name;
  struct by_address address;
  if (fd < 0 || getsockname(fd, (struct sockaddr *)&name, &length)) return 0;
  by_address_set(&address, (struct sockaddr *)&name, length);
  return by_address_port(&address);
}

static void send_to(const struct around *a, uint32_t rank) {
  struct hello hello = {.nonce = a->slots[rank].nonce, .from = a->comm->rank};
  const struct by_address *at = by_member_address(member_of(a->comm, rank), (int)a->slots[rank].family);
  if (!at || !a->slots[rank].port || a->slots[rank].family != a->slots[a->comm->rank].family) return;
  struct by_address to = *at;
  by_address_set_port(&to, (int)a->slots[rank].port);
  (void)!sendto(a->fd, &hello, sizeof hello, 0, (struct sockaddr *)&to.storage, to.length);
}

static void receive(struct around *a) {
  struct hello hello;
  for (;;) {
    ssize_t n = recv(a->fd, &hello, sizeof hello, MSG_TRUNC);
    if (n < 0) return;
    bool is_ours = n == sizeof hello && hello.nonce == a->slots[a->comm->rank].nonce && hello.from < a->comm->size;
    if (!is_ours || a->received[hello.from]) continue;
    a->received[hello.from] = 1;
    a->missing--;
  }
}

static void listen_until(struct around *a, uint64_t until) {
  for (uint64_t now; a->missing && (now = by_clock_now(&by_clock_system)) < until;) {
    struct pollfd poller = {.fd = a->fd, .events = POLLIN};
    (void)poll(&poller, 1, (int)((until - now) / 1000000) + 1);
    receive(a);
  }
}

static void look_around(struct around *a) {
  uint64_t until = by_clock_now(&by_clock_system);
  if (a->fd < 0) return;
  for (int i = 0; i < TIMES && a->missing; i++) {
    for (uint32_t r = 0; r < a->comm->size; r++)
      if (!a->received[r]) send_to(a, r);
    until += by_clock_from_seconds(by_limit_min_slot);
    listen_until(a, until);
  }
}

/* Notifies all ranks of the ports and nonces of the others. */
static enum banyan_status meet(struct around *a, int family) {
  struct slot own = {.port = (uint32_t)port_of(a->fd), .family = (uint32_t)family};
  if (getrandom(&own.nonce, sizeof own.nonce, 0) != sizeof own.nonce) own.port = 0;
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = BANYAN_UINT8, .send = &own, .recv = a->slots, .count = sizeof own};
  return banyan_run(a->comm, &call);
}

enum banyan_status by_measure_direct(struct banyan_comm *comm, uint8_t *direct) {
  uint32_t n = comm->size;
  const struct by_address *first = by_member_address(member_of(comm, comm->rank), AF_INET);
  int family = first ? AF_INET : AF_INET6;
  struct around a = {.comm = comm, .slots = calloc(n, sizeof *a.slots), .received = calloc(n, 1), .missing = n - 1};
  struct banyan_call call = {
      .collective = BANYAN_GATHER, .dtype = BANYAN_UINT8, .send = a.received, .recv = direct, .count = n};
  a.fd = open_socket(family);
  enum banyan_status status =
      a.slots && a.received ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for looking around");
  if (status == BANYAN_OK) {
    a.received[comm->rank] = 1;
    status = meet(&a, family);
  }
  if (status == BANYAN_OK) {
    look_around(&a);
    by_debug("measure", "%u of %u other hosts are reached without a hop", n - 1 - a.missing, n - 1);
    status = banyan_run(comm, &call);
  }
  if (a.fd >= 0) close(a.fd);
  free(a.slots);
  free(a.received);
  return status;
}

enum { FEW_ROUNDS = 4, FEW = 8 };

struct wire {
  uint32_t a, b;
  struct by_link_tries tries; /* Direction 0 is from a to b. */
};

struct wires {
  uint32_t n;
  struct wire *all;
  struct by_probe_flow *probes; /* The 2 n probes of a round. */
};

/* ---- which links there are */

static bool is_link(const struct by_measurement *m, uint32_t a, uint32_t b) {
  return m->direct[(size_t)a * m->n + b] && m->direct[(size_t)b * m->n + a];
}

static uint32_t count_links(const struct by_measurement *m) {
  uint32_t links = 0;
  for (uint32_t a = 0; a < m->n; a++)
    for (uint32_t b = a + 1; b < m->n; b++) links += is_link(m, a, b);
  return links;
}

/* Returns whether all hosts can be reached over links; `seen` has capacity for n. */
static bool are_joined(const struct by_measurement *m, uint32_t *seen) {
  uint32_t n = 1;
  seen[0] = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t v = 0; v < m->n; v++) {
      bool known = false;
      for (uint32_t k = 0; k < n && !known; k++) known = seen[k] == v;
      if (!known && is_link(m, seen[i], v)) seen[n++] = v;
    }
  return n == m->n;
}

/* Returns the number of links; 0: the hosts are not wired to each other, or it is not known. */
static uint32_t find_links(const struct by_measurement *m) {
  uint32_t links = count_links(m), *seen = malloc(m->n * sizeof *seen);
  bool few = links < m->n * (m->n - 1) / 2 && links <= BY_MEASURE_LINKS_PER_HOST * m->n;
  bool found = seen && few && are_joined(m, seen);
  free(seen);
  return found ? links : 0;
}

bool by_measure_is_wired(const struct by_measurement *m) {
  return find_links(m) > 0;
}

static enum banyan_status wires_init(struct wires *w, const struct by_measurement *m) {
  uint32_t n = find_links(m);
  *w = (struct wires){.all = calloc(n + 1, sizeof *w->all), .probes = calloc(2 * (size_t)n + 1, sizeof *w->probes)};
  if (!w->all || !w->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u links", n);
  for (uint32_t a = 0; a < m->n; a++)
    for (uint32_t b = a + 1; b < m->n; b++)
      if (is_link(m, a, b)) w->all[w->n++] = (struct wire){.a = a, .b = b};
  return BANYAN_OK;
}

static void wires_fini(struct wires *w) {
  free(w->all);
  free(w->probes);
}

/* ---- rounds */

static uint32_t count_open(const struct wires *w) {
  uint32_t open = 0;
  for (uint32_t i = 0; i < w->n; i++) open += by_link_tries_open(&w->all[i].tries);
  return open;
}

static bool lacks_any(const struct wires *w) {
  bool lacks = false;
  for (uint32_t i = 0; i < w->n; i++) lacks |= by_link_tries_lack(&w->all[i].tries);
  return lacks;
}

/* Measures all links that are open, first in one direction, then in the other. */
static enum banyan_status run_round(struct by_measurement *m, struct wires *w) {
  uint32_t n = 0;
  for (int direction = 0; direction < 2; direction++)
    for (uint32_t i = 0; i < w->n; i++) {
      const struct wire *wire = &w->all[i];
      if (!by_link_tries_open(&wire->tries)) continue;
      w->probes[n++] = (struct by_probe_flow){.round = (uint32_t)direction,
                                              .from = direction ? wire->b : wire->a,
                                              .to = direction ? wire->a : wire->b,
                                              .delay = m->pairs.delay[(size_t)wire->a * m->n + wire->b]};
    }
  BY_TRY(by_measure_lead_probes(m, w->probes, n, true));
  for (uint32_t i = 0, k = 0; i < w->n; i++) {
    struct wire *wire = &w->all[i];
    if (!by_link_tries_open(&wire->tries)) continue;
    by_link_tries_add(&wire->tries, w->probes[k].rate, w->probes[n / 2 + k].rate);
    k++;
  }
  return BANYAN_OK;
}

/* Returns whether another round that takes so long is worth it, and there is time. Long round trips leave time for one
 * round. A few open links do not delay the job, which finds out more about them while it runs. */
static bool goes_on(const struct by_measurement *m, const struct wires *w, int round, double takes) {
  uint32_t open = count_open(w);
  if (!open || round == BY_LINK_TRIES) return false;
  by_debug("measure", "%u of %u links are open", open, w->n);
  if (!by_measure_is_quick(m) || round == 0 || (round < BY_LINK_MIN && !m->far)) return true;
  if (round < BY_LINK_MIN_UNEQUAL && lacks_any(w)) return true;
  return by_seconds_since(m->start) + takes <= m->options.seconds && (round < FEW_ROUNDS || open > w->n / FEW);
}

static enum banyan_status run_rounds(struct by_measurement *m, struct wires *w) {
  double takes = 0;
  for (size_t pair = 0; m->far && pair < (size_t)m->n * m->n; pair++) m->pairs.rate[pair] = by_limit_likely_rate;
  for (int i = 0; goes_on(m, w, i, takes); i++) {
    double begun = by_seconds_since(m->start);
    BY_TRY(run_round(m, w));
    takes = by_seconds_since(m->start) - begun;
  }
  return BANYAN_OK;
}

/* ---- what becomes of it */

static enum banyan_status infer(const struct by_measurement *m, const struct wires *w, struct by_topology **out) {
  struct by_survey_link *found = calloc(w->n + 1, sizeof *found);
  if (!found) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measured links");
  for (uint32_t i = 0; i < w->n; i++) {
    const struct wire *wire = &w->all[i];
    bool agreed;
    found[i] = (struct by_survey_link){.a = wire->a,
                                       .b = wire->b,
                                       .there = by_link_tries_rate(&wire->tries, 0, &agreed),
                                       .back = by_link_tries_rate(&wire->tries, 1, &agreed),
                                       .delay = m->pairs.delay[(size_t)wire->a * m->n + wire->b]};
  }
  enum banyan_status status = by_survey_infer_links(m->n, found, w->n, "measured", m->names, out);
  free(found);
  for (uint32_t i = 0; status == BANYAN_OK && i < w->n; i++)
    (*out)->links[i].rough = by_link_tries_open(&w->all[i].tries);
  return status;
}

/* Makes probes of the same flows, with the rates that were found. */
static enum banyan_status choose_probes(const struct by_measurement *m, const struct wires *w,
                                        struct by_measured *out) {
  out->probes = calloc(2 * (size_t)w->n + 1, sizeof *out->probes);
  if (!out->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for probes of a network");
  for (uint32_t direction = 0; direction < 2; direction++)
    for (uint32_t i = 0; i < w->n; i++) {
      const struct wire *wire = &w->all[i];
      bool agreed;
      by_measure_add_probe(m, out, direction, direction ? wire->b : wire->a, direction ? wire->a : wire->b);
      out->probes[out->n_probes - 1].rate = by_link_tries_rate(&wire->tries, (int)direction, &agreed);
    }
  return BANYAN_OK;
}

enum banyan_status by_measure_links(struct by_measurement *m, struct by_measured *out) {
  struct wires w;
  enum banyan_status status = wires_init(&w, m);
  by_measure_report(m, "hosts that are wired to each other, all links at once");
  if (status == BANYAN_OK) status = run_rounds(m, &w);
  if (status == BANYAN_OK) status = infer(m, &w, &out->topology);
  if (status == BANYAN_OK) status = choose_probes(m, &w, out);
  if (status == BANYAN_OK && count_open(&w))
    by_info("measure", "%u of %u links are measured roughly: no two tries agree", count_open(&w), w.n);
  wires_fini(&w);
  return status;
}
