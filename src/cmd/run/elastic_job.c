/* Adapts the processes of an elastic job to its hosts, and passes messages between them and the supervisor. */
#include "elastic_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "clock.h"
#include "cluster_message.h"
#include "descriptor.h"
#include "handle.h"
#include "key_ring.h"
#include "process.h"
#include "socket.h"

static const uint64_t request_pause = 2 * BY_SECOND; /* Pause between two requests, or attempts to connect. */

enum { MAX_ANSWER = BY_CLUSTER_OFFER * (BY_CLUSTER_NAME + 3) + 4096, MAX_REASON = 512 };

/* The connection to the agent of this host, which forwards requests for hosts to the manager. */
struct host_offers {
  int fd; /* -1: not connected. */
  uint64_t ask_at;
  char *received; /* MAX_ANSWER bytes; the first `length` are the beginning of a line. */
  size_t length;
  char reason[MAX_REASON]; /* The last printed reason; "": none since hosts could be requested. */
};

static const uint64_t check_interval = BY_SECOND; /* Of the host file, and of the manager's offers. */
/* Pauses before a lost host is tried again: the first one, doubled each time up to the maximum. A host that was there
 * for that time counts as new. */
static const uint64_t first_pause = 10 * BY_SECOND, max_pause = 600 * BY_SECOND;

/* Properties by which a change of a file is noticed. */
struct file_state {
  dev_t device;
  ino_t number;
  off_t size;
  struct timespec changed;
};

/* A list of hosts as it was read; the last one counts. Links refer to hosts of earlier ones. */
struct generation {
  struct by_launch_hosts hosts;
  struct generation *before;
};

/* A host that was lost, or whose processes were asked to leave: no process is started there before `until`. */
struct avoided {
  char *name;
  uint64_t pause, until; /* `pause` 0: it was not lost; `until` UINT64_MAX: for good, or until it is offered again. */
  uint64_t lost;         /* When it was last lost. */
  bool waits;            /* To be tried again at `until`. */
};

struct by_elastic {
  const char *title;
  const struct by_elastic_options *options;
  struct by_elastic_events events;
  struct by_supervisor *supervisor;
  struct by_key key;
  struct generation *hosts;
  struct host_offers *offers;     /* NULL: none are requested. */
  struct by_launch_hosts offered; /* Offers so far, each with options->offered_slots. */
  struct avoided *avoided;
  size_t n_avoided;
  int *local;                      /* BANYAN_LOCAL_RANK of each process. */
  bool refills;                    /* Slots may be free for more processes, which the next tick starts. */
  bool leaving;                    /* All processes were asked to leave. */
  struct file_state seen, applied; /* State of the host file. */
  uint64_t look_at;
};

static uint64_t current_time(void) {
  return by_clock_now(&by_clock_system);
}

static void print(const struct by_elastic *e, const char *format, ...) BY_PRINTF(2, 3);

static void print(const struct by_elastic *e, const char *format, ...) {
  char text[1024], line[1100];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  snprintf(line, sizeof line, "%s: %s", e->title, text);
  e->events.print(e->events.context, line);
}

/* ---- requests of the supervisor */

static void start_again(void *context, int process, int starts) {
  struct by_elastic *e = context;
  char text[16];
  int length = snprintf(text, sizeof text, "%d", starts);
  e->events.send(e->events.context, process, BY_LAUNCH_RESTART, text, (size_t)length);
}

static void send_message(void *context, int process, const struct by_directory_message *message) {
  struct by_elastic *e = context;
  char bytes[BY_DIRECTORY_MOST];
  e->events.send(e->events.context, process, BY_LAUNCH_MESSAGE, bytes, by_directory_write(message, bytes));
}

static void print_line(void *context, const char *line) {
  struct by_elastic *e = context;
  e->events.print(e->events.context, line);
}

static void end_job(void *context, int exit_code) {
  struct by_elastic *e = context;
  e->events.end(e->events.context, exit_code);
}

/* ---- hosts */

static struct avoided *find_avoided(const struct by_elastic *e, const char *host) {
  for (size_t i = 0; i < e->n_avoided; i++)
    if (!strcmp(e->avoided[i].name, host)) return &e->avoided[i];
  return NULL;
}

static bool is_avoided(const struct by_elastic *e, const char *host) {
  const struct avoided *found = find_avoided(e, host);
  return found && current_time() < found->until;
}

static struct avoided *avoid_host(struct by_elastic *e, const char *host) {
  struct avoided *found = find_avoided(e, host);
  if (found) return found;
  e->avoided = by_cli_alloc(e->avoided, (e->n_avoided + 1) * sizeof *e->avoided);
  found = &e->avoided[e->n_avoided++];
  *found = (struct avoided){.name = by_cli_print("%s", host)};
  return found;
}

