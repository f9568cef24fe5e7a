#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "log.h"
#include "reduce.h"
#include "server_parts.h"
#include "sum_key.h"

/* The sum of one epoch of a slot. */
struct sum {
  /* One word for each group, with a bit for each worker: */
  uint64_t *workers; /* whose terms are in */
  uint64_t *asked;   /* workers that have asked for the result */
  uint64_t *replied; /* workers whose terms are in sums that one of them knows to be lost */
  uint64_t *callers; /* workers that have made its call, as is known by the job's secret */
  uint64_t *others;  /* workers that have made another one, `call` */
  uint32_t call;
  uint32_t parts; /* the list of them, until it is complete */
  uint8_t flags;  /* the sticky ones */
  uint64_t order; /* among all that was sent to all, once it is complete */
  bool begun;     /* its call is in its packet, and as soon as a term is in, what else all must have in common */
  bool unmerged;  /* some terms have come past switches, whose cells may then never fill */
  uint8_t again;  /* times that it was multicast once more */
  bool trial;
  bool troubled; /* a term that switches can add was sent past them, and not because the server requested it */
  bool past;     /* they were */
  bool resends_past;
};

/* Two sums: of `epoch`, and of the one before. */
struct slot {
  uint32_t epoch;
  bool done;              /* the one of `epoch` */
  uint8_t nacks;          /* how often terms of `invalid_epoch` were asked for unmerged; 0: never */
  uint32_t invalid_epoch; /* the epoch of which a sum of several terms came with a wrong check */
  struct sum sum[2];
};

/* A worker whose probes tell that multicasts do not arrive gets its own results, DEAF times JUDGED. One of JUDGED is a
 * trial, which is multicast only: so it shows whether multicasts arrive again. */
enum { JUDGED = 32, DEAF = 8 };

/* When there have been more results than slots whose terms had to be asked for past switches, three for each other one,
 * switches are no help: the next PAST results request workers not to wait for that, but to send what follows in these
 * slots past them at once. Twice as many the next time, up to PAST_MOST, if that is not much later. */
enum { PAST = 512, PAST_MOST = 1 << 15, UNTROUBLED = 3 };

enum { COMPLETE = 2 }; /* cells in a probe's records */

/* Multicasts of a result beside the first: where each of two workers lacks it, the second one's helps the first, too.
 */
enum { MULTICASTS_AGAIN = 2 };

/* A worker asks for a result for the first time, not knowing whether there is one. */
enum { FIRST_ASK = BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED | BY_FRAGMENT_AGGREGATED };

/* How often terms of one epoch of a slot are asked for because a sum of them was wrong. */
enum { NACKS = 3 };

struct worker {
  struct by_server_way way;
  unsigned asked; /* for how many results after a second multicast, since the last judgement and the last one in time */
  unsigned deaf;  /* for so many judgements more; 0: it is not */
  unsigned missed; /* trials, since it is deaf */
  bool straight;   /* its terms come without a stack, so that is how results reach it */
};

struct by_server {
  struct by_server_config config;
  struct by_sum_key key, open; /* of results and terms; of terms in exact mode */
  struct by_server_counters counters;
  struct by_worker_set all;
  struct worker *workers;
  struct by_worker_set *sets; /* the configuration's */
  uint64_t *bits;             /* of all sums */
  unsigned trouble;           /* with switches */
  unsigned past;              /* results more that request workers to send past them */
  unsigned past_next;         /* so many the next time */
  uint64_t past_ended;        /* with that result */
  uint64_t order;             /* of what was sent to all last */
  struct slot *slots;
  unsigned char *single;  /* room for a packet */
  unsigned char *packets; /* of results: one a slot for even epochs, then as many for odd ones */
  size_t stride;
  struct by_parts parts;
};

static struct sum *sum_of(struct slot *slot, uint32_t epoch) {
  return &slot->sum[epoch & 1];
}

/* --- sets of workers, one word for each group --- */

enum { SETS = 5 }; /* of a sum */

static bool is_empty(const struct by_server *s, const uint64_t *set) {
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    if (set[g]) return false;
  return true;
}

static bool has_all(const struct by_server *s, const uint64_t *set) {
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    if (set[g] != by_set_part(&s->config.groups, s->all, g)) return false;
  return true;
}

static void unite(const struct by_server *s, uint64_t *set, struct by_worker_set with) {
  for (uint32_t g = 0; g < s->config.groups.n; g++) set[g] |= by_set_part(&s->config.groups, with, g);
}

