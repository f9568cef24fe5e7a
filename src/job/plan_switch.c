/* Submitted operations run in a communicator of their own, the inner one, and start in the order of their root's log.
 * The log also determines the inner communicator's plan: the root notes the number of a plan switch once that is
 * decided on, and operations behind the note use the new plan. Ranks may be late in making the inner communicator and
 * in reading the log, so each keeps the plans of the last plan switches. A rank that reads the log cannot prepare a
 * plan switch before it has read the notes of all but the last few, and so no rank can. A rank without an inner
 * communicator reads the log only once it submits something: what starts then is behind what the root has noted by now,
 * which is all but those few. Each rank also keeps the plan before all of them, because the outer communicator switches
 * without the log. */
#include "plan_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "feature.h"
#include "job_state.h"
#include "log.h"
#include "plans.h"

enum {
  KEPT = sizeof((struct by_plan_changes *)0)->kept / sizeof(struct by_kept_plan),
  AHEAD = 3, /* The maximum of plan switches whose notes a reader of the log has not reached. */
  DECIDED = AHEAD +
            1, /* The number of decided plan switches that other ranks may need: the last one noted, and AHEAD more. */
};
_Static_assert(KEPT == DECIDED + 1, "and one that is not decided on yet");

static struct by_kept_plan *find_kept(struct banyan_comm *comm, uint32_t number) {
  for (uint32_t i = 0; i < comm->plans.n_kept; i++)
    if (comm->plans.kept[i].number == number) return &comm->plans.kept[i];
  return NULL;
}

/* In-network trees that a kept plan was to use are over. */
static void drop_trees(struct banyan_comm *comm, struct by_kept_plan *kept) {
  if (kept->trees) by_features_trees(comm->job)->drop(comm->job, kept->trees);
  kept->trees = 0;
}

static void remove_kept(struct banyan_comm *comm, struct by_kept_plan *kept) {
  drop_trees(comm, kept);
  by_plan_destroy(kept->plan);
  comm->plans.n_kept--;
  memmove(kept, kept + 1, (size_t)(&comm->plans.kept[comm->plans.n_kept] - kept) * sizeof *kept);
}

static struct banyan_comm *inner_of(const struct banyan_comm *comm) {
  return comm->plans.log ? comm->plans.log->inner : NULL;
}

bool by_plan_switches_keep(struct banyan_comm *comm, const struct by_kept_plan *kept) {
  bool reads = inner_of(comm) || (comm->plans.log && comm->plans.log->root);
  uint32_t ahead = 0;
  for (uint32_t i = 0; i < comm->plans.n_kept; i++) ahead += comm->plans.kept[i].number > comm->plans.noted;
  if (comm->plans.n_kept == KEPT || (reads && ahead >= AHEAD)) return false;
  comm->plans.kept[comm->plans.n_kept++] = *kept;
  return true;
}

/* Rank 0 ends its trees, or proposes them again. */
void by_plan_switches_let_go(struct banyan_comm *comm, uint32_t number) {
  struct by_kept_plan *kept = find_kept(comm, number);
  if (!kept) return;
  kept->trees = 0;
  remove_kept(comm, kept);
}

static void forget(struct by_kept_plan *kept) {
  by_plan_destroy(kept->plan);
  *kept = (struct by_kept_plan){0};
}

void by_plan_switches_forget(struct banyan_comm *comm) {
  by_plan_wanted_end(comm);
  drop_trees(comm, &comm->plans.next);
  forget(&comm->plans.next);
  while (comm->plans.n_kept) remove_kept(comm, &comm->plans.kept[0]);
  forget(&comm->plans.before);
}

static bool is_under_way(const struct banyan_comm *comm, uint32_t number) {
  return comm->plans.plan_switch.state != BY_PLAN_SWITCH_NONE && comm->plans.plan_switch.number == number;
}

