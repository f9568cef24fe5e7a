/* What is submitted to a communicator: passes its controller's messages on, and reports operations that ranks lack. */
#include "submitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "control.h"
#include "ledger.h"
#include "log.h"
#include "sparse.h"
#include "text.h"

enum {
  MESSAGE_SECONDS = 5, /* Seconds for the root's message about late ranks. */
  MOST_ROUNDS = 16     /* Rounds of the engine after which messages are answered although more and more come. */
};

static uint32_t submitted_number(uint32_t id) {
  return by_comm_number(id, BY_OF_NO_SPLIT, BY_OF_SUBMITTED);
}

static uint32_t number_of(const struct banyan_comm *comm) {
  return submitted_number(by_team_id(comm->team));
}

/* ---- texts about stalls */

static const char *name_of(const struct banyan_comm *comm, uint32_t rank) {
  return by_job_name(comm->job, comm->processes[rank]);
}

/* "2, 5-7 and 3 more". */
static void add_ranks(struct by_text *text, const struct by_stall *stall) {
  for (uint32_t i = 0; i < stall->n_ranges; i++) {
    const struct by_rank_range *range = &stall->ranges[i];
    by_text_add(text, "%s%u", i ? ", " : "", range->first);
    if (range->last > range->first) by_text_add(text, "-%u", range->last);
  }
  if (stall->more) by_text_add(text, " and %u more", stall->more);
}

/* Returns the host that all ranks lacking an operation share; NULL if there is none, or not all ranks are known. */
static const char *shared_host(const struct banyan_comm *comm, const struct by_stall *stall) {
  const char *host = NULL;
  if (stall->more) return NULL;
  for (uint32_t i = 0; i < stall->n_ranges; i++)
    for (uint32_t r = stall->ranges[i].first; r <= stall->ranges[i].last && r < comm->size; r++) {
      const char *own = by_job_members(comm->job)[comm->processes[r]].host;
      if (host && strcmp(host, own) != 0) return NULL;
      host = own;
    }
  return host;
}

/* Adds a rank that has left the job, which will never submit anything. */
static void add_left(struct by_text *text, const struct banyan_comm *comm) {
  for (uint32_t r = 0; r < comm->size; r++)
    if (by_job_member_left(comm->job, comm->processes[r])) {
      by_text_add(text, "; %s has left the job", name_of(comm, r));
      return;
    }
}

/* Adds which ranks lack an operation, and what they have in common. */
static void add_stall(struct by_text *text, const struct banyan_comm *comm, const struct by_stall *stall) {
  char what[BY_OPERATION_TEXT];
  const char *host = shared_host(comm, stall);
  uint32_t n = stall->more;
  for (uint32_t i = 0; i < stall->n_ranges; i++) n += stall->ranges[i].last - stall->ranges[i].first + 1;
  by_text_add(text, "operation \"%s\" (%s) waits for %u of %u ranks, which have not submitted it: ", stall->name,
              by_operation_describe(&stall->operation, what), n, comm->size);
  add_ranks(text, stall);
  by_text_add(text, host ? " (host %s)" : "; all of them are below %s in the control tree",
              host ? host : name_of(comm, stall->top));
  if (stall->silent)
    by_text_add(text, "; %u of them do%s not answer, nor do those below", stall->silent,
                stall->silent == 1 ? "es" : "");
  add_left(text, comm);
}

/* ---- what controllers ask for */

static void on_send(void *argument, uint32_t to, const void *message, size_t bytes) {
  struct by_submitter *owner = argument;
  uint32_t process = owner->comm->processes[to];
  enum banyan_status status = by_engine_write(by_job_engine(owner->job), process, owner->id, message, bytes);
  if (status != BANYAN_OK) by_submitter_fail(owner, status, "negotiating");
}

static void on_refused(void *argument, void *cookie, const struct by_refused_operation *refusal) {
  const struct by_submitter *owner = argument;
  char what[2][BY_OPERATION_TEXT], text[BY_REPORT_TEXT];
  snprintf(text, sizeof text, "operation \"%s\": %s has submitted %s, %s %s: all ranks must submit the same",
           refusal->name, name_of(owner->comm, refusal->ranks[0]),
           by_operation_describe(&refusal->operations[0], what[0]), name_of(owner->comm, refusal->ranks[1]),
           by_operation_describe(&refusal->operations[1], what[1]));
  by_submitted_end(cookie, BANYAN_ERR_MISMATCH, text);
}

