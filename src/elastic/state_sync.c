/* Members agree on the newest version, its buffers and its contents, and those that lack it receive it:
 *
 *   summaries (allgather)   who has which version; nobody has one: rank 0 commits, and again
 *   layout (broadcast)      only if buffers differ: those that differ prepare themselves, or all fail
 *   hashes (broadcast)      only if contents of the version differ: which buffer, on whom
 *   values, chunks' hashes  (broadcast) only if someone lacks the version
 *   chunks                  state_transfer.c
 *
 * After each step in which a member may find fault, all exchange how it ended for them, so they end alike. */
#include <stdio.h>
#include <string.h>

#include <banyan/collectives.h>

#include "clock.h"
#include "comm.h"
#include "log.h"
#include "state_contents.h"
#include "state_copies.h"
#include "state_message.h"
#include "state_transfer.h"
#include "text.h"

enum { LEAST_DEADLINE = 60 /* Minimum seconds of a call, since others hash and copy, and chunks share slow links. */ };

struct sync {
  struct banyan_state *state;
  struct banyan_comm *comm;
  struct banyan_state_sync_options options;
  struct by_arena arena;
  uint64_t deadline; /* Nanoseconds that each call may take. */
  uint32_t n, rank;
  struct by_state_summary *summaries; /* Summaries of all members by rank. */
  bool begins;                        /* No member had a version. */
  uint32_t first;                     /* Lowest rank that has the newest version. */
  bool *holds, *receives;             /* Whether each rank holds the newest version, and whether it receives it. */
  struct banyan_state_report report;
};

static const char *name_of(void *argument, uint32_t rank) {
  const struct sync *s = argument;
  return by_job_name(s->comm->job, s->comm->processes[rank]);
}

static enum banyan_status out_of_memory(const struct sync *s) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the state of %u members", s->n);
}

/* Ends the job because memory is exhausted, since others wait for this member in a call that it cannot make. */
static enum banyan_status end_job(const struct sync *s) {
  (void)!by_job_fail_here(s->comm->job, out_of_memory(s), "could not synchronise its state");
  return BANYAN_ERR_NO_MEMORY;
}

/* Gathers `bytes` bytes of each member on all members. */
static enum banyan_status gather(const struct sync *s, const void *mine, void *all, size_t bytes) {
  return banyan_run(s->comm, &(struct banyan_call){.collective = BANYAN_ALLGATHER,
                                                   .dtype = BANYAN_UINT8,
                                                   .send = mine,
                                                   .recv = all,
                                                   .count = bytes,
                                                   .deadline = by_clock_to_seconds(s->deadline)});
}

/* ---- how a step ended for all */

/* Exchanges the members' statuses and error texts; a collective call. Returns the error of the lowest rank that has
 * one. */
static enum banyan_status agree(struct sync *s, enum banyan_status status) {
  struct by_state_outcome outcome = {.status = (uint32_t)status};
  uint8_t mine[BY_STATE_OUTCOME_BYTES], *all = by_arena_alloc(&s->arena, s->n, BY_STATE_OUTCOME_BYTES);
  if (!all) return end_job(s);
  if (status != BANYAN_OK) by_keep_printable(banyan_error_text(), outcome.text, sizeof outcome.text);
  by_state_outcome_write(mine, &outcome);
  BY_TRY(gather(s, mine, all, sizeof mine));
  for (uint32_t r = 0; r < s->n; r++) {
    enum banyan_status read = by_state_outcome_read(all + (size_t)r * BY_STATE_OUTCOME_BYTES, &outcome);
    if (read != BANYAN_OK) return by_fail_within(read, "%s", name_of(s, r));
    if (outcome.status) return by_fail((enum banyan_status)outcome.status, "%s", outcome.text);
  }
  return BANYAN_OK;
}

/* ---- who has what */

static size_t layout_bytes(const struct by_state_layout *layout) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_state_layout_write(&writer, layout);
  return writer.length;
}

