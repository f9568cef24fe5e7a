/* The MPI library with which a program is linked, by the names of the libraries that it needs. Plain functions. */
#ifndef BY_CMD_RUN_ELF_ABI_H
#define BY_CMD_RUN_ELF_ABI_H

#include <stddef.h>

enum by_mpi_abi { BY_MPI_NONE, BY_MPI_OPENMPI, BY_MPI_MPICH };

/* Examines the contents of a file; BY_MPI_NONE: it is not a program for 64-bit little-endian machines, is damaged, or
 * needs neither library. */
enum by_mpi_abi by_elf_abi(const unsigned char *bytes, size_t length);
/* Examines a file; BY_MPI_NONE also if it cannot be read. */
enum by_mpi_abi by_program_abi(const char *path);

#endif
