/* The TREE message: what rank 0 sends to a worker or the server of one in-network tree. A value; no I/O. */
#ifndef BY_JOB_CONTROL_TREE_MESSAGE_H
#define BY_JOB_CONTROL_TREE_MESSAGE_H

#include "address.h"
#include "bytes.h"
#include "control_messages.h"
#include "fragment.h"

enum { BY_TREE_SECRET = 32, BY_TREE_SLOTS = 16384 };

/* Between the server and a worker. */
struct by_tree_way {
  struct by_address address; /* for the server: the worker's; for a worker: the server's */
  bool alone;                /* results that are for all do not get there */
  unsigned hops;
  struct by_hop stack[BY_FRAGMENT_HOPS];
  uint64_t below[BY_FRAGMENT_HOPS]; /* for a worker: those whose way leads over each of the switches */
};

struct by_tree_message {
  uint32_t server; /* the process */
  uint16_t job, key;
  uint32_t slots, lines;
  unsigned char secret[BY_TREE_SECRET];
  bool exact; /* numbers travel as they are */
  uint32_t workers;
  uint32_t worker; /* which of them it is for, BY_TREE_FOR_SERVER: the server */
  uint64_t spread; /* for the server: workers whose addresses lead results for all to where they are copied */
  uint32_t n_sets; /* for the server, in exact mode: whose terms switches add, see by_server_config */
  uint64_t sets[BY_FRAGMENT_WORKERS];
  struct by_tree_way ways[BY_FRAGMENT_WORKERS]; /* for the server: by worker; for a worker: the first is its own */
};

#define BY_TREE_FOR_SERVER UINT32_MAX

void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message);
BANYAN_CHECK enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                                     struct by_tree_message *out);

#endif
