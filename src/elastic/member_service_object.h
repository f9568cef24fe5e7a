/* What the files of a member's service share: member_service.c has its life and what happens on its thread,
 * member_calls.c what the program's threads ask of it, above that. */
#ifndef BY_ELASTIC_MEMBER_SERVICE_OBJECT_H
#define BY_ELASTIC_MEMBER_SERVICE_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>

#include "detection.h"
#include "machines.h"
#include "member_links.h"
#include "member_records.h"
#include "member_service.h"

enum { BY_SERVICE_TEXT = 1024 };

struct by_member_service {
  atomic_uint holders;
  struct by_member_service_options options;
  struct by_key_ring *keys; /* A reference is held. */
  pthread_t thread;
  /* Protects `runs` and the creation of `links` and the thread, since several threads may be the first to begin. */
  pthread_mutex_t beginning;
  bool runs;
  struct by_loop *loop;
  int listener; /* Listening socket; -1 once `links` owns it. */
  atomic_bool forms;
  _Atomic uint64_t newest;
  _Atomic uint32_t n_waiting; /* Number of waiting newcomers, plus 1 if this process wants to leave. */
  struct by_reports reports;  /* Reports of other threads. */
  /* The fields below are used by the loop's thread. */
  struct by_member_links *links;
  struct by_machines machines;
  struct by_detection *detection;
  struct by_newcomers newcomers;
  struct by_asking asking;
  struct by_timer interrupting; /* Delay until the calls of the program's group are interrupted. */
  uint32_t interrupts;
  struct by_timer repeating;
  struct by_repeated {
    void (*call)(void *context); /* NULL if nothing is repeated. */
    void *context;
    uint64_t pause;
  } repeated;
  /* Protects the fields below. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended;
  struct by_lists lists;     /* Changed only by the loop's thread. */
  char why[BY_SERVICE_TEXT]; /* Why the membership has ended, or the last refusal of a request to join. */
  uint64_t number;           /* Number of the membership of the program's group. */
  bool (*interrupt)(void *context, const char *text, bool at_once);
  void *interrupted;
};

/* ---- member_service.c */

/* Starts the service's thread unless it runs. */
BANYAN_CHECK enum banyan_status by_member_service_begin(struct by_member_service *service);
/* Interrupts the calls of the program's group if that is not the newest membership. Called under lock. Returns whether
 * calls have not ended yet. */
bool by_member_service_interrupt(struct by_member_service *service, bool at_once);
/* Updates the count that by_member_service_change_wanted returns. */
void by_member_service_count_waiting(struct by_member_service *service);
/* Watches the processes of the newest membership that are known and on this host. */
void by_member_service_watch_members(struct by_member_service *service);

/* Sends a list as a FORMS or DIFFERS message. */
void by_member_service_send_list(const struct by_member_service *service, const struct by_fingerprint *to,
                                 enum by_member_frame type, const struct by_member_list *list);
/* Notes that lists under this name differ, as the text says. */
void by_member_service_differ(struct by_member_service *service, uint64_t name, const char *text);

#endif
