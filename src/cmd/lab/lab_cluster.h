/* The cluster of a lab (--cluster): keys, a manager on one host, and an agent on every host. */
#ifndef BY_CMD_LAB_LAB_CLUSTER_H
#define BY_CMD_LAB_LAB_CLUSTER_H

#include "lab_folder.h"
#include "lab_services.h"

struct by_lab_cluster_options {
  const char *manager; /* host that runs the manager; NULL: the first that takes no part in jobs, else the first */
  const char *more;    /* arguments of the manager with blanks between them; NULL: none */
  bool tells;          /* the manager gets the topology; else it composes it, where that is possible */
  const char *http;    /* where this machine reaches the manager's page: "127.0.0.1:8420" */
};

struct by_lab_cluster {
  const struct by_lab_cluster_options *options;
  const struct by_topology *topology;
  const struct by_lab_folder *folder;
  uint32_t manager; /* node */
  int listener;     /* of the page, in this process's network; -1: none */
  char page[80];    /* "http://127.0.0.1:8420/" */
};

/* Chooses the manager's host, and makes the keys. The caller calls fini, after a failure, too. */
BANYAN_CHECK enum banyan_status by_lab_cluster_make(const struct by_lab_cluster_options *options,
                                                    const struct by_topology *topology,
                                                    const struct by_lab_folder *folder, struct by_lab_cluster *out);
void by_lab_cluster_fini(struct by_lab_cluster *cluster);
/* Starts the manager, the agents and the switches. */
BANYAN_CHECK enum banyan_status by_lab_cluster_start(const struct by_lab_cluster *cluster,
                                                     const struct by_lab_layout *layout,
                                                     const struct by_lab_options *built,
                                                     enum by_lab_switch_kind switches,
                                                     struct by_lab_services *services);
/* Prints on standard error where the page is, and how to ask for the state. After the manager is ready. */
BANYAN_CHECK enum banyan_status by_lab_cluster_print(const struct by_lab_cluster *cluster);

#endif
