/* A Paxos machine's proposer: it asks for promises, chooses a successor, and collects votes. */
#include "paxos_object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASKS = 4 /* Number of times that members are asked before the round proceeds without them. */ };

static bool has_quorum(const struct by_paxos *paxos, const struct by_rank_set *votes, const struct by_rank_set *dead) {
  return by_quorum_holds(paxos->membership->rule, votes, dead);
}

/* Whether there is a quorum only by deaths that became known during the round. Then another round is needed, since
 * voters must know whose messages they discard. */
static bool needs_round(const struct by_paxos *paxos) {
  return !has_quorum(paxos, &paxos->votes, &paxos->ballot_dead) && has_quorum(paxos, &paxos->votes, &paxos->view.dead);
}

/* Whether most of the others, and at least two members, suspect a member. Between two members, the deadline of calls
 * decides. */
static bool is_avoided(const struct by_paxos *paxos, uint32_t rank) {
  uint32_t others = by_rank_set_count(&paxos->votes) - by_rank_set_has(&paxos->votes, rank);
  return rank != paxos->config.self && paxos->suspicions[rank] >= 2 && 2 * paxos->suspicions[rank] > others;
}

static enum banyan_status derive_secret(const struct by_paxos *paxos, uint8_t *out) {
  static const char label[] = "banyan membership secret";
  uint8_t number[8], ballot[8];
  struct by_fingerprint hash;
  by_put_u64(number, paxos->membership->number);
  by_put_u64(ballot, paxos->ballot);
  const struct by_hashed parts[] = {{label, sizeof label},
                                    {paxos->config.root, sizeof paxos->config.root},
                                    {number, sizeof number},
                                    {ballot, sizeof ballot}};
  BY_TRY(by_membership_digest(parts, 4, &hash));
  memcpy(out, hash.bytes, BY_SECRET_BYTES);
  return BANYAN_OK;
}

/* Keeps the members whose promise arrived, except those that want to leave or, if `avoid`, that most members suspect.
 */
static void choose_members(struct by_paxos *paxos, struct by_successor *successor, bool avoid) {
  for (uint32_t i = 0; i < paxos->n; i++) {
    by_rank_set_remove(&successor->kept, i);
    by_rank_set_remove(&paxos->targets, i);
    if (!by_rank_set_has(&paxos->votes, i) || by_rank_set_has(&paxos->view.dead, i)) continue;
    bool leaves = by_rank_set_has(&paxos->view.leaving, i);
    if (!leaves && avoid && is_avoided(paxos, i)) continue;
    by_rank_set_add(&paxos->targets, i);
    if (!leaves) by_rank_set_add(&successor->kept, i);
  }
}

static enum banyan_status fill_successor(struct by_paxos *paxos, struct by_successor *successor) {
  const struct by_membership *membership = paxos->membership;
  snprintf(successor->name, sizeof successor->name, "auto-%u-%" PRIu64 "-%016" PRIx64, membership->generation + 1,
           paxos->ballot, membership->number);
  successor->settled = paxos->view.settled;
  choose_members(paxos, successor, true);
  if (!has_quorum(paxos, &paxos->targets, &paxos->ballot_dead)) choose_members(paxos, successor, false);
  for (uint32_t i = 0; i < paxos->n; i++)
    if (!by_rank_set_has(&successor->kept, i) && !by_rank_set_has(&paxos->view.dead, i))
      by_rank_set_add(&successor->excluded, i);
  for (uint32_t i = 0; i < membership->n_excluded && !successor->settled; i++)
    by_rank_set_add(&successor->excluded, paxos->n + i);
  for (uint32_t i = 0; i < paxos->view.n_newcomers; i++)
    if (by_membership_find(membership, &paxos->view.newcomers[i]) == BY_NO_MEMBER)
      BY_TRY(by_successor_add(successor, &paxos->view.newcomers[i]));
  return derive_secret(paxos, successor->secret);
}

static enum banyan_status encode(const struct by_successor *successor, struct by_paxos_value *out) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_successor_write(&writer, successor);
  size_t length = writer.length;
  uint8_t *bytes = malloc(length);
  if (!bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a successor of %zu bytes", length);
  by_writer_init(&writer, bytes, length);
  by_successor_write(&writer, successor);
  free(out->bytes);
  *out = (struct by_paxos_value){bytes, length};
  return BANYAN_OK;
}