static bool has(const struct by_server *s, const uint64_t *set, uint32_t worker) {
  uint32_t g = by_group_of(&s->config.groups, worker);
  return set[g] >> (worker - s->config.groups.first[g]) & 1;
}

/* Groups of which the set has any worker, in trees of several. */
static uint64_t groups_of(const struct by_server *s, const uint64_t *set) {
  uint64_t groups = 0;
  for (uint32_t g = 0; g < s->config.groups.n && s->config.groups.n > 1; g++) groups |= (uint64_t)(set[g] != 0) << g;
  return groups;
}

static bool is_of_all(const struct by_server *s, const struct by_fragment *packet) {
  return packet->workers == s->all.workers && packet->group == s->all.group;
}

static uint32_t worker_of(const struct by_server *s, const struct by_fragment *packet) {
  return by_worker_number(&s->config.groups, by_set_of_packet(packet), packet->rank);
}

static struct by_fragment *packet_of(const struct by_server *s, uint32_t slot, uint32_t epoch) {
  return (struct by_fragment *)(void *)(s->packets + ((epoch & 1) * (size_t)s->config.slots + slot) * s->stride);
}

static struct sum empty_sum(const struct by_server *s, uint64_t *bits) {
  size_t words = s->config.groups.n;
  memset(bits, 0, SETS * words * sizeof *bits);
  return (struct sum){.workers = bits,
                      .asked = bits + words,
                      .callers = bits + 2 * words,
                      .others = bits + 3 * words,
                      .replied = bits + 4 * words,
                      .parts = BY_NO_PART};
}

enum banyan_status by_server_create(const struct by_server_config *config, struct by_server **out) {
  const struct by_server_config *c = config;
  if (!by_groups_are_valid(&c->groups) || c->slots < 1 || c->slots > UINT16_MAX || c->lines < 1 ||
      c->lines > BY_FRAGMENT_LINES)
    return by_fail(
        BANYAN_ERR_ARGUMENT, "a server of %u groups, %u slots of %u lines: give 1 to %d of up to %d workers, %d and %d",
        c->groups.n, c->slots, c->lines, BY_FRAGMENT_GROUPS, BY_FRAGMENT_WORKERS, UINT16_MAX, BY_FRAGMENT_LINES);
  uint32_t workers = by_workers_of(&c->groups);
  size_t words = c->groups.n, sets = c->n_sets * sizeof *c->sets;
  struct by_server *s = calloc(1, sizeof *s);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  s->config = *c;
  s->all = by_set_of_all(&c->groups);
  s->stride = (1 + (size_t)c->lines) * BY_FRAGMENT_LINE;
  s->workers = calloc(workers, sizeof *s->workers);
  s->sets = malloc(sets + 1);
  s->slots = calloc(c->slots, sizeof *s->slots);
  s->bits = calloc(2 * SETS * c->slots * words, sizeof *s->bits);
  s->single = aligned_alloc(BY_FRAGMENT_LINE, s->stride);
  s->packets = aligned_alloc(BY_FRAGMENT_LINE, 2 * c->slots * s->stride);
  bool parts = by_parts_init(&s->parts, &s->config.groups, c->parts ? c->parts : c->slots * workers,
                             s->stride - BY_FRAGMENT_LINE);
  enum banyan_status status = BANYAN_OK;
  if (!s->workers || !s->bits || !s->sets || !s->slots || !s->single || !s->packets || !parts)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server of %u slots", c->slots);
  else
    status = by_sum_key_init(&s->key, c->secret, c->secret_bytes, &c->groups, !c->exact);
  if (status == BANYAN_OK && c->exact) status = by_sum_key_init_open(&s->open);
  if (status) {
    by_server_destroy(s);
    return status;
  }
  for (uint32_t w = 0; w < workers; w++) s->workers[w] = (struct worker){.way = c->ways[w]};
  for (unsigned i = 0; i < c->slots; i++) {
    s->slots[i] = (struct slot){.epoch = UINT32_MAX, .done = true};
    for (unsigned k = 0; k < 2; k++) s->slots[i].sum[k] = empty_sum(s, s->bits + (2 * i + k) * SETS * words);
  }
  if (sets) memcpy(s->sets, c->sets, sets);
  *out = s;
  return BANYAN_OK;
}

