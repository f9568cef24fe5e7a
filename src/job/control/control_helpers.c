/* Helpers and servers of a running job: admits newcomers, and handles what rank 0 sends about them and to them. */
#include "control_helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dialer.h"
#include "job_state.h"
#include "key_ring.h"
#include "log.h"

enum {
  LOOK_MS = 5,
  MOST_DELAYED = 4 * MOST_FRAME, /* The maximum of bytes of delayed messages. */
  NUMBER_BYTES = 4,
  ROOT_MOST = 2048,
  FOLLOW_MOST = ROOT_MOST + 1 + BY_TICKET_HEAD + sizeof(struct by_key)
};

/* A message that has to wait until the engine is made. */
struct by_delayed_message {
  STAILQ_ENTRY(by_delayed_message) entry;
  struct by_received received;
  uint8_t bytes[];
};

struct by_joining_helper {
  STAILQ_ENTRY(by_joining_helper) entry;
  struct by_control_peer *peer; /* NULL: the newcomer is gone. */
  uint32_t process;             /* Its number; 0: others are before it, or its admission has not begun. */
  uint32_t missing;             /* Answers that are missing. */
  size_t length;
  uint8_t joined[HELLO_MOST + NUMBER_BYTES]; /* The message to all: its number and description. */
};

/* ---- one process more: every member of the job makes room for it before it may do anything, so that a plan which
 * names it finds it known everywhere */

static enum banyan_status read_newcomer(struct by_job *job, const void *bytes, size_t length) {
  struct by_reader reader;
  struct by_member *member = &job->members[job->processes];
  by_reader_init(&reader, bytes, length);
  uint32_t process = by_read_u32(&reader);
  BY_TRY(by_member_read(&reader, &job->arena, member));
  BY_TRY(by_reader_check(&reader, "a helper that comes"));
  if (process == job->processes && member->kind != BY_MEMBER_RANK) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 announces process %u; the next one is %u", process, job->processes);
}

/* Adds the newcomer here. If the connector and the engine disagree on the number of processes, this process takes no
 * part in the job any more. */
static enum banyan_status add_locked(const struct by_helpers *helpers, const void *bytes, size_t length) {
  struct by_job *job = helpers->peers->job;
  BY_TRY(by_job_make_room(job));
  BY_TRY(read_newcomer(job, bytes, length));
  const char *name = by_job_name_member(job, job->processes);
  if (!name) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
  BY_TRY(by_connector_add(helpers->meeting->connector));
  BY_TRY(by_engine_add(job->engine));
  job->names[job->processes] = name;
  job->processes++; /* Other threads look at it from now on. */
  return BANYAN_OK;
}

static enum banyan_status add_member(const struct by_helpers *helpers, const void *bytes, size_t length) {
  by_job_lock(helpers->peers->job);
  enum banyan_status status = add_locked(helpers, bytes, length);
  by_job_unlock(helpers->peers->job);
  return status;
}

/* ---- messages of rank 0 */

static void lose_here(struct by_helpers *helpers, uint32_t process, const char *text) {
  struct by_job *job = helpers->peers->job;
  by_job_lock(job);
  if (!job->lost[process]) job->lost[process] = by_arena_string(&job->arena, text);
  if (process == job->rank)
    by_engine_fail(job->engine, BANYAN_ERR_PEER_DEAD, process, text);
  else
    by_engine_lost(job->engine, process);
  by_job_changed(job);
}

static void handle_lost(struct by_helpers *helpers, const struct by_received *received) {
  struct by_text_message message;
  if (by_text_message_read(received->payload, received->length, &message) != BANYAN_OK ||
      !by_control_peers_is_helper(helpers->peers, message.process) || message.process >= helpers->peers->job->processes)
    by_warn("control", "malformed message about a helper; ignored");
  else
    lose_here(helpers, message.process, message.text);
}

