/* Proposes the job's plan to other communicators of all ranks whenever it changes. */
#include "adaptation.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "clock.h"
#include "log.h"
#include "plan_switch.h"

enum {
  FIRST_PAUSE_MS = 1000, /* Pause before a rejected plan is proposed again; it doubles each time. */
  MAX_FAILURES = 6       /* Maximum of proposals that fail in a row. */
};

struct follower {
  LIST_ENTRY(follower) entry;
  struct by_followers *followers;
  uint32_t comm;
  uint32_t number, failures; /* Number of the plan that was proposed last; failures in a row. */
  bool asked, gone; /* `asked`: a proposal is not decided on; `gone`: the communicator was destroyed meanwhile. */
  struct by_timer again;
};

struct by_followers {
  struct by_job *job;
  LIST_HEAD(, follower) all;
  struct by_plan *plan; /* The job's plan; NULL: the one that it was given. */
  uint32_t number;      /* Number of plans so far. */
  uint32_t *ranks;      /* All ranks of the job. */
};

static void free_follower(struct follower *follower) {
  LIST_REMOVE(follower, entry);
  by_loop_cancel_timer(&follower->again);
  free(follower);
}

static void propose(void *context);

/* Handles a rejected plan: the communicator may have been busy with another one, or a rank was late. */
static void keeps_its_plan(struct follower *follower) {
  if (follower->failures == MAX_FAILURES) return;
  by_loop_set_delay(by_job_loop(follower->followers->job), &follower->again,
                    FIRST_PAUSE_MS * BY_MILLISECOND << follower->failures++);
}

static void decided(void *context, uint64_t at, const char *why) {
  struct follower *follower = context;
  (void)at;
  follower->asked = false;
  if (follower->gone)
    free_follower(follower);
  else if (follower->number != follower->followers->number)
    propose(follower);
  else if (why)
    keeps_its_plan(follower);
}

/* Proposes the job's plan, unless the user has set one. `decided` is called later, on this thread. */
static void propose(void *context) {
  struct follower *follower = context;
  struct by_followers *followers = follower->followers;
  struct by_job *job = followers->job;
  struct by_plan_switches_view view = by_plan_switches_view(job, follower->comm);
  struct by_plan *plan = NULL;
  if (follower->asked || !followers->plan || view.supplied) return;
  if (follower->number != followers->number) follower->failures = 0;
  follower->number = followers->number;
  by_loop_cancel_timer(&follower->again);
  if (view.version == followers->plan->version && !view.taken) return;
  enum banyan_status status = by_plan_copy(followers->plan, &plan);
  if (status == BANYAN_OK)
    status = by_plan_switches_propose(job, follower->comm, by_job_size(job), followers->ranks, plan, NULL,
                                      &(struct by_plan_switch_observer){decided, follower});
  follower->asked = status == BANYAN_OK;
  if (follower->asked) return;
  by_info("plan", "communicator %08x keeps its plan for now: %s", follower->comm, banyan_error_text());
  keeps_its_plan(follower);
}

void by_followers_add(struct by_followers *followers, uint32_t comm) {
  struct follower *follower = calloc(1, sizeof *follower);
  if (!follower) {
    by_warn("plan", "communicator %08x keeps its plan: out of memory", comm);
    return;
  }
  follower->followers = followers;
  follower->comm = comm;
  by_timer_init(&follower->again, propose, follower);
  LIST_INSERT_HEAD(&followers->all, follower, entry);
  propose(follower);
}

/* Removes a communicator; an undecided one is freed at the decision. */
bool by_followers_remove(struct by_followers *followers, uint32_t comm) {
  struct follower *follower;
  LIST_FOREACH(follower, &followers->all, entry)
  if (follower->comm == comm && !follower->gone) break;
  if (!follower) return false;
  by_loop_cancel_timer(&follower->again);
  follower->gone = true;
  if (!follower->asked) free_follower(follower);
  return true;
}

void by_followers_lead(struct by_followers *followers, const struct by_plan *plan) {
  struct by_plan *copy;
  struct follower *follower;
  if (by_plan_copy(plan, &copy) != BANYAN_OK) {
    by_warn("plan", "communicators of all ranks keep their plan: %s", banyan_error_text());
    return;
  }
  by_plan_destroy(followers->plan);
  followers->plan = copy;
  followers->number++;
  LIST_FOREACH(follower, &followers->all, entry)
  if (!follower->gone) propose(follower);
}

enum banyan_status by_followers_create(struct by_job *job, struct by_followers **out) {
  struct by_followers *followers = calloc(1, sizeof *followers);
  *out = NULL;
  if (followers) followers->ranks = calloc(by_job_size(job), sizeof *followers->ranks);
  if (!followers || !followers->ranks) {
    free(followers);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the job's %u ranks", by_job_size(job));
  }
  followers->job = job;
  LIST_INIT(&followers->all);
  for (uint32_t i = 0; i < by_job_size(job); i++) followers->ranks[i] = i;
  *out = followers;
  return BANYAN_OK;
}

void by_followers_destroy(struct by_followers *followers) {
  if (!followers) return;
  for (struct follower *follower = LIST_FIRST(&followers->all), *next; follower; follower = next) {
    next = LIST_NEXT(follower, entry);
    free_follower(follower);
  }
  by_plan_destroy(followers->plan);
  free(followers->ranks);
  free(followers);
}
