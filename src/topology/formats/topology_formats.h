/* Reading topologies in any format that is known. Which one a text is in is
 * told from its beginning, and where that does not say, from the name of its
 * file. A new format is a row of the table in topology_formats.c.
 *
 * All readers work alike: `source` is the file's name in errors, which say
 * where ("net.el:7: ..."); the caller owns *out; BANYAN_ERR_PARSE: not in this
 * format; BANYAN_ERR_TOPOLOGY: it is, but makes no sense as a whole. */
#ifndef BY_TOPOLOGY_TOPOLOGY_FORMATS_H
#define BY_TOPOLOGY_TOPOLOGY_FORMATS_H

#include "topology_foreign.h"

struct by_topology_format {
  const char *name;   /* "edges" */
  const char *ending; /* of files' names, such as ".el"; NULL: none of its own */
  const char *help;   /* what it is, in a few words */
  /* Whether a text that begins so is in this format: at most BY_FORMAT_HEAD bytes, NUL-terminated, without the white
   * space it may begin with. A byte order mark is gone, for the parser too. */
  bool (*fits)(const char *head);
  by_topology_parser *parse; /* with options as text, of which our own formats have none */
};

enum { BY_FORMAT_HEAD = 4096 };

/* The i-th format, in the order in which they are tried; NULL beyond the last. Static storage. */
const struct by_topology_format *by_topology_format_list(uint32_t i);
/* Text in any of them, without options. BANYAN_ERR_PARSE also: in none. */
BANYAN_CHECK enum banyan_status by_topology_parse_any(const char *source, const char *text, size_t length,
                                                      struct by_topology **out);
/* The same from a file of at most BY_TOPOLOGY_MOST_FILE bytes, behind whose name options may stand: "FILE?rate=10g"
 * (topology_foreign.h); or from a folder of files that LLDP gave. Also BANYAN_ERR_SYSTEM and _ARGUMENT. */
BANYAN_CHECK enum banyan_status by_topology_read(const char *path, struct by_topology **out);

/* Edge lists: a line `n m`, then m lines `u v capacity_Gbit_per_s latency_ms` for links that carry so much each way
 * between nodes numbered 0 to n - 1 (no latency: 0), and anywhere behind the first line `nic v capacity_Gbit_per_s`
 * for what all links of a node together may carry, each way. All nodes are hosts that take part, named by their
 * number. Empty lines and what follows a "#" mean nothing. */
BANYAN_CHECK enum banyan_status by_topology_parse_edges(const char *source, const char *text, size_t length,
                                                        struct by_topology **out);

#endif