static enum banyan_status take_plan(const struct by_job *job, const struct by_received *received) {
  struct by_plan_message message;
  BY_TRY(by_plan_message_read(received->payload, received->length, (struct by_roster){job->size, job->processes},
                              &message));
  enum banyan_status status = by_plan_message_set(&message, job->engine, job->rank);
  by_plan_message_fini(&message);
  return status;
}

static void handle_plan(struct by_helpers *helpers, const struct by_received *received) {
  struct by_job *job = helpers->peers->job;
  by_job_lock(job);
  enum banyan_status status = take_plan(job, received);
  if (status != BANYAN_OK) by_engine_fail(job->engine, status, job->rank, banyan_error_text());
  by_job_unlock(job);
  by_job_wake(job);
}

static void handle_joined(const struct by_helpers *helpers, const struct by_received *received) {
  const struct by_control_peers *peers = helpers->peers;
  enum banyan_status status = add_member(helpers, received->payload, received->length);
  const struct by_control_peer *root = by_control_peers_root(peers);
  if (status == BANYAN_OK && root) status = by_control_peer_try_send(root, KNOWN, NULL, 0);
  if (status != BANYAN_OK) by_deaths_fail(helpers->deaths, status, peers->job->rank, banyan_error_text());
}

/* Masks or unmasks a ticket's secret: without encryption others may read the message. The ticket's head makes each mask
 * different. */
static enum banyan_status mask_secret(const struct by_control_peer *peer, struct by_ticket *ticket) {
  struct by_key mask;
  BY_TRY(by_ticket_prove(&peer->secret, ticket->head, &mask));
  for (size_t i = 0; i < sizeof mask.bytes; i++) ticket->secret.bytes[i] ^= mask.bytes[i];
  explicit_bzero(&mask, sizeof mask);
  return BANYAN_OK;
}

static enum banyan_status read_follow(const struct by_control_peer *root, const struct by_received *received,
                                      char *place, struct by_ticket *ticket) {
  struct by_reader reader;
  int port;
  size_t length = strnlen(received->payload, received->length);
  if (length > ROOT_MOST) return by_fail(BANYAN_ERR_PROTOCOL, "the place has no end");
  memcpy(place, received->payload, length);
  place[length] = '\0';
  BY_TRY(by_dialer_check(place, &port));
  by_reader_init(&reader, received->payload, received->length);
  (void)by_read_bytes(&reader, length + 1);
  const uint8_t *head = by_read_bytes(&reader, sizeof ticket->head),
                *secret = by_read_bytes(&reader, sizeof(struct by_key));
  BY_TRY(by_reader_check(&reader, "a ticket"));
  memcpy(ticket->head, head, sizeof ticket->head);
  memcpy(ticket->secret.bytes, secret, sizeof ticket->secret.bytes);
  return mask_secret(root, ticket);
}

static void handle_follow(const struct by_control_peers *peers, const struct by_received *received) {
  const struct by_control_peer *root = by_control_peers_root(peers);
  const struct by_job *job = peers->job;
  char place[ROOT_MOST + 1], text[BY_TICKET_TEXT];
  struct by_ticket ticket;
  if (!job->role.follow || !root) return;
  if (read_follow(root, received, place, &ticket) == BANYAN_OK) {
    by_ticket_print(&ticket, text);
    job->role.follow(job->role.context, place, text);
    explicit_bzero(text, sizeof text);
  } else
    by_warn("control", "malformed message about the next membership: %s; ignored", banyan_error_text());
  explicit_bzero(&ticket, sizeof ticket);
}

static void handle(struct by_helpers *helpers, const struct by_received *received) {
  enum by_member_kind kind = helpers->peers->job->role.kind;
  if (received->type == LOST)
    handle_lost(helpers, received);
  else if (received->type == JOINED)
    handle_joined(helpers, received);
  else if (received->type == FOLLOW)
    handle_follow(helpers->peers, received);
  else if ((received->type == TREE || received->type == TREE_ASK) && helpers->events->handle_tree)
    helpers->events->handle_tree(helpers->events->context, received);
  else if (received->type == PLAN && kind == BY_MEMBER_HELPER)
    handle_plan(helpers, received);
}

