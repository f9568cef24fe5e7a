/* Targets: all that is tried to reach one process. */
#include <stdio.h>
#include <string.h>

#include "connector_parts.h"
#include "control.h"
#include "log.h"

enum {
  STAGGER_MS = 100,
  LACKING_S = 5,     /* out of descriptors: the program may close some */
  VERDICT_MS = 1000, /* longer than control waits for the name of a dead rank, */
  SILENT_MS = 6000   /* and than rank 0 waits for a sign of life of a helper */
};

void by_target_finish(struct target *target) {
  target->done = true;
  target->active = false;
  by_loop_cancel_timer(&target->stagger);
  by_loop_cancel_timer(&target->patience);
  by_loop_cancel_timer(&target->lacking);
  by_attempts_free(target);
  if (target->winner.length) by_target_forget_connections(target); /* what was made from here */
}

/* Ends the calls here; control then tells all other ranks, the peer among them. Only helpers connect to helpers: one
 * that finds no way to another one goes itself, and leaves that to those who have one. If it is lost already, nobody
 * needs the link. */
static void give_verdict(void *argument) {
  struct target *target = argument;
  struct by_context *context = target->connector->context;
  bool own = target->last_status == BANYAN_ERR_SYSTEM; /* the peer has no part in it */
  char text[900];
  snprintf(text, sizeof text, "%s has no link to %s: %s", by_context_name(context, context->rank),
           by_context_name(context, target->process), target->last_error);
  by_context_lock(context);
  if (context->left[target->process])
    by_engine_left(context->engine, target->process, true);
  else if (by_engine_attached(context->engine, target->process))
    by_debug("net", "a verdict that came too late: %s", text);
  else if (by_engine_has_lost(context->engine, target->process))
    by_debug("net", "a verdict on who is lost: %s", text);
  else
    by_engine_fail(context->engine, BANYAN_ERR_CONNECT, own ? context->rank : target->process, text);
  pthread_cond_broadcast(&context->changed);
  by_context_unlock(context);
  by_context_wake(context);
}

static bool has_left(const struct target *target) {
  struct by_context *context = target->connector->context;
  by_context_lock(context);
  bool left = context->left[target->process];
  by_context_unlock(context);
  return left;
}

/* Perhaps it died, or ended because the job failed: if so, rank 0 says that first. Of a helper whose host is gone it
 * may not know yet: it is asked to find out. */
static void await_verdict(struct target *target) {
  const struct by_context *context = target->connector->context;
  by_target_finish(target);
  if (has_left(target)) {
    give_verdict(target);
    return;
  }
  bool asked = target->process >= context->size && by_control_ask(context->control, NULL, NULL);
  by_loop_set_delay(context->loop, &target->verdict, (asked ? SILENT_MS : VERDICT_MS) * BY_MILLISECOND);
}

void by_connector_left(struct by_connector *connector, uint32_t process) {
  struct target *target = connector->targets[process];
  if (!by_timer_is_set(&target->verdict)) return;
  by_loop_cancel_timer(&target->verdict);
  give_verdict(target);
}

void by_target_fail(struct target *target, const char *why) {
  char reason[sizeof target->last_error];
  snprintf(reason, sizeof reason, "%s", target->last_error[0] ? target->last_error : why);
  snprintf(target->last_error, sizeof target->last_error,
           "%.300s; check the firewall between the hosts, and set BANYAN_IFACE if the wrong interface was used",
           reason);
  await_verdict(target);
}

void by_target_note(struct target *target, enum banyan_status status) {
  target->last_status = status;
  if (status != BANYAN_ERR_SYSTEM)
    by_loop_cancel_timer(&target->lacking);
  else if (!by_timer_is_set(&target->lacking))
    by_loop_set_delay(target->connector->context->loop, &target->lacking, LACKING_S * BY_SECOND);
}

static void lacks_for_long(void *context) {
  struct target *target = context;
  by_target_finish(target);
  give_verdict(target);
}

void by_target_broken(struct target *target, enum banyan_status status, const char *what) {
  target->last_status = status;
  snprintf(target->last_error, sizeof target->last_error, "%s: %s", what, banyan_error_text());
  if (status == BANYAN_ERR_PEER_DEAD) {
    await_verdict(target);
  } else {
    by_target_finish(target);
    give_verdict(target);
  }
}

static bool usable_from_here(const struct by_context *context, const struct by_member *peer,
                             const struct by_address *a) {
  return !by_address_is_loopback(a) || by_member_same_network(peer, &context->members[context->rank]);
}

/* Other interfaces are meant, not other names of the same one: the winner's loopback, and its other families. */
static bool is_like(const struct by_address *a, const struct by_address *b) {
  return by_address_family(a) == by_address_family(b) && by_address_is_loopback(a) == by_address_is_loopback(b) &&
         by_address_is_link_local(a) == by_address_is_link_local(b);
}