/* The same plan once more; with helpers it is a copy, since they are in the plan's arena. */
static enum banyan_status hold(const struct by_plan *plan, const uint32_t *helpers, struct by_kept_plan *out) {
  struct by_plan *copy = NULL;
  *out = (struct by_kept_plan){0};
  if (!helpers) {
    out->plan = by_plan_hold(plan);
    return BANYAN_OK;
  }
  BY_TRY(by_plan_copy(plan, &copy));
  out->plan = copy;
  uint32_t n = copy->n_vertices - copy->n_ranks;
  out->helpers = BY_ARENA_ARRAY(&copy->arena, uint32_t, n);
  if (out->helpers) memcpy(out->helpers, helpers, n * sizeof *helpers);
  if (out->helpers) return BANYAN_OK;
  by_plan_destroy(copy);
  *out = (struct by_kept_plan){0};
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
}

/* ---- the note, at the log's root */

static uint64_t count_submitted(const struct banyan_comm *comm) {
  return comm->plans.log->count(comm->plans.log->submitter);
}

static void announce(struct banyan_comm *comm) {
  comm->plans.announces = false;
  comm->plans.log->note(comm->plans.log->submitter, comm->plans.decided);
}

/* If this rank is the log's root, it notes the last plan switch that was decided on. Between two marks an iteration is
 * in progress: then it does so when the next one begins. */
static void announce_when_due(struct banyan_comm *comm) {
  struct by_plan_changes *p = &comm->plans;
  if (!p->log || !p->log->root || !p->decided) return;
  p->announces = p->each && count_submitted(comm) > p->marked;
  if (!p->announces) announce(comm);
}

void by_plan_switches_attach_log(struct banyan_comm *comm, const struct by_submit_log *log) {
  comm->plans.log = log;
  announce_when_due(comm);
}

void by_plan_switches_move_log(struct banyan_comm *comm) {
  comm->plans.announces = false;
  if (comm->plans.decided > comm->plans.noted) announce_when_due(comm);
}

void by_plan_switches_decided(struct banyan_comm *comm, uint32_t number) {
  comm->plans.decided = number;
  while (comm->plans.n_kept > DECIDED && !inner_of(comm)) remove_kept(comm, &comm->plans.kept[0]);
  announce_when_due(comm);
}

/* No mark has come for twice as long as usual: perhaps none comes any more. */
void by_plan_switches_submitted(struct banyan_comm *comm) {
  struct by_plan_changes *p = &comm->plans;
  if (p->wanted == BY_PLAN_WANTED_AT_FIRST_CALL) by_plan_wanted_ask(comm);
  if (p->announces && count_submitted(comm) - p->marked > 2 * p->each) announce(comm);
}

static void mark(struct banyan_comm *comm) {
  struct by_plan_changes *p = &comm->plans;
  by_marks_add(&p->marks, p->started);
  if (!p->log) return;
  uint64_t submitted = count_submitted(comm);
  if (submitted > p->marked) p->each = submitted - p->marked;
  p->marked = submitted;
  if (p->announces) announce(comm);
}

/* Of the rank, so of all its communicators. */
void by_plan_switches_mark(struct by_job *job) {
  for (struct banyan_comm *comm = job->comms; comm; comm = comm->next)
    if (!comm->hidden) mark(comm);
}

/* ---- what is noted */

static bool take_kept(struct banyan_comm *comm, struct by_kept_plan *out) {
  struct by_kept_plan *kept = find_kept(comm, comm->plans.noted);
  if (!kept) return false;
  if (is_under_way(comm, kept->number) && by_plans_is_pinned(by_team_plan(comm->team), kept->plan)) {
    /* If the user withdraws that plan first, set_inner takes the plan of this switch from plans.next. */
    remove_kept(comm, kept);
    return false;
  }
  *out = *kept;
  kept->plan = NULL;
  kept->trees = 0;
  remove_kept(comm, kept);
  return true;
}

