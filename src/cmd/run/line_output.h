/* Lets ranks print line by line: into a pipe, the C library and Python would print by pages, and not at all what is
 * left when the process is killed. Decision 179 says why by these means. */
#ifndef BY_CMD_RUN_LINE_OUTPUT_H
#define BY_CMD_RUN_LINE_OUTPUT_H

/* What the function below sets, for people. */
#define BY_LINE_OUTPUT_VARIABLES "PYTHONUNBUFFERED, _STDBUF_O, LD_PRELOAD, ASAN_OPTIONS"

/* Changes this process's environment, in the child that is to become a rank, after all other variables are set.
 * Variables that the user has set keep their values: with _STDBUF_O, the C library stays as it is. */
void by_line_output_set(void);

#endif
