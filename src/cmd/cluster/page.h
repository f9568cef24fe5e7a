/* The page: the files of the folder page, embedded in the program. */
#ifndef BY_CMD_CLUSTER_PAGE_H
#define BY_CMD_CLUSTER_PAGE_H

#include <stddef.h>

#define BY_PAGE_FILES(each)                                                                                            \
  each(page_index) each(page_denied) each(page_style) each(page_icon) each(page_main) each(page_topology)              \
      each(page_tables) each(page_units)

#define BY_PAGE_DECLARE(name)                                                                                          \
  extern const unsigned char by_##name[];                                                                              \
  extern const size_t by_##name##_bytes;

BY_PAGE_FILES(BY_PAGE_DECLARE)

#endif
