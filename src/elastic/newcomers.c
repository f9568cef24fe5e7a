/* Both sides of joining: the newcomers that wait at a member, and whom a newcomer asks. */
#include "newcomers.h"

#include <stdlib.h>

enum { ASK_MS = 1000, REFUSED_MS = 200 };

/* ---- at a member */

static struct by_newcomer **find(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  struct by_newcomer **place = (struct by_newcomer **)&newcomers->all;
  while (*place && !by_fingerprint_equal(&(*place)->fingerprint, fingerprint)) place = &(*place)->next;
  return place;
}

bool by_newcomers_has(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  return *find(newcomers, fingerprint) != NULL;
}

enum banyan_status by_newcomers_add(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  if (newcomers->n == BY_NEWCOMERS_MOST)
    return by_fail(BANYAN_ERR_CLOSED, "%d processes wait here to join, and no more can: ask another member",
                   BY_NEWCOMERS_MOST);
  struct by_newcomer *newcomer = malloc(sizeof *newcomer);
  if (!newcomer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a process that wants to join");
  *newcomer = (struct by_newcomer){.next = newcomers->all, .fingerprint = *fingerprint};
  newcomers->all = newcomer;
  newcomers->n++;
  return BANYAN_OK;
}

bool by_newcomers_remove(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint) {
  struct by_newcomer **place = find(newcomers, fingerprint), *newcomer = *place;
  if (!newcomer) return false;
  *place = newcomer->next;
  free(newcomer);
  newcomers->n--;
  return true;
}

void by_newcomers_fini(struct by_newcomers *newcomers) {
  while (newcomers->all) by_newcomers_remove(newcomers, &newcomers->all->fingerprint);
}

/* ---- at a process that wants to join */

static void ask(void *context) {
  struct by_asking *asking = context;
  if (!asking->n) return;
  asking->send(asking->context, by_asking_whom(asking));
  by_loop_set_delay(asking->loop, &asking->timer, ASK_MS * BY_MILLISECOND);
}

void by_asking_init(struct by_asking *asking, struct by_loop *loop,
                    void (*send)(void *context, const struct by_fingerprint *to), void *context) {
  *asking = (struct by_asking){.loop = loop, .send = send, .context = context};
  by_timer_init(&asking->timer, ask, asking);
}

void by_asking_begin(struct by_asking *asking, struct by_fingerprint *of, uint32_t n) {
  by_asking_stop(asking);
  asking->of = of;
  asking->n = n;
  asking->at = 0;
  ask(asking);
}

void by_asking_stop(struct by_asking *asking) {
  by_loop_cancel_timer(&asking->timer);
  free(asking->of);
  asking->of = NULL;
  asking->n = 0;
}

const struct by_fingerprint *by_asking_whom(const struct by_asking *asking) {
  return asking->n ? &asking->of[asking->at % asking->n] : NULL;
}

bool by_asking_has(const struct by_asking *asking, const struct by_fingerprint *fingerprint) {
  for (uint32_t i = 0; i < asking->n; i++)
    if (by_fingerprint_equal(&asking->of[i], fingerprint)) return true;
  return false;
}

/* After all processes were asked, there is a pause. */
bool by_asking_refused(struct by_asking *asking, const struct by_fingerprint *by) {
  const struct by_fingerprint *whom = by_asking_whom(asking);
  if (!whom || !by_fingerprint_equal(by, whom)) return false;
  uint64_t delay = ++asking->at % asking->n ? 0 : REFUSED_MS * BY_MILLISECOND;
  by_loop_set_delay(asking->loop, &asking->timer, delay);
  return true;
}
