/* libbpf, loaded by the first XDP switch of a process: the command shall run on
 * hosts that have none. Any thread. */
#ifndef BY_SWITCH_LIBBPF_H
#define BY_SWITCH_LIBBPF_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "fail.h"

#define BY_LIBBPF(each)                                                                                                \
  each(bpf_link_create);                                                                                               \
  each(bpf_map__name);                                                                                                 \
  each(bpf_map__set_initial_value);                                                                                    \
  each(bpf_map__set_max_entries);                                                                                      \
  each(bpf_map__value_size);                                                                                           \
  each(bpf_map_create);                                                                                                \
  each(bpf_map_delete_elem);                                                                                           \
  each(bpf_map_lookup_elem);                                                                                           \
  each(bpf_map_update_elem);                                                                                           \
  each(bpf_object__close);                                                                                             \
  each(bpf_object__find_map_by_name);                                                                                  \
  each(bpf_object__find_map_fd_by_name);                                                                               \
  each(bpf_object__find_program_by_name);                                                                              \
  each(bpf_object__load);                                                                                              \
  each(bpf_object__next_map);                                                                                          \
  each(bpf_object__open_mem);                                                                                          \
  each(bpf_program__fd);                                                                                               \
  each(libbpf_num_possible_cpus);                                                                                      \
  each(libbpf_set_print);

#define BY_LIBBPF_MEMBER(function) __typeof__(&function) function

/* Its functions, by their names. */
struct by_libbpf {
  BY_LIBBPF(BY_LIBBPF_MEMBER)
};

/* Static storage. BANYAN_ERR_UNSUPPORTED: it cannot be loaded. */
BANYAN_CHECK enum banyan_status by_libbpf_load(const struct by_libbpf **out);

#endif