struct by_address by_target_address_after(const struct target *target, uint32_t places) {
  const struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process];
  const struct by_address *usable[BY_MEMBER_ADDRESSES];
  uint32_t n = 0, won = 0;
  for (uint32_t i = 0; i < peer->n_addresses && n < BY_MEMBER_ADDRESSES; i++) {
    const struct by_address *a = &peer->addresses[i];
    if (!usable_from_here(context, peer, a) || !is_like(a, &target->winner)) continue;
    if (by_address_compare(a, &target->winner) == 0) won = n;
    usable[n++] = a;
  }
  return n ? *usable[(won + places) % n] : target->winner;
}

/* Every address was tried. Where somebody answered and then did not shake hands in time, it is tried again: a rank
 * that is held up for a while is not gone. */
static void end_round(struct target *target) {
  if (target->open) return;
  struct by_context *context = target->connector->context;
  if (!target->again) {
    by_target_fail(target, "it offers no address that can be used from here");
    return;
  }
  by_loop_set_delay(context->loop, &target->stagger, AGAIN_MS * BY_MILLISECOND);
  if (target->process >= context->size) (void)!by_control_ask(context->control, NULL, NULL); /* is it stopped? */
}

void by_target_try_next(struct target *target) {
  struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process];
  if (!target->active) return;
  while (target->next_address < peer->n_addresses &&
         !usable_from_here(context, peer, &peer->addresses[target->next_address]))
    target->next_address++;
  if (target->next_address >= peer->n_addresses) {
    end_round(target);
    return;
  }
  const struct by_address *to = &peer->addresses[target->next_address++];
  by_loop_set_delay(context->loop, &target->stagger, STAGGER_MS * BY_MILLISECOND);
  by_attempt_race(target, to);
}

static void begin_round(struct target *target) {
  const struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process], *self = &context->members[context->rank];
  target->again = false;
  target->next_address = 0;
  if (*peer->local && *self->local && by_member_same_host(peer, self)) {
    target->next_address = UINT32_MAX; /* shared memory or nothing */
    by_attempt_local(target);
  } else {
    by_target_try_next(target);
  }
}

static void stagger_over(void *context) {
  struct target *target = context;
  if (target->again && !target->open)
    begin_round(target);
  else
    by_target_try_next(target);
}

/* "no connection to 10.0.0.1:4000, [fd00::1]:4000" */
static void describe_tried(const struct target *target, char *text, size_t room) {
  const struct by_context *context = target->connector->context;
  const struct by_member *peer = &context->members[target->process];
  char address[BY_ADDRESS_TEXT];
  size_t used = (size_t)snprintf(text, room, "no connection to");
  const char *between = " ";
  for (uint32_t i = 0; i < peer->n_addresses && i < target->next_address; i++) {
    if (!usable_from_here(context, peer, &peer->addresses[i])) continue;
    int n = snprintf(text + used, room - used, "%s%s", between, by_address_print(&peer->addresses[i], address));
    if (n < 0 || (size_t)n >= room - used) break;
    used += (size_t)n;
    between = ", ";
  }
  text[used] = 0;
}

void by_connector_visit_tried(const struct by_connector *connector,
                              void (*visit)(void *context, uint32_t process, uint32_t milliseconds, const char *way),
                              void *context) {
  uint64_t now = by_loop_now(connector->context->loop);
  for (uint32_t p = 0; p < connector->n_targets; p++) {
    const struct target *target = connector->targets[p];
    char way[150];
    if (!by_timer_is_set(&target->patience) || target->again || target->greeting) continue; /* its host answers */
    describe_tried(target, way, sizeof way);
    visit(context, p, (uint32_t)((now + PATIENCE_S * BY_SECOND - target->patience.at) / BY_MILLISECOND), way);
  }
}

static void patience_over(void *context) {
  struct target *target = context;
  char tried[150], why[200];
  describe_tried(target, tried, sizeof tried);
  snprintf(why, sizeof why, "%s within %d s", tried, PATIENCE_S);
  by_target_fail(target, why);
}

void by_target_begin(struct target *target) {
  if (target->active || target->done) return;
  target->active = true;
  by_loop_set_delay(target->connector->context->loop, &target->patience, PATIENCE_S * BY_SECOND);
  begin_round(target);
}

void by_target_init(struct target *target, struct by_connector *connector, uint32_t process) {
  target->connector = connector;
  target->process = process;
  memset(target->fds, 0xff, sizeof target->fds);
  by_timer_init(&target->stagger, stagger_over, target);
  by_timer_init(&target->patience, patience_over, target);
  by_timer_init(&target->lacking, lacks_for_long, target);
  by_timer_init(&target->verdict, give_verdict, target);
}

void by_target_fini(struct target *target) {
  by_target_finish(target);
  by_loop_cancel_timer(&target->verdict);
  by_target_forget_connections(target);
}
