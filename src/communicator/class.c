/* The class in which this process sends, as marks on its connections. Control connections are never marked: the host's
 * queues serve what has no mark as early as the highest class, with a share of its own. */
#include "context.h"
#include "log.h"
#include "priority.h"

/* A ToS by hand goes before a class. */
static struct by_mark mark_of(const struct by_context *context) {
  struct by_mark mark = {-1, -1};
  if (context->class_ >= 0)
    mark = (struct by_mark){by_priority_tos((uint32_t)context->class_), by_priority_socket((uint32_t)context->class_)};
  if (context->settings.tos >= 0) mark.tos = (int)context->settings.tos;
  return mark;
}

static void apply(struct by_context *context) {
  struct by_mark mark = mark_of(context);
  by_engine_set_mark(context->engine, &mark);
  if (context->seat.mark) context->seat.mark(context->seat.context, &mark);
}

void by_context_mark_first(struct by_context *context) {
  if (context->settings.class_ >= 0) context->class_ = context->settings.class_;
  apply(context);
}

static bool is_new(const struct by_context *context, uint32_t class_) {
  bool by_hand = context->settings.class_ >= 0 || context->settings.tos >= 0;
  return !by_hand && class_ < BY_PRIORITY_CLASSES && context->class_ != (long)class_;
}

void by_context_set_class(struct by_context *context, uint32_t class_) {
  by_context_lock(context);
  if (is_new(context, class_)) {
    by_debug("cluster", "sends in class %u from now on", class_);
    context->class_ = (long)class_;
    context->class_changes++;
    if (context->engine) apply(context); /* else it comes with the word that all have joined */
  }
  by_context_unlock(context);
}
