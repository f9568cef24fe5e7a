/* Shares the memory of switches among jobs with plans of their own. */
#include "manager_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "log.h"
#include "manager_hosts.h"
#include "manager_links.h"

static const double rounding = 1e-6;     /* A share within this fraction of a slot below a whole slot is a whole one. */
static const double turnaround = 100e-6; /* Seconds that hosts and switches add to a round trip, as in placement.h. */
enum { MAX_SEARCHES = 16 };              /* Path searches for one request. */

/* ---- shares, without I/O */

static const double reserve = 0.25; /* Fraction of the memory for later jobs. */
enum { BITS = 64 };

double by_cells_weight(double need, uint32_t class_) {
  return ldexp(need, -(int)class_);
}

/* Returns the sum of all shares, with `level` for a unit of weight and at most the request for each. */
static double sum_shares(const struct by_cells_claim *claims, uint32_t n, double level) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += fmin(claims[i].request, level * claims[i].weight);
  return sum;
}

/* Returns the level at which that sum is `memory`, by bisection: a job that has what it requests leaves the rest to
 * others. */
static double find_level(double memory, const struct by_cells_claim *claims, uint32_t n) {
  double low = 0, high = 0;
  for (uint32_t i = 0; i < n; i++)
    if (claims[i].weight > 0) high = fmax(high, claims[i].request / claims[i].weight);
  for (int round = 0; round < BITS; round++) {
    double middle = (low + high) / 2;
    if (sum_shares(claims, n, middle) <= memory)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares) {
  double shareable = (1 - reserve) * memory, left = fmax(0, memory - given), requested = 0, sum = 0;
  for (uint32_t i = 0; i < n; i++) requested += claims[i].request;
  bool fits = requested <= shareable;
  double level = fits ? 0 : find_level(shareable, claims, n);
  for (uint32_t i = 0; i < n_own; i++) {
    const struct by_cells_claim *claim = &claims[first + i];
    shares[i] = fits ? claim->request : fmin(claim->request, level * claim->weight);
    sum += shares[i];
  }
  for (uint32_t i = 0; i < n_own && sum > left; i++) shares[i] *= left / sum;
}

/* ---- the account */

/* Returns the memory that the switch's agent reports, otherwise that of the topology; 0: unknown. */
static uint64_t memory_of(const struct by_manager *m, uint32_t node) {
  const struct by_manager_aggregates *aggregates = m->hosts->all[node].aggregates;
  if (aggregates) return (uint64_t)aggregates->cells * aggregates->bytes;
  return m->topology->nodes[node].aggregates ? m->topology->nodes[node].memory : 0;
}

static bool is_shared(const struct by_manager *m, uint32_t node) {
  return node != BY_NOWHERE && memory_of(m, node) > 0;
}

static double given_of(const struct by_manager_cells *cells) {
  return (double)cells->given * cells->bytes;
}

static double given_bytes(const struct by_manager *m, uint32_t node) {
  double sum = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) sum += given_of(&job->cells.all[i]);
  uint64_t guaranteed, held = by_grants_held(m, node, &guaranteed);
  if (m->hosts->all[node].aggregates) sum += (double)held * m->hosts->all[node].aggregates->bytes;
  return sum;
}

uint64_t by_manager_cells_held(const struct by_manager *m, const char *name) {
  uint32_t node = by_manager_hosts_find(m, name);
  const struct by_manager_aggregates *aggregates = node == BY_NOWHERE ? NULL : m->hosts->all[node].aggregates;
  return aggregates && aggregates->bytes ? (uint64_t)(given_bytes(m, node) / aggregates->bytes) : 0;
}

/* ---- a job's needs */

/* Returns the number of a job's trees over a switch; each has a part of its rate. */
static uint32_t count_at(const struct by_manager_job *job, uint32_t node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < job->cells.n; i++) n += job->cells.all[i].node == node;
  return n;
}

