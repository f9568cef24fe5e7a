/* Parses the command lines of all commands, and prints their help and errors. */
#include "commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <banyan/status.h>

#include "log.h"
#include "process.h"
#include "text.h"

enum { HELP_COLUMN = 28, MAX_OPTIONS = 64 };

/* The options of every command. */
struct common {
  bool quiet, version, help;
  int verbose; /* Number of times. */
};

/* A pass over the arguments. */
struct scan {
  const struct by_command *command;
  char **argv;
  int argc, at, kept; /* `kept`: number of operands so far, at argv[1 ..]. */
  void *values;
  struct common common;
};

static const struct by_option common_options[] = {
    {.name = "quiet", .letter = 'q', .help = "print only errors on standard error"},
    {.name = "verbose", .letter = 'v', .help = "log what happens, as BANYAN_LOG=info does; -vv: also details (debug)"},
    {.name = "version", .help = "print the version"},
    {.name = "help", .letter = 'h', .help = "print this help"},
};

enum { QUIET, VERBOSE, VERSION, HELP, COMMON };

static bool is_quiet; /* Option of the last parsed command. */

bool by_command_is_quiet(void) {
  return is_quiet;
}

void by_command_note(const char *format, ...) {
  char text[4096], time[BY_LOG_TIME];
  va_list args;
  if (is_quiet) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  by_log_file_print_time(time);
  fprintf(stderr, "%s%s\n", time, text); /* Written at once, since lines of several processes may be interleaved. */
}

int by_options_misuse(const struct by_command *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s: ", command->name);
  vfprintf(stderr, format, args);
  fprintf(stderr, "\nSee `%s --help`.\n", command->name);
  va_end(args);
  return 2;
}

int by_command_misused(const struct by_command *command) {
  return by_options_misuse(command, "%s", banyan_error_text());
}

int by_command_end(const struct by_command *command, enum banyan_status status) {
  if (status == BANYAN_OK) return 0;
  fprintf(stderr, "%s: %s\n", command->name, banyan_error_text());
  return 1;
}

static void print_option(const struct by_option *option) {
  char left[96], letter[8] = "    ";
  if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
  int width = snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
                       option->value ? option->value : "");
  printf("%s", left);
  if (width > HELP_COLUMN - 2)
    printf("\n%*s", HELP_COLUMN, "");
  else
    printf("%*s", HELP_COLUMN - width, "");
  for (const char *c = option->help; *c; c++) {
    putchar(*c);
    if (*c == '\n') printf("%*s", HELP_COLUMN, "");
  }
  putchar('\n');
}

static void print_help(const struct by_command *command) {
  printf("usage: %s%s%s\n\n%s\n\noptions:\n", command->name, *command->usage ? " " : "", command->usage,
         command->about);
  for (const struct by_option *o = command->options; o->name; o++)
    if (o->help) print_option(o);
  for (int i = 0; i < COMMON; i++) print_option(&common_options[i]);
  if (command->first) printf("\nfirst operand:\n  %s\n", command->first);
  if (!command->examples) return;
  printf("\nexamples:\n");
  for (const char *line = command->examples; *line; line += strcspn(line, "\n") + 1)
    printf("  %.*s\n", (int)strcspn(line, "\n"), line);
}

static enum banyan_status store_value(const struct by_option *option, const char *text, void *values) {
  void *out = (char *)values + option->offset;
  struct by_words *words = out;
  char name[64];
  int choice;
  switch (option->kind) {
  case BY_OPTION_FLAG: *(bool *)out = true; break;
  case BY_OPTION_TEXT: *(const char **)out = text; break;
  case BY_OPTION_INT:
    snprintf(name, sizeof name, "--%s", option->name);
    return by_parse_int(name, text, option->min, option->max, out);
  case BY_OPTION_BYTES: return by_parse_bytes(text, out);
  case BY_OPTION_SECONDS: return by_parse_seconds(text, out);
  case BY_OPTION_CHOICE:
    choice = by_find_choice(option->value, text);
    if (choice < 0) return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is not one of %s", text, option->value);
    *(int *)out = choice;
    break;
  case BY_OPTION_WORDS:
    if (words->count == BY_MAX_WORDS) return by_fail(BANYAN_ERR_ARGUMENT, "given more than %d times", BY_MAX_WORDS);
    words->items[words->count++] = text;
    break;
  }
  return BANYAN_OK;
}

