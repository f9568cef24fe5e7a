/* `banyan run`: its options, and the environment of the ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "cluster_message.h"
#include "commands.h"
#include "elastic_job.h"
#include "launch.h"
#include "launch_link.h"
#include "output.h"
#include "process.h"
#include "rank_output.h"
#include "settings.h"
#include "socket.h"
#include "text.h"

struct run_options {
  struct by_launch job;
  long ranks;
  struct by_words hosts, environment;
  const char *hostfile, *plan, *topology, *helpers, *servers;
  bool slurm, dry;
  const char *files;       /* A pattern of file names; NULL: none. */
  int output, transport;   /* `transport` -1: not given. */
  long min, max, restarts; /* -1: not given. */
  long offered;            /* 0: not given. */
  struct by_elastic_options elastic;
};

#define VALUES struct run_options

static const struct by_option options[] = {
    BY_INT("ranks", 'n', ranks, "N", 1, BY_MAX_RANKS, "number of ranks; default: all slots of the hosts"),
    BY_WORDS("hosts", 'H', hosts, "LIST",
             "hosts and their slots, \"a:2,b:4\"; filled in this order;\nuser@name is allowed; default: this machine"),
    BY_TEXT(
        "hostfile", 'f', hostfile, "FILE",
        "the same from a file: \"name:slots\" or \"name slots=N\" a line,\nas for mpirun, or Slurm's \"node[1-3,7]\""),
    BY_FLAG("slurm", 0, slurm,
            "the nodes of this Slurm allocation, with as many slots as tasks,\nreached through srun: within sbatch or "
            "salloc"),
    BY_TEXT("helpers", 0, helpers, "LIST",
            "hosts for helpers, as for -H, or how many helpers to start\nhere; see `banyan helper`"),
    BY_TEXT("servers", 0, servers, "LIST",
            "hosts for servers of trees through switches, one tree for\neach slot, or how many trees to serve here; "
            "see `banyan\nserver`"),
    BY_TEXT("plan", 'p', plan, "PLAN", "a built-in plan's name or a plan file (BANYAN_PLAN)"),
    BY_TEXT("topology", 0, topology, "TOPOLOGY",
            "rank 0 plans for this file or short text at the start;\n\"measure\": for what the hosts measure then "
            "(BANYAN_TOPOLOGY)"),
    BY_CHOICE("transport", 't', transport, BY_TRANSPORT_CHOICES, "how ranks reach each other (BANYAN_TRANSPORT)"),
    BY_TEXT("iface", 'i', job.interface, "LIST",
            "interfaces or subnets to use, \"eth1\", \"10.0.0.0/8\" (BANYAN_IFACE)"),
    BY_TEXT("port-range", 0, job.ports, "A-B", "ports to listen on (BANYAN_PORTS)"),
    BY_WORDS("env", 'x', environment, "NAME[=VALUE]",
             "an environment variable for the ranks; hosts reached through\nssh get only these and BANYAN_*; may be "
             "repeated"),
    BY_CHOICE(
        "output", 'o', output, BY_OUTPUT_CHOICES_WITH_FILES,
        "prefix: \"[rank] \" before every line; rank0: rank 0's standard\noutput unchanged, everything else with "
        "a prefix on standard\nerror; raw: no prefix; none: only into --output-files; auto:\nrank0 if the command "
        "has --json, else prefix"),
    BY_TEXT(
        "output-files", 0, files, "PATTERN",
        "also write each rank's output, unchanged, to PATTERN.out and\nPATTERN.err on this machine; %r is the rank, "
        "%h its host. A\nfolder: rank-0.out, rank-0.err, ... in it"),
    BY_FLAG("keep-going", 'k', job.keep_going, "do not terminate the other ranks when one fails"),
    BY_FLAG("dry-run", 0, dry, "print what would be started, and where, and start nothing"),
    BY_FLAG("pin", 0, job.pin, "bind rank r of a host to its r-th core, cyclically"),
    BY_SECONDS("timeout", 0, job.timeout, "TIME", "end the job after this time, with exit code 124"),
    BY_SECONDS("report-time", 0, job.report, "TIME",
               "time after a rank's failure in which the others may report it\nand exit, before they get SIGTERM; "
               "default 1 s"),
    BY_SECONDS("grace", 0, job.grace, "TIME",
               "time between SIGTERM, or a signal that is passed on, and SIGKILL;\ndefault 5 s"),
    BY_SECONDS("start-timeout", 0, job.start, "TIME", "time within which every host must answer; default 60 s"),
    BY_INT("min", 0, min, "N", 1, BY_MAX_RANKS,
           "the job is elastic: it continues while at least N processes run;\ndefault: all that are started"),
    BY_INT("max", 0, max, "M", 1, BY_MAX_RANKS,
           "at most M processes at a time, counting those on hosts that are\nadded to the host file later; default: "
           "all that are started, or\nall slots of the host file"),
    BY_INT("restarts", 0, restarts, "R", 0, BY_MAX_RANKS, "restart failed processes, R times in all; default 0"),
    BY_INT("manager-hosts", 0, offered, "N", 1, BY_MAX_RANKS,
           "as long as there are fewer than --max processes, start N on\neach host that the cluster's manager offers: "
           "one with an agent\non which no job runs. This host's agent requests them\n(BANYAN_AGENT)"),
    BY_SECONDS("min-timeout", 0, elastic.min_timeout, "TIME",
               "end the job when it has had fewer than --min processes for\nthis long; default 60 s"),
    BY_TEXT(
        "preempt-command", 0, elastic.preemption, "COMMAND",
        "every host runs this shell command every 2 s; once it ends with\nexit code 0, the host's processes are asked "
        "to leave"),
    BY_TEXT("ssh", 0, job.ssh, "COMMAND", "command that reaches other hosts, split at spaces; default\n\"ssh\""),
    BY_TEXT("remote", 0, job.remote, "PATH", "the banyan command on other hosts; default: this one's path"),
    {.name = NULL},
};

