/* A Paxos machine's acceptor, and its decision on what happens next: it handles messages, timers and reports. */
#include "paxos.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "paxos_object.h"

enum {
  FOLLOWS = 2, /* Timers that a member allows another member's round; more than the round needs to ask all members. */
  WAITS = 2,   /* Timers for which a member waits for one coordinator. */
  TIMERS_MOST = 20 /* Maximum timers of a change, after which the machine ends. */
};

/* ---- who proposes */

/* Returns the first member that is believed alive; after waiting, the next one, and so on. */
static uint32_t find_coordinator(const struct by_paxos *paxos) {
  uint32_t skip = paxos->waits / WAITS, first = paxos->config.self;
  for (uint32_t i = 0; i < paxos->n; i++) {
    if (by_rank_set_has(&paxos->view.dead, i) || by_rank_set_has(&paxos->view.suspected, i)) continue;
    if (skip == 0) return i;
    skip--;
  }
  return first;
}

static enum banyan_status report(struct by_paxos *paxos, uint32_t to) {
  return by_paxos_reply(paxos, to, (struct by_paxos_message){.kind = BY_PAXOS_REPORT, .view = paxos->view});
}

static enum banyan_status act(struct by_paxos *paxos) {
  uint32_t coordinator = find_coordinator(paxos);
  if (coordinator == paxos->config.self) return by_paxos_begin_round(paxos);
  by_paxos_wait(paxos);
  return report(paxos, coordinator);
}

/* Reconsiders who proposes, or counts votes, after something became known. */
static enum banyan_status consider(struct by_paxos *paxos) {
  uint32_t proposer = (uint32_t)(paxos->promised % paxos->n);
  bool proposer_lost = !paxos->promised || by_rank_set_has(&paxos->view.dead, proposer) ||
                       by_rank_set_has(&paxos->view.suspected, proposer);
  switch (paxos->state) {
  case BY_PAXOS_QUIET: return BANYAN_OK;
  case BY_PAXOS_WAITING:
    return proposer_lost && find_coordinator(paxos) == paxos->config.self ? by_paxos_begin_round(paxos) : BANYAN_OK;
  case BY_PAXOS_PREPARING:
  case BY_PAXOS_ACCEPTING: return by_paxos_check_votes(paxos);
  case BY_PAXOS_CLOSED:
  case BY_PAXOS_ENDED: break;
  }
  return BANYAN_OK;
}

/* ---- messages */

static void merge_view(struct by_paxos *paxos, const struct by_paxos_view *view) {
  by_rank_set_merge(&paxos->view.dead, &view->dead);
  by_rank_set_merge(&paxos->view.leaving, &view->leaving);
  by_rank_set_merge(&paxos->view.gone, &view->gone);
  paxos->view.settled |= view->settled;
  for (uint32_t i = 0; i < view->n_newcomers; i++) by_paxos_view_add(&paxos->view, &view->newcomers[i]);
}

static enum banyan_status refuse(struct by_paxos *paxos, uint32_t from, uint64_t ballot) {
  return by_paxos_reply(
      paxos, from, (struct by_paxos_message){.kind = BY_PAXOS_REFUSED, .ballot = ballot, .accepted = paxos->promised});
}

/* Follows the round of another member, whose ballot is not below a promised one. */
static void follow(struct by_paxos *paxos, uint64_t ballot) {
  if (paxos->state == BY_PAXOS_QUIET)
    by_paxos_arm(paxos); /* In other states the timer keeps running, so that rounds of others cannot delay the end. */
  if (ballot > paxos->promised || paxos->state == BY_PAXOS_QUIET) {
    paxos->state = BY_PAXOS_WAITING;
    paxos->followed = FOLLOWS;
  }
  paxos->promised = ballot;
}

static enum banyan_status handle_prepare(struct by_paxos *paxos, uint32_t from,
                                         const struct by_paxos_message *message) {
  if (message->ballot < paxos->promised) return refuse(paxos, from, message->ballot);
  follow(paxos, message->ballot);
  return by_paxos_reply(paxos, from,
                        (struct by_paxos_message){.kind = BY_PAXOS_PROMISE,
                                                  .ballot = message->ballot,
                                                  .accepted = paxos->accepted,
                                                  .value = paxos->accepted_value.bytes,
                                                  .length = paxos->accepted_value.length,
                                                  .view = paxos->view});
}

