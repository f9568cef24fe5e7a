/* Encodes and decodes the knowledge that a process transfers from one membership into the next. */
#include "carry.h"

#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

#include "bytes.h"
#include "job_network.h"
#include "log.h"
#include "member.h"
#include "plan_switch.h"
#include "planning.h"
#include "plans.h"
#include "text.h"

/* ---- the message */

static const struct by_field fields[] = {
    BY_FIELD(by_carried_message, decision, BY_FIELD_U8, .max = BY_CARRIED_DECISIONS - 1),
    BY_FIELD(by_carried_message, source, BY_FIELD_U8, .max = BANYAN_PLAN_SOURCES - 1),
    BY_FIELD(by_carried_message, plan_ranks, BY_FIELD_U32),
    BY_FIELD(by_carried_message, plan_of.bytes, BY_FIELD_BYTES)};

enum { MIN_HOST = 4 + 4 };

static void write(struct by_writer *writer, const struct by_carried_message *message) {
  by_fields_write(writer, BY_FIELDS(fields), message);
  by_write_u32(writer, message->n_hosts);
  for (uint32_t h = 0; h < message->n_hosts; h++) {
    by_write_string(writer, message->hosts[h].machine);
    by_write_u32(writer, message->hosts[h].node);
  }
  by_write_blob(writer, message->topology, message->topology_length);
  by_write_blob(writer, message->plan, message->plan_length);
}

enum banyan_status by_carried_message_write(const struct by_carried_message *message, uint8_t **out, size_t *length) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  write(&writer, message);
  *length = writer.length;
  *out = malloc(*length);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what is known of a network");
  by_writer_init(&writer, *out, *length);
  write(&writer, message);
  return BANYAN_OK;
}

enum banyan_status by_carried_message_read(const void *bytes, size_t length, struct by_arena *arena,
                                           struct by_carried_message *out) {
  static const char what[] = "what is carried into a membership";
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_carried_message){0};
  BY_TRY(by_fields_read(&reader, arena, BY_FIELDS(fields), what, out));
  out->n_hosts = by_read_count(&reader, MIN_HOST);
  out->hosts = BY_ARENA_ARRAY(arena, struct by_carried_host, (size_t)out->n_hosts + 1);
  if (!out->hosts) return by_fail(BANYAN_ERR_NO_MEMORY, "%s: out of memory for %u hosts", what, out->n_hosts);
  for (uint32_t h = 0; h < out->n_hosts; h++) {
    out->hosts[h].machine = by_read_string_in(&reader, arena, BY_MEMBER_STRING);
    out->hosts[h].node = by_read_u32(&reader);
  }
  out->topology = (const char *)by_read_blob(&reader, &out->topology_length);
  out->plan = (const char *)by_read_blob(&reader, &out->plan_length);
  return by_reader_check(&reader, what);
}

enum { RANK_BITS = 20, TAG = 0 }; /* Ranks are below 65536. */

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what is known of the network");
}

void by_carried_fini(struct by_carried *carried) {
  free(carried->bytes);
}

/* Hashes the machines of all ranks, in order. */
static enum banyan_status digest(const struct by_job *job, struct by_fingerprint *out) {
  const struct by_member *members = by_job_members(job);
  struct by_hashed *parts = calloc(by_job_size(job), sizeof *parts);
  if (!parts) return no_memory();
  for (uint32_t r = 0; r < by_job_size(job); r++)
    parts[r] = (struct by_hashed){members[r].machine, strlen(members[r].machine)};
  enum banyan_status status = by_membership_digest(parts, by_job_size(job), out);
  free(parts);
  return status;
}

static const char *machine_of(const struct by_job *job, uint32_t host) {
  const struct by_member *members = by_job_members(job);
  uint32_t r = 0;
  while (r + 1 < by_job_size(job) && by_job_hosts(job)->of[r] != host) r++;
  return members[r].machine;
}

static const struct by_carried_host *find_host(const struct by_carried_message *message, const char *machine) {
  for (uint32_t h = 0; h < message->n_hosts; h++)
    if (!strcmp(message->hosts[h].machine, machine)) return &message->hosts[h];
  return NULL;
}

