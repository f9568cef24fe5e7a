/* A capability as the job knows it: when the job calls it, and what it keeps. The job names no capability: by_features,
 * which src/features.c defines, names all of them. A hook that is NULL does nothing. */
#ifndef BY_JOB_FEATURE_H
#define BY_JOB_FEATURE_H

#include "comm.h"

struct by_cluster_cells;
struct by_control_rule;
struct by_ledger;
struct by_plan_want;
struct by_received;
struct by_text;
struct by_tree_wanted;

/* Trees through switches and servers, which one capability provides. Under the job's lock unless stated otherwise. */
struct by_tree_service {
  /* Rank 0: sets up the trees of a plan that go through switches, under this version, and notifies their workers and
   * servers; in the background. The processes at the plan's vertices behind the ranks; UINT32_MAX: none. */
  void (*begin)(struct by_job *job, const struct by_plan *plan, const uint32_t *processes, const uint32_t *helpers,
                uint32_t version);
  /* From now on calls of this team go over the trees of this version, 0: over none. Those of the plan before are ended
   * once all workers have reported that no call is over them. */
  void (*use)(struct by_job *job, uint32_t team, uint32_t version);
  /* The trees of this version are set up, and will not be used. */
  void (*drop)(struct by_job *job, uint32_t version);

  /* The rest is called on the loop's thread, without the lock; see struct by_control_events. */
  enum banyan_status (*prepare)(struct by_job *job, const struct by_tree_wanted *wanted);
  void (*withdraw)(struct by_job *job, uint32_t version);
  void (*handle)(struct by_job *job, const struct by_received *received);
  void (*process_lost)(struct by_job *job, uint32_t process);
  void (*job_failed)(struct by_job *job);
  /* Rank 0: what the manager grants of what was requested. */
  void (*cells_granted)(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n);
};

/* By which the files of a capability find what is kept for it. It stands in the lowest of them, so that they do not
 * depend on the one that has the hooks. */
struct by_feature_key {
  size_t bytes; /* What a context keeps for this capability; 0 at first. */
};

struct by_feature {
  const struct by_feature_key *key;

  /* The control messages that it handles, up to a rule of type 0. The handlers' context is the struct by_job. NULL:
   * none. */
  const struct by_control_rule *rules;

  /* NULL: it provides no trees through switches. */
  const struct by_tree_service *trees;

  /* Before this process joins: completes how it is described to the others. */
  enum banyan_status (*describe_self)(struct by_job *job, struct by_member *self);
  /* The control connections are made, and nothing is connected yet. */
  void (*control_made)(struct by_job *job, struct by_control *control);
  /* All have joined, and no communicator has been made yet. */
  void (*joined)(struct by_job *job);
  /* Collective over the job's own communicator, before its first call: gives it the plan that a job begins with. */
  enum banyan_status (*make_first_plan)(struct banyan_comm *comm);
  /* All have joined, and the threads of the job run. Only in a rank of a job of several. */
  void (*start)(struct by_job *job);
  /* This process is in a later membership: what others learn from this one is that it has left. */
  void (*retire)(struct by_job *job);
  /* The loop's thread has ended: ends the capability's own threads, while threads of the job may still run. This hook
   * and the next two are called only if the state could be allocated. */
  void (*stop)(struct by_job *job);
  /* Frees what its state of the context owns. All communicators are gone, no other thread of the job runs, and the
   * engine still exists. */
  void (*detach)(struct by_job *job);

  /* The engine is gone: frees what it used. */
  void (*fini)(struct by_job *job);

  /* The next four are called under the job's lock, and only while the capability is active in this context, see
   * by_feature_activate. */
  /* Does what can be done. Returns whether anything was done. */
  bool (*advance)(struct by_job *job);
  /* Returns whether something must progress although no thread waits for it. */
  bool (*has_work)(const struct by_job *job);
  /* When check_deadlines must be called at the latest, in nanoseconds; UINT64_MAX: it need not be called. */
  uint64_t (*deadline)(const struct by_job *job);
  void (*check_deadlines)(struct by_job *job);

  /* Under the job's lock: reads the control messages that the engine holds. Returns whether there were any. */
  bool (*take_messages)(struct by_job *job);
  /* Under the job's lock: a process has left the job. */
  void (*process_left)(struct by_job *job);
  /* Any thread: another rank asks this rank to read control messages of all its communicators from now on. */
  void (*listen)(struct by_job *job);

  /* Rank 0, on the loop's thread: a communicator asks for a plan, which may be proposed later; or goes, with n 0. */
  void (*plan_wanted)(struct by_job *job, const struct by_plan_want *want);
  /* Rank 0 of a managed job, on the loop's thread: the manager's topology of the job's hosts, as JSON. On failure what
   * was known before stays. */
  enum banyan_status (*topology_received)(void *job, const char *topology);

