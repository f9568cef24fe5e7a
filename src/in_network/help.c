/* Runs a helper of a job: see serve.h. */
#include <stdio.h>

#include "comm.h"
#include "control.h"
#include "follow.h"
#include "log.h"
#include "serve.h"

enum { LAST_MS = 2000 /* Time for calls in progress when rank 0 has left. */ };

struct help {
  struct by_job *job, *next; /* next: NULL if the next membership is not joined. */
  struct by_follower *follower;
  volatile sig_atomic_t *stop;
  uint64_t until; /* End of the wait after rank 0 has left; 0: it is there. */
  bool over;      /* This membership is over. */
};

/* Returns whether the helper is done. Ranks leave when all calls are over everywhere; no process needs what this helper
 * still sends then. */
static bool is_over(void *argument) {
  struct help *help = argument;
  struct by_job *job = help->job;
  if (*help->stop || by_engine_status(by_job_engine(job)) != BANYAN_OK) return true;
  if (!by_control_is_over(by_job_control(job))) return false;
  uint64_t now = by_clock_now(&by_clock_system);
  if (!help->until) help->until = now + LAST_MS * BY_MILLISECOND;
  return !by_engine_get_state(by_job_engine(job))->pending || now >= help->until;
}

/* Runs the follower at each look, which is often enough, as no wait is longer than 100 ms. */
static bool has_news(void *argument) {
  struct help *help = argument;
  help->over = help->over || is_over(argument);
  return help->over || by_follower_has_news(help->follower);
}

/* Helps in one membership, or in the job. Under lock. */
static void help_one(struct help *help) {
  struct by_job *job = help->job;
  while (!*help->stop) {
    by_progress_wait(job, has_news, help);
    by_job_unlock(job);
    by_follower_look(help->follower, job, help->over);
    help->next = by_follower_take(help->follower);
    by_job_lock(job);
    if (help->next || (help->over && !by_follower_hopes(help->follower))) return;
  }
}

static enum banyan_status help_all(struct help *help, void (*joined)(const char *name, uint32_t ranks)) {
  enum banyan_status status = BANYAN_OK;
  char text[1024] = "";
  for (struct by_job *job; (job = help->job);) {
    by_job_lock(job);
    by_info("communicator", "%s helps %u ranks", by_job_name(job, by_job_rank(job)), by_job_size(job));
    if (joined) joined(by_job_members(job)[by_job_rank(job)].host, by_job_size(job));
    help_one(help);
    status = help->next ? BANYAN_OK : by_engine_status(by_job_engine(job));
    snprintf(text, sizeof text, "%s", by_engine_get_state(by_job_engine(job))->error);
    by_job_unlock(job);
    by_job_release(job);
    help->job = help->next;
    help->next = NULL;
    help->until = 0;
    help->over = false;
  }
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}

enum banyan_status by_helper_run(const struct banyan_options *options, volatile sig_atomic_t *stop,
                                 void (*joined)(const char *name, uint32_t ranks)) {
  struct banyan_options own = options ? *options : (struct banyan_options){0};
  struct by_process_identity *identity;
  BY_TRY(by_process_identity_create(&identity));
  struct help help = {.stop = stop, .follower = by_follower_create(&own, identity, NULL, NULL)};
  by_process_identity_destroy(identity); /* The follower holds the identity. */
  if (!help.follower) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a helper");
  const struct by_job_role role = by_follower_role(help.follower);
  enum banyan_status status = by_follower_find_members(help.follower, &own);
  if (status == BANYAN_OK) status = by_job_create(&own, &role, &help.job);
  if (status == BANYAN_OK) status = help_all(&help, joined);
  char text[1024];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_follower_destroy(help.follower);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}