static void on_stalled(void *argument, const struct by_stall *stall) {
  const struct by_submitter *owner = argument;
  struct by_text text;
  by_text_init(&text);
  add_stall(&text, owner->comm, stall);
  if (stall->late)
    by_engine_fail(by_job_engine(owner->job), BANYAN_ERR_TIMEOUT, UINT32_MAX, by_text_get(&text));
  else
    by_warn("negotiate", "%s", by_text_get(&text));
  by_text_fini(&text);
}

static void on_noted(void *argument, uint32_t note) {
  struct by_submitter *owner = argument;
  enum banyan_status status = by_plan_switches_noted(owner->comm, note);
  if (status != BANYAN_OK) by_submitter_fail(owner, status, "taking a new plan");
}

/* Orders operations in a group by their addresses, so that they are contiguous in the call. */
static bool comes_before(const void *a, const void *b) {
  const struct by_submitted *x = a, *y = b;
  return (uintptr_t)x->calls[0].recv < (uintptr_t)y->calls[0].recv;
}

/* ---- the control tree */

/* Notes the neighbours in the control tree, whose messages are expected. Messages of former neighbours are harmless. */
static enum banyan_status note_neighbours(struct by_submitter *owner) {
  const struct by_controller_config *place = by_controller_place(owner->controller);
  free(owner->neighbours);
  owner->n_neighbours = 0;
  owner->neighbours = calloc((size_t)place->n_up_children + 1, sizeof *owner->neighbours);
  if (!owner->neighbours) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for negotiating");
  for (uint32_t i = 0; i < place->n_up_children; i++)
    owner->neighbours[owner->n_neighbours++].rank = place->up_children[i];
  owner->log.root = place->up_parent == place->rank;
  if (!owner->log.root) owner->neighbours[owner->n_neighbours++].rank = place->down_parent;
  for (uint32_t i = 0; i < owner->n_neighbours; i++) {
    owner->neighbours[i].process = owner->comm->processes[owner->neighbours[i].rank];
    by_engine_expect_control_messages(by_job_engine(owner->job), owner->neighbours[i].process);
  }
  return BANYAN_OK;
}

/* At the root: moves all ranks to the control tree of its plan. Ranks change plans at the same call but at different
 * times, so the number of the plan prevents a move back to an earlier plan. */
static enum banyan_status offer_tree(struct by_submitter *owner) {
  const struct banyan_comm *comm = owner->comm;
  uint32_t number = comm->plans.used + 1;
  struct by_controller_tree tree;
  if (!owner->log.root || comm->size == 1 || number <= by_controller_tree_number(owner->controller)) return BANYAN_OK;
  BY_TRY(by_control_place_tree(comm, by_team_plan(comm->team), &tree));
  tree.number = number;
  enum banyan_status status = by_controller_move(owner->controller, &tree);
  free(tree.up);
  owner->dirty = true;
  return status;
}

static void on_plan(void *submitter) {
  struct by_submitter *owner = submitter;
  enum banyan_status status = offer_tree(owner);
  if (status != BANYAN_OK) by_submitter_fail(owner, status, "negotiating");
  if (owner->dirty) by_progress_kick(owner->job);
}

/* Handles a change of the control tree, after which this rank may be the root, or no longer. */
static void on_moved(void *argument) {
  struct by_submitter *owner = argument;
  const struct by_controller_config *place = by_controller_place(owner->controller);
  by_debug("negotiate", "control tree %u of communicator %08x: sends to %s, receives from %s",
           by_controller_tree_number(owner->controller), by_team_id(owner->comm->team),
           name_of(owner->comm, place->up_parent), name_of(owner->comm, place->down_parent));
  enum banyan_status status = note_neighbours(owner);
  by_plan_switches_move_log(owner->comm);
  if (status == BANYAN_OK) status = offer_tree(owner);
  if (status != BANYAN_OK) by_submitter_fail(owner, status, "negotiating");
}