/* The one way in which a communicator comes to another plan. Takes it over. */
static enum banyan_status use(struct banyan_comm *comm, const struct by_kept_plan *kept) {
  comm->plans.used++;
  comm->plans.since = comm->plans.started;
  comm->plans.operations = 0;
  comm->plans.asked = false;
  if (by_team_id(comm->team) == 0) by_plans_choose(comm->job, kept->plan);
  BY_TRY(by_plans_set(comm->job, comm->team, comm->size, comm->processes, kept->plan, kept->helpers, kept->trees));
  if (comm->plans.log) comm->plans.log->plan_changed(comm->plans.log->submitter);
  return BANYAN_OK;
}

enum banyan_status by_plan_switches_set_first_inner(struct banyan_comm *comm, struct banyan_comm *inner) {
  struct by_kept_plan kept = {0};
  if (!take_kept(comm, &kept)) {
    kept = comm->plans.before;
    comm->plans.before.plan = NULL;
    if (!kept.plan) BY_TRY(hold(by_team_plan(comm->team), by_team_helpers(comm->team), &kept));
  }
  forget(&comm->plans.before);
  return use(inner, &kept);
}

/* Without an inner communicator the plan waits for that. Those before it are of no use any more. */
enum banyan_status by_plan_switches_noted(struct banyan_comm *comm, uint32_t number) {
  struct banyan_comm *inner = inner_of(comm);
  struct by_kept_plan kept;
  comm->plans.noted = number;
  while (comm->plans.n_kept && comm->plans.kept[0].number != number && find_kept(comm, number))
    remove_kept(comm, &comm->plans.kept[0]);
  /* If it has none, it was made under this plan, or keeps the user's. */
  return inner && take_kept(comm, &kept) ? use(inner, &kept) : BANYAN_OK;
}

/* ---- changing */

static enum banyan_status use_next(struct banyan_comm *comm) {
  struct by_kept_plan next = comm->plans.next;
  comm->plans.next = (struct by_kept_plan){0};
  by_plan_switch_end(&comm->plans.plan_switch);
  /* A plan that was made comes behind one that the user has set meanwhile, at the same place on all ranks: all keep
   * that. */
  if (by_plans_is_pinned(by_team_plan(comm->team), next.plan)) {
    by_info("plan", "plan '%s' is not used: the user has set plan '%s'", next.plan->name,
            by_team_plan(comm->team)->name);
    drop_trees(comm, &next);
    struct by_kept_plan *submitted = find_kept(comm, next.number);
    if (submitted) remove_kept(comm, submitted);
    if (comm->plans.decided == next.number) comm->plans.decided = 0;
    if (!comm->plans.decided) comm->plans.announces = false;
    by_plan_destroy(next.plan);
    return BANYAN_OK;
  }
  /* Keeps the plan that is in use for operations that may start before the note. */
  enum banyan_status status = BANYAN_OK;
  if (!comm->hidden && !inner_of(comm) && !comm->plans.before.plan && !find_kept(comm, comm->plans.noted))
    status = hold(by_team_plan(comm->team), by_team_helpers(comm->team), &comm->plans.before);
  if (status != BANYAN_OK) {
    by_plan_destroy(next.plan);
    return status;
  }
  BY_TRY(use(comm, &next));
  comm->job->plan_switches++;
  if (by_plans_is_users(by_team_plan(comm->team))) by_plan_wanted_end(comm);
  char when[48];
  snprintf(when, sizeof when, " from call %llu on", (unsigned long long)comm->plans.started);
  by_plans_log(comm->job, by_team_plan(comm->team), when);
  return BANYAN_OK;
}

/* The others have it, so that going on with the old plan cannot end well. */
static enum banyan_status change(struct banyan_comm *comm) {
  enum banyan_status status = use_next(comm);
  if (status != BANYAN_OK) by_engine_fail(comm->job->engine, status, comm->job->rank, banyan_error_text());
  return status;
}

struct wait {
  struct banyan_comm *comm;
  uint64_t deadline;
};

static enum by_plan_switch_next next(const struct banyan_comm *comm) {
  return by_plan_switch_next(&comm->plans.plan_switch, comm->plans.started);
}

