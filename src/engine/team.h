/* A team: the executor's side of a communicator: its ranks, its plan, and the numbers under which its calls are
 * found. See engine.h. */
#ifndef BY_ENGINE_TEAM_H
#define BY_ENGINE_TEAM_H

#include <stdlib.h>
#include <sys/queue.h>

#include <banyan/collectives.h>

#include "history.h"
#include "log.h"
#include "plan.h"
#include "transfer.h"

enum { BY_PAST = 16 };

/* The runner: running calls and those with steps to advance. It knows the links, but not why a call is repeated or
 * made for others. It starts and ends as part of an engine; for threads see engine.h. */
struct by_runner {
  struct by_transfer transfer; /* Must be the first member: a link's transfer is its runner's. */
  struct by_team *teams;
  LIST_HEAD(, by_call) running; /* Calls that have not ended, newest first. */
  STAILQ_HEAD(, by_call) ready; /* Calls with steps in their queue. */
  const void **sources;         /* Operands of one addition, as many as any schedule needs. */
  uint32_t n_sources;
  size_t chunk;                /* The maximum of bytes in a frame; 0: the lane's limit. */
  uint32_t gone_capacity;      /* The capacity of transfer.state.destroyed. */
  bool logs;                   /* States of calls are logged. */
  struct by_call_times *times; /* NULL: calls are not timed. */
};

/* Initialises a runner whose transfer is initialised already. */
static inline void by_runner_init(struct by_runner *runner, size_t chunk) {
  runner->chunk = chunk;
  runner->logs = by_log_wanted(BY_LOG_DEBUG, "executor");
  STAILQ_INIT(&runner->ready);
}

static inline void by_runner_fini(struct by_runner *runner) {
  free(runner->sources);
  free(runner->transfer.state.destroyed);
}

static inline struct by_runner *by_runner_of(const struct by_transfer *transfer) {
  return (struct by_runner *)(uintptr_t)transfer;
}

/* The processes at a plan's vertices. */
struct by_vertices {
  uint32_t *processes; /* By vertex; UINT32_MAX: none. */
  uint32_t self;
  size_t chunk;   /* The plan's maximum of bytes in a frame; 0: the engine's. */
  uint32_t trees; /* The version of the plan's in-network trees. */
};

/* Counts the sends to, or the receives from, a peer under a tag. */
struct by_pair {
  struct by_pair *next;
  uint32_t peer, tag, number;
  bool sends;
};

struct by_team {
  struct by_team *next;
  struct by_runner *runner;
  uint32_t id, n;
  struct by_vertices vertices; /* Its ranks. */
  uint32_t *rank_of;           /* By process; UINT32_MAX: not a member. */
  struct by_plan *plan;
  bool plan_is_borrowed;
  struct by_past_plan { /* The plan before this one, for errors. */
    uint32_t version;   /* 0: there was none. */
    char name[65];      /* The name, cut to this size. */
  } before;
  struct by_program *programs;
  uint32_t next_call;
  struct by_call **window; /* Running calls by number & (window_size - 1). */
  uint32_t window_size;
  struct by_frame past[BY_PAST];   /* Descriptors of the calls that ended last, by number % BY_PAST, for errors. */
  struct by_history failed;        /* Calls that failed with the engine. */
  struct by_pair *pairs;           /* Counters by peer, tag and direction. */
  LIST_HEAD(, by_call) pair_calls; /* Running sends and receives. */
  struct by_last {
    struct by_program *program;  /* NULL: nothing is known. */
    struct banyan_call call;     /* All members but its buffers and deadline are used. */
    size_t total;                /* Elements. */
    uint64_t kind;               /* Grows whenever a call differs from the one before it. */
  } last;                        /* The last call that was checked; most calls repeat the one before them. */
  struct by_team_recovery {      /* Owned by recovery, which alone changes it. */
    struct by_helped *helped;    /* Newest first. The current plan's is the first, if that plan has helpers. */
    bool relayed;                /* The team has or had a plan with helpers. */
    LIST_HEAD(, by_call) relays; /* At a helper: running calls. */
    uint64_t *relayed_past;      /* At a helper: number and version of the calls that ended last; NULL at a rank. */
  } recovery;
};

/* The team of this id; NULL: there is none. */
static inline struct by_team *by_team_of(const struct by_runner *runner, uint32_t id) {
  struct by_team *d = runner->teams;
  while (d && d->id != id) d = d->next;
  return d;
}

/* See by_team_create. */
BANYAN_CHECK enum banyan_status by_team_make(struct by_runner *runner, uint32_t id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct by_team **out);
/* Frees a team whose calls have ended and that has no programs. */
void by_team_free(struct by_team *team);
/* Makes room for so many processes in all teams. */
BANYAN_CHECK enum banyan_status by_teams_grow(struct by_runner *runner, uint32_t processes);
/* Whether the team was destroyed here. Peers may still send for it. */
bool by_team_is_gone(const struct by_runner *runner, uint32_t id);

/* Whether the call of this frame, which came from this rank, has ended here. */
bool by_team_is_past(const struct by_team *team, const struct by_frame *frame, uint32_t rank);
/* The counter of the sends to, or receives from, this peer under this tag; NULL: there were none. */
struct by_pair *by_team_find_pair(const struct by_team *team, uint32_t peer, uint32_t tag, bool sends);
/* The number of the next send to, or receive from, this peer under this tag, which the caller increases. */
BANYAN_CHECK enum banyan_status by_team_pair_number(struct by_team *team, const struct banyan_call *user,
                                                    uint32_t **out);
BANYAN_CHECK enum banyan_status by_team_grow_window(struct by_team *team);

/* Sets the plan of later calls. The team owns it unless it is `borrowed`. */
void by_team_use_plan(struct by_team *team, struct by_plan *plan, bool borrowed);
/* The name of the team's plan, the one before, or a built-in plan, of this version; NULL: none has it. The string is
 * static, or valid as long as the team has that plan. `team` may be NULL. */
const char *by_team_name_plan(const struct by_team *team, uint32_t version);

#endif
