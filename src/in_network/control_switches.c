/* Rank 0's connections to switches: finds their addresses, requests cells for trees, and collects the answers. */
#include "control_trees.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "address.h"
#include "cluster_message.h"
#include "key_ring.h"
#include "log.h"
#include "membership.h"
#include "opening.h"
#include "reservation.h"
#include "sum_key.h"

enum { TIMEOUT_MS = 5000, STARTING_MS = 2000, MOST_RENAMED = 8 };

struct by_control_switch {
  struct by_control_switch *next;
  struct by_switches *switches;
  struct by_resolving *resolving; /* The lookup of its address; NULL: the address is known, or could not be found. */
  struct by_switch_client *client;
  unsigned looked;                /* How often the lookup of its address has failed. */
  char why[300];                  /* Why the switch has no part. */
  const char *name, *place, *key; /* key: NULL if the switch has no key and listens on loopback. */
  char texts[];
};

/* ---- where it is */

/* Finds a switch's address: from BANYAN_SWITCHES, or its name and the usual port. */
static void find_place(const char *switches, const char *name, char *out, size_t room) {
  size_t length = strlen(name);
  snprintf(out, room, "%s:%d", name, BY_SWITCH_CONTROL_PORT);
  for (const char *at = switches; at && *at; at += *at == ',') {
    size_t item = strcspn(at, ",");
    if (item > length && !strncmp(at, name, length) && at[length] == '=')
      snprintf(out, room, "%.*s", (int)(item - length - 1), at + length + 1);
    at += item;
  }
}

static void lose_all(struct by_control_switch *at, const char *why) {
  snprintf(at->why, sizeof at->why, "%s", why);
  for (struct by_in_network_tree *tree = at->switches->trees; tree; tree = tree->next)
    for (uint32_t s = 0; s < tree->tree->n_switches; s++) tree->parts[s].refused |= tree->parts[s].asked == at;
}

static bool is_same(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

static const char *store(char **to, const char *text) {
  if (!text) return NULL;
  const char *stored = *to;
  *to = stpcpy(*to, text) + 1;
  return stored;
}

static size_t room_of(const char *text) {
  return text ? strlen(text) + 1 : 0;
}

static enum banyan_status get_switch(struct by_switches *switches, const struct by_cluster_switch *which,
                                     struct by_control_switch **out) {
  for (*out = switches->first; *out; *out = (*out)->next)
    if (is_same((*out)->name, which->at) && is_same((*out)->place, which->address) && is_same((*out)->key, which->key))
      return BANYAN_OK;
  struct by_control_switch *at =
      calloc(1, sizeof *at + room_of(which->at) + room_of(which->address) + room_of(which->key));
  if (!at) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for switch %s", which->at);
  char *to = at->texts;
  at->switches = switches;
  at->name = store(&to, which->at);
  at->place = store(&to, which->address);
  at->key = store(&to, which->key);
  at->next = switches->first;
  switches->first = at;
  *out = at;
  return by_resolving_start(at->place, 0, &at->resolving);
}

enum banyan_status by_switches_find(struct by_switches *switches, struct by_in_network_tree *tree,
                                    const struct by_cluster_switch *places, uint32_t n) {
  char place[BY_HOST_TEXT + 16];
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    const char *name = tree->tree->switches[s].name;
    uint32_t i = 0;
    if (tree->tree->switches[s].aggregator) continue;
    while (i < n && strcmp(places[i].at, name) != 0) i++;
    find_place(by_job_settings(switches->job)->switches, name, place, sizeof place);
    struct by_cluster_switch known = {name, place, by_job_settings(switches->job)->switch_key};
    BY_TRY(get_switch(switches, i < n ? &places[i] : &known, &tree->parts[s].asked));
  }
  return BANYAN_OK;
}

/* ---- what it answers */

static struct by_in_network_tree *find_tree(const struct by_control_switch *at, uint16_t job, uint32_t *which) {
  for (struct by_in_network_tree *tree = at->switches->trees; tree; tree = tree->next)
    for (*which = 0; tree->ends.job == job && *which < tree->tree->n_switches; ++*which)
      if (tree->parts[*which].asked == at) return tree;
  return NULL;
}

