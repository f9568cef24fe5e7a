/* Processes in memory that change their membership: their machines of paxos.h, a network with delays, losses,
 * duplicates and blocked directions, detectors of failures, and the meeting in which all members of a membership find
 * each other. Time is virtual, in ms. After each step the world checks what must never happen:
 *
 *   - two successors of one membership are decided: by majority never, and with proofs of death only if a majority was
 *     dead before, with all members that knew one of the two
 *   - two memberships have the same number, or one has two secrets
 *   - a process takes a membership that it is not in, or a second successor of one that it was in
 *   - two groups, all of whose members are alive and have met, exist at the same time */
#ifndef BY_TESTS_SIM_MEMBERSHIP_WORLD_H
#define BY_TESTS_SIM_MEMBERSHIP_WORLD_H

#include "order.h"
#include "paxos.h"
#include "rng.h"

enum { KEPT_MACHINES = 5 };

/* A membership that was decided, or the first one. */
struct group {
  struct by_membership *membership;
  struct group *before;
  uint8_t *bytes; /* the successor as it was decided */
  size_t length;
  uint32_t *processes; /* of the members, by rank */
  uint32_t n_met;
  uint8_t *met;    /* members whose message has reached the first one */
  bool formed;     /* all of them */
  double began;    /* when the first process took it */
  bool is_decided; /* by a process that lives, or that has died since */
};

struct machine {
  struct group *group;
  struct by_paxos *paxos;
  uint32_t process, self;
  uint32_t timer; /* number of the timer that is set; timers with others are forgotten */
  struct group *taken;
  bool knows_formed;
};

struct process {
  struct by_fingerprint fingerprint;
  bool exists, alive, ended, newcomer;
  bool proven; /* once dead: a launcher knows, and tells the others within a time */
  double died;
  uint32_t asks; /* of a newcomer */
  uint32_t n_machines;
  struct machine *machines[KEPT_MACHINES]; /* the newest first */
};

enum event_kind { MESSAGE, WELCOME, MEET, MET, TIMER, TICK, JOIN, FAULT };

struct event {
  enum event_kind kind;
  uint32_t from, to; /* processes */
  uint64_t number;   /* of a membership */
  uint32_t timer;
  uint8_t *bytes;
  size_t length;
};

struct world {
  uint64_t seed;
  struct by_rng rng;
  enum by_quorum_rule rule;
  double now;
  struct process *processes;
  uint32_t n, room;
  struct group **groups;
  uint32_t n_groups;
  struct event *events;
  uint32_t *free_events;
  uint32_t n_events, n_free, room_events;
  struct by_heap heap;
  /* The network. */
  double slow, loss, twice; /* chances of a long delay, of a loss and of a duplicate */
  uint8_t *blocked;         /* [from * room + to] */
  double *blocked_since;
  bool detects;             /* processes notice silent and dead ones */
  uint64_t sends, crash_at; /* the process that sends message number crash_at dies in the midst of it */
  double crash_proven;      /* chance that a launcher sees a death */
  double cut_decider;       /* chance that the first to know a decision is cut off or dies before it notifies others */
  uint32_t last_to_die;     /* after the first decision, all processes up to this one die; 0: none */
  /* What happened. */
  uint64_t delivered;
  uint32_t decisions, formed, ended, extinct, welcomed;
  struct by_fingerprint *gone;
  uint32_t n_gone;
  void (*fault)(struct world *world); /* what happens at an event FAULT */
  void *context;
};

/* A world of n processes in a first membership that has met, with room for so many processes in all. */
struct world *make_world(uint64_t seed, uint32_t n, uint32_t room, enum by_quorum_rule rule);
void free_world(struct world *world);
/* A process that asks random members to let it join until one does. Returns its number; UINT32_MAX: no room. */
uint32_t add_newcomer(struct world *world);
void kill_process(struct world *world, uint32_t process, bool proven);
void leave(struct world *world, uint32_t process);
void block(struct world *world, uint32_t from, uint32_t to, bool blocked);
void heal(struct world *world);
void add_fault(struct world *world, double delay);
/* Runs until `until`. */
void run_world(struct world *world, double until);
/* The newest machine of a process; NULL if it has none. */
struct machine *newest(const struct world *world, uint32_t process);
/* Whether all members of the group are alive, have met, and have not moved on. */
bool is_active(const struct world *world, const struct group *group);
/* Whether every live process has ended or is in an active group; prints those that are not. */
bool is_calm(const struct world *world);
bool chance(struct world *world, double of);
uint32_t pick(struct world *world, uint32_t n);

#endif
