/* Holds the topology in use, and composes the next one from agents' reports. */
#include "manager_topology.h"

#include <math.h>
#include <stdlib.h>

#include "log.h"

struct by_manager_topology {
  struct by_manager_topology_options options;
  struct by_manager_discovery *discovery;
  struct by_timer settle_timer; /* Evaluates agents' reports. */
  struct by_topology *composed; /* The topology in use; NULL: the written one. */
  struct by_topology *next;     /* NULL: none. */
};

static double now_of(const struct by_manager_topology *t) {
  return t->options.now(t->options.context);
}

static void set_timer(struct by_manager_topology *t) {
  double wait = by_manager_discovery_next(t->discovery) - now_of(t);
  if (isfinite(wait))
    by_loop_set_delay(t->options.loop, &t->settle_timer, by_clock_from_seconds(fmax(0, wait)));
  else
    by_loop_cancel_timer(&t->settle_timer);
}

static void evaluate_reports(void *context) {
  struct by_manager_topology *t = context;
  struct by_topology *fresh;
  switch (by_manager_discovery_evaluate(t->discovery, now_of(t), &fresh)) {
  case BY_DISCOVERY_SAME: break;
  case BY_DISCOVERY_CHANGED:
    by_topology_destroy(t->next);
    t->next = fresh;
    t->options.composed(t->options.context);
    break;
  case BY_DISCOVERY_REJECTED: t->options.rejected(t->options.context, banyan_error_text()); break;
  }
  set_timer(t);
}

/* ---- agents' reports */

void by_manager_topology_handle(struct by_manager_topology *t, const char *host,
                                const struct by_cluster_message *message, uint64_t held) {
  by_manager_discovery_handle(t->discovery, host, message, now_of(t));
  if (message->type == BY_MESSAGE_REPORT)
    by_manager_discovery_count(t->discovery, host, message->used_cells, held, now_of(t));
  set_timer(t);
}

void by_manager_topology_part(struct by_manager_topology *t, const char *host) {
  by_manager_discovery_part(t->discovery, host, now_of(t));
  set_timer(t);
}

void by_manager_topology_print(const struct by_manager_topology *t, struct by_text *text) {
  by_manager_discovery_print(t->discovery, text);
}

/* ---- the topology in use, and the next one */

const struct by_topology *by_manager_topology_get(const struct by_manager_topology *t) {
  return t->composed ? t->composed : t->options.written;
}

const struct by_topology *by_manager_topology_next(const struct by_manager_topology *t) {
  return t->next;
}

void by_manager_topology_advance(struct by_manager_topology *t, struct by_manager_store *store) {
  by_topology_destroy(t->composed);
  t->composed = t->next;
  t->next = NULL;
  by_manager_topology_keep(t, store);
  by_warn("manager", "the topology that agents report has %u node%s and %u link%s", t->composed->n_nodes,
          by_plural(t->composed->n_nodes), t->composed->n_links, by_plural(t->composed->n_links));
}

/* ---- restart of the manager */

void by_manager_topology_keep(const struct by_manager_topology *t, struct by_manager_store *store) {
  struct by_text text = {0};
  if (!t->composed) return;
  by_topology_print(t->composed, &text);
  if (!text.failed) by_manager_store_keep_topology(store, by_text_get(&text));
  by_manager_store_commit(store);
  by_text_fini(&text);
}

void by_manager_topology_restore(struct by_manager_topology *t, struct by_manager_store *store) {
  struct by_topology *kept = NULL;
  struct by_text text = {0};
  enum banyan_status status = by_manager_store_get_topology(store, &text);
  if (status == BANYAN_OK && text.length)
    status = by_topology_parse("the topology that was kept", by_text_get(&text), text.length, &kept);
  if (status != BANYAN_OK) by_warn("manager", "%s", banyan_error_text());
  if (kept) by_manager_discovery_restore(t->discovery, kept, now_of(t));
  by_topology_destroy(kept);
  by_text_fini(&text);
  evaluate_reports(t);
}

/* ---- beginning and end */

static enum banyan_status begin_discovery(struct by_manager_topology *t) {
  const struct by_manager_discovery_options options = {.written = t->options.written, .trust = t->options.trust};
  BY_TRY(by_manager_discovery_create(&options, now_of(t), &t->discovery));
  if (options.written) return BANYAN_OK;
  t->composed = calloc(1, sizeof *t->composed);
  if (!t->composed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the manager");
  t->composed->name = "";
  return BANYAN_OK;
}

enum banyan_status by_manager_topology_create(const struct by_manager_topology_options *options,
                                              struct by_manager_topology **out) {
  struct by_manager_topology *t = calloc(1, sizeof *t);
  if (!t) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the manager");
  t->options = *options;
  by_timer_init(&t->settle_timer, evaluate_reports, t);
  enum banyan_status status = begin_discovery(t);
  if (status == BANYAN_OK)
    *out = t;
  else
    by_manager_topology_destroy(t);
  return status;
}

void by_manager_topology_destroy(struct by_manager_topology *t) {
  if (!t) return;
  by_loop_cancel_timer(&t->settle_timer);
  by_manager_discovery_destroy(t->discovery);
  by_topology_destroy(t->composed);
  by_topology_destroy(t->next);
  free(t);
}