void by_server_destroy(struct by_server *s) {
  if (!s) return;
  by_parts_fini(&s->parts);
  free(s->workers);
  free(s->bits);
  free(s->sets);
  free(s->slots);
  free(s->single);
  free(s->packets);
  free(s);
}

/* --- packets out --- */

/* A copy: the result itself may still be on its way to all. */
static void send_result(struct by_server *s, const struct by_fragment *result, unsigned to) {
  const struct worker *worker = &s->workers[to];
  struct by_fragment *packet = memcpy(s->single, result, by_fragment_bytes(result));
  packet->type = BY_FRAGMENT_RESULT;
  packet->rank = (uint8_t)(result->group == BY_FRAGMENT_UNITED ? by_group_of(&s->config.groups, to) : to);
  packet->hops = (worker->straight ? 0 : worker->way.hops) & 15;
  memcpy(packet->stack, worker->way.stack, sizeof packet->stack);
  by_fragment_seal(packet);
  s->config.emit(s->config.context, packet, (int)to);
}

static void send_multicast(struct by_server *s, struct by_fragment *result) {
  result->type = BY_FRAGMENT_RESULT_MC;
  result->rank = 0;
  result->hop = result->hops = 0;
  by_fragment_seal(result);
  s->config.emit(s->config.context, result, BY_SERVER_ALL);
}

static bool may_receive(const struct by_server *s, unsigned worker) {
  return s->config.multicast && !s->workers[worker].way.alone;
}

static bool receives_multicasts(const struct by_server *s, unsigned worker) {
  return may_receive(s, worker) && !s->workers[worker].deaf;
}

/* To each worker that multicasts do not reach, and to all others at once. A trial goes to the deaf as well, but not to
 * them alone. */
static void send_to_all(struct by_server *s, struct by_fragment *result, bool trial) {
  bool multicast = false;
  for (unsigned w = 0; w < by_workers_of(&s->config.groups); w++) {
    if (receives_multicasts(s, w) || (trial && may_receive(s, w)))
      multicast = true;
    else
      send_result(s, result, w);
  }
  if (multicast) send_multicast(s, result);
}

static void judge(struct by_server *s) {
  for (unsigned w = 0; w < by_workers_of(&s->config.groups); w++) {
    struct worker *worker = &s->workers[w];
    if (!worker->deaf || --worker->deaf) continue;
    if (worker->missed >= DEAF / 2) worker->deaf = DEAF;
    worker->missed = 0;
  }
}

/* About the fragment in `packet`, to worker `to`. */
static struct by_fragment answer(const struct by_server *s, const struct by_fragment *packet,
                                 enum by_fragment_type type, unsigned to) {
  struct by_worker_set set = by_set_of_worker(&s->config.groups, to);
  struct by_fragment head;
  by_fragment_begin(&head, type, (uint8_t)__builtin_ctzll(set.workers));
  head.group = set.group;
  head.job = packet->job;
  head.key = packet->key;
  head.slot = packet->slot;
  head.epoch = packet->epoch;
  head.call = packet->call;
  return head;
}

static void send_nack(struct by_server *s, const struct by_fragment *about, unsigned to, uint32_t call,
                      struct by_worker_set others) {
  struct by_fragment nack = answer(s, about, BY_FRAGMENT_NACK, to);
  nack.call = call;
  if (others.workers) {
    nack.rank = (uint8_t)__builtin_ctzll(others.workers);
    nack.group = others.group;
    nack.workers = others.workers;
  } else {
    nack.flags = BY_FRAGMENT_ESCALATE;
  }
  nack.check = by_sum_header_check(&s->key, &nack);
  by_fragment_seal(&nack);
  s->config.emit(s->config.context, &nack, (int)to);
}

/* Notifies workers that `others` have made call `call`, of which those of one group are named; without others, requests
 * their terms, past switches. */
static void send_nacks(struct by_server *s, const struct by_fragment *about, const uint64_t *to, uint32_t call,
                       const uint64_t *others) {
  struct by_worker_set named = {0};
  for (uint32_t g = 0; others && g < s->config.groups.n && !named.workers; g++)
    named = (struct by_worker_set){others[g], (uint8_t)g};
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    for (uint64_t left = to[g]; left; left &= left - 1)
      send_nack(s, about, s->config.groups.first[g] + (uint32_t)__builtin_ctzll(left), call, named);
}

/* --- a sum is complete --- */

