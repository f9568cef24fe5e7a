#include "control_deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connector.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"

/* A network that heals within ten seconds is not worth a word. */
enum {
  APART_MS = 10000,
  ANSWERS_MS = 1500, /* for what ranks answer */
  MOST_SILENT = 16,
  WAY_BYTES = 200
};

/* When all have answered, or the time for that is over. */
static void give_verdict(void *context) {
  struct by_deadlock_check *check = context;
  char text[TEXT_MOST];
  uint32_t culprit = UINT32_MAX;
  enum banyan_status status = by_deadlock_round_judge(check->round, &culprit, text, sizeof text);
  bool apart = status == BANYAN_OK && by_deadlock_round_find_apart(check->round, APART_MS, &culprit, text, sizeof text);
  if (apart && !check->apart) by_warn("control", "%s; calls wait for it until their deadline", text);
  check->apart = apart;
  by_loop_cancel_timer(&check->answers);
  by_deadlock_round_destroy(check->round);
  check->round = NULL;
  if (status != BANYAN_OK) by_deaths_handle_failure(check->deaths, status, culprit, text);
}

/* Who cannot be reached from here. */
struct silent {
  uint32_t n, processes[MOST_SILENT], milliseconds[MOST_SILENT];
  char ways[MOST_SILENT][WAY_BYTES];
};

static void note_silent(void *context, uint32_t process, uint32_t milliseconds, const char *way) {
  struct silent *silent = context;
  if (!milliseconds || silent->n == MOST_SILENT) return;
  silent->processes[silent->n] = process;
  silent->milliseconds[silent->n] = milliseconds;
  snprintf(silent->ways[silent->n++], WAY_BYTES, "%s", way);
}

static void note_lane(void *context, uint32_t process, const struct by_meter *meter) {
  char from[BY_ADDRESS_TEXT] = "?", to[BY_ADDRESS_TEXT] = "?", way[WAY_BYTES];
  struct by_address local, peer;
  if (!meter->silent) return;
  if (by_socket_get_local(meter->fd, &local) == BANYAN_OK) by_address_print(&local, from);
  if (by_socket_get_peer(meter->fd, &peer) == BANYAN_OK) by_address_print(&peer, to);
  snprintf(way, sizeof way, "on the connection from %.70s to %.70s", from, to);
  note_silent(context, process, meter->silent, way);
}

static void write_silent(struct by_writer *writer, const struct silent *silent) {
  if (!silent->n) return;
  by_write_u32(writer, silent->n);
  for (uint32_t i = 0; i < silent->n; i++) {
    by_write_u32(writer, silent->processes[i]);
    by_write_u32(writer, silent->milliseconds[i]);
    by_write_string(writer, silent->ways[i]);
  }
}

/* What by_engine_describe writes and who is silent, to be freed, with room for a number before it; NULL: no memory. */
static uint8_t *describe_self(const struct by_deadlock_check *check, size_t *length) {
  struct by_job *job = check->peers->job;
  struct by_writer measure, writer;
  struct silent silent = {.n = 0};
  if (check->connector) by_connector_visit_tried(check->connector, note_silent, &silent);
  by_writer_init(&measure, NULL, 0);
  by_job_lock(job);
  by_engine_meter(job->engine, note_lane, &silent);
  by_engine_describe(job->engine, &measure);
  write_silent(&measure, &silent);
  uint8_t *bytes = malloc(sizeof(uint32_t) + measure.length);
  if (bytes) {
    by_writer_init(&writer, bytes + sizeof(uint32_t), measure.length);
    by_engine_describe(job->engine, &writer);
    write_silent(&writer, &silent);
  }
  by_job_unlock(job);
  *length = measure.length;
  return bytes;
}

static void notify(const struct by_control_peer *peer, enum message type, const void *bytes, size_t length) {
  if (by_stream_send(peer->stream, (uint16_t)type, bytes, length) != BANYAN_OK)
    by_debug("control", "telling %s failed: %s", by_stream_get_name(peer->stream), banyan_error_text());
}