static bool is_over(void *argument) {
  const struct wait *wait = argument;
  return next(wait->comm) != BY_PLAN_SWITCH_WAITS || by_engine_status(wait->comm->job->engine) != BANYAN_OK ||
         by_clock_now(&by_clock_system) > wait->deadline;
}

enum banyan_status by_plan_switches_pass(struct banyan_comm *comm, uint64_t deadline) {
  struct wait wait = {comm, deadline};
  if (next(comm) == BY_PLAN_SWITCH_WAITS) by_progress_wait(comm->job, is_over, &wait);
  if (next(comm) == BY_PLAN_SWITCH_CHANGES) return change(comm);
  if (next(comm) == BY_PLAN_SWITCH_GOES_ON) return BANYAN_OK;
  BY_TRY(by_job_status(comm->job));
  return by_fail(BANYAN_ERR_TIMEOUT, "call %llu got no message from rank 0 on which plan it uses: is rank 0 stopped?",
                 (unsigned long long)comm->plans.started);
}

void by_plan_switches_started_one(struct banyan_comm *comm) {
  if (next(comm) == BY_PLAN_SWITCH_CHANGES) (void)!change(comm);
}

/* ---- messages */

static enum banyan_status read_helpers(struct by_job *job, const struct by_plan_switch_message *message,
                                       struct by_kept_plan *kept) {
  kept->helpers = BY_ARENA_ARRAY(&kept->plan->arena, uint32_t, message->n_processes + 1);
  if (!kept->helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (size_t i = 0; i < message->n_processes; i++) kept->helpers[i] = by_plan_switch_message_process(message, i);
  by_job_lock(job);
  enum banyan_status status = by_plans_check_helpers(job, kept->plan, kept->helpers, message->n_processes);
  by_job_unlock(job);
  return status;
}

static enum banyan_status read_plan(struct by_job *job, uint32_t n, const uint32_t *processes,
                                    const struct by_plan_switch_message *message, struct by_plan **out) {
  char *text = strndup(message->text ? message->text : "", message->length);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  enum banyan_status status = by_plans_named(job, n, processes, text, out);
  free(text);
  if (status == BANYAN_OK) (*out)->origin = message->origin;
  return status;
}

static enum banyan_status make_plan(struct by_job *job, uint32_t n, const uint32_t *processes,
                                    const struct by_plan_switch_message *message, struct by_kept_plan *out) {
  if (message->plan)
    BY_TRY(by_plan_copy(message->plan, &out->plan));
  else
    BY_TRY(read_plan(job, n, processes, message, &out->plan));
  BY_TRY(by_plans_check(out->plan));
  return read_helpers(job, message, out);
}

/* The members, copied. */
static enum banyan_status get_members(struct by_job *job, uint32_t id, uint32_t *n, uint32_t **processes) {
  *n = 0;
  *processes = NULL;
  if (!job->engine) return BANYAN_OK;
  by_job_lock(job);
  const struct banyan_comm *comm = by_comm_find(job, id);
  *processes = comm ? calloc(comm->size, sizeof **processes) : NULL;
  if (*processes) memcpy(*processes, comm->processes, comm->size * sizeof **processes);
  if (comm) *n = comm->size;
  by_job_unlock(job);
  return !*n || *processes ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
}

/* One plan for the communicator, and one for what is submitted to it; none if it is not here. Without the lock: reading
 * a large plan takes a while, and the communicator may go meanwhile. */
static enum banyan_status make_plans(struct by_job *job, const struct by_plan_switch_message *message,
                                     struct by_kept_plan *own, struct by_kept_plan *submitted) {
  uint32_t n, *processes;
  BY_TRY(get_members(job, message->comm, &n, &processes));
  if (!n) return BANYAN_OK;
  enum banyan_status status = make_plan(job, n, processes, message, own);
  own->number = message->number;
  *submitted = *own; /* Submitted operations use the same helpers. */
  submitted->plan = status == BANYAN_OK ? by_plan_hold(own->plan) : NULL;
  if (message->trees & BY_TREES_OF_OPERATIONS)
    submitted->trees = message->trees;
  else
    own->trees = message->trees;
  free(processes);
  return status;
}

/* Takes ownership of the plans. NULL, or why they cannot be kept yet. Under lock. */
static const char *keep(struct banyan_comm *comm, struct by_kept_plan *own, struct by_kept_plan *submitted) {
  if (comm->plans.plan_switch.state == BY_PLAN_SWITCH_IS_TAKEN)
    return "the plan that was agreed on before is not in use yet: its first call has not been made";
  if (!by_plan_switches_keep(comm, submitted))
    return "several plans were agreed on that submitted operations do not use yet: their iteration has not ended";
  (void)by_plan_switch_prepare(&comm->plans.plan_switch, own->number);
  by_plan_destroy(comm->plans.next.plan);
  comm->plans.next = *own;
  *own = *submitted = (struct by_kept_plan){0};
  return NULL;
}

static void send_started(const struct banyan_comm *comm, struct by_plan_switch_message *answer) {
  struct by_iteration *iteration = &answer->iteration;
  answer->at = comm->plans.started;
  *iteration = by_marks_iteration(&comm->plans.marks, comm->plans.started);
  if (comm->plans.marks.n) return;
  uint64_t calls = comm->plans.started - comm->plans.set_by_hand;
  if (by_observe_iteration(&comm->job->observed, calls, &iteration->began, &iteration->period))
    iteration->began += comm->plans.set_by_hand;
}

/* A failure's text becomes the answer's. */
static enum banyan_status prepare(struct by_job *job, const struct by_plan_switch_message *message,
                                  struct by_plan_switch_message *answer) {
  struct by_kept_plan own = {0}, submitted = {0};
  enum banyan_status status = make_plans(job, message, &own, &submitted);
  answer->kind = BY_PLAN_SWITCH_NOT_YET;
  by_job_lock(job);
  struct banyan_comm *comm = status == BANYAN_OK && own.plan ? by_comm_find(job, message->comm) : NULL;
  if (comm) {
    answer->text = keep(comm, &own, &submitted);
    answer->length = answer->text ? strlen(answer->text) : 0;
    answer->kind = answer->text ? BY_PLAN_SWITCH_NOT_YET : BY_PLAN_SWITCH_PREPARED;
    send_started(comm, answer);
  }
  by_job_unlock(job);
  by_plan_destroy(own.plan);
  by_plan_destroy(submitted.plan);
  return status;
}

/* FIX, TAKE and DROP; each may let a waiting call go on. A communicator of the same number may have been made anew
 * since it was asked, and has no such plan switch: it counts as absent too. */
static bool follow(struct by_job *job, const struct by_plan_switch_message *message,
                   struct by_plan_switch_message *answer) {
  if (!job->engine) return false;
  by_job_lock(job);
  struct banyan_comm *comm = by_comm_find(job, message->comm);
  struct by_plan_switch *plan_switch = comm ? &comm->plans.plan_switch : NULL;
  bool fixed = false;
  if (comm && message->kind == BY_PLAN_SWITCH_FIX) {
    fixed = by_plan_switch_fix(plan_switch, message->number, message->at);
    if (fixed) send_started(comm, answer);
  } else if (comm && message->kind == BY_PLAN_SWITCH_TAKE) {
    if (by_plan_switch_take(plan_switch, message->number)) {
      by_plan_switches_decided(comm, message->number);
      by_plan_switches_started_one(comm);
    }
  } else if (comm && message->kind == BY_PLAN_SWITCH_DROP && by_plan_switch_drop(plan_switch, message->number)) {
    forget(&comm->plans.next);
    by_plan_switches_let_go(comm, message->number);
  }
  pthread_cond_broadcast(&job->changed);
  by_job_unlock(job);
  by_job_wake(job);
  answer->kind = fixed ? BY_PLAN_SWITCH_FIXED : BY_PLAN_SWITCH_NOT_YET;
  return message->kind == BY_PLAN_SWITCH_FIX;
}

bool by_plan_switches_handle(void *argument, const struct by_plan_switch_message *message,
                             struct by_plan_switch_message *answer, char *text, size_t room) {
  struct by_job *job = argument;
  *answer = (struct by_plan_switch_message){.comm = message->comm, .number = message->number};
  if (message->kind != BY_PLAN_SWITCH_PROPOSE) return follow(job, message, answer);
  if (prepare(job, message, answer) != BANYAN_OK) {
    snprintf(text, room, "%s: %s", job->names[job->rank], banyan_error_text());
    answer->kind = BY_PLAN_SWITCH_REFUSED;
    answer->text = text;
    answer->length = strlen(text);
  }
  return true;
}

/* ---- the caller */

/* Fitted to the communicator, so that all read the same. */
static enum banyan_status make_proposal(struct by_job *job, struct by_plan *plan, struct by_proposal *out) {
  BY_TRY(by_plans_fit(job, out->n, out->processes, plan, &out->plan));
  BY_TRY(by_plans_check(out->plan));
  out->helpers = BY_ARENA_ARRAY(&out->plan->arena, uint32_t, out->plan->n_vertices);
  if (!out->helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  by_job_lock(job);
  enum banyan_status status = by_plans_find_helpers(job, out->plan, out->helpers);
  by_job_unlock(job);
  return status;
}

enum banyan_status by_plan_switches_propose(void *argument, uint32_t id, uint32_t n, const uint32_t *processes,
                                            struct by_plan *plan, const struct by_tree_grants *grants,
                                            const struct by_plan_switch_observer *notify) {
  struct by_job *job = argument;
  struct by_proposal proposal = {.comm = id, .n = n, .processes = processes, .grants = grants};
  if (notify) proposal.notify = *notify;
  enum banyan_status status = make_proposal(job, plan, &proposal);
  if (status == BANYAN_OK) status = by_control_propose(job->control, &proposal);
  if (status != BANYAN_OK) by_plan_destroy(proposal.plan);
  return status;
}

enum banyan_status banyan_comm_propose_plan(struct banyan_comm *comm, const char *text) {
  BY_TRY(by_comm_check(comm));
  struct by_job *job = comm->job;
  struct by_plan *plan = NULL;
  if (job->rank != 0)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "only rank 0 of the job can propose a plan; this is rank %u", job->rank);
  BY_TRY(by_plans_named(job, comm->size, comm->processes, text, &plan));
  if (job->size == 1) { /* The operations of a single rank need no communication. */
    by_job_lock(job);
    enum banyan_status status = use(comm, &(struct by_kept_plan){.plan = plan});
    by_job_unlock(job);
    return status;
  }
  return by_plan_switches_propose(job, by_team_id(comm->team), comm->size, comm->processes, plan, NULL, NULL);
}

/* ---- set by the program, on all ranks */

/* Gives submitted operations the plan that is set by hand; but the plan of a plan switch that the log has noted and
 * whose call is still to come, since it comes behind; except if `plan` is the user's and the other a manager's. */
static enum banyan_status set_inner(const struct banyan_comm *comm, const struct by_plan *plan) {
  const struct by_submit_log *log = comm->plans.log;
  const struct by_kept_plan *next = &comm->plans.next;
  struct by_kept_plan kept;
  if (!inner_of(comm)) return BANYAN_OK;
  const char *open = log->find_open(log->submitter);
  if (open)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "operation \"%s\" has been submitted and has not ended: wait for it before the plan is set", open);
  bool ahead = is_under_way(comm, comm->plans.noted) && next->plan && !by_plans_is_pinned(plan, next->plan);
  BY_TRY(hold(ahead ? next->plan : plan, ahead ? next->helpers : NULL, &kept));
  return use(log->inner, &kept);
}