/* Of `bytes` of numbers. */
static enum banyan_dtype dtype_of(const struct by_fragment *packet, size_t bytes, size_t *count) {
  switch (packet->dtype) {
  case BY_FRAGMENT_PAIRS: *count = bytes / 8; return BANYAN_INT64;
  case BY_FRAGMENT_INT32: *count = bytes / 4; return BANYAN_INT32;
  case BY_FRAGMENT_FLOAT16: *count = bytes / 2; return BANYAN_FLOAT16;
  case BY_FRAGMENT_BFLOAT16: *count = bytes / 2; return BANYAN_BFLOAT16;
  default: *count = bytes / 4; return BANYAN_FLOAT32;
  }
}

/* Whether workers are to send the slot's next terms past switches. The sum before this one has requested this one's.
 */
static bool resend_past(struct by_server *s, const struct sum *sum) {
  if (!sum->past) s->trouble = sum->troubled ? s->trouble + 1 : s->trouble > UNTROUBLED ? s->trouble - UNTROUBLED : 0;
  if (s->trouble > s->config.slots) {
    bool soon = s->past_next && s->counters.results - s->past_ended < 4 * (uint64_t)s->past_next;
    s->past_next = !soon ? PAST : s->past_next < PAST_MOST ? 2 * s->past_next : PAST_MOST;
    s->past = s->past_next;
    s->past_ended = s->counters.results + s->past;
    s->trouble = 0;
    by_info("innetwork", "tree %u: switches do not help; the next %u terms go past them", s->config.job, s->past);
  }
  if (!s->past) return false;
  s->past--;
  return true;
}

/* In exact mode what switches would have added, had it come to them, is added first, as they do. */
static void add_up(struct by_server *s, struct sum *sum, struct by_fragment *result) {
  const void *sources[BY_TREE_WORKERS], *exponents[BY_TREE_WORKERS];
  size_t n = 0, count, bytes = by_sum_number_bytes(&s->key, result);
  enum banyan_dtype dtype = dtype_of(result, bytes, &count);
  result->check = 0;
  for (unsigned i = 0; s->config.exact && i < s->config.n_sets; i++)
    by_parts_fold(&s->parts, &sum->parts, s->sets[i], dtype, count);
  for (uint32_t i = sum->parts; i != BY_NO_PART; i = s->parts.parts[i].next) {
    sources[n] = by_parts_payload(&s->parts, i);
    exponents[n] = (const unsigned char *)sources[n] + bytes;
    n++;
    result->check += s->parts.parts[i].check;
  }
  if (count) by_kernel_reduce(dtype, BANYAN_SUM)(result + 1, sources, n, count);
  if (s->key.words)
    by_kernel_reduce(BANYAN_INT64, BANYAN_SUM)((char *)(result + 1) + bytes, exponents, n, s->key.words);
}

/* `last` has made the sum complete; where switches have added everything, it is the sum. Of pairs the check is the sum
 * of the parts'; of others it is made anew. */
static void fold(struct by_server *s, struct sum *sum, struct by_fragment *result, const struct by_fragment *last) {
  if (is_of_all(s, last)) {
    memcpy(result + 1, last + 1, (size_t)last->lines * BY_FRAGMENT_LINE);
    result->check = last->check;
  } else {
    add_up(s, sum, result);
  }
  if (result->dtype != BY_FRAGMENT_PAIRS) result->check = by_sum_check(&s->key, result, s->all.workers);
}

static void finish(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                   const struct by_fragment *last) {
  fold(s, sum, result, last);
  by_parts_clear(&s->parts, &sum->parts);
  slot->done = true;
  result->workers = s->all.workers;
  sum->resends_past = resend_past(s, sum);
  result->flags = (uint8_t)(sum->flags | (sum->resends_past ? BY_FRAGMENT_ESCALATE : 0));
  s->counters.last[worker_of(s, last)]++;
  sum->order = ++s->order;
  s->counters.results++;
  sum->trial = s->counters.results % JUDGED == 0;
  if (sum->trial) judge(s);
  send_to_all(s, result, sum->trial);
}

/* --- terms --- */

static void begin(const struct by_server *s, struct slot *slot, struct by_fragment *result,
                  const struct by_fragment *packet) {
  slot->epoch = packet->epoch;
  slot->done = false;
  struct sum *sum = sum_of(slot, packet->epoch);
  *sum = empty_sum(s, sum->workers);
  sum->begun = true;
  sum->past = sum_of(slot, packet->epoch - 1)->resends_past;
  *result = answer(s, packet, BY_FRAGMENT_RESULT, 0);
  result->group = s->all.group;
}