static void suspect_dead(struct by_deadlock_check *check, uint32_t rank) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text,
           "rank %u (host %s) is gone: its process ended, though another process that it made still "
           "holds its connections",
           rank, check->peers->job->members[rank].host);
  by_deaths_suspect(check->deaths, rank, text);
}

/* A rank may be dead though its connections are open, where another one holds them: one that it made in a way that
 * fork handlers do not see. Those of this machine are looked at; one that has left says so to rank 0 before it ends. */
static void suspect_ended(struct by_deadlock_check *check) {
  const struct by_job *job = check->peers->job;
  const char *machine = job->members[job->rank].machine;
  for (uint32_t r = 0; r < job->size; r++) {
    const struct by_member *member = &job->members[r];
    if (r == job->rank || strcmp(member->machine, machine) != 0 || by_control_peers_has_left(check->peers, r)) continue;
    if (by_process_has_ended((pid_t)member->pid)) suspect_dead(check, r);
  }
}

static void answer(struct by_deadlock_check *check, const struct by_control_peer *peer, const void *payload,
                   size_t length) {
  size_t n;
  uint8_t *bytes = length == sizeof(uint32_t) ? describe_self(check, &n) : NULL;
  if (!bytes) return;
  memcpy(bytes, payload, sizeof(uint32_t));
  notify(peer, DESCRIPTION, bytes, sizeof(uint32_t) + n);
  free(bytes);
  suspect_ended(check);
}

static void handle_answer(struct by_deadlock_check *check, struct by_control_peer *peer, const uint8_t *payload,
                          size_t length) {
  size_t skip = sizeof(uint32_t);
  peer->silent = false;
  if (by_control_peers_is_helper(check->peers, peer->rank)) return; /* that it answers is all that counts */
  if (!check->round || peer->rank < 0 || length < skip || by_get_u32(payload) != check->rounds) return;
  if (by_deadlock_round_answer(check->round, (uint32_t)peer->rank, payload + skip, length - skip)) give_verdict(check);
}

void by_deadlock_check_left(struct by_deadlock_check *check, uint32_t rank) {
  if (check->round && by_deadlock_round_left(check->round, rank)) give_verdict(check);
}

/* ---- helpers that are stopped: the kernel answers for such a process, so its connections stay */

static bool may_answer(const struct by_control_peers *peers, uint32_t process) {
  const struct by_control_peer *peer = peers->of_process[process];
  return peer && by_control_peer_stays(peer) && !by_control_peers_has_lost(peers, process);
}

static void ask_helpers(struct by_deadlock_check *check) {
  struct by_control_peers *peers = check->peers;
  const struct by_job *job = peers->job;
  uint8_t number[sizeof(uint32_t)];
  by_put_u32(number, check->rounds);
  for (uint32_t p = job->size; p < job->processes; p++) {
    struct by_control_peer *peer = peers->of_process[p];
    if (!may_answer(peers, p) || peer->silent) continue;
    peer->silent = by_stream_send(peer->stream, DESCRIBE, number, sizeof number) == BANYAN_OK;
    peer->asked_at = by_loop_now(job->loop);
  }
  if (!by_timer_is_set(&check->silence)) by_loop_set_delay(job->loop, &check->silence, SILENCE_MS * BY_MILLISECOND);
}

/* Those that were asked later have their time, too. */
static void silence_over(void *argument) {
  struct by_deadlock_check *check = argument;
  struct by_control_peers *peers = check->peers;
  const struct by_job *job = peers->job;
  uint64_t now = by_loop_now(job->loop), next = UINT64_MAX;
  for (uint32_t p = job->size; p < job->processes; p++) {
    if (!may_answer(peers, p) || !peers->of_process[p]->silent) continue;
    uint64_t until = peers->of_process[p]->asked_at + SILENCE_MS * BY_MILLISECOND;
    if (until <= now)
      by_deaths_lose_silent(check->deaths, p);
    else if (until < next)
      next = until;
  }
  if (next != UINT64_MAX) by_loop_set_timer(job->loop, &check->silence, next);
}

/* ---- asking */

