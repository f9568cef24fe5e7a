/* Plans at rank 0 for the communicators of splits and subsets, on a thread of its own. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "adaptation.h"
#include "clock.h"
#include "descriptor.h"
#include "log.h"
#include "plan_switch.h"
#include "planner.h"
#include "planning.h"
#include "text.h"

enum {
  MAX_GROUPS = 4096, /* Groups that are planned for; further ones keep their built-in plans. */
  MAX_KEPT = 256,    /* Sets without a group whose plans are kept for later groups. */
  COLLECT_MS = 20,   /* Pause after a request, as the groups of a split ask at the same time. */
  BURST = 256,       /* Proposals at a time. */
  BURST_US = 10000,  /* Microseconds between bursts. */
  FIRST_PAUSE_S = 1, /* Seconds before a rejected plan is proposed again; they double each time. */
  MAX_FAILURES = 6,  /* Maximum of proposals that fail in a row. */
  MAX_SENT = 4 << 20 /* Maximum of tree vertices for some collectives in a proposal, times its receivers. */
};

/* A communicator that has asked for a plan. */
struct group {
  LIST_ENTRY(group) entry;
  uint32_t comm, n;
  struct set *set;   /* Its set, used by the thread only; NULL: not found yet. */
  uint32_t proposed; /* Number of the proposed plan; 0: none was. */
  uint32_t failures; /* Failures of that plan in a row. */
  uint64_t again;    /* When it is proposed again; 0: never. */
  uint32_t *place;   /* Index of each rank's host in the set. */
  uint32_t processes[];
};

/* A set of hosts, with the plans for it; used by the thread only. */
struct set {
  LIST_ENTRY(set) entry;
  struct by_plan *alone, *plan; /* For these hosts alone, and the one to propose; over hosts. NULL: not made yet. */
  uint32_t number;              /* Number of `plan`: different for each plan of the job. */
  bool failed;                  /* It cannot be planned with this topology. */
  uint32_t groups;
  uint32_t n;
  uint32_t nodes[]; /* Nodes in ascending order. */
};

/* A plan that is proposed and not decided on. */
struct asked {
  LIST_ENTRY(asked) entry;
  struct by_group_plans *plans;
  uint32_t comm, number;
};

struct by_group_plans {
  struct by_job *job;
  pthread_mutex_t lock; /* Guards the groups and the fields up to the thread's; taken alone. */
  pthread_cond_t changed;
  LIST_HEAD(, group) groups;
  LIST_HEAD(, asked) asked;
  uint32_t n_groups;
  bool due, ends, has_thread;
  pthread_t thread;
  /* The fields below are used by the thread only. */
  LIST_HEAD(, set) sets;
  uint32_t n_plans;
  struct by_job_network *network; /* The topology of the plans; held. */
};

/* ---- groups */

static void free_group(struct by_group_plans *plans, struct group *group) {
  LIST_REMOVE(group, entry);
  plans->n_groups--;
  free(group->place);
  free(group);
}

static struct group *find_group(const struct by_group_plans *plans, uint32_t comm) {
  struct group *group;
  LIST_FOREACH(group, &plans->groups, entry)
  if (group->comm == comm) break;
  return group;
}

static void add_group(struct by_group_plans *plans, const struct by_plan_want *want) {
  if (plans->n_groups == MAX_GROUPS) {
    by_debug("plan", "communicator %08x keeps its built-in plan: %d others have asked for one", want->comm, MAX_GROUPS);
    return;
  }
  struct group *group = calloc(1, sizeof *group + want->n * sizeof *group->processes);
  uint32_t *place = calloc(want->n, sizeof *place);
  if (!group || !place) {
    by_warn("plan", "communicator %08x keeps its built-in plan: out of memory", want->comm);
    free(group);
    free(place);
    return;
  }
  group->comm = want->comm;
  group->n = want->n;
  group->place = place;
  memcpy(group->processes, want->processes, want->n * sizeof *group->processes);
  LIST_INSERT_HEAD(&plans->groups, group, entry);
  plans->n_groups++;
}

/* ---- sets of hosts */

