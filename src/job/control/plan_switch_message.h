/* Switching to another plan while calls go on: all ranks of a communicator change at the same call, and none waits
 * unless it gets there before the message that names it. As values, without I/O; control_plan_switches.c carries the
 * messages, plan_switch.c acts on them.
 *
 * Rank 0 of the job leads. Helpers that the plan names are asked by LINK to make the links that it needs, and answer
 * LINKED. PROPOSE brings the plan, and every rank answers PREPARED with how many calls it has started. FIX names a call
 * that no rank should have reached; from then on a rank that gets there waits. FIXED reports again how many calls were
 * started: where a rank was faster, FIX names a later one. TAKE: that call, and those after it, use the plan. DROP:
 * there will be no switch.
 *
 * WANTED comes before all that: the first rank of a communicator asks rank 0 of the job, which knows the network, for a
 * plan. Nothing waits for it. */
#ifndef BY_JOB_CONTROL_PLAN_SWITCH_MESSAGE_H
#define BY_JOB_CONTROL_PLAN_SWITCH_MESSAGE_H

#include "bytes.h"
#include "plan.h"

enum by_plan_switch_kind {
  BY_PLAN_SWITCH_PROPOSE = 1, /* Carries the plan as JSON in `text`, the processes at its vertices behind the
                             ranks (UINT32_MAX: none), and `trees`. */
  BY_PLAN_SWITCH_FIX,         /* Carries `at`. */
  BY_PLAN_SWITCH_TAKE,
  BY_PLAN_SWITCH_DROP, /* Carries the reason as `text`. */
  BY_PLAN_SWITCH_LINK, /* processes: to these, of a helper */
  /* The kinds below are answers. */
  BY_PLAN_SWITCH_PREPARED, /* at: calls started; iteration. */
  BY_PLAN_SWITCH_FIXED,    /* at: calls started; iteration. */
  BY_PLAN_SWITCH_REFUSED,  /* Carries the reason as `text`. */
  BY_PLAN_SWITCH_NOT_YET,  /* There is no such communicator here, perhaps not yet; text, in other cases: why. */
  BY_PLAN_SWITCH_LINKED,
  BY_PLAN_SWITCH_WANTED /* No answer follows; processes: the members, by rank; none: the communicator needs no plan any
                           more. */
};

/* How a communicator's calls repeat, by its marks of iterations: one iteration began at call `began`, and each has
 * `period` calls. 0: unknown. */
struct by_iteration {
  uint64_t began, period;
};

struct by_plan_switch_message {
  enum by_plan_switch_kind kind;
  uint32_t comm;   /* The number of the communicator's team. */
  uint32_t number; /* Number of the plan switch; counts up. */
  uint64_t at;
  struct by_plan_origin origin; /* Origin of the plan in `text`. */
  uint32_t trees;               /* Version of its in-network trees, which are set up; 0: it has none here. */
  struct by_iteration iteration;
  const uint8_t
      *processes; /* Numbers of processes, u32 each in wire order, borrowed; see by_plan_switch_message_process. */
  size_t n_processes;
  const char *text; /* The text, `length` bytes without a NUL, borrowed. */
  size_t length;
  const struct by_plan *plan; /* At rank 0, the plan that `text` describes; not on the wire. NULL: elsewhere. */
};

void by_plan_switch_message_write(struct by_writer *writer, const struct by_plan_switch_message *message);
/* `text` and `processes` are borrowed from the bytes. */
BANYAN_CHECK enum banyan_status by_plan_switch_message_read(const void *bytes, size_t length,
                                                            struct by_plan_switch_message *out);
uint32_t by_plan_switch_message_process(const struct by_plan_switch_message *message, size_t i);

/* What the leader knows of a plan switch. */
struct by_agreement {
  uint32_t members, missing; /* Answers that are missing, of `members`. */
  uint64_t most, lead;       /* Most calls that a member has started; how many calls beyond them to look. */
  uint64_t at;
  struct by_iteration iteration; /* The iteration of all answers so far; period 0: they differ, or are unknown. */
  bool fixing, passed;           /* fixing: FIX was asked; passed: a member was faster. */
};

