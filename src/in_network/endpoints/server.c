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
  uint64_t workers; /* whose terms are in */
  uint64_t asked;   /* workers that have asked for the result */
  uint64_t replied; /* workers whose terms are in sums that one of them knows to be lost */
  uint64_t callers; /* workers that have made its call, as is known by the job's secret */
  uint64_t others;  /* workers that have made another one, `call` */
  uint32_t call;
  uint32_t parts; /* the list of them, until it is complete */
  uint8_t flags;  /* the sticky ones */
  uint64_t order; /* among all that was sent to all, once it is complete */
  bool begun;     /* its call is in its packet, and as soon as a term is in, what else all must have in common */
  bool unmerged;  /* some terms have come past switches, whose cells may then never fill */
  bool again;     /* it was multicast a second time */
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
  uint64_t all;
  struct worker workers[BY_FRAGMENT_WORKERS];
  unsigned trouble;    /* with switches */
  unsigned past;       /* results more that request workers to send past them */
  unsigned past_next;  /* so many the next time */
  uint64_t past_ended; /* with that result */
  uint64_t order;      /* of what was sent to all last */
  struct slot *slots;
  unsigned char *single;  /* room for a packet */
  unsigned char *packets; /* of results: one a slot for even epochs, then as many for odd ones */
  size_t stride;
  struct by_parts parts;
};

static struct sum *sum_of(struct slot *slot, uint32_t epoch) {
  return &slot->sum[epoch & 1];
}

static struct by_fragment *packet_of(const struct by_server *s, uint32_t slot, uint32_t epoch) {
  return (struct by_fragment *)(void *)(s->packets + ((epoch & 1) * (size_t)s->config.slots + slot) * s->stride);
}

enum banyan_status by_server_create(const struct by_server_config *config, struct by_server **out) {
  const struct by_server_config *c = config;
  if (c->workers < 1 || c->workers > BY_FRAGMENT_WORKERS || c->slots < 1 || c->slots > UINT16_MAX || c->lines < 1 ||
      c->lines > BY_FRAGMENT_LINES)
    return by_fail(BANYAN_ERR_ARGUMENT, "a server of %u workers, %u slots of %u lines: give 1 to %d, %d and %d",
                   c->workers, c->slots, c->lines, BY_FRAGMENT_WORKERS, UINT16_MAX, BY_FRAGMENT_LINES);
  struct by_server *s = calloc(1, sizeof *s);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  s->config = *c;
  s->all = ~0ull >> (64 - c->workers);
  s->stride = (1 + (size_t)c->lines) * BY_FRAGMENT_LINE;
  s->slots = calloc(c->slots, sizeof *s->slots);
  s->single = aligned_alloc(BY_FRAGMENT_LINE, s->stride);
  s->packets = aligned_alloc(BY_FRAGMENT_LINE, 2 * c->slots * s->stride);
  bool parts = by_parts_init(&s->parts, c->parts ? c->parts : c->slots * c->workers, s->stride - BY_FRAGMENT_LINE);
  enum banyan_status status = BANYAN_OK;
  if (!s->slots || !s->single || !s->packets || !parts)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server of %u slots", c->slots);
  else
    status = by_sum_key_init(&s->key, c->secret, c->secret_bytes, c->exact ? 0 : c->workers);
  if (status == BANYAN_OK && c->exact) status = by_sum_key_init_open(&s->open);
  if (status) {
    by_server_destroy(s);
    return status;
  }
  for (unsigned w = 0; w < c->workers; w++) s->workers[w] = (struct worker){.way = c->ways[w]};
  for (unsigned i = 0; i < c->slots; i++)
    s->slots[i] =
        (struct slot){.epoch = UINT32_MAX, .done = true, .sum = {{.parts = BY_NO_PART}, {.parts = BY_NO_PART}}};
  *out = s;
  return BANYAN_OK;
}

void by_server_destroy(struct by_server *s) {
  if (!s) return;
  by_parts_fini(&s->parts);
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
  packet->rank = (uint8_t)to;
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
  for (unsigned w = 0; w < s->config.workers; w++) {
    if (receives_multicasts(s, w) || (trial && may_receive(s, w)))
      multicast = true;
    else
      send_result(s, result, w);
  }
  if (multicast) send_multicast(s, result);
}

static void judge(struct by_server *s) {
  for (unsigned w = 0; w < s->config.workers; w++) {
    struct worker *worker = &s->workers[w];
    if (!worker->deaf || --worker->deaf) continue;
    if (worker->missed >= DEAF / 2) worker->deaf = DEAF;
    worker->missed = 0;
  }
}

/* About the fragment in `packet`, to worker `to`. */
static struct by_fragment answer(const struct by_fragment *packet, enum by_fragment_type type, unsigned to) {
  struct by_fragment head;
  by_fragment_begin(&head, type, (uint8_t)to);
  head.job = packet->job;
  head.key = packet->key;
  head.slot = packet->slot;
  head.epoch = packet->epoch;
  head.call = packet->call;
  return head;
}

