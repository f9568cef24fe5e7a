/* Sums through a switch under attack by a host without the job's secret. For each term that a worker sends, the
 * attacker sends a copy with some byte changed, which arrives first, to the switch, to the server, or to the other
 * workers as if it came from the server. Sums must stay right, calls must end soon, and no process may give up. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "server.h"
#include "sum_key.h"
#include "tree_net.h"
#include "worker.h"

enum { WORKERS = 3, SLOTS = 8, LINES = 4, ELEMENTS = 1500, MOST_LINES = 1 + BY_FRAGMENT_LINES, KEPT = 256 };

/* Offsets of fields in the header. The payload begins at offset 64. */
enum { AT_TYPE = 2, AT_EXPONENT = 7, AT_JOB = 8, AT_LINES = 15, AT_CHECK = 24, AT_MAC = 40, HEADER = 64 };

enum target { TO_SWITCH, TO_SERVER, TO_WORKERS };

struct packet {
  _Alignas(64) struct by_fragment head;
  unsigned char payload[MOST_LINES * BY_FRAGMENT_LINE];
};

struct scene {
  struct net net;
  struct by_server *server;
  struct by_worker *workers[WORKERS];
  unsigned index[WORKERS]; /* addresses are the callbacks' contexts */
  float numbers[WORKERS][ELEMENTS];
  /* Makes a forged packet from an observed one. Returns false to send none. */
  bool (*forge)(struct scene *scene, struct packet *packet);
  enum target target;
  unsigned at, mask;        /* the byte that changes */
  unsigned forged;          /* forged packets */
  unsigned arrive;          /* what was sent of them: some go to each worker */
  unsigned answered;        /* packets sent by the server */
  bool repeats, repeating;  /* what it has observed, to all that could receive it; now */
  struct packet kept[KEPT]; /* the last ones of these */
  unsigned n_kept;
  unsigned n_told;              /* of these, what workers have been sent past the switch */
  struct by_hop_key hop, other; /* where fragments have MACs: their key, and the attacker's */
};

/* --- the attacker --- */

static void send_forged(struct scene *scene, const struct packet *packet, unsigned worker) {
  bool to_each = scene->target == TO_WORKERS && packet->head.type != BY_FRAGMENT_RESULT_MC;
  scene->forged++;
  scene->arrive += to_each ? WORKERS : 1;
  if (scene->target == TO_SWITCH) net_from_worker(&scene->net, worker, &packet->head);
  if (scene->target == TO_SERVER) by_server_take(scene->server, &packet->head, by_fragment_bytes(&packet->head));
  if (scene->target != TO_WORKERS) return;
  if (packet->head.type == BY_FRAGMENT_RESULT_MC) net_from_server(&scene->net, &packet->head, BY_SERVER_ALL);
  for (int w = 0; to_each && w < WORKERS; w++) net_from_server(&scene->net, &packet->head, w);
}

static void observe(struct scene *scene, const struct by_fragment *fragment, unsigned worker) {
  struct packet packet = {.payload = {0}};
  if (fragment->type != BY_FRAGMENT_UP || !scene->forge) return;
  memcpy(&packet, fragment, by_fragment_bytes(fragment));
  if (!scene->forge(scene, &packet)) return;
  if (!scene->net.hop) by_fragment_seal(&packet.head);
  send_forged(scene, &packet, worker);
}

/* Each packet again, and one of those that are kept. What workers send goes to the switch and to the server, what the
 * server sends goes to all workers. */
static void repeat(struct scene *scene, const struct packet *packet) {
  bool up = packet->head.type == BY_FRAGMENT_UP || packet->head.type == BY_FRAGMENT_PROBE;
  struct packet copy = *packet;
  scene->forged++;
  for (unsigned w = 0; w < WORKERS; w++)
    if (!up) net_from_server(&scene->net, &copy.head, (int)w);
  if (up) net_from_worker(&scene->net, packet->head.rank, &copy.head);
  if (up && (packet->head.type == BY_FRAGMENT_PROBE || scene->forged % 4 == 0))
    by_server_take(scene->server, &packet->head, by_fragment_bytes(&packet->head));
}