static void summarise(struct banyan_state *state, struct by_state_summary *out) {
  struct by_state_copy *copy = by_state_current(state);
  *out = (struct by_state_summary){.version = -1, .layout = state->layout->hash};
  if (!copy) return;
  by_state_copy_hash(copy);
  out->version = copy->version;
  out->copy_layout = copy->layout->hash;
  out->digest = copy->digest;
  out->values = (uint32_t)copy->values_bytes;
  out->layout_bytes = (uint32_t)layout_bytes(copy->layout);
}

static enum banyan_status exchange_summaries(struct sync *s) {
  struct by_state_summary summary;
  uint8_t mine[BY_STATE_SUMMARY_BYTES], *all = by_arena_alloc(&s->arena, s->n, BY_STATE_SUMMARY_BYTES);
  if (!all) return end_job(s);
  summarise(s->state, &summary);
  by_state_summary_write(mine, &summary);
  BY_TRY(gather(s, mine, all, sizeof mine));
  for (uint32_t r = 0; r < s->n; r++) {
    enum banyan_status status = by_state_summary_read(all + (size_t)r * BY_STATE_SUMMARY_BYTES, &s->summaries[r]);
    if (status != BANYAN_OK) return by_fail_within(status, "the state of %s", name_of(s, r));
  }
  return BANYAN_OK;
}

static void find_newest(struct sync *s) {
  s->first = 0;
  for (uint32_t r = 1; r < s->n; r++)
    if (s->summaries[r].version > s->summaries[s->first].version) s->first = r;
  s->report.version = s->summaries[s->first].version;
}

/* Finds the newest version. If no member has committed one, rank 0 does. */
static enum banyan_status find_version(struct sync *s) {
  BY_TRY(exchange_summaries(s));
  find_newest(s);
  if (s->report.version >= 0) return BANYAN_OK;
  s->begins = true;
  BY_TRY(agree(s, s->rank == 0 ? banyan_state_commit(s->state, 0) : BANYAN_OK));
  BY_TRY(exchange_summaries(s));
  find_newest(s);
  return BANYAN_OK;
}

/* ---- buffers */

/* Broadcasts bytes from rank `first` into memory of the arena. `bytes` is used on that rank only. */
static enum banyan_status spread(struct sync *s, const void *bytes, size_t length, uint8_t **out) {
  *out = by_arena_alloc(&s->arena, length, 1);
  if (!*out) return end_job(s);
  if (s->rank == s->first && bytes) memcpy(*out, bytes, length);
  return banyan_run(s->comm, &(struct banyan_call){.collective = BANYAN_BROADCAST,
                                                   .dtype = BANYAN_UINT8,
                                                   .root = (int)s->first,
                                                   .recv = *out,
                                                   .count = length,
                                                   .deadline = by_clock_to_seconds(s->deadline)});
}

static enum banyan_status spread_layout(struct sync *s, struct by_state_layout **out) {
  size_t length = s->summaries[s->first].layout_bytes;
  uint8_t *mine = by_arena_alloc(&s->arena, length, 1), *bytes;
  if (!mine) return end_job(s);
  if (s->rank == s->first) {
    struct by_writer writer;
    by_writer_init(&writer, mine, length);
    by_state_layout_write(&writer, by_state_current(s->state)->layout);
  }
  BY_TRY(spread(s, mine, length, &bytes));
  enum banyan_status status = by_state_layout_read(bytes, length, out);
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", name_of(s, s->first));
}

/* Checks that this member's buffers, and those of its copy if it has the newest version, are those of the newest
 * version. */
static enum banyan_status fit_layout(struct sync *s, const struct by_state_layout *wanted) {
  struct banyan_state *state = s->state;
  const struct by_state_copy *copy = by_state_current(state);
  char text[400], mine[120], other[160];
  if (state->layout->hash != wanted->hash && s->options.prepare)
    s->options.prepare(s->options.argument, wanted->buffers, wanted->n);
  const struct by_state_layout *wrong = state->layout->hash != wanted->hash ? state->layout : NULL;
  if (!wrong && copy && copy->version == s->report.version && copy->layout->hash != wanted->hash) wrong = copy->layout;
  if (!wrong) return BANYAN_OK;
  snprintf(mine, sizeof mine, "%s", name_of(s, s->rank));
  snprintf(other, sizeof other, "%s, which has version %lld", name_of(s, s->first), (long long)s->report.version);
  by_state_layout_compare(wrong, mine, wanted, other, text, sizeof text);
  return by_fail(BANYAN_ERR_MISMATCH, "%s: all members need the same buffers in the same order", text);
}

