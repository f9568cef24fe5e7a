/* One process more while the job runs: a helper. Every member of the job makes room for it before it may do anything,
 * so that a plan which names it finds it known everywhere. */
#include <stdio.h>
#include <string.h>

#include "connector.h"
#include "context.h"

const char *by_context_name_member(struct by_context *context, uint32_t process) {
  const struct by_member *member = &context->members[process];
  char text[BY_MEMBER_STRING + 32];
  snprintf(text, sizeof text, "%s %u (host %s)", by_member_kind_name(member->kind),
           process < context->size ? process : process - context->size, member->host);
  return by_arena_string(&context->arena, text);
}

/* What was there stays where it is, in the arena, for who has borrowed it. */
static enum banyan_status make_room(struct by_context *context) {
  uint32_t n = context->processes, room = 2 * context->room + 8;
  if (n < context->room) return BANYAN_OK;
  struct by_member *members = BY_ARENA_ARRAY(&context->arena, struct by_member, room);
  const char **names = BY_ARENA_ARRAY(&context->arena, const char *, room);
  const char **lost = BY_ARENA_ARRAY(&context->arena, const char *, room);
  bool *left = BY_ARENA_ARRAY(&context->arena, bool, room);
  if (!members || !names || !left || !lost) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  memcpy(members, context->members, n * sizeof *members);
  memcpy(names, context->names, n * sizeof *names);
  memcpy(left, context->left, n * sizeof *left);
  memcpy(lost, context->lost, n * sizeof *lost);
  context->members = members;
  context->names = names;
  context->left = left;
  context->lost = lost;
  context->room = room;
  return BANYAN_OK;
}

static enum banyan_status read_newcomer(struct by_context *context, const void *bytes, size_t length) {
  struct by_reader reader;
  struct by_member *member = &context->members[context->processes];
  by_reader_init(&reader, bytes, length);
  uint32_t process = by_read_u32(&reader);
  BY_TRY(by_member_read(&reader, &context->arena, member));
  BY_TRY(by_reader_check(&reader, "a helper that comes"));
  if (process == context->processes && member->kind == BY_MEMBER_HELPER) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 tells of process %u; the next one is %u", process, context->processes);
}

/* Where the connector or the engine has one more than the other, this process takes no part in the job any more. */
static enum banyan_status add(struct by_context *context, const void *bytes, size_t length) {
  BY_TRY(make_room(context));
  BY_TRY(read_newcomer(context, bytes, length));
  const char *name = by_context_name_member(context, context->processes);
  if (!name) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
  BY_TRY(by_connector_add(context->connector));
  BY_TRY(by_engine_add(context->engine));
  context->names[context->processes] = name;
  context->processes++; /* from now on others look at it */
  return BANYAN_OK;
}

enum banyan_status by_context_add(struct by_context *context, const void *bytes, size_t length) {
  by_context_lock(context);
  enum banyan_status status = add(context, bytes, length);
  by_context_unlock(context);
  return status;
}
