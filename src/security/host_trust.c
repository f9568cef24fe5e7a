/* Judges peers by the statements of their hosts' agents, and follows the cluster's authority. */
#include "host_trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "refusal.h"

struct by_host_trust {
  struct by_loop *loop;
  struct by_own_statement *own;
  struct by_tls_watch *authority; /* NULL: it is not known here. */
  bool news;                      /* Its files have changed since the last call of `looked`. */
  struct by_timer timer;          /* Used without an authority. */
  void (*looked)(void *context);
  void *context;
};

static void note_change(void *context) {
  struct by_host_trust *trust = context;
  trust->news = true;
}

static void notify_looked(void *context) {
  struct by_host_trust *trust = context;
  by_own_statement_renew(trust->own, by_loop_now(trust->loop));
  trust->looked(trust->context);
  trust->news = false;
}

static void look_without_authority(void *context) {
  struct by_host_trust *trust = context;
  by_loop_set_delay(trust->loop, &trust->timer, BY_TLS_LOOK);
  notify_looked(trust);
}

/* Follows the authority's files. Without them there is no cluster, or this host is in none. */
static enum banyan_status follow_authority(struct by_host_trust *trust) {
  const struct by_own_statement_facts *facts = by_own_statement_facts(trust->own);
  const struct by_tls_watch_options options = {.loop = trust->loop,
                                               .folder = facts->keys,
                                               .role = BY_TLS_NOBODY,
                                               .changed = note_change,
                                               .looked = notify_looked,
                                               .context = trust};
  char path[512];
  snprintf(path, sizeof path, "%s/" BY_TLS_AUTHORITY, facts->keys ? facts->keys : by_tls_folder());
  bool none = access(path, F_OK) != 0;
  enum banyan_status status =
      none ? by_fail(BANYAN_ERR_SYSTEM, "there is no %s", path) : by_tls_watch_create(&options, &trust->authority);
  if (status == BANYAN_OK) return BANYAN_OK;
  if (facts->required)
    return by_fail_within(BANYAN_ERR_AUTH, "the policy of this host requires that other processes are certified, which "
                                           "cannot be checked");
  if (!none) by_warn("net", "processes of other hosts are not checked: %s", banyan_error_text());
  if (facts->may_come) by_loop_set_delay(trust->loop, &trust->timer, BY_TLS_LOOK);
  return BANYAN_OK;
}

enum banyan_status by_host_trust_create(struct by_loop *loop, struct by_own_statement *own,
                                        void (*looked)(void *context), void *context, struct by_host_trust **out) {
  *out = NULL;
  if (!own) return BANYAN_OK;
  struct by_host_trust *trust = calloc(1, sizeof *trust);
  if (!trust) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the authority of a cluster");
  *trust =
      (struct by_host_trust){.loop = loop, .own = by_own_statement_hold(own), .looked = looked, .context = context};
  by_timer_init(&trust->timer, look_without_authority, trust);
  enum banyan_status status = follow_authority(trust);
  if (status == BANYAN_OK)
    *out = trust;
  else
    by_host_trust_destroy(trust);
  return status;
}

void by_host_trust_destroy(struct by_host_trust *trust) {
  if (!trust) return;
  by_tls_watch_destroy(trust->authority);
  by_loop_cancel_timer(&trust->timer);
  by_own_statement_release(trust->own);
  free(trust);
}

void by_host_trust_look(struct by_host_trust *trust) {
  if (!trust) return;
  if (trust->authority) by_tls_watch_look(trust->authority);
  notify_looked(trust);
}

static enum banyan_status check_user(const struct by_host_trust *trust, const struct by_trust_peer *peer,
                                     const struct by_stated *stated) {
  const struct by_own_statement_facts *facts = by_own_statement_facts(trust->own);
  uint32_t user;
  if (!facts->required || peer->is_helper || !facts->job || !by_own_statement_get_user(trust->own, &user) ||
      user == stated->user)
    return BANYAN_OK;
  return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                   "the peer's process is of user %u of host %.64s, and this one of user %u: the policy of this host "
                   "requires the same user",
                   stated->user, peer->host, user);
}

enum banyan_status by_host_trust_check(struct by_host_trust *trust, const struct by_trust_peer *peer,
                                       struct by_stated *out) {
  *out = (struct by_stated){0};
  if (!trust || !peer->process) return BANYAN_OK;
  const struct by_own_statement_facts *facts = by_own_statement_facts(trust->own);
  if (!peer->length && facts->required)
    return by_refuse(
        BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
        "the peer's process on host %.64s is not certified by its host's agent, as the policy of this host "
        "requires: does `banyan agent` run there with a certificate?",
        peer->host);
  if (!peer->length || !trust->authority) return BANYAN_OK;
  struct by_statement_claim claim = {
      .job = peer->is_helper ? BY_STATEMENT_NO_JOB : facts->job, .host = peer->host, .process = peer->process};
  BY_TRY(by_statement_check(peer->statement, peer->length, by_tls_watch_get(trust->authority), &claim,
                            (uint64_t)time(NULL), out));
  enum banyan_status status = check_user(trust, peer, out);
  if (status != BANYAN_OK) by_stated_fini(out);
  return status;
}

enum banyan_status by_host_trust_judge(struct by_host_trust *trust, struct by_stated *stated) {
  uint64_t now = (uint64_t)time(NULL);
  if (!trust || !trust->authority || !stated->certificate || (!trust->news && (int64_t)now <= stated->until))
    return BANYAN_OK;
  return by_stated_judge(stated, by_tls_watch_get(trust->authority), now);
}