/* ---- what plan switching asks for */

static void note_plan_switch(void *submitter, uint32_t number) {
  struct by_submitter *owner = submitter;
  by_controller_announce(owner->controller, number);
  owner->dirty = true;
  by_progress_kick(owner->job);
}

static uint64_t count_submitted(const void *submitter) {
  const struct by_submitter *owner = submitter;
  const struct by_controller_counters *counters = by_controller_counters(owner->controller);
  return counters->by_name + counters->by_bit;
}

static const char *find_open(const void *submitter) {
  const struct by_submitter *owner = submitter;
  const struct by_submitted *s = LIST_FIRST(&owner->operations.open);
  return s ? s->name : NULL;
}

/* ---- making one */

static enum banyan_status make_controller(struct by_submitter *owner) {
  const struct by_settings *settings = by_job_settings(owner->job);
  struct by_controller_config config = {.rank = owner->comm->rank,
                                        .fuse = settings->fusion,
                                        .fuse_each = BY_FUSE_EACH,
                                        .window = 4 * settings->fusion,
                                        .timeout = by_clock_from_seconds(settings->stall),
                                        .send = on_send,
                                        .start = by_submit_start,
                                        .before = comes_before,
                                        .refused = on_refused,
                                        .noted = on_noted,
                                        .moved = on_moved,
                                        .stalled = on_stalled,
                                        .context = owner};
  struct by_controller_tree tree;
  BY_TRY(by_control_place_tree(owner->comm, NULL, &tree));
  enum banyan_status status = by_controller_create_in(&config, &tree, &owner->controller);
  free(tree.up);
  return status == BANYAN_OK ? note_neighbours(owner) : status;
}

enum banyan_status by_submitter_need(struct banyan_comm *comm, struct by_submitter **out) {
  *out = by_named_submitter(comm);
  if (*out) return BANYAN_OK;
  struct by_submitter *owner = calloc(1, sizeof *owner);
  if (!owner) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for submitting operations");
  *owner = (struct by_submitter){.comm = comm,
                                 .job = comm->job,
                                 .id = number_of(comm),
                                 .deadline = UINT64_MAX,
                                 .still.at = UINT64_MAX,
                                 .log = {.note = note_plan_switch,
                                         .count = count_submitted,
                                         .find_open = find_open,
                                         .plan_changed = on_plan,
                                         .submitter = owner}};
  enum banyan_status status = make_controller(owner);
  if (status != BANYAN_OK) {
    by_submitter_free(owner);
    return status;
  }
  by_feature_set_of_comm(comm, &by_named_key, owner);
  if (!by_named_of(comm->job)->submitters++) by_feature_activate(comm->job, &by_named_key, true);
  *out = owner;
  if (comm->size > 1) by_progress_listen(comm->job);
  by_plan_switches_attach_log(comm, &owner->log);
  return offer_tree(owner);
}

static void add_series(const struct banyan_comm *comm, struct by_ledger *ledger) {
  const struct by_submitter *owner = by_named_submitter(comm);
  if (!owner) return;
  by_ledger_add_series(ledger, &(struct by_ledger_series){.kind = BY_LEDGER_OPERATIONS,
                                                          .communicator = by_team_id(comm->team),
                                                          .size = comm->size,
                                                          .rank = comm->rank,
                                                          .begun = owner->started});
  by_ledger_add_history(ledger, &owner->history);
}

static void forget_comm(struct banyan_comm *comm) {
  struct by_submitter *owner = by_named_submitter(comm);
  struct by_submitted *s;
  char text[BY_OPERATION_NAME + 128];
  if (!owner) return;
  if (owner->log.inner) {
    by_comm_pay_debts(owner->log.inner);
    by_comm_end(owner->log.inner);
  }
  by_submit_collect(owner);
  while ((s = LIST_FIRST(&owner->operations.open))) {
    snprintf(text, sizeof text, "the communicator was destroyed while operation \"%s\" waited for other ranks",
             s->name);
    by_submitted_end(s, BANYAN_ERR_CLOSED, text);
  }
  by_flights_fini(owner);
  struct by_ledger *ledger = by_comm_find_ledger(comm);
  if (ledger) add_series(comm, ledger);
  by_plan_switches_attach_log(comm, NULL);
  by_feature_set_of_comm(comm, &by_named_key, NULL);
  if (!--by_named_of(owner->job)->submitters) by_feature_activate(owner->job, &by_named_key, false);
  owner->comm = owner->log.inner = NULL;
  if (!owner->operations.taken) by_submitter_free(owner);
}

