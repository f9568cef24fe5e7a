/* Reads what launchers other than `banyan run` set for a process: torchrun, Slurm, Open MPI and MPICH. */
#include "settings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of every bracket the first number, and all that stands around them: "rack[2-3]n[07,09]-ib" is "rack2n07-ib". */
enum banyan_status by_slurm_first_host(const char *list, char *out, size_t room) {
  size_t used = 0;
  for (const char *at = list; *at && *at != ','; at++) {
    size_t n = *at == '[' ? strcspn(++at, "-,]") : 1;
    if (used + n >= room) return by_fail(BANYAN_ERR_PARSE, "a host name in '%s' is too long", list);
    memcpy(out + used, at, n);
    used += n;
    if (at == list || at[-1] != '[') continue;
    at = strchr(at, ']');
    if (!at) return by_fail(BANYAN_ERR_PARSE, "'%s' lacks a ]", list);
  }
  out[used] = 0;
  return used ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "'%s' is no list of hosts", list);
}

static bool is_set(const char *name) {
  const char *text = getenv(name);
  return text && *text;
}

static bool is_equal(const char *one, const char *other) {
  const char *a = getenv(one), *b = getenv(other);
  return a && b && *a && !strcmp(a, b);
}

/* Reads the variables of torchrun, which keeps MASTER_PORT for its own store. Banyan uses the next port. */
static enum banyan_status from_torchrun(struct by_settings *s) {
  const char *address = getenv("MASTER_ADDR"), *port_text = getenv("MASTER_PORT");
  const char *run = getenv("TORCHELASTIC_RUN_ID"), *restarts = getenv("TORCHELASTIC_RESTART_COUNT");
  long port = 0;
  if (!address || !port_text) return BANYAN_OK;
  BY_TRY(by_parse_int("MASTER_PORT", port_text, 1, 65534, &port));
  if (!s->root) {
    snprintf(s->root_text, sizeof s->root_text, strchr(address, ':') ? "[%s]:%ld" : "%s:%ld", address, port + 1);
    s->root = s->root_text;
  }
  if (run && is_equal("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    snprintf(s->local_id, sizeof s->local_id, "torchrun %.100s %ld %.20s", run, port,
             restarts ? restarts : ""); /* Restarted workers need another key. */
  return BANYAN_OK;
}

/* Reads the variables of Slurm. Since srun passes the environment on, it is enough to set BANYAN_KEY_FILE before it. */
static enum banyan_status from_slurm(struct by_settings *s) {
  const char *list = getenv("SLURM_STEP_NODELIST"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
  char host[200];
  s->asks_pmix = true;
  if (!list) list = getenv("SLURM_JOB_NODELIST");
  if (s->root || !list || !job) return BANYAN_OK;
  BY_TRY(by_slurm_first_host(list, host, sizeof host));
  unsigned long port = 20000 + (strtoul(job, NULL, 10) * 7 + (step ? strtoul(step, NULL, 10) : 0)) % 10000;
  snprintf(s->root_text, sizeof s->root_text, "%s:%lu", host, port);
  s->root = s->root_text;
  return BANYAN_OK;
}

/* Many programs use RANK and WORLD_SIZE: with these two, they are meant for ranks that are to meet. */
static bool is_torch(void) {
  return is_set("MASTER_ADDR") && is_set("MASTER_PORT");
}

/* Whether torchrun started this process. If another launcher started torchrun on every host, its variables describe
 * torchrun, not this process. */
static bool is_torchrun(void) {
  return is_torch() && is_set("TORCHELASTIC_RUN_ID");
}

/* `srun --mpi=pmi2` sets the same variables, but knows Slurm's place to meet. */
static bool is_mpich(void) {
  return !is_equal("PMI_RANK", "SLURM_PROCID") || !is_equal("PMI_SIZE", "SLURM_NTASKS");
}

static bool is_any(void) {
  return true;
}

static enum banyan_status from_mpi(struct by_settings *s) {
  s->asks_pmix = true;
  return BANYAN_OK;
}

/* In order: the first whose variables are there. */
static const struct {
  const char *rank, *size, *name;
  bool (*is)(void);
  enum banyan_status (*read)(struct by_settings *s);
} launchers[] = {
    {"RANK", "WORLD_SIZE", "torchrun", is_torchrun, from_torchrun},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", is_any, from_mpi},
    {"PMI_RANK", "PMI_SIZE", "MPICH's mpirun", is_mpich, from_mpi},
    {"RANK", "WORLD_SIZE", "torchrun", is_torch, from_torchrun},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm", is_any, from_slurm},
    {"RANK", "WORLD_SIZE", "torchrun", is_any, from_torchrun},
};

enum banyan_status by_launcher_read(struct by_settings *s) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const char *rank = getenv(launchers[i].rank), *size = getenv(launchers[i].size);
    if (!rank || !size || !launchers[i].is()) continue;
    BY_TRY(by_parse_int(launchers[i].rank, rank, 0, 1 << 24, &s->rank));
    BY_TRY(by_parse_int(launchers[i].size, size, 1, 1 << 24, &s->size));
    s->source = launchers[i].name;
    return launchers[i].read(s);
  }
  return BANYAN_OK;
}

enum banyan_status by_launcher_read_end(struct by_settings *s) {
  long end = 0;
  if (is_set("SLURM_JOB_END_TIME"))
    BY_TRY(by_parse_int("SLURM_JOB_END_TIME", getenv("SLURM_JOB_END_TIME"), 0, LONG_MAX, &end));
  s->end_time = (uint64_t)end;
  return BANYAN_OK;
}
