/* The bytes of messages between controllers. A message is a head and lists; all lists of a kind of message are present,
 * in this order, each a number of entries and the entries.
 *
 *   upward    1, seen (u64)      how far the sender has read the log
 *             bits               u8 0: a list of u32; 1: u64 words, from the first
 *             wanted             rank, name, operation
 *             conflicts          name, two ranks, two operations
 *             stalled            u8 1: too late for its rank, name, operation
 *             lacking            name, operation, ranks that lack it
 *   downward  2, place (u64)     in the log
 *             groups             entries: u8 0: bit; 1: id, name, operation
 *             table              ids
 *             refused            as conflicts
 *             asked              name, operation
 *             notes              numbers
 *   tree      3, place (u64)     likewise
 *             number (u32)       of the tree
 *             parents            of each rank: upward, downward */
#ifndef BY_NAMED_NEGOTIATE_NEGOTIATION_MESSAGE_H
#define BY_NAMED_NEGOTIATE_NEGOTIATION_MESSAGE_H

#include "bytes.h"
#include "controller.h"

enum { BY_NEGOTIATION_UP = 1, BY_NEGOTIATION_DOWN = 2, BY_NEGOTIATION_TREE = 3 };

/* A list that is being written; its memory is reused. */
struct by_list_writer {
  struct by_writer out; /* Encoded entries, which are lost if it has failed for lack of memory. */
  uint32_t n;
};

/* A name and the operation submitted under it. */
struct by_subject {
  char name[BY_OPERATION_NAME + 1];
  struct by_operation operation;
};

void by_list_writer_fini(struct by_list_writer *list);
void by_list_writer_clear(struct by_list_writer *list);
/* Adds an entry and returns its writer, which accepts 512 bytes and is valid until the next entry. */
struct by_writer *by_list_entry(struct by_list_writer *list);
/* Adds another list, with its number of entries before it, as one entry. */
void by_list_add(struct by_list_writer *to, const struct by_list_writer *list);

void by_write_subject(struct by_writer *writer, const char *name, const struct by_operation *operation);
void by_write_refusal(struct by_writer *writer, const struct by_refused_operation *refusal);
void by_write_stall(struct by_writer *writer, const struct by_stall *stall);

/* Decode entries; malformed ones fail the reader. */
void by_read_subject(struct by_reader *reader, struct by_subject *out);
/* Decodes a refusal, whose name points into `subject`. */
void by_read_refusal(struct by_reader *reader, struct by_subject *subject, struct by_refused_operation *out);
void by_read_stall(struct by_reader *reader, struct by_subject *subject, struct by_stall *out);

/* Whether a name is a valid name of an operation. */
bool by_operation_name_fits(const char *name);

#endif
