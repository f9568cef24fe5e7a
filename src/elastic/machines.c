/* The memberships of a process, each with its Paxos machine, and the facts that carry over to later ones. */
#include "machines.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { ASK_MS = 300 /* Milliseconds before an unanswered message is sent again for the first time. */ };

struct by_paxos_instance {
  struct by_machines *machines;
  struct by_membership *membership;
  struct by_paxos *paxos;
  struct by_timer timer;
  bool met, late;
  /* Set by callbacks of the machine while it is called; settle() evaluates them. */
  struct by_membership *successor; /* The decided successor, owned; NULL if none was decided. */
  char *ended;                     /* Why this process is in no successor; NULL if the machine has not ended. */
};

/* ---- what a machine does */

static void warn(const struct by_paxos_instance *machine, enum banyan_status status) {
  if (status != BANYAN_OK) by_warn("member", "membership \"%s\": %s", machine->membership->name, banyan_error_text());
}

static struct by_paxos_instance *newest(const struct by_machines *machines) {
  return machines->n && !machines->ended[0] ? machines->machines[0] : NULL;
}

static void on_send(void *context, uint32_t to, const void *message, size_t length) {
  const struct by_paxos_instance *machine = context;
  const struct by_machines_events *events = &machine->machines->events;
  events->send(events->context, &machine->membership->members[to].fingerprint, message, length);
}

static void on_welcome(void *context, const struct by_fingerprint *to, const void *message, size_t length) {
  struct by_paxos_instance *machine = context;
  const struct by_machines_events *events = &machine->machines->events;
  struct by_membership *next;
  const struct by_successor *successor = by_paxos_decision(machine->paxos);
  if (!successor || by_successor_apply(successor, machine->membership, &next) != BANYAN_OK) return;
  events->welcome(events->context, next, to, message, length);
  by_membership_destroy(next);
}

static void on_set_timer(void *context, uint64_t delay) {
  struct by_paxos_instance *machine = context;
  by_loop_set_delay(machine->machines->loop, &machine->timer, delay);
}

static void on_decided(void *context, const struct by_successor *successor) {
  struct by_paxos_instance *machine = context;
  warn(machine, by_successor_apply(successor, machine->membership, &machine->successor));
}

static void on_ended(void *context, const char *text) {
  struct by_paxos_instance *machine = context;
  char late[1024];
  snprintf(late, sizeof late,
           "the other members of \"%s\" go on without this process, since its program did not call "
           "banyan_member_recover in time",
           machine->membership->name);
  free(machine->ended);
  machine->ended = strdup(machine->late ? late : text);
}

/* Notifies the other machines that an excluded process has ended. */
static void on_gone(void *context, const struct by_fingerprint *fingerprint) {
  struct by_paxos_instance *machine = context;
  struct by_machines *machines = machine->machines;
  by_facts_note(&machines->gone, fingerprint, "processes that left and ended");
  for (uint32_t i = 0; i < machines->n; i++)
    if (machines->machines[i] != machine) warn(machine, by_paxos_gone(machines->machines[i]->paxos, fingerprint));
}

static enum banyan_status enter(struct by_machines *machines, struct by_membership *membership, bool met);

/* Evaluates what a machine reported while it was called. Decisions of machines other than the newest are ignored. */
static void settle(struct by_paxos_instance *machine, enum banyan_status status) {
  struct by_machines *machines = machine->machines;
  struct by_membership *successor = machine->successor;
  char *ended = machine->ended;
  bool is_newest = machine == newest(machines);
  machine->successor = NULL;
  machine->ended = NULL;
  warn(machine, status);
  if (successor && is_newest) {
    warn(machine, enter(machines, successor, false));
  } else {
    by_membership_destroy(successor);
    if (ended && is_newest) {
      snprintf(machines->ended, sizeof machines->ended, "%s", ended);
      by_info("member", "%s", ended);
      machines->events.ended(machines->events.context, machines->ended);
    }
  }
  free(ended);
}

static void expired(void *context) {
  struct by_paxos_instance *machine = context;
  settle(machine, by_paxos_timer(machine->paxos));
}