/* Workers make different calls: all of them are notified which ones do. True: it is so, or the packet says so without
 * proof. `authenticated`: it was made with the job's secret. */
static bool is_mismatch(struct by_server *s, struct sum *sum, struct by_fragment *result,
                        const struct by_fragment *packet, bool authenticated) {
  bool same = packet->call == result->call;
  if (same && authenticated) unite(s, sum->callers, by_set_of_packet(packet));
  if (same && is_empty(s, sum->others)) return false;
  uint64_t senders[BY_FRAGMENT_GROUPS] = {0};
  unite(s, senders, by_set_of_packet(packet));
  if (same) {
    send_nacks(s, packet, senders, sum->call, sum->others);
    return true;
  }
  if (!authenticated) {
    s->counters.failed_checks++;
    return true;
  }
  if (is_empty(s, sum->callers)) { /* nobody has vouched for the call that this sum was begun for */
    by_parts_clear(&s->parts, &sum->parts);
    memset(sum->workers, 0, s->config.groups.n * sizeof *sum->workers);
    unite(s, sum->callers, by_set_of_packet(packet));
    result->call = packet->call;
    return false;
  }
  s->counters.mismatches++;
  sum->call = packet->call;
  unite(s, sum->others, by_set_of_packet(packet));
  send_nacks(s, packet, senders, result->call, sum->callers);
  send_nacks(s, packet, sum->callers, packet->call, senders);
  return true;
}

static bool is_single(const struct by_server *s, const struct by_fragment *packet) {
  return by_set_count(&s->config.groups, by_set_of_packet(packet)) == 1;
}

/* Whether the packet is what it claims. Nothing is taken from one that is not. */
static bool is_valid(const struct by_server *s, const struct by_fragment *packet) {
  if (!by_set_is_within(&s->config.groups, by_set_of_packet(packet))) return false;
  if (packet->type == BY_FRAGMENT_PROBE) return packet->check == by_sum_header_check(&s->key, packet);
  if (packet->dtype != BY_FRAGMENT_PAIRS && !s->config.exact && !is_single(s, packet)) return false;
  return packet->check == by_sum_check(s->config.exact ? &s->open : &s->key, packet, packet->workers);
}

/* A packet failed its check. If it is a sum, one of its terms was changed or forged, maybe in a cell that will not
 * return the others: those that are missing here are requested at once, unmerged. A few times for each epoch of a slot,
 * so that forged sums cause little traffic; beyond that workers' time-outs recover them. */
static void take_invalid(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  const struct sum *sum = sum_of(slot, packet->epoch);
  struct by_worker_set set = by_set_of_packet(packet);
  bool begun = slot->epoch == packet->epoch && sum->begun;
  uint64_t lacking[BY_FRAGMENT_GROUPS] = {0};
  s->counters.failed_checks++;
  if (packet->type != BY_FRAGMENT_UP || !by_set_is_within(&s->config.groups, set) || is_single(s, packet)) return;
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    lacking[g] = by_set_part(&s->config.groups, set, g) & ~(begun ? sum->workers[g] : 0);
  if (is_empty(s, lacking)) return;
  if (slot->invalid_epoch != packet->epoch) slot->nacks = 0;
  slot->invalid_epoch = packet->epoch;
  if (slot->nacks == NACKS) return;
  slot->nacks++;
  by_debug("innetwork", "tree %u: a sum in slot %u epoch %u has a wrong check; asking for its terms unmerged",
           packet->job, packet->slot, packet->epoch);
  send_nacks(s, packet, lacking, packet->call, NULL);
}

