/* What the files of the leases share. */
#ifndef BY_SWITCH_LEASES_PARTS_H
#define BY_SWITCH_LEASES_PARTS_H

#include "cell_ranges.h"
#include "leases.h"
#include "neighbours.h"

/* Its place in the table is its group. */
struct lease {
  struct by_leases *leases;
  struct by_wish wish;
  char holder[BY_LEASE_HOLDER + 1];
  void *owner; /* NULL: gone */
  bool active; /* the data plane has it; else next hops are still looked for */
  struct by_range cells;
  struct by_granted granted;
  struct by_timer timer; /* without owner: until it lapses; not active: until it is given up */
};

struct by_leases {
  struct by_leases_options options;
  char interfaces[BY_FRAGMENT_PORTS][IF_NAMESIZE];
  unsigned indices[BY_FRAGMENT_PORTS];
  struct by_ranges cells;
  struct by_neighbours neighbours;
  struct by_timer timer; /* looks for neighbours */
  uint64_t looked;       /* at all of them */
  struct lease *table[BY_PLANE_GROUPS];
};

#endif