/* ---- memberships */

static void free_machine(struct by_paxos_instance *machine) {
  by_loop_cancel_timer(&machine->timer);
  by_paxos_destroy(machine->paxos);
  by_membership_destroy(machine->membership);
  by_membership_destroy(machine->successor);
  free(machine->ended);
  free(machine);
}

static enum banyan_status make_machine(struct by_machines *machines, struct by_membership *membership, uint32_t self,
                                       struct by_paxos_instance **out) {
  struct by_paxos_instance *machine = calloc(1, sizeof *machine);
  if (!machine) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership");
  *machine = (struct by_paxos_instance){.machines = machines, .membership = membership};
  by_timer_init(&machine->timer, expired, machine);
  struct by_paxos_config config = {.membership = membership,
                                   .self = self,
                                   .delay = ASK_MS * BY_MILLISECOND,
                                   .send = on_send,
                                   .welcome = on_welcome,
                                   .set_timer = on_set_timer,
                                   .decided = on_decided,
                                   .ended = on_ended,
                                   .gone = on_gone,
                                   .context = machine};
  enum banyan_status status = BANYAN_OK;
  if (RAND_bytes(config.root, sizeof config.root) != 1 || RAND_bytes((uint8_t *)&config.seed, sizeof config.seed) != 1)
    status = by_fail(BANYAN_ERR_SYSTEM, "the system has no randomness");
  if (status == BANYAN_OK) status = by_paxos_create(&config, &machine->paxos);
  if (status == BANYAN_OK)
    *out = machine;
  else
    free(machine);
  return status;
}

static void push(struct by_machines *machines, struct by_paxos_instance *machine) {
  if (machines->n == BY_MACHINES_KEPT) free_machine(machines->machines[--machines->n]);
  memmove(machines->machines + 1, machines->machines, machines->n * sizeof(struct by_paxos_instance *));
  machines->machines[0] = machine;
  machines->n++;
  machines->ended[0] = 0;
}

/* Passes known facts about its members to a new machine. Sets *has_dead if a member is dead. */
static enum banyan_status apply_facts(struct by_paxos_instance *machine, bool *has_dead) {
  const struct by_machines *machines = machine->machines;
  const struct by_membership *membership = machine->membership;
  for (uint32_t i = 0; i < membership->n + membership->n_excluded; i++) {
    const struct by_fingerprint *fingerprint = &membership->members[i].fingerprint;
    bool dead = by_facts_has(&machines->dead, fingerprint);
    if (i >= membership->n && (dead || by_facts_has(&machines->gone, fingerprint)))
      BY_TRY(by_paxos_gone(machine->paxos, fingerprint));
    else if (i < membership->n && dead)
      BY_TRY(by_paxos_dead(machine->paxos, i));
    *has_dead |= i < membership->n && dead;
  }
  return machines->leaves ? by_paxos_leave(machine->paxos) : BANYAN_OK;
}

static void take_early(struct by_machines *machines, uint64_t number);

static enum banyan_status enter(struct by_machines *machines, struct by_membership *membership, bool met) {
  struct by_paxos_instance *machine = NULL;
  bool has_dead = false;
  uint32_t self = by_membership_find(membership, &machines->self);
  uint64_t number = membership->number;
  enum banyan_status status = BANYAN_OK;
  if (self >= membership->n)
    status = by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" is without this process", membership->name);
  if (status == BANYAN_OK) status = make_machine(machines, membership, self, &machine);
  if (status != BANYAN_OK) {
    by_membership_destroy(membership);
    return status;
  }
  push(machines, machine);
  by_info("member", "the newest membership is \"%s\", of %u processes", membership->name, membership->n);
  BY_TRY(apply_facts(machine, &has_dead));
  machines->events.entered(machines->events.context);
  if (met)
    by_machines_formed(machines, membership->number);
  else if (has_dead)
    by_machines_request(machines);
  take_early(machines, number);
  return BANYAN_OK;
}

enum banyan_status by_machines_welcomed(struct by_machines *machines, struct by_membership *membership) {
  return enter(machines, membership, false);
}

