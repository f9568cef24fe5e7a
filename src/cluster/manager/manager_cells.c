#include "manager_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "manager_grants.h"
#include "manager_hosts.h"
#include "manager_links.h"
#include "manager_seen.h"

static const double rounding = 1e-6;     /* of a slot: so much less than a whole one is a whole one */
static const double turnaround = 100e-6; /* s that ends and switches add to a round trip, as in placement.h */
enum { SEARCHES = 16 };                  /* of ways, for one request */

/* ---- shares, by arithmetic alone */

static const double for_later = 0.25; /* of the memory */
enum { BITS = 64 };

double by_cells_weight(double need, uint32_t class_) {
  return ldexp(need, -(int)class_);
}

/* What all would have, with `level` for a unit of weight and none more than it requests. */
static double fill(const struct by_cells_claim *claims, uint32_t n, double level) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += fmin(claims[i].request, level * claims[i].weight);
  return sum;
}

/* The level at which that is `memory`: a job that has what it requests leaves the rest to the others. By bisection. */
static double find_level(double memory, const struct by_cells_claim *claims, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t i = 0; i < n; i++)
    if (claims[i].weight > 0) high = fmax(high, claims[i].request / claims[i].weight);
  for (int round = 0; round < BITS; round++) {
    double middle = (low + high) / 2;
    if (fill(claims, n, middle) <= memory)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares) {
  double to_share = (1 - for_later) * memory, left = fmax(0, memory - given), requested = 0, sum = 0;
  for (uint32_t i = 0; i < n; i++) requested += claims[i].request;
  bool fits = requested <= to_share;
  double level = fits ? 0 : find_level(to_share, claims, n);
  for (uint32_t i = 0; i < n_own; i++) {
    const struct by_cells_claim *claim = &claims[first + i];
    shares[i] = fits ? claim->request : fmin(claim->request, level * claim->weight);
    sum += shares[i];
  }
  for (uint32_t i = 0; i < n_own && sum > left; i++) shares[i] *= left / sum;
}

/* ---- what there is */

/* As the switch's agent states it, else as the topology does; 0: not known. */
static uint64_t memory_of(const struct by_manager *m, uint32_t node) {
  const struct by_manager_adds *adds = m->hosts->all[node].adds;
  if (adds) return (uint64_t)adds->cells * adds->bytes;
  return m->topology->nodes[node].aggregates ? m->topology->nodes[node].memory : 0;
}

static bool is_kept_account_of(const struct by_manager *m, uint32_t node) {
  return node != BY_NOWHERE && memory_of(m, node) > 0;
}

static double given_of(const struct by_manager_cells *cells) {
  return (double)cells->given * cells->bytes;
}

static double all_given(const struct by_manager *m, uint32_t node) {
  double sum = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) sum += given_of(&job->cells.all[i]);
  uint64_t guaranteed, held = by_grants_held(m, node, &guaranteed);
  if (m->hosts->all[node].adds) sum += (double)held * m->hosts->all[node].adds->bytes;
  return sum;
}

uint64_t by_manager_cells_held(const struct by_manager *m, const char *name) {
  uint32_t node = by_manager_hosts_find(m, name);
  const struct by_manager_adds *adds = node == BY_NOWHERE ? NULL : m->hosts->all[node].adds;
  return adds && adds->bytes ? (uint64_t)(all_given(m, node) / adds->bytes) : 0;
}

/* ---- what a job needs */

/* Of its trees over the same switch each has a part of its rate. */
static uint32_t count_at(const struct by_manager_job *job, uint32_t node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < job->cells.n; i++) n += job->cells.all[i].node == node;
  return n;
}

/* Bytes on their way at the rate of the slowest host, until the answer to the furthest has come; 0: not known. */
static double on_their_way(const struct by_manager *m, const struct by_manager_job *job, const struct by_next_hop *hops,
                           uint32_t server) {
  double rate = INFINITY, delay = 0;
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    uint32_t v = job->nodes[h];
    delay = fmax(delay, hops[v].delay);
    for (; v != server; v = hops[v].next) {
      if (hops[v].link == UINT32_MAX) return 0;
      rate = fmin(rate, m->links->steps[2 * hops[v].link + (m->topology->links[hops[v].link].a != v)].carries);
    }
  }
  return isfinite(rate) ? rate / 8 * (2 * delay + turnaround) : 0;
}

