/* flood rank KIND SECONDS: what all ranks of a job run, of which the last one sends the others as much as it can, while
 * all of them sum.
 * flood helper KIND SECONDS: the same by a helper of a job, which BANYAN_ROOT and BANYAN_KEY_FILE name.
 * flood lines ADDRESS[=CERTIFICATE] SECONDS FILE...: as a client of an agent, a manager or a switch, sends the indented
 * lines of the files, with the names of other jobs, and garbage. ADDRESS: of a local socket, or host and port.
 *
 * KIND: "control" (messages of all types for rank 0), "names" (new operations), "garbage" (for a communicator that is
 * there), "unmade" (messages for communicators that are not), "none". It prints how much it has sent, and exits with 0;
 * with 3 where the job has ended, whose reason it prints. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "address.h"
#include "attack.h"
#include "comm.h"
#include "control_object.h"
#include "controller.h"
#include "follow.h"
#include "job_state.h"
#include "negotiation_message.h"
#include "plan_switch_message.h"
#include "submitter.h"

enum { BURST = 64, ROOM = 1 << 16, LINES = 256, LONG_LINE = 2 << 20 };

static struct by_rng rng;
static _Atomic uint64_t until; /* The flooding thread reads it. */
static atomic_ullong sent, bytes_sent;

/* From now on it floods. */
static void begin(void) {
  until = by_clock_now(&by_clock_system) + by_clock_from_seconds(atof(getenv("FLOOD_SECONDS")));
  fprintf(stderr, "flood begins\n");
}

static bool is_over(void) {
  return by_clock_now(&by_clock_system) > until;
}

static void count(size_t n) {
  atomic_fetch_add(&sent, 1);
  atomic_fetch_add(&bytes_sent, n);
}

static size_t fill(uint8_t *bytes, size_t most) {
  size_t n = 1 + (size_t)by_rng_below(&rng, most);
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)by_rng_below(&rng, 256);
  return n;
}

/* ---- over the control connection, on the loop's thread */

struct control_flood {
  struct by_job *job;
  struct by_timer timer;
};

/* A request for the plan of a communicator of this rank and others. */
static size_t write_want(const struct by_job *job, uint8_t *bytes) {
  uint8_t processes[4 * 64];
  struct by_writer writer, list;
  uint32_t others = (uint32_t)by_rng_below(&rng, 1u << (job->size < 16 ? job->size : 16));
  by_writer_init(&list, processes, sizeof processes);
  by_write_u32(&list, job->rank);
  for (uint32_t p = 0; p < job->size && p < 63; p++)
    if (p != job->rank && others >> p % 16 & 1) by_write_u32(&list, p);
  by_writer_init(&writer, bytes, ROOM);
  by_plan_switch_message_write(&writer, &(struct by_plan_switch_message){.kind = BY_PLAN_SWITCH_WANTED,
                                                                         .comm = (uint32_t)by_rng_next(&rng),
                                                                         .processes = processes,
                                                                         .n_processes = list.length / 4,
                                                                         .text = ""});
  return writer.length;
}

/* Messages of all types but those that end this process or another one. */
static void send_control(void *argument) {
  static uint8_t bytes[ROOM];
  struct control_flood *flood = argument;
  const struct by_job *job = flood->job;
  const struct by_control_peer *root = by_control_peers_root(&flood->job->control->peers);
  for (int i = 0; root && i < BURST; i++) {
    uint32_t type = (uint32_t)by_rng_below(&rng, FOLLOW + 4);
    size_t n = type == PLAN_SWITCH && by_rng_below(&rng, 2) ? write_want(job, bytes) : fill(bytes, 300);
    if (type == FAILED || type == SUSPECT || type == LEAVING || type == STATEMENT) continue;
    if (by_control_peer_try_send(root, (enum message)type, bytes, n) == BANYAN_OK) count(n);
  }
  if (!is_over()) by_loop_set_delay(job->loop, &flood->timer, BY_MILLISECOND);
}

/* ---- over links, under the context's lock */

/* Of a communicator that is there: new names of operations, or what is malformed. */
static size_t write_negotiation(uint8_t *bytes) {
  struct by_writer writer;
  struct by_operation operation = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .count = 1};
  char name[32];
  by_writer_init(&writer, bytes, ROOM);
  by_write_u8(&writer, by_rng_below(&rng, 8) ? BY_NEGOTIATION_UP : BY_NEGOTIATION_DOWN);
  by_write_u64(&writer, by_rng_below(&rng, 4));
  by_write_u8(&writer, 0);
  by_write_u32(&writer, 0);
  by_write_u32(&writer, 16);
  for (int i = 0; i < 16; i++) {
    snprintf(name, sizeof name, "%016llx", (unsigned long long)by_rng_next(&rng));
    by_write_u32(&writer, 0);
    by_write_subject(&writer, name, &operation);
  }
  for (int i = 0; i < 3; i++) by_write_u32(&writer, 0);
  return writer.length;
}

