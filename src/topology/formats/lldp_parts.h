/* Reading LLDP's JSON in three steps, of which each has a file: the documents become mentions of machines and reports
 * of what ports receive (topology_lldp.c), the mentions become machines (lldp_machines.c), and the reports become
 * cables of a topology (lldp_cables.c). All texts live in the arena. */
#ifndef BY_TOPOLOGY_FORMATS_LLDP_PARTS_H
#define BY_TOPOLOGY_FORMATS_LLDP_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "topology_make.h"

/* One place where a machine is named: by a file, or by itself in what it announces. */
struct by_lldp_mention {
  const char *id;   /* of its chassis, worldwide unique; "" none */
  const char *name; /* "" none */
  const char *source;
  bool by_file;          /* named by a file or by a field of one, not by itself */
  bool reports;          /* the neighbors that it received follow */
  bool described;        /* its capabilities are known: */
  bool bridges, a_phone; /* it forwards, it is a phone */
  uint32_t machine;
};

struct by_lldp_machine {
  const struct by_lldp_mention *first; /* the first mention */
  const char *id, *name;               /* "" none */
  const char *shown;                   /* its name in the topology, unique */
  bool reports, described, bridges, a_phone;
};

/* Machine `from` received an announcement of `to` on its port. */
struct by_lldp_report {
  uint32_t from, to;             /* mentions, then machines */
  const char *port;              /* of `from` */
  const char *far_id, *far_text; /* how `to` calls its port: id and description, "" not known */
  double rate;                   /* bit/s of the port of `to`, NAN: not known */
  uint32_t partner;              /* the same cable as reported by its other end; UINT32_MAX: none */
};

struct by_lldp_network {
  struct by_arena arena;
  double default_rate;
  const char *hosts; /* patterns of the names that are hosts; NULL or "": by what they report */
  struct by_lldp_mention *mentions;
  struct by_lldp_machine *machines;
  struct by_lldp_report *reports;
  uint32_t n_mentions, n_machines, n_reports, mention_room, machine_room, report_room;
};

/* Finds out which mentions are of one machine: those with one chassis id; without an id, those whose names agree by
 * their first label, without case; and of a file that names no machine, the one that the others receive where its ports
 * lead. Then the ends of reports are machines. BANYAN_ERR_TOPOLOGY: a name may mean several machines. */
BANYAN_CHECK enum banyan_status by_lldp_find_machines(struct by_lldp_network *network);
/* Adds machines and cables. Where one port receives several machines, a switch that does not speak LLDP is between
 * them. */
BANYAN_CHECK enum banyan_status by_lldp_add_cables(struct by_lldp_network *network,
                                                   struct by_topology_builder *builder);

#endif
