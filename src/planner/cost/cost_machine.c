/* Stores the costs of this machine in the cache folder. */
#include "cost.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "file.h"
#include "json_doc.h"
#include "log.h"

#define FORMAT "banyan-costs 1"
#define FIELDS "format, machine, processors, costs, made"

static const struct by_doc_limits limits = {4096, 8, 32};

static const double tolerance = 60; /* The number of seconds by which clocks may differ. */

struct by_cost_machine by_machine_get(void) {
  static _Thread_local struct utsname name;
  const char *encrypt = getenv("BANYAN_ENCRYPT");
  long processors = sysconf(_SC_NPROCESSORS_CONF);
  return (struct by_cost_machine){.encrypted = !encrypt || strcmp(encrypt, "off") != 0,
                                  .name = uname(&name) == 0 ? name.nodename : "",
                                  .processors = processors > 0 ? (uint64_t)processors : 0};
}

enum banyan_status by_machine_costs_path(const struct by_cost_machine *machine, char out[BY_MACHINE_MAX_PATH]) {
  if (strchr(machine->name, '/')) return by_fail(BANYAN_ERR_ARGUMENT, "the name of this machine has a /");
  if (!by_cache_folder(getenv("BANYAN_CACHE"), out, BY_MACHINE_MAX_PATH))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "there is no folder for the costs of this machine: BANYAN_CACHE is \"off\", or neither that nor "
                   "XDG_CACHE_HOME nor HOME names one by a path that begins with /");
  size_t length = strlen(out);
  int added = snprintf(out + length, BY_MACHINE_MAX_PATH - length, "/costs-%s%s.json", machine->name,
                       machine->encrypted ? "-tls" : "");
  if (added > 0 && length + (size_t)added < BY_MACHINE_MAX_PATH) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the path of the costs of this machine is too long");
}

/* --- The text. --- */

static enum banyan_status read_text(const struct by_doc_path *place, const json_t *root, const char *field,
                                    const char *must_be, const char **out) {
  struct by_doc_path at = {.above = place, .field = field};
  json_t *value;
  BY_TRY(by_doc_need(place, root, field, &value));
  BY_TRY(by_doc_string(&at, value, out));
  if (!must_be || strcmp(*out, must_be) == 0) return BANYAN_OK;
  return by_doc_fail(&at, "is \"%.64s\", must be \"%.64s\"", *out, must_be);
}

/* Checks the date of the file. Files of earlier versions have none. */
static enum banyan_status check_date(const struct by_doc_path *place, const json_t *root, double now) {
  struct by_doc_path at = {.above = place, .field = "made"};
  const json_t *value = json_object_get(root, "made");
  double made;
  if (!value) return BANYAN_OK;
  BY_TRY(by_doc_real(&at, value, &made));
  return made > now + tolerance ? by_doc_fail(&at, "is %.0f s in the future", made - now) : BANYAN_OK;
}

static enum banyan_status read_costs(const struct by_doc_path *place, const json_t *root, double now,
                                     const struct by_cost_machine *machine, struct by_cost_rates *rates) {
  struct by_doc_path at = {.above = place, .field = "costs"};
  struct by_cost_rates fitted = *rates;
  const char *text;
  uint64_t processors;
  BY_TRY(by_doc_fields(place, root, FIELDS));
  BY_TRY(read_text(place, root, "format", FORMAT, &text));
  BY_TRY(read_text(place, root, "machine", machine->name, &text));
  BY_TRY(by_doc_need_int(place, root, "processors", UINT32_MAX, &processors));
  if (processors != machine->processors)
    return by_doc_fail(place, "is of a machine with %llu processors; this one has %llu", (unsigned long long)processors,
                       (unsigned long long)machine->processors);
  BY_TRY(check_date(place, root, now));
  BY_TRY(read_text(place, root, "costs", NULL, &text));
  if (by_cost_parse(text, &fitted) != BANYAN_OK) return by_doc_fail(&at, "%s", banyan_error_text());
  *rates = fitted;
  return BANYAN_OK;
}

enum banyan_status by_machine_costs_parse(const char *source, const char *text, size_t length, double now,
                                          const struct by_cost_machine *machine, struct by_cost_rates *rates) {
  const struct by_doc_path place = {.field = source};
  json_t *root;
  BY_TRY(by_doc_load(source, text, length, &limits, &root));
  enum banyan_status status = read_costs(&place, root, now, machine, rates);
  json_decref(root);
  return status;
}

void by_machine_costs_print(const struct by_cost_machine *machine, const char *costs, double now,
                            struct by_text *text) {
  json_t *root = json_pack("{s:s, s:s, s:I, s:s, s:I}", "format", FORMAT, "machine", machine->name, "processors",
                           (json_int_t)machine->processors, "costs", costs, "made", (json_int_t)now);
  char *printed = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  if (printed)
    by_text_add(text, "%s\n", printed);
  else
    text->failed = true;
  free(printed);
  json_decref(root);
}

/* --- The file. --- */

enum banyan_status by_machine_costs_read(const struct by_cost_machine *machine, const char *path,
                                         struct by_cost_rates *rates) {
  char *text;
  size_t length;
  if (access(path, F_OK) != 0) return by_fail(BANYAN_ERR_ARGUMENT, "there is no file %s", path);
  BY_TRY(by_trusted_read("costs", path, limits.bytes, &text, &length));
  enum banyan_status status = by_machine_costs_parse(path, text, length, by_cache_date(), machine, rates);
  free(text);
  return status;
}

enum banyan_status by_machine_costs_keep(const struct by_cost_machine *machine, const char *costs) {
  char path[BY_MACHINE_MAX_PATH];
  struct by_text text;
  BY_TRY(by_machine_costs_path(machine, path));
  by_text_init(&text);
  by_machine_costs_print(machine, costs, by_cache_date(), &text);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for costs")
                                          : by_cache_write(path, by_text_get(&text), text.length);
  by_text_fini(&text);
  return status;
}

void by_machine_costs_use(struct by_cost_rates *rates) {
  static atomic_flag warned = ATOMIC_FLAG_INIT;
  const struct by_cost_machine machine = by_machine_get();
  char path[BY_MACHINE_MAX_PATH];
  if (by_machine_costs_path(&machine, path) != BANYAN_OK) return;
  enum banyan_status status = by_machine_costs_read(&machine, path, rates);
  if (status == BANYAN_OK)
    by_info("plan", "costs are those of this machine, from %s", path);
  else if (status != BANYAN_ERR_ARGUMENT && !atomic_flag_test_and_set(&warned)) /* Jobs plan repeatedly. */
    by_warn("plan",
            "%s; the usual costs are used: `banyan plan TOPOLOGY --fit FILE --save` finds those of this machine",
            banyan_error_text());
}
