/* Which MPI library a program is linked with, from the names of the libraries that it needs. Plain functions. */
#ifndef BY_CMD_RUN_ELF_ABI_H
#define BY_CMD_RUN_ELF_ABI_H

#include <stddef.h>

enum by_mpi_abi { BY_MPI_NONE, BY_MPI_OPENMPI, BY_MPI_MPICH };

/* Of the contents of a file; BY_MPI_NONE if it is no program for 64-bit little-endian machines, is damaged, or needs
 * neither. */
enum by_mpi_abi by_elf_abi(const unsigned char *bytes, size_t length);
/* Of a file; BY_MPI_NONE also if it cannot be read. */
enum by_mpi_abi by_program_abi(const char *path);

#endif
