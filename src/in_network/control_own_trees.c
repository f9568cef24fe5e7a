/* This process's part in trees through switches: attaches it, reports to rank 0, and forgets versions without use. */
#include "in_network.h"

#include <stdio.h>
#include <stdlib.h>

#include "log.h"

enum { LOOK_MS = 10, NO_TEAM = -1, MOST_VERSIONS = 1024 };

/* This process's trees of one plan. They come into use by a plan that a team is given, and go out of use with the next
 * one. */
struct by_own_version {
  LIST_ENTRY(by_own_version) entry;
  uint32_t version;
  int64_t team;  /* The team whose plan has them, or had them; NO_TEAM: none yet. */
  bool attached; /* This process is attached to at least one of them. */
  bool over;     /* No plan has them any more, or will. */
};

/* ---- reports */

static void send_report(const struct by_control_report *report) {
  const struct by_own_trees *own = report->context;
  struct by_tree_report read;
  const struct by_control_peer *root = by_control_peers_root(own->peers);
  if (root)
    (void)by_control_peer_send(root, TREE_REPORT, report->bytes, report->length);
  else if (by_control_peers_is_root(own->peers) &&
           by_tree_report_read(report->bytes, report->length, &read) == BANYAN_OK)
    by_trees_take_report(&by_in_network_of(own->job)->trees, 0, &read);
}

/* Reports to rank 0. At rank 0, too, the report is handled later, when rank 0 has sent to all what this report answers.
 */
