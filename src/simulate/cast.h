/* Who is simulated: one actor for each class of ranks that are alike (often
 * every rank for itself), their streams, and the network that these share. */
#ifndef BY_SIMULATE_CAST_H
#define BY_SIMULATE_CAST_H

#include "fair.h"
#include "ways.h"

/* Which ranks are alike: where all play one schedule, turned, and the network looks the same to several of them, they
 * do everything at the same time, and one of them stands for all. */
struct by_symmetry {
  uint32_t n_rank_classes, n_resource_classes;
  uint32_t *rank_class;     /* of each rank, numbered by their first members */
  uint32_t *resource_class; /* of each resource of the ways that a stream uses; UINT32_MAX: of others */
};

struct by_cast_stream {
  uint32_t actor, peer; /* the sender, and the index of the receiver in its schedule */
  uint32_t to_actor,
      to_peer;    /* the receiver, and the index of the sender in its schedule; BY_CAST_NONE: it sends nothing */
  double delay;   /* seconds */
  uint64_t frame; /* bytes that it sends of a message before it looks which is furthest behind */
};

struct by_cast {
  const struct by_roles *roles;
  uint32_t n_actors, n_streams;
  uint32_t *rank, *members; /* of each actor: the first rank of its class, how many there are */
  uint32_t *first_stream;   /* of each actor: its j-th peer's is first_stream[a] + j */
  struct by_cast_stream *streams;
  struct by_fair_net net; /* flows are the streams; resources the classes of resources, in bytes a second */
  struct by_symmetry symmetry;
  struct by_arena arena;
};

#define BY_CAST_NONE UINT32_MAX

/* The roles of `ways` must outlive it. */
BANYAN_CHECK enum banyan_status by_cast_init(struct by_cast *cast, const struct by_ways *ways);
void by_cast_fini(struct by_cast *cast);

#endif