  /* Rank 0 of a managed job, on the loop's thread: what its trees request at switches, or have, in place of what was
   * said before. */
  void (*cells_wanted)(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n);
  /* The same: the cells of the manager's plan of this number, and of all before it, have been given back. */
  void (*cells_released)(struct by_job *job, uint64_t number);
  /* The same: an answer to a request may come; nothing is known of the manager being away. */
  bool (*cells_may_come)(const struct by_job *job);

  /* Any thread: adds its metrics in Prometheus' text format. */
  void (*add_metrics)(struct by_job *job, struct by_text *text);

  /* The rest is called under the job's lock. */
  /* A communicator of the program has been made. */
  void (*comm_made)(struct banyan_comm *comm);
  /* Peers may still wait for a confirmation of this communicator's calls. */
  bool (*comm_owes)(const struct banyan_comm *comm);
  /* No thread works on this communicator's calls any more, after they have ended. */
  bool (*comm_is_idle)(const struct banyan_comm *comm);
  /* A communicator of the program is about to be destroyed; its team still exists. */
  void (*comm_closes)(struct banyan_comm *comm);
  /* The communicator's team is gone: frees what the communicator keeps for this capability. */
  void (*comm_destroyed)(struct banyan_comm *comm);
  /* Adds to the ledger what became of calls of this capability that count among the communicator's calls: to the series
   * that was added last. */
  void (*add_history)(const struct banyan_comm *comm, struct by_ledger *ledger);
  /* Adds a series of its own to the ledger. */
  void (*add_series)(const struct banyan_comm *comm, struct by_ledger *ledger);
};

/* All capabilities; the last entry is NULL. There are at most BY_FEATURES_MAX. The order is that in which `advance` is
 * called; `detach` is called in reverse order. */
extern const struct by_feature *const by_features[];

/* Allocates the states of all capabilities. BANYAN_ERR_NO_MEMORY: by_features_detach still has to be called. */
BANYAN_CHECK enum banyan_status by_features_attach(struct by_job *job);
/* Calls the hooks `detach`, once. */
void by_features_detach(struct by_job *job);
/* Frees the states; after by_features_detach. */
void by_features_fini(struct by_job *job);
/* The state of a capability, of its `bytes`. Each capability has a function that returns it with its type. */
void *by_feature_state(const struct by_job *job, const struct by_feature_key *key);
/* Under lock: from now on, or no longer, the job calls the hooks that only an active capability has called. */
void by_feature_activate(struct by_job *job, const struct by_feature_key *key, bool active);
/* What a communicator keeps for a capability; NULL: nothing. Each capability has a function that returns it with its
 * type. Under lock. */
void *by_feature_of_comm(const struct banyan_comm *comm, const struct by_feature_key *key);
void by_feature_set_of_comm(struct banyan_comm *comm, const struct by_feature_key *key, void *object);

/* The job calls these; each calls the hook of that name. Under lock, where the hook is. */
bool by_features_advance(struct by_job *job);
bool by_features_take_messages(struct by_job *job);
bool by_features_have_work(const struct by_job *job);
uint64_t by_features_deadline(const struct by_job *job);
void by_features_check_deadlines(struct by_job *job);
void by_features_process_left(struct by_job *job);
void by_features_comm_made(struct banyan_comm *comm);
bool by_features_comm_owes(const struct banyan_comm *comm);
bool by_features_comm_is_idle(const struct banyan_comm *comm);
void by_features_comm_closes(struct banyan_comm *comm);
void by_features_comm_destroyed(struct banyan_comm *comm);
void by_features_add_history(const struct banyan_comm *comm, struct by_ledger *ledger);
void by_features_add_series(const struct banyan_comm *comm, struct by_ledger *ledger);
void by_features_listen(struct by_job *job);
BANYAN_CHECK enum banyan_status by_features_describe_self(struct by_job *job, struct by_member *self);
void by_features_control_made(struct by_job *job, struct by_control *control);
void by_features_add_metrics(struct by_job *job, struct by_text *text);
/* The service of trees of this context; NULL: there is none, or it has been detached. */
const struct by_tree_service *by_features_trees(const struct by_job *job);
void by_features_joined(struct by_job *job);
BANYAN_CHECK enum banyan_status by_features_make_first_plan(struct banyan_comm *comm);
void by_features_start(struct by_job *job);
void by_features_retire(struct by_job *job);
void by_features_cells_wanted(struct by_job *job, const struct by_cluster_cells *cells, uint32_t n);
void by_features_cells_released(struct by_job *job, uint64_t number);
bool by_features_cells_may_come(const struct by_job *job);
void by_features_stop(struct by_job *job);
void by_features_plan_wanted(struct by_job *job, const struct by_plan_want *want);
BANYAN_CHECK enum banyan_status by_features_topology_received(struct by_job *job, const char *topology);
/* NULL: no capability handles messages of this type. Any thread. */
const struct by_control_rule *by_features_find_rule(uint16_t type);

#endif