/* Options of mpirun, srun and torchrun. */
static const struct by_habit habits[] = {
    {"-np", "-n N"},
    {"--np", "-n N"},
    {"-c", "-n N"},
    {"-N", "-n N for ranks, and -H with hosts and slots for nodes"},
    {"--nproc_per_node", "-n N, or -H with the slots of each host"},
    {"--nproc-per-node", "-n N, or -H with the slots of each host"},
    {"--nnodes", "-H with hosts and slots, or --slurm"},
    {"-genv", "-x NAME=VALUE"},
    {"--export", "-x NAME=VALUE"},
    {"--output-filename", "--output-files PATTERN"},
    {"--log-dir", "--output-files FOLDER"},
    {"--redirects", "--output none with --output-files FOLDER"},
    {"--tee", "--output-files FOLDER"},
    {"--tag-output", "--output prefix, which is the default"},
    {"--bind-to", "--pin"},
    {"--map-by", "-H with the slots of each host"},
    {"--host", "-H LIST"},
    {"-host", "-H LIST"},
    {"-hosts", "-H LIST"},
    {"--machinefile", "--hostfile FILE"},
    {"-machinefile", "--hostfile FILE"},
    {"--oversubscribe", "leave it out, since ranks may exceed the cores: give -n N, or -H with more slots"},
    {"-oversubscribe", "leave it out, since ranks may exceed the cores: give -n N, or -H with more slots"},
    {"--mca", "leave it out; `banyan help variables` lists Banyan's settings, for -x NAME=VALUE"},
    {"-mca", "leave it out; `banyan help variables` lists Banyan's settings, for -x NAME=VALUE"},
    {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan run",
    .usage = "-n N [options] [--] COMMAND [ARGUMENTS]",
    .about = "Starts the ranks of a job on this machine, or on several hosts through ssh. It\n"
             "shows their output line by line. When one rank fails, it terminates all, after\n"
             "a moment in which the others may report the failure. Ctrl-C and other signals\n"
             "that end programs are passed on to the ranks, which get SIGKILL after --grace,\n"
             "or at once with a second signal. The standard input of ranks is empty. C, C++\n"
             "and Python print line by line unless _STDBUF_O and PYTHONUNBUFFERED are set.\n"
             "Where several ranks share a host, they get OMP_NUM_THREADS=1 unless it is set.\n"
             "The command \"banyan\" is this program if PATH has none.\n"
             "\n"
             "With --min, --max or --restarts the job is elastic: its processes may change,\n"
             "in programs that use banyan_member_start or Python's banyan.elastic. Processes\n"
             "that fail are started again, after a pause if they fail soon after their start;\n"
             "the others continue meanwhile. The host file is read again when it changes: new\n"
             "lines start processes, and those of removed lines are asked to leave. SIGUSR1\n"
             "asks all processes to leave, and to one host's `banyan run-host`, as Slurm\n"
             "sends it to steps, those of this host. A process that ends with exit code 0 has\n"
             "finished and is not started again.\n"
             "\n"
             "Returns the exit code of the rank that failed first (128 + signal if it was\n"
             "killed), also with --keep-going; 124 after --timeout, 1 if a file of\n"
             "--output-files is incomplete, 0 if nothing failed. For elastic jobs: 0 if a\n"
             "process has finished and none failed after that, 75 if all left on request\n"
             "before, else the exit code of the last one that failed.",
    .examples = "banyan run -n 4 -- ./train --epochs 3\n"
                "banyan run -H alpha:4,beta:4 -x DATA=/data -- python3 train.py\n"
                "banyan run -n 4 --min 2 --restarts 8 -- python3 elastic.py\n"
                "banyan run --slurm --topology net.json -- ./train\n",
    .options = options,
    .habits = habits,
    .min_operands = 1,
    .missing = "no command for the ranks: give one, as in `banyan run -n 4 -- ./train`",
    .max_operands = -1,
    .last_operand = 1,
};

/* A process of an elastic job has a port for forming groups, one for its service, and one for each of two groups while
 * it changes them. */
enum { MEMBER_PORTS = 4 };

/* Checks the range of ports: every process listens on `each` ports of its own, and rank 0's host keeps more. At most
 * `max` processes run. */
static enum banyan_status check_ports(const struct by_launch *job, const struct by_launch_hosts *hosts, int max,
                                      int each) {
  struct by_port_range range;
  char where[64] = "";
  BY_TRY(by_port_range_parse(job->ports, &range));
  if ((max == 1 && each == 1) || !range.low) return BANYAN_OK;
  for (size_t i = 0; i < hosts->count; i++) {
    const struct by_launch_host *host = &hosts->items[i];
    int more = i ? 0 : by_launch_root_ports(hosts, job->interface, max);
    if (more) snprintf(where, sizeof where, ", and %d for the meeting point", more);
    int needed = each * (host->ranks ? host->ranks : MIN(host->slots, max)) + more;
    if (range.high - range.low + 1 < needed)
      return by_fail(BANYAN_ERR_ARGUMENT, "--port-range %s has %d port%s, but host %s needs %d: %d for each process%s",
                     job->ports, range.high - range.low + 1, range.high == range.low ? "" : "s", host->name, needed,
                     each, i ? "" : where);
  }
  return BANYAN_OK;
}

/* Parses a number, or hosts with slots. *n: number of slots; *processes: number of processes, which it increases. */
static enum banyan_status add_beside(const char *option, const char *text, enum by_beside beside,
                                     struct by_launch_hosts *hosts, int *n, int *processes) {
  struct by_launch_hosts list;
  long number = 0;
  if (!text) return BANYAN_OK;
  by_hosts_init(&list);
  bool here = *text && !text[strspn(text, "0123456789")];
  enum banyan_status status = here ? by_parse_int(option, text, 1, BY_MAX_RANKS, &number) : BANYAN_OK;
  if (status == BANYAN_OK) status = here ? by_hosts_add_self(&list, (int)number) : by_hosts_parse(&list, text);
  if (status == BANYAN_OK) status = by_hosts_add_beside(hosts, &list, beside, *processes);
  if (status == BANYAN_OK) *n = by_hosts_slots(&list);
  if (status == BANYAN_OK) *processes += beside == BY_SERVERS ? (int)list.count : *n;
  by_hosts_fini(&list);
  return status;
}

/* The hosts and processes of a job. */
struct job_hosts {
  int ranks, helpers, servers;
  int processes; /* Total; a server process has several slots. */
};

static bool is_elastic(const struct run_options *run) {
  return run->min >= 0 || run->max >= 0 || run->restarts >= 0;
}

/* Returns the maximum of an elastic job. */
static int max_processes(const struct run_options *run, const struct job_hosts *job_hosts) {
  return run->max >= 0 ? (int)run->max : run->hostfile && !run->ranks ? BY_MAX_RANKS : job_hosts->ranks;
}

static enum banyan_status read_hosts(const struct run_options *run, struct by_launch_hosts *hosts) {
  if (run->slurm) BY_TRY(by_hosts_add_slurm(hosts));
  for (int i = 0; i < run->hosts.count; i++) BY_TRY(by_hosts_parse(hosts, run->hosts.items[i]));
  return run->hostfile ? by_hosts_read(hosts, run->hostfile) : BANYAN_OK;
}

static enum banyan_status place_hosts(const struct run_options *run, struct by_launch_hosts *hosts,
                                      struct job_hosts *job_hosts) {
  static const char variable[] = "BANYAN_HOST=";
  if (!run->job.ssh[strspn(run->job.ssh, " \t")]) return by_fail(BANYAN_ERR_ARGUMENT, "--ssh is empty");
  BY_TRY(read_hosts(run, hosts));
  if (!hosts->count && !run->ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "the number of ranks is missing: give -n N, or hosts with -H");
  /* -x BANYAN_HOST=NAME names this machine, as the variable outside does. */
  for (int i = 0; i < run->environment.count && !hosts->count; i++)
    if (!strncmp(run->environment.items[i], variable, sizeof variable - 1))
      setenv("BANYAN_HOST", run->environment.items[i] + sizeof variable - 1, true);
  if (!hosts->count) BY_TRY(by_hosts_add_self(hosts, (int)run->ranks));
  job_hosts->ranks = run->ranks ? (int)run->ranks : by_hosts_slots(hosts);
  if (job_hosts->ranks > BY_MAX_RANKS)
    return by_fail(BANYAN_ERR_ARGUMENT, "the hosts have more than %d slots, the most that a job can use: give -n",
                   BY_MAX_RANKS);
  if (!run->ranks && run->max >= 0 && job_hosts->ranks > run->max) job_hosts->ranks = (int)run->max;
  if (run->job.ports && is_elastic(run))
    BY_TRY(check_ports(&run->job, hosts, max_processes(run, job_hosts), MEMBER_PORTS));
  BY_TRY(by_hosts_place(hosts, job_hosts->ranks));
  if (run->job.ports && !is_elastic(run)) BY_TRY(check_ports(&run->job, hosts, job_hosts->ranks, 1));
  BY_TRY(by_check_plan(run->plan, job_hosts->ranks, 0, by_hosts_all_local(hosts)));
  job_hosts->processes = job_hosts->ranks;
  BY_TRY(add_beside("--helpers", run->helpers, BY_HELPERS, hosts, &job_hosts->helpers, &job_hosts->processes));
  return add_beside("--servers", run->servers, BY_SERVERS, hosts, &job_hosts->servers, &job_hosts->processes);
}

static enum banyan_status read_again(void *context, struct by_launch_hosts *out) {
  const struct run_options *run = context;
  BY_TRY(read_hosts(run, out));
  return run->job.ports ? check_ports(&run->job, out, run->elastic.max, MEMBER_PORTS) : BANYAN_OK;
}

static enum banyan_status set_offers(struct run_options *run) {
  const char *agent = getenv("BANYAN_AGENT");
  if (!run->offered) return BANYAN_OK;
  if (run->max < 0)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--manager-hosts needs --max, the largest number of processes that the job can use");
  if (agent && !strcmp(agent, "off"))
    return by_fail(BANYAN_ERR_ARGUMENT, "--manager-hosts needs an agent on this host, and BANYAN_AGENT is off");
  run->elastic.offered_slots = (int)run->offered;
  run->elastic.agent = agent && *agent ? agent : BY_CLUSTER_AGENT;
  return BANYAN_OK;
}

/* Sets the options of elastic jobs, if there are any. */
static enum banyan_status set_elastic(struct run_options *run, const struct job_hosts *job_hosts) {
  struct by_elastic_options *e = &run->elastic;
  if (!is_elastic(run)) {
    if (run->offered) return by_fail(BANYAN_ERR_ARGUMENT, "--manager-hosts needs --max");
    if (!e->preemption) return BANYAN_OK;
    return by_fail(BANYAN_ERR_ARGUMENT, "--preempt-command needs --min, --max or --restarts");
  }
  if (run->job.keep_going)
    return by_fail(BANYAN_ERR_ARGUMENT, "--keep-going and --min, --max or --restarts exclude each other: elastic jobs "
                                        "continue without failed ranks anyway");
  if (job_hosts->processes > job_hosts->ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "--helpers and --servers cannot be combined with --min, --max or --restarts");
  e->min = run->min >= 0 ? (int)run->min : job_hosts->ranks;
  e->max = max_processes(run, job_hosts);
  e->restarts = run->restarts >= 0 ? (int)run->restarts : 0;
  BY_TRY(set_offers(run));
  e->start = run->job.start;
  e->hostfile = run->hostfile;
  e->read = read_again;
  e->context = run;
  if (e->min > job_hosts->ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "--min %d is more than the %d processes that are started", e->min,
                   job_hosts->ranks);
  if (e->max < job_hosts->ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "--max %d is less than the %d processes that are started", e->max,
                   job_hosts->ranks);
  run->job.elastic = e;
  return BANYAN_OK;
}

static enum banyan_status check_output(const struct run_options *run, const struct by_launch_hosts *hosts,
                                       const struct job_hosts *job_hosts) {
  if (run->files) return by_rank_files_check(run->files, hosts, job_hosts->ranks, run->job.elastic != NULL);
  if (by_output_choose(run->output, NULL, BY_OUTPUT_PREFIX) != BY_OUTPUT_NONE) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "--output none would lose what ranks print: give --output-files, too");
}

