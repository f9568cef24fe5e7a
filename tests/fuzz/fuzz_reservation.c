/* Control lines of switches: requests (even first byte) and replies. A line that can be read has the same content when
 * it is printed and read again. */
#include <stdint.h>
#include <string.h>

#include "reservation.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_request(const char *line, size_t length) {
  struct by_reservation_request request, again;
  struct by_text text;
  if (by_reservation_read_request(line, length, &request) != BANYAN_OK) return;
  by_text_init(&text);
  by_reservation_print_request(&request, &text);
  assert(!memchr(by_text_get(&text), '\n', text.length));
  assert(by_reservation_read_request(by_text_get(&text), text.length, &again) == BANYAN_OK);
  assert(again.operation == request.operation && !strcmp(again.holder, request.holder));
  assert(by_reservation_same(&again.reservation, &request.reservation));
  by_text_fini(&text);
}

static void read_reply(const char *line, size_t length) {
  struct by_reservation_reply reply, again;
  struct by_text text;
  if (by_reservation_read_reply(line, length, &reply) != BANYAN_OK) return;
  by_text_init(&text);
  by_reservation_print_reply(&reply, &text);
  assert(!memchr(by_text_get(&text), '\n', text.length));
  assert(by_reservation_read_reply(by_text_get(&text), text.length, &again) == BANYAN_OK);
  assert(again.operation == reply.operation && again.well == reply.well && again.job == reply.job &&
         again.key == reply.key);
  assert(again.taken == reply.taken && !strcmp(again.text, reply.text));
  assert(again.granted.n_below == reply.granted.n_below && again.granted.slots == reply.granted.slots);
  by_text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2)
    read_reply((const char *)data + 1, size - 1);
  else
    read_request((const char *)data + 1, size - 1);
  return 0;
}
