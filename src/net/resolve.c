#include "resolve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"

#define MOST_ADDRESSES 16

struct by_resolving {
  _Atomic int holders; /* the thread, and who started it */
  _Atomic bool done;
  unsigned turn;
  struct by_address found[MOST_ADDRESSES]; /* these once it is done */
  size_t n;
  enum banyan_status status;
  char error[256];
  char text[];
};

static void let_go(struct by_resolving *resolving) {
  if (atomic_fetch_sub(&resolving->holders, 1) == 1) free(resolving);
}

static void *look_up(void *argument) {
  struct by_resolving *resolving = argument;
  resolving->status = by_address_resolve(resolving->text, resolving->found, MOST_ADDRESSES, &resolving->n);
  if (resolving->status != BANYAN_OK) snprintf(resolving->error, sizeof resolving->error, "%s", banyan_error_text());
  atomic_store(&resolving->done, true);
  let_go(resolving);
  return NULL;
}

static int start_thread(struct by_resolving *resolving) {
  pthread_t thread;
  int error = by_thread_start(&thread, look_up, resolving);
  if (!error) pthread_detach(thread);
  return error;
}

enum banyan_status by_resolving_start(const char *text, unsigned turn, struct by_resolving **out) {
  struct by_resolving *resolving = calloc(1, sizeof *resolving + strlen(text) + 1);
  if (!resolving) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for looking up %s", text);
  strcpy(resolving->text, text);
  resolving->turn = turn;
  atomic_store(&resolving->holders, 2);
  int error = start_thread(resolving);
  if (error) {
    free(resolving);
    return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread to look up %s", text);
  }
  *out = resolving;
  return BANYAN_OK;
}

static enum banyan_status look(struct by_resolving *resolving, bool *done) {
  *done = atomic_load(&resolving->done);
  return !*done || resolving->status == BANYAN_OK ? BANYAN_OK : by_fail(resolving->status, "%s", resolving->error);
}

enum banyan_status by_resolving_look(struct by_resolving *resolving, struct by_address *out, bool *done) {
  BY_TRY(look(resolving, done));
  if (*done) *out = resolving->found[resolving->turn % resolving->n];
  return BANYAN_OK;
}

enum banyan_status by_resolving_look_all(struct by_resolving *resolving, struct by_address *out, size_t most, size_t *n,
                                         bool *done) {
  BY_TRY(look(resolving, done));
  *n = !*done ? 0 : resolving->n < most ? resolving->n : most;
  memcpy(out, resolving->found, *n * sizeof *out);
  return BANYAN_OK;
}

void by_resolving_destroy(struct by_resolving *resolving) {
  if (resolving) let_go(resolving);
}