static void keep_and_repeat(struct scene *scene, const struct by_fragment *fragment) {
  if (!scene->repeats) return;
  struct packet *packet = &scene->kept[scene->n_kept++ % KEPT];
  memcpy(packet, fragment, by_fragment_bytes(fragment));
  if (scene->repeating) return;
  scene->repeating = true; /* not what follows from it */
  repeat(scene, packet);
  repeat(scene, &scene->kept[by_rng_below(&scene->net.rng, scene->n_kept < KEPT ? scene->n_kept : KEPT)]);
  scene->repeating = false;
}

static unsigned char *byte_at(struct packet *packet, unsigned at) {
  return (unsigned char *)packet + at;
}

static bool change_byte(struct scene *scene, struct packet *packet) {
  if (scene->mask == 0x80 && packet->head.rank) return false; /* only one worker's packets may be changed */
  *byte_at(packet, scene->at) ^= (unsigned char)scene->mask;
  return by_fragment_bytes(&packet->head) <= sizeof *packet;
}

/* --- the endpoints --- */

static void worker_emits(void *context, const struct by_fragment *packet) {
  unsigned *index = context;
  struct scene *scene = (struct scene *)(void *)((char *)(index - *index) - offsetof(struct scene, index));
  observe(scene, packet, *index);
  net_from_worker(&scene->net, *index, packet);
  keep_and_repeat(scene, packet);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  struct scene *scene = context;
  scene->answered++;
  net_from_server(&scene->net, packet, to);
  keep_and_repeat(scene, packet);
}

static void comes_to_worker(void *context, unsigned worker, const struct by_fragment *packet, size_t bytes) {
  struct scene *scene = context;
  by_worker_take(scene->workers[worker], packet, bytes, scene->net.now);
  by_worker_progress(scene->workers[worker], scene->net.now);
}

static void comes_to_server(void *context, const struct by_fragment *packet, size_t bytes) {
  struct scene *scene = context;
  by_server_take(scene->server, packet, bytes);
}

static void make_net(struct net *net) {
  net->workers = WORKERS;
  net->switches = 1;
  net->at[0] = (struct net_switch){.above = NET_SERVER, .aggregates = true, .slots = SLOTS};
  net->rate = 1e9;
  net->delay = 50000;
  net->queue = 20000000;
  net->mark = 20000000;
  net->job = 7;
  net->key = 3;
  net_init(net, 1);
}

static struct scene *make_scene_with(bool exact, bool keyed) {
  static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";
  struct scene *scene = calloc(1, sizeof *scene);
  struct by_server_path ways[WORKERS] = {{0}};
  assert_non_null(scene);
  make_net(&scene->net);
  if (keyed) {
    assert_ok(by_hop_key_of_tree(secret, sizeof secret, scene->net.job, scene->net.key, &scene->hop));
    assert_ok(by_hop_key_of_tree("another", 7, scene->net.job, scene->net.key, &scene->other));
    scene->net.hop = &scene->hop;
  }
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_worker_config config = {.job = scene->net.job,
                                      .key = scene->net.key,
                                      .rank = w,
                                      .groups = by_one_group(WORKERS),
                                      .slots = SLOTS,
                                      .lines = LINES,
                                      .exact = exact,
                                      .keyed = keyed,
                                      .timeout = 3 * BY_SECOND,
                                      .emit = worker_emits,
                                      .context = &scene->index[w]};
    scene->index[w] = w;
    config.hops = net_way(&scene->net, w, false, config.stack);
    net_below(&scene->net, w, config.below);
    ways[w].hops = net_way(&scene->net, w, true, ways[w].stack);
    memcpy(config.secret, secret, sizeof secret);
    assert_ok(by_worker_create(&config, &scene->workers[w]));
  }
  struct by_server_config config = {.job = scene->net.job,
                                    .key = scene->net.key,
                                    .groups = by_one_group(WORKERS),
                                    .slots = SLOTS,
                                    .lines = LINES,
                                    .multicast = true,
                                    .exact = exact,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .keyed = keyed,
                                    .paths = ways,
                                    .emit = server_emits,
                                    .context = scene};
  assert_ok(by_server_create(&config, &scene->server));
  scene->net.context = scene;
  scene->net.to_worker = comes_to_worker;
  scene->net.to_server = comes_to_server;
  return scene;
}