static int slots_of(const struct by_launch_hosts *hosts, const char *name) {
  for (size_t i = 0; i < hosts->count; i++)
    if (!strcmp(hosts->items[i].name, name)) return hosts->items[i].slots;
  return 0;
}

/* Records a lost host, once for all of its processes. Only hosts of the host file are tried again after the pause:
 * others if they are offered again after it. */
static void lose_host(struct by_elastic *e, const char *host) {
  struct avoided *found = avoid_host(e, host);
  if (current_time() < found->until) return;
  bool is_new = !found->pause || current_time() - found->until >= max_pause;
  found->lost = current_time();
  found->pause = is_new ? first_pause : MIN(2 * found->pause, max_pause);
  found->waits = e->options->hostfile && !slots_of(&e->offered, host);
  found->until = found->waits ? current_time() + found->pause : UINT64_MAX;
}

/* Counts the occupied slots of a host. */
static int count_held(const struct by_elastic *e, const char *host) {
  int held = 0;
  for (int i = 0; i < by_supervisor_count(e->supervisor); i++)
    held += by_supervisor_holds(e->supervisor, i) && !strcmp(by_supervisor_host(e->supervisor, i), host);
  return held;
}

/* Counts the processes of a host that have left on their own, and keep their slots. */
static int count_withdrawn(const struct by_elastic *e, const char *host) {
  int withdrawn = 0;
  for (int i = 0; i < by_supervisor_count(e->supervisor); i++)
    withdrawn += by_supervisor_withdrew(e->supervisor, i) && !strcmp(by_supervisor_host(e->supervisor, i), host);
  return withdrawn;
}

static void add_process(struct by_elastic *e, const char *host, int local) {
  int process = by_supervisor_count(e->supervisor);
  e->local = by_cli_alloc(e->local, ((size_t)process + 1) * sizeof *e->local);
  e->local[process] = local;
  by_supervisor_add(e->supervisor, host, current_time());
}

/* Tells whether a process of the host that lives, or will be started again, has this local rank. */
static bool is_used(const struct by_elastic *e, const char *host, int local) {
  for (int i = 0; i < by_supervisor_count(e->supervisor); i++)
    if (e->local[i] == local && by_supervisor_may_run(e->supervisor, i) &&
        !strcmp(by_supervisor_host(e->supervisor, i), host))
      return true;
  return false;
}

/* Returns the number above all local ranks of the host's processes. */
static int local_size(const struct by_elastic *e, const char *host) {
  int size = 0;
  for (int i = 0; i < by_supervisor_count(e->supervisor); i++)
    if (e->local[i] >= size && is_used(e, host, e->local[i])) size = e->local[i] + 1;
  return size;
}

static void start_more(struct by_elastic *e, const struct by_launch_host *on, int local, int n) {
  struct by_launch_host *host = BY_ARENA_NEW(&e->hosts->hosts.arena, struct by_launch_host);
  if (!host) return;
  *host = *on;
  host->first = by_supervisor_count(e->supervisor);
  host->ranks = n;
  for (int i = 0; i < n; i++) add_process(e, host->name, local + i);
  print(e, "%d more process%s on host %s%s", n, n == 1 ? "" : "es", host->name,
        find_avoided(e, host->name) ? ", which was lost before" : "");
  e->events.open(e->events.context, host, local, local_size(e, host->name));
}

/* Starts n processes with the lowest free local ranks. */
static void fill_host(struct by_elastic *e, const struct by_launch_host *host, int n) {
  for (int local = 0, run; n > 0; local += run) {
    while (is_used(e, host->name, local)) local++;
    for (run = 1; run < n && !is_used(e, host->name, local + run);) run++;
    start_more(e, host, local, run);
    n -= run;
  }
}

/* Starts processes in free slots. */
static void fill_slots(struct by_elastic *e) {
  e->refills = false;
  for (size_t i = 0; i < e->hosts->hosts.count; i++) {
    const struct by_launch_host *host = &e->hosts->hosts.items[i];
    int held = count_held(e, host->name) + count_withdrawn(e, host->name),
        capacity = e->options->max - by_supervisor_active(e->supervisor);
    int n = MIN(host->slots - held, MIN(capacity, BY_MAX_RANKS - by_supervisor_count(e->supervisor)));
    if (n > 0 && !e->leaving && by_supervisor_goes_on(e->supervisor) && !is_avoided(e, host->name))
      fill_host(e, host, n);
  }
}

