/* Reads what the administrator of a host allows jobs. */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "text.h"

enum { MOST_BYTES = 65536 };

/* Whether the line consists of these two words. */
static bool is_rule(const char *line, size_t length, const char *name, const char *value) {
  char text[64], first[64], second[64], more;
  if (length >= sizeof text) return false;
  snprintf(text, sizeof text, "%.*s", (int)length, line);
  return sscanf(text, "%63s %63s %c", first, second, &more) == 2 && !strcmp(first, name) && !strcmp(second, value);
}

enum banyan_status by_policy_parse(const char *text, struct by_policy *out) {
  *out = (struct by_policy){0};
  for (unsigned number = 1; *text; number++) {
    size_t length = strcspn(text, "\n"), blank = strspn(text, " \t\r");
    if (is_rule(text, length, "encrypt", "required"))
      out->encryption_required = true;
    else if (is_rule(text, length, "join", "certified"))
      out->encryption_required = out->certified = true;
    else if (blank < length && text[blank] != '#')
      return by_fail(BANYAN_ERR_PARSE, "line %u is \"%.*s\"; there are \"encrypt required\" and \"join certified\"",
                     number, length < 60 ? (int)length : 60, text);
    text += length + (text[length] == '\n');
  }
  return BANYAN_OK;
}

enum banyan_status by_policy_read(const char *path, struct by_policy *out) {
  char *text;
  size_t length;
  *out = (struct by_policy){0};
  if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR)) return BANYAN_OK;
  BY_TRY(by_read_file("policy", path, MOST_BYTES, &text, &length));
  enum banyan_status status = by_policy_parse(text, out);
  free(text);
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", path);
}
