/* Sums in switches and servers: the hooks that the job calls. */
#include "in_network.h"

#include "control.h"
#include "text.h"
#include "udp.h"

static enum banyan_status describe_self(struct by_job *job, struct by_member *self) {
  return by_job_servers(job) ? by_worker_open_udp(job, &self->udp_port) : BANYAN_OK;
}

static void begin_control(struct by_job *job, struct by_control *control) {
  struct by_in_network *state = by_in_network_of(job);
  by_own_trees_init(&state->own, by_control_get_peers(control), job);
  by_trees_init(&state->trees, control);
  state->has_control = true;
}

static void detach(struct by_job *job) {
  struct by_in_network *state = by_in_network_of(job);
  if (!state->has_control) return;
  by_trees_fini(&state->trees);
  by_own_trees_fini(&state->own);
}

/* Frees the socket and the trees; the engine's fabrics, which used the socket, are gone. */
static void fini(struct by_job *job) {
  by_udp_destroy(by_in_network_of(job)->udp);
}

static void handle_report(void *context, const struct by_received *received) {
  by_trees_handle(&by_in_network_of(context)->trees, received);
}

static void handle_tree(struct by_job *job, const struct by_received *received) {
  by_own_trees_handle(&by_in_network_of(job)->own, received);
}

static void lose_process(struct by_job *job, uint32_t process) {
  by_trees_lost(&by_in_network_of(job)->trees, process);
}

static void fail(struct by_job *job) {
  by_trees_fail(&by_in_network_of(job)->trees);
}

static void take_cells(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n) {
  by_trees_handle_cells(&by_in_network_of(job)->trees, cells, n);
}

/* Adds the counters of dropped fragments. */
static void add_metrics(struct by_job *job, struct by_text *text) {
  const char *const names[] = {"forged", "replayed"};
  uint64_t values[2];
  by_worker_count_dropped(job, &values[0], &values[1]);
  for (int i = 0; i < 2; i++)
    by_text_add(text, "# TYPE banyan_fragments_%s_total counter\nbanyan_fragments_%s_total{rank=\"%u\"} %llu\n",
                names[i], names[i], by_job_rank(job), (unsigned long long)values[i]);
}

static enum banyan_status prepare(struct by_job *job, const struct by_tree_wanted *wanted) {
  return by_trees_prepare(&by_in_network_of(job)->trees, wanted);
}

static void withdraw(struct by_job *job, uint32_t version) {
  by_trees_withdraw(&by_in_network_of(job)->trees, version);
}

static void begin_trees(struct by_job *job, const struct by_plan *plan, const uint32_t *processes,
                        const uint32_t *helpers, uint32_t version) {
  by_trees_begin(&by_in_network_of(job)->trees, plan, processes, helpers, version);
}

static void use_trees(struct by_job *job, uint32_t team, uint32_t version) {
  if (by_in_network_of(job)->has_control) by_own_trees_use(&by_in_network_of(job)->own, team, version);
}

static void drop_trees(struct by_job *job, uint32_t version) {
  by_own_trees_drop(&by_in_network_of(job)->own, version);
}

static const struct by_control_rule rules[] = {
    {TREE_REPORT, BY_CONTROL_TO_ROOT, BY_CONTROL_ONCE_STARTED, handle_report},
    {0},
};

static const struct by_tree_service service = {.prepare = prepare,
                                               .withdraw = withdraw,
                                               .begin = begin_trees,
                                               .use = use_trees,
                                               .drop = drop_trees,
                                               .handle = handle_tree,
                                               .process_lost = lose_process,
                                               .job_failed = fail,
                                               .cells_granted = take_cells};

const struct by_feature by_in_network_feature = {.key = &by_in_network_key,
                                                 .rules = rules,
                                                 .trees = &service,
                                                 .describe_self = describe_self,
                                                 .control_made = begin_control,
                                                 .detach = detach,
                                                 .fini = fini,
                                                 .add_metrics = add_metrics};