static bool send_message(struct by_job *job, const char *kind) {
  static uint8_t bytes[ROOM];
  uint32_t team = (uint32_t)by_rng_next(&rng), to = (uint32_t)by_rng_below(&rng, job->size);
  bool names = !strcmp(kind, "names"), garbage = !strcmp(kind, "garbage");
  if (to == job->rank) return true;
  if (names || garbage) team = by_comm_number(0, BY_OF_NO_SPLIT, BY_OF_SUBMITTED);
  size_t n = names ? write_negotiation(bytes) : garbage ? fill(bytes, 64) : fill(bytes, ROOM);
  if (by_engine_write(job->engine, to, team, bytes, n) != BANYAN_OK) return false;
  count(n);
  return true;
}

/* Returns whether the job goes on; otherwise `why` is the reason. */
static bool job_goes_on(struct by_job *job, char *why, size_t room) {
  by_job_lock(job);
  bool failed = by_engine_status(job->engine) != BANYAN_OK;
  if (failed) snprintf(why, room, "%s", by_engine_get_state(job->engine)->error);
  by_job_unlock(job);
  return !failed;
}

static void flood_job(struct by_job *job, const char *kind) {
  char why[1024];
  static struct control_flood flood;
  if (!strcmp(kind, "control")) {
    flood.job = job;
    by_timer_init(&flood.timer, send_control, &flood);
    if (by_loop_post(job->loop, send_control, &flood) != BANYAN_OK) exit(2);
  }
  while (!is_over() && job_goes_on(job, why, sizeof why)) {
    by_job_lock(job);
    bool takes = strcmp(kind, "control") != 0;
    for (int i = 0; takes && i < BURST; i++) takes = send_message(job, kind);
    by_progress_kick(job);
    by_job_unlock(job);
    usleep(takes ? 50 : 1000);
  }
}

static void *flood_as_rank(void *argument) {
  struct banyan_comm **comm = argument;
  flood_job((*comm)->job, getenv("FLOOD_KIND"));
  return NULL;
}

static int report(const char *why) {
  printf("%llu messages, %llu bytes\n", atomic_load(&sent), atomic_load(&bytes_sent));
  if (why)
    fprintf(stderr, "flood: ended after %.1f s: %s\n",
            atof(getenv("FLOOD_SECONDS")) - by_clock_to_seconds(until - by_clock_now(&by_clock_system)), why);
  return why ? 3 : 0;
}

static int run_rank(void) {
  struct banyan_comm *comm;
  pthread_t thread;
  if (banyan_comm_create(NULL, &comm) != BANYAN_OK) return report(banyan_error_text());
  bool floods = banyan_comm_rank(comm) == banyan_comm_size(comm) - 1 && strcmp(getenv("FLOOD_KIND"), "none") != 0;
  begin();
  if (floods && pthread_create(&thread, NULL, flood_as_rank, &comm)) return 2;
  enum banyan_status status = BANYAN_OK;
  for (int32_t over = 0; !over && status == BANYAN_OK; usleep(20000)) {
    float value = 1;
    struct banyan_request *request;
    status = banyan_submit_allreduce(comm, "sum", &value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM, &request);
    if (status == BANYAN_OK) status = banyan_wait(request);
    over = is_over();
    if (status == BANYAN_OK) status = banyan_broadcast(comm, &over, 1, BANYAN_INT32, 0);
  }
  char text[1024];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  if (status == BANYAN_OK) until = 0;
  if (floods) pthread_join(thread, NULL);
  int code = report(status == BANYAN_OK ? NULL : text);
  banyan_comm_destroy(comm);
  return code;
}

static int run_helper(void) {
  struct banyan_options options = {.host = "flood"};
  struct by_process_identity *identity;
  struct by_job *job;
  if (by_process_identity_create(&identity) != BANYAN_OK) return 2;
  struct by_follower *follower = by_follower_create(&options, identity, NULL, NULL);
  by_process_identity_destroy(identity);
  if (!follower) return 2;
  const struct by_job_role role = by_follower_role(follower);
  if (by_job_create(&options, &role, &job) != BANYAN_OK) return report(banyan_error_text());
  begin();
  flood_job(job, getenv("FLOOD_KIND"));
  char why[1024];
  int code = report(job_goes_on(job, why, sizeof why) ? NULL : why);
  (void)fflush(stdout);
  _exit(code); /* like a process that is killed */
}

