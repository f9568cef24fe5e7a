#include "types.h"

#include <limits.h>

enum kind { SIGNED, UNSIGNED, FLOATING, COMPLEX, BYTES, OPAQUE };

enum { MOST_TYPES = 48 };

static struct {
  struct known {
    MPI_Datatype type;
    enum kind kind;
    int size; /* bytes */
  } items[MOST_TYPES];
  int count;
} types;

static void add(MPI_Datatype type, enum kind kind) {
  int size = 0;
  if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 1) return;
  if (types.count < MOST_TYPES) types.items[types.count++] = (struct known){type, kind, size};
}

/* Sizes are asked for, since those of Fortran's types depend on its compiler. Types that MPI_Reduce takes beyond these
 * have no counterpart. */
void types_init(void) {
  const MPI_Datatype floats[] = {MPI_DOUBLE, MPI_FLOAT, MPI_DOUBLE_PRECISION, MPI_REAL, MPI_REAL4, MPI_REAL8};
  const MPI_Datatype integers[] = {MPI_INT,     MPI_LONG,     MPI_LONG_LONG, MPI_INT32_T,     MPI_INT64_T,
                                   MPI_INTEGER, MPI_INT8_T,   MPI_AINT,      MPI_SIGNED_CHAR, MPI_OFFSET,
                                   MPI_COUNT,   MPI_INTEGER4, MPI_INTEGER8,  MPI_INTEGER1};
  const MPI_Datatype naturals[] = {MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT32_T,
                                   MPI_UINT64_T, MPI_UINT8_T,       MPI_UNSIGNED_CHAR};
  const MPI_Datatype complexes[] = {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX,
                                    MPI_DOUBLE_COMPLEX,  MPI_COMPLEX8,         MPI_COMPLEX16};
  const MPI_Datatype others[] = {MPI_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_CHARACTER, MPI_PACKED};
#define ADD(list, kind)                                                                                                \
  for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++) add((list)[i], kind)
  ADD(floats, FLOATING);
  ADD(integers, SIGNED);
  ADD(naturals, UNSIGNED);
  ADD(complexes, COMPLEX);
  add(MPI_BYTE, BYTES);
  ADD(others, OPAQUE);
}

static const struct known *find(MPI_Datatype type) {
  for (const struct known *known = types.items; known < types.items + types.count; known++)
    if (known->type == type) return known;
  return NULL;
}

/* ---- reductions */

/* The type whose elements are added, of a kind and size; BANYAN_DTYPES: none. */
static enum banyan_dtype dtype_of(const struct known *known) {
  int size = known->kind == COMPLEX ? known->size / 2 : known->size;
  switch (known->kind) {
  case FLOATING:
  case COMPLEX: return size == 8 ? BANYAN_FLOAT64 : size == 4 ? BANYAN_FLOAT32 : BANYAN_DTYPES;
  case SIGNED: return size == 8 ? BANYAN_INT64 : size == 4 ? BANYAN_INT32 : size == 1 ? BANYAN_INT8 : BANYAN_DTYPES;
  case UNSIGNED: /* the sums of signed and unsigned integers have the same bits */
    return size == 8 ? BANYAN_INT64 : size == 4 ? BANYAN_INT32 : size == 1 ? BANYAN_UINT8 : BANYAN_DTYPES;
  case BYTES: return BANYAN_UINT8;
  default: return BANYAN_DTYPES;
  }
}

/* False: MPI or Banyan does not have this operation of this type. */
static bool op_of(const struct known *known, MPI_Op op, enum banyan_op *out) {
  bool integer = known->kind == SIGNED || known->kind == UNSIGNED;
  bool ordered = known->kind == FLOATING || known->kind == SIGNED || (known->kind == UNSIGNED && known->size == 1);
  if (op == MPI_SUM && known->kind != BYTES)
    *out = BANYAN_SUM;
  else if (op == MPI_MAX && ordered)
    *out = BANYAN_MAX;
  else if (op == MPI_MIN && ordered)
    *out = BANYAN_MIN;
  else if (op == MPI_PROD && (integer || known->kind == FLOATING))
    *out = BANYAN_PRODUCT;
  else if (op == MPI_BAND && (integer || known->kind == BYTES))
    *out = BANYAN_AND;
  else if (op == MPI_BOR && (integer || known->kind == BYTES))
    *out = BANYAN_OR;
  else if (op == MPI_BXOR && (integer || known->kind == BYTES))
    *out = BANYAN_XOR;
  else
    return false;
  return true;
}