/* ---- leaving a membership */

/* The state of collecting what `before` knows; strings and texts are its own, the arena's or the text's. */
struct leaving {
  struct by_carried *carried;
  struct by_job *before;
  struct by_carried_message old, message;
  struct by_topology *old_topology; /* NULL: not known, or not needed */
  struct by_arena arena;
  struct by_text topology, plan;
};

/* Returns whether a node is unchanged from the earlier topology. */
static bool is_same_node(const struct leaving *l, const struct by_topology *topology, uint32_t node) {
  const struct by_topology *old = l->old_topology;
  return old && node < old->n_nodes && node < topology->n_nodes &&
         !strcmp(old->nodes[node].name, topology->nodes[node].name);
}

/* Hosts of this membership, and those of earlier ones in the same topology; `network` NULL: without one. */
static enum banyan_status list_hosts(struct leaving *l, const struct by_job_network *network) {
  const struct by_job *job = l->before;
  struct by_carried_message *m = &l->message;
  m->hosts = BY_ARENA_ARRAY(&l->arena, struct by_carried_host, (size_t)by_job_hosts(job)->n + l->old.n_hosts);
  if (!m->hosts) return no_memory();
  for (uint32_t h = 0; h < by_job_hosts(job)->n; h++) {
    const char *machine = machine_of(job, h);
    if (!find_host(m, machine))
      m->hosts[m->n_hosts++] = (struct by_carried_host){machine, network ? network->nodes[h] : 0};
  }
  for (uint32_t h = 0; network && h < l->old.n_hosts; h++) {
    const struct by_carried_host *host = &l->old.hosts[h];
    if (!find_host(m, host->machine) && is_same_node(l, network->topology, host->node)) m->hosts[m->n_hosts++] = *host;
  }
  return BANYAN_OK;
}

static enum banyan_status take_network(struct leaving *l, const struct by_job_network *network) {
  struct by_carried_message *m = &l->message;
  m->decision = BY_CARRIED_PLANNED;
  m->source = network->source;
  BY_TRY(list_hosts(l, network));
  by_topology_print(network->topology, &l->topology);
  if (l->topology.failed) return no_memory();
  m->topology = by_text_get(&l->topology);
  m->topology_length = l->topology.length;
  l->carried->topology = BY_CARRIED_CURRENT;
  return BANYAN_OK;
}

/* Keeps the earlier knowledge, as less certain. */
static void keep_old(struct leaving *l) {
  l->message = l->old;
  l->message.plan_length = 0;
  if (l->carried->topology == BY_CARRIED_CURRENT) l->carried->topology = BY_CARRIED_OLDER;
}

static enum banyan_status take_builtin(struct leaving *l) {
  l->message.decision = BY_CARRIED_BUILTIN;
  l->carried->topology = BY_CARRIED_NO_TOPOLOGY;
  return list_hosts(l, NULL);
}

static enum banyan_status take_plan(struct leaving *l) {
  struct by_job *before = l->before;
  struct by_carried_message *m = &l->message;
  by_job_lock(before);
  const struct by_plan *plan = by_plans_chosen(before);
  if (plan && plan->origin.source == BANYAN_PLAN_BUILTIN)
    by_text_add(&l->plan, "%s", plan->name);
  else if (plan)
    by_plan_print(plan, &l->plan);
  m->plan_ranks = plan && plan->origin.source != BANYAN_PLAN_BUILTIN ? plan->n_ranks : 0;
  by_job_unlock(before);
  if (l->plan.failed) return no_memory();
  m->plan = by_text_get(&l->plan);
  m->plan_length = l->plan.length;
  return digest(before, &m->plan_of);
}

/* Takes the program's plan. A plan that did not fit is kept until it does, or the program sets another one. */
static enum banyan_status take_or_keep_plan(struct leaving *l) {
  struct by_carried_message *m = &l->message;
  if (l->carried->plan_used || by_plans_chosen(l->before) || !l->old.plan_length) return take_plan(l);
  m->plan = l->old.plan;
  m->plan_length = l->old.plan_length;
  m->plan_ranks = l->old.plan_ranks;
  m->plan_of = l->old.plan_of;
  return BANYAN_OK;
}