static void delayed_due(void *argument) {
  struct by_helpers *helpers = argument;
  const struct by_job *job = helpers->peers->job;
  for (struct by_delayed_message *message; job->engine && (message = STAILQ_FIRST(&helpers->delayed));) {
    STAILQ_REMOVE_HEAD(&helpers->delayed, entry);
    handle(helpers, &message->received);
    helpers->delayed_bytes -= sizeof *message + message->received.length;
    free(message);
  }
  if (!STAILQ_EMPTY(&helpers->delayed)) by_loop_set_delay(job->loop, &helpers->delayed_due, LOOK_MS * BY_MILLISECOND);
}

void by_helpers_handle(void *argument, const struct by_received *received) {
  struct by_helpers *helpers = argument;
  if (helpers->peers->job->engine && STAILQ_EMPTY(&helpers->delayed)) {
    handle(helpers, received);
    return;
  }
  if (helpers->delayed_bytes + received->length > MOST_DELAYED) {
    by_deaths_fail(helpers->deaths, BANYAN_ERR_PROTOCOL, 0, "rank 0 sent more about helpers than is kept");
    return;
  }
  struct by_delayed_message *message = malloc(sizeof *message + received->length);
  if (!message) {
    by_error("control", "out of memory for what rank 0 sends about helpers");
    return;
  }
  memcpy(message->bytes, received->payload, received->length);
  message->received =
      (struct by_received){.type = received->type, .payload = message->bytes, .length = received->length};
  helpers->delayed_bytes += sizeof *message + received->length;
  STAILQ_INSERT_TAIL(&helpers->delayed, message, entry);
  if (!by_timer_is_set(&helpers->delayed_due)) delayed_due(helpers);
}

void by_helpers_handle_lost(struct by_helpers *helpers, uint32_t process, const char *text) {
  uint8_t bytes[TEXT_MOST + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, BANYAN_ERR_PEER_DEAD, process, text);
  if (!writer.failed)
    by_helpers_handle(helpers, &(struct by_received){.type = LOST, .payload = bytes, .length = writer.length});
}

void by_helpers_send_plan(const struct by_control_report *report) {
  const struct by_helpers *helpers = report->context;
  const struct by_control_peers *peers = helpers->peers;
  for (const struct by_control_peer *peer = peers->all; peer; peer = peer->next)
    if (by_control_peers_is_helper(peers, peer->rank) && peers->job->members[peer->rank].kind == BY_MEMBER_HELPER &&
        by_control_peer_try_send(peer, PLAN, report->bytes, report->length) != BANYAN_OK)
      by_deaths_lose(helpers->deaths, (uint32_t)peer->rank, banyan_error_text());
}

/* Issues another ticket, as the helper's own may have expired. */
static enum banyan_status issue_ticket(const struct by_control_peers *peers, const struct by_control_peer *peer,
                                       struct by_ticket *out) {
  const struct by_member *member = &peers->job->members[peer->rank];
  struct by_ticket_subject subject = {(uint8_t)member->kind, member->host};
  struct by_job_keys keys;
  BY_TRY(by_ticket_begin(&subject, (uint64_t)time(NULL) + BY_TICKET_SECONDS, out->head));
  by_key_ring_get(peers->job->keys, &keys);
  enum banyan_status status = by_ticket_prove(&keys.tickets, out->head, &out->secret);
  explicit_bzero(&keys, sizeof keys);
  BY_TRY(status);
  return mask_secret(peer, out);
}