/* Returns whether the new grant has the ports and slots that the ends were sent. */
static bool is_as_before(const struct by_granted *before, const struct by_granted *now) {
  return now->up == before->up && now->n_below == before->n_below && now->slots >= before->slots &&
         !memcmp(now->below, before->below, now->n_below * sizeof *now->below);
}

/* Removes the switch from the tree. The manager is notified, as it accounts for the switch's memory. */
static void do_without(const struct by_switches *switches, struct by_in_network_tree *tree, uint32_t which) {
  tree->parts[which].refused = true;
  tree->answers[which].granted = false;
  switches->events.changed(switches->events.context);
}

static void granted(void *context, uint16_t job, const struct by_granted *what) {
  const struct by_control_switch *at = context;
  uint32_t which;
  struct by_in_network_tree *tree = find_tree(at, job, &which);
  if (!tree || tree->parts[which].refused) return;
  if (tree->stage < BY_TREE_GIVEN) {
    tree->answers[which] = (struct by_tree_answer){.granted = true, .what = *what};
    by_debug("control", "switch %s grants tree %u %u slots", at->name, job, what->slots);
    return;
  }
  if (is_as_before(&tree->answers[which].what, what)) {
    by_warn("control", "switch %s has its part in tree %u again", at->name, job);
    at->switches->events.changed(at->switches->events.context);
    return;
  }
  by_switch_client_drop(at->client, job);
  do_without(at->switches, tree, which);
  by_warn("control", "switch %s grants tree %u other slots or ports than before; it forwards from here on", at->name,
          job);
}

static void want(const struct by_in_network_tree *tree, uint32_t which) {
  struct by_reservation reservation;
  const struct by_tree_ends *ends = &tree->ends;
  enum banyan_status status = BANYAN_OK;
  by_tree_reservation(tree->tree, ends, which, &reservation);
  if (reservation.slots > tree->parts[which].allowed) reservation.slots = tree->parts[which].allowed;
  reservation.keyed = ends->keyed;
  if (ends->keyed)
    status = by_hop_secret_derive(ends->secret, sizeof ends->secret, ends->job, ends->key, reservation.secret);
  if (status == BANYAN_OK) status = by_switch_client_want(tree->parts[which].asked->client, &reservation);
  explicit_bzero(reservation.secret, sizeof reservation.secret);
  if (status == BANYAN_OK) return;
  snprintf(tree->parts[which].asked->why, sizeof tree->parts[which].asked->why, "%s", banyan_error_text());
  tree->parts[which].refused = true;
}

/* Returns whether another tree has this number, by which switches, and ends with several trees, tell trees apart. */
static bool is_taken(const struct by_switches *switches, const struct by_in_network_tree *tree, uint16_t job) {
  const struct by_in_network_tree *other = switches->trees;
  while (other && (other == tree || other->ends.job != job)) other = other->next;
  return other;
}

enum banyan_status by_switches_choose_numbers(const struct by_switches *switches, struct by_in_network_tree *tree) {
  struct {
    uint16_t job, key;
    unsigned char secret[BY_TREE_SECRET];
  } random;
  do {
    if (getrandom(&random, sizeof random, 0) != sizeof random)
      return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no random numbers for a tree through switches");
  } while (is_taken(switches, tree, random.job));
  tree->ends.job = random.job;
  tree->ends.key = random.key;
  memcpy(tree->ends.secret, random.secret, sizeof tree->ends.secret);
  explicit_bzero(&random, sizeof random);
  return BANYAN_OK;
}

static void rename_tree(const struct by_switches *switches, struct by_in_network_tree *tree) {
  uint16_t before = tree->ends.job;
  bool fresh = ++tree->renamed <= MOST_RENAMED && by_switches_choose_numbers(switches, tree) == BANYAN_OK;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    if (!tree->parts[s].asked) continue;
    tree->answers[s].granted = false;
    tree->parts[s].refused |= !fresh;
    if (!tree->parts[s].asked->client) continue;
    by_switch_client_drop(tree->parts[s].asked->client, before);
    if (!tree->parts[s].refused) want(tree, s);
  }
}

