/* Embeds a job in a shared cluster, for the first time or again, and describes the embedding. */
#include "embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embed_parts.h"
#include "packing.h"
#include "plan.h"
#include "plan_make.h"
#include "text.h"

/* --- Again: what an old embedding found is copied, by the names of its vertices. --- */

#define NONE UINT32_MAX
/* The number of newest trees of pricing that are copied. Without a limit it would grow each time. */
enum { MAX_COPIED = 256 };

struct copying {
  struct by_embedding *embedding;
  const struct by_embedding *old;
  uint32_t *vertex; /* The new vertex of each of the old graph's vertices; NONE: it does not exist any more. */
  double *load;     /* The load of each row with the old weights, relative to its capacity. */
  bool missing;     /* Something that the old embedding uses does not exist any more. */
};

static enum banyan_status match_vertices(const struct copying *t) {
  const struct by_graph *graph = t->embedding->graph, *before = t->old->graph;
  if (graph->n_terminals != before->n_terminals)
    return by_fail(BANYAN_ERR_ARGUMENT, "a job of %u workers cannot be planned again for %u", before->n_terminals,
                   graph->n_terminals);
  for (uint32_t v = 0; v < before->n_vertices; v++) {
    uint32_t w = v < graph->n_terminals ? v : graph->n_terminals;
    uint32_t end = v < graph->n_terminals ? v + 1 : graph->n_vertices;
    while (w < end && strcmp(t->embedding->vertices[w].name, t->old->vertices[v].name) != 0) w++;
    t->vertex[v] = w < end ? w : NONE;
    if (v < graph->n_terminals && w == end)
      return by_fail(BANYAN_ERR_ARGUMENT, "rank %u of the job was on \"%.64s\" and is now on \"%.64s\"", v,
                     t->old->vertices[v].name, t->embedding->vertices[v].name);
  }
  return BANYAN_OK;
}

/* Adds the tree to the server of the same name in which switches of the same names add. */
static enum banyan_status copy_network(struct copying *t, const struct by_embed_candidate *candidate, uint32_t *found) {
  const struct by_embed_net *net = &t->embedding->net;
  const struct by_embed_server *before = &t->old->net.servers[candidate->server];
  const char *const *names = t->embedding->node_names, *const *old = t->old->node_names;
  uint32_t s = 0;
  *found = NONE;
  while (s < net->n_servers && strcmp(names[net->servers[s].node], old[before->node]) != 0) s++;
  if (s == net->n_servers) return BANYAN_OK;
  const struct by_path_tree *tree = &net->servers[s].paths.trees[0], *was = &before->paths.trees[0];
  bool *adds = calloc(tree->flow.n, sizeof *adds), fits = true;
  if (!adds) return by_plan_no_memory();
  for (uint32_t v = 0; v < was->flow.n; v++) {
    uint32_t w = 0;
    if (!candidate->adds[v]) continue;
    while (w < tree->flow.n && strcmp(names[tree->node[w]], old[was->node[v]]) != 0) w++;
    fits &= w < tree->flow.n && tree->flow.able[w];
    if (fits) adds[w] = true;
  }
  enum banyan_status status =
      fits ? by_embed_candidates_add_network(&t->embedding->candidates, s, adds, found) : BANYAN_OK;
  free(adds);
  return status;
}

/* Adds this candidate to the new list. *found becomes its number, or NONE if it does not fit any more. */
static enum banyan_status copy_candidate(struct copying *t, const struct by_embed_candidate *candidate,
                                         uint32_t *found) {
  struct by_embed_candidates *list = &t->embedding->candidates;
  if (candidate->kind == BY_EMBED_NETWORK) return copy_network(t, candidate, found);
  list->draft.kind = candidate->kind;
  return by_embed_candidates_add_group(list, &candidate->group, t->vertex, found);
}

static enum banyan_status copy_used(struct copying *t) {
  const struct by_embed_picks *picks = &t->old->picks;
  struct by_embed_candidates *list = &t->embedding->candidates;
  for (uint32_t i = 0; i < picks->n; i++) {
    uint32_t found;
    BY_TRY(copy_candidate(t, &t->old->candidates.items[picks->items[i].candidate], &found));
    t->missing |= found == NONE;
    if (found == NONE) continue;
    list->items[found].set = BY_EMBED_OLD;
    for (uint32_t r = 0; r < t->embedding->net.n_rows; r++)
      t->load[r] += picks->items[i].rate / picks->throughput * list->items[found].load[r];
  }
  return BANYAN_OK;
}