static struct scene *make_scene(bool exact) {
  return make_scene_with(exact, false);
}

static void destroy_scene(struct scene *scene) {
  for (unsigned w = 0; w < WORKERS; w++) by_worker_destroy(scene->workers[w]);
  by_server_destroy(scene->server);
  net_fini(&scene->net);
  free(scene);
}

/* --- a call --- */

static bool all_done(const struct scene *scene, uint32_t call) {
  for (unsigned w = 0; w < WORKERS; w++)
    if (by_worker_done(scene->workers[w], call) < ELEMENTS) return false;
  return true;
}

/* Answers of the server come to all workers a second time, past the switch. Were results among them, none would be
 * lost and nobody would ask. */
static void repeat_at_workers(struct scene *scene) {
  for (; scene->n_told < scene->n_kept; scene->n_told++) {
    const struct packet *packet = &scene->kept[scene->n_told % KEPT];
    for (unsigned w = 0; w < WORKERS && !by_fragment_has_terms(&packet->head); w++)
      by_worker_take(scene->workers[w], &packet->head, by_fragment_bytes(&packet->head), scene->net.now);
  }
}

static void advance(struct scene *scene) {
  repeat_at_workers(scene);
  uint64_t due = UINT64_MAX;
  unsigned worker = 0;
  for (unsigned w = 0; w < WORKERS; w++)
    if (by_worker_deadline(scene->workers[w]) < due) due = by_worker_deadline(scene->workers[w]), worker = w;
  if (net_next(&scene->net) <= due) {
    assert_true(net_next(&scene->net) != UINT64_MAX);
    net_step(&scene->net);
    return;
  }
  if (due > scene->net.now) scene->net.now = due;
  by_worker_progress(scene->workers[worker], scene->net.now);
}

static const char *what(const struct scene *scene) {
  static char text[100];
  snprintf(text, sizeof text, "to %s, byte %u changed by %02x",
           (const char *[]){"switch", "server", "workers"}[scene->target], scene->at, scene->mask);
  return text;
}

/* Computes a sum and returns the virtual time in milliseconds that it took. */
static double sum(struct scene *scene, uint64_t limit) {
  uint32_t call;
  uint64_t began = scene->net.now;
  for (unsigned w = 0; w < WORKERS; w++) {
    for (int i = 0; i < ELEMENTS; i++) scene->numbers[w][i] = (float)(i % 100 + (int)w);
    float *numbers = scene->numbers[w];
    assert_ok(by_worker_begin(scene->workers[w], BANYAN_FLOAT32, BANYAN_SUM, numbers, numbers, ELEMENTS, &call));
    by_worker_advance(scene->workers[w], call, ELEMENTS);
  }
  for (unsigned w = 0; w < WORKERS; w++) by_worker_progress(scene->workers[w], scene->net.now);
  while (!all_done(scene, call)) {
    for (unsigned w = 0; w < WORKERS; w++)
      if (by_worker_state(scene->workers[w])) fail_msg("%s: %s", what(scene), banyan_error_text());
    if (scene->net.now - began > limit) fail_msg("%s: not done after %g s", what(scene), (double)limit / 1e9);
    advance(scene);
  }
  for (unsigned w = 0; w < WORKERS; w++)
    for (int i = 0; i < ELEMENTS; i++)
      if (scene->numbers[w][i] != (float)(WORKERS * (i % 100) + 3))
        fail_msg("%s: %g at %d of worker %u", what(scene), (double)scene->numbers[w][i], i, w);
  return (double)(scene->net.now - began) / 1e6;
}

/* --- the tests --- */

/* A forged term claims a large exponent, of its own or for a later fragment. If it were believed, it would scale all of
 * this fragment's numbers to zero. */
