/* Reading topologies in any format that is known. A text's format is detected from its beginning, and where that
 * does not decide, from the name of its file. A new format is a row of the table in topology_formats.c.
 *
 * All readers work alike: `source` is the file's name in errors, which say where ("net.el:7: ..."); the caller owns
 * *out; BANYAN_ERR_PARSE: not in this format; BANYAN_ERR_TOPOLOGY: it is, but makes no sense as a whole;
 * BANYAN_ERR_ARGUMENT: an option. docs/topology-format.md describes what is read and what is assumed, which is also
 * noted in the log. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_FORMATS_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_FORMATS_H

#include "topology.h"

/* `options` is "name=value,name=value" ("": none), as it stands behind a file's name: "FILE?rate=10g". Several patterns
 * in one value are separated by "+". */
typedef enum banyan_status by_topology_parser(const char *source, const char *text, size_t length, const char *options,
                                              struct by_topology **out);

/* GraphML, as of the Internet Topology Zoo and plain. "rate": of links where no link of the graph has a speed, else 1
 * Gbit/s; where some have one, the median of these stands for the others. "delay": where neither a delay nor any
 * distance is known. */
by_topology_parser by_topology_parse_graphml;
/* Measured pairs of places as CSV, as Skyplane publishes them: one row for each direction with throughput and
 * round-trip time. Nodes are sorted by name. "select": which regions, by shell patterns such as
 * "aws:us-*+gcp:europe-*", with "!" before those to leave out; a tier other than the premium one is asked for by
 * "gcp:*" "/STANDARD"; not given or "": all. "limits": what a machine may send in all, by provider (what stands before
 * the colon): "aws=5g+gcp=7g+azure=16g" where not given, "" for no limits. */
by_topology_parser by_topology_parse_pairs;
/* The inside of GPU servers, as NCCL writes it (NCCL_TOPO_DUMP_FILE) and reads it (NCCL_TOPO_FILE), and RCCL too. GPUs
 * are hosts, in the order of their ranks where they have ranks; CPUs, PCI switches, NICs and their ports are switches.
 * No options. */
by_topology_parser by_topology_parse_nccl;

struct by_lldp_file {
  const char *source, *text; /* the source's name without folder and ending names the machine, unless the text does */
  size_t length;
};

/* What hosts and switches receive from their neighbours: the JSON of `lldpcli -f json0 show neighbors details`, of one
 * machine or many. Merges what several machines received; a cable that both its ends report is one link. "rate": of
 * links whose speed no end reports, else 1 Gbit/s. "hosts": shell patterns of the names that are hosts, such as
 * "gpu*+node-*"; not given or "": by what they report. */
BANYAN_CHECK enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n, const char *options,
                                                       struct by_topology **out);

struct by_topology_format {
  const char *name;   /* "edges" */
  const char *ending; /* of files' names, such as ".el" */
  const char *help;   /* what it is, in a few words */
  by_topology_parser *parse;
  /* A text that begins with this character and holds one of the words near its beginning is in this format; */
  char first;
  const char *words[2];
  /* or one for which this is true: of at most BY_FORMAT_HEAD bytes, NUL-terminated, without the white space that it may
   * begin with. A byte order mark is gone, for the parser too. NULL: the above decides. */
  bool (*fits)(const char *head);
};

enum { BY_FORMAT_HEAD = 4096 };

/* The i-th format, in the order in which they are tried; NULL beyond the last. Static storage. */
const struct by_topology_format *by_topology_format_list(uint32_t i);
/* Text in any of them. BANYAN_ERR_PARSE also: in none. */
BANYAN_CHECK by_topology_parser by_topology_parse_any;
/* The same from a file of at most BY_TOPOLOGY_MOST_FILE bytes, behind whose name options may stand; or from all files
 * of a folder that end in .json, .json0 or .lldp, as what the machine of that name received by LLDP. Also
 * BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_topology_read(const char *path, struct by_topology **out);

#endif