/* Makes ranks wait for the helpers and servers that are started here, unless the user's BANYAN_HELPERS differs. */
static void set_awaited(const struct job_hosts *job_hosts, struct by_job_environment *environment) {
  const char *given = by_variables_get(environment->items, "BANYAN_HELPERS");
  struct by_text text = {0};
  if (!job_hosts->helpers && !job_hosts->servers) return;
  if (job_hosts->helpers) by_text_add(&text, "helpers=%d", job_hosts->helpers);
  if (job_hosts->servers) by_text_add(&text, "%sservers=%d", text.length ? "," : "", job_hosts->servers);
  bool begins_with_key = given && strcspn(given, "=") < strcspn(given, ",");
  if (given && *given) by_text_add(&text, ",%s%s", begins_with_key ? "" : "helpers=", given);
  by_job_environment_set(environment, "BANYAN_HELPERS", by_text_get(&text));
  by_text_fini(&text);
}

static enum banyan_status fill_environment(const struct run_options *run, const struct job_hosts *job_hosts,
                                           struct by_job_environment *environment) {
  BY_TRY(by_job_environment_init(environment));
  for (int i = 0; i < run->environment.count; i++)
    BY_TRY(by_job_environment_add(environment, run->environment.items[i]));
  set_awaited(job_hosts, environment);
  by_job_environment_set(environment, "BANYAN_PLAN", run->plan);
  by_job_environment_set(environment, "BANYAN_TOPOLOGY", run->topology);
  by_job_environment_set(environment, "BANYAN_TRANSPORT", by_transport_at(run->transport));
  by_job_environment_set(environment, "BANYAN_IFACE", run->job.interface);
  by_job_environment_set(environment, "BANYAN_PORTS", run->job.ports);
  return BANYAN_OK;
}