static enum banyan_status handle_accept(struct by_paxos *paxos, uint32_t from, const struct by_paxos_message *message) {
  struct by_successor successor;
  if (message->ballot < paxos->promised) return refuse(paxos, from, message->ballot);
  BY_TRY(by_successor_read(message->value, message->length, paxos->membership, &successor));
  by_successor_fini(&successor);
  BY_TRY(by_paxos_set_value(&paxos->accepted_value, message->value, message->length));
  follow(paxos, message->ballot);
  paxos->accepted = message->ballot;
  return by_paxos_reply(paxos, from, (struct by_paxos_message){.kind = BY_PAXOS_ACCEPTED, .ballot = message->ballot});
}

static enum banyan_status handle_promise(struct by_paxos *paxos, uint32_t from,
                                         const struct by_paxos_message *message) {
  merge_view(paxos, &message->view);
  if (paxos->state != BY_PAXOS_PREPARING || message->ballot != paxos->ballot) return BANYAN_OK;
  return by_paxos_add_promise(paxos, from, message);
}

static enum banyan_status handle_accepted(struct by_paxos *paxos, uint32_t from,
                                          const struct by_paxos_message *message) {
  if (paxos->state != BY_PAXOS_ACCEPTING || message->ballot != paxos->ballot) return BANYAN_OK;
  by_rank_set_add(&paxos->votes, from);
  return by_paxos_check_votes(paxos);
}

static enum banyan_status handle_refused(struct by_paxos *paxos, const struct by_paxos_message *message) {
  if (message->accepted > paxos->highest) paxos->highest = message->accepted;
  bool proposes = paxos->state == BY_PAXOS_PREPARING || paxos->state == BY_PAXOS_ACCEPTING;
  if (proposes && message->ballot == paxos->ballot) by_paxos_wait(paxos);
  return BANYAN_OK;
}

static enum banyan_status handle_excluded(struct by_paxos *paxos, uint32_t from,
                                          const struct by_paxos_message *message) {
  char name[BY_MEMBERSHIP_NAME + 1];
  if (message->length >= sizeof name) return by_fail(BANYAN_ERR_PROTOCOL, "the name of a membership is too long");
  memcpy(name, message->value, message->length);
  name[message->length] = 0;
  by_paxos_end_excluded(paxos, BY_PAXOS_ENDED, name);
  return by_paxos_reply(paxos, from, (struct by_paxos_message){.kind = BY_PAXOS_GONE});
}

/* Handles messages once the successor is known: members that do not know it are told. */
static enum banyan_status handle_late(struct by_paxos *paxos, uint32_t from, const struct by_paxos_message *message) {
  switch (message->kind) {
  case BY_PAXOS_REPORT:
  case BY_PAXOS_PREPARE:
  case BY_PAXOS_ACCEPT: return by_paxos_answer(paxos, from);
  case BY_PAXOS_GONE:
    paxos->config.gone(paxos->config.context, &paxos->membership->members[from].fingerprint);
    return BANYAN_OK;
  default: return BANYAN_OK;
  }
}

static enum banyan_status handle(struct by_paxos *paxos, uint32_t from, const struct by_paxos_message *message) {
  if (paxos->state == BY_PAXOS_CLOSED) return handle_late(paxos, from, message);
  switch (message->kind) {
  case BY_PAXOS_REPORT:
    merge_view(paxos, &message->view);
    paxos->asked = true;
    return by_paxos_request(paxos);
  case BY_PAXOS_PREPARE:
  case BY_PAXOS_ACCEPT:
    if (message->ballot % paxos->n != from)
      return by_fail(BANYAN_ERR_PROTOCOL, "rank %u uses ballot %llu, which is rank %llu's", from,
                     (unsigned long long)message->ballot, (unsigned long long)message->ballot % paxos->n);
    /* The sender wrongly believes this process dead. */
    if (by_rank_set_has(&message->view.dead, paxos->config.self)) return BANYAN_OK;
    by_rank_set_merge(&paxos->view.dead, &message->view.dead);
    return message->kind == BY_PAXOS_PREPARE ? handle_prepare(paxos, from, message)
                                             : handle_accept(paxos, from, message);
  case BY_PAXOS_NOTICE: merge_view(paxos, &message->view); return BANYAN_OK;
  case BY_PAXOS_PROMISE: return handle_promise(paxos, from, message);
  case BY_PAXOS_ACCEPTED: return handle_accepted(paxos, from, message);
  case BY_PAXOS_REFUSED: return handle_refused(paxos, message);
  case BY_PAXOS_DECIDED: return by_paxos_learn(paxos, message->value, message->length);
  case BY_PAXOS_EXCLUDED: return handle_excluded(paxos, from, message);
  default: return BANYAN_OK;
  }
}

