#include "groups.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who made a call, or why it was MPI. */
enum maker { BY_BANYAN, TOO_SMALL, UNSUITABLE, OTHER_GROUP, MAKERS };

/* What all ranks join with: rank 0 chooses and broadcasts it. */
struct meeting {
  bool counts;                 /* calls, to be reported at the end */
  char root[BANYAN_ROOT_TEXT]; /* "": rank 0 failed */
  char key[BANYAN_KEY_TEXT];   /* "": each process has one in its environment */
};

struct group {
  struct group *next;
  struct banyan_comm *comm; /* NULL: none could be created, or it has been destroyed at the end */
};

static struct {
  struct banyan_comm *world; /* NULL: MPI makes all calls */
  MPI_Group world_group;
  MPI_Request never; /* a receive on mpi.self that nothing matches, by which MPI makes progress */
  int attribute;     /* of communicators: their struct group */
  int at_end;        /* of MPI_COMM_SELF: its deletion is the first that MPI_Finalize does */
  pthread_mutex_t lock;
  struct group *groups; /* under lock, as the next one */
  uint32_t number;      /* of the next communicator of which this process is the first rank */
  bool counts;
  _Atomic uint64_t calls[MAKERS]; /* on communicators of which this process is the first rank */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A month: MPI has no deadlines, and ranks may compute for long before they come to a call. Banyan finds dead processes
 * by other means. */
#define DEADLINE (30 * 86400.0)

/* ---- how many calls Banyan made */

/* Whether BANYAN_LOG asks for what is of interest: "info", or "mpi:info". The last entry that is about it counts. */
static bool wants_report(void) {
  const char *text = getenv("BANYAN_LOG");
  bool wanted = false;
  while (text && *text) {
    size_t length = strcspn(text, ",");
    if (!strncmp(text, "mpi:", 4) || !memchr(text, ':', length)) {
      const char *level = !strncmp(text, "mpi:", 4) ? text + 4 : text;
      wanted = !strncmp(level, "info", 4) || !strncmp(level, "debug", 5);
    }
    text += length + (text[length] == ',');
  }
  return wanted;
}

/* Each call is counted once, by the first rank of its communicator; between two groups, by the first rank of each. */
static void count_call(MPI_Comm comm, enum maker maker) {
  int rank;
  if (!state.counts || comm == MPI_COMM_NULL) return;
  if (PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == 0) atomic_fetch_add(&state.calls[maker], 1);
}

static void report_calls(void) {
  uint64_t own[MAKERS], n[MAKERS];
  int rank;
  if (!state.counts) return;
  for (int i = 0; i < MAKERS; i++) own[i] = atomic_load(&state.calls[i]);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (mpi.Reduce(own, n, MAKERS, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD) != MPI_SUCCESS || rank != 0) return;
  fprintf(
      stderr,
      "banyan[rank 0] mpi: of %llu collective calls Banyan made %llu; MPI made %llu that are small, %llu because of "
      "their type, operation or size, and %llu of one process or between groups\n",
      (unsigned long long)(n[BY_BANYAN] + n[TOO_SMALL] + n[UNSUITABLE] + n[OTHER_GROUP]),
      (unsigned long long)n[BY_BANYAN], (unsigned long long)n[TOO_SMALL], (unsigned long long)n[UNSUITABLE],
      (unsigned long long)n[OTHER_GROUP]);
}

/* ---- the end */

static int destroy_all(MPI_Comm comm, int keyval, void *value, void *extra) {
  if (!state.world) return MPI_SUCCESS;
  report_calls();
  mpi.Barrier(MPI_COMM_WORLD); /* so that no rank still waits for what this one has to send */
  pthread_mutex_lock(&state.lock);
  for (struct group *group = state.groups; group; group = group->next) {
    banyan_comm_destroy(group->comm);
    group->comm = NULL;
  }
  pthread_mutex_unlock(&state.lock);
  banyan_comm_destroy(state.world);
  state.world = NULL;
  PMPI_Group_free(&state.world_group);
  PMPI_Cancel(&state.never);
  PMPI_Request_free(&state.never);
  PMPI_Comm_free(&mpi.self);
  return MPI_SUCCESS;
}

/* When an MPI communicator is freed. */
static int destroy_group(MPI_Comm comm, int keyval, void *value, void *extra) {
  struct group *group = value, **place = &state.groups;
  pthread_mutex_lock(&state.lock);
  while (*place && *place != group) place = &(*place)->next;
  if (*place) *place = group->next;
  pthread_mutex_unlock(&state.lock);
  banyan_comm_destroy(group->comm);
  free(group);
  return MPI_SUCCESS;
}

/* ---- the beginning */

static bool all_agree(MPI_Comm comm, bool yes) {
  int mine = yes, all = 0;
  return mpi.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
}

static bool is_one_host(int size) {
  MPI_Comm local;
  int n = 0;
  if (PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) != MPI_SUCCESS) return false;
  PMPI_Comm_size(local, &n);
  PMPI_Comm_free(&local);
  return n == size;
}

