#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 32, FIRST_ROOM = 1 << 16 };

struct entry {
  char *word; /* NULL: free */
  uint64_t count;
  int32_t number; /* first in the order of coming, then by count */
};

struct reader {
  struct entry *table; /* by hash, open addressing */
  size_t room, used;
  int32_t *tokens;
  size_t n_tokens, tokens_room;
};

static void die(const char *what, const char *why) {
  fprintf(stderr, "wordvec: %s: %s\n", what, why);
  exit(1);
}

static void *need(void *memory) {
  if (!memory) die("the text", "out of memory");
  return memory;
}

static size_t hash(const char *word) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (; *word; word++) h = (h ^ (unsigned char)*word) * 0x100000001b3ull;
  return (size_t)(h ^ h >> 29);
}

static struct entry *find(struct entry *table, size_t room, const char *word) {
  size_t at = hash(word) & (room - 1);
  while (table[at].word && strcmp(table[at].word, word) != 0) at = (at + 1) & (room - 1);
  return &table[at];
}

static void grow(struct reader *reader) {
  size_t room = reader->room ? 2 * reader->room : FIRST_ROOM;
  struct entry *table = need(calloc(room, sizeof *table));
  for (size_t i = 0; i < reader->room; i++)
    if (reader->table[i].word) *find(table, room, reader->table[i].word) = reader->table[i];
  free(reader->table);
  reader->table = table;
  reader->room = room;
}

static void take(struct reader *reader, const char *word) {
  if (2 * reader->used >= reader->room) grow(reader);
  struct entry *entry = find(reader->table, reader->room, word);
  if (!entry->word) *entry = (struct entry){.word = need(strdup(word)), .number = (int32_t)reader->used++};
  entry->count++;
  if (reader->n_tokens == reader->tokens_room) {
    reader->tokens_room = reader->tokens_room ? 2 * reader->tokens_room : FIRST_ROOM;
    reader->tokens = need(realloc(reader->tokens, reader->tokens_room * sizeof *reader->tokens));
  }
  reader->tokens[reader->n_tokens++] = entry->number;
}

static void scan(struct reader *reader, FILE *file) {
  char word[LONGEST + 1];
  size_t length = 0;
  for (int c; (c = getc_unlocked(file)) != EOF;) {
    if (isalpha(c)) {
      if (length < LONGEST) word[length++] = (char)tolower(c);
      continue;
    }
    word[length] = 0;
    if (length > 1) take(reader, word);
    length = 0;
  }
}

/* The most frequent first; words of the same count in the order of the alphabet. */
static int by_count(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->word, y->word);
}

static void number(struct reader *reader, uint64_t least, struct text *out) {
  struct entry *entries = need(calloc(reader->used + 1, sizeof *entries));
  int32_t *renumbered = need(calloc(reader->used + 1, sizeof *renumbered));
  size_t n = 0;
  for (size_t i = 0; i < reader->room; i++)
    if (reader->table[i].word) entries[n++] = reader->table[i];
  qsort(entries, n, sizeof *entries, by_count);
  out->words = need(calloc(n + 1, sizeof(char *)));
  out->counts = need(calloc(n + 1, sizeof *out->counts));
  for (size_t i = 0; i < n; i++) {
    renumbered[entries[i].number] = entries[i].count < least ? -1 : (int32_t)i;
    if (entries[i].count < least) {
      free(entries[i].word);
      continue;
    }
    out->words[i] = entries[i].word;
    out->counts[i] = entries[i].count;
    out->n_words = i + 1;
  }
  for (size_t i = 0; i < reader->n_tokens; i++) {
    int32_t token = renumbered[reader->tokens[i]];
    if (token >= 0) reader->tokens[out->n_tokens++] = token;
  }
  out->tokens = reader->tokens;
  free(entries);
  free(renumbered);
}

void text_read(const char *path, uint64_t least, struct text *out) {
  struct reader reader = {0};
  FILE *file = fopen(path, "r");
  if (!file) die(path, strerror(errno));
  scan(&reader, file);
  if (ferror(file)) die(path, "cannot be read to its end");
  fclose(file);
  *out = (struct text){0};
  number(&reader, least, out);
  free(reader.table);
  if (out->n_words < 2) die(path, "has fewer than two words that are frequent enough");
}

void text_free(struct text *text) {
  for (size_t i = 0; i < text->n_words; i++) free(text->words[i]);
  free(text->words);
  free(text->counts);
  free(text->tokens);
}

int32_t text_find(const struct text *text, const char *word) {
  for (size_t i = 0; i < text->n_words; i++)
    if (!strcmp(text->words[i], word)) return (int32_t)i;
  return -1;
}