enum banyan_status by_paxos_receive(struct by_paxos *paxos, uint32_t from, const void *message, size_t length) {
  struct by_paxos_message read;
  assert(from < paxos->n);
  if (by_rank_set_has(&paxos->view.dead, from)) return BANYAN_OK;
  BY_TRY(by_paxos_message_read(message, length, paxos->membership, &read));
  enum banyan_status status = BANYAN_OK;
  if (paxos->state != BY_PAXOS_ENDED)
    status = handle(paxos, from, &read);
  else if (read.kind == BY_PAXOS_EXCLUDED)
    status = by_paxos_reply(paxos, from, (struct by_paxos_message){.kind = BY_PAXOS_GONE});
  by_paxos_view_fini(&read.view);
  return status;
}

/* ---- what else happens */

enum banyan_status by_paxos_request(struct by_paxos *paxos) {
  return paxos->state == BY_PAXOS_QUIET ? act(paxos) : consider(paxos);
}

enum banyan_status by_paxos_timer(struct by_paxos *paxos) {
  if (paxos->state == BY_PAXOS_QUIET || paxos->state >= BY_PAXOS_CLOSED) return BANYAN_OK;
  if (++paxos->timers > TIMERS_MOST) {
    by_paxos_give_up(paxos);
    return BANYAN_OK;
  }
  if (paxos->state != BY_PAXOS_WAITING) return by_paxos_ask_again(paxos);
  if (paxos->followed) { /* The other member's round has time left. */
    paxos->followed--;
    by_paxos_wait(paxos);
    return report(paxos, (uint32_t)(paxos->promised % paxos->n));
  }
  paxos->waits++;
  return paxos->asked && paxos->waits >= WAITS ? by_paxos_begin_round(paxos) : act(paxos);
}

enum banyan_status by_paxos_ask(struct by_paxos *paxos, uint32_t rank) {
  assert(rank < paxos->n);
  return paxos->state < BY_PAXOS_CLOSED ? report(paxos, rank) : BANYAN_OK;
}

enum banyan_status by_paxos_suspect(struct by_paxos *paxos, uint32_t rank) {
  assert(rank < paxos->n);
  return by_rank_set_add(&paxos->view.suspected, rank) ? consider(paxos) : BANYAN_OK;
}

enum banyan_status by_paxos_dead(struct by_paxos *paxos, uint32_t rank) {
  assert(rank < paxos->n);
  return by_rank_set_add(&paxos->view.dead, rank) ? consider(paxos) : BANYAN_OK;
}

enum banyan_status by_paxos_leave(struct by_paxos *paxos) {
  return by_rank_set_add(&paxos->view.leaving, paxos->config.self) ? consider(paxos) : BANYAN_OK;
}

enum banyan_status by_paxos_join(struct by_paxos *paxos, const struct by_fingerprint *newcomer) {
  if (paxos->state == BY_PAXOS_CLOSED) {
    for (uint32_t i = 0; i < paxos->successor.n_added; i++)
      if (by_fingerprint_equal(&paxos->successor.added[i], newcomer)) return by_paxos_send_welcome(paxos, newcomer, 1);
  }
  if (paxos->state >= BY_PAXOS_CLOSED)
    return by_fail(BANYAN_ERR_CLOSED, "membership \"%s\" has a successor: ask a member of that to join",
                   paxos->membership->name);
  if (by_membership_find(paxos->membership, newcomer) != BY_NO_MEMBER) return BANYAN_OK;
  return by_paxos_view_add(&paxos->view, newcomer) ? consider(paxos) : BANYAN_OK;
}

void by_paxos_withdraw(struct by_paxos *paxos, const struct by_fingerprint *newcomer) {
  struct by_paxos_view *view = &paxos->view;
  for (uint32_t i = 0; i < view->n_newcomers; i++)
    if (by_fingerprint_equal(&view->newcomers[i], newcomer)) {
      view->newcomers[i] = view->newcomers[--view->n_newcomers];
      return;
    }
}

