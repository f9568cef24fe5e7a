/* The hosts of a job and which ranks run where.
 * Hosts are filled in the order given. A host is "name", "name:slots",
 * "user@name:slots" or "[2001:db8::1]:slots"; a name given twice adds slots. */
#ifndef BY_CLI_LAUNCH_HOSTS_H
#define BY_CLI_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "fail.h"

enum { BY_MOST_HOSTS = 4096, BY_MOST_RANKS = 65536 };

struct by_launch_host {
  const char *name;        /* without user and brackets */
  const char *destination; /* what ssh gets */
  int slots;
  int first, ranks; /* set by by_hosts_place */
  bool local;       /* names this machine */
  /* What its processes are instead of ranks, behind which they are numbered: BY_HELPERS, one for each slot, or
   * BY_SERVERS, one for all slots, which are trees. */
  enum by_beside { BY_RANKS, BY_HELPERS, BY_SERVERS } beside;
  /* Puts the process that is to be this host's run-host in its place, before it starts; NULL: it stays where it is. */
  enum banyan_status (*enter)(void *context, const struct by_launch_host *host);
  void *context;
};

struct by_launch_hosts {
  struct by_launch_host *items;
  size_t count, room;
  struct by_arena arena;
};

void by_hosts_init(struct by_launch_hosts *hosts);
void by_hosts_fini(struct by_launch_hosts *hosts);
/* Adds "a:2,b:4". */
enum banyan_status by_hosts_parse(struct by_launch_hosts *hosts, const char *list);
/* Adds a file's hosts: one a line, also as "name slots=4"; # starts a comment. */
enum banyan_status by_hosts_read(struct by_launch_hosts *hosts, const char *path);
/* Adds this machine under the name that BANYAN_HOST gives it, else its own. */
enum banyan_status by_hosts_add_self(struct by_launch_hosts *hosts, int slots);
/* Adds a host that is a place on this machine, whatever its name says. */
enum banyan_status by_hosts_add_place(struct by_launch_hosts *hosts, const char *name, int slots,
                                      enum banyan_status (*enter)(void *context, const struct by_launch_host *host),
                                      void *context);
/* Sum of all slots. */
int by_hosts_slots(const struct by_launch_hosts *hosts);
/* Gives every rank a host; hosts that stay empty are dropped. */
enum banyan_status by_hosts_place(struct by_launch_hosts *hosts, int ranks);
/* Adds hosts of helpers or of servers, all slots of each, for processes numbered from `first` on. Names are copied. */
enum banyan_status by_hosts_add_beside(struct by_launch_hosts *hosts, const struct by_launch_hosts *more,
                                       enum by_beside beside, int first);
/* "rank", "helper", "server". */
const char *by_beside_name(enum by_beside beside);
bool by_hosts_all_local(const struct by_launch_hosts *hosts);

#endif
