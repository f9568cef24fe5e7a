/* Connects a job to its agent or manager: the hooks that the job calls. */
#include "cluster.h"

#include "agent_client.h"

/* What a context keeps for its part in a cluster. */
struct cluster {
  struct by_agent_client *client; /* NULL: there is neither agent nor manager. */
};

static const struct by_feature_key key = {.bytes = sizeof(struct cluster)};

static struct by_agent_client *client_of(const struct by_job *job) {
  const struct cluster *cluster = by_feature_state(job, &key);
  return cluster->client;
}

static void start(struct by_job *job) {
  struct cluster *cluster = by_feature_state(job, &key);
  by_agent_client_create(job, &cluster->client);
  by_job_set_managed(job, cluster->client != NULL);
}

static void retire(struct by_job *job) {
  by_agent_client_leave(client_of(job));
}

static void detach(struct by_job *job) {
  by_agent_client_destroy(client_of(job));
  by_job_set_managed(job, false);
}

static void send_cells(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n) {
  by_agent_client_reserve(client_of(job), cells, n);
}

static void send_released(struct by_job *job, uint64_t number) {
  if (client_of(job)) by_agent_client_released(client_of(job), number);
}

static bool may_answer(const struct by_job *job) {
  return client_of(job) && by_agent_client_may_answer(client_of(job));
}

const struct by_feature by_cluster_feature = {.key = &key,
                                              .start = start,
                                              .retire = retire,
                                              .detach = detach,
                                              .cells_wanted = send_cells,
                                              .cells_released = send_released,
                                              .cells_may_come = may_answer};
