/* MPI's predefined types and operations as Banyan's, and the bytes of buffers of any type. No state but a table, which
 * is filled once and then only read. */
#ifndef BY_MPI_TYPES_H
#define BY_MPI_TYPES_H

#include "mpi_library.h"

#include <banyan/banyan.h>

/* Called once MPI is initialised. */
void types_init(void);

/* Sets dtype, op and count, in Banyan's elements, of a call. False: Banyan has no such reduction, or the arguments are
 * wrong. MPI requires type and operation to be the same on all ranks, so all get the same answer. */
bool reduction_of(int count, MPI_Datatype type, MPI_Op op, struct banyan_call *call);
/* The number of bytes of one call's elements that `reduction_of` has set. */
size_t call_bytes(const struct banyan_call *call);

/* Bytes of the data of `count` elements, which MPI requires to be the same for sender and receiver, whatever types they
 * use. False: the arguments are wrong. */
bool data_bytes(int count, MPI_Datatype type, size_t *out);
/* Whether the type may be used for communication; not of MPI_DATATYPE_NULL. */
bool is_committed(MPI_Datatype type);
/* Whether these bytes lie in a buffer as they are sent. */
bool is_contiguous(MPI_Datatype type);

/* The position of element `index` of a buffer. */
void *element_at(const void *buffer, MPI_Aint index, MPI_Datatype type);
/* Copies the data of `count` elements from a buffer into `bytes` bytes, and back. MPI's error code; the error handler
 * of `comm` has been called. */
int data_pack(const void *buffer, int count, MPI_Datatype type, void *packed, size_t bytes, MPI_Comm comm);
int data_unpack(const void *packed, size_t bytes, void *buffer, int count, MPI_Datatype type, MPI_Comm comm);

#endif