enum banyan_status by_machines_found(struct by_machines *machines, struct by_membership *membership) {
  struct by_paxos_instance *before = newest(machines);
  if (machines->n) machines->leaves = false; /* The wish to leave concerned the previous membership. */
  BY_TRY(enter(machines, membership, true));
  if (before) settle(before, by_paxos_leave(before->paxos));
  return BANYAN_OK;
}

static struct by_paxos_instance *find(const struct by_machines *machines, uint64_t number) {
  for (uint32_t i = 0; i < machines->n; i++)
    if (machines->machines[i]->membership->number == number) return machines->machines[i];
  return NULL;
}

/* Returns the rank of a member; UINT32_MAX if it is no member. */
static uint32_t rank_of(const struct by_paxos_instance *machine, const struct by_fingerprint *fingerprint) {
  uint32_t rank = by_membership_find(machine->membership, fingerprint);
  return rank < machine->membership->n ? rank : UINT32_MAX;
}

const struct by_membership *by_machines_newest(const struct by_machines *machines) {
  const struct by_paxos_instance *machine = newest(machines);
  return machine ? machine->membership : NULL;
}

bool by_machines_is_active(const struct by_machines *machines) {
  const struct by_paxos_instance *machine = newest(machines);
  return machine && (!machine->met || by_paxos_state(machine->paxos) != BY_PAXOS_QUIET);
}

bool by_machines_has(const struct by_machines *machines, const struct by_fingerprint *fingerprint) {
  for (uint32_t i = 0; i < machines->n; i++)
    if (by_membership_find(machines->machines[i]->membership, fingerprint) != BY_NO_MEMBER) return true;
  return false;
}

/* ---- messages */

/* Keeps a message about an unknown membership and asks its sender for that; the coordinator died before it had notified
 * all members. */
static void keep_early(struct by_machines *machines, const struct by_fingerprint *from, const uint8_t *message,
                       size_t length) {
  struct by_paxos_instance *machine = newest(machines);
  uint32_t rank = machine ? rank_of(machine, from) : UINT32_MAX;
  bool asks = message[0] == BY_PAXOS_REPORT || message[0] == BY_PAXOS_PREPARE || message[0] == BY_PAXOS_ACCEPT;
  if (rank == UINT32_MAX || !asks || by_fingerprint_equal(from, &machines->self)) return;
  struct by_early_message *early = &machines->early[machines->next_early++ % BY_EARLY_KEPT];
  free(early->message);
  *early = (struct by_early_message){.from = *from, .message = malloc(length), .length = length};
  if (early->message) memcpy(early->message, message, length);
  settle(machine, by_paxos_ask(machine->paxos, rank));
}

void by_machines_receive(struct by_machines *machines, const struct by_fingerprint *from, const void *message,
                         size_t length) {
  if (length < 9) return;
  struct by_paxos_instance *machine = find(machines, by_get_u64((const uint8_t *)message + 1));
  if (!machine) {
    keep_early(machines, from, message, length);
    return;
  }
  uint32_t rank = rank_of(machine, from);
  if (rank == UINT32_MAX || by_fingerprint_equal(from, &machines->self)) return;
  settle(machine, by_paxos_receive(machine->paxos, rank, message, length));
}

/* Delivers the messages that arrived before this membership was known. */
static void take_early(struct by_machines *machines, uint64_t number) {
  for (uint32_t i = 0; i < BY_EARLY_KEPT; i++) {
    struct by_early_message early = machines->early[i];
    if (!early.message || by_get_u64(early.message + 1) != number) continue;
    machines->early[i].message = NULL;
    by_machines_receive(machines, &early.from, early.message, early.length);
    free(early.message);
  }
}

/* ---- what happens */

void by_machines_request(struct by_machines *machines) {
  struct by_paxos_instance *machine = newest(machines);
  if (machine) settle(machine, by_paxos_request(machine->paxos));
}

void by_machines_formed(struct by_machines *machines, uint64_t number) {
  struct by_paxos_instance *machine = find(machines, number);
  if (!machine) return;
  machine->met = true;
  settle(machine, by_paxos_formed(machine->paxos));
}

