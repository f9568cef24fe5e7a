/* What the modules above a context do for it: progress, control messages and what the agent asks for. */
#ifndef BY_API_EVENTS_H
#define BY_API_EVENTS_H

#include "context.h"

extern const struct by_context_events by_context_events;

#endif
