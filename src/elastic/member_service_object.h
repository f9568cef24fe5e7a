/* What the files of a member's service share: member_service.c has its life and what happens on its thread,
 * member_calls.c what the program's threads ask of it, above that. */
#ifndef BY_ELASTIC_MEMBER_SERVICE_OBJECT_H
#define BY_ELASTIC_MEMBER_SERVICE_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>

#include "detection.h"
#include "lists.h"
#include "machines.h"
#include "member_links.h"
#include "member_service.h"
#include "newcomers.h"
#include "reports.h"

enum { BY_SERVICE_TEXT = 1024 };

struct by_member_service {
  atomic_uint holders;
  struct by_member_service_options options;
  struct by_key_ring *keys; /* held */
  pthread_t thread;
  pthread_mutex_t beginning; /* of the next one, and of making `links`: several threads may be the first */
  bool runs;
  struct by_loop *loop;
  int listener; /* until the connections have it */
  atomic_bool forms;
  _Atomic uint64_t newest;
  _Atomic uint32_t n_waiting; /* newcomers, and 1 if this process wants to leave */
  struct by_reports reports;  /* of other threads */
  /* The loop's thread: */
  struct by_member_links *links;
  struct by_machines machines;
  struct by_detection *detection;
  struct by_newcomers newcomers;
  struct by_asking asking;
  struct by_timer interrupting; /* until the calls of the program's group are ended */
  uint32_t interrupts;
  struct by_timer repeating;
  struct by_repeated {
    void (*call)(void *context); /* NULL: nothing is repeated */
    void *context;
    uint64_t pause;
  } repeated;
  /* The rest under this lock. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended;
  struct by_lists lists;     /* which only the loop's thread changes */
  char why[BY_SERVICE_TEXT]; /* it has; or what the last process that was asked to let this one join has answered */
  uint64_t number;           /* of the program's group */
  bool (*interrupt)(void *context, const char *text, bool at_once);
  void *interrupted;
};

/* ---- member_service.c */

/* Its thread runs afterwards. */
BANYAN_CHECK enum banyan_status by_member_service_begin(struct by_member_service *service);
/* Under lock. Ends the calls of the program's group if it is not the newest one. Whether they have not ended yet. */
bool by_member_service_interrupt(struct by_member_service *service, bool at_once);
/* For by_member_service_change_wanted. */
void by_member_service_count_waiting(struct by_member_service *service);
/* Watches the processes of the newest membership that are known and on this host. */
void by_member_service_watch_members(struct by_member_service *service);

/* FORMS or DIFFERS. */
void by_member_service_send_list(const struct by_member_service *service, const struct by_fingerprint *to,
                                 enum by_member_frame type, const struct by_member_list *list);
/* Lists under this name differ: see lists.h. */
void by_member_service_differ(struct by_member_service *service, uint64_t name, const char *text);

#endif
