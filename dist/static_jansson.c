/* Takes the place of the C library's stdin in a jansson that is linked statically: see library_args in meson.build.
 * Only json_loadf reads it, to name its input in an error, and Banyan does not call that. */
#include <stdio.h>

extern FILE *__wrap_stdin;
FILE *__wrap_stdin;