void by_paxos_trust(struct by_paxos *paxos, uint32_t rank) {
  assert(rank < paxos->n);
  by_rank_set_remove(&paxos->view.suspected, rank);
}

enum banyan_status by_paxos_remind(struct by_paxos *paxos, uint32_t rank) {
  assert(rank < paxos->n);
  switch (paxos->state) {
  case BY_PAXOS_WAITING: {
    bool proposes = paxos->followed && paxos->promised % paxos->n == rank;
    return proposes || find_coordinator(paxos) == rank ? report(paxos, rank) : BANYAN_OK;
  }
  case BY_PAXOS_PREPARING:
  case BY_PAXOS_ACCEPTING: return by_paxos_ask_member(paxos, rank);
  default: return BANYAN_OK;
  }
}

/* Marks the membership as settled once no excluded process can continue, or have continued, without it. Only a founder
 * can know that: excluded processes could have decided something only with proof that all founders are dead. So the
 * first member to know notifies the others. */
static enum banyan_status check_settled(struct by_paxos *paxos) {
  const struct by_membership *membership = paxos->membership;
  bool founder = membership->members[paxos->config.self].flags & BY_MEMBER_FOUNDER;
  if (paxos->view.settled || !paxos->formed || paxos->state >= BY_PAXOS_CLOSED) return BANYAN_OK;
  if (membership->n_excluded && (!founder || by_rank_set_count(&paxos->view.gone) < membership->n_excluded))
    return BANYAN_OK;
  paxos->view.settled = true;
  if (!membership->n_excluded || find_coordinator(paxos) != paxos->config.self) return BANYAN_OK;
  struct by_rank_set all;
  BY_TRY(by_rank_set_init(&all, paxos->n));
  for (uint32_t i = 0; i < paxos->n; i++) by_rank_set_add(&all, i);
  enum banyan_status status =
      by_paxos_send(paxos, &all, (struct by_paxos_message){.kind = BY_PAXOS_NOTICE, .view = paxos->view});
  by_rank_set_fini(&all);
  return status;
}

enum banyan_status by_paxos_formed(struct by_paxos *paxos) {
  paxos->formed = true;
  return check_settled(paxos);
}

enum banyan_status by_paxos_gone(struct by_paxos *paxos, const struct by_fingerprint *fingerprint) {
  uint32_t rank = by_membership_find(paxos->membership, fingerprint);
  if (rank == BY_NO_MEMBER || rank < paxos->n) return BANYAN_OK;
  by_rank_set_add(&paxos->view.gone, rank - paxos->n);
  return check_settled(paxos);
}

enum by_paxos_state by_paxos_state(const struct by_paxos *paxos) {
  return paxos->state;
}

const struct by_successor *by_paxos_decision(const struct by_paxos *paxos) {
  return paxos->state == BY_PAXOS_CLOSED ? &paxos->successor : NULL;
}

/* ---- */

enum banyan_status by_paxos_create(const struct by_paxos_config *config, struct by_paxos **out) {
  struct by_paxos *paxos = calloc(1, sizeof *paxos);
  if (!paxos) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a change of members");
  assert(config->self < config->membership->n);
  paxos->config = *config;
  paxos->membership = config->membership;
  paxos->n = config->membership->n;
  by_rng_init(&paxos->rng, config->seed);
  enum banyan_status status = by_paxos_view_init(&paxos->view, paxos->membership);
  if (status == BANYAN_OK) status = by_rank_set_init(&paxos->votes, paxos->n);
  if (status == BANYAN_OK) status = by_rank_set_init(&paxos->ballot_dead, paxos->n);
  if (status == BANYAN_OK) status = by_rank_set_init(&paxos->targets, paxos->n);
  if (status == BANYAN_OK)
    *out = paxos;
  else
    by_paxos_destroy(paxos);
  return status;
}

void by_paxos_destroy(struct by_paxos *paxos) {
  if (!paxos) return;
  by_paxos_view_fini(&paxos->view);
  by_rank_set_fini(&paxos->votes);
  by_rank_set_fini(&paxos->ballot_dead);
  by_rank_set_fini(&paxos->targets);
  free(paxos->suspicions);
  by_paxos_clear_value(&paxos->accepted_value);
  by_paxos_clear_value(&paxos->proposal);
  by_paxos_clear_value(&paxos->decided);
  by_successor_fini(&paxos->successor);
  OPENSSL_cleanse(paxos, sizeof *paxos);
  free(paxos);
}