/* Proposes this member's own successor. Returns BANYAN_ERR_ARGUMENT if none is possible. */
static enum banyan_status make_proposal(struct by_paxos *paxos) {
  struct by_successor successor;
  BY_TRY(by_successor_init(&successor, paxos->membership));
  enum banyan_status status = fill_successor(paxos, &successor);
  if (status == BANYAN_OK) status = by_successor_check(&successor, paxos->membership);
  if (status == BANYAN_OK) status = encode(&successor, &paxos->proposal);
  by_successor_fini(&successor);
  return status;
}

/* Finds the voters for a successor that another member proposed before: its members, and those that leave. Other
 * members that promised vote only if there is no quorum without them, since they must not learn the successor's secret.
 */
static enum banyan_status find_targets(struct by_paxos *paxos) {
  struct by_successor successor;
  struct by_rank_set answering;
  BY_TRY(by_rank_set_init(&answering, paxos->n));
  enum banyan_status status =
      by_successor_read(paxos->proposal.bytes, paxos->proposal.length, paxos->membership, &successor);
  if (status == BANYAN_OK) {
    by_rank_set_clear(&paxos->targets);
    for (uint32_t i = 0; i < paxos->n; i++) {
      bool stays = by_successor_has(&successor, paxos->membership, i) || by_rank_set_has(&paxos->view.leaving, i);
      if (!stays || by_rank_set_has(&paxos->view.dead, i)) continue;
      by_rank_set_add(&paxos->targets, i);
      if (by_rank_set_has(&paxos->votes, i)) by_rank_set_add(&answering, i);
    }
    if (!has_quorum(paxos, &answering, &paxos->ballot_dead)) by_rank_set_merge(&paxos->targets, &paxos->votes);
    by_successor_fini(&successor);
  }
  by_rank_set_fini(&answering);
  return status;
}

/* Sends the round's request to members in [first, end) whose votes are missing. */
static enum banyan_status send_request(struct by_paxos *paxos, uint32_t first, uint32_t end) {
  struct by_paxos_message message = {
      .kind = BY_PAXOS_PREPARE, .ballot = paxos->ballot, .view.dead = paxos->ballot_dead};
  bool accepting = paxos->state == BY_PAXOS_ACCEPTING;
  struct by_rank_set missing;
  if (accepting) {
    message.kind = BY_PAXOS_ACCEPT;
    message.value = paxos->proposal.bytes;
    message.length = paxos->proposal.length;
  }
  BY_TRY(by_rank_set_init(&missing, paxos->n));
  for (uint32_t i = first; i < end; i++) {
    bool wanted = accepting ? by_rank_set_has(&paxos->targets, i) : !by_rank_set_has(&paxos->view.dead, i);
    if (wanted && !by_rank_set_has(&paxos->votes, i)) by_rank_set_add(&missing, i);
  }
  enum banyan_status status = by_paxos_send(paxos, &missing, message);
  by_rank_set_fini(&missing);
  return status;
}

static enum banyan_status ask(struct by_paxos *paxos) {
  BY_TRY(send_request(paxos, 0, paxos->n));
  by_paxos_arm(paxos);
  return BANYAN_OK;
}

enum banyan_status by_paxos_ask_member(struct by_paxos *paxos, uint32_t rank) {
  return send_request(paxos, rank, rank + 1);
}

static enum banyan_status check_acceptances(struct by_paxos *paxos) {
  if (has_quorum(paxos, &paxos->votes, &paxos->ballot_dead)) return by_paxos_decide(paxos);
  return needs_round(paxos) ? by_paxos_begin_round(paxos) : BANYAN_OK;
}

static enum banyan_status propose(struct by_paxos *paxos) {
  enum banyan_status status = paxos->best ? find_targets(paxos) : make_proposal(paxos);
  if (status == BANYAN_ERR_ARGUMENT) {
    by_paxos_end(paxos, BY_PAXOS_ENDED, banyan_error_text());
    return BANYAN_OK;
  }
  BY_TRY(status);
  paxos->state = BY_PAXOS_ACCEPTING;
  paxos->asks = 0;
  by_rank_set_clear(&paxos->votes);
  BY_TRY(by_paxos_set_value(&paxos->accepted_value, paxos->proposal.bytes, paxos->proposal.length));
  paxos->accepted = paxos->ballot;
  by_rank_set_add(&paxos->votes, paxos->config.self);
  BY_TRY(ask(paxos));
  return check_acceptances(paxos);
}

