#include <string.h>

#include <banyan/sparse.h>

#include "fail.h"

static const char *const names[BANYAN_SPARSE_WAYS] = {
    [BANYAN_SPARSE_CHOSEN] = "chosen",       [BANYAN_SPARSE_PADDED] = "padded", [BANYAN_SPARSE_GATHER] = "gather",
    [BANYAN_SPARSE_BROADCAST] = "broadcast", [BANYAN_SPARSE_MERGE] = "merge",   [BANYAN_SPARSE_DENSE] = "dense",
};

const char *banyan_sparse_way_name(enum banyan_sparse_way way) {
  return (unsigned)way < BANYAN_SPARSE_WAYS ? names[way] : "?";
}

enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out) {
  for (int way = 0; text && way < BANYAN_SPARSE_WAYS; way++)
    if (!strcmp(text, names[way])) {
      *out = (enum banyan_sparse_way)way;
      return BANYAN_OK;
    }
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "no way of sparse rows is called \"%.40s\"; there are chosen, padded, gather, broadcast, merge, dense",
                 text ? text : "");
}
