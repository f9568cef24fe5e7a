#include "topology_formats.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"
#include "topology_reader.h"

enum { MOST_PATH = 4096, MOST_FILES = 16384 };

static bool fits_own(const char *head) {
  return *head == '{' && (strstr(head, "\"banyan-topology") || strstr(head, "\"nodes\""));
}

/* Two numbers and nothing else before the first line ends. */
static bool fits_edges(const char *head) {
  static const char digits[] = "0123456789";
  size_t first = strspn(head, digits), gap = strspn(head + first, " \t");
  size_t second = strspn(head + first + gap, digits), rest = strspn(head + first + gap + second, " \t\r");
  const char *end = head + first + gap + second + rest;
  return *head == '#' || (first && gap && second && (!*end || *end == '\n' || *end == '#'));
}

static bool fits_graphml(const char *head) {
  return *head == '<' && strstr(head, "<graphml");
}

static bool fits_nccl(const char *head) {
  return *head == '<' && strstr(head, "<system");
}

static bool fits_lldp(const char *head) {
  return *head == '{' && (strstr(head, "\"lldp\"") || strstr(head, "\"local-chassis\""));
}

static bool fits_pairs(const char *head) {
  size_t line = strcspn(head, "\n");
  const char *from = strstr(head, "src_region"), *to = strstr(head, "dst_region");
  return from && to && (size_t)(from - head) < line && (size_t)(to - head) < line;
}

static enum banyan_status parse_own(const char *source, const char *text, size_t length, const char *options,
                                    struct by_topology **out) {
  return *options ? by_options_none(options) : by_topology_parse(source, text, length, out);
}

static enum banyan_status parse_lldp(const char *source, const char *text, size_t length, const char *options,
                                     struct by_topology **out) {
  return by_topology_parse_lldp(&(struct by_lldp_file){source, text, length}, 1, options, out);
}

