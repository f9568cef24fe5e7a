/* A question is eight bytes with the number of bytes that follow; eight bytes answer it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "measure_parts.h"
#include "tournament.h"

enum {
  OVER = -1,
  QUESTIONS = 40, /* without more; the first one makes the connection and does not count */
  LEAST_QUESTIONS = 4,
  TRIES = 3,
  FIRST_BYTES = 4 << 10,
  MOST_BYTES = 1 << 20
};

static const double long_enough = 5e-3, timeout = 0.1; /* seconds: of a message; for all questions */
static const double any_rate = 1e12;

struct asking {
  struct banyan_comm *comm;
  int peer;
  char *memory; /* MOST_BYTES */
};

static enum banyan_status send_bytes(const struct asking *a, const void *bytes, size_t n) {
  struct banyan_call call = {
      .collective = BANYAN_SEND, .dtype = BANYAN_UINT8, .send = bytes, .count = n, .root = a->peer};
  return banyan_run(a->comm, &call);
}

static enum banyan_status receive_bytes(const struct asking *a, void *bytes, size_t n) {
  struct banyan_call call = {
      .collective = BANYAN_RECV, .dtype = BANYAN_UINT8, .recv = bytes, .count = n, .root = a->peer};
  return banyan_run(a->comm, &call);
}

static enum banyan_status ask(const struct asking *a, int64_t bytes, double *seconds) {
  int64_t answer;
  uint64_t start = by_clock_now(&by_clock_system);
  BY_TRY(send_bytes(a, &bytes, sizeof bytes));
  if (bytes > 0) BY_TRY(send_bytes(a, a->memory, (size_t)bytes));
  BY_TRY(receive_bytes(a, &answer, sizeof answer));
  *seconds = by_seconds_since(start);
  return BANYAN_OK;
}

/* A message that takes long may have been late: the fastest of some tries counts. */
static enum banyan_status ask_again(const struct asking *a, int64_t bytes, double least, double *seconds) {
  double again;
  BY_TRY(ask(a, bytes, seconds));
  for (int i = 1; i < TRIES && *seconds - least >= long_enough; i++) {
    BY_TRY(ask(a, bytes, &again));
    *seconds = fmin(*seconds, again);
  }
  return BANYAN_OK;
}

/* The fastest answer counts: whatever else goes on can only delay it. For the rate it is the longest message, of which
 * least is let through as the burst of an idle link. */
static enum banyan_status ask_all(const struct asking *a, double *delay, double *rate) {
  int64_t over = OVER;
  double seconds, least = INFINITY;
  BY_TRY(ask(a, 0, &seconds));
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < QUESTIONS && (i < LEAST_QUESTIONS || by_seconds_since(start) < timeout); i++) {
    BY_TRY(ask(a, 0, &seconds));
    least = fmin(least, seconds);
  }
  *delay = least / 2;
  seconds = least;
  for (int64_t bytes = FIRST_BYTES; bytes <= MOST_BYTES && seconds - least < long_enough; bytes *= 2) {
    BY_TRY(ask_again(a, bytes, least, &seconds));
    *rate = fmin(8 * (double)bytes / fmax(seconds - least, 1e-9), any_rate);
  }
  return send_bytes(a, &over, sizeof over);
}

static enum banyan_status answer_all(const struct asking *a) {
  for (;;) {
    int64_t bytes;
    BY_TRY(receive_bytes(a, &bytes, sizeof bytes));
    if (bytes == OVER) return BANYAN_OK;
    if (bytes < 0 || bytes > MOST_BYTES)
      return by_fail(BANYAN_ERR_PROTOCOL, "rank %d asked with %lld bytes while measuring", a->peer, (long long)bytes);
    if (bytes > 0) BY_TRY(receive_bytes(a, a->memory, (size_t)bytes));
    BY_TRY(send_bytes(a, &bytes, sizeof bytes));
  }
}

/* Fills this rank's row, of those with higher ranks. */
static enum banyan_status meet_all(struct banyan_comm *comm, char *memory, double *delay, double *rate) {
  uint32_t n = comm->size, rank = comm->rank;
  for (uint32_t r = 0; r < by_tournament_rounds(n); r++) {
    uint32_t peer = by_tournament_peer(n, r, rank);
    struct asking a = {.comm = comm, .peer = (int)peer, .memory = memory};
    BY_TRY(banyan_barrier(comm));
    if (peer > rank) BY_TRY(ask_all(&a, &delay[peer], &rate[peer]));
    if (peer < rank) BY_TRY(answer_all(&a));
  }
  return BANYAN_OK;
}

static enum banyan_status gather(struct banyan_comm *comm, const double *row, double *all) {
  struct banyan_call call = {
      .collective = BANYAN_GATHER, .dtype = BANYAN_FLOAT64, .send = row, .recv = all, .count = comm->size};
  BY_TRY(banyan_run(comm, &call));
  for (size_t i = 0; !comm->rank && i < comm->size; i++)
    for (size_t j = 0; j < i; j++) all[i * comm->size + j] = all[j * comm->size + i];
  return BANYAN_OK;
}

enum banyan_status by_measure_delays(struct banyan_comm *comm, struct by_pairs_measured *out) {
  double *rows = calloc(2 * (size_t)comm->size, sizeof *rows);
  char *memory = calloc(1, MOST_BYTES);
  enum banyan_status status =
      rows && memory ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring delays");
  if (status == BANYAN_OK) status = meet_all(comm, memory, rows, rows + comm->size);
  if (status == BANYAN_OK) status = gather(comm, rows, out->delay);
  if (status == BANYAN_OK) status = gather(comm, rows + comm->size, out->rate);
  free(rows);
  free(memory);
  return status;
}
