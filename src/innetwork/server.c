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
  uint64_t asked;   /* who has asked for the result more than once */
  uint64_t others;  /* who has made another call, `call` */
  uint32_t call;
  uint32_t parts; /* the list of them, until it is complete */
  uint16_t flags; /* the sticky ones */
  uint64_t order; /* among results, once it is complete */
  uint8_t ahead;
  bool shaped;   /* something has come: what all must have in common is in its packet */
  bool unmerged; /* some terms have come past switches, whose cells may then never fill */
  bool suspect;  /* its check was wrong once: only single terms with their own check right */
  bool again;    /* it was multicast a second time */
  bool trial;
  bool troubled; /* a term that switches can add was sent past them, and not because workers were told to */
  bool past;     /* they were */
  bool tells_past;
};

/* Two sums: of `epoch`, and of the one before. */
struct slot {
  uint32_t epoch;
  bool done; /* the one of `epoch` */
  struct sum sum[2];
};

/* A worker to which NEARLY_ALL of JUDGED results did not come by multicast, nor by a second one, gets its own, for DEAF
 * times as many. One of JUDGED is a trial, which is multicast only: so it shows whether multicasts arrive again. */
enum { JUDGED = 32, NEARLY_ALL = 20, DEAF = 8 };

/* When there have been more results than slots whose terms had to be asked for past switches, three for each other one,
 * switches are no help: the next PAST results tell workers not to wait for that, but to send what follows in these
 * slots past them at once. Twice as many the next time, up to PAST_MOST, if that is not much later. */
enum { PAST = 512, PAST_MOST = 1 << 15, UNTROUBLED = 3 };

