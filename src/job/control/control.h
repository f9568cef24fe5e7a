/* The job's control connections: every rank holds one to rank 0. Over them the
 * ranks meet (rank 0 collects the members and sends them to all) and are later
 * notified of deaths and aborts. No call waits for them. Rank 0 sees a death first, by
 * the end of that rank's connection, and names it to all, so that all
 * name the rank that died and not one that left because of it.
 *
 * On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_H
#define BY_JOB_CONTROL_CONTROL_H

#include "connector.h"
#include "handshake.h"
#include "job_access.h"
#include "plan_switch_message.h"
#include "timeline.h"

struct by_refusals_message;
struct by_control;
struct by_plan_want;
struct by_cluster_cells;
struct by_cluster_switch;
struct by_received;
struct by_tree_wanted;

/* When, and from whom, control messages of a type are handled; others are logged and ignored. The job is starting until
 * all have met. */
enum by_control_direction { BY_CONTROL_FROM_ALL, BY_CONTROL_FROM_ROOT, BY_CONTROL_TO_ROOT };
enum by_control_phase { BY_CONTROL_ALWAYS, BY_CONTROL_WHILE_STARTING, BY_CONTROL_ONCE_STARTED };

/* How control messages of a type are handled. */
struct by_control_rule {
  uint16_t type; /* 0: the end of a list of rules. */
  enum by_control_direction direction;
  enum by_control_phase phase;
  /* Called on the loop's thread. `context`: that of the events, unless the rule is the job's own. */
  void (*handle)(void *context, const struct by_received *message);
};

/* What the communicators of this process do about control messages. Called on the loop's thread. */
struct by_control_events {
  /* Returns the rule for messages of this type; NULL: there is none. */
  const struct by_control_rule *(*find_rule)(void *context, uint16_t type);
  /* Called before anything is connected. */
  void (*made)(void *context, struct by_control *control);
  /* Handles TREE and TREE_ASK, once there is an engine. */
  void (*handle_tree)(void *context, const struct by_received *message);
  /* Rank 0: a helper or server is lost, or a rank leaves: nothing more comes from it. */
  void (*process_lost)(void *context, uint32_t process);
  /* The job has failed. */
  void (*failed)(void *context);
  /* Rank 0: sets up the in-network trees of a plan before it is proposed to the ranks; by_plan_switching_have_trees is
   * called later, unless they are withdrawn before, as the plan is not used. */
  enum banyan_status (*prepare_trees)(void *context, const struct by_tree_wanted *wanted);
  void (*withdraw_trees)(void *context, uint32_t version);
  /* This process has left the job on purpose. Under lock. */
  void (*left)(void *context, uint32_t process);
  /* Others have submitted what this rank has not: messages about submitted operations are read from now on. */
  void (*listen)(void *context);
  /* What a member does about a message of a plan switch; see by_plan_switches_handle. */
  bool (*handle_plan_switch)(void *context, const struct by_plan_switch_message *message,
                             struct by_plan_switch_message *answer, char *text, size_t room);
  /* Rank 0: a communicator asks for a plan, which is proposed later, or not at all. NULL: no capability plans here. */
  void (*want_plan)(void *context, const struct by_plan_want *want);
  struct by_plan_switches_view (*view_plan_switches)(void *context, uint32_t comm);
  /* Rank 0: whether there is an agent or manager; requests for memory of switches go to it. */
  bool (*has_manager)(void *context);
  void (*reservation)(void *context, const struct by_cluster_cells *cells, uint32_t n);
  /* Returns whether an answer may come: the manager is not known to be away. */
  bool (*may_answer)(void *context);
  /* The host of this process does not answer any more. NULL: not reported. */
  void (*vanished)(void *context, uint32_t process);
  /* The switches' cells of the manager's plan of this number, and of all before it, have been given back. */
  void (*released)(void *context, uint64_t number);
  void *context;
};

/* A communicator whose members are to have a plan of their own; its first rank asks. */
struct by_plan_want {
  uint32_t comm;
  uint32_t process;          /* The asking process: the first member. */
  uint32_t n;                /* Number of members; 0: the communicator is gone, or has another plan. */
  const uint32_t *processes; /* The members' ranks in the job, n different ones, by rank. Borrowed. */
};

struct by_control_join_options {
  struct by_job *job;
  struct by_connector *connector;
  struct by_timeline *timeline;
  const struct by_member *self;
  const char *plan; /* The plan that this rank was given, and its version; see by_join. */
  uint32_t plan_version;
  struct by_control_events events;
};

/* Meets the others: fills the job's members. Runs the loop itself and blocks
 * until all have joined or the join deadline passes; errors name who is missing. */
BANYAN_CHECK enum banyan_status by_control_join(const struct by_control_join_options *options, struct by_control **out);
/* Returns why the job has failed, if it failed as soon as all had joined, before there was an engine to fail. Called
 * when this rank has found no fault itself, which would be the better reason. */
BANYAN_CHECK enum banyan_status by_control_check(const struct by_control *control);
/* Rank 0: returns the last report of this helper or server on connections that it has refused; NULL: none has come.
 * Under the job's lock. */
