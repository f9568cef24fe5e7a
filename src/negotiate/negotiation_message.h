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
 *             notes              numbers */
#ifndef BY_NEGOTIATE_NEGOTIATION_MESSAGE_H
#define BY_NEGOTIATE_NEGOTIATION_MESSAGE_H

#include "bytes.h"
#include "controller.h"

enum { BY_NEGOTIATION_UP = 1, BY_NEGOTIATION_DOWN = 2 };

/* Entries of a list while it is written. Keeps its memory. */
struct by_list_writer {
  uint8_t *data;
  size_t length, room;
  uint32_t n;
  bool failed; /* no memory: what is in it counts, the rest is lost */
};

/* A name and what it stands for. */
struct by_subject {
  char name[BY_OPERATION_NAME + 1];
  struct by_operation operation;
};

void by_list_writer_fini(struct by_list_writer *list_writer);
void by_list_writer_clear(struct by_list_writer *list_writer);
/* Each of these is one entry. */
void by_list_writer_number(struct by_list_writer *list_writer, uint32_t number);
void by_list_writer_wanted(struct by_list_writer *list_writer, uint32_t rank, const char *name,
                           const struct by_operation *operation);
void by_list_writer_subject(struct by_list_writer *list_writer, const char *name, const struct by_operation *operation);
void by_list_writer_stalled(struct by_list_writer *list_writer, const char *name, const struct by_operation *operation,
                            bool late);
void by_list_writer_refusal(struct by_list_writer *list_writer, const struct by_refusal *refusal);
void by_list_writer_stall(struct by_list_writer *list_writer, const struct by_stall *stall);
void by_list_writer_started(struct by_list_writer *list_writer, uint32_t bit, uint32_t id, const char *name,
                            const struct by_operation *operation);
void by_list_writer_word(struct by_list_writer *list_writer, uint64_t word);
/* A list as an entry. */
void by_list_writer_group(struct by_list_writer *list_writer, const struct by_list_writer *list);
/* These add to no number of entries: bytes, and another writer's list with its number before it. */
void by_list_writer_bytes(struct by_list_writer *list_writer, const void *bytes, size_t n);
void by_list_writer_list(struct by_list_writer *list_writer, const struct by_list_writer *list);

/* Any of these may fail the reader. */
void by_read_subject(struct by_reader *reader, struct by_subject *out);
/* Returns whether it is late. */
bool by_read_stalled(struct by_reader *reader, struct by_subject *out);
/* The name lies in `subject`. */
void by_read_refusal(struct by_reader *reader, struct by_subject *subject, struct by_refusal *out);
void by_read_stall(struct by_reader *reader, struct by_subject *subject, struct by_stall *out);

/* Whether the name of an operation is one. */
bool by_operation_name_fits(const char *name);

#endif