static const struct by_topology_format formats[] = {
    {"json", ".json", "our own, docs/topology-format.md", fits_own, parse_own},
    {"edges", ".el", "edge list: \"n m\", then \"u v Gbit/s ms\" a line", fits_edges, by_topology_parse_edges},
    {"graphml", ".graphml", "GraphML, such as the Internet Topology Zoo's; FILE?rate=RATE,delay=TIME", fits_graphml,
     by_topology_parse_graphml},
    {"pairs", ".csv", "measured pairs of cloud regions, as Skyplane's CSV; FILE?select=REGIONS,limits=NAME=RATE",
     fits_pairs, by_topology_parse_pairs},
    {"lldp", ".lldp",
     "what `lldpcli -f json0 show neighbors details` prints; FILE?rate=RATE,hosts=NAMES; or a folder of files",
     fits_lldp, parse_lldp},
    {"nccl", ".xml", "the inside of GPU servers, as NCCL_TOPO_DUMP_FILE", fits_nccl, by_topology_parse_nccl},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

const struct by_topology_format *by_topology_format_list(uint32_t i) {
  return i < N_FORMATS ? &formats[i] : NULL;
}

static bool ends_in(const char *name, const char *ending) {
  size_t length = strlen(name), n = strlen(ending);
  return length > n && strcmp(name + length - n, ending) == 0;
}

static const struct by_topology_format *format_of(const char *source, const char *head) {
  for (size_t i = 0; i < N_FORMATS; i++)
    if (formats[i].fits(head)) return &formats[i];
  for (size_t i = 0; i < N_FORMATS; i++)
    if (ends_in(source, formats[i].ending)) return &formats[i];
  return NULL;
}

static enum banyan_status no_format(const char *source, bool empty) {
  char list[256] = "";
  for (size_t i = 0; i < N_FORMATS; i++) {
    if (i) strcat(list, ", ");
    strcat(list, formats[i].name);
  }
  return by_fail(BANYAN_ERR_PARSE, "%s: is %s; topologies are read as %s", source,
                 empty ? "empty" : "in no format that is known", list);
}

enum banyan_status by_topology_parse_any(const char *source, const char *text, size_t length, const char *options,
                                         struct by_topology **out) {
  char head[BY_FORMAT_HEAD + 1];
  size_t skip = 0, n = 0;
  if (length > BY_TOPOLOGY_MOST_FILE)
    return by_fail(BANYAN_ERR_PARSE, "%s: too large: most are %d bytes", source, BY_TOPOLOGY_MOST_FILE);
  size_t mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of byte order */
  text += mark;
  length -= mark;
  while (skip < length && text[skip] && strchr(" \t\r\n", text[skip])) skip++;
  for (; n < BY_FORMAT_HEAD && skip + n < length && text[skip + n]; n++) head[n] = text[skip + n];
  head[n] = '\0';
  const struct by_topology_format *format = format_of(source, head);
  return format ? format->parse(source, text, length, options, out) : no_format(source, !*head);
}

/* --- a folder of what LLDP gave --- */

static int is_of_lldp(const struct dirent *entry) {
  const char *end = strrchr(entry->d_name, '.');
  if (!end || end == entry->d_name) return 0;
  return strcmp(end, ".json") == 0 || strcmp(end, ".json0") == 0 || strcmp(end, ".lldp") == 0;
}

static enum banyan_status read_one(const char *folder, const char *name, size_t *left, struct by_lldp_file *out) {
  char path[MOST_PATH + NAME_MAX + 2], *text;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  BY_TRY(by_read_file("topology", path, *left, &text, &out->length));
  out->source = name;
  out->text = text;
  if (out->length > *left)
    return by_fail(BANYAN_ERR_PARSE, "%s: its files are too large: most are %d bytes", folder, BY_TOPOLOGY_MOST_FILE);
  *left -= out->length;
  return BANYAN_OK;
}

static enum banyan_status read_all(const char *path, const char *options, struct dirent **entries, size_t n,
                                   struct by_topology **out) {
  if (n == 0 || n > MOST_FILES)
    return by_fail(BANYAN_ERR_PARSE, "%s: holds %zu files of LLDP (.json, .json0, .lldp), must hold 1 to %d", path, n,
                   MOST_FILES);
  struct by_lldp_file *files = calloc(n, sizeof *files);
  if (!files) return by_topology_no_memory();
  enum banyan_status status = BANYAN_OK;
  size_t left = BY_TOPOLOGY_MOST_FILE;
  for (size_t i = 0; i < n && status == BANYAN_OK; i++) status = read_one(path, entries[i]->d_name, &left, &files[i]);
  if (status == BANYAN_OK) status = by_topology_parse_lldp(files, n, options, out);
  for (size_t i = 0; i < n; i++) free((char *)files[i].text);
  free(files);
  return status;
}

static enum banyan_status read_folder(const char *path, const char *options, struct by_topology **out) {
  struct dirent **entries;
  int n = scandir(path, &entries, is_of_lldp, alphasort);
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read the folder %s", path);
  enum banyan_status status = read_all(path, options, entries, (size_t)n, out);
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  return status;
}

/* --- a file --- */

/* A file whose own name holds a question mark is one nevertheless. */
enum banyan_status by_topology_read(const char *path, struct by_topology **out) {
  char file[MOST_PATH], *text;
  const char *mark = strrchr(path, '?'), *options = "";
  struct stat about;
  size_t length;
  if (mark && access(path, F_OK) != 0) {
    if ((size_t)(mark - path) >= sizeof file) return by_fail(BANYAN_ERR_ARGUMENT, "the file's name is too long");
    snprintf(file, sizeof file, "%.*s", (int)(mark - path), path);
    path = file;
    options = mark + 1;
  }
  if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return read_folder(path, options, out);
  BY_TRY(by_read_file("topology", path, BY_TOPOLOGY_MOST_FILE, &text, &length));
  enum banyan_status status = by_topology_parse_any(path, text, length, options, out);
  free(text);
  return status;
}