static bool claim_large_exponent(struct scene *scene, struct packet *packet) {
  if (packet->head.rank) return false;
  *byte_at(packet, AT_CHECK) ^= 1;
  if (scene->mask) *byte_at(packet, by_fragment_bytes(&packet->head) - 8 + packet->head.rank) = 200;
  if (!scene->mask) *byte_at(packet, AT_EXPONENT) = 200;
  return true;
}

static void test_large_exponent(void **state) {
  (void)state;
  for (unsigned round = 0; round < 4; round++) {
    struct scene *scene = make_scene(false);
    scene->forge = claim_large_exponent;
    scene->target = round / 2 ? TO_SWITCH : TO_SERVER;
    scene->mask = round % 2;
    for (int i = 0; i < 4; i++) sum(scene, BY_SECOND);
    assert_true(scene->forged > 50);
    destroy_scene(scene);
  }
}

/* Changes each byte of the header except the MAC, and some bytes of the payload. The check is unchanged and therefore
 * wrong. */
static void test_each_byte(void **state) {
  (void)state;
  static const unsigned masks[] = {1, 0x80, 0x5a};
  for (unsigned round = 0; round < 2 * 3 * (HEADER + 40); round += check_share()) {
    unsigned at = round / 6;
    if (at >= AT_MAC && at < AT_MAC + 8) continue;
    struct scene *scene = make_scene(false);
    scene->forge = change_byte;
    scene->target = round % 2 ? TO_SWITCH : TO_SERVER;
    scene->at = at;
    scene->mask = masks[round / 2 % 3];
    sum(scene, BY_SECOND);
    sum(scene, BY_SECOND);
    destroy_scene(scene);
  }
}

/* The same in exact mode, whose check has a publicly known key. An attacker that does not recompute the check does no
 * harm. */
static void test_each_byte_exact(void **state) {
  (void)state;
  for (unsigned at = AT_TYPE; at < HEADER + 4; at++) {
    if (at >= AT_MAC && at < AT_MAC + 8) continue;
    struct scene *scene = make_scene(true);
    scene->forge = change_byte;
    scene->target = at % 2 ? TO_SWITCH : TO_SERVER;
    scene->at = at;
    scene->mask = 1;
    sum(scene, BY_SECOND);
    destroy_scene(scene);
  }
}

/* Turns the packet into a result that is correct except for its numbers. */
static bool turn_into_result(struct scene *scene, struct packet *packet) {
  packet->head.type = scene->at ? BY_FRAGMENT_RESULT : BY_FRAGMENT_RESULT_MC;
  packet->head.hops = packet->head.hop = 0;
  packet->head.workers = 7;
  return true;
}

/* With MACs: a bit of a true fragment has changed, or a changed fragment has a seal or a MAC under another key. */
static bool forge_mac(struct scene *scene, struct packet *packet) {
  if (scene->target == TO_WORKERS) (void)turn_into_result(scene, packet);
  if (!change_byte(scene, packet)) return false;
  if (scene->mask == 2) by_fragment_seal(&packet->head);
  if (scene->mask == 4) by_fragment_sign(&packet->head, &scene->other);
  return true;
}

static uint64_t rejected_at(const struct scene *scene) {
  const struct by_server_counters *server = by_server_counters(scene->server);
  uint64_t n = 0;
  if (scene->target == TO_SERVER) return server->forged + server->malformed;
  for (unsigned w = 0; w < WORKERS && scene->target == TO_WORKERS; w++)
    n += by_worker_counters(scene->workers[w])->forged + by_worker_counters(scene->workers[w])->malformed;
  /* what is of no grant there passes the switch, and is rejected by the server */
  return n + scene->net.events[BY_EVENT_FORGED] + scene->net.events[BY_EVENT_MALFORMED] +
         (scene->target == TO_SWITCH ? server->forged + server->malformed : 0);
}