enum by_agreement_next { BY_AGREEMENT_WAITS, BY_AGREEMENT_FIX, BY_AGREEMENT_TAKE };

void by_agreement_init(struct by_agreement *agreement, uint32_t members);
/* Handles a member's PREPARED or FIXED; each member answers each question once. `lead`: calls that are usually started
 * while a question is answered; read when all have prepared. If calls are so rare that it is 0, no rank need start
 * another call for the switch. If all have the same iterations, the chosen call is the first one of an iteration. */
enum by_agreement_next by_agreement_handle(struct by_agreement *agreement, uint64_t started,
                                           const struct by_iteration *iteration, uint64_t lead);

/* A member's marks of where iterations begin, and what follows from them. */
struct by_marks {
  uint64_t at, calls; /* Calls at the last mark; calls of the iteration before it. */
  uint32_t n;         /* Number of marks, without those before the first call. */
  bool even;          /* The last two iterations had as many calls. */
};

/* Adds a mark: an iteration begins, after `started` calls. */
void by_marks_add(struct by_marks *marks, uint64_t started);
/* Returns the iteration. Period 0: iterations differ, or the last mark is too long ago. */
struct by_iteration by_marks_iteration(const struct by_marks *marks, uint64_t started);

/* What a member knows of a plan switch. */
struct by_plan_switch {
  enum { BY_PLAN_SWITCH_NONE, BY_PLAN_SWITCH_IS_PREPARED, BY_PLAN_SWITCH_IS_FIXED, BY_PLAN_SWITCH_IS_TAKEN } state;
  uint32_t number;
  uint64_t at;
};

enum by_plan_switch_next { BY_PLAN_SWITCH_GOES_ON, BY_PLAN_SWITCH_WAITS, BY_PLAN_SWITCH_CHANGES };

/* Prepares a plan switch. False: another one has been decided on, and its call has not come yet; the answer is
 * NOT_YET. */
bool by_plan_switch_prepare(struct by_plan_switch *plan_switch, uint32_t number);
/* False, for the next three functions: the message is about another plan switch, or is invalid. The answer to FIX is
 * NOT_YET then; the others have none. */
bool by_plan_switch_fix(struct by_plan_switch *plan_switch, uint32_t number, uint64_t at);
bool by_plan_switch_take(struct by_plan_switch *plan_switch, uint32_t number);
bool by_plan_switch_drop(struct by_plan_switch *plan_switch, uint32_t number);
/* Decides, after TAKE and before each call, about a call that is started now, after `started` others. CHANGES: the plan
 * is to be set first, and by_plan_switch_end called. */
enum by_plan_switch_next by_plan_switch_next(const struct by_plan_switch *plan_switch, uint64_t started);
void by_plan_switch_end(struct by_plan_switch *plan_switch);

/* The progress of a communicator with its plan switches. */
struct by_plan_switches_view {
  uint64_t started;                /* Calls that have started. */
  uint32_t last;                   /* The plan switch decided on last; 0: none, or a plan was set by hand since. */
  bool taken;                      /* The call of that switch has not come. */
  uint32_t used;                   /* Plans that have come into use. */
  bool operations;                 /* In-network trees of the next plan serve submitted operations, not direct calls. */
  bool supplied;                   /* The user supplied the plan in use. */
  char plan[BY_PLAN_MAX_NAME + 1]; /* The name of the plan in use; "": there is no such communicator. */
  uint32_t version;                /* Version of the plan in use. */
};

/* Is notified of the result of a plan switch: `why` NULL: all ranks use the plan from call `at` on; else why the plan
 * in use stays. */
struct by_plan_switch_observer {
  void (*notified)(void *context, uint64_t at, const char *why);
  void *context;
};

#endif
