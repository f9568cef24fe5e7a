#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_parts.h"

static const double least_patience = 30; /* s */
enum { PATIENCE = 10 };                  /* intervals */

struct by_manager_options by_manager_defaults(void) {
  return (struct by_manager_options){
      .rules = by_priority_usual(), .interval = 2, .replan = 60, .gain = 0.05, .helpers = "all"};
}

/* ---- beginning and end */

static enum banyan_status take_steps(struct by_manager *m) {
  m->n_steps = 2 * m->topology->n_links + 2 * m->topology->n_nodes;
  m->all = calloc((size_t)m->n_steps + 1, sizeof *m->all);
  m->said = calloc((size_t)m->n_steps + 1, sizeof *m->said);
  m->seen = calloc(2 * (size_t)m->topology->n_links + 1, sizeof *m->seen);
  m->above = calloc((size_t)m->n_steps + 1, sizeof *m->above);
  m->behind = calloc((size_t)m->n_steps + 1, sizeof *m->behind);
  bool all = m->all && m->said && m->seen && m->above && m->behind;
  for (int i = 0; i < 2; i++) all &= (m->others[i] = calloc((size_t)m->n_steps + 1, sizeof(double))) != NULL;
  for (int i = 0; i < BY_PRIORITY_CLASSES; i++)
    all &= (m->ours[i] = calloc((size_t)m->n_steps + 1, sizeof(double))) != NULL &&
           (m->jobs_on[i] = calloc((size_t)m->n_steps + 1, sizeof(uint32_t))) != NULL;
  if (!all) return by_manager_no_memory();
  for (uint32_t s = 0; s < m->n_steps; s++) m->all[s] = by_use_given(m->topology, s), m->said[s] = INFINITY;
  for (uint32_t s = 0; s < 2 * m->topology->n_links; s++)
    m->seen[s] = (struct by_seen_link){.said = m->all[s], .marked = m->all[s], .rate = INFINITY};
  return by_link_ways_init(&m->ways, m->topology);
}

enum banyan_status by_manager_create(const struct by_manager_options *options, double now, struct by_manager **out) {
  struct by_manager *m = calloc(1, sizeof *m);
  if (!m) return by_manager_no_memory();
  m->options = *options;
  m->topology = options->topology;
  m->now = m->began = now;
  m->peers.before = m->peers.after = &m->peers;
  enum banyan_status status = take_steps(m);
  if (status == BANYAN_OK) status = by_manager_hosts_init(m);
  if (status == BANYAN_OK)
    *out = m;
  else
    by_manager_destroy(m);
  return status;
}

static void free_peer(struct by_manager_peer *peer) {
  peer->before->after = peer->after;
  peer->after->before = peer->before;
  free(peer->name);
  free(peer->host);
  free(peer);
}

void by_manager_destroy(struct by_manager *m) {
  if (!m) return;
  by_jobs_free_all(m);
  for (struct by_manager_peer *peer = m->peers.after, *next; peer && peer != &m->peers; peer = next) {
    next = peer->after;
    free_peer(peer);
  }
  by_manager_hosts_fini(m);
  by_link_ways_fini(&m->ways);
  free(m->seen);
  free(m->all);
  free(m->said);
  free(m->above);
  free(m->behind);
  for (int i = 0; i < 2; i++) free(m->others[i]);
  for (int i = 0; i < BY_PRIORITY_CLASSES; i++) free(m->ours[i]), free(m->jobs_on[i]);
  free(m);
}

/* ---- what the other files ask for */

void by_manager_send_to(struct by_manager *m, struct by_manager_peer *peer, const struct by_cluster_message *message) {
  if (peer) m->options.send(m->options.context, peer->connection, message);
}

void by_manager_keep_row(struct by_manager *m, const struct by_manager_row *row) {
  if (m->options.keep && !m->restoring) m->options.keep(m->options.context, row);
}

double by_manager_patience(const struct by_manager *m) {
  double patience = PATIENCE * m->options.interval;
  return patience > least_patience ? patience : least_patience;
}

struct by_manager_counters by_manager_get_counters(const struct by_manager *m) {
  return m->counters;
}

void by_manager_count_refused(struct by_manager *m) {
  m->counters.refused++;
}

/* ---- peers */

enum banyan_status by_manager_joined(struct by_manager *m, void *connection, enum by_manager_role role,
                                     const char *name, double now, struct by_manager_peer **out) {
  struct by_manager_peer *peer = calloc(1, sizeof *peer);
  m->now = now;
  if (!peer) return by_manager_no_memory();
  *peer = (struct by_manager_peer){.connection = connection,
                                   .number = ++m->n_joined,
                                   .role = role,
                                   .name = name ? strdup(name) : NULL,
                                   .index = BY_NOWHERE,
                                   .born = now,
                                   .heard = now,
                                   .before = m->peers.before,
                                   .after = &m->peers};
  peer->before->after = peer->after->before = peer;
  *out = peer;
  if (!name || peer->name) return BANYAN_OK;
  free_peer(peer);
  return by_manager_no_memory();
}

void by_manager_gone(struct by_manager *m, struct by_manager_peer *peer, double now) {
  m->now = now;
  by_jobs_forget_peer(m, peer);
  if (peer->index != BY_NOWHERE && m->hosts[peer->index].agent == peer) by_manager_hosts_forget(m, peer->index);
  free_peer(peer);
}

void by_manager_tick(struct by_manager *m, double now) {
  m->now = now;
  by_jobs_tick(m);
  by_seen_tick(m);
  by_due_look(m);
}