/* Asks the last processes of a host to leave if it has fewer slots now. */
static void reduce_hosts(struct by_elastic *e) {
  for (int i = by_supervisor_count(e->supervisor) - 1; i >= 0; i--) {
    const char *host = by_supervisor_host(e->supervisor, i);
    int slots = slots_of(&e->hosts->hosts, host);
    if (!by_supervisor_holds(e->supervisor, i) || count_held(e, host) <= slots) continue;
    if (by_supervisor_leave(e->supervisor, i, slots ? "its host has fewer slots now" : "its host is no longer in use"))
      print(e, "rank %d on host %s is asked to leave: %s has %s", i, host, e->options->hostfile,
            slots ? "fewer slots for it" : "no line for it");
  }
}

/* Forgets avoided hosts that are not in the list: if they are listed again, they count as new. */
static void forget_avoided(struct by_elastic *e) {
  size_t kept = 0;
  for (size_t i = 0; i < e->n_avoided; i++)
    if (slots_of(&e->hosts->hosts, e->avoided[i].name))
      e->avoided[kept++] = e->avoided[i];
    else
      free(e->avoided[i].name);
  e->n_avoided = kept;
}

static void see_to_avoided(struct by_elastic *e) {
  for (size_t i = 0; i < e->n_avoided; i++) {
    struct avoided *host = &e->avoided[i];
    if (!host->waits || current_time() < host->until) continue;
    host->waits = false;
    e->refills = true;
  }
}

/* Lists the hosts. Offered ones stay in use until they are lost. */
static enum banyan_status list_hosts(struct by_elastic *e, struct by_launch_hosts *out) {
  char text[300];
  BY_TRY(e->options->read(e->options->context, out));
  for (size_t i = 0; i < e->offered.count; i++) {
    if (slots_of(out, e->offered.items[i].name)) continue;
    snprintf(text, sizeof text, "%s:%d", e->offered.items[i].name, e->options->offered_slots);
    BY_TRY(by_hosts_parse(out, text));
  }
  return BANYAN_OK;
}

static bool read_hosts(struct by_elastic *e) {
  struct generation *next = by_cli_zeroed(1, sizeof *next);
  by_hosts_init(&next->hosts);
  if (list_hosts(e, &next->hosts) == BANYAN_OK) {
    next->before = e->hosts;
    e->hosts = next;
    return true;
  }
  by_hosts_fini(&next->hosts);
  free(next);
  return false;
}

static struct file_state state_of(const char *path) {
  struct stat found;
  if (stat(path, &found)) return (struct file_state){0};
  return (struct file_state){found.st_dev, found.st_ino, found.st_size, found.st_mtim};
}

