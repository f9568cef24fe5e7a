/* Makes ranks print line by line: into a pipe, the C library and Python would print by pages, and lose the rest when
 * the process is killed. Decision 179 gives reasons for these means. */
#ifndef BY_CMD_RUN_LINE_OUTPUT_H
#define BY_CMD_RUN_LINE_OUTPUT_H

/* Variables that the function below sets, for people. */
#define BY_LINE_OUTPUT_VARIABLES "PYTHONUNBUFFERED, _STDBUF_O, LD_PRELOAD, ASAN_OPTIONS"

/* Changes this process's environment, in the child that becomes a rank, after all other variables are set. Variables of
 * the user keep their values: with _STDBUF_O, the C library is unchanged. */
void by_line_output_set(void);

#endif