/* This has a place among the calls, so that all ranks agree whether it or a plan switch comes first. Takes ownership of
 * the plan. Under lock. */
static enum banyan_status set_plan(struct banyan_comm *comm, struct by_plan *plan) {
  struct by_job *job = comm->job;
  struct by_plan_changes *p = &comm->plans;
  enum banyan_status status = by_plan_switches_pass(comm, by_clock_now(&by_clock_system) + comm->deadline);
  if (status == BANYAN_OK) status = set_inner(comm, plan);
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status;
  }
  BY_TRY(use(comm, &(struct by_kept_plan){.plan = plan}));
  by_plan_wanted_end(comm);
  /* All ranks set it at the same place, which counts as a call: earlier plan switches no longer count, and one that is
   * in progress comes behind it. */
  while (p->n_kept && !is_under_way(comm, p->kept[0].number)) remove_kept(comm, &p->kept[0]);
  forget(&p->before);
  if (!is_under_way(comm, p->decided)) {
    p->decided = 0;
    p->announces = false;
  }
  p->set_by_hand++;
  by_plan_switches_count(comm);
  by_plans_log(job, by_team_plan(comm->team), " from the next call on");
  if (job->observed.on_next_call) by_observe_wake(&job->observed); /* The manager is notified of the plan. */
  return BANYAN_OK;
}