static enum banyan_status take(struct leaving *l) {
  struct by_carried *carried = l->carried;
  struct by_job_network *network = by_job_network_hold(l->before);
  enum banyan_status status = BANYAN_OK;
  if (carried->bytes) status = by_carried_message_read(carried->bytes, carried->length, &l->arena, &l->old);
  if (status == BANYAN_OK && network && l->old.topology_length)
    status = by_topology_parse("the topology before", l->old.topology, l->old.topology_length, &l->old_topology);
  if (status == BANYAN_OK && network)
    status = take_network(l, network);
  else if (status == BANYAN_OK && carried->decision == BY_CARRIED_BUILTIN)
    status = take_builtin(l);
  else
    keep_old(l);
  if (status == BANYAN_OK) status = take_or_keep_plan(l);
  by_job_network_release(network);
  by_topology_destroy(l->old_topology);
  return status;
}

void by_carried_take(struct by_carried *carried, struct by_job *before) {
  struct leaving leaving = {.carried = carried, .before = before};
  uint8_t *bytes = NULL;
  size_t length = 0;
  if (carried->settled != before) return; /* The context reached no plan, so the earlier knowledge still holds. */
  by_arena_init(&leaving.arena);
  by_text_init(&leaving.topology);
  by_text_init(&leaving.plan);
  enum banyan_status status = take(&leaving);
  if (status == BANYAN_OK) status = by_carried_message_write(&leaving.message, &bytes, &length);
  if (status == BANYAN_OK) {
    free(carried->bytes);
    carried->bytes = bytes;
    carried->length = length;
  } else {
    by_info("plan", "what is known of the network is not taken into the next membership: %s", banyan_error_text());
  }
  carried->settled = NULL;
  by_text_fini(&leaving.topology);
  by_text_fini(&leaving.plan);
  by_arena_fini(&leaving.arena);
}

/* ---- coming into a membership */

/* Finds the rank that knows most, and how old its knowledge is; *version 0: nobody knows anything. */
static enum banyan_status choose_rank(const struct by_carried *carried, struct banyan_comm *comm, uint32_t *rank,
                                      uint64_t *version) {
  const int64_t ranks = INT64_C(1) << RANK_BITS;
  int64_t known = carried->bytes ? (int64_t)(carried->version << 2) | (int64_t)carried->topology : 0;
  int64_t best = known * ranks + (ranks - 1 - comm->rank);
  BY_TRY(banyan_allreduce(comm, &best, &best, 1, BANYAN_INT64, BANYAN_MAX));
  *rank = (uint32_t)(ranks - 1 - best % ranks);
  *version = (uint64_t)(best / ranks) >> 2;
  return BANYAN_OK;
}

static enum banyan_status pass(struct banyan_comm *comm, enum banyan_collective direction, uint32_t peer, void *bytes,
                               size_t n) {
  struct banyan_call call = {.collective = direction,
                             .dtype = BANYAN_UINT8,
                             .root = (int)peer,
                             .send = bytes,
                             .recv = bytes,
                             .count = n,
                             .tag = TAG};
  return banyan_run(comm, &call);
}

/* Sends that rank's knowledge to rank 0, which keeps a copy. */
static enum banyan_status send_up(struct by_carried *carried, struct banyan_comm *comm, uint32_t rank) {
  uint64_t length = carried->length;
  if (!rank || (comm->rank != 0 && comm->rank != rank)) return BANYAN_OK;
  if (comm->rank == rank) {
    BY_TRY(pass(comm, BANYAN_SEND, 0, &length, sizeof length));
    return pass(comm, BANYAN_SEND, 0, carried->bytes, length);
  }
  BY_TRY(pass(comm, BANYAN_RECV, rank, &length, sizeof length));
  uint8_t *bytes = malloc(length ? length : 1);
  if (!bytes) return by_job_fail_here(comm->job, no_memory(), "cannot take part");
  enum banyan_status status = pass(comm, BANYAN_RECV, rank, bytes, length);
  if (status != BANYAN_OK) {
    free(bytes);
    return status;
  }
  free(carried->bytes);
  carried->bytes = bytes;
  carried->length = length;
  carried->topology = BY_CARRIED_OLDER;
  return BANYAN_OK;
}