static void add(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                const struct by_fragment *packet) {
  if (packet->flags & BY_FRAGMENT_UNMERGED) sum->unmerged = true;
  enum by_parts_added added = BY_PARTS_NEW;
  if (is_of_all(s, packet)) /* it takes the place of all parts, and is added up before anything else comes */
    by_parts_clear(&s->parts, &sum->parts);
  else
    added = by_parts_add(&s->parts, &sum->parts, by_set_of_packet(packet), packet);
  switch (added) {
  case BY_PARTS_NEW: break;
  case BY_PARTS_DUPLICATE: s->counters.duplicates++; return;
  case BY_PARTS_OVERLAPPING:
    s->counters.overlapping++;
    sum->unmerged = true;
    return;
  default: s->counters.no_room++; return;
  }
  s->counters.terms++;
  if (!is_single(s, packet)) s->counters.merged++;
  if (packet->flags & BY_FRAGMENT_UNMERGED) s->counters.unmerged++;
  if (packet->flags & BY_FRAGMENT_ESCALATE && packet->dtype == BY_FRAGMENT_PAIRS) sum->troubled = true;
  unite(s, sum->workers, by_set_of_packet(packet));
  sum->flags |= packet->flags & BY_FRAGMENT_STICKY;
  if (has_all(s, sum->workers)) finish(s, slot, sum, result, packet);
}

static void take_term(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin(s, slot, result, packet);
  if (is_mismatch(s, sum, result, packet, !s->config.exact)) return;
  if (is_empty(s, sum->workers)) { /* the first term that is kept determines what all must have in common */
    result->dtype = packet->dtype;
    result->lines = packet->lines;
    result->exponent = packet->exponent;
  }
  if (packet->dtype == result->dtype && packet->lines == result->lines && packet->exponent == result->exponent)
    add(s, slot, sum, result, packet);
  else
    s->counters.failed_checks++;
}

/* --- probes, and what is asked for again --- */

/* `workers`: whose terms the server has, NULL: nobody's. The worker is notified of those of its group; if they are all,
 * of that. */
static void reply(struct by_server *s, const struct by_fragment *packet, const uint64_t *workers, uint8_t flags) {
  unsigned to = worker_of(s, packet);
  struct {
    struct by_fragment head;
    struct by_probe_payload payload;
  } probe = {.head = answer(s, packet, BY_FRAGMENT_PROBE_REPLY, to)};
  s->counters.probes++;
  probe.head.lines = packet->lines;
  memcpy(&probe.payload, packet + 1, (size_t)packet->lines * BY_FRAGMENT_LINE);
  probe.payload.groups = workers ? groups_of(s, workers) : 0;
  probe.head.workers = workers ? workers[by_group_of(&s->config.groups, to)] : 0;
  if (packet->group == BY_FRAGMENT_UNITED) probe.head.workers = probe.head.workers ? packet->workers : 0;
  if (workers && has_all(s, workers)) {
    probe.head.group = s->all.group;
    probe.head.workers = s->all.workers;
  }
  probe.head.flags = flags;
  probe.head.check = by_sum_header_check(&s->key, &probe.head);
  by_fragment_seal(&probe.head);
  s->config.emit(s->config.context, &probe.head, (int)to);
}

static bool asks(const struct by_fragment *packet) {
  return packet->flags & (BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED);
}

/* A probe passed a cell with the whole sum of its workers: these workers, whose sum was lost further up. If one of them
 * sends its term again, the cell sends the sum again. */
static void note_replied(const struct by_server *s, uint64_t *replied, const struct by_fragment *probe) {
  const struct by_probe *r = ((const struct by_probe_payload *)(const void *)(probe + 1))->records;
  for (unsigned i = 0; i < by_probe_records(probe->lines); i++) {
    struct by_worker_set in = {r[i].workers, r[i].group};
    if (!r[i].granted || r[i].epoch != probe->epoch || r[i].state != COMPLETE) continue;
    if (!by_set_is_within(&s->config.groups, in)) continue;
    uint32_t mine = in.group == probe->group ? probe->rank : probe->group;
    bool fits = in.group == probe->group || in.group == BY_FRAGMENT_UNITED;
    if (fits && in.workers >> (mine & 63) & 1) unite(s, replied, in);
  }
}

/* A worker that only asks for the result, and whose term is here, need not be notified that others are late. */
static void take_probe(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin(s, slot, result, packet);
  if (is_mismatch(s, sum, result, packet, true)) return;
  if (asks(packet) && has(s, sum->workers, worker_of(s, packet))) return;
  if ((packet->flags & FIRST_ASK) == BY_FRAGMENT_RETX) {
    if (has(s, sum->replied, worker_of(s, packet))) return;
    note_replied(s, sum->replied, packet);
  }
  bool past = sum->unmerged || (slot->nacks && slot->invalid_epoch == packet->epoch);
  reply(s, packet, sum->workers, past ? BY_FRAGMENT_ESCALATE : 0);
}

/* A worker lacks the result. The first requests are fulfilled for all, since others may lack it too; after that each
 * worker gets its own. */
