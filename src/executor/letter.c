/* Letters: bytes between two processes that belong to no call, such as what controllers tell each other. They go over
 * the first lane of the link, in order, in parts that no lane keeps, before data that waits. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 256, MOST_ROOM = 16 << 10, MOST_SPARE = 256 };

/* Letters that are as small as most are used again. */
static struct by_letter *take_spare(struct by_engine *engine, size_t bytes) {
  for (struct by_letter **place = &engine->spare_letters; *place; place = &(*place)->next) {
    struct by_letter *letter = *place;
    if (letter->room < bytes) continue;
    *place = letter->next;
    engine->n_spare_letters--;
    return letter;
  }
  return NULL;
}

static struct by_letter *make(struct by_engine *engine, uint32_t process, uint32_t domain, size_t bytes) {
  struct by_letter *letter = take_spare(engine, bytes);
  size_t room = letter ? letter->room : LEAST_ROOM;
  while (room < bytes) room *= 2;
  if (!letter) {
    letter = malloc(sizeof *letter + room);
    if (!letter) return NULL;
    by_engine_count_allocation(engine);
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

void by_engine_expect_letters(struct by_engine *engine, uint32_t process) {
  struct by_link *link = engine->links[process];
  link->lettered = true;
  by_link_want(link);
}

enum banyan_status by_engine_write(struct by_engine *engine, uint32_t process, uint32_t domain, const void *bytes,
                                   size_t n) {
  struct by_link *link = engine->links[process];
  if (n == 0 || n > BY_LETTER_BYTES)
    return by_fail(BANYAN_ERR_ARGUMENT, "a letter of %zu bytes; there must be 1 to %d", n, BY_LETTER_BYTES);
  struct by_letter *letter = make(link->engine, process, domain, n);
  if (!letter) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a letter of %zu bytes", n);
  memcpy(letter->data, bytes, n);
  *link->letters_end = letter;
  link->letters_end = &letter->next;
  by_engine_expect_letters(engine, process);
  by_link_touch(link);
  return BANYAN_OK;
}

struct by_letter *by_engine_read(struct by_engine *engine) {
  struct by_letter *letter = engine->letters;
  if (!letter) return NULL;
  engine->letters = letter->next;
  if (!engine->letters) engine->letters_end = &engine->letters;
  return letter;
}

void by_letter_free(struct by_engine *engine, struct by_letter *letter) {
  if (letter->room > MOST_ROOM || engine->n_spare_letters == MOST_SPARE) {
    free(letter);
    return;
  }
  letter->next = engine->spare_letters;
  engine->spare_letters = letter;
  engine->n_spare_letters++;
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
    by_letter_free(link->engine, letter);
  }
  return true;
}

const char *by_letter_begin(struct by_link *link, const struct by_frame *frame) {
  struct by_letter *letter = link->arriving;
  if (!frame->size || frame->count > BY_LETTER_BYTES || frame->offset > frame->count ||
      frame->size > frame->count - frame->offset)
    return "a letter that is no letter";
  if (letter ? frame->offset != letter->done || frame->count != letter->bytes || frame->domain != letter->domain
             : frame->offset != 0)
    return "a part of a letter that does not follow the one before it";
  if (!letter) link->arriving = make(link->engine, link->process, frame->domain, frame->count);
  return link->arriving ? NULL : "a letter for which there is no memory";
}

bool by_letter_receive(struct by_end *end) {
  struct by_letter *letter = end->link->arriving;
  size_t n = end->lane->ops->read(end->lane, letter->data + letter->done, end->lane->ops->left(end->lane));
  letter->done += n;
  return n > 0;
}

void by_letter_end(struct by_link *link) {
  struct by_letter *letter = link->arriving;
  struct by_engine *engine = link->engine;
  if (letter->done < letter->bytes) return;
  link->arriving = NULL;
  *engine->letters_end = letter;
  engine->letters_end = &letter->next;
  engine->moved = true;
}

void by_letters_fini_link(struct by_link *link) {
  free_all(link->letters);
  free(link->arriving);
}

void by_letters_fini(struct by_engine *engine) {
  free_all(engine->letters);
  free_all(engine->spare_letters);
}