enum banyan_status by_plan_switches_set_plan(struct banyan_comm *comm, struct by_plan *plan) {
  if (!plan) BY_TRY(by_plans_named(comm->job, comm->size, comm->processes, NULL, &plan));
  by_job_lock(comm->job);
  enum banyan_status status = set_plan(comm, plan);
  by_job_unlock(comm->job);
  return status;
}

enum banyan_status banyan_comm_set_plan(struct banyan_comm *comm, const char *text) {
  struct by_plan *plan = NULL;
  BY_TRY(by_comm_check(comm));
  BY_TRY(by_plans_named(comm->job, comm->size, comm->processes, text, &plan));
  return by_plan_switches_set_plan(comm, plan);
}

/* ---- how far it has come */

struct by_plan_switches_view by_plan_switches_view(void *argument, uint32_t id) {
  struct by_job *job = argument;
  struct by_plan_switches_view view = {0};
  by_job_lock(job);
  struct banyan_comm *comm = by_comm_find(job, id);
  if (comm) {
    const struct by_plan *plan = by_team_plan(comm->team);
    view = (struct by_plan_switches_view){.started = comm->plans.started,
                                          .last = comm->plans.decided,
                                          .taken = comm->plans.plan_switch.state == BY_PLAN_SWITCH_IS_TAKEN,
                                          .used = comm->plans.used,
                                          .operations = by_plan_switches_serves_operations(comm),
                                          .supplied = by_plans_is_users(plan),
                                          .version = plan->version};
    snprintf(view.plan, sizeof view.plan, "%s", plan->name);
  }
  by_job_unlock(job);
  return view;
}

void by_plan_switches_print(void *argument, uint32_t id, struct by_text *text) {
  struct by_job *job = argument;
  by_job_lock(job);
  const struct banyan_comm *comm = by_comm_find(job, id);
  struct by_plan usual = {0};
  if (comm) {
    usual = *by_team_plan(comm->team);
    usual.n_own = 0;
    by_plan_print(&usual, text);
  }
  by_job_unlock(job);
}

enum banyan_status by_plan_switches_copy(struct by_job *job, uint32_t id, struct by_plan **out) {
  by_job_lock(job);
  const struct banyan_comm *comm = by_comm_find(job, id);
  bool taken = comm && comm->plans.plan_switch.state == BY_PLAN_SWITCH_IS_TAKEN && comm->plans.next.plan;
  enum banyan_status status = comm ? by_plan_copy(taken ? comm->plans.next.plan : by_team_plan(comm->team), out)
                                   : by_fail(BANYAN_ERR_ARGUMENT, "communicator %08x is no longer there", id);
  by_job_unlock(job);
  return status;
}
