/* Costs that were found on this machine, by a job or by `banyan plan --fit`: a file below the user's cache folder, with
 * what identifies the machine, since several may share a home. They are used where no others are given. */
#ifndef BY_PLANNER_COST_COST_MACHINE_H
#define BY_PLANNER_COST_COST_MACHINE_H

#include <stdbool.h>

#include "cost.h"
#include "text.h"

struct by_cost_machine {
  const char *name;
  uint64_t processors;
  bool encrypted; /* the costs are those of encrypted connections */
};

/* This one. The name is the process's. Connections between hosts are encrypted unless BANYAN_ENCRYPT is "off". */
struct by_cost_machine by_machine_get(void);

enum { BY_MACHINE_MOST_PATH = 4096 };
/* The machine's file in the folder of by_cache_folder: "costs-NAME-tls.json", or "costs-NAME.json" of connections in
 * plain text. BANYAN_ERR_ARGUMENT: there is none, or its
 * path is too long. */
BANYAN_CHECK enum banyan_status by_machine_costs_path(const struct by_cost_machine *machine,
                                                      char out[BY_MACHINE_MOST_PATH]);
/* Changes the rates to what the file's text says. BANYAN_ERR_PARSE: it is damaged, another machine's, or was made after
 * `now`, in seconds since 1970; then they are as they were. `source` names it in errors. */
BANYAN_CHECK enum banyan_status by_machine_costs_parse(const char *source, const char *text, size_t length, double now,
                                                       const struct by_cost_machine *machine,
                                                       struct by_cost_rates *rates);
/* The file's text, made `now`; `costs` as for by_cost_parse. */
void by_machine_costs_print(const struct by_cost_machine *machine, const char *costs, double now, struct by_text *text);
/* Reads the file. BANYAN_ERR_ARGUMENT: there is none. */
BANYAN_CHECK enum banyan_status by_machine_costs_read(const struct by_cost_machine *machine, const char *path,
                                                      struct by_cost_rates *rates);
/* Writes the file, in the place of the one before. */
BANYAN_CHECK enum banyan_status by_machine_costs_keep(const struct by_cost_machine *machine, const char *costs);
/* Changes the rates to those in this machine's file, if there is one. Logs what is wrong with it, once. */
void by_machine_costs_use(struct by_cost_rates *rates);

#endif
