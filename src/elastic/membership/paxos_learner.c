/* A Paxos machine's learner: it sends messages, sets the timer, and ends the machine with a decision or a text. */
#include "paxos_object.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_BYTES = 1024, SHIFT_MOST = 6 /* The longest delay of the timer is 2^SHIFT_MOST times the shortest. */ };

/* ---- values */

enum banyan_status by_paxos_set_value(struct by_paxos_value *value, const void *bytes, size_t length) {
  uint8_t *copy = malloc(length + 1);
  if (!copy) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a successor of %zu bytes", length);
  if (length) memcpy(copy, bytes, length);
  free(value->bytes);
  value->bytes = copy;
  value->length = length;
  return BANYAN_OK;
}

void by_paxos_clear_value(struct by_paxos_value *value) {
  if (value->bytes) OPENSSL_cleanse(value->bytes, value->length);
  free(value->bytes);
  *value = (struct by_paxos_value){0};
}

/* ---- sending */

static size_t measure(const struct by_paxos_message *message) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_paxos_message_write(&writer, message);
  return writer.length;
}

static enum banyan_status encode(struct by_paxos_message message, struct by_paxos_value *out) {
  struct by_writer writer;
  size_t length = measure(&message);
  uint8_t *bytes = malloc(length);
  if (!bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a message of %zu bytes", length);
  by_writer_init(&writer, bytes, length);
  by_paxos_message_write(&writer, &message);
  *out = (struct by_paxos_value){bytes, length};
  return BANYAN_OK;
}

enum banyan_status by_paxos_send(struct by_paxos *paxos, const struct by_rank_set *set,
                                 struct by_paxos_message message) {
  struct by_paxos_value encoded = {0};
  message.number = paxos->membership->number;
  BY_TRY(encode(message, &encoded));
  for (uint32_t i = by_rank_set_next(set, 0); i < set->n; i = by_rank_set_next(set, i + 1))
    if (i != paxos->config.self) paxos->config.send(paxos->config.context, i, encoded.bytes, encoded.length);
  by_paxos_clear_value(&encoded);
  return BANYAN_OK;
}

enum banyan_status by_paxos_reply(struct by_paxos *paxos, uint32_t to, struct by_paxos_message message) {
  struct by_paxos_value encoded = {0};
  message.number = paxos->membership->number;
  BY_TRY(encode(message, &encoded));
  paxos->config.send(paxos->config.context, to, encoded.bytes, encoded.length);
  by_paxos_clear_value(&encoded);
  return BANYAN_OK;
}

/* A proposer asks again after a short delay, since a message may be lost, then after two and four times that. Others
 * wait four times as long from the start, and longer after own rounds have failed, so that a round is not preempted
 * before it has asked often enough. The delay also grows with the duration of the change, and is random, so that
 * colliding proposers separate. */
void by_paxos_arm(struct by_paxos *paxos) {
  bool proposes = paxos->state == BY_PAXOS_PREPARING || paxos->state == BY_PAXOS_ACCEPTING;
  uint32_t shift = (proposes ? paxos->asks : 2 + paxos->rounds) + paxos->timers / 4;
  if (proposes && paxos->asks > 2) shift = 2 + paxos->timers / 4;
  double delay = (double)(paxos->config.delay << (shift < SHIFT_MOST ? shift : SHIFT_MOST));
  paxos->config.set_timer(paxos->config.context, (uint64_t)(delay * (1 + by_rng_unit(&paxos->rng))));
}

void by_paxos_wait(struct by_paxos *paxos) {
  paxos->state = BY_PAXOS_WAITING;
  by_paxos_arm(paxos);
}

/* ---- the end */

void by_paxos_end(struct by_paxos *paxos, enum by_paxos_state state, const char *text) {
  paxos->state = state;
  paxos->config.ended(paxos->config.context, text);
}

/* Finds the members that seem to answer. Returns false if all do, or memory is exhausted. */
static bool find_answering(const struct by_paxos *paxos, struct by_rank_set *out) {
  bool all = true;
  if (by_rank_set_init(out, paxos->membership->n) != BANYAN_OK) return false;
  for (uint32_t i = 0; i < out->n; i++) {
    bool answers = !by_rank_set_has(&paxos->view.suspected, i) && !by_rank_set_has(&paxos->view.dead, i);
    if (answers) by_rank_set_add(out, i);
    all &= answers;
  }
  return !all;
}

const char *by_paxos_explain(const struct by_paxos *paxos, char *text) {
  enum by_quorum_rule rule = paxos->membership->rule;
  struct by_rank_set answering = {0};
  if (paxos->state == BY_PAXOS_PREPARING || paxos->state == BY_PAXOS_ACCEPTING)
    by_quorum_explain(rule, &paxos->votes, &paxos->view.dead, text);
  else if (find_answering(paxos, &answering) && !by_quorum_holds(rule, &answering, &paxos->view.dead))
    by_quorum_explain(rule, &answering, &paxos->view.dead, text);
  else
    snprintf(text, BY_QUORUM_TEXT, "no member that answers could bring about a decision");
  by_rank_set_fini(&answering);
  return text;
}

void by_paxos_give_up(struct by_paxos *paxos) {
  char text[REASON_BYTES], why[BY_QUORUM_TEXT];
  by_paxos_explain(paxos, why);
  snprintf(text, sizeof text,
           "membership \"%s\" ends here, at rank %u: %s. Other members may go on without this process",
           paxos->membership->name, paxos->config.self, why);
  by_paxos_end(paxos, BY_PAXOS_ENDED, text);
}

void by_paxos_end_excluded(struct by_paxos *paxos, enum by_paxos_state state, const char *name) {
  char text[REASON_BYTES];
  const char *why = by_rank_set_has(&paxos->view.leaving, paxos->config.self)
                        ? "as it asked to leave"
                        : "since it did not answer, or most members could not reach it: restart it to join again";
  snprintf(text, sizeof text, "the other members of \"%s\" go on as \"%s\" without rank %u, this process, %s",
           paxos->membership->name, name, paxos->config.self, why);
  by_paxos_end(paxos, state, text);
}

/* ---- the learner */

enum banyan_status by_paxos_answer(struct by_paxos *paxos, uint32_t to) {
  const char *name = paxos->successor.name;
  if (by_successor_has(&paxos->successor, paxos->membership, to))
    return by_paxos_reply(paxos, to,
                          (struct by_paxos_message){.kind = BY_PAXOS_DECIDED,
                                                    .value = paxos->decided.bytes,
                                                    .length = paxos->decided.length});
  return by_paxos_reply(paxos, to,
                        (struct by_paxos_message){.kind = BY_PAXOS_EXCLUDED, .value = name, .length = strlen(name)});
}

enum banyan_status by_paxos_send_welcome(struct by_paxos *paxos, const struct by_fingerprint *to, uint32_t n) {
  struct by_membership *next;
  struct by_writer writer;
  BY_TRY(by_successor_apply(&paxos->successor, paxos->membership, &next));
  by_writer_init(&writer, NULL, 0);
  by_paxos_welcome_write(&writer, paxos->membership->number, next, paxos->successor.secret);
  size_t length = writer.length;
  uint8_t *bytes = malloc(length);
  if (bytes) {
    by_writer_init(&writer, bytes, length);
    by_paxos_welcome_write(&writer, paxos->membership->number, next, paxos->successor.secret);
    for (uint32_t i = 0; i < n; i++)
      if (by_membership_find(paxos->membership, &to[i]) == BY_NO_MEMBER)
        paxos->config.welcome(paxos->config.context, &to[i], bytes, length);
    OPENSSL_cleanse(bytes, length);
  }
  free(bytes);
  by_membership_destroy(next);
  return bytes ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a welcome of %zu bytes", length);
}

enum banyan_status by_paxos_learn(struct by_paxos *paxos, const void *bytes, size_t length) {
  struct by_successor successor;
  BY_TRY(by_successor_read(bytes, length, paxos->membership, &successor));
  enum banyan_status status = by_paxos_set_value(&paxos->decided, bytes, length);
  if (status != BANYAN_OK) {
    by_successor_fini(&successor);
    return status;
  }
  paxos->successor = successor;
  if (by_successor_has(&paxos->successor, paxos->membership, paxos->config.self)) {
    paxos->state = BY_PAXOS_CLOSED;
    paxos->config.decided(paxos->config.context, &paxos->successor);
  } else {
    /* The machine continues to tell other members. */
    by_paxos_end_excluded(paxos, BY_PAXOS_CLOSED, paxos->successor.name);
  }
  return BANYAN_OK;
}

enum banyan_status by_paxos_decide(struct by_paxos *paxos) {
  BY_TRY(by_paxos_learn(paxos, paxos->proposal.bytes, paxos->proposal.length));
  for (uint32_t i = 0; i < paxos->n; i++)
    if (i != paxos->config.self && !by_rank_set_has(&paxos->view.dead, i)) BY_TRY(by_paxos_answer(paxos, i));
  if (!paxos->successor.n_added) return BANYAN_OK;
  return by_paxos_send_welcome(paxos, paxos->successor.added, paxos->successor.n_added);
}
