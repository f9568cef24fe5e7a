/* What the parts of the JSON reader share: the document's (plan_json.c), one
 * tree's (plan_json_group.c), and its switches' (plan_json_ports.c). */
#ifndef BY_PLAN_PLAN_JSON_H
#define BY_PLAN_PLAN_JSON_H

#include "json_doc.h"
#include "plan.h"

struct by_plan_reader {
  struct by_plan *plan; /* its vertices are there */
  json_t *vertex_of;    /* name -> vertex */
  uint32_t *position;   /* of each vertex in the tree being read; UINT32_MAX between trees */
  uint64_t *places;     /* vertices of the trees read so far */
};

/* Reads an element of "trees" into `group`, all zeros before. */
BANYAN_CHECK enum banyan_status by_plan_read_group(const struct by_plan_reader *reader, const struct by_place *place,
                                                   const json_t *value, struct by_group *group);
/* Its "forwards" and "ports", if it has them. */
BANYAN_CHECK enum banyan_status by_plan_read_ports(const struct by_plan_reader *reader, const struct by_place *place,
                                                   const json_t *value, struct by_group *group);
BANYAN_CHECK enum banyan_status by_plan_find_vertex(const struct by_plan_reader *reader, const struct by_place *place,
                                                    const char *name, uint32_t *out);

#endif
