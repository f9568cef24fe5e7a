#include "link_letters.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 256, MOST_ROOM = 16 << 10, MOST_SPARE = 256 };

/* Letters that are as small as most are used again. */
static struct by_letter *take_spare(struct by_transfer *transfer, size_t bytes) {
  for (struct by_letter **place = &transfer->spare_letters; *place; place = &(*place)->next) {
    struct by_letter *letter = *place;
    if (letter->room < bytes) continue;
    *place = letter->next;
    transfer->n_spare_letters--;
    return letter;
  }
  return NULL;
}

static struct by_letter *make(struct by_transfer *transfer, uint32_t process, uint32_t domain, size_t bytes) {
  struct by_letter *letter = take_spare(transfer, bytes);
  size_t room = letter ? letter->room : LEAST_ROOM;
  while (room < bytes) room *= 2;
  if (!letter) {
    letter = malloc(sizeof *letter + room);
    if (!letter) return NULL;
    transfer->counters.allocations++;
  }
  *letter = (struct by_letter){.process = process, .domain = domain, .bytes = bytes, .room = room};
  return letter;
}

static void free_all(struct by_letter *letters) {
  while (letters) {
    struct by_letter *next = letters->next;
    free(letters);
    letters = next;
  }
}

void by_letters_expect(struct by_link *link) {
  link->lettered = true;
  by_link_want(link);
}

enum banyan_status by_letters_write(struct by_link *link, uint32_t domain, const void *bytes, size_t n) {
  if (n == 0 || n > BY_LETTER_BYTES)
    return by_fail(BANYAN_ERR_ARGUMENT, "a letter of %zu bytes; there must be 1 to %d", n, BY_LETTER_BYTES);
  struct by_letter *letter = make(link->transfer, link->process, domain, n);
  if (!letter) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a letter of %zu bytes", n);
  memcpy(letter->data, bytes, n);
  *link->letters_end = letter;
  link->letters_end = &letter->next;
  by_letters_expect(link);
  by_link_touch(link);
  return BANYAN_OK;
}

struct by_letter *by_letters_read(struct by_transfer *transfer) {
  struct by_letter *letter = transfer->letters;
  if (!letter) return NULL;
  transfer->letters = letter->next;
  if (!transfer->letters) transfer->letters_end = &transfer->letters;
  return letter;
}

void by_letters_free(struct by_transfer *transfer, struct by_letter *letter) {
  if (letter->room > MOST_ROOM || transfer->n_spare_letters == MOST_SPARE) {
    free(letter);
    return;
  }
  letter->next = transfer->spare_letters;
  transfer->spare_letters = letter;
  transfer->n_spare_letters++;
}

bool by_letters_send(struct by_link *link) {
  while (link->letters) {
    struct by_letter *letter = link->letters;
    size_t left = letter->bytes - letter->done, n = left < BY_LANE_SMALL ? left : BY_LANE_SMALL;
    struct by_frame frame = {.type = BY_FRAME_LETTER,
                             .size = (uint32_t)n,
                             .domain = letter->domain,
                             .offset = letter->done,
                             .count = letter->bytes};
    if (!by_link_send_small(link, &frame, letter->data + letter->done)) return false;
    letter->done += n;
    if (letter->done < letter->bytes) continue;
    link->letters = letter->next;
    if (!link->letters) link->letters_end = &link->letters;
    by_letters_free(link->transfer, letter);
  }
  return true;
}

const char *by_letters_begin(struct by_link *link, const struct by_frame *frame) {
  struct by_letter *letter = link->arriving;
  if (!frame->size || frame->count > BY_LETTER_BYTES || frame->offset > frame->count ||
      frame->size > frame->count - frame->offset)
    return "a letter that is no letter";
  if (letter ? frame->offset != letter->done || frame->count != letter->bytes || frame->domain != letter->domain
             : frame->offset != 0)
    return "a part of a letter that does not follow the one before it";
  if (!letter) link->arriving = make(link->transfer, link->process, frame->domain, frame->count);
  return link->arriving ? NULL : "a letter for which there is no memory";
}

bool by_letters_receive(struct by_end *end) {
  struct by_letter *letter = end->link->arriving;
  size_t n = end->lane->ops->read(end->lane, letter->data + letter->done, end->lane->ops->left(end->lane));
  letter->done += n;
  return n > 0;
}

void by_letters_end(struct by_link *link) {
  struct by_letter *letter = link->arriving;
  struct by_transfer *transfer = link->transfer;
  if (letter->done < letter->bytes) return;
  link->arriving = NULL;
  *transfer->letters_end = letter;
  transfer->letters_end = &letter->next;
  transfer->moved = true;
}

void by_letters_fini_link(struct by_link *link) {
  free_all(link->letters);
  free(link->arriving);
}

void by_letters_fini(struct by_transfer *transfer) {
  free_all(transfer->letters);
  free_all(transfer->spare_letters);
}
