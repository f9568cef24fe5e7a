/* The costs of this machine, found by a job or by `banyan plan --fit`: a file in the user's cache folder that also
 * identifies the machine, since several machines may share a home. They are the default costs. */
#ifndef BY_PLANNER_COST_COST_MACHINE_H
#define BY_PLANNER_COST_COST_MACHINE_H

#include <stdbool.h>

#include "cost.h"
#include "text.h"

struct by_cost_machine {
  const char *name;
  uint64_t processors;
  bool encrypted; /* The costs are for encrypted connections. */
};

/* Returns this machine; its name has static storage for each thread. Connections between hosts are encrypted unless
 * BANYAN_ENCRYPT is "off". */
struct by_cost_machine by_machine_get(void);

enum { BY_MACHINE_MAX_PATH = 4096 };
/* Returns the path of the machine's file in the folder of by_cache_folder: "costs-NAME-tls.json", or "costs-NAME.json"
 * for unencrypted connections. BANYAN_ERR_ARGUMENT: there is no folder, or the path is too long. */
BANYAN_CHECK enum banyan_status by_machine_costs_path(const struct by_cost_machine *machine,
                                                      char out[BY_MACHINE_MAX_PATH]);
/* Sets the rates that the file's text contains. BANYAN_ERR_PARSE: it is damaged, of another machine, or newer than
 * `now`, in seconds since 1970; then rates stay unchanged. `source` names it in errors. */
BANYAN_CHECK enum banyan_status by_machine_costs_parse(const char *source, const char *text, size_t length, double now,
                                                       const struct by_cost_machine *machine,
                                                       struct by_cost_rates *rates);
/* Prints the file's text, made `now`; `costs` as for by_cost_parse. */
void by_machine_costs_print(const struct by_cost_machine *machine, const char *costs, double now, struct by_text *text);
/* Reads the file. BANYAN_ERR_ARGUMENT: it does not exist. */
BANYAN_CHECK enum banyan_status by_machine_costs_read(const struct by_cost_machine *machine, const char *path,
                                                      struct by_cost_rates *rates);
/* Writes the file, and replaces an existing one. */
BANYAN_CHECK enum banyan_status by_machine_costs_keep(const struct by_cost_machine *machine, const char *costs);
/* Sets the rates of this machine's file, if there is one. Logs a defect of the file once. */
void by_machine_costs_use(struct by_cost_rates *rates);

#endif
