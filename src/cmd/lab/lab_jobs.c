/* Parses the jobs of a lab, places them on its hosts, and runs them. */
#include "lab_services.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "output.h"
#include "plan.h"
#include "plan_topology.h"
#include "process.h"
#include "switched_tree.h"
#include "text.h"

enum { EXIT_TIMEOUT = 124, MAX_PER_HOST = 1024 };

struct job {
  struct by_lab_jobs *jobs;
  const char *name;   /* NULL: it is the only job. */
  double from, until; /* Seconds after the start of the jobs; `until` 0: without limit. */
  const char *wanted; /* Names of its hosts; NULL: all that take part. */
  const char *plan;   /* A name, a file or "default"; NULL: none. */
  bool given;         /* The user set the plan for this job. */
  long per_host;
  char **command;
  char *shell[4];       /* A command given as a text: a shell's arguments, and NULL. */
  char *text;           /* Memory of the texts above. */
  struct by_plan *read; /* The parsed `plan`; NULL: none. */
  struct by_launch_hosts hosts;
  uint32_t *nodes; /* Node of each host with ranks, helpers or servers. */
  char **labels;   /* For each rank, helper and server. */
  int ranks, beside;
  char path[BY_LAB_PATH]; /* File of a plan that was made here. */
  /* ---- The members that follow are for a running job. */
  pid_t pid;   /* 0: not yet started, or ended. */
  bool ending; /* It was told to end, at the latest at `last`. */
  bool ended;
  uint64_t last;
};

struct by_lab_jobs {
  const struct by_lab_jobs_options *options;
  const struct by_lab_options *built; /* How the topology is built. */
  struct by_topology *topology;
  const struct by_lab_folder *folder;
  const struct by_lab *lab; /* Set while they run. */
  const struct by_lab_services *services;
  char topology_path[BY_LAB_PATH]; /* Topology from which ranks plan; "": none. */
  char self[BY_PROGRAM_PATH];
  struct job *items;
  int n;
};

/* ---- a job as text */

static enum banyan_status bad_job(const char *text, const char *why) {
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "--job \"%.64s\": %s; it is \"NAME [from=TIME] [until=TIME] [hosts=HOST,...] [ranks=N] [plan=PLAN]: "
                 "COMMAND\"",
                 text, why);
}

static enum banyan_status parse_word(struct job *job, const char *text, char *word) {
  char *value = strchr(word, '=');
  if (!value) return bad_job(text, "the name is one word");
  *value++ = '\0';
  if (!strcmp(word, "from")) return by_parse_seconds(value, &job->from);
  if (!strcmp(word, "until")) return by_parse_seconds(value, &job->until);
  if (!strcmp(word, "ranks")) return by_parse_int("ranks", value, 1, MAX_PER_HOST, &job->per_host);
  if (!strcmp(word, "hosts"))
    job->wanted = value;
  else if (!strcmp(word, "plan"))
    job->plan = value;
  else
    return bad_job(text, "it has an unknown setting");
  return BANYAN_OK;
}

