/* What is between LLDP's JSON and its topology: who spoke of whom. Lives while
 * one topology is read. */
#ifndef BY_TOPOLOGY_TOPOLOGY_LLDP_DRAFT_H
#define BY_TOPOLOGY_TOPOLOGY_LLDP_DRAFT_H

#include "topology_lldp.h"
#include "topology_make.h"

/* A machine that speaks or is spoken of. */
struct by_lldp_machine {
  bool reports;   /* what it heard is among the files */
  bool described; /* its capabilities are known: */
  bool bridges;   /* it forwards */
  bool is_phone;
  bool named_by_file;
};

/* Machine `from` heard `to` on its port. */
struct by_lldp_report {
  uint32_t from, to;
  const char *port;              /* of `from` */
  const char *far_id, *far_text; /* how `to` calls its port: id and description, "" not known */
  double rate;                   /* bit/s, NAN: not known */
  uint32_t partner;              /* the same cable as told by its other end; UINT32_MAX: nobody */
};

struct by_lldp {
  struct by_lldp_options options;
  struct by_topology_builder names; /* of the machines, which have the same numbers */
  struct by_lldp_machine *machines;
  uint32_t machine_room;
  struct by_lldp_report *reports;
  uint32_t n_reports, report_room;
};

/* Finds the cables and makes the topology; the log says what was assumed. */
BANYAN_CHECK enum banyan_status by_lldp_make(struct by_lldp *lldp, struct by_topology **out);

#endif