static enum banyan_status copy_priced(struct copying *t) {
  const struct by_embed_candidates *from = &t->old->candidates;
  uint32_t kept = 0, found;
  for (uint32_t i = from->n; i-- > 0 && kept < MAX_COPIED;) {
    if (from->items[i].kind != BY_EMBED_PACKED) continue;
    kept++;
    BY_TRY(copy_candidate(t, &from->items[i], &found));
  }
  return BANYAN_OK;
}

static enum banyan_status copy_old(struct copying *t) {
  double max = 0;
  BY_TRY(match_vertices(t));
  BY_TRY(copy_used(t));
  BY_TRY(copy_priced(t));
  for (uint32_t r = 0; r < t->embedding->net.n_rows; r++) max = fmax(max, t->load[r]);
  t->embedding->before = t->missing ? 0 : 1 / max;
  return BANYAN_OK;
}

/* Adds the candidates that the old embedding uses and those that pricing found for it, by the names of vertices, and
 * marks the used ones as a set. Sets `before`. */
static enum banyan_status copy_old_embedding(struct by_embedding *embedding, const struct by_embedding *old) {
  struct by_arena arena = {0};
  struct copying t = {.embedding = embedding,
                      .old = old,
                      .vertex = BY_ARENA_ARRAY(&arena, uint32_t, old->graph->n_vertices),
                      .load = BY_ARENA_ARRAY(&arena, double, embedding->net.n_rows)};
  enum banyan_status status = arena.failed ? by_plan_no_memory() : copy_old(&t);
  by_arena_fini(&arena);
  return status;
}

enum { ROUNDS = 400, MAX_MESHED = BY_EMBED_MAX_VERTICES };
static const double min_ratio = 0.998; /* A part of the bound. */
static const double min_chosen = 0.97; /* A part of the throughput of any number of candidates. */

struct by_embed_options by_embed_defaults(void) {
  return (struct by_embed_options){.allowed = BY_PLAN_ALL_METHODS,
                                   .max_trees = 8,
                                   .steps = 16,
                                   .max_height = INFINITY,
                                   .penalty = 0.01,
                                   .queues = 1,
                                   .turnaround = by_placement_defaults().turnaround};
}

void by_embedding_destroy(struct by_embedding *embedding) {
  if (!embedding) return;
  by_plan_destroy(embedding->network);
  free(embedding->picks.items);
  by_embed_candidates_fini(&embedding->candidates);
  by_embed_net_fini(&embedding->net);
  by_graph_destroy(embedding->graph);
  by_arena_fini(&embedding->arena);
  free(embedding);
}

/* --- Facts. --- */

struct by_embed_facts by_embedding_facts(const struct by_embedding *embedding) {
  return (struct by_embed_facts){.throughput = embedding->picks.throughput,
                                 .bound = embedding->bound,
                                 .any_number = embedding->any_number,
                                 .before = embedding->before,
                                 .n_candidates = embedding->candidates.n,
                                 .n_used = embedding->picks.n,
                                 .n_in_network = embedding->network ? embedding->network->classes->n_groups : 0};
}

/* --- Creation. --- */

/* Adds at most max_trees trees of by_pack_few, with one attempt and no bound to reach, since the last percent takes
 * long. BANYAN_ERR_PLAN: no tree is low enough. */
static enum banyan_status add_few(struct by_embed_candidates *list, uint32_t max_trees, double max_height) {
  struct by_few_options few = by_few_defaults();
  struct by_packing *packing;
  few.max_trees = max_trees < BY_EMBED_MAX_LATER ? max_trees : BY_EMBED_MAX_LATER;
  few.max_height = max_height;
  few.tolerance = -1;
  few.attempts = 1;
  BY_TRY(by_pack_few(list->net->graph, &few, &packing));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t t = 0; status == BANYAN_OK && t < packing->n_trees; t++) {
    uint32_t found;
    status = by_embed_candidates_add_tree(list, packing->trees[t].edges, packing->trees[t].n, &found);
    if (status == BANYAN_OK && found != UINT32_MAX) list->items[found].set = BY_EMBED_FEW;
  }
  by_packing_destroy(packing);
  return status;
}

/* Chooses candidates. Prices ignore how many children a vertex has in a tree, so they find stars, of which many are
 * needed where hosts differ; by_pack_few does count children. It takes as long as everything else, so it is used
 * last. */
