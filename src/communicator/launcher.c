#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const struct {
  const char *rank, *size, *name;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    {"PMI_RANK", "PMI_SIZE", "MPICH's mpirun"},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm"},
    {"RANK", "WORLD_SIZE", "torchrun"},
};

enum banyan_status by_slurm_first_host(const char *list, char *out, size_t room) {
  size_t name = strcspn(list, ",["), used = 0;
  if (!name && *list != '[') return by_fail(BANYAN_ERR_PARSE, "'%s' is no list of hosts", list);
  const char *number = list[name] == '[' ? list + name + 1 : "";
  used = strcspn(number, "-,]");
  if (name + used + 1 > room) return by_fail(BANYAN_ERR_PARSE, "a host name in '%s' is too long", list);
  memcpy(out, list, name);
  memcpy(out + name, number, used);
  out[name + used] = 0;
  if (*number && !number[used]) return by_fail(BANYAN_ERR_PARSE, "'%s' lacks a ]", list);
  return BANYAN_OK;
}

/* torchrun keeps MASTER_PORT for its own store; the next one is ours. */
static enum banyan_status from_torchrun(struct by_settings *s) {
  const char *address = getenv("MASTER_ADDR"), *port_text = getenv("MASTER_PORT"), *run = getenv("TORCHELASTIC_RUN_ID");
  long port = 0;
  if (!address || !port_text) return BANYAN_OK;
  BY_TRY(by_parse_int("MASTER_PORT", port_text, 1, 65534, &port));
  if (!s->root) {
    snprintf(s->root_text, sizeof s->root_text, strchr(address, ':') ? "[%s]:%ld" : "%s:%ld", address, port + 1);
    s->root = s->root_text;
  }
  if (!s->key && run) {
    snprintf(s->key_text, sizeof s->key_text, "torchrun:%s:%s:%ld", run, address, port);
    s->key = s->key_text;
    if (s->rank == 0)
      by_info("communicator",
              "the job's key is made of torchrun's run id, which others may guess: set BANYAN_KEY on shared networks");
  }
  return BANYAN_OK;
}

/* srun hands the environment on, so BANYAN_KEY needs only to be set before it. */
static enum banyan_status from_slurm(struct by_settings *s) {
  const char *list = getenv("SLURM_STEP_NODELIST"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
  char host[200];
  if (!list) list = getenv("SLURM_JOB_NODELIST");
  if (s->root || !list || !job) return BANYAN_OK;
  BY_TRY(by_slurm_first_host(list, host, sizeof host));
  unsigned long port = 20000 + (strtoul(job, NULL, 10) * 7 + (step ? strtoul(step, NULL, 10) : 0)) % 10000;
  snprintf(s->root_text, sizeof s->root_text, "%s:%lu", host, port);
  s->root = s->root_text;
  return BANYAN_OK;
}

enum banyan_status by_launcher_read(struct by_settings *s) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const char *rank = getenv(launchers[i].rank), *size = getenv(launchers[i].size);
    if (!rank || !size) continue;
    BY_TRY(by_parse_int(launchers[i].rank, rank, 0, 1 << 24, &s->rank));
    BY_TRY(by_parse_int(launchers[i].size, size, 1, 1 << 24, &s->size));
    s->source = launchers[i].name;
    if (!strcmp(s->source, "torchrun")) return from_torchrun(s);
    if (!strcmp(s->source, "Slurm")) BY_TRY(from_slurm(s));
    break;
  }
  return s->root && s->key ? BANYAN_OK : by_pmix_read(s);
}