/* Notifies workers that `others` have made call `call`; without others, requests their terms, past switches. */
static void send_nacks(struct by_server *s, const struct by_fragment *about, uint64_t to, uint32_t call,
                       uint64_t others) {
  for (; to; to &= to - 1) {
    struct by_fragment nack = answer(about, BY_FRAGMENT_NACK, (unsigned)__builtin_ctzll(others ? others : to));
    nack.call = call;
    if (others)
      nack.workers = others;
    else
      nack.flags = BY_FRAGMENT_ESCALATE;
    nack.check = by_sum_header_check(&s->key, &nack);
    by_fragment_seal(&nack);
    s->config.emit(s->config.context, &nack, __builtin_ctzll(to));
  }
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
  const void *sources[BY_FRAGMENT_WORKERS], *exponents[BY_FRAGMENT_WORKERS];
  size_t n = 0, count, bytes = by_sum_number_bytes(&s->key, result);
  enum banyan_dtype dtype = dtype_of(result, bytes, &count);
  result->check = 0;
  for (unsigned i = 0; s->config.exact && i < s->config.n_sets; i++)
    by_parts_fold(&s->parts, &sum->parts, s->config.sets[i], dtype, count);
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
  if (last->workers == s->all) {
    memcpy(result + 1, last + 1, (size_t)last->lines * BY_FRAGMENT_LINE);
    result->check = last->check;
  } else {
    add_up(s, sum, result);
  }
  if (result->dtype != BY_FRAGMENT_PAIRS) result->check = by_sum_check(&s->key, result, s->all);
}

static void finish(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                   const struct by_fragment *last) {
  fold(s, sum, result, last);
  by_parts_clear(&s->parts, &sum->parts);
  slot->done = true;
  result->workers = s->all;
  sum->resends_past = resend_past(s, sum);
  result->flags = (uint8_t)(sum->flags | (sum->resends_past ? BY_FRAGMENT_ESCALATE : 0));
  s->counters.last[last->rank]++;
  sum->order = ++s->order;
  s->counters.results++;
  sum->trial = s->counters.results % JUDGED == 0;
  if (sum->trial) judge(s);
  send_to_all(s, result, sum->trial);
}

/* --- terms --- */

static void begin(struct slot *slot, struct by_fragment *result, const struct by_fragment *packet) {
  slot->epoch = packet->epoch;
  slot->done = false;
  *sum_of(slot, packet->epoch) =
      (struct sum){.parts = BY_NO_PART, .begun = true, .past = sum_of(slot, packet->epoch - 1)->resends_past};
  *result = answer(packet, BY_FRAGMENT_RESULT, 0);
}

/* Workers make different calls: all of them are notified which ones do. True: it is so, or the packet says so without
 * proof. `authenticated`: it was made with the job's secret. */
static bool is_mismatch(struct by_server *s, struct sum *sum, struct by_fragment *result,
                        const struct by_fragment *packet, bool authenticated) {
  if (packet->call == result->call) {
    if (authenticated) sum->callers |= packet->workers;
    if (sum->others) send_nacks(s, packet, packet->workers, sum->call, sum->others);
    return sum->others;
  }
  if (!authenticated) {
    s->counters.failed_checks++;
    return true;
  }
  if (!sum->callers) { /* nobody has vouched for the call that this sum was begun for */
    by_parts_clear(&s->parts, &sum->parts);
    sum->workers = 0;
    sum->callers = packet->workers;
    result->call = packet->call;
    return false;
  }
  s->counters.mismatches++;
  sum->call = packet->call;
  sum->others |= packet->workers;
  send_nacks(s, packet, packet->workers, result->call, sum->callers);
  send_nacks(s, packet, sum->callers, packet->call, packet->workers);
  return true;
}

static bool is_single(const struct by_fragment *packet) {
  return !(packet->workers & (packet->workers - 1));
}

/* Whether the packet is what it claims. Nothing is taken from one that is not. */
static bool is_valid(const struct by_server *s, const struct by_fragment *packet) {
  if (packet->workers & ~s->all) return false;
  if (packet->type == BY_FRAGMENT_PROBE) return packet->check == by_sum_header_check(&s->key, packet);
  if (packet->dtype != BY_FRAGMENT_PAIRS && !s->config.exact && !is_single(packet)) return false;
  return packet->check == by_sum_check(s->config.exact ? &s->open : &s->key, packet, packet->workers);
}

/* A packet failed its check. If it is a sum, one of its terms was changed or forged, maybe in a cell that will not
 * return the others: those that are missing here are requested at once, unmerged. A few times for each epoch of a slot,
 * so that forged sums cause little traffic; beyond that workers' time-outs recover them. */