static void lost(void *context, uint16_t job, enum by_reservation_lost why, const char *text) {
  struct by_control_switch *at = context;
  uint32_t which;
  struct by_in_network_tree *tree = find_tree(at, job, &which);
  if (!tree) return;
  snprintf(at->why, sizeof at->why, "%s", text);
  if (tree->stage >= BY_TREE_GIVEN) {
    by_warn("control", "switch %s is lost to tree %u, whose sums go past it (%s)", at->name, job, text);
    if (why == BY_RESERVATION_TAKEN) do_without(at->switches, tree, which); /* It is not requested again. */
    return;
  }
  tree->answers[which].granted = false;
  if (why == BY_RESERVATION_TAKEN)
    rename_tree(at->switches, tree);
  else if (why == BY_RESERVATION_REFUSED)
    tree->parts[which].refused = true;
}

/* ---- asking */

static void want_all(struct by_control_switch *at) {
  for (struct by_in_network_tree *tree = at->switches->trees; tree; tree = tree->next)
    for (uint32_t s = 0; s < tree->tree->n_switches && tree->stage == BY_TREE_ASKED; s++)
      if (tree->parts[s].asked == at) want(tree, s);
}

/* Prints the family: the same for all memberships of a job. */
static enum banyan_status print_family(const struct by_job *job, char out[BY_RESERVATION_FAMILY + 1]) {
  struct by_key hash;
  BY_TRY(by_key_hash(by_key_ring_job(by_job_keys(job)), "switches", &hash));
  for (int i = 0; i < BY_RESERVATION_FAMILY; i++) out[i] = "0123456789abcdef"[hash.bytes[i] & 15];
  out[BY_RESERVATION_FAMILY] = '\0';
  return BANYAN_OK;
}

static enum banyan_status open_client(struct by_control_switch *at, const struct by_address *address) {
  const char *secret = at->key;
  const struct by_job *job = at->switches->job;
  struct by_key key = {{0}};
  char family[BY_RESERVATION_FAMILY + 1];
  struct by_switch_client_options options = {.loop = by_job_loop(at->switches->job),
                                             .name = at->name,
                                             .address = *address,
                                             .key = secret ? &key : NULL,
                                             .encryption = by_encryption_of(by_job_settings(job)->encrypt),
                                             .identity = by_job_identity(job),
                                             .family = by_job_membership(job) ? family : NULL,
                                             .granted = granted,
                                             .lost = lost,
                                             .context = at};
  enum banyan_status status = options.family ? print_family(job, family) : BANYAN_OK;
  if (status == BANYAN_OK && secret) status = by_key_derive(secret, &key);
  if (status == BANYAN_OK) status = by_switch_client_create(&options, &at->client);
  explicit_bzero(&key, sizeof key);
  return status;
}

static void look_for(struct by_control_switch *at) {
  struct by_address address;
  bool done = false;
  size_t n;
  enum banyan_status status = by_resolving_look(at->resolving, &address, 1, &n, &done);
  if (status == BANYAN_OK && !done) return;
  by_resolving_destroy(at->resolving);
  at->resolving = NULL;
  if (status != BANYAN_OK) at->looked++;
  if (status == BANYAN_OK) status = open_client(at, &address);
  if (status == BANYAN_OK)
    want_all(at);
  else
    lose_all(at, banyan_error_text());
}

/* Returns whether an answer may still come. Where nothing listens, a switch may be about to start. A silent one may
 * have lost a packet: Linux repeats the first packet of a connection, and a question for a neighbour, after a second.
 */
static bool may_answer(const struct by_in_network_tree *tree, uint32_t which, uint64_t now) {
  if (tree->answers[which].granted || tree->parts[which].refused) return false;
  uint64_t timeout = *tree->parts[which].asked->why ? STARTING_MS : TIMEOUT_MS;
  return now < tree->since + timeout * BY_MILLISECOND;
}

/* Settles a tree, as time is up or all have answered: a switch without a grant has no part. */
static void settle(const struct by_switches *switches, struct by_in_network_tree *tree) {
  tree->stage = BY_TREE_SETTLED;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    struct by_control_switch *at = tree->parts[s].asked;
    if (tree->answers[s].granted || !at) continue;
    tree->parts[s].refused = true;
    if (at->client) by_switch_client_drop(at->client, tree->ends.job);
    if (!tree->together)
      by_warn("control", "switch %s has no part in tree %u, whose sums go past it (%s)", at->name, tree->ends.job,
              *at->why ? at->why : "it has not answered");
  }
  switches->events.settled(switches->events.context, tree);
}