static enum banyan_status send_follow(const struct by_helpers *helpers, const struct by_control_peer *peer,
                                      const struct by_control_report *report) {
  struct by_ticket ticket;
  struct by_writer writer;
  uint8_t bytes[FOLLOW_MOST];
  if (report->length > ROOT_MOST) return by_fail(BANYAN_ERR_ARGUMENT, "too many places to meet");
  BY_TRY(issue_ticket(helpers->peers, peer, &ticket));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_bytes(&writer, report->bytes, report->length);
  by_write_u8(&writer, 0);
  by_write_bytes(&writer, ticket.head, sizeof ticket.head);
  by_write_bytes(&writer, ticket.secret.bytes, sizeof ticket.secret.bytes);
  return by_control_peer_try_send(peer, FOLLOW, bytes, writer.length);
}

void by_helpers_send_follow(const struct by_control_report *report) {
  const struct by_helpers *helpers = report->context;
  const struct by_control_peers *peers = helpers->peers;
  for (const struct by_control_peer *peer = peers->all; peer; peer = peer->next)
    if (by_control_peers_is_helper(peers, peer->rank) && send_follow(helpers, peer, report) != BANYAN_OK)
      by_info("control", "%s is not told where the next membership meets: %s",
              by_job_name(peers->job, (uint32_t)peer->rank), banyan_error_text());
}

/* ---- helpers that come */

static void send_joined(struct by_helpers *helpers, struct by_joining_helper *newcomer) {
  const struct by_control_peers *peers = helpers->peers;
  for (struct by_control_peer *peer = peers->all; peer; peer = peer->next) {
    if (!by_control_peer_stays(peer) || by_control_peers_has_lost(peers, (uint32_t)peer->rank))
      continue; /* A lost process may be stopped, and not read. */
    peer->asked = by_control_peer_send(peer, JOINED, newcomer->joined, newcomer->length);
    newcomer->missing += peer->asked;
  }
  by_loop_set_delay(peers->job->loop, &helpers->known_late, SILENCE_MS * BY_MILLISECOND);
}

/* Called when answers are late: gives up silent helpers. The last of them admits the newcomer, and asks the others
 * again. */
static void known_late(void *argument) {
  struct by_helpers *helpers = argument;
  uint32_t process = STAILQ_FIRST(&helpers->newcomers)->process;
  for (struct by_joining_helper *first; (first = STAILQ_FIRST(&helpers->newcomers)) && first->process == process;) {
    const struct by_control_peer *silent = helpers->peers->all;
    while (silent && (!silent->asked || !by_control_peers_is_helper(helpers->peers, silent->rank)))
      silent = silent->next;
    if (silent) by_deaths_lose_silent(helpers->deaths, (uint32_t)silent->rank);
    if (!silent || !by_control_peers_has_lost(helpers->peers, (uint32_t)silent->rank)) return; /* The job is ending. */
  }
}

static enum banyan_status begin(struct by_helpers *helpers, struct by_joining_helper *newcomer) {
  struct by_writer writer;
  uint32_t process = helpers->peers->job->processes;
  BY_TRY(by_control_peers_make_room(helpers->peers, process, process + 1));
  by_writer_init(&writer, newcomer->joined, NUMBER_BYTES);
  by_write_u32(&writer, process);
  BY_TRY(add_member(helpers, newcomer->joined, newcomer->length));
  newcomer->process = process;
  send_joined(helpers, newcomer);
  return BANYAN_OK;
}

static void welcome(struct by_helpers *helpers, const struct by_joining_helper *newcomer) {
  uint32_t process = newcomer->process;
  if (!newcomer->peer) {
    by_deaths_lose(helpers->deaths, process, "it left before it had joined");
    return;
  }
  by_control_peer_join(newcomer->peer, process);
  if (by_meeting_send_welcome(helpers->meeting, process, process + 1) != BANYAN_OK) {
    by_deaths_lose(helpers->deaths, process, banyan_error_text());
    return;
  }
  by_notices_send_class_to(helpers->notices, newcomer->peer);
  by_info("control", "%s has joined", by_job_name(helpers->peers->job, process));
}

