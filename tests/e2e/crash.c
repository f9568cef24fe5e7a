/* Prints with the C library and is killed before the library would write what it still has.
 *
 *   crash lines       five lines to standard output, and whether that is a terminal
 *   crash bytes FILE  the bytes of a file */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char bytes[1 << 16];

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "lines"))
    for (int i = 1; i <= 5; i++) printf("line %d%s\n", i, isatty(STDOUT_FILENO) ? ", to a terminal" : "");
  FILE *file = argc == 3 ? fopen(argv[2], "re") : NULL;
  for (size_t n; file && (n = fread(bytes, 1, sizeof bytes, file));) fwrite(bytes, 1, n, stdout);
  return raise(SIGKILL);
}
