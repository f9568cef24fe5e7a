#include "neighbours.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct by_neighbour {
  uint32_t port, address;
  uint32_t wanted; /* times */
  bool known;
  bool named; /* to the plane, as this: */
  uint8_t hardware[6], told[6];
};

enum banyan_status by_neighbours_init(struct by_neighbours *neighbours, const struct by_plane *plane,
                                      const unsigned *interfaces, uint32_t most) {
  *neighbours = (struct by_neighbours){.plane = plane, .interfaces = interfaces, .most = most};
  if (!(neighbours->all = calloc(most, sizeof *neighbours->all)))
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
  return plane->ops->needs_neighbours ? by_netlink_open(&neighbours->netlink) : BANYAN_OK;
}

void by_neighbours_fini(struct by_neighbours *neighbours) {
  by_netlink_close(&neighbours->netlink);
  free(neighbours->all);
}

static struct by_neighbour *find(const struct by_neighbours *neighbours, uint32_t port, uint32_t address) {
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (neighbours->all[i].port == port && neighbours->all[i].address == address) return &neighbours->all[i];
  return NULL;
}

/* ---- what the plane is told of a port */

static enum banyan_status tell(const struct by_neighbours *neighbours, uint32_t port, uint32_t address,
                               const uint8_t *hardware) {
  return neighbours->plane->ops->set_neighbour(neighbours->plane->self, port, address, hardware);
}

static const struct by_neighbour *first_known(const struct by_neighbours *neighbours, uint32_t port) {
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (neighbours->all[i].port == port && neighbours->all[i].known) return &neighbours->all[i];
  return NULL;
}

static enum banyan_status name(const struct by_neighbours *neighbours, struct by_neighbour *neighbour) {
  if (neighbour->named && !memcmp(neighbour->told, neighbour->hardware, 6)) return BANYAN_OK;
  BY_TRY(tell(neighbours, neighbour->port, neighbour->address, neighbour->hardware));
  memcpy(neighbour->told, neighbour->hardware, 6);
  neighbour->named = true;
  return BANYAN_OK;
}

static enum banyan_status set_other(struct by_neighbours *neighbours, uint32_t port, const uint8_t *hardware) {
  if (neighbours->has_other[port] == (hardware != NULL) && (!hardware || !memcmp(neighbours->other[port], hardware, 6)))
    return BANYAN_OK;
  BY_TRY(tell(neighbours, port, 0, hardware));
  neighbours->has_other[port] = hardware != NULL;
  if (hardware) memcpy(neighbours->other[port], hardware, 6);
  return BANYAN_OK;
}

/* Names come first, so that nothing goes to the wrong one meanwhile. */
static enum banyan_status settle(struct by_neighbours *neighbours, uint32_t port) {
  const struct by_neighbour *first = first_known(neighbours, port);
  uint8_t other[6];
  if (!first) return set_other(neighbours, port, NULL);
  memcpy(other, first->hardware, 6);
  for (uint32_t i = 0; i < neighbours->n; i++) {
    struct by_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port == port && neighbour->known && memcmp(neighbour->hardware, other, 6))
      BY_TRY(name(neighbours, neighbour));
  }
  BY_TRY(set_other(neighbours, port, other));
  for (uint32_t i = 0; i < neighbours->n; i++) {
    struct by_neighbour *neighbour = &neighbours->all[i];
    if (neighbour->port != port || !neighbour->named || memcmp(neighbour->hardware, other, 6)) continue;
    BY_TRY(tell(neighbours, port, neighbour->address, NULL));
    neighbour->named = false;
  }
  return BANYAN_OK;
}

/* ---- what is wanted */

void by_neighbours_add(struct by_neighbours *neighbours, uint32_t port, uint32_t address) {
  struct by_neighbour *neighbour = find(neighbours, port, address);
  assert(neighbour || neighbours->n < neighbours->most);
  if (!neighbour) {
    neighbour = &neighbours->all[neighbours->n++];
    *neighbour = (struct by_neighbour){.port = port, .address = address};
  }
  neighbour->wanted++;
}

void by_neighbours_drop(struct by_neighbours *neighbours, uint32_t port, uint32_t address) {
  struct by_neighbour *neighbour = find(neighbours, port, address);
  if (!neighbour || --neighbour->wanted) return;
  if (neighbour->named) (void)tell(neighbours, port, address, NULL);
  *neighbour = neighbours->all[--neighbours->n];
  if (neighbours->plane->ops->needs_neighbours) (void)settle(neighbours, port);
}

bool by_neighbours_know(const struct by_neighbours *neighbours, uint32_t port, uint32_t address, uint8_t hardware[6]) {
  const struct by_neighbour *neighbour = find(neighbours, port, address);
  memset(hardware, 0, 6);
  if (!neighbours->plane->ops->needs_neighbours) return true;
  if (!neighbour || !neighbour->known) return false;
  memcpy(hardware, neighbour->hardware, 6);
  return true;
}

static enum banyan_status look_up(struct by_neighbours *neighbours, struct by_neighbour *neighbour, bool *changed) {
  uint8_t hardware[6];
  bool found;
  BY_TRY(by_next_hop_find(&neighbours->netlink, neighbours->interfaces[neighbour->port], neighbour->address, hardware,
                          &found));
  /* One that does not answer may be back in a moment: it is kept. */
  if (!found || (neighbour->known && !memcmp(neighbour->hardware, hardware, 6))) return BANYAN_OK;
  memcpy(neighbour->hardware, hardware, 6);
  neighbour->known = *changed = true;
  return settle(neighbours, neighbour->port);
}

enum banyan_status by_neighbours_refresh(struct by_neighbours *neighbours, bool all, bool *changed) {
  enum banyan_status status = BANYAN_OK;
  *changed = false;
  if (!neighbours->plane->ops->needs_neighbours) return BANYAN_OK;
  for (uint32_t i = 0; i < neighbours->n; i++) {
    if (!all && neighbours->all[i].known) continue;
    enum banyan_status here = look_up(neighbours, &neighbours->all[i], changed);
    if (here != BANYAN_OK) status = here;
  }
  return status;
}