/* Whether all members have answered that are waited for. Members that most others suspect would be excluded even if
 * they answered, so they are not waited for: this process may notice a vanished host later than the others. */
static bool all_answered(const struct by_paxos *paxos) {
  for (uint32_t i = 0; i < paxos->n; i++)
    if (!by_rank_set_has(&paxos->votes, i) && !by_rank_set_has(&paxos->view.dead, i) &&
        !by_rank_set_has(&paxos->view.suspected, i) && !is_avoided(paxos, i))
      return false;
  return true;
}

static enum banyan_status check_promises(struct by_paxos *paxos) {
  if (needs_round(paxos)) return by_paxos_begin_round(paxos);
  if (!has_quorum(paxos, &paxos->votes, &paxos->ballot_dead)) return BANYAN_OK;
  return paxos->asks >= ASKS || all_answered(paxos) ? propose(paxos) : BANYAN_OK;
}

static void count_suspicions(struct by_paxos *paxos, const struct by_rank_set *suspected) {
  for (uint32_t i = by_rank_set_next(suspected, 0); i < paxos->n; i = by_rank_set_next(suspected, i + 1))
    paxos->suspicions[i]++;
}

enum banyan_status by_paxos_begin_round(struct by_paxos *paxos) {
  uint64_t highest = paxos->highest > paxos->promised ? paxos->highest : paxos->promised;
  uint64_t ballot = (highest / paxos->n + 1) * paxos->n + paxos->config.self;
  if (ballot >= BY_BALLOT_MOST) {
    by_paxos_give_up(paxos);
    return BANYAN_OK;
  }
  if (!paxos->suspicions) paxos->suspicions = calloc(paxos->n, sizeof *paxos->suspicions);
  if (!paxos->suspicions) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a change of members");
  paxos->ballot = paxos->promised = paxos->highest = ballot;
  paxos->state = BY_PAXOS_PREPARING;
  paxos->followed = 0;
  paxos->rounds++;
  paxos->asks = 0;
  by_rank_set_clear(&paxos->votes);
  by_rank_set_clear(&paxos->ballot_dead);
  by_rank_set_merge(&paxos->ballot_dead, &paxos->view.dead);
  memset(paxos->suspicions, 0, paxos->n * sizeof *paxos->suspicions);
  by_rank_set_add(&paxos->votes, paxos->config.self);
  count_suspicions(paxos, &paxos->view.suspected);
  paxos->best = paxos->accepted;
  if (paxos->best)
    BY_TRY(by_paxos_set_value(&paxos->proposal, paxos->accepted_value.bytes, paxos->accepted_value.length));
  BY_TRY(ask(paxos));
  return check_promises(paxos);
}

enum banyan_status by_paxos_add_promise(struct by_paxos *paxos, uint32_t from, const struct by_paxos_message *message) {
  if (!by_rank_set_add(&paxos->votes, from)) return BANYAN_OK;
  count_suspicions(paxos, &message->view.suspected);
  if (message->accepted > paxos->best) {
    BY_TRY(by_paxos_set_value(&paxos->proposal, message->value, message->length));
    paxos->best = message->accepted;
  }
  return check_promises(paxos);
}

enum banyan_status by_paxos_check_votes(struct by_paxos *paxos) {
  return paxos->state == BY_PAXOS_PREPARING ? check_promises(paxos) : check_acceptances(paxos);
}

enum banyan_status by_paxos_ask_again(struct by_paxos *paxos) {
  paxos->asks++;
  if (paxos->state == BY_PAXOS_ACCEPTING) return paxos->asks >= ASKS ? by_paxos_begin_round(paxos) : ask(paxos);
  BY_TRY(check_promises(paxos));
  return paxos->state == BY_PAXOS_PREPARING ? ask(paxos) : BANYAN_OK;
}
