/* Data connections: takes those of higher ranks, makes those to lower ones
 * when a schedule first needs them. Of a pair, the higher rank connects. Ranks
 * of one host use shared memory; others try all addresses that the peer
 * offers, each a little after the one before, and keep the first that answers
 * and proves the key. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONNECT_CONNECTOR_H
#define BY_JOB_CONNECT_CONNECTOR_H

#include "handshake.h"
#include "job_access.h"

struct by_connector;

/* Events of connections. */
struct by_connector_events {
  /* A link to this process is made: the lanes are taken over. */
  void (*attach)(void *context, uint32_t process, struct by_lane *const *lanes, uint32_t n);
  /* A helper does not answer: asks rank 0 to find out whether it is alive. False: rank 0 cannot be asked. */
  bool (*ask)(void *context);
  void *context;
};

/* Listens on a TCP port of those that the settings allow, and fills the member's `addresses` (in the arena). */
BANYAN_CHECK enum banyan_status by_member_listen(const struct by_settings *settings, struct by_arena *arena,
                                                 struct by_member *self, int *listener);
/* Listens and fills the own member's `local` and `addresses` (in the job's arena). */
BANYAN_CHECK enum banyan_status by_connector_create(struct by_job *job, struct by_member *self,
                                                    const struct by_connector_events *events,
                                                    struct by_connector **out);
/* Begins to accept connections, once the members are known. */
BANYAN_CHECK enum banyan_status by_connector_open(struct by_connector *connector);
/* Gives the listeners back, instead of opening the connector. */
void by_connector_stop_listening(struct by_connector *connector);
/* Sets the keys of links between ranks and helpers or servers, see job_key.h: at ranks the key of links (copied); at a
 * helper the secret of its ticket for links, and the keys of its links to the n helpers before it, which are allocated
 * and taken over, on failure too. Called once the members are known. */
BANYAN_CHECK enum banyan_status by_connector_take_keys(struct by_connector *connector, const struct by_key *links,
                                                       struct by_key *before, uint32_t n);
/* Writes the head of the ticket with which this helper or server opens links. `out` holds BY_TICKET_HEAD. */
BANYAN_CHECK enum banyan_status by_links_ticket(const struct by_job *job, uint32_t process, uint8_t *out);
/* Adds a process, with the next number. */
BANYAN_CHECK enum banyan_status by_connector_add(struct by_connector *connector);
/* Any thread: requests a link to this process. The lower rank of a pair has nothing to do. */
void by_connector_want(struct by_connector *connector, uint32_t process);
/* Any thread: makes lanes of the membership before the link to this process, if the other end does so too within a
 * second. The lanes are taken over. */
void by_connector_keep(struct by_connector *connector, uint32_t process, struct by_lane *const *lanes, uint32_t n);
/* Visits the processes to which no connection has been made since the first attempt: for how many milliseconds, and at
 * which addresses they are tried. */
void by_connector_visit_tried(const struct by_connector *connector,
                              void (*visit)(void *context, uint32_t process, uint32_t milliseconds, const char *way),
                              void *context);
/* Notes that the job knows that this process has left. */
void by_connector_left(struct by_connector *connector, uint32_t process);
/* NULL is allowed. The loop no longer runs. */
void by_connector_destroy(struct by_connector *connector);

#endif