/* Returns whether a host of another machine than that of `rank` has that node, at rank 0. */
static bool is_taken(const struct by_job *job, const uint32_t *nodes, uint32_t rank, uint32_t node) {
  const struct by_member *members = by_job_members(job);
  for (uint32_t r = 0; r < rank; r++)
    if (nodes[by_job_hosts(job)->of[r]] == node && strcmp(members[r].machine, members[rank].machine) != 0) return true;
  return false;
}

/* Finds a rank's node. Measured machines may share a name; then nothing is known of the second one. */
static uint32_t find_node(const struct by_job *job, const struct by_carried_found *found,
                          const struct by_topology *topology, uint32_t rank) {
  const struct by_member *member = &by_job_members(job)[rank];
  const struct by_carried_host *host = find_host(&found->message, member->machine);
  uint32_t node = host ? host->node : topology ? by_planning_node_of(topology, member->host) : UINT32_MAX;
  if (topology && node >= topology->n_nodes) return UINT32_MAX;
  bool ambiguous = topology && found->message.source == BANYAN_PLAN_MEASURED && is_taken(job, found->nodes, rank, node);
  return ambiguous ? UINT32_MAX : node;
}

static bool find_all(const struct by_job *job, struct by_carried_found *found, const struct by_topology *topology) {
  const struct by_member *members = by_job_members(job);
  if (!topology && found->message.decision != BY_CARRIED_BUILTIN) return false;
  for (uint32_t r = 0; r < by_job_size(job); r++) {
    uint32_t node = find_node(job, found, topology, r);
    found->nodes[by_job_hosts(job)->of[r]] = node;
    if (node != UINT32_MAX) continue;
    by_info("plan", "%s was in no membership before: the network is looked for anew", members[r].host);
    return false;
  }
  return true;
}

/* Finds the nodes of all hosts, at rank 0. */
static enum banyan_status find_nodes(const struct by_job *job, struct by_carried_found *found) {
  const struct by_carried_message *m = &found->message;
  struct by_topology *topology = NULL;
  found->nodes = BY_ARENA_ARRAY(&found->arena, uint32_t, by_job_hosts(job)->n);
  if (!found->nodes) return no_memory();
  if (m->topology_length) BY_TRY(by_topology_parse("carried", m->topology, m->topology_length, &topology));
  if (find_all(job, found, topology)) found->decision = m->decision;
  by_topology_destroy(topology);
  return BANYAN_OK;
}

/* Decides at rank 0 whether the plan fits: a built-in one if it can be made for so many ranks, another one if the hosts
 * are the same. */
static enum banyan_status fit_plan(const struct by_job *job, struct by_carried_found *found) {
  const struct by_carried_message *m = &found->message;
  struct by_plan *made = NULL;
  struct by_fingerprint own;
  if (!m->plan_length) return BANYAN_OK;
  char *name = BY_ARENA_ARRAY(&found->arena, char, m->plan_length + 1);
  if (!name) return no_memory();
  memcpy(name, m->plan, m->plan_length);
  BY_TRY(digest(job, &own));
  found->plan = m->plan_ranks ? !memcmp(own.bytes, m->plan_of.bytes, sizeof own.bytes)
                              : by_plan_builtin(name, by_job_size(job), &made) == BANYAN_OK;
  by_plan_destroy(made);
  if (!found->plan)
    by_warn("plan",
            "the plan that the program has set for other hosts is not used in this membership of %u ranks; it is "
            "again in one of the hosts that it was set for",
            by_job_size(job));
  return BANYAN_OK;
}

static enum banyan_status judge(const struct by_carried *carried, const struct banyan_comm *comm,
                                struct by_carried_found *found) {
  const struct by_job *job = comm->job;
  BY_TRY(by_carried_message_read(carried->bytes, carried->length, &found->arena, &found->message));
  found->source = found->message.source;
  BY_TRY(find_nodes(job, found));
  return fit_plan(job, found);
}