static enum banyan_status choose_candidates(struct by_embedding *e, struct by_embed_master *master,
                                            const struct by_embed_options *o) {
  BY_TRY(by_embed_master_price(master, min_ratio, ROUNDS, &e->bound));
  e->any_number = master->throughput;
  BY_TRY(by_embed_choose(master, o, e->any_number, 0, &e->picks));
  if (e->picks.throughput >= min_chosen * e->any_number) return BANYAN_OK;
  enum banyan_status status = add_few(&e->candidates, o->max_trees, o->max_height);
  if (status != BANYAN_OK) return status == BANYAN_ERR_PLAN ? BANYAN_OK : status;
  status = by_embed_choose(master, o, e->any_number, BY_EMBED_FEW, &e->picks);
  e->any_number = fmax(e->any_number, e->picks.throughput);
  return status;
}

static enum banyan_status check_hosts(const struct by_topology *topology, const uint32_t *nodes, uint32_t n,
                                      const char *what) {
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= topology->n_nodes)
      return by_fail(BANYAN_ERR_ARGUMENT, "node number %u is not in the topology", nodes[i]);
    if (topology->nodes[nodes[i]].kind != BY_NODE_HOST)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is a switch and cannot be a %s", topology->nodes[nodes[i]].name,
                     what);
  }
  return BANYAN_OK;
}

static enum banyan_status check_options(const struct by_topology *topology, const struct by_embed_options *o) {
  if (!(o->allowed & BY_PLAN_ALL_METHODS))
    return by_fail(BANYAN_ERR_ARGUMENT, "no method is allowed, of " BY_PLAN_METHODS);
  if (o->steps < 1 || o->steps > BY_EMBED_MAX_STEPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u steps of weights; there are 1 to %d", o->steps, BY_EMBED_MAX_STEPS);
  BY_TRY(check_hosts(topology, o->choice.helpers, o->choice.n_helpers, "helper"));
  return check_hosts(topology, o->servers, o->n_servers, "server");
}

/* Adds one tree that is allowed. */
static enum banyan_status add_allowed_tree(struct by_embedding *e, const struct by_embed_options *o) {
  char methods[BY_PLAN_METHODS_BYTES];
  BY_TRY(add_few(&e->candidates, 1, o->max_height));
  if (e->candidates.n) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PLAN, "none of the allowed methods (%s) connects the %u workers: allow others",
                 by_plan_methods_print(o->allowed, methods), e->graph->n_terminals);
}

static enum banyan_status make_embedding(struct by_embedding *e, const struct by_topology *topology,
                                         const struct by_embed_options *o) {
  struct by_graph_choice choice = o->choice;
  struct by_embed_master master;
  choice.max_meshed = MAX_MESHED;
  if (!(o->allowed & BY_PLAN_HELPERS)) choice.n_helpers = 0;
  BY_TRY(check_options(topology, o));
  BY_TRY(by_graph_of_topology(topology, &choice, &e->graph));
  BY_TRY(by_embed_net_init(&e->net, topology, e->graph));
  if (o->allowed & BY_PLAN_SWITCHES) BY_TRY(by_embed_net_add_servers(&e->net, o));
  BY_TRY(by_embed_name_nodes(e));
  BY_TRY(by_graph_name_vertices(e->graph, topology, &e->arena, &e->vertices));
  BY_TRY(by_embed_candidates_init(&e->candidates, &e->net,
                                  o->max_height < UINT32_MAX ? (uint32_t)o->max_height : UINT32_MAX, o->allowed));
  BY_TRY(by_embed_candidates_make(&e->candidates));
  if (o->old) BY_TRY(copy_old_embedding(e, o->old));
  if (!e->candidates.n) BY_TRY(add_allowed_tree(e, o)); /* No shape fits. */
  enum banyan_status status = by_embed_master_init(&master, &e->candidates);
  if (status == BANYAN_OK) status = choose_candidates(e, &master, o);
  by_embed_master_fini(&master);
  by_grower_fini(&e->candidates.grower); /* No more candidates are added. */
  return status == BANYAN_OK ? by_embed_make_network(e, o->queues) : status;
}

enum banyan_status by_embed(const struct by_topology *topology, const struct by_embed_options *options,
                            struct by_embedding **out) {
  struct by_embedding *e = calloc(1, sizeof *e);
  if (!e) return by_plan_no_memory();
  enum banyan_status status = make_embedding(e, topology, options);
  if (status == BANYAN_OK)
    *out = e;
  else
    by_embedding_destroy(e);
  return status;
}

/* --- Text for people. --- */

static const char *const kind_names[BY_EMBED_N_KINDS] = {"parameter server",
                                                         "sharded parameter server",
                                                         "ring",
                                                         "recursive halving and doubling",
                                                         "chain",
                                                         "tree",
                                                         "elastic aggregation tree",
                                                         "tree over helpers",
                                                         "in-network tree",
                                                         "packed tree"};