/* Parses "a from=2s hosts=h0,h1: banyan bench". */
static enum banyan_status parse_job(struct job *job, const char *text) {
  char *copy = job->text = by_cli_print("%s", text), *save, *colon = strstr(copy, ": ");
  if (!colon || !colon[2 + strspn(colon + 2, " \t\n")]) return bad_job(text, "it has no command");
  *colon = '\0';
  job->name = strtok_r(copy, " \t\n", &save);
  if (!job->name || job->name[strspn(job->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
    return bad_job(text, "it needs a name of letters, digits, '-', '_' and '.'");
  for (char *word; (word = strtok_r(NULL, " \t\n", &save));) {
    enum banyan_status status = parse_word(job, text, word);
    if (status) return by_fail_within(status, "--job \"%s\"", job->name);
  }
  if (job->until && job->until <= job->from) return bad_job(text, "it ends before it begins");
  job->given = job->plan != NULL;
  job->shell[2] = colon + 2;
  return BANYAN_OK;
}

/* ---- plans */

/* Makes the plan of a job without one: the placement of sums on switches, if requested. */
static enum banyan_status place_sums(struct job *job) {
  const struct by_lab_jobs *jobs = job->jobs;
  const struct by_in_network_request request = {
      .ranks = job->wanted, .servers = jobs->options->servers, .max_adding = -1};
  struct by_text text = {0};
  char name[BY_TOPOLOGY_MAX_NAME + 8];
  snprintf(name, sizeof name, job->name ? "%s.plan" : "plan", job->name);
  enum banyan_status status = by_plan_in_network(&request, "lab", jobs->topology, NULL, false, &job->read);
  if (status == BANYAN_OK) by_plan_print(job->read, &text);
  if (status == BANYAN_OK) status = by_lab_folder_write(jobs->folder, name, &text);
  job->plan = by_lab_folder_path(jobs->folder, name, job->path);
  by_text_fini(&text);
  return status;
}

static bool is_by_size(const struct job *job) {
  return job->plan && !strcmp(job->plan, "default");
}

static enum banyan_status find_plan(struct job *job, uint32_t ranks) {
  const struct by_lab_jobs_options *options = job->jobs->options;
  if (!job->plan) job->plan = options->plan;
  if (is_by_size(job)) return BANYAN_OK;
  if (job->plan && *job->plan) return by_plan_named(job->plan, ranks, &job->read);
  return options->placed ? place_sums(job) : BANYAN_OK;
}

/* Writes the topology from which ranks without a plan make one. */
static enum banyan_status write_topology(struct by_lab_jobs *jobs) {
  struct by_text text = {0};
  bool needed = false;
  for (int i = 0; i < jobs->n; i++) needed |= !jobs->items[i].plan || !*jobs->items[i].plan;
  if (!needed || jobs->options->managed) return BANYAN_OK;
  enum banyan_status status = by_lab_print_topology(jobs->topology, jobs->built, &text);
  if (status == BANYAN_OK) status = by_lab_folder_write(jobs->folder, "topology", &text);
  if (status == BANYAN_OK) by_lab_folder_path(jobs->folder, "topology", jobs->topology_path);
  by_text_fini(&text);
  return status;
}

/* ---- spaces of ranks */

static enum banyan_status enter_space(void *context, const struct by_launch_host *host) {
  const struct job *job = context;
  const struct by_lab_jobs *jobs = job->jobs;
  uint32_t node = job->nodes[host - job->hosts.items];
  /* Without an agent, the hosts' /run is this machine's. */
  return jobs->options->managed ? by_lab_services_enter(jobs->services, node) : by_lab_enter(jobs->lab, node);
}

/* Returns "a h0" for a rank of job a. */
static char *make_label(const struct job *job, const char *what) {
  return job->name ? by_cli_print("%s %s", job->name, what) : by_cli_print("%s", what);
}

/* Tells whether a rank of the job runs there. */
static bool has_rank(const struct job *job, uint32_t node) {
  for (size_t i = 0; i < job->hosts.count; i++)
    if (job->nodes[i] == node && !job->hosts.items[i].beside) return true;
  return false;
}

static enum banyan_status add_ranks(struct job *job, uint32_t node) {
  const char *name = job->jobs->topology->nodes[node].name;
  char text[BY_TOPOLOGY_MAX_NAME + 24];
  if (job->jobs->topology->nodes[node].kind != BY_NODE_HOST)
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is not a host of the topology", name);
  if (has_rank(job, node))
    return by_fail(BANYAN_ERR_ARGUMENT, "host \"%s\" is given twice; ranks=N starts several ranks on each host", name);
  job->nodes[job->hosts.count] = node;
  for (long i = 0; i < job->per_host; i++) {
    snprintf(text, sizeof text, job->per_host == 1 ? "%s" : "%s:%ld", name, i);
    job->labels[job->ranks++] = make_label(job, text);
  }
  return by_hosts_add_place(&job->hosts, name, (int)job->per_host, enter_space, job);
}

static enum banyan_status place_ranks(struct job *job) {
  const struct by_topology *t = job->jobs->topology;
  uint32_t *hosts = NULL, n = 0;
  enum banyan_status status = by_plan_find_nodes(t, "job", job->wanted, &hosts, &n);
  if (status == BANYAN_OK && (double)n * (double)job->per_host > BY_MAX_RANKS)
    status = by_fail(BANYAN_ERR_ARGUMENT, "a job has at most %d ranks", BY_MAX_RANKS);
  if (status == BANYAN_OK) status = find_plan(job, n * (uint32_t)job->per_host);
  if (status == BANYAN_OK) {
    size_t others = job->read ? job->read->n_vertices - job->read->n_ranks : 0;
    job->nodes = by_cli_alloc(NULL, (n + others + 1) * sizeof *job->nodes);
    job->labels = by_cli_alloc(NULL, ((size_t)n * (size_t)job->per_host + others + 1) * sizeof *job->labels);
  }
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) status = add_ranks(job, hosts[i]);
  free(hosts);
  return status ? status : by_hosts_place(&job->hosts, job->ranks);
}

/* Adds a helper, or a server, of the plan on host `name`. A host serves all its trees with one process. */
static enum banyan_status add_beside(struct job *job, struct by_launch_hosts *list, enum by_beside beside,
                                     const char *name) {
  const struct by_topology *t = job->jobs->topology;
  uint32_t node = by_topology_find(t, name);
  char text[BY_TOPOLOGY_MAX_NAME + 24];
  const char *what = by_beside_name(beside);
  if (node == UINT32_MAX || t->nodes[node].kind != BY_NODE_HOST)
    return by_fail(BANYAN_ERR_PLAN, "%s \"%s\" of plan '%s' is not a host of the topology", what, name,
                   job->read->name);
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i].name, name) != 0) continue;
    list->items[i].slots++;
    return BANYAN_OK;
  }
  job->nodes[job->hosts.count + list->count] = node;
  snprintf(text, sizeof text, has_rank(job, node) ? "%s/%s" : "%s", name, what);
  job->labels[job->ranks + job->beside++] = make_label(job, text);
  return by_hosts_add_place(list, name, 1, enter_space, job);
}