static double by_ways(const struct by_manager *m, const struct by_manager_job *job, uint32_t server) {
  if (!job->placed) return 0;
  struct by_next_hop *hops = malloc(m->topology->n_nodes * sizeof *hops);
  bool known = hops && by_paths_between(by_seen_paths(m), server, job->nodes, job->n_hosts, hops) == BANYAN_OK;
  double need = known ? on_their_way(m, job, hops, server) : 0;
  free(hops);
  return need;
}

/* Its trees mostly have few servers, and each search of ways takes milliseconds in a large network. */
static double on_ways_to(const struct by_manager *m, const struct by_manager_job *job, const char *name,
                         uint32_t *searches) {
  for (uint32_t i = 0; name && i < job->cells.n; i++)
    if (job->cells.all[i].server && !strcmp(job->cells.all[i].server, name)) return job->cells.all[i].on_ways;
  uint32_t server = name ? by_manager_hosts_find(m, name) : BY_NOWHERE;
  return server == BY_NOWHERE || (*searches)++ >= SEARCHES ? 0 : by_ways(m, job, server);
}

/* Of a job of which nothing is known it is assumed that it fills the fastest link there. */
static double find_need(const struct by_manager *m, const struct by_manager_cells *cells) {
  double fastest = 0;
  for (uint32_t i = by_seen_paths(m)->first[cells->node]; i < by_seen_paths(m)->first[cells->node + 1]; i++)
    for (uint32_t way = 0; way < 2; way++)
      fastest = fmax(fastest, m->links->steps[2 * by_seen_paths(m)->links[i] + way].carries);
  return cells->on_ways > 0 ? cells->on_ways : fastest / 8 * turnaround;
}

/* ---- giving */

/* What a job has it keeps, and it takes no more. */
static struct by_cells_claim claim_of(const struct by_manager_job *job, const struct by_manager_cells *cells) {
  return (struct by_cells_claim){
      .request = cells->settled ? given_of(cells) : (double)cells->requested * cells->bytes,
      .weight = by_cells_weight(cells->need / count_at(job, cells->node), by_priority_class(job->place.queue, 0, 0))};
}

/* All that is requested at a switch; this job's claims begin at *first. */
static enum banyan_status list_claims(const struct by_manager *m, const struct by_manager_job *of, uint32_t node,
                                      struct by_cells_claim **out, uint32_t *n, uint32_t *first) {
  uint32_t all = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) all += count_at(job, node);
  struct by_cells_claim *claims = calloc((size_t)all + 1, sizeof *claims);
  if (!claims) return by_manager_no_memory();
  *n = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job == of) *first = *n;
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) claims[(*n)++] = claim_of(job, &job->cells.all[i]);
  }
  *out = claims;
  return BANYAN_OK;
}

static void log_cut(const struct by_manager *m, const struct by_manager_job *job, const struct by_manager_cells *cells,
                    uint32_t n) {
  char memory[32];
  by_info("manager",
          "job %s (%s) is given %u of %u slots at switch %s: %u trees request more than three quarters of its %s, and "
          "the last quarter is for later ones",
          job->id, job->name, cells->given, cells->requested, cells->at, n,
          by_print_bytes(memory_of(m, cells->node), memory));
}

/* To all of its trees over one switch. */
static enum banyan_status give_at(const struct by_manager *m, struct by_manager_job *job, uint32_t node) {
  struct by_cells_claim *claims;
  uint32_t n, first = 0, own = 0;
  BY_TRY(list_claims(m, job, node, &claims, &n, &first));
  double *shares = calloc((size_t)n + 1, sizeof *shares), memory = (double)memory_of(m, node);
  if (shares) by_cells_share(memory, all_given(m, node), claims, n, first, count_at(job, node), shares);
  for (uint32_t i = 0; shares && i < job->cells.n; i++) {
    struct by_manager_cells *cells = &job->cells.all[i];
    if (cells->node != node) continue;
    cells->given = cells->bytes ? (uint32_t)(shares[own] / cells->bytes + rounding) : cells->requested;
    own++;
    if (cells->given < cells->requested) log_cut(m, job, cells, n);
  }
  free(claims);
  free(shares);
  return shares ? BANYAN_OK : by_manager_no_memory();
}