void by_own_trees_report(struct by_own_trees *own, const struct by_tree_report *report) {
  uint8_t bytes[BY_MESSAGE_TEXT + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_tree_report_write(&writer, report);
  (void)by_control_peers_post(
      own->peers, &(struct by_control_report){.handle = send_report, .context = own, .length = writer.length}, bytes,
      "a report about in-network trees");
}

/* Reports that this process cannot take part: a rank cannot work with that server, or a server cannot do its part. */
static void refuse(struct by_own_trees *own, uint32_t version, uint32_t server) {
  const struct by_job *job = own->peers->job;
  if (by_job_get_role(job)->kind == BY_MEMBER_SERVER) server = by_job_rank(job);
  struct by_tree_report report = {.kind = BY_TREE_REFUSED, .version = version, .server = server};
  snprintf(report.text, sizeof report.text, "%s", banyan_error_text());
  by_error("control", "a tree through switches cannot be used: %s", report.text);
  by_own_trees_report(own, &report);
}

/* ---- versions */

static struct by_own_version *find(const struct by_own_trees *own, uint32_t version) {
  struct by_own_version *at = LIST_FIRST(&own->versions);
  while (at && at->version != version) at = LIST_NEXT(at, entry);
  return at;
}

static struct by_own_version *get(struct by_own_trees *own, uint32_t version) {
  struct by_own_version *at = find(own, version);
  uint32_t n = 0;
  if (at) return at;
  LIST_FOREACH(at, &own->versions, entry) n++;
  at = n < MOST_VERSIONS ? calloc(1, sizeof *at) : NULL;
  if (!at) {
    by_engine_fail(by_job_engine(own->peers->job), BANYAN_ERR_NO_MEMORY, by_job_rank(own->peers->job),
                   "out of memory for in-network trees, or rank 0 names too many versions of them");
    return NULL;
  }
  *at = (struct by_own_version){.version = version, .team = NO_TEAM};
  LIST_INSERT_HEAD(&own->versions, at, entry);
  return at;
}

/* Forgets a version. False: calls over it are in progress, or rank 0 still has to send this process its part. */
static bool forget(struct by_own_trees *own, struct by_own_version *at) {
  struct by_engine *engine = by_job_engine(own->peers->job);
  if (!at->attached || !by_engine_detach_fabrics(engine, at->version)) return false;
  by_debug("control", "in-network trees of version %u are not used any more", at->version);
  by_own_trees_report(own, &(struct by_tree_report){.kind = BY_TREE_UNUSED, .version = at->version});
  LIST_REMOVE(at, entry);
  free(at);
  return true;
}

static void look(void *argument) {
  struct by_own_trees *own = argument;
  bool later = false;
  by_job_lock(own->peers->job);
  for (struct by_own_version *at = LIST_FIRST(&own->versions), *next; at; at = next) {
    next = LIST_NEXT(at, entry);
    if (at->over) later |= !forget(own, at) && at->attached;
  }
  by_job_unlock(own->peers->job);
  if (later) by_loop_set_delay(by_job_loop(own->peers->job), &own->due, LOOK_MS * BY_MILLISECOND);
}

static void look_soon(struct by_own_trees *own) {
  if (by_loop_post(by_job_loop(own->peers->job), look, own) != BANYAN_OK)
    by_warn("control", "in-network trees stay as they are: %s", banyan_error_text());
}

void by_own_trees_use(struct by_own_trees *own, uint32_t team, uint32_t version) {
  struct by_own_version *at;
  bool over = false;
  LIST_FOREACH(at, &own->versions, entry) {
    if (at->team == team && at->version != version) over = at->over = true;
  }
  if (version && (at = get(own, version))) at->team = team;
  if (over) look_soon(own);
}

void by_own_trees_drop(struct by_own_trees *own, uint32_t version) {
  struct by_own_version *at = find(own, version);
  if (!at) return;
  at->over = true;
  look_soon(own);
}

/* ---- messages of rank 0 */

static enum banyan_status attach(struct by_own_trees *own, const struct by_tree_message *message) {
  struct by_job *job = own->peers->job;
  BY_TRY(by_worker_attach_tree(own->job, message));
  by_job_lock(job);
  struct by_own_version *at = get(own, message->version);
  if (at) at->attached = true;
  by_job_unlock(job);
  return BANYAN_OK;
}

static void take(struct by_own_trees *own, const struct by_tree_message *message) {
  const struct by_job *job = own->peers->job;
  struct by_tree_report ready = {.kind = BY_TREE_READY, .version = message->version, .server = message->server};
  bool server = message->worker == BY_TREE_FOR_SERVER || message->worker == BY_TREE_FOR_AGGREGATOR;
  enum banyan_status status = BANYAN_OK;
  if (server != (by_job_get_role(job)->kind == BY_MEMBER_SERVER))
    status = by_fail(BANYAN_ERR_PROTOCOL, "a tree through switches in which this is no such end");
  else if (server)
    status = by_job_get_role(job)->serve(by_job_get_role(job)->context, message); /* The server reports by itself. */
  else
    status = attach(own, message);
  if (status != BANYAN_OK)
    refuse(own, message->version, message->server);
  else if (!server)
    by_own_trees_report(own, &ready);
  look(own);
}

static void handle_tree(struct by_own_trees *own, const struct by_received *received) {
  const struct by_job *job = own->peers->job;
  struct by_roster roster = {by_job_size(job), by_job_processes(job)};
  struct by_tree_message *message = calloc(1, sizeof *message); /* The message is too large for a stack. */
  if (!message)
    by_engine_fail(by_job_engine(job), BANYAN_ERR_NO_MEMORY, by_job_rank(job), "out of memory for in-network trees");
  else if (by_tree_message_read(received->payload, received->length, roster, message) == BANYAN_OK)
    take(own, message);
  else
    refuse(own, message->version, message->server);
  free(message);
}

static void open_port(struct by_own_trees *own) {
  struct by_tree_report report = {.kind = BY_TREE_AT};
  if (by_worker_open_udp(own->job, &report.port) == BANYAN_OK)
    by_own_trees_report(own, &report);
  else
    refuse(own, 0, 0);
}

/* Ends a version. This process may have had no part in it, or have reported already. */
static void end(struct by_own_trees *own, uint32_t version) {
  const struct by_job_role *role = by_job_get_role(own->peers->job);
  if (role->kind == BY_MEMBER_SERVER) {
    role->unserve(role->context, version);
    return;
  }
  by_job_lock(own->peers->job);
  struct by_own_version *at = find(own, version);
  if (at) at->over = at->attached = true;
  by_job_unlock(own->peers->job);
  look(own);
}

static void handle_ask(struct by_own_trees *own, const struct by_received *received) {
  struct by_tree_ask ask;
  bool rank = by_job_get_role(own->peers->job)->kind == BY_MEMBER_RANK;
  if (by_tree_ask_read(received->payload, received->length, &ask) != BANYAN_OK)
    by_warn("control", "malformed message about in-network trees; ignored");
  else if (ask.kind == BY_TREE_END)
    end(own, ask.version);
  else if (rank)
    open_port(own);
}

void by_own_trees_handle(struct by_own_trees *own, const struct by_received *message) {
  if (by_job_get_role(own->peers->job)->kind == BY_MEMBER_HELPER) return;
  if (message->type == TREE)
    handle_tree(own, message);
  else
    handle_ask(own, message);
}

void by_own_trees_init(struct by_own_trees *own, struct by_control_peers *peers, struct by_job *job) {
  *own = (struct by_own_trees){.peers = peers, .job = job};
  LIST_INIT(&own->versions);
  by_timer_init(&own->due, look, own);
}

void by_own_trees_fini(struct by_own_trees *own) {
  by_loop_cancel_timer(&own->due);
  for (struct by_own_version *at; (at = LIST_FIRST(&own->versions));) {
    LIST_REMOVE(at, entry);
    free(at);
  }
}