static void add_used(const struct by_embedding *e, struct by_text *text) {
  char rate[32];
  by_text_add(text, "Used, and what they carry:\n");
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_embed_candidate *c = &e->candidates.items[e->picks.items[i].candidate];
    by_text_add(text, "  %5.1f %%  %s: %s", 100 * e->picks.items[i].rate / e->picks.throughput, kind_names[c->kind],
                by_print_rate(e->picks.items[i].rate, rate));
    if (c->kind == BY_EMBED_NETWORK)
      by_text_add(text, ", server %s", e->node_names[e->net.servers[c->server].node]);
    else if (c->group.kind == BY_GROUP_ROTATED)
      by_text_add(text, ", a piece for each of %u ranks", c->group.n);
    else
      by_text_add(text, ", root %s", e->vertices[c->group.order[c->group.root]].name);
    by_text_add(text, ", height %u\n", c->height);
  }
}

static void add_alone(const struct by_embedding *e, struct by_text *text) {
  char rate[32];
  by_text_add(text, "The best candidate of each kind alone, and how many times as long it would take:\n");
  for (int kind = 0; kind < BY_EMBED_N_KINDS; kind++) {
    const struct by_embed_candidate *c = NULL, *all = e->candidates.items;
    for (uint32_t i = 0; i < e->candidates.n; i++)
      if ((int)all[i].kind == kind && (!c || all[i].theta < c->theta)) c = &all[i];
    if (c)
      by_text_add(text, "  %-31s %10s  %6.2f\n", kind_names[kind], by_print_rate(1 / c->theta, rate),
                  c->theta * e->picks.throughput);
  }
}

void by_embedding_explain(const struct by_embedding *embedding, struct by_text *text) {
  const struct by_embedding *e = embedding;
  char rate[3][32];
  by_text_add(text, "%u workers", e->graph->n_terminals);
  if (e->graph->n_vertices > e->graph->n_terminals)
    by_text_add(text, " and %u that may help", e->graph->n_vertices - e->graph->n_terminals);
  by_text_add(text, ": %u of %u candidates carry %s, %.1f %% of the %s that no set of trees exceeds here; ", e->picks.n,
              e->candidates.n, by_print_rate(e->picks.throughput, rate[0]), 100 * e->picks.throughput / e->bound,
              by_print_rate(e->bound, rate[1]));
  by_text_add(text, "any number of them would carry %s.\n", by_print_rate(e->any_number, rate[2]));
  add_used(e, text);
  add_alone(e, text);
}

/* --- The plan. --- */

/* Makes a plan of the used trees of the graph. */
static enum banyan_status make_graph_plan(const struct by_embedding *e, const char *name, double rate,
                                          struct by_plan **out) {
  struct by_plan_facts facts = {.throughput = e->picks.throughput, .bound = e->bound};
  struct by_group *groups = calloc((size_t)e->picks.n + 1, sizeof *groups);
  uint32_t n = 0;
  if (!groups) return by_plan_no_memory();
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_embed_candidate *candidate = &e->candidates.items[e->picks.items[i].candidate];
    if (candidate->kind == BY_EMBED_NETWORK) continue;
    groups[n] = candidate->group;
    groups[n].rate = e->picks.items[i].rate;
    groups[n].share = groups[n].rate / rate;
    n++;
  }
  enum banyan_status status = by_plan_of_groups(name, e->graph, e->vertices, groups, n, facts, out);
  free(groups);
  return status;
}

enum banyan_status by_embedding_plan(const struct by_embedding *e, const char *name, struct by_plan **out) {
  /* These sum the rates of used candidates, since the linear program may leave tiny rates on others. */
  double of_graph = 0, of_network = 0;
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_embed_pick *pick = &e->picks.items[i];
    *(e->candidates.items[pick->candidate].kind == BY_EMBED_NETWORK ? &of_network : &of_graph) += pick->rate;
  }
  if (!e->network) return make_graph_plan(e, name, of_graph, out);
  struct by_plan_part parts[2] = {{.plan = e->network}};
  const double all = of_graph + of_network, shares[2] = {of_network / all, of_graph / all};
  struct by_plan *graph = NULL;
  if (of_graph > 0) BY_TRY(make_graph_plan(e, name, of_graph, &graph));
  parts[1].plan = graph;
  enum banyan_status status = by_plan_mix(name, parts, shares, graph ? 2 : 1, out);
  by_plan_destroy(graph);
  if (status == BANYAN_OK)
    (*out)->facts = (struct by_plan_facts){
        .throughput = e->picks.throughput, .bound = e->bound, .ratio = e->picks.throughput / e->bound};
  return status;
}
