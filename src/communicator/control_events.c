/* What the job's control messages, and the manager's, mean for the communicators of this process. */
#include "agent_client.h"
#include "context.h"
#include "control.h"
#include "moves.h"

static enum banyan_status attach_tree(void *context, const struct by_tree_word *word) {
  return by_context_attach_tree(context, word);
}

static void left(void *context, uint32_t process) {
  by_context_left(context, process);
}

static void begin_listening(void *argument) {
  struct by_context *context = argument;
  by_context_lock(context);
  context->listens = true;
  by_context_kick(context);
  by_context_unlock(context);
}

static bool hear_move(void *context, const struct by_move_word *word, struct by_move_word *answer, char *text,
                      size_t room) {
  return by_moves_hear(context, word, answer, text, room);
}

static struct by_moves_view view_moves(void *context, uint32_t comm) {
  return by_moves_view(context, comm);
}

static bool has_manager(void *context) {
  return ((struct by_context *)context)->cluster != NULL;
}

static void wish(void *context, const struct by_cluster_cells *cells, uint32_t n) {
  by_agent_client_wish(((struct by_context *)context)->cluster, cells, n);
}

static bool may_answer(void *context) {
  return by_agent_client_may_answer(((struct by_context *)context)->cluster);
}

struct by_control_events by_context_control_events(struct by_context *context) {
  return (struct by_control_events){.attach_tree = attach_tree,
                                    .left = left,
                                    .listen = begin_listening,
                                    .hear_move = hear_move,
                                    .view_moves = view_moves,
                                    .has_manager = has_manager,
                                    .wish = wish,
                                    .may_answer = may_answer,
                                    .context = context};
}

/* ---- the agent's client */

static enum banyan_status propose(void *context, uint32_t comm, uint32_t n, const uint32_t *processes,
                                  struct by_plan *plan, const struct by_told_move *tell) {
  return by_moves_propose(context, comm, n, processes, plan, tell);
}

static bool find_given_plan(void *context, char *name, size_t room) {
  return by_plans_find_given(context, name, room);
}

struct by_agent_events by_context_agent_events(struct by_context *context) {
  return (struct by_agent_events){view_moves, propose, find_given_plan, context};
}
