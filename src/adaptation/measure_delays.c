/* Measures the delays between all hosts, with a first guess at rates, by requests and answers. */
#include <math.h>
#include <stdlib.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "survey_parts.h"
#include "thresholds.h"

/* ---- delays: a question is eight bytes with the number of bytes that follow; eight bytes answer it */

enum {
  OVER = -1,
  QUESTIONS = 40, /* Requests without further bytes; the first one makes the connection and does not count. */
  MIN_QUESTIONS = 4,
  TRIES = 3,
  FIRST_BYTES = 4 << 10,
  MAX_BYTES = 1 << 20,
  QUICK_RATES = 4 /* If time is limited, each host asks so many others for a rate. */
};

/* How thoroughly a pair is measured. A message that takes `long_enough` seconds shows a rate; `timeout` limits the
 * seconds of all requests; each next message is `grows` times as long. Hosts with round trips of more than `longest`
 * seconds are not asked for a rate, since they are measured otherwise if time is limited. */
struct care {
  double long_enough, timeout;
  int questions, min_questions, tries, grows;
  double longest;
};

static const struct care usual = {5e-3, 0.1, QUESTIONS, MIN_QUESTIONS, TRIES, 2, INFINITY};
static const struct care quick_care = {2e-3, 0.01, 10, 2, 1, 4, 0.02};

struct asking {
  struct banyan_comm *comm;
  int peer;
  char *memory; /* Memory of MAX_BYTES bytes. */
  struct care care;
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

/* Asks several times if a message takes long, since it may have been late, and takes the fastest try. */
static enum banyan_status ask_again(const struct asking *a, int64_t bytes, double min, double *seconds) {
  double again;
  BY_TRY(ask(a, bytes, seconds));
  for (int i = 1; i < a->care.tries && *seconds - min >= a->care.long_enough; i++) {
    BY_TRY(ask(a, bytes, &again));
    *seconds = fmin(*seconds, again);
  }
  return BANYAN_OK;
}

/* Measures the delay and the rate of a pair. The fastest answer counts, since other load can only delay it. The rate is
 * that of the longest message, of which the burst that an idle link lets through is the smallest part. */
static enum banyan_status ask_all(const struct asking *a, bool for_rate, double *delay, double *rate) {
  int64_t over = OVER;
  double seconds, min = INFINITY;
  BY_TRY(ask(a, 0, &seconds));
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < a->care.questions && (i < a->care.min_questions || by_seconds_since(start) < a->care.timeout);
       i++) {
    BY_TRY(ask(a, 0, &seconds));
    min = fmin(min, seconds);
  }
  *delay = min / 2;
  seconds = min;
  for_rate &= min < a->care.longest;
  for (int64_t bytes = FIRST_BYTES; for_rate && bytes <= MAX_BYTES && seconds - min < a->care.long_enough;
       bytes *= a->care.grows) {
    BY_TRY(ask_again(a, bytes, min, &seconds));
    *rate = fmin(8 * (double)bytes / fmax(seconds - min, 1e-9), BY_MAX_RATE);
  }
  return send_bytes(a, &over, sizeof over);
}

static enum banyan_status answer_all(const struct asking *a) {
  for (;;) {
    int64_t bytes;
    BY_TRY(receive_bytes(a, &bytes, sizeof bytes));
    if (bytes == OVER) return BANYAN_OK;
    if (bytes < 0 || bytes > MAX_BYTES)
      return by_fail(BANYAN_ERR_PROTOCOL, "rank %d asked with %lld bytes while measuring", a->peer, (long long)bytes);
    if (bytes > 0) BY_TRY(receive_bytes(a, a->memory, (size_t)bytes));
    BY_TRY(send_bytes(a, &bytes, sizeof bytes));
  }
}

/* Finds whether rank 0 has no time left; all ranks get the same answer, and begin the next round together. */
static enum banyan_status is_late(const struct by_measurement *m, bool *late) {
  int32_t said = m->leaders->rank == 0 && by_seconds_since(m->start) > by_limit_too_late * m->until;
  BY_TRY(banyan_allreduce(m->leaders, &said, &said, 1, BANYAN_INT32, BANYAN_MAX));
  *late = said;
  return BANYAN_OK;
}