/* No forged fragment has an effect, and each is counted, also where the attacker knows the check's key. */
static void test_macs(void **state) {
  (void)state;
  static const unsigned masks[] = {1, 2, 4};
  for (unsigned round = 0; round < 3 * 3 * (HEADER + 8); round += check_share()) {
    unsigned at = round / 9;
    struct scene *scene = make_scene_with(round % 2, true);
    scene->target = (enum target)(round % 3);
    scene->at = at;
    scene->mask = masks[round / 3 % 3];
    scene->forge = forge_mac;
    sum(scene, BY_SECOND);
    sum(scene, BY_SECOND);
    assert_true(scene->forged > 0 || at == AT_LINES);
    scene->forge = NULL;
    while (net_next(&scene->net) != UINT64_MAX) net_step(&scene->net);
    assert_int_equal(by_server_counters(scene->server)->failed_checks, 0);
    assert_int_equal(by_server_counters(scene->server)->duplicates, 0);
    bool is_other_job = at == AT_JOB || at == AT_JOB + 1; /* no grant's: the switch has no key for it */
    if (rejected_at(scene) != scene->arrive && !(is_other_job && scene->target == TO_WORKERS))
      fail_msg("%s: %" PRIu64 " of %u were rejected", what(scene), rejected_at(scene), scene->arrive);
    destroy_scene(scene);
  }
}

/* Whatever is repeated, at once or later, at its own place or another: sums are right, soon. Probes and their answers
 * count as repeated; a term or result is known by its slot and epoch. Packets are lost, so that there are probes. */
static void test_repeated(void **state) {
  (void)state;
  uint64_t at_switch = 0, at_server = 0, at_workers = 0;
  for (unsigned round = 0; round < 20; round++) {
    struct scene *scene = make_scene_with(round % 2, true);
    by_rng_init(&scene->net.rng, round);
    scene->net.faults.lost = 0.1;
    scene->repeats = true;
    for (int i = 0; i < 10; i++) sum(scene, BY_SECOND);
    at_switch += scene->net.events[BY_EVENT_REPLAYED];
    at_server += by_server_counters(scene->server)->replayed;
    for (unsigned w = 0; w < WORKERS; w++) at_workers += by_worker_counters(scene->workers[w])->replayed;
    assert_int_equal(by_server_counters(scene->server)->failed_checks, 0);
    assert_int_equal(scene->net.events[BY_EVENT_FORGED], 0);
    destroy_scene(scene);
  }
  assert_true(at_switch > 50 && at_server > 50 && at_workers > 50);
}

/* One fragment of this type for the scene's switch: a term of worker 1 or 2, or the answer to it. */
static struct packet fragment_for_switch(enum by_fragment_type type, uint32_t epoch, unsigned worker) {
  struct packet packet = {.head = {0}};
  by_fragment_begin(&packet.head, type, (uint8_t)worker);
  packet.head.job = 7;
  packet.head.key = 3;
  packet.head.epoch = epoch;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.check = epoch + 1;
  if (by_fragment_has_terms(&packet.head)) packet.head.lines = 1;
  bool down = type != BY_FRAGMENT_UP && type != BY_FRAGMENT_PROBE;
  if (down) packet.head.workers = 7;
  if (type != BY_FRAGMENT_RESULT_MC) assert_true(by_fragment_push(&packet.head, down ? worker : 3, WORKERS));
  return packet;
}

/* Claims of a cell, releases, results, queries and their answers without the key have no effect on a switch, on its
 * cells, windows and what it sends. With the key each has one. */