static enum banyan_status give(const struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_cells *all = job->cells.all;
  for (uint32_t i = 0, first; i < job->cells.n; i++) {
    for (first = 0; all[first].node != all[i].node;) first++;
    if (!is_kept_account_of(m, all[i].node))
      all[i].given = all[i].requested;
    else if (first == i)
      BY_TRY(give_at(m, job, all[i].node));
  }
  return BANYAN_OK;
}

/* ---- requests */

void by_cells_free(struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->cells.n; i++) free(job->cells.all[i].at), free(job->cells.all[i].server);
  free(job->cells.all);
  job->cells.all = NULL;
  job->cells.n = 0;
}

static bool is_same(const struct by_manager_job *job, const struct by_cluster_message *message) {
  bool same = job->cells.n == message->n_cells;
  for (uint32_t i = 0; same && i < message->n_cells; i++) {
    const struct by_manager_cells *had = &job->cells.all[i];
    const struct by_cluster_cells *now = &message->cells[i];
    same = !strcmp(had->at, now->at) && had->requested == now->slots && had->bytes == now->bytes &&
           !had->server == !now->server && (!now->server || !strcmp(had->server, now->server));
  }
  return same;
}

static bool has_all(const struct by_cluster_message *message) {
  uint32_t i = 0;
  while (i < message->n_cells && message->cells[i].has) i++;
  return i == message->n_cells;
}

static enum banyan_status add(const struct by_manager *m, struct by_manager_job *job,
                              const struct by_cluster_cells *message, uint32_t *searches) {
  struct by_manager_cells cells = {.node = by_manager_hosts_find(m, message->at),
                                   .at = strdup(message->at),
                                   .server = message->server ? strdup(message->server) : NULL,
                                   .requested = message->slots,
                                   .bytes = message->bytes,
                                   .on_ways = on_ways_to(m, job, message->server, searches)};
  if (!cells.at || (message->server && !cells.server)) {
    free(cells.at);
    free(cells.server);
    return by_manager_no_memory();
  }
  if (cells.node != BY_NOWHERE) cells.need = find_need(m, &cells);
  job->cells.all[job->cells.n++] = cells;
  return BANYAN_OK;
}

static enum banyan_status take_request(const struct by_manager *m, struct by_manager_job *job,
                                       const struct by_cluster_message *message) {
  uint32_t searches = 0;
  by_cells_free(job);
  job->cells.all = calloc((size_t)message->n_cells + 1, sizeof *job->cells.all);
  if (!job->cells.all) return by_manager_no_memory();
  for (uint32_t i = 0; i < message->n_cells; i++) BY_TRY(add(m, job, &message->cells[i], &searches));
  return has_all(message) ? BANYAN_OK : give(m, job);
}

/* A job is believed as far as it requested and as the switch can have given. */
static void settle(const struct by_manager *m, struct by_manager_cells *cells, uint32_t given) {
  cells->given = given < cells->requested ? given : cells->requested;
  if (is_kept_account_of(m, cells->node) && cells->bytes) {
    uint64_t most = memory_of(m, cells->node) / cells->bytes;
    if (cells->given > most) cells->given = (uint32_t)most;
  }
  cells->settled = true;
}

/* ---- answering, keeping */

/* The cells of a job as it requests them, or as it is answered. The caller frees *out, which has room for one more. */
static struct by_cluster_message describe(const struct by_manager_job *job, enum by_cluster_type type,
                                          struct by_cluster_cells **out) {
  *out = calloc((size_t)job->cells.n + 1, sizeof **out);
  for (uint32_t i = 0; *out && i < job->cells.n; i++) {
    const struct by_manager_cells *cells = &job->cells.all[i];
    (*out)[i] = (struct by_cluster_cells){.at = cells->at,
                                          .server = cells->server,
                                          .bytes = cells->bytes,
                                          .slots = type == BY_MESSAGE_RESERVE ? cells->requested : cells->given,
                                          .has = true,
                                          .given = cells->given};
  }
  return (struct by_cluster_message){.type = type, .job = job->id, .n_cells = job->cells.n, .cells = *out};
}

static enum banyan_status answer(struct by_manager *m, const struct by_manager_job *job) {
  struct by_cluster_cells *cells;
  struct by_cluster_message message = describe(job, BY_MESSAGE_CELLS, &cells);
  if (!cells) return by_manager_no_memory();
  by_manager_send(m, job->peer, &message);
  free(cells);
  return BANYAN_OK;
}

