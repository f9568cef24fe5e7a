/* Which jobs are to be planned for, which first, and what is asked of the planner. */
#ifndef BY_MANAGER_MANAGER_DUE_H
#define BY_MANAGER_MANAGER_DUE_H

#include "manager_job.h"

/* Looks for jobs that are due. */
void by_due_look(struct by_manager *m);
/* The most urgent one, as by_manager_next. */
bool by_due_next(struct by_manager *m, struct by_plan_request **out);

#endif
