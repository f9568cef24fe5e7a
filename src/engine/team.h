/* A team: what a communicator is to the executor. Its ranks, its plan, and
 * the numbers under which its calls are found. See engine.h. */
#ifndef BY_ENGINE_TEAM_H
#define BY_ENGINE_TEAM_H

#include <stdlib.h>
#include <sys/queue.h>

#include <banyan/collectives.h>

#include "call_times.h"
#include "history.h"
#include "log.h"
#include "plan.h"
#include "transfer.h"

enum { BY_PAST = 16 };

/* The runner: calls under way and those with steps to take. It knows the links, as part of it, but not why a call is
 * repeated or made for others. Starts as part of an engine, ends with it; as engine.h about threads. */
struct by_runner {
  struct by_transfer transfer; /* the first member: a link's transfer is its runner's */
  struct by_team *teams;
  LIST_HEAD(, by_call) running; /* not yet ended, newest first */
  uint32_t pending;
  STAILQ_HEAD(, by_call) ready; /* calls with work in their queue */
  const void **sources;         /* operands of one addition: as many as any schedule needs */
  uint32_t n_sources;
  size_t chunk;   /* most bytes of a frame; 0: the lane's limit */
  uint32_t *gone; /* numbers of teams that were destroyed: peers may still send for them */
  uint32_t n_gone, gone_capacity;
  bool logs;                   /* states of calls */
  struct by_call_times *times; /* NULL: calls are not timed */
};

/* The transfer has been initialised, and is finished before. */
static inline void by_runner_init(struct by_runner *runner, size_t chunk) {
  runner->chunk = chunk;
  runner->logs = by_log_wanted(BY_LOG_DEBUG, "executor");
  STAILQ_INIT(&runner->ready);
}

static inline void by_runner_fini(struct by_runner *runner) {
  free(runner->sources);
  free(runner->gone);
}

static inline struct by_runner *by_runner_of(const struct by_transfer *transfer) {
  return (struct by_runner *)(uintptr_t)transfer;
}

/* Which processes are at a plan's vertices, and at which of them this one is. */
struct by_vertices {
  uint32_t *processes; /* UINT32_MAX: none */
  uint32_t self;
  size_t chunk;   /* of the plan: most bytes of a frame, 0: as the engine's */
  uint32_t trees; /* the version of the plan's in-network trees */
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
  struct by_frame past[BY_PAST];   /* descriptors of the calls that ended last, by number % BY_PAST; for errors */
  struct by_history failed;        /* calls that the end of the engine interrupted */
  struct by_pair *pairs;           /* send/recv counters by (peer, tag, direction) */
  LIST_HEAD(, by_call) pair_calls; /* running */
  struct by_last {
    struct by_program *program;  /* NULL: nothing is known */
    struct banyan_call call;     /* all but its buffers and deadline */
    size_t total;                /* elements */
    uint64_t kind;               /* grows whenever a call is not like the one before it */
  } last;                        /* checked and looked up: most calls repeat the one before them */
  struct by_team_recovery {      /* executor/recovery's, which alone changes it */
    struct by_helped *helped;    /* newest first; the plan's own, where it has helpers, is the first */
    bool relayed;                /* has or had a plan with helpers */
    LIST_HEAD(, by_call) relays; /* of a helper: calls under way */
    uint64_t *relayed_past;      /* those that ended last: number and version; NULL: not a helper's */
  } recovery;
};

/* NULL: there is no team of this number. */
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
/* Room for so many processes in all teams. */
BANYAN_CHECK enum banyan_status by_teams_grow(struct by_runner *runner, uint32_t processes);
/* Whether it was destroyed here, though peers may not be through with it. */
bool by_team_is_gone(const struct by_runner *runner, uint32_t id);

/* Whether the call of this frame from this rank has ended here. */
bool by_team_is_past(const struct by_team *team, const struct by_frame *frame, uint32_t rank);
/* The counter of the sends to, or receives from, this peer under this tag; NULL: there were none. */
struct by_pair *by_team_find_pair(const struct by_team *team, uint32_t peer, uint32_t tag, bool sends);
/* The number of the next send to, or receive from, this peer under this tag, to be increased. */
BANYAN_CHECK enum banyan_status by_team_pair_number(struct by_team *team, const struct banyan_call *user,
                                                    uint32_t **out);
BANYAN_CHECK enum banyan_status by_team_grow_window(struct by_team *team);

/* The plan for later calls; takes it over, unless it is `borrowed`. */
void by_team_use_plan(struct by_team *team, struct by_plan *plan, bool borrowed);
/* The name of its plan, the one before, or a built-in plan, of this version; NULL: it is none of these. In static
 * storage, or as long as the team has that plan. `team` may be NULL. */
const char *by_team_name_plan(const struct by_team *team, uint32_t version);

#endif
