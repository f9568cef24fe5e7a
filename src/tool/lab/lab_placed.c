#include "lab_placed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "placement.h"
#include "plan_topology.h"
#include "text.h"

static enum banyan_status place(const struct by_topology *topology, const struct by_placement_job *job,
                                struct by_plan **out) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  BY_TRY(by_placement_make(topology, job, 1, &options, &placement));
  const char *name = topology->name[0] ? topology->name : "lab";
  enum banyan_status status = by_plan_of_placement(name, topology, placement, 0, job, out);
  by_placement_destroy(placement);
  return status;
}

/* By the names that were given, else the best one. */
static enum banyan_status find_servers(const struct by_topology *topology, const char *names,
                                       const struct by_placement_job *job, uint32_t **out, uint32_t *n) {
  struct by_placement_options options = by_placement_defaults();
  if (names) return by_plan_find_nodes(topology, "server", names, out, n);
  *n = 1;
  *out = calloc(1, sizeof **out);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  return by_placement_best_server(topology, job->workers, job->n_workers, &options, *out);
}

enum banyan_status by_lab_place(struct by_topology *topology, const char *servers, struct by_plan **out) {
  uint32_t *workers = malloc((topology->n_nodes + 1) * sizeof *workers), *nodes = NULL;
  struct by_placement_job job = {.workers = workers, .weight = 1};
  if (!workers) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the job's hosts");
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].takes_part) workers[job.n_workers++] = v;
  for (uint32_t i = 0; i < topology->n_links; i++) topology->links[i].port[0] = topology->links[i].port[1] = "";
  enum banyan_status status = find_servers(topology, servers, &job, &nodes, &job.n_servers);
  job.servers = nodes;
  if (status == BANYAN_OK) status = place(topology, &job, out);
  free(workers);
  free(nodes);
  return status;
}

/* A process of its own, so that the file is removed also if this one is killed. The terminal's signals are not for it.
 */
static enum banyan_status remove_at_end(const char *path, int *out) {
  int ends[2];
  char byte;
  if (pipe2(ends, O_CLOEXEC)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    setsid();
    dup2(ends[0], STDIN_FILENO);
    close_range(STDOUT_FILENO, ~0U, 0);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) continue;
    unlink(path);
    _exit(0);
  }
  int reason = errno;
  close(ends[0]);
  *out = ends[1];
  if (pid > 0) return BANYAN_OK;
  close(ends[1]);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start the process that removes %s", path);
}

/* Takes the text. The lab's programs may be another user's than root, and start others without open descriptors: they
 * need a file with a name. */
static enum banyan_status keep(struct by_text *text, const char *what, int *fd, char *path) {
  snprintf(path, BY_LAB_FILE_BYTES, "%s/banyan-lab-%s.XXXXXX", P_tmpdir, what);
  int file = mkostemp(path, O_CLOEXEC);
  bool written =
      file >= 0 && write(file, by_text_get(text), text->length) == (ssize_t)text->length && !fchmod(file, 0644);
  int reason = errno;
  bool failed = text->failed;
  by_text_fini(text);
  if (file >= 0) close(file);
  enum banyan_status status = BANYAN_OK;
  if (failed)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the text of the lab's %s", what);
  else if (!written)
    status = by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot write the lab's %s to %s", what, path);
  else
    status = remove_at_end(path, fd);
  if (status && file >= 0) unlink(path);
  return status;
}

enum banyan_status by_lab_write_plan(const struct by_plan *plan, int *fd, char *path) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan, &text);
  return keep(&text, "plan", fd, path);
}

enum banyan_status by_lab_write_topology(const struct by_topology *topology, const struct by_lab_options *options,
                                         int *fd, char *path) {
  struct by_text text;
  by_text_init(&text);
  enum banyan_status status = by_lab_print_topology(topology, options, &text);
  if (status == BANYAN_OK) return keep(&text, "topology", fd, path);
  by_text_fini(&text);
  return status;
}
