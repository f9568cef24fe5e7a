/* Meeting through PMIx, which Open MPI's mpirun and Slurm offer. The library
 * is loaded only in a process that was started under it. */
#include "settings.h"

#if defined(BY_HAVE_PMIX)
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "job_key.h"
#include "library.h"
#include "log.h"

struct library {
  pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t info[], size_t n);
  pmix_status_t (*finalize)(const pmix_info_t info[], size_t n);
  pmix_status_t (*put)(pmix_scope_t scope, const char key[], pmix_value_t *value);
  pmix_status_t (*commit)(void);
  pmix_status_t (*fence)(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t n_info,
                         pmix_op_cbfunc_t done, void *context);
  pmix_status_t (*get)(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t n,
                       pmix_value_t **value);
};

static bool load(struct library *l) {
  static const char *const names[] = {"PMIx_Init",     "PMIx_Finalize", "PMIx_Put", "PMIx_Commit",
                                      "PMIx_Fence_nb", "PMIx_Get"}; /* The order is that of struct library. */
  static bool loaded;
  if (!loaded) loaded = !by_library_load("PMIx", "libpmix.so.2", "libpmix2", names, sizeof names / sizeof *names, l);
  return loaded;
}

/* Rank 0's meeting point and the job's key. */
static enum banyan_status choose(const struct by_settings *s, char *out, size_t room) {
  char root[BANYAN_ROOT_TEXT], key[BY_JOB_KEY_TEXT];
  BY_TRY(by_root_choose(s, false, root));
  BY_TRY(by_job_key_create(key));
  snprintf(out, room, "%s %s", root, key);
  explicit_bzero(key, sizeof key);
  return BANYAN_OK;
}

/* A fence under way. Static: its end may come after the wait for it has ended. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended;
  pmix_status_t status;
} fence = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void fence_ended(pmix_status_t status, void *context) {
  (void)context;
  pthread_mutex_lock(&fence.lock);
  fence.ended = true;
  fence.status = status;
  pthread_cond_broadcast(&fence.changed);
  pthread_mutex_unlock(&fence.lock);
}

static enum banyan_status await_fence(double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)seconds + 1;
  pthread_mutex_lock(&fence.lock);
  int error = 0;
  while (!fence.ended && !error) error = pthread_cond_timedwait(&fence.changed, &fence.lock, &until);
  bool ended = fence.ended, well = ended && fence.status == PMIX_SUCCESS;
  pthread_mutex_unlock(&fence.lock);
  if (!ended)
    return by_fail(BANYAN_ERR_TIMEOUT,
                   "not all ranks came to meet through PMIx within %g s; were all of them started, without BANYAN_ROOT "
                   "and BANYAN_KEY_FILE?",
                   seconds);
  return well ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "PMIx failed; set BANYAN_ROOT and BANYAN_KEY_FILE instead");
}

/* Waits until all ranks have published their values, and fetches these. */
static enum banyan_status meet_all(const struct library *l, double seconds) {
  static pmix_info_t info; /* PMIx may use it until the process ends. */
  snprintf(info.key, sizeof info.key, "%s", PMIX_COLLECT_DATA);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  pmix_status_t begun = l->fence(NULL, 0, &info, 1, fence_ended, NULL);
  if (begun == PMIX_OPERATION_SUCCEEDED) return BANYAN_OK;
  if (begun != PMIX_SUCCESS)
    return by_fail(BANYAN_ERR_SYSTEM, "PMIx has no fence; set BANYAN_ROOT and BANYAN_KEY_FILE instead");
  return await_fence(seconds);
}

