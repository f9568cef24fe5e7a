/* Control messages of a link: queues, sends and receives them, and reuses their memory. */
#include "transfer_link.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_CAPACITY = 256, MAX_CAPACITY = 16 << 10, MAX_SPARE = 256 };

/* A free message of at least so many bytes; NULL: none. */
static struct by_control_message *take_spare(struct by_transfer *transfer, size_t bytes) {
  for (struct by_control_message **link = &transfer->spare_messages; *link; link = &(*link)->next) {
    struct by_control_message *message = *link;
    if (message->capacity < bytes) continue;
    *link = message->next;
    transfer->n_spare_messages--;
    return message;
  }
  return NULL;
}

static size_t capacity_for(size_t bytes) {
  size_t capacity = MIN_CAPACITY;
  while (capacity < bytes) capacity *= 2;
  return capacity;
}

/* The bytes that a message counts against BY_CONTROL_MESSAGES_KEPT. */
static size_t weight_of(size_t bytes) {
  return sizeof(struct by_control_message) + capacity_for(bytes);
}

static struct by_control_message *make_message(struct by_transfer *transfer, uint32_t process, uint32_t team,
                                               size_t bytes) {
  struct by_control_message *message = take_spare(transfer, bytes);
  size_t capacity = message ? message->capacity : capacity_for(bytes);
  if (!message) {
    message = malloc(sizeof *message + capacity);
    if (!message) return NULL;
    transfer->counters.allocations++;
  }
  *message = (struct by_control_message){.process = process, .team = team, .bytes = bytes, .capacity = capacity};
  return message;
}

void by_control_messages_expect(struct by_transfer_link *link) {
  link->expects_messages = true;
  by_link_want(link);
}

enum banyan_status by_control_messages_write(struct by_transfer_link *link, uint32_t team, const void *bytes,
                                             size_t n) {
  if (n == 0 || n > BY_CONTROL_MESSAGE_BYTES)
    return by_fail(BANYAN_ERR_ARGUMENT, "a control message of %zu bytes; there must be 1 to %d", n,
                   BY_CONTROL_MESSAGE_BYTES);
  if (weight_of(n) > BY_CONTROL_MESSAGES_KEPT - link->messages_waiting) {
    char name[BY_NAME_BYTES];
    return by_fail(BANYAN_ERR_NO_MEMORY, "%s has not taken %zu bytes of control messages: is it stopped?",
                   by_transfer_name(link->transfer, link->process, name), link->messages_waiting);
  }
  struct by_control_message *message = make_message(link->transfer, link->process, team, n);
  if (!message) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a control message of %zu bytes", n);
  memcpy(message->data, bytes, n);
  link->messages_waiting += weight_of(n);
  *link->messages_end = message;
  link->messages_end = &message->next;
  by_control_messages_expect(link);
  by_link_touch(link);
  return BANYAN_OK;
}

struct by_control_message *by_control_messages_read(struct by_transfer *transfer) {
  struct by_control_message *message = transfer->state.messages;
  if (!message) return NULL;
  transfer->state.messages = message->next;
  if (!transfer->state.messages) transfer->messages_end = &transfer->state.messages;
  return message;
}

/* Keeps a message's memory for a later one, or frees it. */
static void give_back(struct by_transfer *transfer, struct by_control_message *message) {
  if (message->capacity > MAX_CAPACITY || transfer->n_spare_messages == MAX_SPARE) {
    free(message);
    return;
  }
  message->next = transfer->spare_messages;
  transfer->spare_messages = message;
  transfer->n_spare_messages++;
}

void by_control_messages_free(struct by_transfer *transfer, struct by_control_message *message) {
  transfer->links[message->process]->messages_kept -= weight_of(message->bytes);
  give_back(transfer, message);
}

bool by_control_messages_send(struct by_transfer_link *link) {
  while (link->messages) {
    struct by_control_message *message = link->messages;
    size_t left = message->bytes - message->done, n = left < BY_LANE_SMALL ? left : BY_LANE_SMALL;
    struct by_frame frame = {.type = BY_FRAME_CONTROL,
                             .size = (uint32_t)n,
                             .team = message->team,
                             .offset = message->done,
                             .count = message->bytes};
    if (!by_link_send_small(link, &frame, message->data + message->done)) return false;
    message->done += n;
    if (message->done < message->bytes) continue;
    link->messages = message->next;
    if (!link->messages) link->messages_end = &link->messages;
    link->messages_waiting -= weight_of(message->bytes);
    give_back(link->transfer, message);
  }
  return true;
}

const char *by_control_messages_begin(struct by_transfer_link *link, const struct by_frame *frame) {
  struct by_control_message *message = link->arriving;
  if (!frame->size || frame->count > BY_CONTROL_MESSAGE_BYTES || frame->offset > frame->count ||
      frame->size > frame->count - frame->offset)
    return "a malformed control message";
  if (message ? frame->offset != message->done || frame->count != message->bytes || frame->team != message->team
              : frame->offset != 0)
    return "a part of a control message that does not follow the one before it";
  if (message) return NULL;
  const struct by_transfer *transfer = link->transfer;
  if (by_transfer_is_relay(transfer, transfer->options.self) || by_transfer_is_relay(transfer, link->process))
    return "a control message, which helpers neither send nor take";
  if (weight_of(frame->count) > BY_CONTROL_MESSAGES_KEPT - link->messages_kept)
    return "more control messages than are kept for communicators that are not made here";
  link->arriving = make_message(link->transfer, link->process, frame->team, frame->count);
  if (!link->arriving) return "a control message for which there is no memory";
  link->messages_kept += weight_of(frame->count);
  return NULL;
}

bool by_control_messages_receive(struct by_end *end) {
  struct by_control_message *message = end->link->arriving;
  size_t n = end->lane->ops->read(end->lane, message->data + message->done, end->lane->left);
  message->done += n;
  return n > 0;
}

void by_control_messages_end(struct by_transfer_link *link) {
  struct by_control_message *message = link->arriving;
  struct by_transfer *transfer = link->transfer;
  if (message->done < message->bytes) return;
  link->arriving = NULL;
  *transfer->messages_end = message;
  transfer->messages_end = &message->next;
  transfer->moved = true;
}
