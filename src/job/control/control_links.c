/* Makes the links that helpers need for a plan switch, and sends messages of plan switches. */
#include "control_links.h"

#include <stdlib.h>

#include "job_state.h"
#include "log.h"

enum { LOOK_MS = 5, NUMBER_BYTES = 4, MOST_WANTED = 4096 };

void by_control_send_plan_switch(const struct by_control_peer *peer, const struct by_plan_switch_message *message) {
  size_t room = message->length + 4 * message->n_processes + BY_PLAN_SWITCH_FIXED_BYTES;
  uint8_t *bytes = malloc(room);
  struct by_writer writer;
  by_writer_init(&writer, bytes, bytes ? room : 0);
  by_plan_switch_message_write(&writer, message);
  if (writer.failed)
    by_control_peer_cut(peer, "out of memory");
  else
    (void)by_control_peer_send(peer, PLAN_SWITCH, bytes, writer.length);
  free(bytes);
}

/* ---- rank 0: which */

/* Marks the other end of an edge at this vertex. */
static void note_edge(uint32_t a, uint32_t b, uint32_t vertex, bool *near) {
  if (a == vertex && b != vertex) near[b] = true;
  if (b == vertex && a != vertex) near[a] = true;
}

static void find_near(const struct by_group *group, uint32_t vertex, bool *near) {
  const uint32_t *order = group->order;
  for (uint32_t u = 0; u < group->n; u++) {
    if (group->up) note_edge(order[u], order[group->up[u]], vertex, near);
    if (group->down) note_edge(order[u], order[group->down[u]], vertex, near);
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) note_edge(group->twigs[i].child, group->twigs[i].parent, vertex, near);
}

static enum banyan_status list_near(const struct by_proposal *proposal, uint32_t vertex, struct by_helper_link *out) {
  const struct by_plan *plan = proposal->plan;
  bool *near = calloc((size_t)plan->n_vertices + 1, sizeof *near);
  struct by_writer writer;
  size_t room = NUMBER_BYTES * (size_t)plan->n_vertices;
  *out = (struct by_helper_link){.helper = proposal->helpers[vertex - plan->n_ranks], .processes = malloc(room)};
  if (!near || !out->processes) {
    free(near);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  }
  by_writer_init(&writer, out->processes, room);
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) find_near(&plan->classes[c].groups[g], vertex, near);
  for (uint32_t v = 0; v < plan->n_vertices; v++) {
    uint32_t process = v < plan->n_ranks ? proposal->processes[v] : proposal->helpers[v - plan->n_ranks];
    if (near[v] && process != UINT32_MAX) by_write_u32(&writer, process);
  }
  out->n = writer.length / NUMBER_BYTES;
  free(near);
  return BANYAN_OK;
}

enum banyan_status by_helper_links_find(struct by_helper_links *links, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  links->helpers = calloc((size_t)plan->n_vertices - plan->n_ranks + 1, sizeof *links->helpers);
  if (!links->helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++)
    if (plan->vertices[v].kind == BY_VERTEX_HELPER) BY_TRY(list_near(proposal, v, &links->helpers[links->n++]));
  return BANYAN_OK;
}

void by_helper_links_fini(struct by_helper_links *links) {
  for (uint32_t i = 0; i < links->n; i++) free(links->helpers[i].processes);
  free(links->helpers);
}

/* ---- rank 0: asking for them */

bool by_helper_links_ask(const struct by_helper_links *links, const struct by_control_peers *peers, uint32_t comm,
                         uint32_t number) {
  for (uint32_t i = 0; i < links->n; i++) {
    const struct by_helper_link *link = &links->helpers[i];
    const struct by_control_peer *peer = peers->of_process[link->helper];
    if (!peer || by_control_peers_has_lost(peers, link->helper)) return false;
    by_control_send_plan_switch(peer, &(struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_LINK,
                                                                       .comm = comm,
                                                                       .number = number,
                                                                       .processes = link->processes,
                                                                       .n_processes = link->n,
                                                                       .text = ""});
  }
  return true;
}

bool by_helper_links_made(struct by_helper_links *links, uint32_t helper) {
  bool all = true;
  for (uint32_t i = 0; i < links->n; i++) {
    links->helpers[i].linked |= links->helpers[i].helper == helper;
    all &= links->helpers[i].linked;
  }
  return all;
}

bool by_helper_links_has(const struct by_helper_links *links, uint32_t helper) {
  for (uint32_t i = 0; i < links->n; i++)
    if (links->helpers[i].helper == helper) return true;
  return false;
}

/* ---- helpers */

