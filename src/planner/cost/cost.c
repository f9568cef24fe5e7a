/* Predicts the time of a call by a class of a plan, and fits costs to measured times. */
#include "cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost_tree.h"
#include "text.h"

/* A frame of Ethernet has 1514 bytes, 1448 of them data of TCP. */
struct by_cost_rates by_cost_defaults(void) {
  return (struct by_cost_rates){.wire = 1514.0 / 1448,
                                .call = 5e-6,
                                .hop = 25e-6,
                                .link = 2e-6,
                                .message = 5e-6,
                                .cores = INFINITY,
                                .byte = 0.1e-9,
                                .grain = 32 << 10};
}

/* --- Costs as text. --- */

enum kind { SECONDS, BYTES, NUMBER };

static enum banyan_status parse_value(const char *text, enum kind kind, double *out) {
  uint64_t whole;
  char *end;
  if (kind == SECONDS) return by_parse_seconds(text, out);
  if (kind == BYTES) {
    BY_TRY(by_parse_bytes(text, &whole));
    if (!whole) return by_fail(BANYAN_ERR_ARGUMENT, "is 0 bytes, must be more");
    *out = (double)whole;
    return BANYAN_OK;
  }
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 1 && value < 1e6))
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.32s\" is not a number of 1 or more, such as 1.05", text);
  *out = value;
  return BANYAN_OK;
}

/* Parses the next cost of a list. */
static enum banyan_status parse_next_cost(char **rest, struct by_cost_rates *rates) {
  static const char *const names[] = {"wire", "call", "hop", "link", "message", "cores", "byte", "grain", "burst"};
  const struct {
    enum kind kind;
    double *out;
  } all[] = {{NUMBER, &rates->wire},  {SECONDS, &rates->call},    {SECONDS, &rates->hop},
             {SECONDS, &rates->link}, {SECONDS, &rates->message}, {NUMBER, &rates->cores},
             {SECONDS, &rates->byte}, {BYTES, &rates->grain},     {SECONDS, &rates->burst}};
  size_t key;
  char *value;
  BY_TRY(by_take_pair(rest, names, sizeof names / sizeof *names, "hop=40us", &key, &value));
  enum banyan_status status = parse_value(value, all[key].kind, all[key].out);
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", names[key]);
}

enum banyan_status by_cost_parse(const char *text, struct by_cost_rates *rates) {
  char *copy = strdup(text), *rest = copy;
  if (!copy) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what things cost");
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK && rest)
    if (*rest == ',' || !*rest)
      (void)strsep(&rest, ",");
    else
      status = parse_next_cost(&rest, rates);
  free(copy);
  return status;
}

/* --- Classes. --- */

static void find_busiest(struct by_cost *cost, const struct by_plan *plan) {
  for (uint32_t v = 0; v < plan->n_vertices; v++) {
    if (plan->vertices[v].kind == BY_VERTEX_SWITCH) continue; /* A switch forwards at the speed of its links. */
    const double *node = cost->load.node[cost->load.node_of[v]];
    cost->busy = fmax(cost->busy, node[0] + node[1]);
    cost->all_bytes += node[0] + node[1];
  }
}

/* Changes the costs. */
static enum banyan_status change_rates(struct by_cost *cost, const struct by_cost_rates *rates) {
  cost->rates = *rates;
  return cost->flow ? by_cost_flow_find_pace(cost) : BANYAN_OK;
}

enum banyan_status by_cost_init(struct by_cost *cost, const struct by_plan *plan, const struct by_class *class_,
                                const struct by_topology *topology, const struct by_cost_rates *rates) {
  *cost = (struct by_cost){.topology = topology};
  enum banyan_status status = by_plan_load_init(&cost->load, plan, class_, topology);
  if (status == BANYAN_OK) status = by_cost_add_trees(cost, plan, class_);
  if (status == BANYAN_OK) status = by_cost_flow_init(cost, class_);
  if (status == BANYAN_OK) status = change_rates(cost, rates);
  if (status == BANYAN_OK)
    find_busiest(cost, plan);
  else
    by_cost_fini(cost);
  return status;
}

void by_cost_fini(struct by_cost *cost) {
  by_plan_load_fini(&cost->load);
  by_arena_fini(&cost->arena);
  *cost = (struct by_cost){0};
}