static void begin(struct by_deadlock_check *check) {
  const struct by_control_peers *peers = check->peers;
  uint8_t number[sizeof(uint32_t)];
  if (by_deadlock_round_create(peers->job, &check->round) != BANYAN_OK) return;
  by_put_u32(number, ++check->rounds);
  for (uint32_t r = 1; r < peers->job->size; r++) {
    const struct by_control_peer *peer = peers->of_process[r];
    if (!peer || !by_control_peer_stays(peer))
      (void)by_deadlock_round_left(check->round, r); /* this rank itself is still to answer */
    else
      notify(peer, DESCRIBE, number, sizeof number);
  }
  by_loop_set_delay(peers->job->loop, &check->answers, ANSWERS_MS * BY_MILLISECOND);
}

/* Helpers are asked each time: one that has answered may have gone since. */
static void ask_all(struct by_deadlock_check *check, const char *late, const char *awaited) {
  bool fresh = !check->round;
  if (fresh) suspect_ended(check);
  if (fresh) begin(check);
  ask_helpers(check);
  if (check->round && *late) by_deadlock_round_late(check->round, late, awaited);
  size_t length;
  uint8_t *own = fresh && check->round ? describe_self(check, &length) : NULL;
  if (own && by_deadlock_round_answer(check->round, 0, own + sizeof(uint32_t), length)) give_verdict(check);
  free(own);
}

void by_deadlock_check_ask(struct by_deadlock_check *check, const char *late, const char *awaited) {
  struct by_control_peers *peers = check->peers;
  uint8_t bytes[2 * TEXT_MOST];
  struct by_writer writer;
  if (check->deaths->spread || atomic_load(&peers->leaving)) return;
  if (by_control_peers_is_root(peers)) {
    ask_all(check, late, awaited);
    return;
  }
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_string(&writer, late);
  by_write_string(&writer, awaited);
  const struct by_control_peer *root = by_control_peers_root(peers);
  if (root && !writer.failed) notify(root, ASK, bytes, writer.length);
  suspect_ended(check); /* rank 0 may be the one */
}

static void handle_ask(struct by_deadlock_check *check, const struct by_control_peer *peer, const void *payload,
                       size_t length) {
  struct by_reader reader;
  char late[TEXT_MOST], awaited[TEXT_MOST];
  by_reader_init(&reader, payload, length);
  by_read_string(&reader, late, sizeof late);
  by_read_string(&reader, awaited, sizeof awaited);
  if (by_reader_check(&reader, "a question") == BANYAN_OK && peer->rank > 0)
    by_deadlock_check_ask(check, late, awaited);
}

void by_deadlock_check_handle(struct by_deadlock_check *check, struct by_control_peer *peer, uint16_t type,
                              const void *payload, size_t length) {
  if (type == ASK)
    handle_ask(check, peer, payload, length);
  else if (type == DESCRIPTION)
    handle_answer(check, peer, payload, length);
  else if (check->peers->job->engine)
    answer(check, peer, payload, length);
}

static void handle_question(const struct by_report *report) {
  by_deadlock_check_ask(report->context, report->text, report->awaited);
}

bool by_deadlock_check_post(struct by_deadlock_check *check, const char *late, const char *awaited) {
  struct by_report report = {.handle = handle_question, .context = check};
  if (atomic_load(&check->peers->deaf) || atomic_load(&check->peers->leaving)) return false;
  snprintf(report.awaited, sizeof report.awaited, "%s", awaited ? awaited : "");
  return by_control_peers_post(check->peers, &report, NULL, late ? late : "");
}

void by_deadlock_check_init(struct by_deadlock_check *check, struct by_deaths *deaths,
                            const struct by_connector *connector) {
  *check = (struct by_deadlock_check){.peers = deaths->peers, .deaths = deaths, .connector = connector};
  by_timer_init(&check->answers, give_verdict, check);
  by_timer_init(&check->silence, silence_over, check);
}

void by_deadlock_check_fini(struct by_deadlock_check *check) {
  by_loop_cancel_timer(&check->answers);
  by_loop_cancel_timer(&check->silence);
  by_deadlock_round_destroy(check->round);
}
