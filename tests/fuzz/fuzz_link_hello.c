/* Hellos of links, with which a process that has proved the job's key says which one it is. What is accepted names
 * another process of the job and a connection that a link can have, and is the same when it is written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "job_state.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct by_job job = {.size = 3, .processes = 4, .rank = 1};
  struct by_link_hello hello;
  uint8_t bytes[HELLO];
  if (by_hello_read(&job, data, size, &hello) != BANYAN_OK) return 0;
  assert(size == HELLO && hello.from < job.processes && hello.from != job.rank);
  assert(hello.lane < hello.lanes && hello.lanes <= BY_LANES && hello.membership == 0);
  by_hello_write(&hello, bytes);
  assert(!memcmp(bytes, data, size));
  return 0;
}
