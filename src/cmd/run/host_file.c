/* Reads host files: those of Banyan, Open MPI and MPICH, and lists of Slurm's nodes.
 *
 *   node1:4                          Banyan, MPICH
 *   node2 slots=4 max-slots=8        Open MPI
 *   node3:4 user=me binding=rr       MPICH
 *   node[4-6,9]                      Slurm, as in SLURM_JOB_NODELIST
 *   node7                            Slurm: a name for each of its tasks
 *   node7 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "log.h"
#include "text.h"

enum { MOST_FILE = 16 << 20 };

struct line {
  const char *file;
  int number;
  long slots, most; /* 0: not stated. */
  const char *user; /* NULL: not stated. */
  const char *word; /* The attribute that is being read. */
};

/* Warns of an attribute for which `banyan run` has an option that applies to all hosts. */
static enum banyan_status warn_of(const struct line *line, const char *instead) {
  by_warn("launch", "%s:%d: \"%.64s\" is not followed: %s for all hosts", line->file, line->number, line->word,
          instead);
  return BANYAN_OK;
}

static enum banyan_status take_slots(struct line *line, const char *value) {
  return by_parse_int("slots", value, 1, BY_MOST_RANKS, &line->slots);
}

static enum banyan_status take_most(struct line *line, const char *value) {
  return by_parse_int("max_slots", value, 1, BY_MOST_RANKS, &line->most);
}

static enum banyan_status take_user(struct line *line, const char *value) {
  line->user = value;
  return BANYAN_OK;
}

static enum banyan_status take_binding(struct line *line, const char *value) {
  return warn_of(line, "--pin binds ranks to cores");
}

static enum banyan_status take_interface(struct line *line, const char *value) {
  return warn_of(line, "--iface selects interfaces");
}

static const struct attribute {
  const char *name;
  enum banyan_status (*take)(struct line *line, const char *value);
} attributes[] = {{"slots", take_slots}, {"max_slots", take_most},  {"max-slots", take_most},
                  {"user", take_user},   {"username", take_user},   {"count", take_slots},
                  {"cpu", take_slots},   {"binding", take_binding}, {"bind", take_binding},
                  {"map", take_binding}, {"ifname", take_interface}};

static enum banyan_status take_attribute(struct line *line, char *word) {
  char *value = strchr(word, '=');
  line->word = word;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes && value && value[1]; i++) {
    const char *name = attributes[i].name;
    if (strncmp(word, name, (size_t)(value - word)) == 0 && !name[value - word])
      return attributes[i].take(line, value + 1);
  }
  return by_fail(BANYAN_ERR_PARSE,
                 "\"%.64s\" after the host is unknown: there are slots=N, max_slots=N, user=NAME, binding=... and "
                 "ifname=...",
                 word);
}

/* Turns "slots = 4" into "slots=4". */
static void join_around_equals(char *text) {
  char *out = text;
  for (const char *c = text; *c; c++) {
    if (isblank((unsigned char)*c)) {
      const char *next = c + strspn(c, " \t");
      if (*next == '=' || (out > text && out[-1] == '=')) continue;
    }
    *out++ = *c;
  }
  *out = 0;
}

/* Parses a line; blank lines and comments are ignored. */
static enum banyan_status parse_line(struct by_launch_hosts *hosts, struct line *line, char *text) {
  text[strcspn(text, "#\r")] = 0;
  join_around_equals(text);
  char *save, *names = strtok_r(text, " \t", &save);
  if (!names) return BANYAN_OK;
  for (char *word; (word = strtok_r(NULL, " \t", &save));) BY_TRY(take_attribute(line, word));
  if (line->most && line->slots > line->most)
    return by_fail(BANYAN_ERR_PARSE, "slots=%ld are more than max_slots=%ld", line->slots, line->most);
  return by_hosts_parse_as(hosts, names, (int)line->slots, line->user);
}

enum banyan_status by_hosts_read(struct by_launch_hosts *hosts, const char *path) {
  char *text;
  size_t length;
  int before = by_hosts_slots(hosts);
  BY_TRY(by_read_file("host file", path, MOST_FILE, &text, &length));
  enum banyan_status status = BANYAN_OK;
  char *found, *rest = text;
  if (strncmp(rest, "\xef\xbb\xbf", 3) == 0)
    rest += 3; /* The byte order mark of UTF-8, which editors of Windows write. */
  for (int number = 1; status == BANYAN_OK && (found = strsep(&rest, "\n")); number++) {
    struct line line = {.file = path, .number = number};
    status = parse_line(hosts, &line, found);
    if (status) status = by_fail_within(status, "%s:%d", path, number);
  }
  free(text);
  if (!status && by_hosts_slots(hosts) == before) status = by_fail(BANYAN_ERR_PARSE, "%s names no host", path);
  return status;
}