struct worker {
  struct by_server_way way;
  unsigned asked;  /* twice, for how many of the results since the last judgement */
  unsigned deaf;   /* for so many judgements more; 0: it is not */
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
  unsigned past;       /* results more that tell workers to send past them */
  unsigned past_next;  /* so many the next time */
  uint64_t past_ended; /* with that result */
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
    status = by_sum_key_init(&s->key, c->secret, c->secret_bytes);
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
  packet->rank = (uint16_t)to;
  packet->hops = (uint8_t)(worker->straight ? 0 : worker->way.hops);
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

static bool may_hear(const struct by_server *s, unsigned worker) {
  return s->config.multicast && !s->workers[worker].way.alone;
}

static bool hears_multicasts(const struct by_server *s, unsigned worker) {
  return may_hear(s, worker) && !s->workers[worker].deaf;
}

/* To each worker that multicasts do not reach, and to all others at once. A trial goes to the deaf as well, but not to
 * them alone. */
static void send_to_all(struct by_server *s, struct by_fragment *result, bool trial) {
  bool multicast = false;
  for (unsigned w = 0; w < s->config.workers; w++) {
    if (hears_multicasts(s, w) || (trial && may_hear(s, w)))
      multicast = true;
    else
      send_result(s, result, w);
  }
  if (multicast) send_multicast(s, result);
}

static void judge(struct by_server *s) {
  for (unsigned w = 0; w < s->config.workers; w++) {
    struct worker *worker = &s->workers[w];
    if (worker->deaf && --worker->deaf) continue;
    if (worker->missed < DEAF / 2 && worker->asked >= NEARLY_ALL)
      by_info("innetwork", "worker %u of tree %u: multicasts do not arrive; it gets its own results", w, s->config.job);
    if (worker->missed >= DEAF / 2 || worker->asked >= NEARLY_ALL) worker->deaf = DEAF;
    worker->asked = worker->missed = 0;
  }
}

/* About the fragment in `packet`, to worker `to`. */
static struct by_fragment answer(const struct by_fragment *packet, enum by_fragment_type type, unsigned to) {
  struct by_fragment head;
  by_fragment_begin(&head, type, (uint16_t)to);
  head.job = packet->job;
  head.key = packet->key;
  head.slot = packet->slot;
  head.epoch = packet->epoch;
  head.call = packet->call;
  return head;
}

/* Tells worker `to` that the fragment is wrong, or that `others` have made call `call`. */
static void send_nack(struct by_server *s, const struct by_fragment *about, unsigned to, uint32_t call,
                      uint64_t others) {
  struct by_fragment nack = answer(about, BY_FRAGMENT_NACK, to);
  nack.call = call;
  nack.workers = others;
  nack.rank = (uint16_t)__builtin_ctzll(others);
  by_fragment_seal(&nack);
  s->config.emit(s->config.context, &nack, (int)to);
}

static void send_nacks(struct by_server *s, const struct by_fragment *about, uint64_t to, uint32_t call,
                       uint64_t others) {
  for (; to; to &= to - 1) send_nack(s, about, (unsigned)__builtin_ctzll(to), call, others);
}

/* --- a sum is complete --- */

static enum banyan_dtype dtype_of(const struct by_fragment *packet, size_t *count) {
  size_t bytes = (size_t)packet->lines * BY_FRAGMENT_LINE;
  switch (packet->dtype) {
  case BY_FRAGMENT_PAIRS: *count = bytes / 8; return BANYAN_INT64;
  case BY_FRAGMENT_INT32: *count = bytes / 4; return BANYAN_INT32;
  case BY_FRAGMENT_FLOAT16: *count = bytes / 2; return BANYAN_FLOAT16;
  case BY_FRAGMENT_BFLOAT16: *count = bytes / 2; return BANYAN_BFLOAT16;
  default: *count = bytes / 4; return BANYAN_FLOAT32;
  }
}

/* Whether workers are to send the slot's next terms past switches. The sum before this one has said so of this one's.
 */
static bool tell_past(struct by_server *s, const struct sum *sum) {
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

static bool is_whole(const struct by_server *s, const struct by_fragment *packet) {
  return packet->workers == s->all;
}

/* In exact mode what switches would have added, had it come to them, is added first, as they do. */
static void add_up(struct by_server *s, struct sum *sum, struct by_fragment *result) {
  const void *sources[BY_FRAGMENT_WORKERS];
  size_t n = 0, count;
  enum banyan_dtype dtype = dtype_of(result, &count);
  result->check = 0;
  for (unsigned i = 0; s->config.exact && i < s->config.n_sets; i++)
    by_parts_fold(&s->parts, &sum->parts, s->config.sets[i], dtype, count);
  for (uint32_t i = sum->parts; i != BY_NO_PART; i = s->parts.parts[i].next) {
    sources[n++] = by_parts_payload(&s->parts, i);
    result->check += s->parts.parts[i].check;
  }
  if (result->lines) by_kernel_reduce(dtype, BANYAN_SUM)(result + 1, sources, n, count);
}

/* `last` has made the sum complete; where switches have added everything, it is the sum. Of pairs the check is the sum
 * of the parts'; of others it is made anew. */
static void fold(struct by_server *s, struct sum *sum, struct by_fragment *result, const struct by_fragment *last) {
  if (is_whole(s, last)) {
    memcpy(result + 1, last + 1, (size_t)last->lines * BY_FRAGMENT_LINE);
    result->check = last->check;
  } else {
    add_up(s, sum, result);
  }
  if (result->dtype != BY_FRAGMENT_PAIRS) result->check = by_sum_check(&s->key, result, s->all);
}

/* Something on the way has spoiled a term or a sum: all send theirs again, past the switches. */
static void start_over(struct by_server *s, struct sum *sum, struct by_fragment *result) {
  s->counters.failed_checks++;
  by_debug("innetwork", "tree %u: slot %u epoch %u has a wrong check; asking for its terms again", result->job,
           result->slot, result->epoch);
  by_parts_clear(&s->parts, &sum->parts);
  sum->workers = 0;
  sum->suspect = true;
  for (unsigned w = 0; w < s->config.workers; w++) send_nack(s, result, w, result->call, s->all);
}

static void finish(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                   const struct by_fragment *last) {
  fold(s, sum, result, last);
  if (result->check != by_sum_check(&s->key, result, s->all)) {
    start_over(s, sum, result);
    return;
  }
  by_parts_clear(&s->parts, &sum->parts);
  slot->done = true;
  result->workers = s->all;
  sum->tells_past = tell_past(s, sum);
  result->flags = (uint16_t)(sum->flags | (sum->tells_past ? BY_FRAGMENT_ESCALATE : 0));
  result->ahead = sum->ahead;
  s->counters.last[last->rank]++;
  sum->order = ++s->counters.results;
  sum->trial = s->counters.results % JUDGED == 0;
  if (sum->trial) judge(s);
  send_to_all(s, result, sum->trial);
}

/* --- terms --- */

static bool has_shape_of(const struct by_fragment *a, const struct by_fragment *b) {
  return a->dtype == b->dtype && a->lines == b->lines && a->exponent == b->exponent;
}

/* The first that comes says what all must have in common; as long as nothing has been kept, the next is the first. */
static void shape(struct sum *sum, bool past, struct by_fragment *result, const struct by_fragment *packet) {
  *sum = (struct sum){.parts = BY_NO_PART, .shaped = true, .suspect = sum->shaped && sum->suspect, .past = past};
  *result = answer(packet, BY_FRAGMENT_RESULT, 0);
  result->dtype = packet->dtype;
  result->lines = packet->lines;
  result->exponent = packet->exponent;
}

/* Workers make different calls: all of them are told who the others are. True: it is so. */
static bool is_mismatch(struct by_server *s, struct sum *sum, const struct by_fragment *result,
                        const struct by_fragment *packet) {
  if (!sum->others && (packet->call == result->call || !sum->workers)) return false;
  if (packet->call == result->call) {
    send_nacks(s, packet, packet->workers, sum->call, sum->others);
    sum->workers |= packet->workers; /* to be told, should more come; there will be no result */
    return true;
  }
  s->counters.mismatches++;
  sum->call = packet->call;
  sum->others |= packet->workers;
  send_nacks(s, packet, packet->workers, result->call, sum->workers);
  send_nacks(s, packet, sum->workers, packet->call, packet->workers);
  return true;
}

/* Whether the packet by itself is what it says; what switches have merged shows when the sum is complete. */
static bool is_credible(const struct by_server *s, const struct sum *sum, const struct by_fragment *packet) {
  bool single = !(packet->workers & (packet->workers - 1));
  if (s->config.exact) return packet->check == by_sum_check(&s->open, packet, packet->workers);
  if (packet->dtype == BY_FRAGMENT_PAIRS && !sum->suspect) return true;
  return single && packet->check == by_sum_check(&s->key, packet, packet->workers);
}

/* What is whole takes the place of all parts, and is added up before anything else comes. */
static enum by_parts_added keep(struct by_server *s, struct sum *sum, const struct by_fragment *packet) {
  if (!is_whole(s, packet)) return by_parts_add(&s->parts, &sum->parts, packet);
  by_parts_clear(&s->parts, &sum->parts);
  return BY_PARTS_NEW;
}

static void add(struct by_server *s, struct slot *slot, struct sum *sum, struct by_fragment *result,
                const struct by_fragment *packet) {
  if (packet->flags & BY_FRAGMENT_UNMERGED) sum->unmerged = true;
  switch (keep(s, sum, packet)) {
  case BY_PARTS_NEW: break;
  case BY_PARTS_DUPLICATE: s->counters.duplicates++; return;
  case BY_PARTS_OVERLAPPING:
    s->counters.overlapping++;
    sum->unmerged = true;
    return;
  default: s->counters.no_room++; return;
  }
  s->counters.terms++;
  if (packet->workers & (packet->workers - 1)) s->counters.merged++;
  if (packet->flags & BY_FRAGMENT_UNMERGED) s->counters.unmerged++;
  if (packet->flags & BY_FRAGMENT_ESCALATE && packet->dtype == BY_FRAGMENT_PAIRS) sum->troubled = true;
  sum->workers |= packet->workers;
  sum->flags |= packet->flags & BY_FRAGMENT_STICKY;
  if (packet->ahead > sum->ahead) sum->ahead = packet->ahead;
  if (sum->workers == s->all) finish(s, slot, sum, result, packet);
}

static void take_term(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) { /* the next one */
    slot->epoch = packet->epoch;
    slot->done = false;
    sum->shaped = false;
  }
  if (!sum->shaped || !(sum->workers | sum->others))
    shape(sum, sum_of(slot, packet->epoch - 1)->tells_past, result, packet);
  if (is_mismatch(s, sum, result, packet)) return;
  if (!has_shape_of(packet, result) || !is_credible(s, sum, packet)) {
    s->counters.failed_checks++;
  } else {
    add(s, slot, sum, result, packet);
  }
}

/* --- probes, and what is asked for again --- */

/* `workers`: whose terms the server has. */
static void reply(struct by_server *s, const struct by_fragment *packet, uint64_t workers, uint16_t flags) {
  struct {
    struct by_fragment head;
    struct by_probe records[BY_FRAGMENT_HOPS];
  } probe = {.head = answer(packet, BY_FRAGMENT_PROBE_REPLY, packet->rank)};
  s->counters.probes++;
  memcpy(probe.records, packet + 1, sizeof probe.records);
  probe.head.workers = workers;
  probe.head.flags = flags;
  by_fragment_seal(&probe.head);
  s->config.emit(s->config.context, &probe.head, packet->rank);
}

static bool asks(const struct by_fragment *packet) {
  return packet->flags & (BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED);
}

/* Who only asks for the result, and whose term is here, need not hear that others are late. */
static void take_probe(struct by_server *s, struct slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  bool begun = slot->epoch == packet->epoch && sum->shaped;
  if (begun && is_mismatch(s, sum, packet_of(s, packet->slot, packet->epoch), packet)) return;
  if (begun && asks(packet) && sum->workers >> packet->rank & 1) return;
  bool past = begun && (sum->unmerged || sum->suspect);
  reply(s, packet, begun ? sum->workers : 0, past ? BY_FRAGMENT_ESCALATE : 0);
}

/* What a worker's second wish for a result says of multicasts, and the first of one whose other results are its own. */
static void note_missed(struct by_server *s, struct sum *sum, struct worker *worker, uint64_t who, bool insists) {
  if (sum->asked & who || (!insists && !worker->deaf)) return;
  sum->asked |= who;
  if (!worker->deaf)
    worker->asked++;
  else if (sum->trial)
    worker->missed++;
}

/* A worker lacks the result. The first one's wish is fulfilled for all, since others may lack it too; after that each
 * has to ask twice, and gets its own. */
static void send_again(struct by_server *s, struct sum *sum, struct by_fragment *result,
                       const struct by_fragment *wish) {
  bool insists = wish->type == BY_FRAGMENT_PROBE && wish->flags & BY_FRAGMENT_ESCALATE;
  note_missed(s, sum, &s->workers[wish->rank], 1ull << wish->rank, insists);
  if (insists || !hears_multicasts(s, wish->rank)) {
    s->counters.repeated++;
    send_result(s, result, wish->rank);
  } else if (!sum->again) {
    s->counters.repeated++;
    sum->again = true;
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
  if (packet->type != BY_FRAGMENT_PROBE)
    s->counters.duplicates++;
  else if (asks(packet) && !(packet->check && is_coming(s, sum, packet->check - 1)))
    send_again(s, sum, result, packet);
  else if (!asks(packet))
    reply(s, packet, s->all, 0);
}

/* --- packets in --- */

static bool is_ours(const struct by_server *s, const struct by_fragment *packet) {
  return packet->job == s->config.job && packet->key == s->config.key && packet->slot < s->config.slots &&
         !(packet->workers & ~s->all) && packet->lines <= (packet->type == BY_FRAGMENT_UP ? s->config.lines : 64) &&
         (packet->type == BY_FRAGMENT_UP || packet->type == BY_FRAGMENT_PROBE);
}

void by_server_take(struct by_server *s, const struct by_fragment *packet, size_t bytes) {
  if (by_fragment_check(packet, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes) != BY_FRAGMENT_SOUND) {
    s->counters.malformed++;
    return;
  }
  if (!is_ours(s, packet)) {
    s->counters.foreign++;
    return;
  }
  struct slot *slot = &s->slots[packet->slot];
  int32_t after = by_epoch_distance(packet->epoch, slot->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  bool over = after == -1 || (after == 0 && slot->done);
  bool known = sum_of(slot, packet->epoch)->shaped && result->call == packet->call;
  if (packet->workers == 1ull << packet->rank) s->workers[packet->rank].straight = !packet->hops;
  if (over && known)
    repeat(s, packet, result);
  else if (over || after < 0 || after > 1 || (after == 1 && !slot->done))
    s->counters.foreign++; /* no worker can be there */
  else if (packet->type == BY_FRAGMENT_PROBE)
    take_probe(s, slot, packet);
  else
    take_term(s, slot, packet);
}

const struct by_server_counters *by_server_counters(const struct by_server *s) {
  return &s->counters;
}