static const struct by_option *find_option(const struct by_command *command, const char *name, size_t length,
                                           char letter) {
  const struct by_option *o = command->options;
  for (; o->name; o++)
    if (letter ? o->letter == letter : strlen(o->name) == length && !memcmp(o->name, name, length)) return o;
  for (o = common_options; o < common_options + COMMON; o++)
    if (letter ? o->letter == letter : strlen(o->name) == length && !memcmp(o->name, name, length)) return o;
  return NULL;
}

/* Tells whether the argument is this option; the value of a short one may be attached. */
static bool is_habit(const struct by_habit *habit, const char *argument) {
  size_t length = strlen(habit->name);
  if (strncmp(habit->name, argument, length) != 0) return false;
  return !argument[length] || argument[length] == '=' || (length == 2 && argument[1] != '-');
}

/* Returns -1 if it is none of these. */
static int check_habits(const struct by_command *command, const char *argument) {
  for (const struct by_habit *h = command->habits; h && h->name; h++)
    if (is_habit(h, argument))
      return by_options_misuse(command, "%s is not an option here: %s%s", h->name, *h->ours == '-' ? "give " : "",
                               h->ours);
  return -1;
}

static int unknown_option(const struct by_command *command, const char *argument) {
  const char *names[MAX_OPTIONS];
  size_t n = 0;
  for (; n < COMMON; n++) names[n] = common_options[n].name;
  for (const struct by_option *o = command->options; o->name && n < MAX_OPTIONS; o++)
    if (o->help) names[n++] = o->name;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(argument, "="), sizeof name - 1), argument);
  const char *near = !strncmp(name, "--", 2) ? by_suggest(name + 2, names, n) : NULL;
  if (near) return by_options_misuse(command, "unknown option %s; did you mean --%s?", name, near);
  return by_options_misuse(command, "unknown option %s", name);
}

/* Returns false if it is not an option of every command. */
static bool set_common(struct common *common, const struct by_option *option) {
  if (option < common_options || option >= common_options + COMMON) return false;
  switch (option - common_options) {
  case QUIET: common->quiet = true; break;
  case VERBOSE: common->verbose++; break;
  case VERSION: common->version = true; break;
  default: common->help = true;
  }
  return true;
}

/* Stores one option's value, which follows in the same or the next argument. */
static int parse_option(struct scan *scan, const struct by_option *option, const char *attached) {
  if (option->kind == BY_OPTION_FLAG) {
    if (attached) return by_options_misuse(scan->command, "--%s takes no value", option->name);
  } else if (!attached) {
    if (scan->at + 1 >= scan->argc)
      return by_options_misuse(scan->command, "--%s needs a value (%s)", option->name, option->value);
    attached = scan->argv[++scan->at];
  }
  if (set_common(&scan->common, option) || store_value(option, attached, scan->values) == BANYAN_OK) return -1;
  if (option->kind == BY_OPTION_INT) return by_command_misused(scan->command);
  return by_options_misuse(scan->command, "--%s: %s", option->name, banyan_error_text());
}

/* Handles "-n4", or several flags, the last of which may have a value: "-qn4". */
static int parse_letters(struct scan *scan, const char *argument) {
  int exit_code = -1;
  for (const char *letter = argument + 1; *letter && exit_code < 0; letter++) {
    const struct by_option *option = find_option(scan->command, letter, 1, *letter);
    if (!option) return unknown_option(scan->command, argument);
    bool flag = option->kind == BY_OPTION_FLAG;
    exit_code = parse_option(scan, option, !flag && letter[1] ? letter + 1 : NULL);
    if (!flag) break;
  }
  return exit_code;
}

/* Handles an argument that begins with a dash. Returns -1 to continue, or the exit code. */
static int parse_dashed(struct scan *scan) {
  const char *argument = scan->argv[scan->at], *name = argument + 2;
  int exit_code = check_habits(scan->command, argument);
  if (exit_code >= 0) return exit_code;
  if (argument[1] != '-') {
    exit_code = parse_letters(scan, argument);
  } else {
    const char *equals = strchr(name, '=');
    const struct by_option *option =
        find_option(scan->command, name, equals ? (size_t)(equals - name) : strlen(name), 0);
    if (!option) return unknown_option(scan->command, argument);
    exit_code = parse_option(scan, option, equals ? equals + 1 : NULL);
  }
  if (exit_code >= 0 || !(scan->common.help || scan->common.version)) return exit_code;
  if (scan->common.help)
    print_help(scan->command);
  else
    printf("banyan %s\n", banyan_version());
  return 0;
}