/* --- How the first bytes pass through a tree. --- */

/* Each message waits for earlier ones on its first and its last link. */

/* The state of a computation for one size. */
struct wave {
  const struct by_cost *cost;
  const struct by_cost_rates *rates;
  double bytes;
  /* The seconds when each vertex has the first bytes, and the seconds until all vertices below it have them. */
  double *ready, *rest;
  /* The seconds when the last message has passed each direction of a link. */
  double *passed;
  /* The smallest number of seconds until the path of each pair is used, and from its last use to the end. */
  double *before, *after;
};

/* Returns the seconds on the wire of the chunk that passes an edge before the vertex at its end can continue. */
static double get_edge_seconds(const struct wave *wave, const struct by_cost_edge *edge) {
  double bytes = by_cost_chunk(wave->rates, edge->share * wave->bytes);
  return edge->path ? bytes * 8 * wave->rates->wire / edge->path->capacity : 0;
}

/* Returns the seconds on the wire of this chunk if the link has been idle. */
static double get_idle_seconds(const struct wave *wave, const struct by_cost_edge *edge) {
  return fmax(0, get_edge_seconds(wave, edge) - wave->rates->burst);
}

/* Returns the seconds from the end of the transmission until the vertex at the edge's end has received the chunk. */
static double get_arrival_seconds(const struct wave *wave, const struct by_cost_edge *edge) {
  const struct by_cost_rates *rates = wave->rates;
  if (!edge->path) return 0;
  return edge->path->delay + edge->path->n_steps * rates->link + rates->hop + rates->message;
}

static size_t get_pair_index(const struct wave *wave, const struct by_cost_edge *edge) {
  return (size_t)(edge->path - wave->cost->load.pairs);
}

/* Sends the data at the start of an edge at `when`. Returns when the data has passed. The burst of an idle link makes
 * everything behind it earlier. */
static double pass_edge(struct wave *wave, const struct by_cost_edge *edge, double when) {
  if (!edge->path) return when;
  const uint32_t *steps = wave->cost->load.steps + edge->path->step;
  double *first = &wave->passed[steps[0]], *last = &wave->passed[steps[edge->path->n_steps - 1]];
  double *before = &wave->before[get_pair_index(wave, edge)];
  double start = fmax(when, fmax(*first, *last));
  *before = fmin(*before, start);
  *first = *last = start + get_edge_seconds(wave, edge);
  return fmax(when, *first - wave->rates->burst);
}

/* Records how much time remains once the edge has carried its last byte. */
static void note_rest(struct wave *wave, const struct by_cost_edge *edge, double rest) {
  if (!edge->path) return;
  double *after = &wave->after[get_pair_index(wave, edge)];
  *after = fmin(*after, get_arrival_seconds(wave, edge) + rest);
}

static void clear_vertices(struct wave *wave, const struct by_cost_edge *edges, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    wave->ready[edges[i].from] = wave->ready[edges[i].to] = 0;
    wave->rest[edges[i].from] = wave->rest[edges[i].to] = 0;
    if (!edges[i].path) continue;
    const uint32_t *steps = wave->cost->load.steps + edges[i].path->step;
    wave->passed[steps[0]] = wave->passed[steps[edges[i].path->n_steps - 1]] = 0;
  }
}

/* Returns the time of an exchange. Its steps follow each other, and twigs come before and after them. */
static double get_exchange_seconds(const struct wave *wave, const struct by_cost_tree *tree) {
  double seconds = 0;
  for (uint32_t i = 0; i < tree->n_up + tree->n_down; i++) {
    const struct by_cost_edge *edge = i < tree->n_up ? &tree->up[i] : &tree->down[i - tree->n_up];
    seconds += get_idle_seconds(wave, edge) + get_arrival_seconds(wave, edge);
  }
  return seconds;
}