/* ---- control messages */

/* Returns the rank of a process in the communicator, usually a neighbour; UINT32_MAX if it is no member. */
static uint32_t rank_of(const struct by_submitter *owner, uint32_t process) {
  const struct banyan_comm *comm = owner->comm;
  uint32_t rank = 0;
  for (uint32_t i = 0; i < owner->n_neighbours; i++)
    if (owner->neighbours[i].process == process) return owner->neighbours[i].rank;
  while (rank < comm->size && comm->processes[rank] != process) rank++;
  return rank < comm->size ? rank : UINT32_MAX;
}

static void take_message(struct by_submitter *owner, const struct by_control_message *message) {
  uint32_t from = rank_of(owner, message->process);
  enum banyan_status status =
      by_controller_take(owner->controller, from, message->data, message->bytes, by_clock_now(&by_clock_system));
  owner->dirty = true;
  if (status == BANYAN_ERR_PROTOCOL)
    by_warn("negotiate", "a control message from %s was refused: %s", by_job_name(owner->job, message->process),
            banyan_error_text());
  else if (status != BANYAN_OK)
    by_submitter_fail(owner, status, "negotiating");
}

static bool is_over(const struct by_job *job, uint32_t number) {
  const struct by_engine_state *engine = by_engine_get_state(by_job_engine(job));
  uint32_t n = engine->n_destroyed;
  while (n && submitted_number(engine->destroyed[n - 1]) != number) n--;
  return n;
}

/* Keeps a control message for a communicator that is not created yet. The engine limits their number per sender. */
static void keep(struct by_job *job, struct by_control_message *message) {
  struct by_named_state *named = by_named_of(job);
  if (is_over(job, message->team)) {
    by_control_message_free(by_job_engine(job), message);
    return;
  }
  message->next = NULL;
  if (named->messages)
    named->newest->next = message;
  else
    named->messages = message;
  named->newest = message;
}

/* Returns the communicator's submitter, created if necessary; on failure, fails the job and returns NULL. */
static struct by_submitter *need_or_fail(struct banyan_comm *comm) {
  struct by_submitter *owner = NULL;
  enum banyan_status status = by_submitter_need(comm, &owner);
  const struct by_job *job = comm->job;
  if (status == BANYAN_OK) return owner;
  by_engine_fail(by_job_engine(job), status, by_job_rank(job), banyan_error_text());
  return NULL;
}

static void deliver(struct by_job *job, struct by_control_message *message) {
  struct banyan_comm *comm = by_comm_first(job);
  while (comm && (comm->hidden || number_of(comm) != message->team)) comm = comm->next;
  if (!comm) {
    keep(job, message);
    return;
  }
  struct by_submitter *owner = need_or_fail(comm);
  if (owner) take_message(owner, message);
  by_control_message_free(by_job_engine(job), message);
}

/* Creates a submitter for every communicator, so that there is a link over which this rank can be asked what it lacks.
 */
static void listen_to_all(struct by_job *job) {
  by_job_lock(job);
  by_named_of(job)->listens = true;
  for (struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next)
    if (!comm->hidden) (void)need_or_fail(comm);
  by_progress_kick(job);
  by_job_unlock(job);
}

/* Handles control messages that arrived before the communicator was created. */
static void take_kept_messages(struct banyan_comm *comm) {
  struct by_job *job = comm->job;
  struct by_named_state *named = by_named_of(job);
  struct by_control_message *messages = named->messages;
  named->messages = NULL;
  while (messages) {
    struct by_control_message *next = messages->next;
    deliver(job, messages);
    messages = next;
  }
  if (named->listens) (void)need_or_fail(comm);
}

/* ---- going on */