static void advance(struct by_helpers *helpers) {
  for (struct by_joining_helper *first; (first = STAILQ_FIRST(&helpers->newcomers));) {
    bool begun = first->process || (first->peer && begin(helpers, first) == BANYAN_OK);
    if (begun && first->missing) return;
    STAILQ_REMOVE_HEAD(&helpers->newcomers, entry);
    by_loop_cancel_timer(&helpers->known_late);
    if (begun)
      welcome(helpers, first);
    else if (first->peer)
      by_control_peer_refuse(first->peer, BANYAN_ERR_ARGUMENT, banyan_error_text());
    free(first);
  }
}

/* ---- coming and going */

static bool is_ending(const struct by_helpers *helpers) {
  return helpers->deaths->spread || helpers->notices->n_leavers || atomic_load(&helpers->peers->leaving);
}

void by_helpers_join(struct by_helpers *helpers, struct by_control_peer *peer, const struct by_member *member) {
  if (!helpers->peers->job->engine) { /* The timer runs again: the job is still being made here. */
    by_stream_refuse(peer->stream);
    return;
  }
  if (is_ending(helpers)) {
    by_control_peer_refuse(peer, BANYAN_ERR_ARGUMENT, "the job is ending");
    return;
  }
  struct by_joining_helper *newcomer = calloc(1, sizeof *newcomer);
  struct by_writer writer;
  if (!newcomer) {
    by_control_peer_refuse(peer, BANYAN_ERR_ARGUMENT, "out of memory for a helper");
    return;
  }
  newcomer->peer = peer;
  by_writer_init(&writer, newcomer->joined, sizeof newcomer->joined);
  by_write_u32(&writer, 0); /* The newcomer's number, which `begin` sets. */
  by_member_write(&writer, member);
  newcomer->length = writer.length;
  STAILQ_INSERT_TAIL(&helpers->newcomers, newcomer, entry);
  advance(helpers);
}

void by_helpers_knows(struct by_helpers *helpers, struct by_control_peer *peer) {
  struct by_joining_helper *first = STAILQ_FIRST(&helpers->newcomers);
  if (!peer->asked || !first) return;
  peer->asked = false;
  first->missing--;
  advance(helpers);
}

void by_helpers_handle_known(void *helpers, const struct by_received *message) {
  by_helpers_knows(helpers, message->peer);
}

void by_helpers_forget(struct by_helpers *helpers, struct by_control_peer *peer) {
  struct by_joining_helper *newcomer;
  STAILQ_FOREACH(newcomer, &helpers->newcomers, entry) {
    if (newcomer->peer == peer) newcomer->peer = NULL;
  }
  by_helpers_knows(helpers, peer);
}

void by_helpers_init(struct by_helpers *helpers, struct by_control_meeting *meeting, struct by_notices *notices,
                     const struct by_control_events *events) {
  *helpers = (struct by_helpers){
      .peers = meeting->peers, .deaths = meeting->deaths, .meeting = meeting, .notices = notices, .events = events};
  STAILQ_INIT(&helpers->delayed);
  STAILQ_INIT(&helpers->newcomers);
  by_timer_init(&helpers->delayed_due, delayed_due, helpers);
  by_timer_init(&helpers->known_late, known_late, helpers);
}

void by_helpers_fini(struct by_helpers *helpers) {
  by_loop_cancel_timer(&helpers->delayed_due);
  by_loop_cancel_timer(&helpers->known_late);
  for (struct by_delayed_message *message; (message = STAILQ_FIRST(&helpers->delayed));) {
    STAILQ_REMOVE_HEAD(&helpers->delayed, entry);
    free(message);
  }
  for (struct by_joining_helper *newcomer; (newcomer = STAILQ_FIRST(&helpers->newcomers));) {
    STAILQ_REMOVE_HEAD(&helpers->newcomers, entry);
    free(newcomer);
  }
}
