/* Who shares a host, and who a machine: ranks sorted by both. */
#include <stdlib.h>
#include <string.h>

#include "job_state.h"

struct spot {
  const struct by_member *member;
  uint32_t rank;
};

static int by_doc_path(const void *a, const void *b) {
  const struct spot *x = a, *y = b;
  int machine = strcmp(x->member->machine, y->member->machine);
  if (machine) return machine;
  int host = strcmp(x->member->host, y->member->host);
  if (host) return host;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* One machine's ranks, of one host or several. */
static void note_machine(struct by_job *job, const struct spot *spots, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    bool follows = i && by_member_same_host(spots[i].member, spots[i - 1].member);
    job->hosts.first_here[spots[i].rank] = follows ? job->hosts.first_here[spots[i - 1].rank] : spots[i].rank;
    bool crowded = n > spots[i].member->cores;
    if (crowded) job->hosts.crowded = true;
    if (spots[i].rank != job->rank) continue;
    job->hosts.neighbours = n;
    job->hosts.yields = crowded;
  }
}

/* With TCP asked for, every rank counts as a host of its own. */
static void number_hosts(struct by_job *job) {
  bool alone = !strcmp(job->settings.transport, "tcp");
  for (uint32_t r = 0; r < job->size; r++) {
    uint32_t first = alone ? r : job->hosts.first_here[r];
    job->hosts.of[r] = first < r ? job->hosts.of[first] : job->hosts.n++;
  }
}

static enum banyan_status differ(const struct by_job *job, uint32_t rank) {
  const struct by_member *zero = &job->members[0], *member = &job->members[rank];
  char text[4][32];
  return by_fail(
      BANYAN_ERR_ARGUMENT,
      "rank %u (host %s) was started with BANYAN_ENGINE=eager-limit=%s,credit=%s, rank 0 (host %s) with %s and %s: set "
      "both alike on all ranks",
      rank, member->host, by_print_bytes(member->eager_limit, text[0]), by_print_bytes(member->credit, text[1]),
      zero->host, by_print_bytes(zero->eager_limit, text[2]), by_print_bytes(zero->credit, text[3]));
}

/* A rank that sends fewer eager bytes than its peer waits for would wait for a grant, and the peer for more. */
static enum banyan_status check_alike(const struct by_job *job) {
  const struct by_member *members = job->members;
  for (uint32_t r = 1; r < job->size; r++)
    if (members[r].eager_limit != members[0].eager_limit || members[r].credit != members[0].credit)
      return differ(job, r);
  return BANYAN_OK;
}

enum banyan_status by_hosts_index(struct by_job *job) {
  uint32_t n = job->processes; /* Helpers count too, since they share machines with ranks. */
  struct spot *spots = calloc(n, sizeof *spots);
  job->hosts.of = BY_ARENA_ARRAY(&job->arena, uint32_t, n);
  job->hosts.first_here = BY_ARENA_ARRAY(&job->arena, uint32_t, n);
  if (!spots || !job->hosts.of || !job->hosts.first_here) {
    free(spots);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  }
  for (uint32_t r = 0; r < n; r++) spots[r] = (struct spot){&job->members[r], r};
  qsort(spots, n, sizeof *spots, by_doc_path);
  for (uint32_t first = 0, end; first < n; first = end) {
    end = first + 1;
    while (end < n && !strcmp(spots[end].member->machine, spots[first].member->machine)) end++;
    note_machine(job, spots + first, end - first);
  }
  number_hosts(job);
  free(spots);
  if (!strcmp(job->settings.transport, "shm") && job->hosts.n > 1)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "transport shm was asked for, but the ranks are on %u hosts", job->hosts.n);
  return check_alike(job);
}