static bool advance(struct by_submitter *owner, bool ended) {
  const struct by_engine *engine = by_job_engine(owner->job);
  bool any = ended && by_submit_collect(owner);
  if (by_engine_status(engine) != BANYAN_OK) {
    any |= !LIST_EMPTY(&owner->operations.open);
    by_submit_collect(owner);
    for (struct by_submitted *s; (s = LIST_FIRST(&owner->operations.open));)
      by_submitted_end(s, by_engine_status(engine), by_engine_get_state(engine)->error);
    owner->dirty = false;
  }
  if (!owner->dirty) return any;
  owner->dirty = false;
  enum banyan_status status = by_controller_flush(owner->controller);
  if (status != BANYAN_OK) by_submitter_fail(owner, status, "negotiating");
  return true;
}

/* Delivers the control messages that have arrived. Returns whether there were any. */
static bool take_messages(struct by_job *job) {
  bool any = false;
  for (struct by_control_message *message; (message = by_engine_read(by_job_engine(job))); any = true)
    deliver(job, message);
  return any;
}

/* Delivers all messages of a burst before any is answered or forwarded, so that one message answers them. The engine
 * reads only some of the messages in the lanes at a time. Does not wait. */
static bool take_all_messages(struct by_job *job) {
  if (!take_messages(job)) return false;
  for (uint32_t i = 0; i < MOST_ROUNDS; i++) {
    by_engine_progress(by_job_engine(job));
    if (!take_messages(job)) break;
  }
  return true;
}

/* Continues operations; some may end others. */
static bool advance_all(struct by_job *job) {
  struct by_named_state *named = by_named_of(job);
  bool moved = false;
  for (bool again = true; again;) {
    uint64_t now = by_engine_get_state(by_job_engine(job))->ended + by_sparse_count_moves(job);
    bool ended = now != named->ended_seen;
    named->ended_seen = now;
    again = false;
    for (struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next) {
      struct by_submitter *owner = by_named_submitter(comm);
      if (owner) again |= advance(owner, ended);
    }
    again &= by_engine_status(by_job_engine(job)) == BANYAN_OK;
    moved |= again;
  }
  return moved;
}

static bool has_work(const struct by_job *job) {
  return by_named_of(job)->open;
}

/* ---- members that are stopped while others wait for them in operations only: no call of the engine is in progress
 * then, which would have the members asked. */

enum {
  STILL_S =
      2 /* Seconds without a start before neighbours in the control tree are first asked; the interval then doubles. */
};

void by_submitter_note_start(struct by_submitter *owner, uint64_t now) {
  if (!by_job_has_service(owner->job)) return;
  owner->still = (struct by_still){.since = now, .after = STILL_S * BY_SECOND, .at = now + STILL_S * BY_SECOND};
}

static bool any_waits(const struct by_submitter *owner) {
  const struct by_submitted *s;
  LIST_FOREACH(s, &owner->operations.open, entry) {
    if (s->state != BY_SUBMITTED_RUNS) return true;
  }
  return false;
}

static void ask_if_still(struct by_submitter *owner, uint64_t now) {
  struct by_still *still = &owner->still;
  if (still->at > now) return;
  still->at = UINT64_MAX;
  if (!any_waits(owner)) return;
  for (uint32_t i = 0; i < owner->n_neighbours; i++)
    by_job_note_wait(owner->job, still->since, &owner->neighbours[i].process, 1);
  still->after *= 2;
  still->at = now + still->after;
}

/* ---- time */

static bool ask_rank_0(const struct by_submitter *owner, const struct by_submitted *s) {
  char passed[200];
  snprintf(passed, sizeof passed, "the deadline of operation \"%.120s\" passed", s->name);
  return by_job_control(owner->job) && by_control_ask(by_job_control(owner->job), passed, "other ranks to submit it");
}

static void end_alone(struct by_submitter *owner, const struct by_submitted *s) {
  struct by_job *job = owner->job;
  struct by_text text;
  bool mute = s->state == BY_SUBMITTED_RANK_0_ASKED;
  by_text_init(&text);
  if (mute)
    by_text_add(
        &text,
        "the deadline of operation \"%s\" passed, and %s does not answer: is it stopped, or its machine overloaded?",
        s->name, by_job_name(job, 0));
  else
    by_text_add(&text, "%s has waited too long for other ranks to submit operation \"%s\"",
                by_job_name(job, by_job_rank(job)), s->name);
  add_left(&text, owner->comm);
  by_engine_fail(by_job_engine(job), BANYAN_ERR_TIMEOUT, mute ? 0 : UINT32_MAX, by_text_get(&text));
  by_text_fini(&text);
}