/* BANYAN_ROOT, BANYAN_KEY and BANYAN_KEY_FILE take precedence. */
static void choose(bool one_host, struct meeting *out) {
  const char *given = getenv("BANYAN_ROOT");
  out->counts = wants_report();
  bool has_key = getenv("BANYAN_KEY") || getenv("BANYAN_KEY_FILE"), chosen = true;
  if (given && *given)
    snprintf(out->root, sizeof out->root, "%s", given);
  else
    chosen = banyan_root_choose(one_host, out->root) == BANYAN_OK;
  if (!chosen || (!has_key && banyan_key_create(out->key) != BANYAN_OK)) *out = (struct meeting){.root = ""};
}

static enum banyan_status create_world(int rank, int size, const struct meeting *meeting) {
  struct banyan_options options = {.size_of_struct = sizeof options,
                                   .rank_plus_1 = rank + 1,
                                   .size = size,
                                   .root = meeting->root,
                                   .key = meeting->key[0] ? meeting->key : NULL,
                                   .deadline = getenv("BANYAN_DEADLINE") ? 0 : DEADLINE};
  return banyan_comm_create(&options, &state.world);
}

/* What later calls of MPI need here. */
static bool prepare(void) {
  return PMPI_Comm_group(MPI_COMM_WORLD, &state.world_group) == MPI_SUCCESS &&
         PMPI_Comm_dup(MPI_COMM_SELF, &mpi.self) == MPI_SUCCESS &&
         PMPI_Comm_set_errhandler(mpi.self, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
         PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, mpi.self, &state.never) == MPI_SUCCESS &&
         PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, destroy_group, &state.attribute, NULL) == MPI_SUCCESS &&
         PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, destroy_all, &state.at_end, NULL) == MPI_SUCCESS &&
         PMPI_Comm_set_attr(MPI_COMM_SELF, state.at_end, NULL) == MPI_SUCCESS;
}

/* Ranks that have not loaded this library would never come to the calls of groups_join, and mistake them for those of
 * the program. MPI_Ibarrier is like none of theirs; where it does not end, the user has to know why. */