/* Returns the bytes in flight at the rate of the slowest host, until the answer to the farthest host; 0: unknown. */
static double bytes_in_flight(const struct by_manager *m, const struct by_manager_job *job,
                              const struct by_next_hop *hops, uint32_t server) {
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

static double find_flight(const struct by_manager *m, const struct by_manager_job *job, uint32_t server) {
  if (!job->in_topology) return 0;
  struct by_next_hop *hops = malloc(m->topology->n_nodes * sizeof *hops);
  bool known = hops && by_paths_between(by_seen_paths(m), server, job->nodes, job->n_hosts, hops) == BANYAN_OK;
  double need = known ? bytes_in_flight(m, job, hops, server) : 0;
  free(hops);
  return need;
}

/* Reuses the result of a tree with the same server: a search takes milliseconds in a large network. */
static double find_flight_to(const struct by_manager *m, const struct by_manager_job *job, const char *name,
                             uint32_t *searches) {
  for (uint32_t i = 0; name && i < job->cells.n; i++)
    if (job->cells.all[i].server && !strcmp(job->cells.all[i].server, name)) return job->cells.all[i].in_flight;
  uint32_t server = name ? by_manager_hosts_find(m, name) : BY_NOWHERE;
  return server == BY_NOWHERE || (*searches)++ >= MAX_SEARCHES ? 0 : find_flight(m, job, server);
}

/* An unknown job is assumed to fill the fastest link of the switch. */
static double find_need(const struct by_manager *m, const struct by_manager_cells *cells) {
  double fastest = 0;
  for (uint32_t i = by_seen_paths(m)->first[cells->node]; i < by_seen_paths(m)->first[cells->node + 1]; i++)
    for (uint32_t direction = 0; direction < 2; direction++)
      fastest = fmax(fastest, m->links->steps[2 * by_seen_paths(m)->links[i] + direction].carries);
  return cells->in_flight > 0 ? cells->in_flight : fastest / 8 * turnaround;
}

/* ---- giving cells */

/* A job keeps what it has, and takes no more. */
static struct by_cells_claim claim_of(const struct by_manager_job *job, const struct by_manager_cells *cells) {
  return (struct by_cells_claim){.request = cells->settled ? given_of(cells) : (double)cells->requested * cells->bytes,
                                 .weight = by_cells_weight(cells->need / count_at(job, cells->node),
                                                           by_priority_class(job->position.queue, 0, 0))};
}

/* Lists the claims of all jobs at a switch; this job's claims begin at *first. */
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

/* Gives cells to all trees of the job over one switch. */
static enum banyan_status give_cells_at(const struct by_manager *m, struct by_manager_job *job, uint32_t node) {
  struct by_cells_claim *claims;
  uint32_t n, first = 0, own = 0;
  BY_TRY(list_claims(m, job, node, &claims, &n, &first));
  double *shares = calloc((size_t)n + 1, sizeof *shares), memory = (double)memory_of(m, node);
  if (shares) by_cells_share(memory, given_bytes(m, node), claims, n, first, count_at(job, node), shares);
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

static enum banyan_status give_cells(const struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_cells *all = job->cells.all;
  for (uint32_t i = 0, first; i < job->cells.n; i++) {
    for (first = 0; all[first].node != all[i].node;) first++;
    if (!is_shared(m, all[i].node))
      all[i].given = all[i].requested;
    else if (first == i)
      BY_TRY(give_cells_at(m, job, all[i].node));
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

static enum banyan_status add_request(const struct by_manager *m, struct by_manager_job *job,
                                      const struct by_cluster_cells *message, uint32_t *searches) {
  struct by_manager_cells cells = {.node = by_manager_hosts_find(m, message->at),
                                   .at = strdup(message->at),
                                   .server = message->server ? strdup(message->server) : NULL,
                                   .requested = message->slots,
                                   .bytes = message->bytes,
                                   .in_flight = find_flight_to(m, job, message->server, searches)};
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
  for (uint32_t i = 0; i < message->n_cells; i++) BY_TRY(add_request(m, job, &message->cells[i], &searches));
  return has_all(message) ? BANYAN_OK : give_cells(m, job);
}

/* Accepts a job's report of its cells up to what it requested and what the switch can have given. */
static void accept_cells(const struct by_manager *m, struct by_manager_cells *cells, uint32_t given) {
  cells->given = given < cells->requested ? given : cells->requested;
  if (is_shared(m, cells->node) && cells->bytes) {
    uint64_t max = memory_of(m, cells->node) / cells->bytes;
    if (cells->given > max) cells->given = (uint32_t)max;
  }
  cells->settled = true;
}

/* ---- answers and rows */

/* Describes a job's cells as its request, or as the answer. The caller frees *out, which has one unused element. */
static struct by_cluster_message describe_cells(const struct by_manager_job *job, enum by_cluster_type type,
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

static enum banyan_status send_answer(struct by_manager *m, const struct by_manager_job *job) {
  struct by_cluster_cells *cells;
  struct by_cluster_message message = describe_cells(job, BY_MESSAGE_CELLS, &cells);
  if (!cells) return by_manager_no_memory();
  by_manager_send(m, job->peer, &message);
  free(cells);
  return BANYAN_OK;
}

/* Stores a job's row, which has the form of its request. */
void by_cells_keep(struct by_manager *m, const struct by_manager_job *job) {
  struct by_cluster_cells *cells;
  struct by_cluster_message message = describe_cells(job, BY_MESSAGE_RESERVE, &cells);
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

/* The same request gets the same answer. A job keeps what it has, even if it was given less. */
enum banyan_status by_cells_reserve(struct by_manager *m, struct by_manager_job *job,
                                    const struct by_cluster_message *message) {
  if (!is_same(job, message)) BY_TRY(take_request(m, job, message));
  for (uint32_t i = 0; i < message->n_cells; i++)
    if (message->cells[i].has) accept_cells(m, &job->cells.all[i], message->cells[i].given);
  if (job->cells.n)
    by_cells_keep(m, job);
  else
    forget_row(m, job);
  return has_all(message) ? BANYAN_OK : send_answer(m, job);
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

/* ---- state */

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
  by_json_put_count(text, "cells", host->aggregates ? host->aggregates->cells : 0);
  by_json_put_count(text, "cells_held", held);
  by_json_put_count(text, "cells_guaranteed", guaranteed);
  by_text_add(text, ",\"memory\":%llu,\"given\":%.0f,\"jobs\":[", (unsigned long long)memory_of(m, node),
              given_bytes(m, node));
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    for (uint32_t i = 0; i < job->cells.n; i++)
      if (job->cells.all[i].node == node) add_of_job(job, &job->cells.all[i], true, text);
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) by_grants_print(m, job, node, text);
  by_text_add(text, "]}");
}

void by_cells_print_switches(const struct by_manager *m, struct by_text *text) {
  by_text_add(text, "[");
  for (uint32_t v = 0; v < m->topology->n_nodes; v++)
    if (m->topology->nodes[v].aggregates || m->hosts->all[v].aggregates) add_switch(m, v, text);
  by_text_add(text, "]");
}
