/* Reads LLDP's JSON in three steps: the documents become mentions of machines and reports of what
 * ports receive, mentions become machines (both in topology_lldp.c), and reports become cables of a topology
 * (lldp_cables.c). All texts live in the arena. */
#ifndef BY_TOPOLOGY_FORMATS_LLDP_PARTS_H
#define BY_TOPOLOGY_FORMATS_LLDP_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "topology_make.h"

/* A place where a machine is named: by a file, or by itself in its announcements. */
struct by_lldp_mention {
  const char *id;   /* its chassis id, unique worldwide; "": none */
  const char *name; /* "": none */
  const char *source;
  bool by_file;          /* A file or one of its fields names it, not the machine itself. */
  bool reports;          /* The neighbors that it received are known. */
  bool described;        /* Its capabilities are known. */
  bool bridges, a_phone; /* It forwards; it is a phone. */
  uint32_t machine;
};

struct by_lldp_machine {
  const struct by_lldp_mention *first; /* the first mention of it */
  const char *id, *name;               /* "": none */
  const char *shown;                   /* its unique name in the topology */
  bool reports, described, bridges, a_phone;
};

/* Machine `from` received an announcement of `to` on its port. */
struct by_lldp_report {
  uint32_t from, to;             /* indices of mentions at first, of machines after find_machines */
  const char *port;              /* the port of `from` */
  const char *far_id, *far_text; /* the id and description that `to` gives its port; "": not known */
  double rate;                   /* the rate of the port of `to` in bit/s; NAN: not known */
  uint32_t partner;              /* the report of the same cable by its other end; UINT32_MAX: none */
};

struct by_lldp_network {
  struct by_arena arena;
  double default_rate;
  const char *hosts; /* patterns of the names that are hosts; NULL or "": decide by what they report */
  struct by_lldp_mention *mentions;
  struct by_lldp_machine *machines;
  struct by_lldp_report *reports;
  uint32_t n_mentions, n_machines, n_reports, allocated_mention, allocated_machine, allocated_report;
};

/* Adds machines and cables. If one port receives several machines, a switch that does not speak LLDP is assumed between
 * them. */
BANYAN_CHECK enum banyan_status by_lldp_add_cables(struct by_lldp_network *network,
                                                   struct by_topology_builder *builder);

#endif
