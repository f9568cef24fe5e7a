/* The subcommands of `banyan` and their command lines. Each gets the arguments from its own name on (argv[0] is "run")
 * and returns the exit code: 0 success, 1 failure, 2 misuse; `run` returns that of the ranks. They print results on
 * standard output and everything else on standard error.
 *
 * One table of a command defines its parser, its --help and its man page. Values are stored in a struct of the command,
 * whose initial contents are the defaults. Long options may be written --name=value; short ones -nvalue, and flags
 * together. Every command also has --quiet, --verbose, --version and --help. */
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
/* Started by `run` on every host; it communicates over its standard input and output. */
int by_cli_run_host(int argc, char **argv);

enum by_option_kind {                    /* The type of the member that stores the value. */
                      BY_OPTION_FLAG,    /* Type: bool, set to true. */
                      BY_OPTION_TEXT,    /* Type: const char *, points into argv. */
                      BY_OPTION_INT,     /* Type: long, from `min` to `max`. */
                      BY_OPTION_BYTES,   /* Type: uint64_t. */
                      BY_OPTION_SECONDS, /* Type: double, 0 or more. */
                      BY_OPTION_CHOICE,  /* Type: int, the index among the words of `value`: "tcp|shm|auto". */
                      BY_OPTION_WORDS,   /* Type: struct by_words; the option may be repeated. */
};

enum { BY_MAX_WORDS = 64 };

struct by_words {
  const char *items[BY_MAX_WORDS];
  int count;
};

struct by_option {
  const char *name; /* Without dashes. */
  char letter;      /* 'n' for -n; 0: none. */
  enum by_option_kind kind;
  size_t offset;
  const char *value; /* Name of its value in the help. */
  const char *help;  /* NULL: not shown. */
  long min, max;
};

/* Rows of a command's table. Its file defines VALUES as the command's struct. */
#define BY_FLAG(name, letter, member, help)                                                                            \
  { name, letter, BY_OPTION_FLAG, offsetof(VALUES, member), NULL, help, 0, 0 }
#define BY_INT(name, letter, member, value, min, max, help)                                                            \
  { name, letter, BY_OPTION_INT, offsetof(VALUES, member), value, help, min, max }
#define BY_VALUE(kind, name, letter, member, value, help)                                                              \
  { name, letter, BY_OPTION_##kind, offsetof(VALUES, member), value, help, 0, 0 }
#define BY_TEXT(...) BY_VALUE(TEXT, __VA_ARGS__)
#define BY_BYTES(...) BY_VALUE(BYTES, __VA_ARGS__)
#define BY_SECONDS(...) BY_VALUE(SECONDS, __VA_ARGS__)
#define BY_CHOICE(...) BY_VALUE(CHOICE, __VA_ARGS__)
#define BY_WORDS(...) BY_VALUE(WORDS, __VA_ARGS__)

/* An option of similar programs or commands, and its equivalent here. */
struct by_habit {
  const char *name; /* With dashes. A short one also matches with its value attached. */
  const char *ours; /* With dashes; or a sentence without its end, which says what to do. */
};

struct by_command {
  const char *name;                /* "banyan run" */
  const char *usage;               /* Text after the name. */
  const char *about;               /* Paragraphs, in lines of at most 78 columns. */
  const struct by_option *options; /* Ends with a row without name. */
  const char *first;               /* What the first operand may be, "init|make|show"; NULL: anything. */
  const char *examples;            /* Command lines, each ended by a newline; NULL: none. */
  int min_operands, max_operands;
  const char *missing;           /* Error if there are fewer operands. */
  const struct by_habit *habits; /* Ends with a row without name; NULL: none. */
  int last_operand; /* All arguments from this operand on (the first is 1) belong to it; 0: options may follow each
                       operand. */
};

struct by_operands {
  char **items;
  int count;
};

/* Parses argv[1 ..] into `values`. Operands are moved to the front of argv, and `operands` (NULL for a command without
 * any) points to them. Returns -1 to continue; otherwise the command must end with this code, which is 0 after --help
 * and
 * --version (printed) and 2 after a mistake (its text is printed on stderr). */
int by_options_parse(const struct by_command *command, int argc, char **argv, void *values,
                     struct by_operands *operands);
/* Prints a line on standard error that is no error, such as that a service is ready. Prints nothing with --quiet. */
void by_command_note(const char *format, ...) BY_PRINTF(1, 2);
/* Tells whether the last parsed command has --quiet. */
bool by_command_is_quiet(void);
/* Prints "banyan run: text" and how to get help; returns 2. */
int by_options_misuse(const struct by_command *command, const char *format, ...) BY_PRINTF(2, 3);
/* Does the same with the text of the last error. */
int by_command_misused(const struct by_command *command);
/* Returns the exit code of this status: 0; or 1, after printing the error's text without a reference to the help. */
int by_command_end(const struct by_command *command, enum banyan_status status);

enum { BY_MAX_SIZES = 128 };

struct by_sizes {
  size_t bytes[BY_MAX_SIZES];
  size_t count;
};

/* Parses a list of sizes: "8,64K,16M"; "8..64M" means 8, 16, 32, ... 64M. */
BANYAN_CHECK enum banyan_status by_parse_sizes(const char *text, struct by_sizes *out);

#endif