/* Returns when the first bytes have passed through the tree, and lowers before[] and after[]. */
static double run_wave(struct wave *wave, const struct by_cost_tree *tree) {
  double end = 0;
  if (tree->exchange) return get_exchange_seconds(wave, tree);
  clear_vertices(wave, tree->up, tree->n_up);
  clear_vertices(wave, tree->down, tree->n_down);
  for (uint32_t i = 0; i < tree->n_up; i++) {
    const struct by_cost_edge *edge = &tree->up[i];
    double arrival = pass_edge(wave, edge, wave->ready[edge->from]) + get_arrival_seconds(wave, edge);
    wave->ready[edge->to] = fmax(wave->ready[edge->to] + wave->rates->message, arrival);
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    const struct by_cost_edge *edge = &tree->down[i];
    wave->ready[edge->to] = pass_edge(wave, edge, wave->ready[edge->from]) + get_arrival_seconds(wave, edge);
    end = fmax(end, wave->ready[edge->to]);
  }
  for (uint32_t i = tree->n_down; i-- > 0;) {
    const struct by_cost_edge *edge = &tree->down[i];
    note_rest(wave, edge, wave->rest[edge->to]);
    double rest = get_idle_seconds(wave, edge) + get_arrival_seconds(wave, edge) + wave->rest[edge->to];
    wave->rest[edge->from] = fmax(wave->rest[edge->from], rest);
  }
  for (uint32_t i = tree->n_up; i-- > 0;) {
    const struct by_cost_edge *edge = &tree->up[i];
    note_rest(wave, edge, wave->rest[edge->to]);
    wave->rest[edge->from] = get_idle_seconds(wave, edge) + get_arrival_seconds(wave, edge) + wave->rest[edge->to];
  }
  return end;
}

/* --- One size. --- */

/* Returns the seconds to carry `share` of the buffer over a residual capacity. */
static double get_wire_seconds(const struct wave *wave, double share, struct by_capacity capacity) {
  return share > 0 ? share * wave->bytes * 8 * wave->rates->wire / by_residual(capacity) : 0;
}

/* Returns for how many seconds a link or node is occupied, including its idle times before its first use and after its
 * last. */
static double get_occupied_seconds(const struct wave *wave, double carrying, double before, double after) {
  double idle = isinf(before) ? 0 : before + after;
  return carrying > 0 ? carrying + fmax(0, idle - wave->rates->burst) : 0;
}

/* Returns the longest time in seconds for which a direction of a link or a node is occupied. `before` and `after` are
 * scratch memory. */
static double get_longest_occupied(const struct wave *wave, double *before, double *after) {
  const struct by_topology *t = wave->cost->topology;
  const struct by_plan_load *load = &wave->cost->load;
  uint32_t directions = 2 * t->n_links, all = directions + 2 * t->n_nodes;
  double longest = 0;
  for (uint32_t i = 0; i < all; i++) before[i] = after[i] = INFINITY;
  for (size_t p = 0; p < load->n_pairs; p++)
    for (uint32_t i = 0; i < load->pairs[p].n_steps; i++) {
      uint32_t step = load->steps[load->pairs[p].step + i];
      const struct by_link *link = &t->links[step / 2];
      uint32_t crossed[] = {step, directions + 2 * (step % 2 ? link->b : link->a),
                            directions + 1 + 2 * (step % 2 ? link->a : link->b)};
      for (int k = 0; k < 3; k++) {
        before[crossed[k]] = fmin(before[crossed[k]], wave->before[p]);
        after[crossed[k]] = fmin(after[crossed[k]], wave->after[p]);
      }
    }
  for (uint32_t i = 0; i < directions; i++) {
    double carrying = get_wire_seconds(wave, load->link[i / 2][i % 2], t->links[i / 2].capacity[i % 2]);
    longest = fmax(longest, get_occupied_seconds(wave, carrying, before[i], after[i]));
  }
  for (uint32_t i = 0; i < 2 * t->n_nodes; i++) {
    const struct by_node *node = &t->nodes[i / 2];
    double carrying = get_wire_seconds(wave, load->node[i / 2][i % 2], i % 2 ? node->in : node->out);
    longest = fmax(longest, get_occupied_seconds(wave, carrying, before[directions + i], after[directions + i]));
  }
  return longest;
}