static int compare_nodes(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static struct set *find_set(struct by_group_plans *plans, const uint32_t *nodes, uint32_t n) {
  struct set *set;
  LIST_FOREACH(set, &plans->sets, entry)
  if (set->n == n && !memcmp(set->nodes, nodes, n * sizeof *nodes)) return set;
  set = calloc(1, sizeof *set + n * sizeof *nodes);
  if (!set) return NULL;
  set->n = n;
  memcpy(set->nodes, nodes, n * sizeof *nodes);
  LIST_INSERT_HEAD(&plans->sets, set, entry);
  return set;
}

/* Returns the set of a group's hosts, and the index of each rank's host in it. `nodes` is scratch. NULL: out of
 * memory. */
static struct set *place_group(struct by_group_plans *plans, struct group *group, uint32_t *nodes) {
  const uint32_t *host_of = by_job_hosts(plans->job)->of, *node_of = plans->network->nodes;
  uint32_t n = 0;
  for (uint32_t r = 0; r < group->n; r++) nodes[r] = node_of[host_of[group->processes[r]]];
  qsort(nodes, group->n, sizeof *nodes, compare_nodes);
  for (uint32_t r = 0; r < group->n; r++)
    if (!n || nodes[n - 1] != nodes[r]) nodes[n++] = nodes[r];
  for (uint32_t r = 0; r < group->n; r++) {
    uint32_t node = node_of[host_of[group->processes[r]]];
    group->place[r] = (uint32_t)((const uint32_t *)bsearch(&node, nodes, n, sizeof node, compare_nodes) - nodes);
  }
  return find_set(plans, nodes, n);
}

static void free_set(struct set *set) {
  LIST_REMOVE(set, entry);
  by_plan_destroy(set->alone);
  by_plan_destroy(set->plan);
  free(set);
}

/* Counts groups and sets; drops sets that have been kept for long. */
static void find_sets(struct by_group_plans *plans) {
  uint32_t *nodes = calloc(by_job_size(plans->job), sizeof *nodes), kept = 0;
  struct group *group;
  struct set *set, *next;
  LIST_FOREACH(set, &plans->sets, entry) set->groups = 0;
  LIST_FOREACH(group, &plans->groups, entry) {
    if (!group->set && nodes) group->set = place_group(plans, group, nodes);
    if (group->set) group->set->groups++;
  }
  for (set = LIST_FIRST(&plans->sets); set; set = next) {
    next = LIST_NEXT(set, entry);
    if (!set->groups && ++kept > MAX_KEPT) free_set(set);
  }
  free(nodes);
}

/* ---- planning, by the thread, without the lock */

static enum banyan_status make_options(const struct by_job *job, struct by_planner_options *options) {
  *options = by_planner_defaults();
  options->cancelled = by_job_ends(job);
  by_planning_costs(job, &options->rates);
  if (by_job_hosts(job)->crowded) options->rates.cores = by_job_members(job)[0].cores;
  return by_planner_options_parse(by_job_settings(job)->planner, options);
}

static const char *name_of(const struct by_topology *topology) {
  return topology->name[0] ? topology->name : "topology";
}

/* Plans for one set alone. */
static void plan_alone(struct by_group_plans *plans, struct set *set) {
  const struct by_topology *topology = plans->network->topology;
  struct by_planner_options options;
  struct by_planned planned;
  enum banyan_status status = make_options(plans->job, &options);
  options.choice = (struct by_graph_choice){.participants = set->nodes, .n_participants = set->n};
  if (status == BANYAN_OK) status = by_planner_run(name_of(topology), topology, &options, &planned);
  if (status != BANYAN_OK) {
    set->failed = true;
    if (status == BANYAN_ERR_ABORTED) return; /* The job ends. */
    by_warn("plan", "communicators over %u hosts keep their built-in plans: %s", set->n, banyan_error_text());
    return;
  }
  set->alone = planned.plan;
  planned.plan = NULL;
  by_planned_fini(&planned);
}

static void log_shared(const struct by_shared *shared, uint32_t n) {
  char rate[2][32];
  if (n > 1)
    by_info("plan",
            "communicators over %u sets of hosts, if all call at the same time: %s each of at most %s; together or "
            "alone they take at most %.2f times as long as any plans could (one choice for both cases: %.2f at least)",
            n, by_print_rate(shared->rate, rate[0]), by_print_rate(shared->bound, rate[1]), shared->loss,
            shared->min_loss);
}

/* Takes over what was chosen for a set. */
static void adopt(struct by_group_plans *plans, struct set *set, struct by_share_set *choice) {
  struct by_plan *plan = choice->plan;
  if (choice->choice == BY_SHARE_CURRENT) return;
  if (choice->choice == BY_SHARE_ALONE && by_plan_copy(set->alone, &plan) != BANYAN_OK) return;
  choice->plan = NULL;
  by_plan_destroy(set->plan);
  set->plan = plan;
  set->number = ++plans->n_plans;
}

/* Plans for the sets in use together. If they are too many, or on failure, plans for each alone. */
static void plan_together(struct by_group_plans *plans) {
  struct by_share_set choices[BY_SHARE_MAX];
  struct set *sets[BY_SHARE_MAX], *set;
  struct by_planner_options options;
  struct by_shared shared;
  uint32_t n = 0, in_use = 0;
  LIST_FOREACH(set, &plans->sets, entry) {
    if (!set->groups || !set->alone) continue;
    if (in_use++ == BY_SHARE_MAX) break;
    choices[n] = (struct by_share_set){
        .nodes = set->nodes, .n_nodes = set->n, .groups = set->groups, .alone = set->alone, .current = set->plan};
    sets[n++] = set;
  }
  if (in_use > BY_SHARE_MAX)
    by_info("plan", "communicators over more than %d sets of hosts are in use: each set has a plan of its own",
            BY_SHARE_MAX);
  bool together = n && in_use <= BY_SHARE_MAX && make_options(plans->job, &options) == BANYAN_OK &&
                  by_planner_share(name_of(plans->network->topology), plans->network->topology, &options, choices, n,
                                   &shared) == BANYAN_OK;
  if (together) log_shared(&shared, n);
  for (uint32_t k = 0; together && k < n; k++) adopt(plans, sets[k], &choices[k]);
  LIST_FOREACH(set, &plans->sets, entry)
  if (set->groups && set->alone && !set->plan) adopt(plans, set, &(struct by_share_set){.choice = BY_SHARE_ALONE});
}

static bool must_end(struct by_group_plans *plans) {
  pthread_mutex_lock(&plans->lock);
  bool ends = plans->ends;
  pthread_mutex_unlock(&plans->lock);
  return ends;
}

/* ---- proposing */

/* A copied proposal, since the group may be destroyed meanwhile. */
struct proposal {
  uint32_t comm, n;
  uint32_t *processes;
  struct by_plan *plan;
  struct asked *asked;
};

/* Frees a proposal that was decided on. Under lock. */
static void free_asked(struct asked *asked) {
  LIST_REMOVE(asked, entry);
  free(asked);
}

/* The group that was asked keeps its plan, and is asked again after a pause: a rank may have been late, or busy with
 * another plan. Under lock. */
static void note_failure(struct by_group_plans *plans, const struct asked *asked) {
  struct group *group = find_group(plans, asked->comm);
  if (!group || group->proposed != asked->number || group->failures == MAX_FAILURES) return;
  group->again = by_clock_now(&by_clock_system) + (FIRST_PAUSE_S * BY_SECOND << group->failures++);
  pthread_cond_broadcast(&plans->changed);
}

/* Handles a decision, on the loop's thread. */
static void decided(void *context, uint64_t at, const char *why) {
  struct asked *asked = context;
  struct by_group_plans *plans = asked->plans;
  (void)at;
  pthread_mutex_lock(&plans->lock);
  if (why) note_failure(plans, asked);
  free_asked(asked);
  pthread_mutex_unlock(&plans->lock);
}

static bool must_be_asked(const struct group *group, uint64_t now) {
  if (!group->set || !group->set->plan) return false;
  return group->proposed != group->set->number || (group->again && now >= group->again);
}

/* The next group whose set has another plan than it has. False: there is none. Under lock. */
static bool next_proposal(struct by_group_plans *plans, struct proposal *out) {
  uint64_t now = by_clock_now(&by_clock_system);
  struct group *group;
  LIST_FOREACH(group, &plans->groups, entry)
  if (must_be_asked(group, now)) break;
  if (!group) return false;
  *out = (struct proposal){.comm = group->comm, .n = group->n};
  if (group->proposed != group->set->number) group->failures = 0;
  group->proposed = group->set->number;
  group->again = 0;
  out->processes = calloc(group->n, sizeof *out->processes);
  out->asked = calloc(1, sizeof *out->asked);
  if (!out->asked) return true;
  *out->asked = (struct asked){.plans = plans, .comm = group->comm, .number = group->proposed};
  LIST_INSERT_HEAD(&plans->asked, out->asked, entry);
  if (out->processes && by_plan_expand(group->set->plan, group->place, group->n, &out->plan) == BANYAN_OK)
    memcpy(out->processes, group->processes, group->n * sizeof *out->processes);
  if (out->plan) by_plan_limit_own(out->plan, MAX_SENT / group->n);
  if (out->plan) out->plan->origin = (struct by_plan_origin){plans->network->source, false};
  return true;
}

static void propose(struct by_group_plans *plans, const struct proposal *next) {
  const struct by_plan_switch_observer notify = {decided, next->asked};
  if (next->plan && by_plan_switches_propose(plans->job, next->comm, next->n, next->processes, next->plan, NULL,
                                             &notify) == BANYAN_OK)
    return;
  by_warn("plan", "communicator %08x keeps its plan: %s", next->comm, banyan_error_text());
  if (!next->asked) return;
  pthread_mutex_lock(&plans->lock);
  note_failure(plans, next->asked);
  free_asked(next->asked);
  pthread_mutex_unlock(&plans->lock);
}

/* Proposes all plans, in bursts for which the loop has capacity. */
static void propose_all(struct by_group_plans *plans) {
  struct proposal next;
  for (uint32_t n = 1;; n++) {
    if (n % BURST == 0) usleep(BURST_US);
    pthread_mutex_lock(&plans->lock);
    bool found = !plans->ends && next_proposal(plans, &next);
    pthread_mutex_unlock(&plans->lock);
    if (!found) return;
    propose(plans, &next);
    free(next.processes);
  }
}

/* ---- the thread */

/* Returns whether these hosts are the same nodes with the same names. */
static bool are_the_same(const struct set *set, const struct by_topology *a, const struct by_topology *b) {
  uint32_t i = 0;
  while (i < set->n && set->nodes[i] < a->n_nodes && set->nodes[i] < b->n_nodes &&
         !strcmp(a->nodes[set->nodes[i]].name, b->nodes[set->nodes[i]].name))
    i++;
  return i == set->n;
}

/* Plans that are in use are compared with new ones, if these are for the same nodes. */
static void forget_plans(struct by_group_plans *plans, const struct by_topology *next) {
  struct set *set;
  LIST_FOREACH(set, &plans->sets, entry) {
    by_plan_destroy(set->alone);
    set->alone = NULL;
    set->failed = false;
    if (are_the_same(set, plans->network->topology, next)) continue;
    by_plan_destroy(set->plan);
    set->plan = NULL;
  }
}

/* Uses another network from now on. Under lock. Takes over the reference. */
static void use_network(struct by_group_plans *plans, struct by_job_network *network) {
  struct group *group;
  if (network == plans->network) {
    by_job_network_release(network);
    return;
  }
  if (plans->network) forget_plans(plans, network->topology);
  by_job_network_release(plans->network);
  plans->network = network;
  LIST_FOREACH(group, &plans->groups, entry) group->set = NULL;
}

static void plan_all(struct by_group_plans *plans) {
  struct by_job_network *network = by_job_network_hold(plans->job);
  struct set *set;
  if (!network) return;
  pthread_mutex_lock(&plans->lock);
  use_network(plans, network);
  find_sets(plans);
  pthread_mutex_unlock(&plans->lock);
  LIST_FOREACH(set, &plans->sets, entry)
  if (set->groups && !set->alone && !set->failed && set->n > 1 && !must_end(plans)) plan_alone(plans, set);
  if (!must_end(plans)) plan_together(plans);
  propose_all(plans);
}

/* Until the time, or something changes; 0: until something does. Returns false at the time. */
static bool wait_until(struct by_group_plans *plans, uint64_t time) {
  struct timespec until = {.tv_sec = (time_t)(time / BY_SECOND), .tv_nsec = (long)(time % BY_SECOND)};
  if (time) return pthread_cond_timedwait(&plans->changed, &plans->lock, &until) == 0;
  pthread_cond_wait(&plans->changed, &plans->lock);
  return true;
}

static void wait_for_more(struct by_group_plans *plans) {
  uint64_t until = by_clock_now(&by_clock_system) + COLLECT_MS * BY_MILLISECOND;
  while (!plans->ends && wait_until(plans, until)) {
  }
}

/* When a group is to be asked again; 0: none is. */
static uint64_t next_again(const struct by_group_plans *plans) {
  const struct group *group;
  uint64_t next = 0;
  LIST_FOREACH(group, &plans->groups, entry)
  if (group->again && (!next || group->again < next)) next = group->again;
  return next;
}

static void *run(void *argument) {
  struct by_group_plans *plans = argument;
  pthread_mutex_lock(&plans->lock);
  while (!plans->ends) {
    bool due = plans->due;
    if (!due && wait_until(plans, next_again(plans))) continue;
    if (due) wait_for_more(plans);
    if (due) plans->due = false;
    if (plans->ends) break;
    pthread_mutex_unlock(&plans->lock);
    if (due)
      plan_all(plans);
    else
      propose_all(plans);
    pthread_mutex_lock(&plans->lock);
  }
  pthread_mutex_unlock(&plans->lock);
  return NULL;
}

/* Has the thread plan, which it starts if needed. Under lock. */
static void make_due(struct by_group_plans *plans) {
  plans->due = true;
  if (!plans->has_thread) plans->has_thread = by_thread_start(&plans->thread, run, plans) == 0;
  if (!plans->has_thread) by_warn("plan", "no thread could be started: communicators keep their built-in plans");
  pthread_cond_broadcast(&plans->changed);
}

/* ---- for others */

static struct by_group_plans *make(struct by_job *job) {
  struct by_group_plans *plans = calloc(1, sizeof *plans);
  pthread_condattr_t attributes;
  if (!plans) return NULL;
  plans->job = job;
  pthread_mutex_init(&plans->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&plans->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  LIST_INIT(&plans->groups);
  LIST_INIT(&plans->asked);
  LIST_INIT(&plans->sets);
  return plans;
}

/* Takes the context's lock. NULL: out of memory, or this process leaves: the loop still runs what is posted when all of
 * this has ended. */
static struct by_group_plans *plans_of(struct by_job *job) {
  by_job_lock(job);
  if (!by_adaptation_of(job)->groups && !by_job_is_leaving(job)) by_adaptation_of(job)->groups = make(job);
  struct by_group_plans *plans = by_adaptation_of(job)->groups;
  by_job_unlock(job);
  return plans;
}

void by_group_plans_want(struct by_job *job, const struct by_plan_want *want) {
  if (by_job_settings(job)->deterministic) return; /* A plan comes into use at an arbitrary time. */
  struct by_group_plans *plans = plans_of(job);
  if (!plans) return;
  struct by_job_network *network = by_job_network_hold(job);
  pthread_mutex_lock(&plans->lock);
  struct group *before = find_group(plans, want->comm);
  if (before && (want->n || before->processes[0] == want->process)) free_group(plans, before);
  if (want->n) add_group(plans, want);
  if (want->n && network) make_due(plans);
  pthread_mutex_unlock(&plans->lock);
  by_job_network_release(network);
}

void by_group_plans_network_kept(struct by_job *job) {
  by_job_lock(job);
  struct by_group_plans *plans = by_adaptation_of(job)->groups;
  by_job_unlock(job);
  if (!plans) return;
  pthread_mutex_lock(&plans->lock);
  if (plans->n_groups) make_due(plans);
  pthread_mutex_unlock(&plans->lock);
}

void by_group_plans_end(struct by_job *job) {
  struct by_group_plans *plans = by_adaptation_of(job)->groups;
  if (!plans) return;
  pthread_mutex_lock(&plans->lock);
  plans->ends = true;
  pthread_cond_broadcast(&plans->changed);
  pthread_mutex_unlock(&plans->lock);
  if (plans->has_thread) pthread_join(plans->thread, NULL);
  for (struct group *group = LIST_FIRST(&plans->groups), *next; group; group = next) {
    next = LIST_NEXT(group, entry);
    free_group(plans, group);
  }
  for (struct asked *asked = LIST_FIRST(&plans->asked), *next; asked; asked = next) {
    next = LIST_NEXT(asked, entry);
    free_asked(asked);
  }
  for (struct set *set = LIST_FIRST(&plans->sets), *next; set; set = next) {
    next = LIST_NEXT(set, entry);
    free_set(set);
  }
  by_job_network_release(plans->network);
  pthread_mutex_destroy(&plans->lock);
  pthread_cond_destroy(&plans->changed);
  free(plans);
  by_adaptation_of(job)->groups = NULL;
}