struct by_wanted {
  LIST_ENTRY(by_wanted) entry;
  uint32_t comm, number;
  bool wanted; /* The connector has been asked. */
  size_t n;
  uint32_t processes[];
};

static void remove_wanted(struct by_wanted *wanted) {
  LIST_REMOVE(wanted, entry);
  free(wanted);
}

static void drop_older(struct by_wanted_links *links, const struct by_plan_switch_message *message) {
  for (struct by_wanted *wanted = LIST_FIRST(&links->wanted), *next; wanted; wanted = next) {
    next = LIST_NEXT(wanted, entry);
    if (wanted->comm == message->comm && wanted->number <= message->number) remove_wanted(wanted);
  }
}

/* Returns whether another request fits: rank 0 asks for one plan switch of each communicator at a time. */
static bool has_room(const struct by_wanted_links *links) {
  const struct by_wanted *wanted;
  uint32_t n = 0;
  LIST_FOREACH(wanted, &links->wanted, entry) n++;
  return n < MOST_WANTED;
}

static bool knows_all(const struct by_job *job, const struct by_plan_switch_message *message) {
  if (message->n_processes > job->processes) return false;
  for (size_t i = 0; i < message->n_processes; i++) {
    uint32_t process = by_plan_switch_message_process(message, i);
    if (process >= job->processes || process == job->rank) return false;
  }
  return true;
}

/* Notes a request, which the timer looks at: the engine may not exist yet. */
static void want(struct by_wanted_links *links, const struct by_plan_switch_message *message) {
  struct by_wanted *wanted = calloc(1, sizeof *wanted + message->n_processes * sizeof *wanted->processes);
  if (!wanted) return; /* Without memory, rank 0 gives the plan switch up in time. */
  *wanted = (struct by_wanted){.comm = message->comm, .number = message->number, .n = message->n_processes};
  for (size_t i = 0; i < wanted->n; i++) wanted->processes[i] = by_plan_switch_message_process(message, i);
  LIST_INSERT_HEAD(&links->wanted, wanted, entry);
  by_loop_set_delay(links->peers->job->loop, &links->due, 0);
}

void by_wanted_links_handle(struct by_wanted_links *links, const struct by_control_peer *peer,
                            const struct by_plan_switch_message *message) {
  if (message->kind != BY_PLAN_SWITCH_LINK && message->kind != BY_PLAN_SWITCH_DROP) return; /* For members. */
  drop_older(links, message);
  if (message->kind == BY_PLAN_SWITCH_DROP) return;
  if (has_room(links) && knows_all(links->peers->job, message))
    want(links, message);
  else
    by_warn("control", "%s wants too many links, or links to processes that are not known here; ignored",
            by_stream_get_name(peer->stream));
}

static bool are_made(const struct by_wanted_links *links, struct by_wanted *wanted) {
  struct by_job *job = links->peers->job;
  bool made = true;
  for (size_t i = 0; i < wanted->n && !wanted->wanted; i++) by_connector_want(links->connector, wanted->processes[i]);
  wanted->wanted = true;
  by_job_lock(job);
  for (size_t i = 0; i < wanted->n; i++) made &= by_engine_peer(job->engine, wanted->processes[i]).attached;
  by_job_unlock(job);
  return made;
}

static void wanted_due(void *argument) {
  struct by_wanted_links *links = argument;
  const struct by_job *job = links->peers->job;
  for (struct by_wanted *wanted = LIST_FIRST(&links->wanted), *next; wanted && job->engine; wanted = next) {
    next = LIST_NEXT(wanted, entry);
    if (!are_made(links, wanted)) continue;
    const struct by_control_peer *root = by_control_peers_root(links->peers);
    struct by_plan_switch_message linked = {
        .kind = BY_PLAN_SWITCH_LINKED, .comm = wanted->comm, .number = wanted->number, .text = ""};
    if (root) by_control_send_plan_switch(root, &linked);
    remove_wanted(wanted);
  }
  if (!LIST_EMPTY(&links->wanted)) by_loop_set_delay(job->loop, &links->due, LOOK_MS * BY_MILLISECOND);
}

void by_wanted_links_init(struct by_wanted_links *links, const struct by_control_peers *peers,
                          struct by_connector *connector) {
  *links = (struct by_wanted_links){.peers = peers, .connector = connector};
  by_timer_init(&links->due, wanted_due, links);
}

void by_wanted_links_fini(struct by_wanted_links *links) {
  by_loop_cancel_timer(&links->due);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&links->wanted)) remove_wanted(LIST_FIRST(&links->wanted));
}