/* Gives up an operation after its deadline. First the root of the controllers finds out which ranks lack it, and ends
 * the job. If it does not, rank 0 finds out which rank does not answer. If rank 0 does not answer either, it is to
 * blame. */
static void give_up(struct by_submitter *owner, struct by_submitted *s, uint64_t now) {
  s->limit = now + MESSAGE_SECONDS * BY_SECOND;
  if (s->state == BY_SUBMITTED_WAITS) {
    by_submitted_set_state(s, BY_SUBMITTED_ROOT_ASKED);
    if (by_job_control(owner->job)) by_control_have_listen(by_job_control(owner->job));
    by_controller_late(owner->controller, s->name, &s->operation, now);
    owner->dirty = true;
  } else if (s->state == BY_SUBMITTED_ROOT_ASKED && ask_rank_0(owner, s)) {
    by_submitted_set_state(s, BY_SUBMITTED_RANK_0_ASKED);
  } else {
    end_alone(owner, s);
  }
}

/* Shortens the deadlines of waiting operations after a process has left, since those that wait for it will not start.
 * The rest of the time allows starts that are being announced. */
static void hasten_waiting(struct by_job *job) {
  uint64_t soon = by_clock_now(&by_clock_system) + MESSAGE_SECONDS * BY_SECOND;
  for (const struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next) {
    struct by_submitter *owner = by_named_submitter(comm);
    struct by_submitted *s;
    if (!owner || LIST_EMPTY(&owner->operations.open)) continue;
    LIST_FOREACH(s, &owner->operations.open, entry) s->limit = MIN(s->limit, soon);
    owner->deadline = MIN(owner->deadline, soon);
  }
}

static void end_late(struct by_submitter *owner, uint64_t now) {
  struct by_submitted *s;
  owner->deadline = UINT64_MAX;
  LIST_FOREACH(s, &owner->operations.open, entry) {
    if (s->state == BY_SUBMITTED_RUNS) continue;
    if (s->limit <= now) give_up(owner, s, now);
    owner->deadline = MIN(owner->deadline, s->limit);
  }
}

static uint64_t find_deadline(const struct by_job *job) {
  uint64_t least = UINT64_MAX;
  for (struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next) {
    const struct by_submitter *owner = by_named_submitter(comm);
    if (!owner) continue;
    least = MIN(least, by_controller_deadline(owner->controller));
    least = MIN(least, owner->deadline);
    least = MIN(least, owner->still.at);
  }
  return least;
}

static void check_deadlines(struct by_job *job) {
  uint64_t now = by_clock_now(&by_clock_system);
  if (find_deadline(job) > now) return;
  for (struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next) {
    struct by_submitter *owner = by_named_submitter(comm);
    if (!owner) continue;
    if (by_controller_deadline(owner->controller) <= now) {
      if (by_job_control(job)) by_control_have_listen(by_job_control(job));
      by_controller_check(owner->controller, now);
      owner->dirty = true;
    }
    if (owner->deadline <= now) end_late(owner, now);
    ask_if_still(owner, now);
  }
}

static void detach(struct by_job *job) {
  for (struct by_control_message *message = by_named_of(job)->messages, *next; message; message = next) {
    next = message->next;
    by_control_message_free(by_job_engine(job), message);
  }
}

const struct by_feature by_named_feature = {.key = &by_named_key,
                                            .detach = detach,
                                            .advance = advance_all,
                                            .has_work = has_work,
                                            .deadline = find_deadline,
                                            .check_deadlines = check_deadlines,
                                            .take_messages = take_all_messages,
                                            .process_left = hasten_waiting,
                                            .listen = listen_to_all,
                                            .comm_made = take_kept_messages,
                                            .comm_closes = forget_comm,
                                            .add_series = add_series};
