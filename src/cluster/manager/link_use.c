/* Who uses how much of the network: others, and jobs by their class. A job does not give way to a lower class, which
 * the hosts' queues hold back for it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "manager_parts.h"

static const double always = 0.05; /* of a capacity is left for everyone; others' use below that is none */

double by_use_given(const struct by_topology *t, uint32_t step) {
  if (step < 2 * t->n_links) return t->links[step / 2].capacity[step % 2].all;
  const struct by_node *node = &t->nodes[(step - 2 * t->n_links) / 2];
  return step % 2 ? node->in.all : node->out.all;
}

/* What the topology says that others use, which counts where nobody measures more. */
static double used_always(const struct by_topology *t, uint32_t step) {
  if (step < 2 * t->n_links) return t->links[step / 2].capacity[step % 2].used;
  const struct by_node *node = &t->nodes[(step - 2 * t->n_links) / 2];
  return step % 2 ? node->in.used : node->out.used;
}

static double measured(const struct by_manager *m, uint32_t step) {
  double others = fmax(m->others[0][step], m->others[1][step]);
  return others > always * m->all[step] ? others : 0;
}

double by_use_others(const struct by_manager *m, uint32_t step) {
  return fmax(used_always(m->topology, step), measured(m, step));
}

const struct by_link_shares *by_use_shares(const struct by_manager_job *job) {
  if (job->proposed && !job->late) return &job->proposed->shares; /* so that not all go where there is room now */
  return job->plan ? &job->plan->shares : &job->ring;
}

void by_use_sum(struct by_manager *m) {
  if (!m->stale) return;
  m->stale = false;
  by_order_find(m);
  for (int c = 0; c < BY_PRIORITY_CLASSES; c++) {
    memset(m->ours[c], 0, m->n_steps * sizeof *m->ours[c]);
    memset(m->jobs_on[c], 0, m->n_steps * sizeof *m->jobs_on[c]);
  }
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    const struct by_link_shares *shares = by_use_shares(job);
    for (uint32_t i = 0; !job->left && job->input_rate > 0 && i < shares->n; i++) {
      m->ours[job->class_][shares->items[i].step] += job->input_rate * shares->items[i].load;
      m->jobs_on[job->class_][shares->items[i].step]++;
    }
  }
}

double by_use_of_higher(const struct by_manager *m, const struct by_manager_job *job, uint32_t step) {
  double sum = 0;
  for (uint32_t c = 0; c < job->class_; c++) sum += m->ours[c][step];
  return sum;
}

static bool higher_sends_somewhere(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t step = 0;
  while (step < m->n_steps && !(by_use_of_higher(m, job, step) > 0)) step++;
  return step < m->n_steps;
}

bool by_use_may_give_way(const struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_use_shares(job);
  uint32_t i = 0;
  if (!shares->n) return higher_sends_somewhere(m, job);
  while (i < shares->n && !(by_use_of_higher(m, job, shares->items[i].step) > 0)) i++;
  return i < shares->n;
}

bool by_use_sways(const struct by_manager *m, const struct by_manager_job *job) {
  const struct by_link_shares *shares = by_use_shares(job);
  uint32_t own = job->input_rate > 0, most = 0;
  for (uint32_t i = 0; i < shares->n; i++) {
    if (measured(m, shares->items[i].step) > 0) return true;
    uint32_t n = 0;
    for (uint32_t c = 0; c <= job->class_; c++) n += m->jobs_on[c][shares->items[i].step];
    most = n > most ? n : most;
  }
  return most > own;
}

/* Streams of one class share a link evenly: a job that comes to it gets its part, however full the link is. Those whose
 * first iterations go beside its own are soon past them. */
static double find_left(const struct by_manager *m, const struct by_manager_job *job, uint32_t step, double own,
                        bool beside) {
  double left = m->all[step] - by_use_others(m, step) - (beside ? by_use_of_higher(m, job, step) : 0);
  if (!job->class_) return fmax(left, always * m->all[step]);
  uint32_t sharers = m->jobs_on[job->class_][step] + (own > 0 ? 0 : 1);
  left = fmax(left - (m->ours[job->class_][step] - own), left / (double)(sharers ? sharers : 1));
  return fmax(left, always * m->all[step]);
}

/* What the job itself puts on each of its steps is no hindrance to it: looked up in its shares, which are sorted. */
static double own_load(const struct by_link_shares *shares, uint32_t step) {
  uint32_t low = 0, high = shares->n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (shares->items[middle].step < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low < shares->n && shares->items[low].step == step ? shares->items[low].load : 0;
}

double by_use_rate(const struct by_manager *m, const struct by_manager_job *job, const struct by_link_shares *shares) {
  const struct by_link_shares *own = by_use_shares(job);
  double rate = INFINITY;
  for (uint32_t i = 0; i < shares->n; i++) {
    uint32_t step = shares->items[i].step;
    double back = job->input_rate * own_load(own, step);
    rate = fmin(rate, find_left(m, job, step, back, true) / shares->items[i].load);
  }
  return rate;
}

double by_use_most(const struct by_manager *m, const struct by_link_shares *shares) {
  double rate = INFINITY;
  for (uint32_t i = 0; i < shares->n; i++) rate = fmin(rate, m->all[shares->items[i].step] / shares->items[i].load);
  return rate;
}

/* ---- as a topology */

static void fill(const struct by_manager *m, const struct by_manager_job *job, bool beside, struct by_topology *out) {
  const struct by_link_shares *own = by_use_shares(job);
  uint32_t next = 0, links = 2 * out->n_links;
  for (uint32_t s = 0; s < m->n_steps; s++) {
    double back = 0;
    if (next < own->n && own->items[next].step == s) back = job->input_rate * own->items[next++].load;
    if (isinf(m->all[s])) continue;
    struct by_node *node = s < links ? NULL : &out->nodes[(s - links) / 2];
    struct by_capacity *capacity = s < links ? &out->links[s / 2].capacity[s % 2] : s % 2 ? &node->in : &node->out;
    *capacity = (struct by_capacity){.all = m->all[s], .used = m->all[s] - find_left(m, job, s, back, beside)};
    if (capacity->used < 0) capacity->used = 0;
  }
}

enum banyan_status by_use_residual(struct by_manager *m, const struct by_manager_job *job, bool beside,
                                   struct by_topology *out) {
  const struct by_topology *t = m->topology;
  *out = (struct by_topology){.name = t->name,
                              .n_nodes = t->n_nodes,
                              .n_links = t->n_links,
                              .nodes = malloc(t->n_nodes * sizeof *t->nodes + 1),
                              .links = malloc(t->n_links * sizeof *t->links + 1)};
  if (!out->nodes || !out->links) {
    free(out->nodes);
    free(out->links);
    return by_manager_no_memory();
  }
  memcpy(out->nodes, t->nodes, t->n_nodes * sizeof *t->nodes);
  memcpy(out->links, t->links, t->n_links * sizeof *t->links);
  by_use_sum(m);
  fill(m, job, beside, out);
  return BANYAN_OK;
}
