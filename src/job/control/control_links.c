/* Links for a move: helpers that a new plan names make those that it needs before the ranks are asked. Of a pair, the
 * process with the higher number connects; the other one waits. */
#include <stdlib.h>

#include "connector.h"
#include "control_moves.h"
#include "log.h"

enum { LOOK_MS = 5, NUMBER_BYTES = 4 };

/* ---- rank 0: which */

static void note_edges(const struct by_group *group, const uint32_t *parents, uint32_t vertex, bool *near) {
  for (uint32_t u = 0; parents && u < group->n; u++) {
    uint32_t child = group->order[u], parent = group->order[parents[u]];
    if (child == vertex && parent != vertex) near[parent] = true;
    if (parent == vertex && child != vertex) near[child] = true;
  }
}

static void note_twigs(const struct by_group *group, uint32_t vertex, bool *near) {
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    if (group->twigs[i].parent == vertex) near[group->twigs[i].child] = true;
    if (group->twigs[i].child == vertex) near[group->twigs[i].parent] = true;
  }
}

static void find_near(const struct by_plan *plan, uint32_t vertex, bool *near) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      note_edges(group, group->up, vertex, near);
      note_edges(group, group->down, vertex, near);
      note_twigs(group, vertex, near);
    }
}

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
}

static enum banyan_status list_near(const struct by_proposal *proposal, uint32_t vertex, struct by_helper_links *out) {
  const struct by_plan *plan = proposal->plan;
  bool *near = calloc((size_t)plan->n_vertices + 1, sizeof *near);
  struct by_writer writer;
  size_t room = NUMBER_BYTES * (size_t)plan->n_vertices;
  *out = (struct by_helper_links){.helper = proposal->helpers[vertex - plan->n_ranks], .processes = malloc(room)};
  bool made = near && out->processes;
  by_writer_init(&writer, out->processes, made ? room : 0);
  if (made) find_near(plan, vertex, near);
  for (uint32_t v = 0; made && v < plan->n_vertices; v++) {
    uint32_t process = v < plan->n_ranks ? proposal->processes[v] : proposal->helpers[v - plan->n_ranks];
    if (near[v] && process != UINT32_MAX) by_write_u32(&writer, process);
  }
  out->n = writer.length / NUMBER_BYTES;
  free(near);
  return made ? BANYAN_OK : no_memory();
}

enum banyan_status by_helper_links_find(struct by_control_move *move, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  move->helpers = calloc((size_t)plan->n_vertices - plan->n_ranks + 1, sizeof *move->helpers);
  if (!move->helpers) return no_memory();
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++)
    if (proposal->helpers[v - plan->n_ranks] != UINT32_MAX)
      BY_TRY(list_near(proposal, v, &move->helpers[move->n_helpers++]));
  return BANYAN_OK;
}

void by_helper_links_fini(struct by_control_move *move) {
  for (uint32_t i = 0; i < move->n_helpers; i++) free(move->helpers[i].processes);
  free(move->helpers);
}

/* ---- rank 0: asking for them */

bool by_helper_links_ask(struct by_control_move *move) {
  move->links = move->n_helpers > 0; /* those that are asked are told if nothing comes of it */
  for (uint32_t i = 0; i < move->n_helpers; i++) {
    const struct by_helper_links *links = &move->helpers[i];
    const struct end *end = move->control->of_rank[links->helper];
    if (!end || move->control->lost[links->helper]) return false;
    by_control_send_move(end, &(struct by_move_word){.kind = BY_MOVE_LINK,
                                                     .comm = move->comm,
                                                     .number = move->number,
                                                     .processes = links->processes,
                                                     .n_processes = links->n,
                                                     .text = ""});
  }
  return true;
}

bool by_helper_links_made(struct by_control_move *move, uint32_t helper) {
  bool all = move->links;
  for (uint32_t i = 0; i < move->n_helpers; i++) {
    move->helpers[i].linked |= move->helpers[i].helper == helper;
    all &= move->helpers[i].linked;
  }
  if (all) move->links = false;
  return all;
}

bool by_helper_links_has(const struct by_control_move *move, uint32_t helper) {
  for (uint32_t i = 0; i < move->n_helpers; i++)
    if (move->helpers[i].helper == helper) return true;
  return false;
}

/* ---- helpers */

struct by_wanted_links {
  struct by_wanted_links *next;
  uint32_t comm, number;
  bool wanted; /* the connector knows */
  size_t n;
  uint32_t processes[];
};

static void drop_older(struct by_control *control, const struct by_move_word *word) {
  struct by_wanted_links **place = &control->links;
  while (*place) {
    struct by_wanted_links *links = *place;
    if (links->comm != word->comm || links->number > word->number) {
      place = &links->next;
      continue;
    }
    *place = links->next;
    free(links);
  }
}

static bool knows_all(const struct by_job *job, const struct by_move_word *word) {
  for (size_t i = 0; i < word->n_processes; i++) {
    uint32_t process = by_move_word_process(word, i);
    if (process >= job->processes || process == job->rank) return false;
  }
  return true;
}

/* Looked at from the timer: the engine may not be there yet. */
static void want(struct by_control *control, const struct by_move_word *word) {
  struct by_wanted_links *links = calloc(1, sizeof *links + word->n_processes * sizeof *links->processes);
  if (!links) return; /* rank 0 gives the move up in time */
  *links = (struct by_wanted_links){
      .next = control->links, .comm = word->comm, .number = word->number, .n = word->n_processes};
  for (size_t i = 0; i < links->n; i++) links->processes[i] = by_move_word_process(word, i);
  control->links = links;
  by_loop_set_delay(control->job->loop, &control->links_due, 0);
}

void by_control_heard_links(struct end *end, const struct by_move_word *word) {
  struct by_control *control = end->control;
  if (word->kind != BY_MOVE_LINK && word->kind != BY_MOVE_DROP) return; /* said to all members */
  drop_older(control, word);
  if (word->kind == BY_MOVE_DROP) return;
  if (knows_all(control->job, word))
    want(control, word);
  else
    by_warn("control", "%s wants links to processes that are not known here; ignored", by_stream_get_name(end->stream));
}

static bool are_made(const struct by_control *control, struct by_wanted_links *links) {
  struct by_job *job = control->job;
  bool made = true;
  for (size_t i = 0; i < links->n && !links->wanted; i++) by_connector_want(control->connector, links->processes[i]);
  links->wanted = true;
  by_job_lock(job);
  for (size_t i = 0; i < links->n; i++) made &= by_engine_attached(job->engine, links->processes[i]);
  by_job_unlock(job);
  return made;
}

static void say_made(const struct by_control *control, const struct by_wanted_links *links) {
  for (const struct end *end = control->ends; end; end = end->next)
    if (end->rank == 0)
      by_control_send_move(end, &(struct by_move_word){
                                    .kind = BY_MOVE_LINKED, .comm = links->comm, .number = links->number, .text = ""});
}

void by_control_links_due(void *argument) {
  struct by_control *control = argument;
  for (struct by_wanted_links **place = &control->links; *place && control->job->engine;) {
    struct by_wanted_links *links = *place;
    if (!are_made(control, links)) {
      place = &links->next;
      continue;
    }
    say_made(control, links);
    *place = links->next;
    free(links);
  }
  if (control->links) by_loop_set_delay(control->job->loop, &control->links_due, LOOK_MS * BY_MILLISECOND);
}

void by_control_forget_links(struct by_control *control) {
  while (control->links) {
    struct by_wanted_links *links = control->links;
    control->links = links->next;
    free(links);
  }
}