/* Returns the labels of ranks, helpers and servers; NULL if there are only ranks, which have numbers. */
static char **make_labels(const struct job_hosts *job_hosts) {
  if (job_hosts->processes == job_hosts->ranks) return NULL;
  char **labels = by_cli_alloc(NULL, (size_t)job_hosts->processes * sizeof *labels);
  for (int i = 0; i < job_hosts->processes; i++)
    if (i < job_hosts->ranks)
      labels[i] = by_cli_print("%d", i);
    else
      labels[i] =
          by_cli_print("%s %d", by_beside_name(i < job_hosts->ranks + job_hosts->helpers ? BY_HELPERS : BY_SERVERS),
                       i - job_hosts->ranks);
  return labels;
}

/* Starts the job after all files are open, so that a file which cannot be written is noticed before hours of work. */
static int start_job(struct by_launch *job) {
  for (size_t i = 0; i < job->hosts->count && job->files; i++)
    if (by_rank_files_open(job->files, &job->hosts->items[i], job->ranks))
      return by_command_end(&command, BANYAN_ERR_SYSTEM);
  return by_launch(job);
}

static int start_or_print(struct by_launch *job, const struct run_options *run) {
  static struct by_rank_files files; /* The job refers to it. */
  struct by_text text = {0};
  by_rank_files_init(&files, run->files);
  if (run->files) job->files = &files;
  if (run->dry) return by_command_end(&command, by_print_text(&text, by_dry_run_print(job, &text), stdout));
  int exit_code = start_job(job);
  if (by_rank_files_fini(&files)) {
    int failed = by_command_end(&command, BANYAN_ERR_SYSTEM);
    if (!exit_code) exit_code = failed;
  }
  return exit_code;
}