static enum banyan_status get(const struct library *l, const pmix_proc_t *root, double seconds, struct by_settings *s) {
  char meet[sizeof s->root_text], key[BY_JOB_KEY_TEXT];
  _Static_assert(sizeof meet == 384 && sizeof key == 85, "sscanf below takes as much");
  pmix_value_t *got = NULL;
  pmix_info_t info;
  memset(&info, 0, sizeof info);
  snprintf(info.key, sizeof info.key, "%s", PMIX_TIMEOUT);
  info.value.type = PMIX_INT;
  info.value.data.integer = (int)seconds + 1;
  if (l->get(root, "banyan.meet", &info, 1, &got) != PMIX_SUCCESS || !got || got->type != PMIX_STRING)
    return by_fail(BANYAN_ERR_SYSTEM, "PMIx gave no meeting point; set BANYAN_ROOT and BANYAN_KEY_FILE instead");
  bool whole = sscanf(got->data.string, "%383s %84s", meet, key) == 2;
  explicit_bzero(got->data.string, strlen(got->data.string));
  free(got->data.string);
  free(got);
  if (!whole) return by_fail(BANYAN_ERR_PARSE, "PMIx gave a malformed meeting point");
  snprintf(s->root_text, sizeof s->root_text, "%s", meet);
  snprintf(s->key_text, sizeof s->key_text, "%s", key);
  explicit_bzero(key, sizeof key);
  s->root = s->root_text;
  s->key = s->key_text;
  return BANYAN_OK;
}

static enum banyan_status exchange(const struct library *l, struct by_settings *s, const pmix_proc_t *self) {
  static char text[sizeof s->root_text + sizeof s->key_text];
  pmix_proc_t root = *self;
  root.rank = 0;
  if (self->rank == 0) {
    BY_TRY(choose(s, text, sizeof text));
    pmix_value_t value = {.type = PMIX_STRING, .data.string = text};
    if (l->put(PMIX_GLOBAL, "banyan.meet", &value) != PMIX_SUCCESS || l->commit() != PMIX_SUCCESS)
      return by_fail(BANYAN_ERR_SYSTEM, "PMIx took no meeting point; set BANYAN_ROOT and BANYAN_KEY_FILE instead");
  }
  BY_TRY(meet_all(l, s->join_deadline));
  return get(l, &root, s->join_deadline, s);
}

/* Once a process: a second job of the same processes meets at the same place. */
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static struct library library;
static struct by_settings met;
static bool has_met;

/* Launchers take a process that ends without this for one that failed. */
static void leave(void) {
  library.finalize(NULL, 0);
}

static enum banyan_status meet(const struct by_settings *s) {
  pmix_proc_t self;
  if (has_met) return BANYAN_OK;
  if (!load(&library)) {
    by_info("communicator", "started under PMIx, but %s", banyan_error_text());
    return BANYAN_OK;
  }
  if (library.init(&self, NULL, 0) != PMIX_SUCCESS) return BANYAN_OK;
  if (atexit(leave) != 0) by_warn("communicator", "PMIx cannot be left in order at exit");
  met = (struct by_settings){.iface = s->iface, .ports = s->ports, .join_deadline = s->join_deadline};
  BY_TRY(exchange(&library, &met, &self));
  by_info("communicator", "met through PMIx at %s", met.root);
  has_met = true;
  return BANYAN_OK;
}

/* What a launcher's variables suggest is no place that somebody set: PMIx has rank 0's fingerprint with it. */
enum banyan_status by_pmix_read(struct by_settings *s) {
  bool has_place = s->root && s->root != s->root_text, has_key = s->key || s->key_file;
  if ((has_place && has_key) || !getenv("PMIX_NAMESPACE") || s->size < 2) return BANYAN_OK;
  pthread_mutex_lock(&once);
  enum banyan_status status = meet(s);
  pthread_mutex_unlock(&once);
  if (status != BANYAN_OK || !has_met) return status;
  if (!has_place) s->root = met.root;
  if (has_key) return BANYAN_OK;
  memcpy(s->key_text, met.key_text, sizeof s->key_text);
  s->key = s->key_text;
  return BANYAN_OK;
}
#else
enum banyan_status by_pmix_read(struct by_settings *settings) {
  (void)settings;
  return BANYAN_OK;
}
#endif
