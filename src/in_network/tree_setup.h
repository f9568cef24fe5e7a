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
  BY_TREE_WANTED = 512,   /* Slots to request: only fast networks have more fragments in flight. */
  BY_TREE_WORTHWHILE = 16 /* Minimum of slots: with fewer, a switch would slow all down, so it only forwards. */
};

/* What the ends have sent, and what rank 0 has chosen. */
struct by_tree_ends {
  uint32_t version; /* Version of the plan's trees. */
  uint16_t job, key;
  uint32_t lines;
  bool exact; /* Numbers are sent unconverted, to switches that can add float32. */
  bool keyed; /* Fragments have MACs, which needs encrypted control connections to switches. */
  unsigned char secret[BY_TREE_SECRET];
  uint32_t server;      /* The server's process. */
  struct by_address at; /* The server's address; all addresses are IPv4, or all are IPv6. */
  struct by_address workers[BY_TREE_WORKERS];
};

/* The grant of one switch, or the address of an aggregator, which grants all. */
struct by_tree_answer {
  bool granted;
  struct by_granted what;
  uint32_t aggregator; /* The aggregator's process; UINT32_MAX: this is a switch, or there is none. */
  struct by_address at;
};

/* An end of a tree, and where it is to be reached. */
struct by_tree_end {
  const struct by_member *member;
  struct by_address *at;
};

/* Returns the maximum lines of a fragment in packets of `mtu` bytes, IP header included; at least 1. */
uint32_t by_tree_lines(uint32_t mtu, int family);
/* Finds the ends' addresses and the maximum size of fragments: all by IPv4, or all by IPv6, or by the loopback
 * interface if all are on one machine. BANYAN_ERR_CONNECT names hosts that lack addresses of a family. */
BANYAN_CHECK enum banyan_status by_tree_find_addresses(const struct by_tree_end *ends, uint32_t n, uint32_t *lines);
/* Makes the request to switch number `which`, which is no aggregator. */
void by_tree_reservation(const struct by_switched_tree *tree, const struct by_tree_ends *ends, uint32_t which,
                         struct by_reservation *out);
/* Makes the message to worker number `worker`, or with BY_TREE_FOR_SERVER to the server. `answers`: one for each
 * switch. */
void by_tree_describe(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                      const struct by_tree_answer *answers, uint32_t worker, struct by_tree_message *out);

/* Makes the message to the aggregator that is number `which` of the switches, and has granted its part. */
void by_tree_describe_aggregator(const struct by_switched_tree *tree, const struct by_tree_ends *ends,
                                 const struct by_tree_answer *answers, uint32_t which, struct by_tree_message *out);

#endif
