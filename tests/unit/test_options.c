#include <stdio.h>
#include <string.h>

#include "check.h"
#include "commands.h"

struct values {
  bool flag;
  const char *text;
  long number;
  uint64_t bytes;
  double seconds;
  int choice;
  struct by_words words;
};

#define AT(member) offsetof(struct values, member)

static const struct by_option options[] = {
    {"flag", 'f', BY_OPTION_FLAG, AT(flag), NULL, "a flag", 0, 0},
    {"text", 't', BY_OPTION_TEXT, AT(text), "TEXT", "a text", 0, 0},
    {"number", 'n', BY_OPTION_INT, AT(number), "N", "a number", -3, 7},
    {"bytes", 0, BY_OPTION_BYTES, AT(bytes), "BYTES", "bytes", 0, 0},
    {"seconds", 0, BY_OPTION_SECONDS, AT(seconds), "TIME", "a time", 0, 0},
    {"choice", 'c', BY_OPTION_CHOICE, AT(choice), "one|two|three", "a choice", 0, 0},
    {"word", 'w', BY_OPTION_WORDS, AT(words), "WORD", "words", 0, 0},
    {.name = NULL},
};
static struct by_command command = {.name = "test", .usage = "", .about = "", .options = options, .max_operands = 3};

static struct values values;
static struct by_operands operands;
static char words[64][64], *argv[65];

/* Parses "a b c". Returns the exit code, or -1 if the command may continue. */
static int parse(const char *line) {
  int argc = 1;
  char copy[1024], *save;
  values = (struct values){.number = 1, .text = "preset"};
  snprintf(copy, sizeof copy, "%s", line);
  strcpy(words[0], "test");
  argv[0] = words[0];
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save), argc++) {
    snprintf(words[argc], sizeof words[argc], "%s", word);
    argv[argc] = words[argc];
  }
  argv[argc] = NULL;
  return by_options_parse(&command, argc, argv, &values, &operands);
}

static void test_all_kinds(void **state) {
  (void)state;
  assert_int_equal(parse("--flag --text=a=b --number -2 --bytes 64K --seconds 20ms --choice two --word x --word=y"),
                   -1);
  assert_true(values.flag);
  assert_string_equal(values.text, "a=b");
  assert_int_equal(values.number, -2);
  assert_int_equal(values.bytes, 65536);
  assert_true(values.seconds > 0.0199 && values.seconds < 0.0201);
  assert_int_equal(values.choice, 1);
  assert_int_equal(values.words.count, 2);
  assert_string_equal(values.words.items[1], "y");
  assert_int_equal(operands.count, 0);
  assert_int_equal(parse("-f -tx -n7 -c three"), -1);
  assert_string_equal(values.text, "x");
  assert_int_equal(values.number, 7);
  assert_int_equal(values.choice, 2);
  assert_int_equal(parse(""), -1);
  assert_string_equal(values.text, "preset");
}

static void test_operands(void **state) {
  (void)state;
  assert_int_equal(parse("a --flag b - --text t"), -1);
  assert_int_equal(operands.count, 3);
  assert_string_equal(operands.items[0], "a");
  assert_string_equal(operands.items[1], "b");
  assert_string_equal(operands.items[2], "-");
  assert_null(operands.items[3]);
  assert_int_equal(parse("a -- --flag -n"), -1);
  assert_int_equal(operands.count, 3);
  assert_string_equal(operands.items[2], "-n");
  assert_false(values.flag);
  assert_int_equal(parse("a b c d"), 2);
  command.last_operand = 1;
  assert_int_equal(parse("--flag a --number b"), -1);
  assert_int_equal(operands.count, 3);
  assert_string_equal(operands.items[1], "--number");
  assert_null(operands.items[3]);
  command.last_operand = 2;
  assert_int_equal(parse("a --flag b --number"), -1);
  assert_true(values.flag);
  assert_int_equal(operands.count, 3);
  assert_string_equal(operands.items[1], "b");
  assert_string_equal(operands.items[2], "--number");
  assert_int_equal(parse("a --flag -- -b --number"), -1);
  assert_int_equal(operands.count, 3);
  assert_string_equal(operands.items[1], "-b");
  command.last_operand = 0;
  command.min_operands = 2;
  assert_int_equal(parse("a"), 2);
  command.min_operands = 0;
}

static void test_misuse(void **state) {
  (void)state;
  static const char *const bad[] = {"--nonesuch",    "-x",          "--flag=1",     "--text",    "-n",
                                    "--number 8",    "--number -4", "--number 1x",  "--number=", "--bytes z",
                                    "--choice four", "--choice=",   "--seconds -1", "--flags",   "-- a b c d"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (parse(bad[i]) != 2) fail_msg("\"%s\" is taken", bad[i]);
  char many[1024] = "";
  for (int i = 0; i < 40; i++) strcat(many, "-wx ");
  assert_int_equal(parse(many), -1);
}

static void test_help(void **state) {
  (void)state;
  assert_int_equal(parse("--help"), 0);
  assert_int_equal(parse("-f -h --nonesuch"), 0);
}

/* ---- lists of sizes */

static void test_sizes(void **state) {
  (void)state;
  static const size_t wanted[] = {8, 65536, 1 << 20, 2 << 20, 4 << 20, 3, 6, 12};
  struct by_sizes sizes;
  assert_ok(by_parse_sizes("8,64K,1M..4M,3..23", &sizes));
  assert_int_equal(sizes.count, 8);
  assert_memory_equal(sizes.bytes, wanted, sizeof wanted);
  assert_ok(by_parse_sizes("1..1024G", &sizes));
  assert_int_equal(sizes.count, 41);
}

static void test_bad_sizes(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    ",",
                                    "8,",
                                    "0",
                                    "x",
                                    "8..",
                                    "..8",
                                    "16..8",
                                    "1025G",
                                    "8...9",
                                    "1..1G,1..1G,1..1G,1..1G,1..1G",
                                    "1111111111111111111111111111111111111111111111111111111111111111111"};
  struct by_sizes sizes;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_parse_sizes(bad[i], &sizes) == BANYAN_OK) fail_msg("\"%s\" is taken", bad[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_kinds), cmocka_unit_test(test_operands), cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_help),      cmocka_unit_test(test_sizes),    cmocka_unit_test(test_bad_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