/* As the job would request them. */
void by_cells_keep(struct by_manager *m, const struct by_manager_job *job) {
  struct by_cluster_cells *cells;
  struct by_cluster_message message = describe(job, BY_MESSAGE_RESERVE, &cells);
  if (!cells) return;
  struct by_text text = by_cluster_message_line(&message);
  struct by_manager_row row = {.table = BY_ROW_CELLS, .job = job->id, .cells.request = by_text_get(&text)};
  if (!text.failed && job->cells.n) by_manager_keep_row(m, &row);
  by_text_fini(&text);
  free(cells);
}

static void forget_row(struct by_manager *m, const struct by_manager_job *job) {
  by_manager_keep_row(m, &(struct by_manager_row){.table = BY_ROW_CELLS, .gone = true, .job = job->id});
}

/* The same request has the same answer; what a job has, it has, also where it was given less. */
enum banyan_status by_cells_reserve(struct by_manager *m, struct by_manager_job *job,
                                    const struct by_cluster_message *message) {
  if (!is_same(job, message)) BY_TRY(take_request(m, job, message));
  for (uint32_t i = 0; i < message->n_cells; i++)
    if (message->cells[i].has) settle(m, &job->cells.all[i], message->cells[i].given);
  if (job->cells.n)
    by_cells_keep(m, job);
  else
    forget_row(m, job);
  return has_all(message) ? BANYAN_OK : answer(m, job);
}

enum banyan_status by_cells_restore(struct by_manager *m, struct by_manager_job *job, const char *request) {
  struct by_cluster_message message;
  BY_TRY(by_cluster_message_read(request, strlen(request), &message));
  enum banyan_status status = message.type == BY_MESSAGE_RESERVE
                                  ? by_cells_reserve(m, job, &message)
                                  : by_fail(BANYAN_ERR_PARSE, "it does not request cells");
  by_cluster_message_fini(&message);
  return status;
}

void by_cells_end(struct by_manager *m, struct by_manager_job *job) {
  if (job->cells.n) forget_row(m, job);
  by_cells_free(job);
}

/* ---- to see it */

static void add_of_job(const struct by_manager_job *job, const struct by_manager_cells *cells, bool of_switch,
                       struct by_text *text) {
  by_json_separate(text);
  by_text_add(text, "{");
  by_json_put_string(text, of_switch ? "job" : "switch", of_switch ? job->id : cells->at);
  if (of_switch) by_json_put_string(text, "name", job->name);
  by_text_add(text, ",\"slots\":%u,\"requested\":%u,\"bytes\":%.0f}", cells->given, cells->requested, given_of(cells));
}

void by_cells_print(const struct by_manager *m, const struct by_manager_job *job, struct by_text *text) {
  by_text_add(text, "[");
  for (uint32_t i = 0; i < job->cells.n; i++) add_of_job(job, &job->cells.all[i], false, text);
  by_grants_print(m, job, BY_NOWHERE, text);
  by_text_add(text, "]");
}

static void add_switch(const struct by_manager *m, uint32_t node, struct by_text *text) {
  by_json_separate(text);
  by_text_add(text, "{");
  const struct by_manager_host *host = &m->hosts->all[node];
  uint64_t guaranteed, held = by_grants_held(m, node, &guaranteed);
  by_json_put_string(text, "name", m->topology->nodes[node].name);
  by_json_put_bool(text, "connected", host->agent);
  by_json_put_count(text, "cells", host->adds ? host->adds->cells : 0);
  by_json_put_count(text, "cells_held", held);
  by_json_put_count(text, "cells_guaranteed", guaranteed);
  by_text_add(text, ",\"memory\":%llu,\"given\":%.0f,\"jobs\":[", (unsigned long long)memory_of(m, node),
              all_given(m, node));
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) add_of_job(job, &job->cells.all[i], true, text);
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) by_grants_print(m, job, node, text);
  by_text_add(text, "]}");
}

void by_cells_print_switches(const struct by_manager *m, struct by_text *text) {
  by_text_add(text, "[");
  for (uint32_t v = 0; v < m->topology->n_nodes; v++)
    if (m->topology->nodes[v].aggregates || m->hosts->all[v].adds) add_switch(m, v, text);
  by_text_add(text, "]");
}
