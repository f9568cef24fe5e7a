/* What `banyan mpirun` reads of programs, and of the beginnings of these. A library that is found must be named there.
 */
#include <stdlib.h>
#include <string.h>

#include "launch.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void try_first(const unsigned char *data, size_t size) {
  unsigned char *copy = malloc(size + !size); /* so that a byte behind its end is noticed */
  if (!copy) return;
  if (size) memcpy(copy, data, size);
  if (by_elf_abi(copy, size) != BY_MPI_NONE && !memmem(copy, size, "libmpi", 6)) abort();
  free(copy);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  enum { CUTS = 400 };
  for (size_t cut = 0; cut <= size && cut < CUTS; cut++) try_first(data, size - cut);
  return 0;
}
