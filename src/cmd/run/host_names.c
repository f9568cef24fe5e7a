/* Expands lists of hosts that Slurm has compressed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

enum { MOST_NAME = 256, MOST_DIGITS = 9 };

struct receiver {
  enum banyan_status (*add)(void *context, const char *name);
  void *context;
};

static enum banyan_status bad_list(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is no list of hosts such as node[1-3,7],gpu2", text);
}

static enum banyan_status add_item(const struct receiver *to, const char *name);

/* Adds the names of "07-09" or "12" between `before` and `after`. */
static enum banyan_status add_range(const struct receiver *to, const char *before, const char *range,
                                    const char *after) {
  char name[2 * MOST_NAME];
  size_t digits = strspn(range, "0123456789"),
         more = range[digits] == '-' ? strspn(range + digits + 1, "0123456789") : 0;
  bool single = !range[digits];
  if (!digits || digits > MOST_DIGITS || more > MOST_DIGITS || (!single && (!more || range[digits + 1 + more])))
    return bad_list(range);
  long first = strtol(range, NULL, 10), last = single ? first : strtol(range + digits + 1, NULL, 10);
  if (last < first) return bad_list(range);
  if (last - first >= BY_MOST_HOSTS)
    return by_fail(BANYAN_ERR_PARSE, "[%.64s] are more than %d hosts, which are the most", range, BY_MOST_HOSTS);
  for (long i = first; i <= last; i++) {
    int length = snprintf(name, sizeof name, "%s%0*ld%s", before, (int)digits, i, after);
    if (length >= MOST_NAME) return bad_list(before);
    BY_TRY(add_item(to, name));
  }
  return BANYAN_OK;
}

/* Adds one name, or several by its first bracket; recursion expands the brackets after it. */
static enum banyan_status add_item(const struct receiver *to, const char *name) {
  char copy[MOST_NAME];
  snprintf(copy, sizeof copy, "%s", name);
  char *open = strchr(copy, '['), *close = open ? strchr(open, ']') : NULL;
  if (open && !close) return bad_list(name);
  if (!open || memchr(open, ':', (size_t)(close - open))) return to->add(to->context, name);
  *open = *close = 0;
  for (char *rest = open + 1, *range; (range = strsep(&rest, ","));) BY_TRY(add_range(to, copy, range, close + 1));
  return BANYAN_OK;
}

/* Returns the length of the first item, up to a comma outside of brackets. */
static size_t item_length(const char *list) {
  size_t n = 0;
  for (bool within = false; list[n] && (within || list[n] != ','); n++)
    within = list[n] == '[' || (within && list[n] != ']');
  return n;
}

enum banyan_status by_host_names_expand(const char *list, enum banyan_status (*add)(void *context, const char *name),
                                        void *context) {
  const struct receiver to = {add, context};
  for (size_t n;; list += n + 1) {
    char item[MOST_NAME];
    n = item_length(list);
    if (!n || n >= sizeof item) return bad_list(list);
    snprintf(item, sizeof item, "%.*s", (int)n, list);
    BY_TRY(add_item(&to, item));
    if (!list[n]) return BANYAN_OK;
  }
}