/* Warns of a program whose ranks would not find each other: each would be alone in an MPI job of its own. */
static void warn_of_mpi(const struct by_launch *job) {
  char path[BY_PROGRAM_PATH];
  const char *name = job->command[0];
  if (job->ranks < 2 || !by_program_find(name, path, sizeof path) || by_program_abi(path) == BY_MPI_NONE) return;
  by_command_note(
      "%s: %s is an MPI program: under `banyan run`, MPI makes each of its ranks a job of its own; start it "
      "with `banyan mpirun -n %d %s`",
      command.name, name, job->ranks, name);
}

static int launch_job(struct run_options *run, const struct by_launch_hosts *hosts, const struct job_hosts *job_hosts,
                      const struct by_operands *operands) {
  static char self[BY_PROGRAM_PATH]; /* The job refers to it. */
  if (!by_program_path(self)) strcpy(self, "banyan");
  struct by_job_environment environment;
  if (fill_environment(run, job_hosts, &environment)) {
    by_job_environment_fini(&environment);
    return by_command_misused(&command);
  }
  char **labels = make_labels(job_hosts);
  struct by_launch *job = &run->job;
  job->hosts = hosts;
  job->ranks = job_hosts->ranks;
  job->beside = job_hosts->processes - job_hosts->ranks;
  job->labels = (const char *const *)labels;
  job->command = operands->items;
  job->environment = environment.items;
  job->key_file = environment.key_file;
  job->output = by_output_choose(run->output, operands->items, BY_OUTPUT_PREFIX);
  if (!job->remote) job->remote = self;
  warn_of_mpi(job);
  int exit_code = start_or_print(job, run);
  for (int i = 0; labels && i < job_hosts->processes; i++) free(labels[i]);
  free(labels);
  by_job_environment_fini(&environment);
  return exit_code;
}

int by_cli_run(int argc, char **argv) {
  struct run_options run = {.job = by_launch_defaults(command.name),
                            .transport = -1,
                            .min = -1,
                            .max = -1,
                            .restarts = -1,
                            .elastic = {.min_timeout = 60}};
  struct by_operands operands;
  struct by_launch_hosts hosts;
  struct job_hosts job_hosts = {0};
  int exit_code = by_options_parse(&command, argc, argv, &run, &operands);
  if (exit_code >= 0) return exit_code;
  by_hosts_init(&hosts);
  if (place_hosts(&run, &hosts, &job_hosts) || set_elastic(&run, &job_hosts) || check_output(&run, &hosts, &job_hosts))
    exit_code = by_command_misused(&command);
  else
    exit_code = launch_job(&run, &hosts, &job_hosts, &operands);
  by_hosts_fini(&hosts);
  return exit_code;
}