static void test_switch_without_key(void **state) {
  static const enum by_fragment_type types[] = {BY_FRAGMENT_UP,    BY_FRAGMENT_RESULT,      BY_FRAGMENT_RESULT_MC,
                                                BY_FRAGMENT_PROBE, BY_FRAGMENT_PROBE_REPLY, BY_FRAGMENT_NACK};
  static struct by_replay_window windows[BY_REPLAY_SENDERS], no_windows[BY_REPLAY_SENDERS];
  struct by_grant grant = {
      .below = 7, .above = 8, .count = 1, .job = 7, .key = 3, .dtype = BY_FRAGMENT_PAIRS, .keyed = true};
  struct by_hop_key hop, other;
  (void)state;
  assert_ok(by_hop_key_of_tree("a secret", 8, 7, 3, &hop));
  assert_ok(by_hop_key_of_tree("another", 7, 7, 3, &other));
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (unsigned how = 0; how < 4; how++) {
      struct by_cell cell = {0}, before;
      uint64_t sums[1][BY_CELL_PAIRS] = {{0}}, sums_before[1][BY_CELL_PAIRS];
      struct by_cells cells = {&cell, sums, 1, NULL};
      bool down = types[t] != BY_FRAGMENT_UP && types[t] != BY_FRAGMENT_PROBE;
      uint32_t epoch = 5 + (types[t] == BY_FRAGMENT_UP), from = down ? 3 : 1;
      struct packet first = fragment_for_switch(BY_FRAGMENT_UP, 5, 0);
      by_fragment_sign(&first.head, &hop);
      uint32_t bytes = by_fragment_bytes(&first.head);
      struct by_verdict verdict = by_switch_step(&grant, &hop, windows, &cells, &first.head, bytes, 0, 1);
      assert_int_equal(verdict.event, BY_EVENT_STORED);
      before = cell;
      memcpy(sums_before, sums, sizeof sums);
      struct packet packet = fragment_for_switch(types[t], epoch, 1);
      by_fragment_sign(&packet.head, how == 1 ? &other : how == 2 ? NULL : &hop);
      if (how == 3) packet.head.flags ^= BY_FRAGMENT_RETX;
      verdict = by_switch_step(&grant, &hop, windows, &cells, &packet.head, by_fragment_bytes(&packet.head), from, 2);
      if (how == 0) { /* with the key */
        assert_int_not_equal(verdict.event, BY_EVENT_FORGED);
        assert_true(verdict.kind != BY_VERDICT_DROP || memcmp(&before, &cell, sizeof cell) != 0);
      } else {
        assert_int_equal(verdict.kind, BY_VERDICT_DROP);
        assert_int_equal(verdict.event, BY_EVENT_FORGED);
        assert_memory_equal(&before, &cell, sizeof cell);
        assert_memory_equal(sums_before, sums, sizeof sums);
        assert_memory_equal(windows, no_windows, sizeof windows);
      }
      memset(windows, 0, sizeof windows);
    }
}

/* In exact mode, terms of another call with a correct check are no reason to end the job. */
static bool make_other_call(struct scene *scene, struct packet *packet) {
  static struct by_sum_key open;
  if (packet->head.rank || packet->head.flags & BY_FRAGMENT_RETX) return false;
  assert_ok(by_sum_key_init_open(&open));
  packet->head.call ^= 1;
  packet->head.check = by_sum_check(&open, &packet->head, packet->head.workers);
  return true;
}

static void test_other_call_exact(void **state) {
  (void)state;
  struct scene *scene = make_scene(true);
  scene->forge = make_other_call;
  scene->target = TO_SERVER;
  sum(scene, 10 * BY_SECOND);
  assert_true(scene->forged > 10);
  destroy_scene(scene);
}

/* Turns the packet into one without terms about these workers, with this worker's call or another. */
static bool turn_into_header(struct scene *scene, struct packet *packet) {
  *byte_at(packet, AT_TYPE) = (unsigned char)(scene->at % 3 + BY_FRAGMENT_PROBE);
  bool probe = packet->head.type != BY_FRAGMENT_NACK;
  memset(packet->payload, 0, sizeof packet->payload);
  packet->head.lines = probe ? BY_PROBE_LINES : 0;
  packet->head.flags = (uint8_t)(scene->mask & 31);
  packet->head.hops = scene->target == TO_SWITCH ? packet->head.hops : 0;
  packet->head.workers |= scene->mask & 32 ? 7 : 0;
  if (scene->mask & 64) packet->head.call ^= 1;
  return true;
}