static enum banyan_status agree_on_layout(struct sync *s) {
  uint64_t wanted = s->summaries[s->first].copy_layout;
  bool differs = false;
  for (uint32_t r = 0; r < s->n; r++) {
    const struct by_state_summary *one = &s->summaries[r];
    differs = differs || one->layout != wanted || (one->version == s->report.version && one->copy_layout != wanted);
  }
  if (!differs) return BANYAN_OK;
  struct by_state_layout *layout = NULL;
  enum banyan_status status = spread_layout(s, &layout);
  if (status != BANYAN_OK) return agree(s, status);
  status = agree(s, fit_layout(s, layout));
  by_state_layout_release(layout);
  return status;
}

/* ---- contents under one version */

/* Hashes each buffer and the values. */
static void hash_parts(const struct by_state_copy *copy, uint64_t *out) {
  const struct by_state_layout *layout = copy->layout;
  for (size_t i = 0; i < layout->n; i++)
    out[i] = by_state_hash(copy->area + layout->offsets[i], by_state_buffer_bytes(&layout->buffers[i]));
  out[layout->n] = by_state_hash(copy->values, copy->values_bytes);
}

static enum banyan_status compare_parts(const struct sync *s, const uint64_t *mine, const uint64_t *wanted) {
  const struct by_state_layout *layout = s->state->layout;
  char other[120];
  size_t i = 0;
  while (i < layout->n && mine[i] == wanted[i]) i++;
  snprintf(other, sizeof other, "%s", name_of((void *)s, s->first));
  return by_fail(BANYAN_ERR_MISMATCH, "version %lld of the state has different contents on %s and %s: %s%.100s%s first",
                 (long long)s->report.version, other, name_of((void *)s, s->rank), i < layout->n ? "buffer \"" : "",
                 i < layout->n ? layout->buffers[i].name : "the values", i < layout->n ? "\"" : "");
}

/* Finds the members whose contents of the newest version differ. The call fails on them, or with the option `adopt`
 * they receive the contents. */
static enum banyan_status agree_on_contents(struct sync *s) {
  const struct by_state_summary *first = &s->summaries[s->first], *own = &s->summaries[s->rank];
  bool differs = false, mine = own->version == first->version && own->digest != first->digest;
  for (uint32_t r = 0; r < s->n; r++) {
    const struct by_state_summary *one = &s->summaries[r];
    s->holds[r] = one->version == first->version && one->digest == first->digest;
    s->receives[r] = !s->holds[r];
    s->report.holders += s->holds[r];
    s->report.receivers += s->receives[r];
    differs = differs || (one->version == first->version && one->digest != first->digest);
  }
  if (!differs) return BANYAN_OK;
  size_t length = (s->state->layout->n + 1) * sizeof(uint64_t);
  uint64_t *parts = by_arena_alloc(&s->arena, length, 1);
  uint8_t *wanted;
  if (!parts) return end_job(s);
  if (own->version == first->version) hash_parts(by_state_current(s->state), parts);
  BY_TRY(spread(s, parts, length, &wanted));
  enum banyan_status status = mine ? compare_parts(s, parts, (const uint64_t *)(const void *)wanted) : BANYAN_OK;
  if (s->options.adopt && status != BANYAN_OK) {
    by_warn("state", "%s; this one receives those of the other", banyan_error_text());
    status = BANYAN_OK;
  }
  return agree(s, status);
}

/* ---- the transfer */

/* The values and the hashes of the chunks of the newest version. */
struct manifest {
  uint8_t *values;
  const uint64_t *hashes;
};

