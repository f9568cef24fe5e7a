#include "tree_setup.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { IP_AND_UDP = 20 + 8 };

uint32_t by_tree_lines(uint32_t mtu) {
  uint32_t lines = mtu < IP_AND_UDP ? 0 : (mtu - IP_AND_UDP) / BY_FRAGMENT_LINE;
  if (lines < 2) return 1;
  return lines - 1 < BY_FRAGMENT_LINES ? lines - 1 : BY_FRAGMENT_LINES;
}

/* --- what switches are asked for --- */

static struct by_udp_end end_of(const struct by_address *address) {
  const struct sockaddr_in *ip = (const struct sockaddr_in *)(const void *)&address->storage;
  return (struct by_udp_end){.address = ip->sin_addr.s_addr, .port = ip->sin_port};
}

void by_tree_reservation(const struct by_switched_tree *tree, const struct by_tree_ends *ends, uint32_t which,
                         struct by_reservation *out) {
  const struct by_switched_switch *at = &tree->switches[which];
  *out = (struct by_reservation){.job = ends->job,
                                 .key = ends->key,
                                 .place = (uint8_t)at->place,
                                 .float32 = ends->exact,
                                 .slots = at->adds ? BY_TREE_WANTED : 0,
                                 .server = end_of(&ends->at),
                                 .n_below = at->n_below};
  snprintf(out->up, sizeof out->up, "%s", at->up);
  for (uint32_t b = 0; b < at->n_below; b++) {
    struct by_reservation_below *below = &out->below[b];
    snprintf(below->interface, sizeof below->interface, "%s", at->below[b].interface);
    below->is_switch = at->below[b].is_switch;
    below->first = out->n_workers;
    for (uint64_t left = at->below[b].workers; left; left &= left - 1)
      out->workers[out->n_workers++] = end_of(&ends->workers[__builtin_ctzll(left)]);
    below->n = out->n_workers - below->first;
  }
}

/* --- what ends are sent --- */

static bool merges(const struct by_switched_switch *at, const struct by_tree_answer *answer) {
  return answer->granted && at->adds && answer->what.slots >= BY_TREE_WORTHWHILE;
}

static uint32_t least_slots(const struct by_switched_tree *tree, const struct by_tree_answer *answers) {
  uint32_t slots = BY_TREE_WANTED;
  for (uint32_t s = 0; s < tree->n_switches; s++)
    if (merges(&tree->switches[s], &answers[s]) && answers[s].what.slots < slots) slots = answers[s].what.slots;
  return slots;
}

static uint8_t port_to(const struct by_switched_switch *at, const struct by_granted *granted, uint32_t worker) {
  for (uint32_t b = 0; b < at->n_below; b++)
    if (at->below[b].workers >> worker & 1) return granted->below[b];
  return 0;
}

/* Entries stand at the switch's place, on the way up and on the way down. */
static struct by_hop entry(const struct by_switched_switch *at, const struct by_tree_answer *answer, uint32_t worker,
                           bool down) {
  bool adds = merges(at, answer);
  if (!answer->granted) return (struct by_hop){0};
  if (down) return (struct by_hop){.port = port_to(at, &answer->what, worker), .workers = adds};
  return (struct by_hop){.port = answer->what.up, .workers = (uint8_t)(adds ? at->expected : 0)};
}

static void lay_way(const struct by_switched_tree *tree, const struct by_tree_answer *answers, uint32_t worker,
                    bool down, struct by_tree_way *way) {
  uint32_t s = tree->first[worker];
  way->hops = s == BY_SWITCHED_NONE ? 0 : tree->switches[s].place + 1;
  way->alone = s == BY_SWITCHED_NONE;
  for (; s != BY_SWITCHED_NONE; s = tree->switches[s].parent) {
    if (!answers[s].granted) way->alone = true;
    way->stack[tree->switches[s].place] = entry(&tree->switches[s], &answers[s], worker, down);
    way->below[tree->switches[s].place] = tree->switches[s].workers;
  }
}

/* One worker behind each of the switches next to the server that can copy results for anybody. */
static uint64_t find_spread(const struct by_switched_tree *tree, const struct by_tree_message *message) {
  uint64_t spread = 0;
  for (uint32_t s = 0; s < tree->n_switches; s++) {
    const struct by_switched_switch *at = &tree->switches[s];
    if (at->parent != BY_SWITCHED_NONE) continue;
    for (uint64_t left = at->workers; left; left &= left - 1) {
      uint32_t worker = (uint32_t)__builtin_ctzll(left);
      if (message->ways[worker].alone) continue;
      spread |= 1ull << worker;
      break;
    }
  }
  return spread;
}

/* By size, each once. */
static void add_set(struct by_tree_message *message, uint64_t set) {
  uint32_t at = 0;
  while (at < message->n_sets && message->sets[at] != set && by_worker_count(message->sets[at]) <= by_worker_count(set))
    at++;
  if (at < message->n_sets && message->sets[at] == set) return;
  memmove(&message->sets[at + 1], &message->sets[at], (message->n_sets++ - at) * sizeof *message->sets);
  message->sets[at] = set;
}

static void find_sets(const struct by_switched_tree *tree, const struct by_tree_answer *answers,
                      struct by_tree_message *message) {
  for (uint32_t s = 0; s < tree->n_switches; s++) {
    uint64_t set = tree->switches[s].workers;
    if (merges(&tree->switches[s], &answers[s]) && by_worker_count(set) > 1) add_set(message, set);
  }
}

void by_tree_describe(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                      const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out) {
  *out = (struct by_tree_message){.server = ends->server,
                                  .version = ends->version,
                                  .job = ends->job,
                                  .key = ends->key,
                                  .slots = least_slots(tree, answers),
                                  .lines = ends->lines,
                                  .exact = ends->exact,
                                  .workers = tree->n_workers,
                                  .worker = worker};
  memcpy(out->secret, ends->secret, sizeof out->secret);
  if (worker != BY_TREE_FOR_SERVER) {
    lay_way(tree, answers, worker, false, &out->ways[0]);
    out->ways[0].address = ends->at;
    return;
  }
  for (uint32_t w = 0; w < tree->n_workers; w++) {
    lay_way(tree, answers, w, true, &out->ways[w]);
    out->ways[w].address = ends->workers[w];
  }
  out->spread = find_spread(tree, out);
  if (ends->exact) find_sets(tree, answers, out);
}