/* Fills this rank's row for all higher ranks. */
static enum banyan_status meet_all(const struct by_measurement *m, char *memory, double *delay, double *rate,
                                   bool *late) {
  struct banyan_comm *comm = m->leaders;
  uint32_t n = comm->size, rank = comm->rank;
  bool quick = m->options.seconds > 0;
  for (uint32_t r = 0; r < by_tournament_rounds(n); r++) {
    uint32_t peer = by_tournament_peer(n, r, rank);
    struct asking a = {.comm = comm, .peer = (int)peer, .memory = memory, .care = quick ? quick_care : usual};
    bool for_rate = !quick || r < QUICK_RATES;
    if (quick) BY_TRY(is_late(m, late));
    if (*late) break;
    if (for_rate && !quick) BY_TRY(banyan_barrier(comm));
    if (peer > rank) BY_TRY(ask_all(&a, for_rate, &delay[peer], &rate[peer]));
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

enum banyan_status by_measure_delays(struct by_measurement *m, struct by_pairs_measured *out) {
  struct banyan_comm *comm = m->leaders;
  double *rows = calloc(2 * (size_t)comm->size, sizeof *rows);
  char *memory = calloc(1, MAX_BYTES);
  enum banyan_status status =
      rows && memory ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring delays");
  if (status == BANYAN_OK) status = meet_all(m, memory, rows, rows + comm->size, &out->late);
  if (status == BANYAN_OK) status = gather(comm, rows, out->delay);
  if (status == BANYAN_OK) status = gather(comm, rows + comm->size, out->rate);
  free(rows);
  free(memory);
  return status;
}

/* ---- all pairs at once: what has to wait for other answers is little where round trips are long */

/* The first round makes the connection and does not count. More rounds follow for a while, since a busy machine answers
 * late. */
enum { MIN_ROUNDS = 3, MAX_ROUNDS = 12 };

struct turn {
  uint32_t step;   /* Number of sends and receives so far, two for each round. */
  int64_t message; /* 1: more rounds follow; 0: this is the last one. The answer repeats it. */
  uint64_t begun;
};

/* Starts the next send or receive with this peer; the lower rank asks. */
static enum banyan_status take_turn(struct banyan_comm *comm, uint32_t peer, uint64_t start, struct turn *turn,
                                    struct banyan_request **request) {
  bool begins = turn->step % 2 == 0, asks = comm->rank < peer, sends = begins == asks;
  uint32_t round = turn->step / 2 + 1;
  struct banyan_call call = {.collective = sends ? BANYAN_SEND : BANYAN_RECV,
                             .dtype = BANYAN_UINT8,
                             .count = sizeof turn->message,
                             .root = (int)peer};
  if (begins && asks)
    turn->message = round < MIN_ROUNDS || (round < MAX_ROUNDS && by_seconds_since(start) < 2 * by_limit_probe_time);
  if (sends)
    call.send = &turn->message;
  else
    call.recv = &turn->message;
  if (begins) turn->begun = by_clock_now(&by_clock_system);
  return banyan_start(comm, &call, request);
}

static enum banyan_status ask_everyone(struct banyan_comm *comm, struct turn *turns, struct banyan_request **requests,
                                       double *delay) {
  enum banyan_status status = BANYAN_OK;
  uint64_t start = by_clock_now(&by_clock_system);
  for (uint32_t r = 0; r < comm->size && status == BANYAN_OK; r++)
    if (r != comm->rank) status = take_turn(comm, r, start, &turns[r], &requests[r]);
  while (status == BANYAN_OK) {
    size_t r;
    status = banyan_wait_any(requests, comm->size, &r);
    if (status != BANYAN_OK || r == comm->size) break;
    struct turn *turn = &turns[r];
    turn->step++;
    bool ends = turn->step % 2 == 0, counts = ends && turn->step > 2 && r > comm->rank;
    double took = by_seconds_since(turn->begun) / 2;
    if (counts) delay[r] = delay[r] > 0 ? fmin(delay[r], took) : took;
    if (!ends || (turn->message && turn->step < 2 * MAX_ROUNDS))
      status = take_turn(comm, (uint32_t)r, start, turn, &requests[r]);
  }
  if (status != BANYAN_OK)
    banyan_comm_abort(comm, banyan_error_text()); /* Ends the job, so that no rank waits for messages of the others. */
  if (banyan_wait_all(requests, comm->size) != BANYAN_OK) by_debug("measure", "%s", banyan_error_text());
  return status;
}

/* Limits delays by what the kernel knows: a rank that waits for a core answers late, but its kernel acknowledges at
 * once. */

struct row {
  const struct banyan_comm *comm;
  double *delay;
};

static void correct(void *context, uint32_t process, struct by_lane *lane) {
  const struct row *row = context;
  struct by_meter meter;
  if (!by_lane_meter(lane, &meter)) return;
  double max = (meter.trip * 1e-6 + by_limit_answers_in) / 2;
  for (uint32_t r = row->comm->rank + 1; meter.trip && r < row->comm->size; r++)
    if (row->comm->processes[r] == process) row->delay[r] = fmin(row->delay[r], max);
}

static void correct_all(struct banyan_comm *comm, double *delay) {
  struct row row = {.comm = comm, .delay = delay};
  by_job_lock(comm->job);
  by_engine_visit_lanes(by_job_engine(comm->job), correct, &row);
  by_job_unlock(comm->job);
}

enum banyan_status by_measure_trips(struct by_measurement *m, double *delay) {
  struct turn *turns = calloc(m->n, sizeof *turns);
  double *row = calloc(m->n, sizeof *row);
  struct banyan_request **requests = calloc(m->n, sizeof(struct banyan_request *));
  enum banyan_status status = turns && row && requests
                                  ? ask_everyone(m->leaders, turns, requests, row)
                                  : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring delays");
  if (status == BANYAN_OK) correct_all(m->leaders, row);
  if (status == BANYAN_OK) status = gather(m->leaders, row, delay);
  free(turns);
  free(row);
  free(requests);
  return status;
}