/* ---- lines */

static char *lines[LINES];
static unsigned n_lines;

static void read_lines(const char *path) {
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "re");
  while (file && n_lines < LINES && getline(&line, &room, file) > 0)
    if (!strncmp(line, "  {", 3)) lines[n_lines++] = strdup(line + 2);
  free(line);
  if (file) fclose(file);
}

/* Where a line has a job's name, it gets another one. */
static void rename_job(char *line) {
  char *job = strstr(line, "0123456789abcdef0123456789abcdef");
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; job && i < 32; i++) job[i] = digits[by_rng_below(&rng, 16)];
}

struct client {
  int fd;
  SSL *ssl;
};

static bool put(const struct client *client, const char *bytes, size_t n) {
  if (client->ssl) return SSL_write(client->ssl, bytes, (int)n) > 0;
  return send(client->fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Reads nothing: what the peer answers is to wait there. */
static void send_lines(const struct client *client, const char *host) {
  char line[ROOM];
  snprintf(line, sizeof line,
           host ? "{\"type\":\"hello\",\"version\":3,\"host\":\"%s\",\"interfaces\":[],\"may_help\":true,\"age\":1}\n"
                : "{\"type\":\"hello\",\"version\":3,\"host\":\"a\",\"job\":\"0123456789abcdef0123456789abcdef\","
                  "\"rank\":0}\n",
           host);
  bool goes_on = by_rng_below(&rng, 8) ? put(client, line, strlen(line)) : true;
  while (goes_on && !is_over()) {
    snprintf(line, sizeof line, "%s", lines[by_rng_below(&rng, n_lines)]);
    if (by_rng_below(&rng, 4)) rename_job(line);
    if (!by_rng_below(&rng, 64)) line[by_rng_below(&rng, strlen(line))] = (char)by_rng_below(&rng, 256);
    size_t n = strlen(line);
    goes_on = put(client, line, n);
    if (goes_on) count(n);
  }
}

static void send_one_long(const struct client *client) {
  static char line[LONG_LINE];
  memset(line, 'x', sizeof line);
  if (put(client, line, sizeof line)) count(sizeof line);
}

static int connect_to(const char *to) {
  struct timeval limit = {.tv_sec = 1};
  struct by_address address;
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  bool is_local = to[0] == '/';
  if (!is_local && by_address_parse(to, &address) != BANYAN_OK) exit(2);
  snprintf(local.sun_path, sizeof local.sun_path, "%s", to);
  int fd = socket(is_local ? AF_UNIX : by_address_family(&address), SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const struct sockaddr *name = is_local ? (void *)&local : (void *)&address.storage;
  if (connect(fd, name, is_local ? sizeof local : address.length) == 0) return fd;
  close(fd);
  return -1;
}

static int run_lines(char *to, int n_files, char **files) {
  char *path = strchr(to, '='), host[64] = "";
  for (int i = 0; i < n_files; i++) read_lines(files[i]);
  if (path) *path++ = 0;
  if (path) sscanf(strrchr(path, '/'), "/agent-%63[^.]", host);
  SSL_CTX *context = path ? make_client("flood", path) : NULL;
  unsigned long connections = 0;
  begin();
  while (!is_over() && n_lines) {
    struct client client = {.fd = connect_to(to)};
    if (client.fd < 0) {
      usleep(20000);
      continue;
    }
    if (context) {
      client.ssl = SSL_new(context);
      SSL_set_fd(client.ssl, client.fd);
    }
    connections++;
    if (!client.ssl || SSL_connect(client.ssl) == 1) {
      if (by_rng_below(&rng, 8))
        send_lines(&client, path ? host : NULL);
      else
        send_one_long(&client);
    }
    SSL_free(client.ssl);
    close(client.fd);
  }
  SSL_CTX_free(context);
  for (unsigned i = 0; i < n_lines; i++) free(lines[i]);
  printf("%lu connections, ", connections);
  return report(NULL);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  (void)signal(SIGPIPE, SIG_IGN);
  by_crypto_init();
  bool is_lines = !strcmp(argv[1], "lines");
  by_rng_init(&rng, (uint64_t)getpid());
  setenv("FLOOD_KIND", argv[2], 1);
  setenv("FLOOD_SECONDS", argv[3], 1);
  if (is_lines) return run_lines(argv[2], argc - 4, argv + 4);
  return strcmp(argv[1], "helper") ? run_rank() : run_helper();
}
