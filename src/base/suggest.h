/* What a misspelt word was meant to be, for error messages. Any thread. */
#ifndef BY_BASE_SUGGEST_H
#define BY_BASE_SUGGEST_H

#include <stddef.h>

/* The nearest of n names, or NULL if none is near. */
const char *by_suggest(const char *word, const char *const *names, size_t n);

#endif