bool reduction_of(int count, MPI_Datatype type, MPI_Op op, struct banyan_call *call) {
  const struct known *known = find(type);
  if (count < 0 || !known) return false;
  call->dtype = dtype_of(known);
  call->count = (size_t)count * (known->kind == COMPLEX ? 2 : 1);
  return call->dtype != BANYAN_DTYPES && op_of(known, op, &call->op);
}

size_t call_bytes(const struct banyan_call *call) {
  return call->count * banyan_dtype_size(call->dtype);
}

/* ---- data */

bool data_bytes(int count, MPI_Datatype type, size_t *out) {
  const struct known *known = find(type);
  MPI_Count size = 0;
  if (count < 0 || type == MPI_DATATYPE_NULL) return false;
  if (known)
    size = known->size;
  else if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
    return false;
  return !__builtin_mul_overflow((size_t)count, (size_t)size, out);
}

/* No function tells, so nothing is packed. */
bool is_committed(MPI_Datatype type) {
  char none = 0;
  int position = 0;
  return find(type) || mpi.self == MPI_COMM_NULL ||
         PMPI_Pack(&none, 0, type, &none, 0, &position, mpi.self) == MPI_SUCCESS;
}

/* A derived type without gaps may have its parts in another order, so only predefined ones are looked at. */
bool is_contiguous(MPI_Datatype type) {
  int integers, addresses, inner, combiner, size;
  MPI_Aint lower, extent;
  if (find(type)) return true;
  return PMPI_Type_get_envelope(type, &integers, &addresses, &inner, &combiner) == MPI_SUCCESS &&
         combiner == MPI_COMBINER_NAMED && PMPI_Type_size(type, &size) == MPI_SUCCESS &&
         PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS && lower == 0 && extent == size;
}

void *element_at(const void *buffer, MPI_Aint index, MPI_Datatype type) {
  MPI_Aint lower, extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return (char *)buffer + index * extent;
}

/* MPI_Pack and MPI_Unpack of MPICH 4.0 do not take MPI_BOTTOM, which is NULL. So they get another address, and a type,
 * which the caller frees, of the same data seen from there. */
static int seen_from(const char *address, int count, MPI_Datatype type, MPI_Datatype *out) {
  MPI_Aint place = -(MPI_Aint)address;
  int status = PMPI_Type_create_hindexed(1, &count, &place, type, out);
  return status == MPI_SUCCESS ? PMPI_Type_commit(out) : status;
}

int data_pack(const void *buffer, int count, MPI_Datatype type, void *packed, size_t bytes, MPI_Comm comm) {
  int position = 0;
  if (buffer != MPI_BOTTOM) return PMPI_Pack(buffer, count, type, packed, (int)bytes, &position, comm);
  int status = seen_from(packed, count, type, &type);
  if (status != MPI_SUCCESS) return status;
  status = PMPI_Pack(packed, 1, type, packed, (int)bytes, &position, comm);
  PMPI_Type_free(&type);
  return status;
}

int data_unpack(const void *packed, size_t bytes, void *buffer, int count, MPI_Datatype type, MPI_Comm comm) {
  int position = 0;
  if (buffer != MPI_BOTTOM) return PMPI_Unpack(packed, (int)bytes, &position, buffer, count, type, comm);
  int status = seen_from(packed, count, type, &type);
  if (status != MPI_SUCCESS) return status;
  status = PMPI_Unpack(packed, (int)bytes, &position, (void *)packed, 1, type, comm);
  PMPI_Type_free(&type);
  return status;
}
