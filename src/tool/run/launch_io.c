#include "launch_io.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

enum { HEADER_BYTES = 12, MOST_PAYLOAD = 8 << 20, READ_BYTES = 128 << 10 };

void *by_cli_alloc(void *old, size_t bytes) {
  void *memory = realloc(old, bytes);
  if (memory) return memory;
  static const char text[] = "banyan: out of memory\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
  _exit(1);
}

void by_cli_nonblock(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Makes room for `more` bytes behind the last one. */
static void make_room(char **data, size_t *start, size_t *end, size_t *room, size_t more) {
  if (*room - *end >= more) return;
  size_t held = *end - *start;
  if (held) memmove(*data, *data + *start, held);
  *start = 0;
  *end = held;
  if (*room - held >= more) return;
  *room = MAX(2 * *room, held + more);
  *data = by_cli_alloc(*data, *room);
}

void by_outbox_init(struct by_outbox *box, int fd, size_t at_once) {
  *box = (struct by_outbox){.fd = fd, .at_once = at_once};
}

void by_outbox_fini(struct by_outbox *box) {
  free(box->data);
  by_outbox_init(box, -1, 0);
}

void by_outbox_add(struct by_outbox *box, const void *bytes, size_t length) {
  if (box->closed || !length) return;
  make_room(&box->data, &box->start, &box->end, &box->room, length);
  memcpy(box->data + box->end, bytes, length);
  box->end += length;
}

size_t by_outbox_waiting(const struct by_outbox *box) {
  return box->end - box->start;
}

void by_outbox_flush(struct by_outbox *box) {
  while (by_outbox_waiting(box)) {
    size_t length = MIN(by_outbox_waiting(box), box->at_once);
    ssize_t n = write(box->fd, box->data + box->start, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      box->closed = true;
      box->reason = errno;
      box->start = box->end;
    }
    if (n < 0) return;
    box->start += (size_t)n;
    if (box->at_once < SIZE_MAX) return; /* a blocking descriptor: only poll() knows whether there is more room */
  }
}

void by_outbox_frame(struct by_outbox *box, enum by_launch_frame_type type, uint32_t number, const void *payload,
                     size_t length) {
  uint32_t header[3] = {htole32(type), htole32(number), htole32((uint32_t)length)};
  by_outbox_add(box, header, sizeof header);
  by_outbox_add(box, payload, length);
}

void by_inbox_fini(struct by_inbox *box) {
  free(box->data);
  *box = (struct by_inbox){0};
}

/* Puts back the byte that the last payload's NUL replaced. */
static void restore(struct by_inbox *box) {
  if (box->has_kept) box->data[box->start] = box->kept;
  box->has_kept = false;
}

bool by_inbox_fill(struct by_inbox *box, int fd) {
  restore(box);
  make_room(&box->data, &box->start, &box->end, &box->room, READ_BYTES + 1); /* + 1: the NUL behind a payload */
  ssize_t n = read(fd, box->data + box->end, READ_BYTES);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  box->end += (size_t)n;
  return n > 0;
}

int by_inbox_next(struct by_inbox *box, struct by_launch_frame *out) {
  uint32_t header[3];
  restore(box);
  if (box->end - box->start < HEADER_BYTES) return 0;
  memcpy(header, box->data + box->start, HEADER_BYTES);
  for (int i = 0; i < 3; i++) header[i] = le32toh(header[i]);
  if (header[0] < BY_LAUNCH_PORT || header[0] > BY_LAUNCH_ERROR || header[2] > MOST_PAYLOAD) return -1;
  if (box->end - box->start - HEADER_BYTES < header[2]) return 0;
  *out = (struct by_launch_frame){.type = (enum by_launch_frame_type)header[0],
                                  .number = header[1],
                                  .payload = box->data + box->start + HEADER_BYTES,
                                  .length = header[2]};
  box->start += HEADER_BYTES + header[2];
  box->kept = box->data[box->start]; /* may lie behind `end`, inside the room */
  box->data[box->start] = 0;
  box->has_kept = true;
  return 1;
}
