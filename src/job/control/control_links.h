/* Links for a plan switch: helpers that a new plan names make those that it needs before the ranks are asked. Of a
 * pair, the process with the higher number connects; the other one waits. And how messages of plan switches are sent.
 * On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_LINKS_H
#define BY_JOB_CONTROL_CONTROL_LINKS_H

#include <sys/queue.h>

#include "connector.h"
#include "control.h"
#include "control_peers.h"

enum { BY_PLAN_SWITCH_FIXED_BYTES = 64 }; /* Maximum bytes of a message without its text and its processes. */

void by_control_send_plan_switch(const struct by_control_peer *peer, const struct by_plan_switch_message *message);

/* ---- rank 0 */

/* The links that the helpers of a plan are asked for. */
struct by_helper_links {
  uint32_t n;
  struct by_helper_link {
    uint32_t helper;
    bool linked;
    size_t n;
    uint8_t *processes; /* In the format of by_plan_switch_message. */
  } * helpers;
};

/* Finds the links that each helper of the proposed plan needs. Whatever the status, by_helper_links_fini is to be
 * called. */
BANYAN_CHECK enum banyan_status by_helper_links_find(struct by_helper_links *links, const struct by_proposal *proposal);
void by_helper_links_fini(struct by_helper_links *links);
/* Asks all helpers for their links, for plan switch `number`. False: one is not here any more. */
bool by_helper_links_ask(const struct by_helper_links *links, const struct by_control_peers *peers, uint32_t comm,
                         uint32_t number);
/* Notes that a helper has made its links. True: all have. */
bool by_helper_links_made(struct by_helper_links *links, uint32_t helper);
bool by_helper_links_has(const struct by_helper_links *links, uint32_t helper);

/* ---- helpers */

struct by_wanted_links {
  const struct by_control_peers *peers;
  struct by_connector *connector;
  LIST_HEAD(, by_wanted) wanted; /* Links of plan switches that rank 0 has asked for. */
  struct by_timer due;
};

void by_wanted_links_init(struct by_wanted_links *links, const struct by_control_peers *peers,
                          struct by_connector *connector);
void by_wanted_links_fini(struct by_wanted_links *links);
/* Handles a message of rank 0's about a plan switch. */
void by_wanted_links_handle(struct by_wanted_links *links, const struct by_control_peer *peer,
                            const struct by_plan_switch_message *message);

#endif