static void await_ranks(int rank) {
  enum { LONG = 10 /* seconds */ };
  MPI_Request request;
  int ended = 0;
  double start = PMPI_Wtime();
  bool reported = rank != 0;
  if (PMPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
  while (PMPI_Test(&request, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && !ended) {
    if (!reported && PMPI_Wtime() - start > LONG) {
      fprintf(stderr, "banyan[rank 0] mpi: waiting for ranks that have not loaded Banyan's library; it must be at the "
                      "same place on all hosts, and in LD_PRELOAD of all ranks\n");
      reported = true;
    }
    sched_yield();
  }
}

/* Whether all ranks have joined. If not, those that know another reason than the first of them print it: often all have
 * the same one. */
static bool have_all_joined(int rank, int size, bool joined, const char *reason) {
  char own[512] = "", text[512];
  int mine = joined ? size : rank, first = 0;
  if (mpi.Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) return false;
  if (first == size) return true;
  snprintf(own, sizeof own, "%s", joined ? "" : reason);
  memcpy(text, own, sizeof text);
  mpi.Bcast(text, sizeof text, MPI_CHAR, first, MPI_COMM_WORLD);
  if (rank == first || (!joined && strcmp(own, text) != 0))
    fprintf(stderr, "banyan[rank %d] mpi: collective calls are left to MPI: %s\n", rank, own);
  return false;
}

void groups_join(void) {
  struct meeting meeting = {.root = ""};
  int rank, size;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) return;
  await_ranks(rank);
  bool one_host = is_one_host(size);
  if (rank == 0) choose(one_host, &meeting);
  if (mpi.Bcast(&meeting, sizeof meeting, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) return;
  state.counts = meeting.counts;
  bool met = meeting.root[0] && create_world(rank, size, &meeting) == BANYAN_OK;
  const char *reason = met                            ? "MPI refuses what Banyan needs"
                       : meeting.root[0] || rank == 0 ? banyan_error_text()
                                                      : "rank 0 could not choose where to meet";
  explicit_bzero(&meeting, sizeof meeting);
  if (have_all_joined(rank, size, met && prepare(), reason)) return;
  banyan_comm_destroy(state.world);
  state.world = NULL;
}

/* ---- communicators */

/* This communicator's ranks as ranks of MPI_COMM_WORLD. False: some are not in it. */
static bool translate(MPI_Comm comm, int n, int *own, int *out) {
  MPI_Group group;
  if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS) return false;
  for (int i = 0; i < n; i++) own[i] = i;
  bool known = PMPI_Group_translate_ranks(group, n, own, state.world_group, out) == MPI_SUCCESS;
  for (int i = 0; known && i < n; i++) known = out[i] != MPI_UNDEFINED;
  PMPI_Group_free(&group);
  return known;
}

static struct banyan_comm *create_subset(MPI_Comm comm, int n, const int *ranks) {
  struct banyan_comm *subset = NULL;
  uint32_t number = 0;
  int rank;
  PMPI_Comm_rank(comm, &rank);
  if (rank == 0) {
    pthread_mutex_lock(&state.lock);
    number = state.number++;
    pthread_mutex_unlock(&state.lock);
  }
  if (mpi.Bcast(&number, 1, MPI_UINT32_T, 0, comm) != MPI_SUCCESS) return NULL;
  enum banyan_status status = banyan_comm_subset(state.world, ranks, n, number, &subset);
  if (all_agree(comm, status == BANYAN_OK)) return subset;
  banyan_comm_destroy(subset);
  return NULL;
}

/* Whether all ranks have created the communicator, or know that none can be; what all ranks know alike decides what is
 * tried. False: some rank is out of memory. */
static bool create(MPI_Comm comm, struct group *group) {
  int between = 1, n = 0;
  if (PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between) return group != NULL;
  if (PMPI_Comm_size(comm, &n) != MPI_SUCCESS || n < 2) return group != NULL;
  int *ranks = malloc(2 * (size_t)n * sizeof *ranks);
  bool ready = all_agree(comm, group && ranks);
  if (ready && all_agree(comm, translate(comm, n, ranks, ranks + n))) group->comm = create_subset(comm, n, ranks + n);
  free(ranks);
  return ready;
}

/* Creates it in the first call. NULL: there is none. */
static struct banyan_comm *group_of(MPI_Comm comm) {
  struct group *group;
  int found = 0;
  if (comm == MPI_COMM_WORLD) return state.world;
  if (comm == MPI_COMM_NULL || comm == MPI_COMM_SELF) return NULL;
  if (PMPI_Comm_get_attr(comm, state.attribute, &group, &found) != MPI_SUCCESS) return NULL;
  if (found) return group->comm;
  group = calloc(1, sizeof *group);
  if (!create(comm, group)) {
    free(group);
    return NULL;
  }
  pthread_mutex_lock(&state.lock);
  group->next = state.groups;
  state.groups = group;
  pthread_mutex_unlock(&state.lock);
  PMPI_Comm_set_attr(comm, state.attribute, group);
  return group->comm;
}

/* From how many bytes of the whole buffer on calls with Banyan are not slower than those of Open MPI 4.1 and MPICH 4.0:
 * inside a host, and between hosts, where messages are encrypted (measured by bench/mpi.py). */
static const struct {
  size_t inside, between;
} least[BANYAN_COLLECTIVES] = {
    [BANYAN_ALLREDUCE] = {512, 16 << 10},      [BANYAN_REDUCE] = {512, 32 << 10},
    [BANYAN_BROADCAST] = {512, 64 << 10},      [BANYAN_REDUCE_SCATTER] = {512, 64 << 10},
    [BANYAN_ALLGATHER] = {1 << 10, 128 << 10}, [BANYAN_ALLTOALL] = {1 << 10, 128 << 10},
    [BANYAN_BARRIER] = {0, SIZE_MAX},
};

/* Either all ranks have all others on their host, or none has. */
static enum maker choose_maker(const struct banyan_comm *group, enum banyan_collective collective, size_t bytes) {
  if (!group) return OTHER_GROUP;
  bool is_inside = banyan_comm_local_size(group) == banyan_comm_size(group);
  return is_inside || bytes >= least[collective].between ? BY_BANYAN : TOO_SMALL;
}

struct banyan_comm *group_for(MPI_Comm comm, enum banyan_collective collective, size_t bytes) {
  if (!state.world) return NULL;
  bool is_small = bytes < least[collective].inside;
  struct banyan_comm *group = is_small ? NULL : group_of(comm);
  enum maker maker = is_small ? TOO_SMALL : choose_maker(group, collective, bytes);
  count_call(comm, maker);
  return maker == BY_BANYAN ? group : NULL;
}

struct banyan_comm *group_unsuitable(MPI_Comm comm) {
  count_call(comm, UNSUITABLE);
  return NULL;
}

int ranks_of(MPI_Comm comm) {
  int n = 0, between = 1;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between) return 0;
  return PMPI_Comm_size(comm, &n) == MPI_SUCCESS ? n : 0;
}

