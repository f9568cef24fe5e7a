/* Setting up one tree through switches: from the tree, where its ends are and
 * what switches have granted to what each switch is asked for, and what each end
 * is sent. No I/O, no state.
 *
 * A switch that has not answered gets no part: its entries stay empty, and as it
 * has no grant it sends on whatever comes by its address. Nor do results for all
 * get past it, so those behind it get their own. */
#ifndef BY_IN_NETWORK_TREE_SETUP_H
#define BY_IN_NETWORK_TREE_SETUP_H

#include "control_messages.h"
#include "member.h"
#include "reservation.h"
#include "switched_tree.h"

enum {
  BY_TREE_WANTED = 512,   /* slots: more than that many fragments are on their way on fast networks only */
  BY_TREE_WORTHWHILE = 16 /* with fewer, a switch would slow down all; it only forwards */
};

/* What the ends have sent, and what rank 0 has chosen. */
struct by_tree_ends {
  uint32_t version; /* of the plan's trees */
  uint16_t job, key;
  uint32_t lines;
  bool exact; /* numbers travel as they are, and switches that can add float32 */
  bool keyed; /* fragments have MACs; needs a control connection to switches that is encrypted */
  unsigned char secret[BY_TREE_SECRET];
  uint32_t server;      /* the process */
  struct by_address at; /* its address; all of one family, IPv4 or IPv6 */
  struct by_address workers[BY_TREE_WORKERS];
};

/* Of one switch; or where an aggregator is, which grants all. */
struct by_tree_answer {
  bool granted;
  struct by_granted what;
  uint32_t aggregator; /* the process; UINT32_MAX: it is none, or there is none */
  struct by_address at;
};

/* An end of a tree, and where it is to be reached. */
struct by_tree_end {
  const struct by_member *member;
  struct by_address *at;
};

/* Most lines of a fragment in packets of so many bytes with all headers from IP's on; at least 1. */
uint32_t by_tree_lines(uint32_t mtu, int family);
/* Where the ends are, and how large fragments may be: all by addresses of IPv4, or all by IPv6, or by the loopback
 * interface of the machine where they all are. BANYAN_ERR_CONNECT names hosts that have no addresses of one kind. */
BANYAN_CHECK enum banyan_status by_tree_find_addresses(const struct by_tree_end *ends, uint32_t n, uint32_t *lines);
/* What switch number `which`, no aggregator, is to be asked for. */
void by_tree_reservation(const struct by_switched_tree *tree, const struct by_tree_ends *ends, uint32_t which,
                         struct by_reservation *out);
/* What worker number `worker` is sent, or with BY_TREE_FOR_SERVER the server; one answer for each switch. */
void by_tree_describe(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                      const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out);

/* What the aggregator is sent that is number `which` of the switches, and has granted its part. */
void by_tree_describe_aggregator(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                                 const struct by_tree_answer *answers, uint32_t which, struct by_tree_message *out);

#endif