static void test_headers(void **state) {
  (void)state;
  for (unsigned round = 0; round < 9 * 128; round += check_share()) {
    struct scene *scene = make_scene(false);
    scene->forge = turn_into_header;
    scene->target = (enum target)(round % 3);
    scene->at = round / 3 % 3;
    scene->mask = round / 9;
    sum(scene, BY_SECOND);
    destroy_scene(scene);
  }
}

static void test_results(void **state) {
  (void)state;
  for (unsigned round = 0; round < 4; round++) {
    struct scene *scene = make_scene(round / 2);
    scene->forge = turn_into_result;
    scene->target = TO_WORKERS;
    scene->at = round % 2;
    sum(scene, BY_SECOND);
    assert_true(scene->forged > 0);
    destroy_scene(scene);
  }
}

/* Makes one cell add something else. The terms are requested at once, before any timeout. */
static bool spoil_one(struct scene *scene, struct packet *packet) {
  if (scene->forged) return false;
  packet->payload[0] ^= 1;
  return true;
}

static void test_spoiled_cell(void **state) {
  (void)state;
  double took[2];
  for (int round = 0; round < 2; round++) {
    struct scene *scene = make_scene(false);
    for (int i = 0; i < 10; i++) sum(scene, BY_SECOND);
    if (round) scene->forge = spoil_one;
    scene->target = TO_SWITCH;
    took[round] = sum(scene, BY_SECOND);
    assert_int_equal(scene->forged, round);
    destroy_scene(scene);
  }
  print_message("%.2f ms, with one sum spoiled %.2f ms\n", took[0], took[1]);
  assert_true(took[1] < took[0] + 1);
}

/* Sends a thousand forged sums of the same fragment. The server answers few of them. */
static bool send_many_sums(struct scene *scene, struct packet *packet) {
  unsigned before = scene->answered;
  packet->head.workers = 7;
  by_fragment_seal(&packet->head);
  for (int i = 0; i < 1000; i++) by_server_take(scene->server, &packet->head, by_fragment_bytes(&packet->head));
  assert_true(scene->answered - before <= 3 * WORKERS);
  scene->forged++;
  return false;
}

static void test_many_sums(void **state) {
  (void)state;
  struct scene *scene = make_scene(false);
  scene->forge = send_many_sums;
  for (int i = 0; i < 3; i++) sum(scene, BY_SECOND);
  assert_true(scene->forged > 100);
  assert_true(by_server_counters(scene->server)->failed_checks > 100000);
  destroy_scene(scene);
}

/* All cells get terms of coming epochs. Few sums are made past the switch meanwhile, and none a second later. */
static bool come_early(struct scene *scene, struct packet *packet) {
  packet->head.epoch += scene->at;
  return true;
}

static uint64_t unmerged(const struct scene *scene) {
  return by_server_counters(scene->server)->unmerged;
}

static void test_epochs_to_come(void **state) {
  (void)state;
  static const unsigned far[] = {5, 1000, 1u << 30, UINT32_MAX - 1000};
  for (int i = 0; i < 8; i++) {
    struct scene *scene = make_scene(false);
    scene->target = TO_SWITCH;
    scene->at = far[i / 2];
    if (i % 2) sum(scene, BY_SECOND); /* otherwise forged terms come before any other term */
    scene->forge = come_early;
    uint64_t before = unmerged(scene);
    for (int j = 0; j < 10; j++) sum(scene, BY_SECOND);
    if (i % 2) assert_int_equal(unmerged(scene), before);
    scene->forge = NULL;
    scene->net.now += BY_SECOND;
    for (int j = 0; j < 2; j++) sum(scene, BY_SECOND); /* jobs reach the cells that were slightly ahead */
    before = unmerged(scene);
    for (int j = 0; j < 10; j++) sum(scene, BY_SECOND);
    assert_int_equal(unmerged(scene), before);
    destroy_scene(scene);
  }
}

/* --- an aggregator, which has the secret, lets nothing forged have an effect --- */

static struct packet terms[2];
static unsigned sent_up, sent_down;

static void keep_term(void *context, const struct by_fragment *packet) {
  memcpy(context, packet, by_fragment_bytes(packet));
}

