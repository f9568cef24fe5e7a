/* The program that test_lab_switches.sh runs as each rank. It sums floats with AllReduce. Among them are NaN,
 * infinities, values near FLT_MAX, denormals, and numbers whose sum depends on the order. They lie in blocks that are
 * longer than fragments. Every element must equal the result of IEEE addition. The program exits with 1 and prints the
 * position of a wrong element; otherwise it prints the resulting bits. */
#include <banyan/banyan.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 5 * 350 /* no two blocks share a fragment */, KINDS = 10, COUNT = BLOCK * KINDS };

/* Returns values of many magnitudes. */
static float scattered(int i, int rank) {
  uint32_t bits = ((uint32_t)i * 64 + (uint32_t)rank) * 2654435761u;
  return ldexpf((float)(bits >> 8) - 0x1p23f, (int)(bits % 16) - 23);
}

/* Only every 97th element of a block has a special value. */
static float term(int kind, int i, int rank, int ranks) {
  if (kind == 9) return scattered(i, rank);
  if (i % 97) return kind == 6 ? 0 : (float)((i + rank) % 5);
  switch (kind) {
  case 0: return rank == 1 ? NAN : 1;
  case 1: return rank == 0 ? INFINITY : -3;
  case 2: return rank == 0 ? INFINITY : rank == ranks - 1 ? -INFINITY : 2;
  case 3: return FLT_MAX; /* the sum exceeds the range of float */
  case 4: return rank == 0 ? FLT_MAX : rank == 1 ? -FLT_MAX : 0;
  case 5: return FLT_MAX / 16;
  case 6: return (float)(rank + 1) * 0x1p-149f; /* denormal, among zeros */
  case 7: return rank == ranks - 1 ? -INFINITY : FLT_MAX / 16;
  default: return rank % 2 ? -0.0f : 0.0f;
  }
}

static int is_right(int kind, int i, float got, int ranks) {
  double sum = 0, most = kind == 9 ? 0x1p15 : 0;
  for (int r = 0; r < ranks; r++) {
    sum += (double)term(kind, i, r, ranks);
    for (int k = 0; k < 97; k += 96) most = fmax(most, fabs((double)term(kind, i / 97 * 97 + k, r, ranks)));
  }
  if (isnan(sum)) return isnan(got);
  if (fabs(sum) > (double)FLT_MAX) return isinf(got) && (got > 0) == (sum > 0);
  return fabs((double)got - sum) <= (isfinite(most) ? most : 4) * ranks * 0x1p-22;
}

static uint64_t hash(const void *bytes, size_t n, uint64_t so_far) {
  for (const unsigned char *at = bytes; n; n--) so_far = (so_far ^ *at++) * 1099511628211u;
  return so_far;
}

/* Parts of the job sum without the job's switches while the whole job uses them. Returns how many sums are wrong; -1:
 * an error. */
static int add_in_parts(struct banyan_comm *comm, float *numbers) {
  struct banyan_comm *part;
  int wrong = 0;
  if (banyan_comm_split(comm, banyan_comm_rank(comm) % 2, 0, &part) != BANYAN_OK) return -1;
  for (int i = 0; i < COUNT; i++) numbers[i] = 1;
  enum banyan_status status = banyan_allreduce(part, numbers, numbers, COUNT, BANYAN_FLOAT32, BANYAN_SUM);
  for (int i = 0; i < COUNT; i++) wrong += numbers[i] != (float)banyan_comm_size(part);
  banyan_comm_destroy(part);
  return status == BANYAN_OK ? wrong : -1;
}

int main(void) {
  static float numbers[COUNT];
  struct banyan_comm *comm;
  if (banyan_comm_create(NULL, &comm) != BANYAN_OK) goto failed;
  int rank = banyan_comm_rank(comm), ranks = banyan_comm_size(comm), wrong = 0;
  uint64_t bits = 14695981039346656037u;
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < COUNT; i++) numbers[i] = term(i / BLOCK, i % BLOCK, rank, ranks);
    if (banyan_allreduce(comm, numbers, numbers, COUNT, BANYAN_FLOAT32, BANYAN_SUM) != BANYAN_OK) goto failed;
    for (int i = 0; i < COUNT; i++) {
      if (is_right(i / BLOCK, i % BLOCK, numbers[i], ranks)) continue;
      if (!wrong++) fprintf(stderr, "kind %d, element %d: %g\n", i / BLOCK, i % BLOCK, (double)numbers[i]);
    }
    bits = hash(numbers, sizeof numbers, bits);
    int of_parts = add_in_parts(comm, numbers);
    if (of_parts < 0) goto failed;
    wrong += of_parts;
  }
  banyan_comm_destroy(comm);
  printf("%d wrong, bits %016" PRIx64 "\n", wrong, bits);
  return wrong > 0;
failed:
  fprintf(stderr, "%s\n", banyan_error_text());
  return 1;
}