/* Adds one helper for each helper host of the plan, and one server for all trees of a host. */
static enum banyan_status place_beside(struct job *job, enum by_vertex_kind kind, enum by_beside beside) {
  struct by_launch_hosts list;
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  int first = job->ranks + job->beside;
  by_hosts_init(&list);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = job->read->n_ranks; v < job->read->n_vertices && status == BANYAN_OK; v++) {
    const struct by_vertex *vertex = &job->read->vertices[v];
    if (vertex->kind != kind) continue;
    size_t length = kind == BY_VERTEX_SERVER ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
    snprintf(name, sizeof name, "%.*s", (int)length, vertex->name);
    status = add_beside(job, &list, beside, name);
  }
  if (status == BANYAN_OK) status = by_hosts_add_beside(&job->hosts, &list, beside, first);
  by_hosts_fini(&list);
  return status;
}

static enum banyan_status place_job(struct job *job) {
  BY_TRY(place_ranks(job));
  if (job->read) BY_TRY(place_beside(job, BY_VERTEX_HELPER, BY_HELPERS));
  return job->read ? place_beside(job, BY_VERTEX_SERVER, BY_SERVERS) : BANYAN_OK;
}

/* ---- running */

static enum banyan_status fill_environment(const struct job *job, struct by_job_environment *out) {
  const struct by_lab_jobs *jobs = job->jobs;
  const char *given = getenv("BANYAN_TOPOLOGY"), *path = getenv("PATH");
  char text[BY_LAB_PATH];
  BY_TRY(by_job_environment_init(out));
  if (jobs->options->managed) { /* This machine's variables do not apply to the lab. */
    by_job_environment_set(out, "BANYAN_AGENT", "");
    by_job_environment_set(out, "BANYAN_MANAGER", "");
  }
  /* Set before the user's variables: the last value counts, and a plan takes precedence over a topology. */
  if (!given || !*given) by_job_environment_set(out, "BANYAN_TOPOLOGY", jobs->topology_path);
  /* All labs have the same addresses, so measurements of one are invalid for others. */
  by_job_environment_set(out, "BANYAN_CACHE", by_lab_folder_path(jobs->folder, "cache", text));
  /* Each rank assumes that it has a core, though there are fewer: one that spins would block others. */
  if (!getenv("BANYAN_ENGINE") && (jobs->n > 1 || job->ranks > sysconf(_SC_NPROCESSORS_ONLN)))
    by_job_environment_set(out, "BANYAN_ENGINE", "spin=0");
  if (job->ranks > 1 && !getenv("OMP_NUM_THREADS")) /* All hosts of a lab share this machine's cores. */
    by_job_environment_set(out, "OMP_NUM_THREADS", "1");
  if (job->name) {
    by_job_environment_set(out, "BANYAN_JOB", job->name);
    char *search = by_cli_print("%s:%s", by_lab_folder_path(jobs->folder, "bin", text), path ? path : "");
    by_job_environment_set(out, "PATH", search);
    free(search);
  }
  for (int i = 0; i < jobs->options->environment.count; i++)
    BY_TRY(by_job_environment_add(out, jobs->options->environment.items[i]));
  if (is_by_size(job)) by_job_environment_set(out, "BANYAN_TOPOLOGY", "off");
  by_job_environment_set(out, "BANYAN_PLAN", is_by_size(job) ? "" : job->plan);
  return BANYAN_OK;
}

