/* Command lines from tables: one table of a command makes its parser, its
 * --help and its man page. Values land in a struct of the command, at the
 * offsets the table names; what the struct holds before parsing is the default.
 * Long options may be written --name=value; short ones -nvalue. */
#ifndef BY_CLI_OPTIONS_H
#define BY_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum by_option_kind {                    /* the member the value is stored in: */
                      BY_OPTION_FLAG,    /* bool, set to true */
                      BY_OPTION_TEXT,    /* const char *, points into argv */
                      BY_OPTION_INT,     /* long, within least .. most */
                      BY_OPTION_BYTES,   /* uint64_t */
                      BY_OPTION_SECONDS, /* double, >= 0 */
                      BY_OPTION_CHOICE,  /* int: place among `value`'s words, "tcp|shm|auto" */
                      BY_OPTION_WORDS,   /* struct by_words: may be given several times */
};

enum { BY_MOST_WORDS = 64 };

struct by_words {
  const char *items[BY_MOST_WORDS];
  int count;
};

struct by_option {
  const char *name; /* without dashes */
  char letter;      /* 'n' for -n; 0: none */
  enum by_option_kind kind;
  size_t offset;
  const char *value; /* what its value is called in the help */
  const char *help;  /* NULL: not shown */
  long least, most;
};

struct by_command {
  const char *name;                /* "banyan run" */
  const char *usage;               /* what follows the name */
  const char *about;               /* paragraphs, lines within 78 columns */
  const struct by_option *options; /* ends with a row without name */
  int least_operands, most_operands;
  const char *missing; /* what is said if there are fewer */
  int last_operand;    /* everything from this operand on (the first is 1) belongs to it; 0: options may follow each */
};

struct by_operands {
  char **items;
  int count;
};

/* Reads argv[1 ..] into `values`; operands are moved to the front of argv, and
 * `operands` points to them. False: the command is to end with *exit_code, which is 0
 * after --help (printed) and 2 after a mistake (its text printed on stderr). */
bool by_options_parse(const struct by_command *command, int argc, char **argv, void *values,
                      struct by_operands *operands, int *exit_code);
/* Prints "banyan run: text" and where the help is; returns 2. */
int by_options_misuse(const struct by_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for what fails without being misuse: no word about the help; returns 1. */
int by_options_failure(const struct by_command *command, const char *text);

#endif
