#include "lab_switches.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#include "fragment.h"
#include "lab_keeper.h"
#include "lab_netlink.h"
#include "text.h"
#include "user.h"
#include "wish.h"

enum { MOST_CELLS = 1 << 20 };

struct by_lab_switches {
  uint32_t n;
  struct by_keeper keepers[];
};

/* By what the topology says of the switch's memory. */
static uint32_t count_cells(const struct by_node *node) {
  return (uint32_t)MIN(MAX(node->memory / BY_WISH_SLOT_BYTES, 1), MOST_CELLS);
}

/* The fragments that come in by any port go to the switch, as docs/in-network.md asks of its host. */
static enum banyan_status add_rules(const struct by_keeper_task *task) {
  struct by_netlink netlink;
  char interface[24];
  BY_TRY(by_netlink_open(&netlink));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t k = 0; k < task->n_ports && status == BANYAN_OK; k++) {
    snprintf(interface, sizeof interface, "eth%u", k);
    status = by_netlink_add_rule(&netlink, interface, IPPROTO_UDP, BY_FRAGMENT_PORT, BY_USER_TABLE);
  }
  by_netlink_close(&netlink);
  return status;
}

static enum banyan_status start(struct by_lab_switches *switches, const struct by_lab *lab,
                                const struct by_lab_layout *layout, uint32_t space, enum by_lab_switch_kind kind) {
  struct by_text ports;
  char address[16], cells[16];
  bool xdp = kind == BY_LAB_SWITCHES_XDP;
  uint32_t n_ports = layout->spaces[layout->spaces[space].outside].n_wires;
  by_text_init(&ports);
  for (uint32_t k = 0; k < n_ports; k++) by_text_add(&ports, "%seth%u", k ? "," : "", k);
  by_lab_print_address(layout->spaces[space].address, address);
  const struct by_node *node = &layout->topology->nodes[space];
  snprintf(cells, sizeof cells, "%u", count_cells(node));
  const char *command[] = {
      "banyan",    "switch", xdp ? "--xdp" : "--user",        by_text_get(&ports),
      "--control", address,  node->memory ? "--cells" : NULL, /* else as many as `banyan switch` takes by itself */
      cells,       NULL};
  struct by_keeper_task task = {.lab = lab,
                                .space = space,
                                .name = layout->spaces[space].name,
                                .command = command,
                                .prepare = xdp ? NULL : add_rules,
                                .n_ports = n_ports};
  enum banyan_status status =
      ports.failed ? BANYAN_ERR_NO_MEMORY : by_keeper_start(&task, &switches->keepers[switches->n]);
  switches->n += status == BANYAN_OK;
  by_text_fini(&ports);
  return status;
}

static bool adds(const struct by_lab_layout *layout, uint32_t node) {
  return layout->topology->nodes[node].kind == BY_NODE_SWITCH && layout->topology->nodes[node].aggregates;
}

static enum banyan_status await(struct by_lab_switches *switches, const struct by_lab_layout *layout) {
  for (uint32_t v = 0, i = 0; i < switches->n; v++) {
    if (!adds(layout, v)) continue;
    struct by_keeper *keeper = &switches->keepers[i++];
    BY_TRY(by_keeper_await(keeper, layout->spaces[v].name));
    fprintf(stderr,
            "banyan lab: switch %s: kill -HUP %d restarts it, \"nsenter -m -r -n -u -t %d\" enters its namespaces\n",
            layout->spaces[v].name, (int)keeper->pid, (int)keeper->pid);
  }
  return BANYAN_OK;
}

enum banyan_status by_lab_switches_start(const struct by_lab *lab, const struct by_lab_layout *layout,
                                         enum by_lab_switch_kind kind, struct by_lab_switches **out) {
  uint32_t n = layout->topology->n_nodes;
  struct by_lab_switches *switches = calloc(1, sizeof *switches + n * sizeof *switches->keepers);
  *out = NULL;
  if (!switches) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's switches");
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = 0; v < n && status == BANYAN_OK && kind != BY_LAB_SWITCHES_NONE; v++)
    if (adds(layout, v)) status = start(switches, lab, layout, v, kind);
  if (status == BANYAN_OK) status = await(switches, layout);
  if (status == BANYAN_OK)
    *out = switches;
  else
    by_lab_switches_stop(switches);
  return status;
}

void by_lab_switches_stop(struct by_lab_switches *switches) {
  for (uint32_t i = 0; switches && i < switches->n; i++) by_keeper_stop(&switches->keepers[i]);
  free(switches);
}