static enum banyan_status launch_job(const struct job *job, int *exit_code) {
  const struct by_lab_jobs_options *options = job->jobs->options;
  struct by_launch launched = options->usual;
  char title[BY_LAB_PATH];
  struct by_job_environment environment;
  enum banyan_status status = fill_environment(job, &environment);
  launched.hosts = &job->hosts;
  launched.ranks = job->ranks;
  launched.beside = job->beside;
  launched.command = job->command;
  launched.environment = environment.items;
  launched.key_file = environment.key_file;
  launched.output = by_output_choose(options->output, job->command, options->json ? BY_OUTPUT_ERROR : BY_OUTPUT_PREFIX);
  launched.labels = (const char *const *)job->labels;
  launched.interface = job->jobs->built->ipv6 ? BY_LAB_SUBNET6 : BY_LAB_SUBNET;
  if (job->name) {
    snprintf(title, sizeof title, "%s: job %.128s", launched.title, job->name);
    launched.title = title;
    launched.timeout = 0; /* The limit applies to all jobs together. */
  }
  if (!status) *exit_code = by_launch(&launched);
  by_job_environment_fini(&environment);
  return status;
}

/* Each of several jobs has a launcher: a process that ends with this one, and the job's ranks with it. */
static enum banyan_status start_job(struct job *job) {
  int exit_code = 1;
  pid_t parent = getpid();
  fflush(NULL);
  job->pid = fork();
  if (job->pid < 0) {
    job->pid = 0;
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot start job %s", job->name);
  }
  if (job->pid) return BANYAN_OK;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (launch_job(job, &exit_code))
    fprintf(stderr, "%s: job %s: %s\n", job->jobs->options->usual.title, job->name, banyan_error_text());
  _exit(exit_code);
}

struct round {
  struct by_lab_jobs *jobs;
  uint64_t start, end; /* Times of all jobs; `end` UINT64_MAX: none. */
  int signals, exit_code;
  bool over; /* No more jobs are started. */
};

static uint64_t nanoseconds_of(uint64_t time, double seconds) {
  return time + by_clock_from_seconds(seconds);
}

static void end_job(struct job *job, int signal_number) {
  if (!job->pid) return;
  kill(job->pid, job->ending ? SIGKILL : signal_number);
  job->ending = true;
  job->last = nanoseconds_of(by_clock_now(&by_clock_system), job->jobs->options->usual.grace + 1);
}

static void end_all(struct round *round, int signal_number, int exit_code) {
  if (!round->exit_code) round->exit_code = exit_code;
  round->over = true;
  for (int i = 0; i < round->jobs->n; i++) end_job(&round->jobs->items[i], signal_number);
}

static void reap_children(struct round *round) {
  int status;
  for (int i = 0; i < round->jobs->n; i++) {
    struct job *job = &round->jobs->items[i];
    if (!job->pid || waitpid(job->pid, &status, WNOHANG) != job->pid) continue;
    job->pid = 0;
    job->ended = true;
    if (status && !job->ending && !round->exit_code) round->exit_code = by_wait_exit_code(status);
  }
}

static void start_or_end(struct round *round, struct job *job) {
  if (start_job(job) == BANYAN_OK) return;
  fprintf(stderr, "%s: %s\n", round->jobs->options->usual.title, banyan_error_text());
  end_all(round, SIGTERM, 1);
}

/* Starts and ends jobs that are due, and returns when it is to be called again; UINT64_MAX: never, 0: everything has
 * ended. */
static uint64_t pass_time(struct round *round) {
  uint64_t now = by_clock_now(&by_clock_system), next = round->over ? UINT64_MAX : round->end;
  bool left = false;
  if (now >= round->end && !round->over) {
    fprintf(stderr, "%s: not done after %g s (--timeout): ending all jobs\n", round->jobs->options->usual.title,
            round->jobs->options->usual.timeout);
    end_all(round, SIGTERM, EXIT_TIMEOUT);
  }
  for (int i = 0; i < round->jobs->n; i++) {
    struct job *job = &round->jobs->items[i];
    uint64_t from = nanoseconds_of(round->start, job->from),
             until = job->until ? nanoseconds_of(round->start, job->until) : UINT64_MAX;
    if (!job->pid && !job->ended && !round->over && now >= from) start_or_end(round, job);
    if (job->pid && now >= (job->ending ? job->last : until)) end_job(job, SIGTERM);
    if (job->pid)
      next = MIN(next, job->ending ? job->last : until);
    else if (!job->ended && !round->over)
      next = MIN(next, from);
    left |= job->pid || (!job->ended && !round->over);
  }
  return left ? next : 0;
}

/* The terminal has sent its signals to the launchers, too. */
static void forward_signals(struct round *round) {
  struct signalfd_siginfo info;
  while (read(round->signals, &info, sizeof info) == sizeof info) {
    int number = (int)info.ssi_signo;
    if (number == SIGCHLD)
      reap_children(round);
    else if (info.ssi_code == SI_KERNEL)
      round->over = true;
    else
      end_all(round, number, 128 + number);
  }
}