/* ---- calls */

/* MPI_Iprobe of MPICH makes progress with messages, but not with non-blocking collective calls. */
static void progress(void *unused) {
  int ended;
  PMPI_Request_get_status(state.never, &ended, MPI_STATUS_IGNORE);
}

/* A code of MPI for an error, of a class of its own: MPICH forgets the text of codes of its own classes. After the job
 * has failed, all calls end with the same text, and so with the same code. */
static int code_of(const char *text) {
  static char latest[MPI_MAX_ERROR_STRING];
  static int class, code;
  char shown[MPI_MAX_ERROR_STRING];
  snprintf(shown, sizeof shown, "banyan: %s", text);
  pthread_mutex_lock(&state.lock);
  bool known = class || PMPI_Add_error_class(&class) == MPI_SUCCESS;
  if (known && strcmp(latest, shown) != 0 && PMPI_Add_error_code(class, &code) == MPI_SUCCESS) {
    PMPI_Add_error_string(code, shown);
    strcpy(latest, shown);
  }
  int result = code ? code : MPI_ERR_OTHER;
  pthread_mutex_unlock(&state.lock);
  return result;
}

static int fail(MPI_Comm comm, const char *text) {
  int code = code_of(text);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int group_run(struct banyan_comm *group, MPI_Comm comm, const struct banyan_call *call) {
  if (banyan_run_polling(group, call, progress, NULL) == BANYAN_OK) return MPI_SUCCESS;
  return fail(comm, banyan_error_text());
}

int group_give_up(struct banyan_comm *group, MPI_Comm comm, const char *reason) {
  banyan_comm_abort(group, reason);
  return fail(comm, reason);
}
