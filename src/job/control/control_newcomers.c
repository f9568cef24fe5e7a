/* Rank 0's decision on each process that comes to its meeting: it joins, or is refused. */
#include "control_newcomers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "formation.h"
#include "job_state.h"
#include "key_ring.h"
#include "log.h"

enum { JOINS_OF_TICKET = 256 };

void by_newcomer_refuse(struct by_control_peer *peer, enum by_refusal reason, const char *text) {
  by_refusal_count(reason);
  by_control_peer_refuse(peer, BANYAN_ERR_ARGUMENT, text);
}

void by_newcomers_refuse_all(struct by_control_meeting *meeting, enum banyan_status status, const char *text) {
  for (struct by_control_peer *peer = meeting->peers->all; peer; peer = peer->next)
    by_control_peer_send_text(peer, REFUSED, status, 0, text);
  by_deaths_give_up(meeting->deaths, status, text);
}

/* Returns whether the peer has closed its connection: it may have timed out while this process was held up, and have
 * come again since. */
bool by_newcomer_has_closed(const struct by_control_peer *peer) {
  char byte;
  ssize_t n = recv(by_stream_get_fd(peer->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Returns whether the earlier process of this rank may have left: its LEAVING, or the end of its connection, may come
 * later than another connection, as packets get lost. */
static bool may_have_left(struct by_control_peer *before) {
  uint64_t now = by_loop_now(before->peers->job->loop);
  if (!before->claimed_at) before->claimed_at = now;
  return before->state == BY_PEER_LEAVING || by_newcomer_has_closed(before) ||
         now - before->claimed_at < BY_ABSENCE_MS * BY_MILLISECOND;
}

/* Returns whether a process comes too early: one that has left or died may come for the next job at this address, whose
 * rank 0 will listen here when this job is over. One that has timed out may be back before its end is noticed. */
static bool comes_too_early(const struct by_control_meeting *meeting, uint32_t rank) {
  if (rank == 0 || rank >= meeting->peers->job->size) return false;
  struct by_control_peer *before = meeting->peers->of_process[rank];
  return before ? may_have_left(before) : meeting->done;
}

/* Returns whether the newcomer disagrees with rank 0 on the number of ranks, or its rank is taken. `text` holds
 * TEXT_MOST bytes. */
static bool is_out_of_place(const struct by_control_meeting *meeting, uint32_t rank, uint32_t size, const char *host,
                            char *text) {
  uint32_t own = meeting->peers->job->size;
  if (size != own) {
    snprintf(text, TEXT_MOST,
             "a rank on host %s was started with %u ranks, rank 0 with %u: start all with the same number", host, size,
             own);
    return true;
  }
  if (rank > 0 && rank < size && !meeting->peers->of_process[rank]) return false;
  snprintf(text, TEXT_MOST, "rank %u was started twice%s%s: give every process a rank of its own", rank,
           rank < size && rank ? ", the second time on host " : " (or out of range) on host ", host);
  return true;
}

static void print_plan(const char *name, uint32_t version, char *text, size_t room) {
  if (version)
    snprintf(text, room, "plan '%.64s' (version %08x)", name, version);
  else
    snprintf(text, room, "no plan");
}

/* Returns whether the newcomer was given another plan than rank 0. */
static bool has_another_plan(const struct by_control_meeting *meeting, const struct by_join *hello, char *text) {
  char theirs[128], ours[128];
  uint32_t version = meeting->given_version;
  bool read = hello->plan_version != BY_PLAN_UNREADABLE && version != BY_PLAN_UNREADABLE;
  if (!read || hello->plan_version == version) return false;
  print_plan(hello->plan, hello->plan_version, theirs, sizeof theirs);
  print_plan(meeting->given_plan, version, ours, sizeof ours);
  snprintf(text, TEXT_MOST,
           "plans differ between ranks: rank %u (host %.64s) was given %s, rank 0 (host %.64s) %s; give all ranks the "
           "same plan (--plan, BANYAN_PLAN)",
           hello->rank, hello->member.host, theirs, meeting->peers->job->members[0].host, ours);
  return true;
}

static void rank_joins(struct by_control_meeting *meeting, struct by_control_peer *peer, const struct by_join *hello) {
  struct by_job *job = meeting->peers->job;
  uint32_t rank = hello->rank;
  char text[TEXT_MOST];
  if (is_out_of_place(meeting, rank, hello->size, hello->member.host, text)) {
    if (meeting->done)
      by_newcomer_refuse(peer, BY_REFUSED_IDENTITY, text);
    else
      by_newcomers_refuse_all(meeting, BANYAN_ERR_ARGUMENT, text);
    return;
  }
  if (!meeting->done && has_another_plan(meeting, hello, text)) {
    by_newcomers_refuse_all(meeting, BANYAN_ERR_MISMATCH, text);
    return;
  }
  by_control_peer_join(peer, rank);
  job->members[rank] = hello->member;
  meeting->waits_for_helpers = ++meeting->joined == job->size;
}

/* ---- rank 0: helpers and servers */

/* Returns whether rank 0 waits for no more of this kind. */
static bool has_enough(const struct by_control_meeting *meeting, enum by_member_kind kind) {
  const struct by_job *job = meeting->peers->job;
  uint32_t most = job->servers, n = 0;
  if (kind == BY_MEMBER_HELPER) most = job->places - job->size - job->servers;
  for (uint32_t i = 0; i < meeting->helpers; i++) n += job->members[job->size + i].kind == kind;
  return n == most;
}

struct by_used_ticket {
  uint8_t head[BY_TICKET_HEAD];
  struct by_fingerprint user;
  uint32_t joins; /* How often the process has joined with this ticket. */
};

/* Returns whether a process joins too often: all members keep a slot for each time. A server joins once for each tree,
 * and may come again. */
static bool joins_too_often(struct by_control_meeting *meeting, const struct by_control_peer *peer) {
  uint32_t i = 0;
  while (i < meeting->n_used && memcmp(meeting->used[i].head, peer->ticket, BY_TICKET_HEAD) != 0) i++;
  return i < meeting->n_used && meeting->used[i].joins++ >= JOINS_OF_TICKET;
}

static void helper_joins(struct by_control_meeting *meeting, struct by_control_peer *peer,
                         const struct by_member *member) {
  struct by_job *job = meeting->peers->job;
  uint32_t place = job->size + meeting->helpers;
  bool waits = !meeting->done && has_enough(meeting, member->kind);
  if (!waits && joins_too_often(meeting, peer)) {
    by_control_peer_refuse(peer, BANYAN_ERR_AUTH, "a ticket with which its process has joined too often");
  } else if (meeting->done) {
    meeting->events.newcomer(meeting->events.context, peer, member);
  } else if (waits) {
    by_stream_refuse(peer->stream); /* The helper comes again, and joins when the job has begun. */
  } else {
    by_control_peer_join(peer, place);
    job->members[place] = *member;
    meeting->helpers++;
    if (meeting->waits_for_helpers && place + 1 == job->places) by_meeting_welcome(meeting);
  }
}

/* Removes a helper; the last one takes its number. */
void by_newcomer_left(struct by_control_meeting *meeting, uint32_t process) {
  struct by_job *job = meeting->peers->job;
  uint32_t last = job->size + --meeting->helpers;
  by_control_peers_move(meeting->peers, last, process);
  job->members[process] = job->members[last];
}

/* ---- rank 0: hellos */

/* Handles a rank that forms another membership: it comes again, perhaps after this one is formed. Under the same name
 * it never will. */
static void rank_of_other_joins(struct by_control_meeting *meeting, struct by_control_peer *peer,
                                const struct by_join *hello) {
  const struct by_formation *formation = meeting->peers->job->role.formation;
  char text[TEXT_MOST];
  if (meeting->done || !formation || hello->name != formation->name) {
    by_stream_refuse(peer->stream);
    return;
  }
  snprintf(text, sizeof text,
           "a process of host %s forms this membership, of the same name, from another list of %u handles than rank 0 "
           "on host %s, which has %u, or by another BANYAN_QUORUM: give all the same handles in the same order",
           hello->member.host, hello->size, meeting->peers->job->members[0].host, formation->membership->n);
  by_control_peer_refuse(peer, BANYAN_ERR_MISMATCH, text);
  by_newcomers_refuse_all(meeting, BANYAN_ERR_MISMATCH, text);
}

static void joins(struct by_control_meeting *meeting, struct by_control_peer *peer, const struct by_join *hello) {
  if (hello->member.kind != BY_MEMBER_RANK)
    helper_joins(meeting, peer, &hello->member);
  else if (hello->membership != meeting->peers->job->membership)
    rank_of_other_joins(meeting, peer, hello);
  else if (comes_too_early(meeting, hello->rank))
    by_stream_refuse(peer->stream);
  else
    rank_joins(meeting, peer, hello);
}

/* Notifies a newcomer that the start has failed, unless it comes for another membership. */
static void comes_too_late(struct by_control_meeting *meeting, struct by_control_peer *peer,
                           const struct by_join *hello) {
  const struct by_job *job = meeting->peers->job;
  if (hello->member.kind == BY_MEMBER_RANK && hello->membership != job->membership)
    by_stream_refuse(peer->stream);
  else
    by_control_peer_refuse(peer, meeting->deaths->status, meeting->deaths->text);
}

/* With TLS: returns whether the newcomer claims another identity than it has proved, or the place of another member. */
static bool is_impostor(const struct by_control_meeting *meeting, const struct by_control_peer *peer,
                        const struct by_join *hello) {
  const struct by_fingerprint *proved = by_stream_get_fingerprint(peer->stream);
  const struct by_formation *formation = meeting->peers->job->role.formation;
  if (!proved) return false;
  if (!by_fingerprint_equal(proved, &hello->member.fingerprint)) return true;
  bool listed = formation && hello->member.kind == BY_MEMBER_RANK &&
                hello->membership == meeting->peers->job->membership && hello->rank < formation->membership->n;
  return listed && !by_fingerprint_equal(proved, &formation->membership->members[hello->rank].fingerprint);
}

_Static_assert((int)BY_TICKET_HELPER == BY_MEMBER_HELPER && (int)BY_TICKET_SERVER == BY_MEMBER_SERVER, "kinds");

/* Binds a ticket to the first process that uses it. A server's trees all join from one process. Without encryption
 * processes have no identities. */
static enum banyan_status use_ticket(struct by_control_meeting *meeting, const uint8_t *head,
                                     const struct by_fingerprint *user) {
  for (uint32_t i = 0; i < meeting->n_used; i++) {
    if (memcmp(meeting->used[i].head, head, BY_TICKET_HEAD) != 0) continue;
    if (by_fingerprint_equal(&meeting->used[i].user, user)) return BANYAN_OK;
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                     "a ticket with which another process has come: each needs its own");
  }
  if (!BY_ARRAY_GROW(&meeting->used, &meeting->used_room, meeting->n_used + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a ticket");
  struct by_used_ticket *used = &meeting->used[meeting->n_used++];
  *used = (struct by_used_ticket){.user = *user};
  memcpy(used->head, head, BY_TICKET_HEAD);
  return BANYAN_OK;
}

/* Refuses a process whose host's agent is not believed. A membership does not wait for it: the others agree on the next
 * one. */
static void refuse_host(struct by_control_meeting *meeting, struct by_control_peer *peer, const struct by_join *hello) {
  const struct by_job *job = meeting->peers->job;
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_control_peer_refuse(peer, BANYAN_ERR_AUTH, text);
  if (!meeting->done && job->role.formation && hello->membership == job->membership)
    by_newcomers_refuse_all(meeting, BANYAN_ERR_CONNECT, text);
}

static enum banyan_status check_ticket(struct by_control_meeting *meeting, const struct by_control_peer *peer,
                                       const struct by_member *member) {
  struct by_ticket_subject subject = {(uint8_t)member->kind, member->host};
  BY_TRY(by_ticket_check(peer->ticket, &subject, (uint64_t)time(NULL)));
  return use_ticket(meeting, peer->ticket, &member->fingerprint);
}

/* Handles a newcomer. Once the job has begun, or has failed to, other threads use the job's arena, so nothing about
 * newcomers is kept. */
void by_newcomer_joins(struct by_control_meeting *meeting, struct by_control_peer *peer, bool helps, const void *bytes,
                       size_t length) {
  struct by_arena scratch;
  struct by_join hello;
  by_arena_init(&scratch);
  bool over = meeting->done || meeting->deaths->status != BANYAN_OK;
  if (by_join_read(bytes, length, over ? &scratch : &meeting->peers->job->arena, &hello) != BANYAN_OK)
    by_newcomer_refuse(peer, BY_REFUSED_PROTOCOL, "a malformed hello");
  else if (is_impostor(meeting, peer, &hello))
    by_newcomer_refuse(peer, BY_REFUSED_IDENTITY,
                       "a process that comes as another one: its key is not the one that it names");
  else if (by_control_trust_check(meeting->trust, peer, &hello, helps) != BANYAN_OK)
    refuse_host(meeting, peer, &hello);
  else if (meeting->deaths->status != BANYAN_OK)
    comes_too_late(meeting, peer, &hello);
  else if (helps != (hello.member.kind != BY_MEMBER_RANK))
    by_newcomer_refuse(peer, BY_REFUSED_IDENTITY,
                       helps ? "a rank with the ticket of a helper or server" : "a helper or server without a ticket");
  else if (helps && check_ticket(meeting, peer, &hello.member) != BANYAN_OK)
    by_control_peer_refuse(peer, BANYAN_ERR_AUTH, banyan_error_text());
  else
    joins(meeting, peer, &hello);
  by_arena_fini(&scratch);
}
