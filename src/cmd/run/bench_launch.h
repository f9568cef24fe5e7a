/* How benchmarks start ranks of their own. */
#ifndef BY_CMD_RUN_BENCH_LAUNCH_H
#define BY_CMD_RUN_BENCH_LAUNCH_H

#include "commands.h"
#include "launch.h"

/* The command's own arguments with "banyan", the words `first` (up to NULL) and "--as-rank" before them. The path of
 * this program, words[0], is NULL until by_bench_launch. The caller frees the array, not the words. Call it before
 * parsing, which moves arguments about. */
char **by_bench_words(char *const *first, int argc, char **argv);
/* Runs these words on `ranks` ranks of this host, 0: one for each core, 2 to 8. Returns the exit code. */
int by_bench_launch(const struct by_command *command, long ranks, const char *plan, char **words);

#endif
