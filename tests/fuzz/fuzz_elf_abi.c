/* What `banyan mpirun` reads of programs. A library that is found must be named in the file. */
#include <stdlib.h>
#include <string.h>

#include "elf_abi.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  unsigned char *copy = malloc(size + !size); /* so that a byte behind its end is noticed */
  if (!copy) return 0;
  if (size) memcpy(copy, data, size);
  enum by_mpi_abi abi = by_elf_abi(copy, size);
  if (abi != BY_MPI_NONE && !memmem(copy, size, "libmpi", 6)) abort();
  free(copy);
  return 0;
}