static bool is_same(const struct file_state *a, const struct file_state *b) {
  return a->device == b->device && a->number == b->number && a->size == b->size &&
         a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Reads a changed host file once it is equal in two checks, as it may be incomplete while it is being written. */
static void check_host_file(struct by_elastic *e) {
  struct file_state state = state_of(e->options->hostfile);
  bool rests = is_same(&state, &e->seen);
  e->seen = state;
  if (!rests || is_same(&state, &e->applied)) return;
  e->applied = state;
  if (!read_hosts(e)) {
    print(e, "the hosts remain as before: %s", banyan_error_text());
    return;
  }
  forget_avoided(e);
  reduce_hosts(e);
  e->refills = true;
}

/* ---- hosts that the manager offers */

/* Tells whether an offered host is used again: not if its processes were asked to leave, nor soon after it was lost,
 * since its agent may work though processes cannot be started there. */
static bool may_come_back(const struct avoided *found) {
  return found->pause && current_time() - found->lost >= found->pause;
}

/* A host is offered, perhaps again. */
static void take_offer(struct by_elastic *e, const char *name) {
  char text[300];
  int known = slots_of(&e->hosts->hosts, name);
  struct avoided *found = find_avoided(e, name);
  if (known && !is_avoided(e, name)) return; /* It is just starting, or has no process at present. */
  if (found && !may_come_back(found)) return;
  if (found) found->until = current_time();
  snprintf(text, sizeof text, "%s:%d", name, e->options->offered_slots);
  if (!known && (by_hosts_parse(&e->offered, text) != BANYAN_OK || !read_hosts(e))) {
    print(e, "host %s, which the manager offers, is not used: %s", name, banyan_error_text());
    return;
  }
  print(e, "the manager offers host %s", name);
  e->refills = true;
}

static void close_connection(struct host_offers *offers) {
  if (offers->fd >= 0) by_close(offers->fd);
  offers->fd = -1;
  offers->length = 0;
}

static void destroy_offers(struct host_offers *offers) {
  if (!offers) return;
  close_connection(offers);
  free(offers->received);
  free(offers);
}

/* Prints why there are no offers; a reason is not repeated. */
static void note_failure(const struct by_elastic *e, const char *reason) {
  struct host_offers *offers = e->offers;
  close_connection(offers);
  if (!strcmp(offers->reason, reason)) return;
  snprintf(offers->reason, sizeof offers->reason, "%s", reason);
  print(e, "no hosts are offered for now (--manager-hosts): %s", reason);
}

/* A name becomes an argument of ssh. */
static bool is_name(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return *name != '-' && strspn(name, allowed) == strlen(name);
}

static void take_line(struct by_elastic *e, const char *line, size_t length) {
  struct by_cluster_message message;
  if (by_cluster_message_read(line, length, &message) != BANYAN_OK) {
    note_failure(e, banyan_error_text());
    return;
  }
  if (message.type == BY_MESSAGE_OFFERED) {
    e->offers->reason[0] = '\0';
    for (uint32_t i = 0; i < message.n_hosts; i++)
      if (is_name(message.hosts[i])) take_offer(e, message.hosts[i]);
  } else if (message.type == BY_MESSAGE_REFUSED)
    note_failure(e, message.why);
  by_cluster_message_fini(&message);
}

static void receive_offers(struct by_elastic *e) {
  struct host_offers *offers = e->offers;
  ssize_t n = 1;
  while (offers->fd >= 0 && n > 0) {
    n = recv(offers->fd, offers->received + offers->length, MAX_ANSWER - offers->length, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) offers->length += (size_t)n;
    for (char *end; offers->fd >= 0 && (end = memchr(offers->received, '\n', offers->length));) {
      size_t length = (size_t)(end - offers->received);
      take_line(e, offers->received, length);
      if (offers->fd < 0) return;
      offers->length -= length + 1;
      memmove(offers->received, end + 1, offers->length);
    }
    if (n <= 0 || offers->length == MAX_ANSWER) note_failure(e, "the agent of this host has closed the connection");
  }
}

static void request_hosts(struct by_elastic *e, uint32_t wanted) {
  struct host_offers *offers = e->offers;
  if (offers->fd < 0 && by_path_socket_connect(e->options->agent, "agent", &offers->fd) != BANYAN_OK) {
    note_failure(e, banyan_error_text());
    return;
  }
  struct by_text line =
      by_cluster_message_line(&(struct by_cluster_message){.type = BY_MESSAGE_WANTED, .count = wanted});
  by_text_add(&line, "\n");
  if (line.failed ||
      send(offers->fd, by_text_get(&line), line.length, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)line.length)
    note_failure(e, "the agent of this host takes no requests");
  by_text_fini(&line);
}

/* Receives offers, and requests hosts if more processes are useful. It never blocks: while agent or manager are away,
 * no host is offered. */
static void look_at_offers(struct by_elastic *e) {
  int capacity = e->options->max - by_supervisor_active(e->supervisor), slots = e->options->offered_slots;
  bool grows = capacity > 0 && !e->refills && !e->leaving && by_supervisor_goes_on(e->supervisor);
  receive_offers(e);
  if (!grows || current_time() < e->offers->ask_at) return;
  e->offers->ask_at = current_time() + request_pause;
  request_hosts(e, MIN((uint32_t)((capacity + slots - 1) / slots), (uint32_t)BY_CLUSTER_OFFER));
}

/* ---- the whole job */

struct by_elastic *by_elastic_create(const char *title, const struct by_elastic_options *options,
                                     const struct by_launch_hosts *hosts, const char *key,
                                     const struct by_elastic_events *events) {
  struct by_elastic *e = by_cli_zeroed(1, sizeof *e);
  const struct by_supervisor_options supervised = {.title = title,
                                                   .min = options->min,
                                                   .restarts = options->restarts,
                                                   .min_timeout = by_clock_from_seconds(options->min_timeout),
                                                   .formation = by_clock_from_seconds(options->start),
                                                   .may_grow = options->hostfile || options->offered_slots};
  const struct by_supervisor_events asked = {e, start_again, send_message, print_line, end_job};
  struct by_job_keys keys;
  e->title = title;
  e->options = options;
  e->events = *events;
  e->supervisor = by_supervisor_create(&supervised, &asked, current_time());
  by_hosts_init(&e->offered);
  if (options->offered_slots) {
    e->offers = by_cli_zeroed(1, sizeof *e->offers);
    *e->offers = (struct host_offers){.fd = -1, .received = by_cli_zeroed(1, MAX_ANSWER)};
  }
  e->look_at = options->hostfile || e->offers ? current_time() + check_interval : UINT64_MAX;
  if (options->hostfile) e->seen = e->applied = state_of(options->hostfile);
  if (by_job_keys_derive(key, NULL, &keys) == BANYAN_OK) e->key = keys.job;
  explicit_bzero(&keys, sizeof keys);
  if (!read_hosts(e)) { /* It could be read a moment ago. */
    e->hosts = by_cli_zeroed(1, sizeof *e->hosts);
    by_hosts_init(&e->hosts->hosts);
  }
  for (size_t i = 0; i < hosts->count; i++)
    for (int k = 0; k < hosts->items[i].ranks; k++) add_process(e, hosts->items[i].name, k);
  return e;
}

void by_elastic_destroy(struct by_elastic *e) {
  if (!e) return;
  by_supervisor_destroy(e->supervisor);
  for (struct generation *g = e->hosts, *before; g; g = before) {
    before = g->before;
    by_hosts_fini(&g->hosts);
    free(g);
  }
  destroy_offers(e->offers);
  by_hosts_fini(&e->offered);
  for (size_t i = 0; i < e->n_avoided; i++) free(e->avoided[i].name);
  free(e->avoided);
  free(e->local);
  explicit_bzero(&e->key, sizeof e->key);
  free(e);
}

/* ---- events */

void by_elastic_ended(struct by_elastic *e, int process, int status) {
  e->refills = true; /* If it has left, another host may have a free slot. */
  by_supervisor_ended(e->supervisor, process, status, current_time());
}

void by_elastic_lost(struct by_elastic *e, int process) {
  lose_host(e, by_supervisor_host(e->supervisor, process));
  e->refills = true;
  by_supervisor_lost(e->supervisor, process, current_time());
}

/* Only processes with the job's key can make a handle: others would prevent a membership. */
static bool is_handle(struct by_elastic *e, const char *text) {
  struct by_arena arena;
  struct by_handle handle;
  by_arena_init(&arena);
  bool good = by_handle_parse(&e->key, text, &arena, &handle) == BANYAN_OK;
  by_arena_fini(&arena);
  return good;
}

void by_elastic_received(struct by_elastic *e, int process, const void *bytes, size_t length) {
  struct by_directory_message message;
  if (by_directory_read(bytes, length, true, &message)) return;
  if (message.type == BY_DIRECTORY_REGISTER && !is_handle(e, message.text))
    by_supervisor_refuse(e->supervisor, process, banyan_error_text());
  else
    by_supervisor_received(e->supervisor, process, &message, current_time());
}

bool by_elastic_needs(const struct by_elastic *e, int first, int n) {
  for (int i = first; i < first + n; i++)
    if (by_supervisor_may_run(e->supervisor, i)) return true;
  return false;
}

void by_elastic_leave(struct by_elastic *e, int first, int n, const char *why) {
  int asked = 0;
  const char *host = by_supervisor_host(e->supervisor, first);
  struct avoided *left = avoid_host(e, host);
  left->pause = 0; /* It was not lost, so an offer does not mean that it has come back. */
  left->until = UINT64_MAX;
  for (int i = first; i < first + n; i++) asked += by_supervisor_leave(e->supervisor, i, why);
  if (asked) print(e, "host %s: %s: %d process%s asked to leave", host, why, asked, asked == 1 ? " is" : "es are");
  e->refills = true;
}

void by_elastic_leave_all(struct by_elastic *e, const char *why) {
  int asked = 0;
  e->leaving = true;
  for (int i = 0; i < by_supervisor_count(e->supervisor); i++) asked += by_supervisor_leave(e->supervisor, i, why);
  if (asked) print(e, "%s: all processes, %d, are asked to leave", why, asked);
}

uint64_t by_elastic_tick(struct by_elastic *e) {
  bool looks = current_time() >= e->look_at;
  if (looks) e->look_at = current_time() + check_interval;
  if (looks && e->options->hostfile) check_host_file(e);
  see_to_avoided(e);
  if (e->refills) fill_slots(e);
  if (looks && e->offers) look_at_offers(e);
  if (e->refills) fill_slots(e);
  by_supervisor_tick(e->supervisor, current_time());
  return MIN(by_supervisor_next(e->supervisor), e->look_at);
}

bool by_elastic_waits(const struct by_elastic *e) {
  return by_supervisor_waits(e->supervisor);
}

int by_elastic_exit_code(const struct by_elastic *e) {
  return by_supervisor_exit_code(e->supervisor);
}