static void count_sent(void *context, const struct by_fragment *packet, enum by_aggregator_direction way) {
  (void)context, (void)packet;
  *(way == BY_AGGREGATOR_UP ? &sent_up : &sent_down) += 1;
}

/* The first term of each of two workers. */
static void make_terms(const unsigned char *secret, bool exact) {
  static float numbers[ELEMENTS];
  uint32_t call, count = exact ? 10 : ELEMENTS;
  for (unsigned w = 0; w < 2; w++) {
    struct by_worker_config config = {.rank = w,
                                      .groups = by_one_group(2),
                                      .slots = 1,
                                      .lines = LINES,
                                      .exact = exact,
                                      .hops = 1,
                                      .stack = {{.workers = 2}},
                                      .timeout = BY_SECOND,
                                      .emit = keep_term,
                                      .context = &terms[w]};
    struct by_worker *worker;
    memcpy(config.secret, secret, BY_WORKER_SECRET);
    assert_ok(by_worker_create(&config, &worker));
    assert_ok(by_worker_begin(worker, BANYAN_FLOAT32, BANYAN_SUM, numbers, numbers, count, &call));
    by_worker_advance(worker, call, count);
    by_worker_progress(worker, 1);
    assert_int_equal(terms[w].head.type, BY_FRAGMENT_UP);
    by_worker_destroy(worker);
  }
}

static void take(struct by_aggregator *aggregator, struct packet *packet) {
  by_fragment_seal(&packet->head);
  by_aggregator_take(aggregator, &packet->head, by_fragment_bytes(&packet->head), BY_SECOND);
}

static void check_aggregator(bool exact) {
  static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";
  static const unsigned char bytes[] = {7, 8, 9, 10, 11, 12, 14, 15, 16, AT_CHECK, 31, 32, 36, HEADER, HEADER + 12};
  struct by_aggregator_config config = {.groups = by_one_group(2),
                                        .slots = 1,
                                        .lines = LINES,
                                        .exact = exact,
                                        .secret = secret,
                                        .secret_bytes = sizeof secret,
                                        .emit = count_sent};
  struct by_aggregator *aggregator;
  make_terms(secret, exact);
  assert_ok(by_aggregator_create(&config, &aggregator));
  const struct by_aggregator_counters *c = by_aggregator_counters(aggregator);
  sent_up = sent_down = 0;
  for (size_t i = 0; i < sizeof bytes; i++) {
    struct packet forged = terms[0];
    *byte_at(&forged, bytes[i]) ^= 2;
    take(aggregator, &forged);
  }
  struct packet result = terms[0]; /* a term as if it were the result for all */
  result.head.type = BY_FRAGMENT_RESULT_MC;
  result.head.hops = 0;
  take(aggregator, &result);
  result.head.workers = 3;
  take(aggregator, &result);
  assert_int_equal(sent_up + sent_down, 0);
  assert_int_equal(c->failed_checks + c->foreign + c->events[BY_EVENT_MALFORMED], sizeof bytes + 2);
  assert_true(c->failed_checks > 5);
  take(aggregator, &terms[0]);
  assert_int_equal(c->events[BY_EVENT_STORED], 1);
  take(aggregator, &terms[1]);
  assert_int_equal(c->events[BY_EVENT_COMPLETED], 1);
  assert_int_equal(sent_up, 1);
  by_aggregator_destroy(aggregator);
}

static void test_aggregator(void **state) {
  (void)state;
  check_aggregator(false);
  check_aggregator(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_large_exponent),
      cmocka_unit_test(test_each_byte),
      cmocka_unit_test(test_each_byte_exact),
      cmocka_unit_test(test_other_call_exact),
      cmocka_unit_test(test_headers),
      cmocka_unit_test(test_results),
      cmocka_unit_test(test_spoiled_cell),
      cmocka_unit_test(test_many_sums),
      cmocka_unit_test(test_epochs_to_come),
      cmocka_unit_test(test_aggregator),
      cmocka_unit_test(test_macs),
      cmocka_unit_test(test_repeated),
      cmocka_unit_test(test_switch_without_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
