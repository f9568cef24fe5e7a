/* A text as numbers: its words, the most frequent first. All ranks read the
 * same text, so they number its words alike. */
#ifndef WORDVEC_TEXT_H
#define WORDVEC_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
  size_t n_words, n_tokens;
  char **words;     /* number -> word, in lower case */
  uint64_t *counts; /* number -> how often it stands in the text; descending */
  int32_t *tokens;  /* the text, without words that are too rare */
};

/* Reads a file. Words are runs of letters of two characters or more; those that stand less
 * than `least` times are left out. Ends the process with a text where that fails. */
void text_read(const char *path, uint64_t least, struct text *out);
void text_free(struct text *text);
/* The number of a word; -1: it is not there. */
int32_t text_find(const struct text *text, const char *word);

#endif