/* Notifies all machines, the newest last, since it may enter another. */
static void notify_all(struct by_machines *machines, const struct by_fingerprint *fingerprint, bool dead) {
  for (uint32_t i = machines->n; i-- > 0;) {
    struct by_paxos_instance *machine = machines->machines[i];
    uint32_t rank = rank_of(machine, fingerprint);
    if (rank == UINT32_MAX && dead) warn(machine, by_paxos_gone(machine->paxos, fingerprint));
    if (rank == UINT32_MAX || by_fingerprint_equal(fingerprint, &machines->self)) continue;
    enum banyan_status status = dead ? by_paxos_dead(machine->paxos, rank) : by_paxos_suspect(machine->paxos, rank);
    if (status == BANYAN_OK && machine == newest(machines) && !machine->met) status = by_paxos_request(machine->paxos);
    settle(machine, status);
  }
}

void by_machines_suspect(struct by_machines *machines, const struct by_fingerprint *fingerprint) {
  notify_all(machines, fingerprint, false);
}

void by_machines_dead(struct by_machines *machines, const struct by_fingerprint *fingerprint) {
  by_facts_note(&machines->dead, fingerprint, "processes that are proven dead");
  notify_all(machines, fingerprint, true);
}

void by_machines_trust(struct by_machines *machines, const struct by_fingerprint *fingerprint) {
  for (uint32_t i = 0; i < machines->n; i++) {
    uint32_t rank = rank_of(machines->machines[i], fingerprint);
    if (rank != UINT32_MAX) by_paxos_trust(machines->machines[i]->paxos, rank);
  }
}

void by_machines_remind(struct by_machines *machines, const struct by_fingerprint *fingerprint) {
  struct by_paxos_instance *machine = newest(machines);
  uint32_t rank = machine ? rank_of(machine, fingerprint) : UINT32_MAX;
  if (rank != UINT32_MAX) settle(machine, by_paxos_remind(machine->paxos, rank));
}

void by_machines_leave(struct by_machines *machines) {
  struct by_paxos_instance *machine = newest(machines);
  machines->leaves = true;
  if (machine) settle(machine, by_paxos_leave(machine->paxos));
}

void by_machines_late(struct by_machines *machines, uint64_t number) {
  struct by_paxos_instance *machine = newest(machines);
  if (!machine || machine->membership->number != number || machine->met) return;
  machine->late = true;
  settle(machine, by_paxos_leave(machine->paxos));
}

/* Asks the machines from the oldest one on, since members of the oldest membership to which the newcomer was added may
 * wait for it. */
enum banyan_status by_machines_join(struct by_machines *machines, const struct by_fingerprint *newcomer) {
  for (uint32_t i = machines->n; i-- > 0;) {
    enum banyan_status status = by_paxos_join(machines->machines[i]->paxos, newcomer);
    if (status != BANYAN_ERR_CLOSED) return status;
  }
  return by_fail(BANYAN_ERR_CLOSED, "%s", machines->ended[0] ? machines->ended : "this process is in no membership");
}

void by_machines_withdraw(struct by_machines *machines, const struct by_fingerprint *newcomer) {
  for (uint32_t i = 0; i < machines->n; i++) by_paxos_withdraw(machines->machines[i]->paxos, newcomer);
}

const char *by_machines_explain(const struct by_machines *machines, char *text) {
  const struct by_paxos_instance *machine = newest(machines);
  if (machine) return by_paxos_explain(machine->paxos, text);
  snprintf(text, BY_QUORUM_TEXT, "this process is in no membership");
  return text;
}

/* ---- life */

void by_machines_init(struct by_machines *machines, struct by_loop *loop, const struct by_fingerprint *self,
                      const struct by_machines_events *events) {
  *machines = (struct by_machines){.loop = loop, .self = *self, .events = *events};
}

void by_machines_fini(struct by_machines *machines) {
  while (machines->n) free_machine(machines->machines[--machines->n]);
  for (uint32_t i = 0; i < BY_EARLY_KEPT; i++) free(machines->early[i].message);
  by_facts_fini(&machines->dead);
  by_facts_fini(&machines->gone);
}
