/* Reads topologies in all known formats. The format is detected from the beginning of the text, or else from the ending
 * of the file's name. To add a format, add a row to the table in topology_formats.c.
 *
 * All readers work alike: `source` is the file's name for errors, which name the line ("net.el:7: ..."); the caller
 * owns *out; BANYAN_ERR_PARSE: not in this format; BANYAN_ERR_TOPOLOGY: in this format, but inconsistent;
 * BANYAN_ERR_ARGUMENT: an invalid option. docs/topology-format.md describes what is read and what is assumed;
 * assumptions are also logged. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_FORMATS_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_FORMATS_H

#include "topology.h"

/* Parses a text. `options` is "name=value,name=value" ("": none), as written behind a file's name: "FILE?rate=10g".
 * Several patterns in one value are separated by "+". */
typedef enum banyan_status by_topology_parser(const char *source, const char *text, size_t length, const char *options,
                                              struct by_topology **out);

/* Reads GraphML, as published by the Internet Topology Zoo and in general. Option "rate": the speed of links if no link
 * of the graph has one, default 1 Gbit/s; if some links have a speed, the median of these is used for the others.
 * Option "delay": the delay of links where neither a delay nor any distance is known. */
by_topology_parser by_topology_parse_graphml;
/* Reads measured pairs of regions as CSV, as Skyplane publishes them: a row for each direction with throughput and
 * round-trip time. Nodes are sorted by name. Option "select": regions as shell patterns such as
 * "aws:us-*+gcp:europe-*", with "!" before those to omit; tiers other than the premium one are selected by "gcp:*"
 * "/STANDARD"; default: all. Option "limits": the total that a machine may send, by provider (the name before the
 * colon), default "aws=5g+gcp=7g+azure=16g"; "": no limits. */
by_topology_parser by_topology_parse_pairs;
/* Reads the inside of GPU servers in the XML of NCCL and RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE). GPUs are hosts, in
 * the order of their ranks if they have ranks; CPUs, PCI switches, NICs and their ports are switches. No options. */
by_topology_parser by_topology_parse_nccl;

struct by_lldp_file {
  const char *source,
      *text; /* The source's name without folder and ending names the machine, unless the text names it. */
  size_t length;
};

/* Reads what hosts and switches receive from their neighbours: the JSON of `lldpcli -f json0 show neighbors details`,
 * of one or many machines. The files are merged; a cable that both ends report is one link. Option "rate": the speed of
 * links for which no end reports one, default 1 Gbit/s. Option "hosts": shell patterns of the names that are hosts,
 * such as "gpu*+node-*"; default: decide by what they report. */
BANYAN_CHECK enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n, const char *options,
                                                       struct by_topology **out);

struct by_topology_format {
  const char *name;   /* such as "edges" */
  const char *ending; /* the ending of files' names, such as ".el" */
  const char *help;   /* a description in a few words */
  by_topology_parser *parse;
  /* A text is in this format if it begins with this character and contains one of these words near its beginning. These
   * fields are used if `fits` is NULL. */
  char first;
  const char *words[2];
  /* Whether a text is in this format: `head` is its beginning, at most BY_FORMAT_HEAD bytes, NUL-terminated, without
   * leading white space and byte order mark (which the parser does not see either). May be NULL. */
  bool (*fits)(const char *head);
};

enum { BY_FORMAT_HEAD = 4096 };

/* Returns the i-th format in the order of detection; NULL beyond the last. Static storage. */
const struct by_topology_format *by_topology_format_list(uint32_t i);
/* Parses a text in any of the formats. BANYAN_ERR_PARSE also: the format is not known. */
BANYAN_CHECK by_topology_parser by_topology_parse_any;
/* Reads a file of at most BY_TOPOLOGY_MAX_FILE bytes, whose name options may follow; or all files of a folder that end
 * in .json, .json0 or .lldp, as what the machines of these names received by LLDP. Also BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_topology_read(const char *path, struct by_topology **out);

/* Makes topologies from a command line: from a file, or from a short text: "star:4,nic=500m",
 * "clos:racks=8,hosts=8,nic=100g,oversub=4". The size comes first, options follow by name. Only "random" is random, and
 * repeatable. */

/* Makes a topology from JSON, which begins with "{"; a kind with its size and options, such as "star:4,nic=500m"; or a
 * file in any known format (topology_formats.h). To read a file that is named like a kind, write "./ring". The caller
 * owns *out. Errors are those of these readers; BANYAN_ERR_ARGUMENT also: it is neither a kind nor a file. */
BANYAN_CHECK enum banyan_status by_topology_named(const char *text, struct by_topology **out);

struct by_topology_kind {
  const char *name;  /* such as "star" */
  const char *usage; /* such as "star:N[,nic=RATES][,helpers=K]" */
  const char *help;  /* one line */
};

/* Returns the i-th kind; NULL beyond the last. Static storage. */
const struct by_topology_kind *by_topology_kind_list(uint32_t i);
/* Whether a text is the name of a kind, or begins with one and ":". */
bool by_topology_is_kind(const char *text);
/* Makes a topology whose name is the text. The caller owns *out. BANYAN_ERR_ARGUMENT: the text is invalid; the error
 * names what is possible. */
BANYAN_CHECK enum banyan_status by_topology_synthesise(const char *text, struct by_topology **out);

#endif