/* Sets the log level of this command, and of processes that it starts. Levels of modules in BANYAN_LOG stay. */
static int apply_common(const struct by_command *command, const struct common *common) {
  const char *level = common->quiet ? "error" : common->verbose > 1 ? "debug" : "info", *before = getenv("BANYAN_LOG");
  if (common->quiet && common->verbose)
    return by_options_misuse(command, "--quiet and --verbose exclude each other: give one");
  is_quiet = common->quiet;
  if (before && by_log_check(before) != BANYAN_OK) {
    fprintf(stderr, "%s: %s; it is ignored\n", command->name, banyan_error_text());
    unsetenv("BANYAN_LOG"); /* Otherwise every process that this one starts would report it. */
    before = NULL;
  }
  if (!common->quiet && !common->verbose) return -1;
  char *value = by_cli_print("%s%s%s", before ? before : "", before && *before ? "," : "", level);
  setenv("BANYAN_LOG", value, true);
  free(value);
  return -1;
}

static void keep_rest(struct scan *scan, int from) {
  while (from < scan->argc) scan->argv[1 + scan->kept++] = scan->argv[from++];
  scan->at = scan->argc;
}

int by_options_parse(const struct by_command *command, int argc, char **argv, void *values,
                     struct by_operands *operands) {
  struct scan scan = {.command = command, .argv = argv, .argc = argc, .at = 1, .values = values};
  int exit_code = -1;
  for (; scan.at < argc && exit_code < 0; scan.at++) {
    const char *argument = argv[scan.at];
    if (!strcmp(argument, "--"))
      keep_rest(&scan, scan.at + 1);
    else if (argument[0] == '-' && argument[1])
      exit_code = parse_dashed(&scan);
    else if (scan.kept + 1 == command->last_operand)
      keep_rest(&scan, scan.at);
    else
      argv[1 + scan.kept++] = argv[scan.at];
  }
  argv[1 + scan.kept] = NULL; /* Operands may be passed to exec. */
  struct by_operands found = {.items = argv + 1, .count = scan.kept};
  if (operands) *operands = found;
  if (exit_code >= 0) return exit_code;
  if (found.count < command->min_operands)
    return by_options_misuse(command, "%s; usage: %s %s", command->missing, command->name, command->usage);
  if (command->max_operands >= 0 && found.count > command->max_operands)
    return by_options_misuse(command, "\"%s\" is one argument too many; usage: %s %s",
                             found.items[command->max_operands], command->name, command->usage);
  return apply_common(command, &scan.common);
}

/* ---- sizes */

static enum banyan_status parse_size(const char *text, uint64_t *out) {
  static const uint64_t greatest = (uint64_t)1 << 40;
  BY_TRY(by_parse_bytes(text, out));
  if (!*out || *out > greatest) return by_fail(BANYAN_ERR_ARGUMENT, "the size %.40s is out of range", text);
  return BANYAN_OK;
}

static enum banyan_status add_size(struct by_sizes *sizes, uint64_t bytes) {
  if (sizes->count == BY_MAX_SIZES) return by_fail(BANYAN_ERR_ARGUMENT, "more than %d sizes", BY_MAX_SIZES);
  sizes->bytes[sizes->count++] = (size_t)bytes;
  return BANYAN_OK;
}

/* Parses "64K" or "8..64M"; `word` is modified. */
static enum banyan_status parse_sizes(char *word, struct by_sizes *out) {
  uint64_t first, last;
  char *dots = strstr(word, "..");
  if (dots) *dots = 0;
  BY_TRY(parse_size(word, &first));
  if (!dots) return add_size(out, first);
  BY_TRY(parse_size(dots + 2, &last));
  if (last < first) return by_fail(BANYAN_ERR_ARGUMENT, "the range %s..%s is empty", word, dots + 2);
  for (; first <= last; first *= 2) BY_TRY(add_size(out, first));
  return BANYAN_OK;
}

enum banyan_status by_parse_sizes(const char *text, struct by_sizes *out) {
  char *copy = by_cli_print("%s", text), *rest = copy;
  enum banyan_status status = BANYAN_OK;
  out->count = 0;
  for (char *word; status == BANYAN_OK && (word = strsep(&rest, ","));) status = parse_sizes(word, out);
  free(copy);
  return status;
}