static double get_wave_seconds(const struct by_cost *cost, double bytes) {
  const struct by_topology *t = cost->topology;
  size_t links = 2 * (size_t)t->n_links, crossed = links + 2 * (size_t)t->n_nodes, pairs = cost->load.n_pairs;
  size_t vertices = t->n_nodes > cost->load.n_vertices ? t->n_nodes : cost->load.n_vertices;
  double *memory = malloc((2 * vertices + links + 2 * pairs + 2 * crossed) * sizeof *memory);
  if (!memory) return NAN;
  struct wave wave = {.cost = cost, .rates = &cost->rates, .bytes = bytes, .ready = memory};
  wave.rest = wave.ready + vertices;
  wave.passed = wave.rest + vertices;
  wave.before = wave.passed + links;
  wave.after = wave.before + pairs;
  double seconds = 0;
  for (size_t p = 0; p < pairs; p++) wave.before[p] = wave.after[p] = INFINITY;
  for (uint32_t i = 0; i < cost->n_trees; i++) seconds = fmax(seconds, run_wave(&wave, &cost->trees[i]));
  for (uint32_t i = 0; i < cost->n_networks; i++)
    seconds = fmax(seconds, by_cost_network_time(&cost->networks[i], &cost->rates, bytes) - cost->rates.call);
  seconds = fmax(seconds, get_longest_occupied(&wave, wave.after + pairs, wave.after + pairs + crossed));
  free(memory);
  return seconds;
}

double by_cost_time(const struct by_cost *cost, double bytes) {
  const struct by_cost_rates *rates = &cost->rates;
  /* Calls follow each other, so no link gains from having been idle before one. */
  double min = isinf(cost->load.rate) ? 0 : bytes * 8 * rates->wire / cost->load.rate;
  if (cost->flow) return fmax(by_cost_flow_time(cost, bytes), min);
  double on_path = get_wave_seconds(cost, bytes), shared = 0;
  if (isnan(on_path)) return NAN;
  /* The work of shared cores overlaps with the links' work in part. */
  if (rates->cores < cost->load.n_vertices)
    shared = (rates->message * cost->all_messages + rates->byte * cost->all_bytes * bytes) / rates->cores;
  double alone = fmax(on_path, min);
  double longest = sqrt(alone * alone + shared * shared); /* It replaces hypot, which would require glibc 2.35. */
  double work = fmax(rates->message * cost->messages, rates->byte * cost->busy * bytes);
  return rates->call + fmax(longest, work);
}

/* --- Fitting costs to measured times. --- */

/* The search changes one cost at a time: times are step functions of the costs, so there is no useful gradient. */

enum { FITTED = 4 };
static const double first_step = 2, last_step = 1.02;
/* The limit of the change of a cost, as a factor. */
static const double max_times = 64;

static enum banyan_status find_error(struct by_cost_sample *samples, uint32_t n, const struct by_cost_rates *rates,
                                     double *error) {
  uint32_t times = 0;
  *error = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct by_cost_sample *sample = &samples[i];
    BY_TRY(change_rates(&sample->cost, rates));
    for (uint32_t k = 0; k < sample->n; k++, times++) {
      double off = fabs(log(by_cost_time(&sample->cost, sample->bytes[k]) / sample->seconds[k]));
      *error += off < BY_COST_FIT_MAX ? off : BY_COST_FIT_MAX;
    }
  }
  if (times) *error /= times;
  return BANYAN_OK;
}

/* Applies the first change of one cost that is an improvement. */
static enum banyan_status improve_rates(struct by_cost_sample *samples, uint32_t n, const struct by_cost_rates *first,
                                        struct by_cost_rates *rates, double step, double *error, bool *better) {
  double *const fitted[FITTED] = {&rates->message, &rates->hop, &rates->byte, &rates->call};
  const double initial[FITTED] = {first->message, first->hop, first->byte, first->call};
  *better = false;
  for (int i = 0; i < 2 * FITTED && !*better; i++) {
    double before = *fitted[i / 2], found;
    *fitted[i / 2] *= i % 2 ? 1 / step : step;
    BY_TRY(find_error(samples, n, rates, &found));
    bool allowed = *fitted[i / 2] * max_times >= initial[i / 2] && *fitted[i / 2] <= max_times * initial[i / 2];
    *better = allowed && found < *error;
    if (*better)
      *error = found;
    else
      *fitted[i / 2] = before;
  }
  return BANYAN_OK;
}

enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates, double *error) {
  const struct by_cost_rates first = *rates;
  double step = first_step;
  BY_TRY(find_error(samples, n, rates, error));
  while (step > last_step) {
    bool better;
    BY_TRY(improve_rates(samples, n, &first, rates, step, error, &better));
    if (!better) step = sqrt(step);
  }
  return find_error(samples, n, rates, error);
}
