/* Programs: compiled schedules, found again for every call of the same kind,
 * with their peers' links and the call objects that have run before. */
#ifndef BY_ENGINE_PROGRAM_H
#define BY_ENGINE_PROGRAM_H

#include "call.h"

struct by_program {
  struct by_program *next;
  struct by_team *team;
  const struct by_vertices *vertices; /* The vertices of the team, or of a plan with helpers. */
  const struct by_class *class_;
  uint32_t part; /* The part of the class (BY_PART_ALL, ...). */
  struct by_schedule *schedule;
  struct by_transfer_link **links; /* The links to the schedule's peers. */
  LIST_HEAD(, by_call) idle;       /* Calls that can be used again. */
  struct by_call *all;             /* All calls that were made for this program. */
  uint32_t running;                /* The number of calls in use. */
  uint32_t *out_of_step;           /* For each step, the index into a call's outs. */
  uint32_t *first_out;       /* For each peer, its first message in a call's outs, which are ordered by peer and tag. */
  uint32_t n_outs, n_staged; /* n_staged: messages to be added, each of which may need a ring. */
  bool in_network;           /* Some link goes through switches. */
  bool fallback;             /* Runs among ranks although its plan's class has in-network trees. */
  bool retired;              /* Its plan was replaced. The program is freed with its last call. */
  struct by_arena arena;     /* Holds the lists above. */
};

/* The program of a part of a plan's class (BY_PART_ALL, ...), whose messages have this version. */
BANYAN_CHECK enum banyan_status by_program_get(struct by_team *team, const struct by_vertices *vertices,
                                               const struct by_plan *plan, const struct by_class *class_, uint32_t part,
                                               uint32_t version, enum banyan_collective collective, uint32_t root,
                                               struct by_program **out);
/* The program of one message to or from one peer. */
BANYAN_CHECK enum banyan_status by_program_get_pair(struct by_team *team, bool sends, uint32_t peer,
                                                    struct by_program **out);
/* Retires the programs of the plan with these vertices (NULL: of all plans): later calls do not use them. */
void by_programs_retire(struct by_team *team, const struct by_vertices *vertices);
/* Destroys the programs of a team, all of whose calls have ended. */
void by_programs_destroy(struct by_team *team);
BANYAN_CHECK enum banyan_status by_program_take_call(struct by_program *program, struct by_call **out);
void by_program_give_call(struct by_call *call);
/* The peer of the schedule at this link; NULL: there is none. */
const struct by_peer *by_program_peer(const struct by_program *program, const struct by_transfer_link *link);

#endif