/* Returns whether the tree waits for answers. One refusal ends the wait where all switches must grant. */
static bool is_awaited(const struct by_in_network_tree *tree, uint64_t now) {
  bool awaited = false, refused = false;
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    awaited |= may_answer(tree, s, now);
    refused |= tree->parts[s].refused;
  }
  return awaited && !(refused && tree->together);
}

bool by_switches_look(struct by_switches *switches) {
  uint64_t now = by_loop_now(by_job_loop(switches->job));
  bool waiting = false, settled = false;
  for (struct by_control_switch *at = switches->first; at; at = at->next)
    if (at->resolving) look_for(at);
  for (struct by_in_network_tree *tree = switches->trees, *next; tree; tree = next) {
    next = tree->next;
    if (tree->stage != BY_TREE_ASKED) continue;
    bool awaited = is_awaited(tree, now);
    waiting |= awaited;
    if (awaited) continue;
    settle(switches, tree);
    settled = true;
  }
  if (settled && !waiting) switches->events.changed(switches->events.context);
  return waiting;
}

/* Takes an aggregator's part as granted: it has memory of its own. */
static void take_aggregator(struct by_in_network_tree *tree, uint32_t s) {
  struct by_tree_answer *answer = &tree->answers[s];
  answer->granted = !tree->parts[s].refused;
  answer->what = (struct by_granted){.slots = tree->parts[s].allowed, .n_below = tree->tree->switches[s].n_below};
  if (!answer->granted)
    by_warn("control", "aggregator \"%s\" is not there: its workers of tree %u send to the server",
            tree->tree->switches[s].name, tree->ends.job);
}

void by_switches_lose(struct by_in_network_tree *tree, uint32_t process) {
  for (uint32_t s = 0; s < tree->tree->n_switches && tree->stage < BY_TREE_GIVEN; s++) {
    if (tree->parts[s].asked || tree->answers[s].aggregator != process) continue;
    tree->parts[s].refused = true;
    tree->answers[s].granted = false;
  }
}

/* Looks up a switch's address again for another tree: its name may be known by now. */
static enum banyan_status look_again(struct by_control_switch *at) {
  if (at->resolving) return BANYAN_OK;
  at->why[0] = 0;
  enum banyan_status status = by_resolving_start(at->place, at->looked, &at->resolving);
  if (status != BANYAN_OK) snprintf(at->why, sizeof at->why, "%s", banyan_error_text());
  return status;
}

void by_switches_ask(struct by_switches *switches, struct by_in_network_tree *tree) {
  tree->stage = BY_TREE_ASKED;
  tree->since = by_loop_now(by_job_loop(switches->job));
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    if (!tree->parts[s].asked) {
      take_aggregator(tree, s);
    } else if (tree->parts[s].asked->client) {
      tree->parts[s].asked->why[0] = 0; /* Earlier trees' failures there say nothing about this one. */
      want(tree, s);
    } else {
      tree->parts[s].refused = look_again(tree->parts[s].asked) != BANYAN_OK;
    }
}

bool by_switches_lack(const struct by_in_network_tree *tree, char *text, size_t room) {
  for (uint32_t s = 0; s < tree->tree->n_switches; s++) {
    const struct by_tree_part *part = &tree->parts[s];
    const struct by_tree_answer *answer = &tree->answers[s];
    if (!answer->granted && !part->asked)
      snprintf(text, room, "its aggregator \"%s\" is lost", tree->tree->switches[s].name);
    else if (!answer->granted)
      snprintf(text, room, "switch %s grants nothing: %s", part->asked->name,
               *part->asked->why ? part->asked->why : "it has not answered");
    else if (part->asked && tree->tree->switches[s].adds && answer->what.slots < part->least)
      snprintf(text, room, "switch %s grants %u of %u slots", part->asked->name, answer->what.slots, part->allowed);
    else
      continue;
    return true;
  }
  return false;
}

void by_switches_drop(const struct by_in_network_tree *tree) {
  for (uint32_t s = 0; s < tree->tree->n_switches; s++)
    if (tree->parts[s].asked && tree->parts[s].asked->client)
      by_switch_client_drop(tree->parts[s].asked->client, tree->ends.job);
}

void by_switches_fini(struct by_switches *switches) {
  while (switches->first) {
    struct by_control_switch *at = switches->first;
    switches->first = at->next;
    by_switch_client_destroy(at->client);
    by_resolving_destroy(at->resolving);
    free(at);
  }
}