static int run_all(struct by_lab_jobs *jobs) {
  struct round round = {.jobs = jobs, .start = by_clock_now(&by_clock_system), .end = UINT64_MAX};
  double timeout = jobs->options->usual.timeout;
  if (timeout > 0) round.end = nanoseconds_of(round.start, timeout);
  round.signals = by_signal_descriptor((const int[]){SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0});
  for (uint64_t next; (next = pass_time(&round));) {
    struct pollfd wait = {.fd = round.signals, .events = POLLIN};
    uint64_t now = by_clock_now(&by_clock_system);
    poll(&wait, 1, next == UINT64_MAX ? -1 : next <= now ? 0 : (int)MIN((next - now) / BY_MILLISECOND + 1, 3600000));
    forward_signals(&round);
  }
  close(round.signals);
  return round.exit_code;
}

enum banyan_status by_lab_jobs_run(struct by_lab_jobs *jobs, const struct by_lab *lab,
                                   const struct by_lab_services *services, int *exit_code) {
  char path[BY_LAB_PATH];
  jobs->lab = lab;
  jobs->services = services;
  if (!jobs->items->name) return launch_job(jobs->items, exit_code);
  by_lab_folder_path(jobs->folder, "bin", path);
  if (mkdir(path, 0755) || symlink(jobs->self, by_lab_folder_path(jobs->folder, "bin/banyan", path)))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make %s", path);
  *exit_code = run_all(jobs);
  return BANYAN_OK;
}

/* ---- create and destroy */

static enum banyan_status check_names(const struct by_lab_jobs *jobs) {
  for (int i = 0; i < jobs->n; i++)
    for (int k = 0; k < i; k++)
      if (!strcmp(jobs->items[i].name, jobs->items[k].name))
        return by_fail(BANYAN_ERR_ARGUMENT, "--job: two jobs are called \"%s\"", jobs->items[i].name);
  return BANYAN_OK;
}

static enum banyan_status fill_jobs(struct by_lab_jobs *jobs) {
  static char sh[] = "sh", dash_c[] = "-c";
  const struct by_lab_jobs_options *options = jobs->options;
  for (int i = 0; i < jobs->n; i++) {
    struct job *job = &jobs->items[i];
    *job = (struct job){.jobs = jobs, .per_host = options->per_host, .shell = {sh, dash_c}};
    by_hosts_init(&job->hosts);
  }
  for (int i = 0; i < options->jobs->count; i++) BY_TRY(parse_job(&jobs->items[i], options->jobs->items[i]));
  BY_TRY(options->jobs->count ? check_names(jobs) : BANYAN_OK);
  for (int i = 0; i < jobs->n; i++) {
    struct job *job = &jobs->items[i];
    job->command = job->name ? job->shell : options->command;
    if (!job->name && job->command[0] && !strcmp(job->command[0], "banyan")) job->command[0] = jobs->self;
    enum banyan_status status = place_job(job);
    if (status) return job->name ? by_fail_within(status, "job %s", job->name) : status;
  }
  return write_topology(jobs);
}

enum banyan_status by_lab_jobs_create(const struct by_lab_jobs_options *options, const struct by_lab_options *built,
                                      struct by_topology *topology, const struct by_lab_folder *folder,
                                      struct by_lab_jobs **out) {
  struct by_lab_jobs *jobs = *out = by_cli_zeroed(1, sizeof *jobs);
  *jobs = (struct by_lab_jobs){
      .options = options, .built = built, .topology = topology, .folder = folder, .n = MAX(options->jobs->count, 1)};
  jobs->items = by_cli_zeroed((size_t)jobs->n, sizeof *jobs->items);
  if (!by_program_path(jobs->self)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot find this program's file");
  return fill_jobs(jobs);
}

bool by_lab_jobs_have_plans(const struct by_lab_jobs *jobs) {
  bool some = false;
  for (int i = 0; i < jobs->n; i++) some |= jobs->items[i].plan && *jobs->items[i].plan;
  return some;
}

void by_lab_jobs_destroy(struct by_lab_jobs *jobs) {
  for (int i = 0; jobs && i < jobs->n; i++) {
    struct job *job = &jobs->items[i];
    for (int k = 0; k < job->ranks + job->beside; k++) free(job->labels[k]);
    free(job->labels);
    free(job->nodes);
    by_hosts_fini(&job->hosts);
    by_plan_destroy(job->read);
    free(job->text);
  }
  if (jobs) free(jobs->items);
  free(jobs);
}