static enum banyan_status spread_manifest(struct sync *s, struct manifest *out) {
  const struct by_state_copy *copy = s->rank == s->first ? by_state_current(s->state) : NULL;
  const struct by_state_summary *first = &s->summaries[s->first];
  uint8_t *hashes;
  BY_TRY(spread(s, copy ? copy->values : NULL, first->values, &out->values));
  /* By now, all members have the same layout. */
  size_t n_chunks = by_state_chunks(by_state_layout_bytes(s->state->layout));
  BY_TRY(spread(s, copy ? copy->hashes : NULL, n_chunks * sizeof(uint64_t), &hashes));
  out->hashes = (const uint64_t *)(const void *)hashes;
  return BANYAN_OK;
}

/* Fills the spare copy with chunks that are present locally: from an interrupted transfer, from the copy of another
 * version, or from buffers with which all members began. */
static void take_what_is_here(struct sync *s, const struct manifest *manifest, bool *have) {
  struct by_state_copy *spare = by_state_spare(s->state);
  const struct by_state_copy *current = by_state_current(s->state);
  size_t bytes = by_state_layout_bytes(spare->layout);
  bool may_have = spare->receives || s->begins;
  if (current && current->layout->hash != spare->layout->hash) current = NULL;
  if (s->begins) by_state_copy_fill(spare, s->state->layout);
  for (size_t c = 0; c < by_state_chunks(bytes) && (may_have || current); c++) {
    size_t at = c * BY_STATE_CHUNK, length = by_state_chunk_bytes(bytes, c);
    have[c] = may_have && by_state_hash(spare->area + at, length) == manifest->hashes[c];
    if (have[c] || !current || by_state_hash(current->area + at, length) != manifest->hashes[c]) continue;
    memcpy(spare->area + at, current->area + at, length);
    have[c] = true;
  }
  spare->receives = true;
}

static enum banyan_status prepare_receiver(struct sync *s, const struct manifest *manifest, bool *have,
                                           struct by_state_sources *sources) {
  struct by_state_copy *spare = by_state_spare(s->state);
  const struct by_state_summary *first = &s->summaries[s->first];
  struct by_state_values values = {0};
  BY_TRY(by_state_values_read(manifest->values, first->values, &values));
  by_state_values_fini(&values); /* Only checks that the values can be decoded. */
  BY_TRY(by_state_copy_prepare(spare, s->state->layout));
  BY_TRY(by_state_copy_set_values(spare, manifest->values, first->values));
  take_what_is_here(s, manifest, have);
  const uint32_t *host_of_process = by_job_hosts(s->comm->job)->of;
  uint32_t *host_of = BY_ARENA_ARRAY(&s->arena, uint32_t, s->n);
  if (!host_of) return out_of_memory(s);
  for (uint32_t r = 0; r < s->n; r++) host_of[r] = host_of_process[s->comm->processes[r]];
  return by_state_sources_init(sources, &s->arena, s->rank, s->n, s->holds, s->receives, host_of,
                               by_job_hosts(s->comm->job)->n);
}

/* Opens a communicator of all members for the transfer, which gets no plan of its own. */
static enum banyan_status open_comm(struct sync *s, struct banyan_comm **out) {
  struct banyan_comm *comm = s->comm;
  uint32_t splits = atomic_fetch_add(&comm->splits, 1) + 1;
  by_job_lock(comm->job);
  uint32_t number = by_comm_number(by_team_id(comm->team), splits, 0);
  enum banyan_status status = by_comm_make(comm->job, number, s->rank, s->n, comm->processes, out);
  if (status == BANYAN_OK) {
    (*out)->deadline = s->deadline;
    (*out)->hidden = true;
  }
  by_job_unlock(comm->job);
  return status == BANYAN_OK ? status : by_job_fail_here(comm->job, status, "could not synchronise its state");
}

