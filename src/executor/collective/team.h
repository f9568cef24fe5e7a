/* A domain: what a communicator is to the executor. Its ranks, its plan, and
 * the numbers under which its calls are found. See engine.h. */
#ifndef BY_EXECUTOR_TEAM_H
#define BY_EXECUTOR_TEAM_H

#include <banyan/collectives.h>

#include "plan.h"
#include "runner.h"

enum { BY_PAST = 16 };

/* Which processes are at a plan's vertices, and at which of them this one is. */
struct by_vertices {
  uint32_t *processes; /* UINT32_MAX: nobody */
  uint32_t self;
  size_t chunk; /* of the plan: most bytes of a frame, 0: as the engine's */
};

/* Numbers send/recv pairs. */
struct by_pair {
  struct by_pair *next;
  uint32_t peer, tag, number;
  bool sends;
};

struct by_team {
  struct by_team *next;
  struct by_runner *runner;
  uint32_t id, n;
  struct by_vertices vertices; /* its ranks */
  uint32_t *rank_of;           /* process -> rank, or UINT32_MAX */
  struct by_plan *plan;
  bool plan_is_borrowed;
  struct by_past_plan { /* the one before it; for errors */
    uint32_t version;   /* 0: there was none */
    char name[65];      /* cut */
  } before;
  struct by_program *programs;
  uint32_t next_call;
  struct by_call **window; /* running calls by number & (window_size - 1) */
  uint32_t window_size;
  struct by_frame past[BY_PAST]; /* descriptors of the calls that ended last, by number % BY_PAST; for errors */
  struct by_pair *pairs;         /* send/recv counters by (peer, tag, direction) */
  struct by_call *pair_calls;    /* running, by listed_next */
  struct by_last {
    struct by_program *program; /* NULL: nothing is known */
    struct banyan_call call;    /* all but its buffers and deadline */
    size_t total;               /* elements */
    uint64_t kind;              /* grows whenever a call is not like the one before it */
  } last;                       /* checked and looked up: most calls repeat the one before them */
  struct by_team_recovery {     /* executor/recovery's, which alone changes it */
    struct by_helped *helped;   /* newest first; the plan's own, where it has helpers, is the first */
    bool relayed;               /* has or had a plan with helpers */
    struct by_call *relays;     /* of a helper: calls under way, by listed_next */
    uint64_t *relayed_past;     /* those that ended last: number and version; NULL: not a helper's */
  } recovery;
};

/* NULL: there is no domain of this number. */
static inline struct by_team *by_team_of(const struct by_runner *runner, uint32_t id) {
  struct by_team *d = runner->teams;
  while (d && d->id != id) d = d->next;
  return d;
}

/* See by_team_create. */
BANYAN_CHECK enum banyan_status by_team_make(struct by_runner *runner, uint32_t id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct by_team **out);
/* Its calls have ended, and it has no programs. */
void by_team_free(struct by_team *team);
/* Room for so many processes in all domains. */
BANYAN_CHECK enum banyan_status by_teams_grow(struct by_runner *runner, uint32_t processes);
/* Whether it was destroyed here, though peers may not be through with it. */
bool by_team_is_gone(const struct by_runner *runner, uint32_t id);

/* Whether the call of this frame from this rank has ended here. */
bool by_team_is_past(const struct by_team *team, const struct by_frame *frame, uint32_t rank);
/* The number of the next send to, or receive from, this peer under this tag, to be increased. */
BANYAN_CHECK enum banyan_status by_team_pair_number(struct by_team *team, const struct banyan_call *user,
                                                    uint32_t **out);
BANYAN_CHECK enum banyan_status by_team_grow_window(struct by_team *team);

/* The plan for later calls; takes it over, unless it is `borrowed`. */
void by_team_use_plan(struct by_team *team, struct by_plan *plan, bool borrowed);
/* The name of its plan, the one before, or a built-in plan, of this version; NULL: it is none of these. In static
 * storage, or as long as the domain has that plan. `domain` may be NULL. */
const char *by_team_name_plan(const struct by_team *team, uint32_t version);

#endif
