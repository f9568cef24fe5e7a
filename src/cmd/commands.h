/* The subcommands of `banyan` and their command lines. Each gets the arguments from its own name on (argv[0] is "run")
 * and returns the exit code: 0 done, 1 failed, 2 misused; `run` returns that of the ranks. They print results on
 * standard output and everything else on standard error.
 *
 * One table of a command makes its parser, its --help and its man page. Values land in a struct of the command; what it
 * holds before is the default. Long options may be written --name=value; short ones -nvalue, and flags together. Every
 * command also has --quiet, --verbose, --version and --help. */
#ifndef BY_CMD_COMMANDS_H
#define BY_CMD_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

int by_cli_run(int argc, char **argv);
int by_cli_mpirun(int argc, char **argv);
int by_cli_plan(int argc, char **argv);
int by_cli_lab(int argc, char **argv);
int by_cli_helper(int argc, char **argv);
int by_cli_server(int argc, char **argv);
int by_cli_keys(int argc, char **argv);
int by_cli_switch(int argc, char **argv);
int by_cli_manager(int argc, char **argv);
int by_cli_status(int argc, char **argv);
int by_cli_agent(int argc, char **argv);
int by_cli_topo(int argc, char **argv);
int by_cli_simulate(int argc, char **argv);
int by_cli_bench(int argc, char **argv);
/* The subcommands of `bench`. */
int by_cli_bench_groups(int argc, char **argv);
int by_cli_bench_sparse(int argc, char **argv);
int by_cli_doctor(int argc, char **argv);
/* What `run` starts on every host; it communicates over its standard input and output. */
int by_cli_run_host(int argc, char **argv);

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

/* Rows of the table of a command whose struct is VALUES, which its file defines. */
#define BY_FLAG(name, letter, member, help)                                                                            \
  { name, letter, BY_OPTION_FLAG, offsetof(VALUES, member), NULL, help, 0, 0 }
#define BY_INT(name, letter, member, value, least, most, help)                                                         \
  { name, letter, BY_OPTION_INT, offsetof(VALUES, member), value, help, least, most }
#define BY_VALUE(kind, name, letter, member, value, help)                                                              \
  { name, letter, BY_OPTION_##kind, offsetof(VALUES, member), value, help, 0, 0 }
#define BY_TEXT(...) BY_VALUE(TEXT, __VA_ARGS__)
#define BY_BYTES(...) BY_VALUE(BYTES, __VA_ARGS__)
#define BY_SECONDS(...) BY_VALUE(SECONDS, __VA_ARGS__)
#define BY_CHOICE(...) BY_VALUE(CHOICE, __VA_ARGS__)
#define BY_WORDS(...) BY_VALUE(WORDS, __VA_ARGS__)

/* An option of similar programs, and what it is called here. */
struct by_habit {
  const char *name, *ours; /* with dashes */
};

struct by_command {
  const char *name;                /* "banyan run" */
  const char *usage;               /* what follows the name */
  const char *about;               /* paragraphs, lines within 78 columns */
  const struct by_option *options; /* ends with a row without name */
  int least_operands, most_operands;
  const char *missing;           /* the error if there are fewer */
  const struct by_habit *habits; /* ends with a row without name; NULL: none */
  int last_operand; /* everything from this operand on (the first is 1) belongs to it; 0: options may follow each */
};

struct by_operands {
  char **items;
  int count;
};

/* Reads argv[1 ..] into `values`; operands are moved to the front of argv, and `operands` (NULL for a command without
 * any) points to them. -1: go on; else the command is to end with this code, which is 0 after --help and --version
 * (printed) and 2 after a mistake (its text printed on stderr). */
int by_options_parse(const struct by_command *command, int argc, char **argv, void *values,
                     struct by_operands *operands);
/* Prints a line on standard error that is no error: that a service is ready, what a lab does. Nothing with --quiet. */
void by_command_note(const char *format, ...) BY_PRINTF(1, 2);
/* Whether the command that was read last has --quiet. */
bool by_command_is_quiet(void);
/* Prints "banyan run: text" and where the help is; returns 2. */
int by_options_misuse(const struct by_command *command, const char *format, ...) BY_PRINTF(2, 3);
/* The same with the text of the last error. */
int by_command_misused(const struct by_command *command);
/* Exit code for this status: 0; or 1, after the text of the error, without a reference to the help. */
int by_command_end(const struct by_command *command, enum banyan_status status);

enum { BY_MOST_SIZES = 128 };

struct by_sizes {
  size_t bytes[BY_MOST_SIZES];
  size_t count;
};

/* Lists of sizes: "8,64K,16M"; "8..64M" stands for 8, 16, 32, ... 64M. */
BANYAN_CHECK enum banyan_status by_parse_sizes(const char *text, struct by_sizes *out);

#endif