static void complete(struct sync *s, const struct manifest *manifest) {
  struct by_state_copy *spare = by_state_spare(s->state);
  memcpy(spare->hashes, manifest->hashes, by_state_chunks(by_state_layout_bytes(spare->layout)) * sizeof(uint64_t));
  spare->digest = s->summaries[s->first].digest;
  spare->hashed = true;
  spare->receives = false;
  by_state_complete(s->state, s->report.version);
}

static enum banyan_status transfer(struct sync *s) {
  struct manifest manifest;
  struct by_state_sources sources = {0};
  uint64_t began = by_clock_now(&by_clock_system);
  BY_TRY(spread_manifest(s, &manifest));
  bool receives = s->receives[s->rank];
  size_t n_chunks = by_state_chunks(by_state_layout_bytes(s->state->layout));
  bool *have = BY_ARENA_ARRAY(&s->arena, bool, n_chunks);
  enum banyan_status status = have ? BANYAN_OK : out_of_memory(s);
  if (status == BANYAN_OK && receives) status = prepare_receiver(s, &manifest, have, &sources);
  if (status == BANYAN_OK && !receives) memset(have, true, n_chunks);
  BY_TRY(agree(s, status));
  const struct by_state_copy *copy = receives ? by_state_spare(s->state) : by_state_current(s->state);
  struct by_state_transfer transfer = {.name_of = name_of,
                                       .argument = s,
                                       .layout = copy->layout,
                                       .version = s->report.version,
                                       .area = copy->area,
                                       .hashes = manifest.hashes,
                                       .digest = s->summaries[s->first].digest,
                                       .have = have,
                                       .sources = receives ? &sources : NULL};
  BY_TRY(open_comm(s, &transfer.comm));
  status = by_state_transfer(&transfer);
  /* Members with a reason of their own report it. */
  if (status != BANYAN_OK && banyan_comm_state(s->comm) == BANYAN_OK)
    status = agree(s, status == BANYAN_ERR_CLOSED ? BANYAN_OK : status);
  BY_TRY(status);
  if (receives) complete(s, &manifest);
  s->report.bytes = transfer.bytes;
  s->report.seconds = by_clock_to_seconds(by_clock_now(&by_clock_system) - began);
  return BANYAN_OK;
}

static void log_result(const struct sync *s) {
  char bytes[32], seconds[32];
  by_info("state", "version %lld: received %s in %s; %d members had it, %d did not", (long long)s->report.version,
          by_print_bytes(s->report.bytes, bytes), by_print_seconds(s->report.seconds, seconds), s->report.holders,
          s->report.receivers);
}

/* ---- all of it */

static enum banyan_status run(struct sync *s) {
  s->summaries = BY_ARENA_ARRAY(&s->arena, struct by_state_summary, s->n);
  s->holds = BY_ARENA_ARRAY(&s->arena, bool, s->n);
  s->receives = BY_ARENA_ARRAY(&s->arena, bool, s->n);
  if (s->arena.failed) return end_job(s);
  BY_TRY(find_version(s));
  BY_TRY(agree_on_layout(s));
  BY_TRY(agree_on_contents(s));
  if (s->report.receivers) {
    BY_TRY(transfer(s));
    log_result(s);
  }
  return banyan_state_restore(s->state);
}

enum banyan_status banyan_state_sync(struct banyan_state *state, struct banyan_comm *comm,
                                     const struct banyan_state_sync_options *options, struct banyan_state_report *out) {
  BY_TRY(by_comm_check(comm));
  if (!state) return by_fail(BANYAN_ERR_ARGUMENT, "the state is NULL");
  struct sync s = {.state = state, .comm = comm, .n = comm->size, .rank = comm->rank};
  if (options)
    BY_TRY(
        by_copy_versioned("banyan_state_sync_options", options, options->size_of_struct, &s.options, sizeof s.options));
  const uint64_t least = LEAST_DEADLINE * BY_SECOND, usual = by_comm_lasts(comm, 0);
  s.deadline = usual > least ? usual : least;
  by_arena_init(&s.arena);
  enum banyan_status status = run(&s);
  by_arena_fini(&s.arena);
  if (status == BANYAN_OK && out) *out = s.report;
  return status;
}
