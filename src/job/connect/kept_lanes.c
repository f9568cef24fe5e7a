/* Lanes that a link had in the membership before: they become its lanes here, once both ends have changed. Of a pair
 * the higher process, which would connect, answers and may give up; the lower one waits for it, or for the end of the
 * lanes, or for other connections. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "connection.h"
#include "job_state.h"
#include "lane.h"
#include "log.h"

enum { MARKER_MS = 1000 }; /* Time for the lower process to change, too. */

struct by_kept {
  struct by_connect_target *target;
  struct by_connector *connector; /* Set until there is a target. */
  uint32_t process, n;
  struct by_handover handovers[BY_LANES];
  struct by_watch *watches[BY_LANES];
  struct by_timer late;
  bool wanted; /* Calls wait for the link. */
};

static void free_kept(struct by_kept *kept, bool lanes) {
  for (uint32_t i = 0; i < kept->n; i++) {
    struct by_lane *lane = kept->handovers[i].lane;
    by_loop_unwatch(kept->watches[i]);
    if (lanes) lane->ops->destroy(lane);
  }
  by_loop_cancel_timer(&kept->late);
  if (kept->target) kept->target->kept = NULL;
  free(kept);
}

/* Gives the kept lanes up: the link is made anew. */
static void give_up(struct by_kept *kept, const char *why) {
  struct by_connect_target *target = kept->target;
  bool wanted = kept->wanted;
  by_info("net", "the connection to %s is not kept: %s", by_job_name(target->connector->job, target->process), why);
  free_kept(kept, true);
  if (wanted) target->kept_ended(target, false);
}

static void is_late(void *context) {
  give_up(context, "its other end has not changed to this membership in time");
}

static void attach(struct by_kept *kept) {
  struct by_connect_target *target = kept->target;
  const struct by_connector_events *events = &target->connector->events;
  struct by_lane *lanes[BY_LANES];
  uint32_t n = kept->n;
  for (uint32_t i = 0; i < n; i++) lanes[i] = kept->handovers[i].lane;
  free_kept(kept, false);
  target->kept_ended(target, true);
  by_info("net", "link to %s over a kept connection", by_job_name(target->connector->job, target->process));
  events->attach(events->context, target->process, lanes, n);
}

static void advance(struct by_kept *kept) {
  uint32_t through = 0;
  for (uint32_t i = 0; i < kept->n; i++) {
    struct by_handover *handover = &kept->handovers[i];
    if (by_handover_progress(handover)) through++;
    if (handover->lane->status != BANYAN_OK) {
      give_up(kept, handover->lane->error);
      return;
    }
    uint32_t in = handover->received ? 0 : EPOLLIN, out = by_handover_sends(handover) ? EPOLLOUT : 0;
    by_loop_change(kept->watches[i], in | out);
  }
  if (through == kept->n) attach(kept);
}

static void is_ready(void *context, uint32_t events) {
  if (events & (EPOLLERR | EPOLLHUP))
    give_up(context, "its connection was closed");
  else
    advance(context);
}

static void begin(void *context) {
  struct by_kept *kept = context;
  struct by_connector *connector = kept->connector;
  struct by_loop *loop = connector->job->loop;
  kept->target = connector->targets[kept->process];
  if (kept->target->state != BY_TARGET_IDLE || kept->target->have) { /* Another connection is being made. */
    kept->target = NULL;
    free_kept(kept, true);
    return;
  }
  kept->target->kept = kept;
  for (uint32_t i = 0; i < kept->n; i++) {
    int fd = kept->handovers[i].lane->poll_fd;
    if (by_loop_watch(loop, fd, EPOLLIN | EPOLLOUT, is_ready, kept, &kept->watches[i]) == BANYAN_OK) continue;
    give_up(kept, banyan_error_text());
    return;
  }
  if (kept->handovers[0].answers) by_loop_set_delay(loop, &kept->late, MARKER_MS * BY_MILLISECOND);
  advance(kept);
}

static void destroy_lanes(struct by_lane *const *lanes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) lanes[i]->ops->destroy(lanes[i]);
}

void by_connector_keep(struct by_connector *connector, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct by_kept *kept = calloc(1, sizeof *kept);
  if (!kept) {
    destroy_lanes(lanes, n);
    return;
  }
  *kept = (struct by_kept){.connector = connector, .process = process, .n = n};
  by_timer_init(&kept->late, is_late, kept);
  bool answers = process < connector->job->rank;
  for (uint32_t i = 0; i < n; i++) by_handover_init(&kept->handovers[i], lanes[i], connector->job->membership, answers);
  if (by_loop_post(connector->job->loop, begin, kept) != BANYAN_OK) free_kept(kept, true);
}

bool by_target_awaits_kept(struct by_connect_target *target) {
  if (target->kept) target->kept->wanted = true;
  return target->kept;
}

void by_target_forget_kept(struct by_connect_target *target) {
  if (target->kept) free_kept(target->kept, true);
}