const struct by_refusals_message *by_control_get_refusals(const struct by_control *control, uint32_t process);
/* Any thread: notifies the others that this rank's engine failed. True: by_job_settle follows once all have the same
 * reason, unless they cannot be reached. */
bool by_control_failed(struct by_control *control, enum banyan_status status, uint32_t process, const char *text);
/* Any thread: reports that a lane to this process has ended. Rank 0 decides whether the process is dead; without its
 * verdict within half a second, this rank decides alone. False: rank 0 could not be asked. */
bool by_control_suspect(struct by_control *control, uint32_t process, const char *text);
/* Any thread: asks rank 0 for a deadlock check: because nothing progresses here, because a call's deadline has passed
 * (`late`: how the error begins; `awaited`: the rank that this one waits for), or because a call has waited for long
 * (`late` NULL; `awaited`: the call). Rank 0 asks all ranks and fails the job with what it finds. False: rank 0 cannot
 * be asked. */
bool by_control_ask(struct by_control *control, const char *late, const char *awaited);
/* Any thread: makes all ranks read messages about submitted operations, also ranks that make no calls. */
void by_control_have_listen(struct by_control *control);
/* Any thread, rank 0: sends a plan to all helpers; the bytes are copied. */
void by_control_send_plan(struct by_control *control, const void *bytes, size_t length);
/* Rank 0, on the loop's thread: sends the job's class to helpers and servers, and with `ranks` also to ranks, which get
 * it from no agents. */
void by_control_send_class(struct by_control *control, uint32_t class_, bool ranks);
/* The switches of a manager's plan, and the cells that its trees have there. Borrowed. */
struct by_tree_grants {
  uint64_t number; /* The plan's number; not 0. */
  uint32_t n_switches, n_cells;
  const struct by_cluster_switch *switches; /* The addresses of switches; other switches are known by name. */
  const struct by_cluster_cells *cells;     /* The cells; trees pass by switches without cells. */
};
/* A bit in versions of trees that serve operations submitted to the communicator, and not its direct calls. */
#define BY_TREES_OF_OPERATIONS (UINT32_C(1) << 31)
/* Trees through switches that a plan needs, under this version. Borrowed. */
struct by_tree_wanted {
  uint32_t version;
  const struct by_plan *plan;
  const uint32_t *processes, *helpers;
  const struct by_tree_grants *grants; /* NULL: the plan is not the manager's. */
};
/* A plan for a communicator, and the processes at its vertices behind the ranks. */
struct by_proposal {
  uint32_t comm, n;
  const uint32_t *processes; /* The members by rank. */
  struct by_plan *plan;
  uint32_t *helpers;                   /* See by_plans_find_helpers; in the plan's arena. */
  const struct by_tree_grants *grants; /* The manager's grants for the trees; NULL: the plan is not the manager's. */
  bool repeats;  /* It repeats the plan in use, for other calls to have its trees; other proposals take precedence. */
  uint32_t used; /* For `repeats`: dropped unless the plan in use has this number (by_plan_switches_view). */
  struct by_plan_switch_observer notify;
};
/* Any thread, rank 0: makes the members of a communicator agree on when to use this plan, in the background. The latest
 * proposal for a communicator counts. The plan is taken over, unless this fails; all else is copied. */
BANYAN_CHECK enum banyan_status by_control_propose(struct by_control *control, const struct by_proposal *proposal);
/* Any thread: asks rank 0 for a plan for a communicator of these ranks, the first of which is this one; n = 0: the plan
 * is not needed any more. The ranks are copied. */
void by_control_want_plan(struct by_control *control, uint32_t comm, uint32_t n, const uint32_t *processes);
/* Any thread, rank 0: asks helpers and servers to come to the next membership, whose rank 0 is at this root
 * ("address:port,..."). */
void by_control_send_follow(struct by_control *control, const char *root);
/* Any thread, rank 0: sends a message that may be missed to a rank, if that has not left; the bytes are copied. `what`
 * names it in the log. */
void by_control_send(struct by_control *control, uint32_t rank, uint16_t type, const void *bytes, size_t length,
                     const char *what);
/* Return parts of the control object, for capabilities with control messages of their own. On the loop's thread. */
struct by_control_peers *by_control_get_peers(struct by_control *control);
struct by_deaths *by_control_get_deaths(struct by_control *control);
struct by_plan_switching *by_control_get_plan_switching(struct by_control *control);
const struct by_control_events *by_control_get_events(const struct by_control *control);
/* Rank 0: handles a message about in-network trees that it sends to itself. */
void by_control_send_to_self(struct by_control *control, const struct by_received *message);
/* Any thread, a helper or server: returns whether the job is over for it, because rank 0 has left. */
bool by_control_is_over(const struct by_control *control);
/* Any thread, not rank 0: returns whether rank 0 has left, or the connection to it has ended, so that nothing comes
 * from it any more. */
bool by_control_is_cut(const struct by_control *control);
/* Any thread, before leaving: reports that this process leaves, so that its end is no death. Blocks up to a second. */
void by_control_leave(struct by_control *control);
/* NULL is allowed. The loop no longer runs. */
void by_control_destroy(struct by_control *control);

#endif