enum banyan_status by_carried_find(struct by_carried *carried, struct banyan_comm *comm, struct by_carried_found *out) {
  uint32_t rank;
  *out = (struct by_carried_found){0};
  by_arena_init(&out->arena);
  BY_TRY(choose_rank(carried, comm, &rank, &out->version));
  if (!out->version) return BANYAN_OK;
  BY_TRY(send_up(carried, comm, rank));
  if (comm->rank == 0 && judge(carried, comm, out) != BANYAN_OK) {
    by_warn("plan", "what is known from the membership before is not used: %s", banyan_error_text());
    out->decision = BY_CARRIED_NOTHING;
    out->plan = false;
  }
  int32_t shared[] = {(int32_t)out->decision, (int32_t)out->source, out->plan};
  BY_TRY(banyan_broadcast(comm, shared, 3, BANYAN_INT32, 0));
  out->decision = (enum by_carried_decision)shared[0];
  out->source = (enum banyan_plan_source)shared[1];
  out->plan = shared[2];
  return BANYAN_OK;
}

void by_carried_found_fini(struct by_carried_found *found) {
  by_arena_fini(&found->arena);
}

/* ---- using it */

static bool is_builtin(const char *text) {
  const struct by_plan_builtin_entry *entry;
  size_t length = strcspn(text, ":");
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)); i++)
    if (strlen(entry->name) == length && !memcmp(entry->name, text, length)) return true;
  return false;
}

void by_carried_leave_out_given(struct by_job *job) {
  const char *text = by_job_settings(job)->plan;
  struct by_plan *plan = NULL;
  if (!by_job_membership(job) || !text || !*text) return;
  enum banyan_status status = by_plan_named(text, by_job_size(job), &plan);
  uint32_t n = plan ? plan->n_ranks : 0;
  by_plan_destroy(plan);
  if (status != BANYAN_OK && !is_builtin(text)) return; /* The fault is independent of the size. */
  if (status == BANYAN_OK && (n == by_job_size(job) || n == by_job_hosts(job)->n)) return;
  if (by_job_rank(job) == 0)
    by_warn("plan",
            "the plan in BANYAN_PLAN is not used in this membership of %u ranks on %u hosts: %s%u ranks or hosts; it "
            "is used again in one that it fits",
            by_job_size(job), by_job_hosts(job)->n, status == BANYAN_OK ? "it is for " : "it cannot be made for ",
            status == BANYAN_OK ? n : by_job_size(job));
  by_plans_ignore_setting(job);
}

enum banyan_status by_carried_set_plan(struct banyan_comm *comm, const struct by_carried_found *found) {
  uint64_t length = found->message.plan_length;
  struct by_plan *plan = NULL;
  BY_TRY(banyan_broadcast(comm, &length, sizeof length, BANYAN_UINT8, 0));
  char *text = length < SIZE_MAX ? calloc(1, length + 1) : NULL;
  if (!text) return by_job_fail_here(comm->job, no_memory(), "cannot set the plan");
  if (comm->rank == 0) memcpy(text, found->message.plan, length);
  enum banyan_status status = banyan_broadcast(comm, text, length, BANYAN_UINT8, 0);
  if (status == BANYAN_OK) status = by_plans_named(comm->job, comm->size, comm->processes, text, &plan);
  free(text);
  if (status != BANYAN_OK) return status;
  return by_plan_switches_set_plan(comm, plan);
}

enum banyan_status by_carried_plan(struct banyan_comm *comm, const struct by_carried_found *found, bool *planned) {
  const struct by_carried_message *m = &found->message;
  struct by_topology *topology = NULL;
  if (comm->rank == 0) {
    enum banyan_status status = by_topology_parse("carried", m->topology, m->topology_length, &topology);
    if (status != BANYAN_OK) return by_planning_fail(comm, status);
    by_info("plan", "the network is known from the membership before");
  }
  return by_planning_for_all(
      comm, topology, &(struct by_planning_options){.nodes = found->nodes, .source = found->source, .may_fail = true},
      planned);
}

void by_carried_settle(struct by_carried *carried, const struct banyan_comm *comm, const struct by_carried_found *found,
                       enum by_carried_decision decision) {
  carried->version = found->version + 1;
  carried->settled = comm->job;
  carried->decision = decision;
  carried->plan_used = found->plan;
}