static void take_invalid(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  const struct sum *sum = sum_of(slot, packet->epoch);
  uint64_t there = slot->epoch == packet->epoch && sum->begun ? sum->workers : 0;
  uint64_t lacking = packet->workers & s->all & ~there;
  s->counters.failed_checks++;
  if (packet->type != BY_FRAGMENT_UP || is_single(packet) || !lacking) return;
  if (slot->invalid_epoch != packet->epoch) slot->nacks = 0;
  slot->invalid_epoch = packet->epoch;
  if (slot->nacks == NACKS) return;
  slot->nacks++;
  by_debug("innetwork", "tree %u: a sum in slot %u epoch %u has a wrong check; asking for its terms unmerged",
           packet->job, packet->slot, packet->epoch);
  send_nacks(s, packet, lacking, packet->call, 0);
}

static void add(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                const struct by_fragment *packet) {
  if (packet->flags & BY_FRAGMENT_UNMERGED) sum->unmerged = true;
  enum by_parts_added added = BY_PARTS_NEW;
  if (packet->workers == s->all) /* it takes the place of all parts, and is added up before anything else comes */
    by_parts_clear(&s->parts, &sum->parts);
  else
    added = by_parts_add(&s->parts, &sum->parts, packet);
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
  if (!is_single(packet)) s->counters.merged++;
  if (packet->flags & BY_FRAGMENT_UNMERGED) s->counters.unmerged++;
  if (packet->flags & BY_FRAGMENT_ESCALATE && packet->dtype == BY_FRAGMENT_PAIRS) sum->troubled = true;
  sum->workers |= packet->workers;
  sum->flags |= packet->flags & BY_FRAGMENT_STICKY;
  if (sum->workers == s->all) finish(s, slot, sum, result, packet);
}

static void take_term(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin(slot, result, packet);
  if (is_mismatch(s, sum, result, packet, !s->config.exact)) return;
  if (!sum->workers) { /* the first term that is kept determines what all must have in common */
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

/* `workers`: whose terms the server has. */
static void reply(struct by_server *s, const struct by_fragment *packet, uint64_t workers, uint8_t flags) {
  struct {
    struct by_fragment head;
    struct by_probe_payload payload;
  } probe = {.head = answer(packet, BY_FRAGMENT_PROBE_REPLY, packet->rank)};
  s->counters.probes++;
  memcpy(&probe.payload, packet + 1, sizeof probe.payload);
  probe.head.workers = workers;
  probe.head.flags = flags;
  probe.head.check = by_sum_header_check(&s->key, &probe.head);
  by_fragment_seal(&probe.head);
  s->config.emit(s->config.context, &probe.head, packet->rank);
}

static bool asks(const struct by_fragment *packet) {
  return packet->flags & (BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED);
}

/* Of a probe that passed a cell with the whole sum of its workers: these workers, whose sum was lost further up. If one
 * of them sends its term again, the cell sends the sum again. */
static uint64_t in_complete_cells(const struct by_server *s, const struct by_fragment *probe) {
  const struct by_probe *r = (const struct by_probe *)(const void *)(probe + 1);
  uint64_t workers = 0;
  for (unsigned i = 0; i < BY_FRAGMENT_HOPS; i++)
    if (r[i].granted && r[i].epoch == probe->epoch && r[i].state == COMPLETE && r[i].workers >> probe->rank & 1)
      workers |= r[i].workers & s->all;
  return workers;
}

/* A worker that only asks for the result, and whose term is here, need not be notified that others are late. */
static void take_probe(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin(slot, result, packet);
  if (is_mismatch(s, sum, result, packet, true)) return;
  if (asks(packet) && sum->workers >> packet->rank & 1) return;
  if ((packet->flags & FIRST_ASK) == BY_FRAGMENT_RETX) {
    if (sum->replied >> packet->rank & 1) return;
    sum->replied |= in_complete_cells(s, packet);
  }
  bool past = sum->unmerged || (slot->nacks && slot->invalid_epoch == packet->epoch);
  reply(s, packet, sum->workers, past ? BY_FRAGMENT_ESCALATE : 0);
}

/* A worker lacks the result. The first request is fulfilled for all, since others may lack it too; after that each
 * worker gets its own. */
static void send_again(struct by_server *s, struct sum *sum, struct by_fragment *result,
                       const struct by_fragment *probe) {
  struct worker *worker = &s->workers[probe->rank];
  uint64_t bit = 1ull << probe->rank;
  worker->missed += worker->deaf && sum->trial && !(sum->asked & bit);
  sum->asked |= bit;
  s->counters.repeated++;
  if (sum->again || !receives_multicasts(s, probe->rank)) {
    send_result(s, result, probe->rank);
  } else {
    sum->again = true;
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
    reply(s, packet, s->all, 0);
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
    note_deaf(s, packet->rank);
  if ((!over || probe) && is_single(packet)) s->workers[packet->rank].straight = !packet->hops;
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
