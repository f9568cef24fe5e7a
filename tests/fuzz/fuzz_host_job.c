/* What `banyan run-host` receives: a stream of frames, and the job in the frames that start one. A job that is accepted
 * must have the same content when it is sent again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launch_io.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER_BYTES = 12 };

static void check_job(const struct by_launch_frame *frame) {
  char *payload = malloc(frame->length + 1); /* exactly this size, so that a sanitizer detects reads past it */
  struct by_host_job job, again;
  struct by_pipe box;
  assert(payload);
  memcpy(payload, frame->payload, frame->length + 1);
  if (by_host_job_parse(payload, frame->length, &job) == BANYAN_OK) {
    by_pipe_init(&box, -1, 0);
    by_host_job_send(&box, &job, (const char *const *)job.command);
    size_t length = by_pipe_waiting(&box) - HEADER_BYTES;
    char *copy = calloc(1, length + 1);
    assert(copy);
    memcpy(copy, box.data + HEADER_BYTES, length);
    assert(by_host_job_parse(copy, length, &again) == BANYAN_OK);
    assert(again.first == job.first && again.ranks == job.ranks && again.size == job.size && again.pin == job.pin);
    assert(!strcmp(again.directory, job.directory));
    for (size_t i = 0; job.command[i]; i++) assert(!strcmp(again.command[i], job.command[i]));
    for (size_t i = 0; job.environment[i]; i++) assert(!strcmp(again.environment[i], job.environment[i]));
    by_host_job_fini(&again);
    by_host_job_fini(&job);
    by_pipe_fini(&box);
    free(copy);
  }
  free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_pipe in = {.data = malloc(size + 1), .end = size, .capacity = size + 1};
  struct by_launch_frame frame;
  size_t total = 0;
  assert(in.data);
  if (size) memcpy(in.data, data, size);
  while (by_pipe_next(&in, &frame) > 0) {
    assert(frame.payload[frame.length] == 0);
    total += HEADER_BYTES + frame.length;
    if (frame.type == BY_LAUNCH_START) check_job(&frame);
  }
  assert(total <= size);
  by_pipe_fini(&in);
  return 0;
}