static void send_again(struct by_server *s, struct sum *sum, struct by_fragment *result,
                       const struct by_fragment *probe) {
  unsigned to = worker_of(s, probe);
  struct worker *worker = &s->workers[to];
  worker->missed += worker->deaf && sum->trial && !has(s, sum->asked, to);
  unite(s, sum->asked, by_set_of_packet(probe));
  s->counters.repeated++;
  if (sum->again == MULTICASTS_AGAIN || !receives_multicasts(s, to)) {
    send_result(s, result, to);
  } else {
    sum->again++;
    sum->order = ++s->order;
    send_multicast(s, result);
  }
}

/* Whether the result is on its way to a worker that has seen the one of fragment `number`, sent before. */
static bool is_coming(struct by_server *s, const struct sum *sum, uint64_t number) {
  struct slot *slot = &s->slots[number % s->config.slots];
  uint32_t epoch = (uint32_t)(number / s->config.slots);
  int32_t after = by_epoch_distance(epoch, slot->epoch);
  if (after > 0 || after < -1 || (after == 0 && !slot->done)) return false;
  return sum_of(slot, epoch)->order < sum->order;
}

/* A finished sum was asked for again, or a packet is late. A mere probe may have met the result on its way, and so may
 * a term that was sent again: when the sum of some was lost they all do so, and the first is enough. */
static void repeat(struct by_server *s, const struct by_fragment *packet, struct by_fragment *result) {
  struct sum *sum = sum_of(&s->slots[packet->slot], packet->epoch);
  if (packet->type != BY_FRAGMENT_PROBE) {
    s->counters.duplicates++;
    return;
  }
  uint64_t newest = ((const struct by_probe_payload *)(const void *)(packet + 1))->newest;
  bool quiet = newest & BY_PROBE_QUIET;
  newest &= ~(BY_PROBE_QUIET | BY_PROBE_DEAF);
  if (asks(packet) && (quiet || !newest || !is_coming(s, sum, newest - 1)))
    send_again(s, sum, result, packet);
  else if (!asks(packet))
    reply(s, packet, sum->workers, 0);
}

static void note_deaf(struct by_server *s, unsigned rank) {
  struct worker *worker = &s->workers[rank];
  if (worker->deaf || !may_receive(s, rank)) return;
  by_info("innetwork", "worker %u of tree %u: multicasts do not arrive; it gets its own results", rank, s->config.job);
  worker->deaf = DEAF;
  worker->missed = 0;
}

/* --- packets in --- */

/* What is over is not verified: nothing is done about a late term. No worker can be where neither is true. */
static void take_ours(struct by_server *s, const struct by_fragment *packet) {
  struct slot *slot = &s->slots[packet->slot];
  int32_t after = by_epoch_distance(packet->epoch, slot->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  bool over = after == -1 || (after == 0 && slot->done);
  bool known = sum_of(slot, packet->epoch)->begun && result->call == packet->call;
  if (over ? !known : after < 0 || after > 1 || (after == 1 && !slot->done)) {
    s->counters.foreign++;
    return;
  }
  bool probe = packet->type == BY_FRAGMENT_PROBE;
  if ((!over || probe) && !is_valid(s, packet)) {
    take_invalid(s, slot, packet);
    return;
  }
  if (probe && ((const struct by_probe_payload *)(const void *)(packet + 1))->newest & BY_PROBE_DEAF)
    note_deaf(s, worker_of(s, packet));
  if ((!over || probe) && is_single(s, packet)) s->workers[worker_of(s, packet)].straight = !packet->hops;
  if (over)
    repeat(s, packet, result);
  else if (probe)
    take_probe(s, slot, packet);
  else
    take_term(s, slot, packet);
}

void by_server_take(struct by_server *s, const struct by_fragment *packet, size_t bytes) {
  if (by_fragment_check(packet, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes) != BY_FRAGMENT_SOUND) {
    s->counters.malformed++;
    return;
  }
  bool fits = packet->type == BY_FRAGMENT_PROBE || (packet->type == BY_FRAGMENT_UP && packet->lines <= s->config.lines);
  if (fits && packet->job == s->config.job && packet->key == s->config.key && packet->slot < s->config.slots)
    take_ours(s, packet);
  else
    s->counters.foreign++;
}

const struct by_server_counters *by_server_counters(const struct by_server *s) {
  return &s->counters;
}
