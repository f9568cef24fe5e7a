/* Launches a job: starts run-host on every host, forwards output and signals, and ends the job. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "elastic_job.h"
#include "launch_io.h"
#include "launch_link.h"
#include "process.h"
#include "rank_output.h"
#include "text.h"

enum {
  EXIT_TIMEOUT = 124,
  EXIT_PIPE = 128 + SIGPIPE,
  OUR_FDS = 3,
  KILL_SECONDS = 2,   /* Seconds for hosts to report that all processes are killed. */
  PATHS_SECONDS = 8,  /* Seconds until the paths to hosts that do not answer are checked. */
  BESIDE_SECONDS = 1, /* Seconds for helpers and servers, which notice within 50 ms that the job is over. */
  REPEAT_MILLISECONDS = 500,
  REPEAT_INT_MILLISECONDS =
      100, /* Repeated signals within this time count as one: nobody presses Ctrl-C twice in less. */
  SHOW_MILLISECONDS = 250,
  WAIT_SECONDS = 3 /* Seconds for all of run-host and ssh to end. */
};

enum launch_state {
  STARTING, /* Hosts are being connected. */
  RUNNING,
  REPORTING, /* A rank has failed; the others may report this and end by themselves. */
  ENDING,    /* SIGTERM or the received signal was sent, SIGKILL follows. */
  KILLED,    /* Whatever does not end now is given up. */
};

struct launcher {
  const struct by_launch *job;
  struct by_launch_link *links;
  size_t n_links;
  struct by_elastic *elastic; /* For elastic jobs; NULL: others. */
  struct by_launch_key key;
  uint64_t elastic_next; /* When it is to be called; UINT64_MAX: never. */
  struct by_output output;
  uint64_t paths_at; /* When the paths to hosts that have not answered are checked; UINT64_MAX: never again. */
  uint64_t show_at;  /* When unfinished lines may be due; UINT64_MAX: there are none. */
  struct pollfd *polled;
  size_t n_groups;            /* Number of different hosts among the links. */
  struct by_launch_root root; /* Addresses of rank 0. */
  enum launch_state state;
  uint64_t deadline; /* Deadline of the state; UINT64_MAX: none. */
  uint64_t job_end;  /* The timeout's; UINT64_MAX: none. */
  uint64_t timeout;  /* End of waiting for the local processes of lost hosts, one after the other; 0: none is lost. */
  int signals;
  int forwarded;     /* The last forwarded signal that ends programs; 0: none. */
  int requests;      /* Number of requests to end the job, by signals. */
  uint64_t request;  /* Time of the last request. */
  uint64_t patience; /* Time until which the reader of our output may delay the end; UINT64_MAX: no request to end. */
  int exit_code;     /* Of the first failure. */
  struct by_launch_reports reports;
  bool given_up; /* No rank is waited for any more: processes that still live end when the links are closed. */
  bool quiet;    /* Our output is no longer read. */
};

static uint64_t from_now(double seconds) {
  return by_clock_now(&by_clock_system) + by_clock_from_seconds(seconds);
}

static void broadcast_signal(struct launcher *l, int signal_number) {
  for (size_t i = 0; i < l->n_links; i++)
    if (l->links[i].pid) by_pipe_frame(&l->links[i].to, BY_LAUNCH_SIGNAL, (uint32_t)signal_number, NULL, 0);
}

static void enter_state(struct launcher *l, enum launch_state state) {
  if (state <= l->state) return;
  l->state = state;
  const double seconds[] = {[REPORTING] = l->job->report, [ENDING] = l->job->grace, [KILLED] = KILL_SECONDS};
  l->deadline = state == RUNNING ? UINT64_MAX : from_now(seconds[state]);
  if (state == ENDING) broadcast_signal(l, l->requests ? l->forwarded : SIGTERM);
  if (state == KILLED) broadcast_signal(l, SIGKILL);
}

/* Tells whether the job continues despite the failure. */
static bool continues(const struct launcher *l) {
  return l->job->keep_going && l->state == RUNNING;
}

static void note_failure(struct launcher *l, int exit_code) {
  if (!l->exit_code) l->exit_code = exit_code;
}

/* Fails the job; the first reason counts. With REPORTING next, the other ranks notice by themselves and have a moment
 * to report and to write their files. */
static void fail_job(struct launcher *l, int exit_code, enum launch_state next) {
  note_failure(l, exit_code ? exit_code : 1);
  if (l->state == STARTING)
    l->given_up = true; /* No rank runs yet. */
  else
    enter_state(l, next);
}

/* Tells whether the job's supervisor handles the ends of ranks: until the job is to end. */
static bool is_supervised(const struct launcher *l) {
  return l->elastic && l->state <= RUNNING && !l->forwarded && !l->given_up;
}

static void report_host_failed(struct launcher *l, const struct by_launch_link *link, const char *text) {
  if (l->state < ENDING) by_output_print(&l->output, "%s: host %s: %s", l->job->title, link->host->name, text);
}

/* Gives up a host; its processes end when its run-host notices. */
static void lose_host(struct launcher *l, struct by_launch_link *link) {
  for (int i = 0; i < link->host->ranks; i++) by_output_end(&l->output, link->host->first + i);
  by_launch_link_shut(link);
  for (int i = 0; i < link->host->ranks && is_supervised(l); i++) by_elastic_lost(l->elastic, link->host->first + i);
  link->live = 0;
}

/* Handles the failure of a host. Jobs continue without helpers and servers, and elastic jobs without some hosts. */
static void fail_host(struct launcher *l, struct by_launch_link *link, const char *text) {
  report_host_failed(l, link, text);
  if (is_supervised(l))
    lose_host(l, link);
  else if (!link->host->beside && continues(l))
    note_failure(l, 1);
  else if (!link->host->beside)
    fail_job(l, 1, REPORTING);
}

/* Tells whether we have ended the rank, or a signal that we forwarded. */
static bool was_ended_by_us(const struct launcher *l, int status) {
  int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool ended_by_us = l->state >= ENDING && (signal_number == SIGTERM || signal_number == SIGKILL);
  return ended_by_us || (signal_number && signal_number == l->forwarded);
}

/* Handles the end of a rank of a job that is not elastic. */
static void judge_end(struct launcher *l, const struct by_launch_host *host, int rank, int status, bool had_joined) {
  bool is_rank = !host->beside;
  if (status == 0 && is_rank && (l->state <= RUNNING || (l->state == REPORTING && had_joined)))
    by_launch_reports_ended_well(&l->reports, rank, had_joined);
  if (status && !l->quiet && !was_ended_by_us(l, status)) by_launch_reports_failed(&l->reports, host, rank, status);
  bool failed = status && is_rank;
  if ((failed || l->state == REPORTING) && !l->quiet) by_launch_reports_print_ended_well(&l->reports);
  if (failed && continues(l))
    note_failure(l, by_wait_exit_code(status));
  else if (failed)
    fail_job(l, by_wait_exit_code(status), REPORTING);
}

static void rank_ended(struct launcher *l, struct by_launch_link *link, int rank, int status, bool had_joined) {
  by_output_end(&l->output, rank);
  link->live--;
  if (!is_supervised(l)) {
    judge_end(l, link->host, rank, status, had_joined);
    return;
  }
  by_elastic_ended(l->elastic, rank, status);
  if (!link->live && !by_elastic_needs(l->elastic, link->host->first, link->host->ranks)) by_launch_link_shut(link);
}

static void send_key(struct launcher *l, struct by_launch_link *link) {
  const char *key = by_launch_key_get(&l->key);
  if (!link->started || link->from_fd < 0 || !key) return;
  if (by_launch_send_key(link, key)) report_host_failed(l, link, banyan_error_text());
}

static void look_at_key(struct launcher *l) {
  enum by_launch_key_news news = by_launch_key_look(&l->key);
  if (news == BY_LAUNCH_KEY_SAME) return;
  for (size_t i = 0; i < l->n_links; i++) send_key(l, &l->links[i]);
  if (news == BY_LAUNCH_KEY_REPLACED && !by_command_is_quiet())
    by_output_print(&l->output, "%s: the ranks get the new key of %s", l->job->title, l->job->key_file);
}

/* Makes a new key, as `banyan keys rotate` requests. */
static void rotate_key(struct launcher *l, int seconds) {
  if (by_launch_key_rotate(&l->key, seconds) != BANYAN_OK) {
    by_output_print(&l->output, "%s: the job's key stays as it is: %s", l->job->title, banyan_error_text());
    return;
  }
  for (size_t i = 0; i < l->n_links; i++) send_key(l, &l->links[i]);
  if (!by_command_is_quiet())
    by_output_print(&l->output, "%s: the ranks get a new key; the old one is accepted for %d s", l->job->title,
                    seconds);
}

/* Starts the processes of a host. A job continues without helpers and servers for which there is no ticket. */
static void send_start(struct launcher *l, struct by_launch_link *link) {
  if (by_launch_send_start(l->job, &l->root, by_launch_key_get(&l->key), link) == BANYAN_OK) return;
  report_host_failed(l, link, banyan_error_text());
  lose_host(l, link);
}

/* Rank 0's host has found ports, and the addresses at which others may reach it, and has made rank 0's identity, so all
 * hosts can start. */
static void take_port(struct launcher *l, struct by_launch_link *link, const struct by_launch_frame *frame) {
  if (l->root.places.length) return;
  if (by_launch_root_take(l->job, link->host, frame, &l->root)) fail_host(l, link, banyan_error_text());
}

static void take_root_address(struct by_launch_link *link, const char *address) {
  snprintf(link->root_address, sizeof link->root_address, "%s", address);
  link->searching = false;
}

static void take_output(struct launcher *l, int rank, int stream, const struct by_launch_frame *frame) {
  by_output_take(&l->output, rank, stream, frame->payload, frame->length);
  if (l->show_at == UINT64_MAX) l->show_at = from_now(SHOW_MILLISECONDS / 1e3);
}

/* Shows unfinished lines that already waited at the last call. */
static void show_lines(struct launcher *l) {
  if (by_clock_now(&by_clock_system) < l->show_at) return;
  l->show_at = by_output_show(&l->output) ? from_now(SHOW_MILLISECONDS / 1e3) : UINT64_MAX;
}

static void take_frame(struct launcher *l, struct by_launch_link *link, const struct by_launch_frame *frame) {
  uint32_t first = (uint32_t)link->host->first;
  int rank = (int)frame->number;
  bool is_rank = frame->number >= first && frame->number < first + (uint32_t)link->host->ranks;
  if (frame->type == BY_LAUNCH_PORT_IS)
    take_port(l, link, frame);
  else if (frame->type == BY_LAUNCH_REACH && link->searching)
    take_root_address(link, frame->payload);
  else if ((frame->type == BY_LAUNCH_STDOUT || frame->type == BY_LAUNCH_STDERR) && is_rank)
    take_output(l, rank, frame->type == BY_LAUNCH_STDERR, frame);
  else if (frame->type == BY_LAUNCH_ENDED && is_rank)
    rank_ended(l, link, rank, atoi(frame->payload), strstr(frame->payload, BY_HAD_JOINED) != NULL);
  else if (frame->type == BY_LAUNCH_MESSAGE && is_rank && l->elastic) {
    if (is_supervised(l)) by_elastic_received(l->elastic, rank, frame->payload, frame->length);
  } else if (frame->type == BY_LAUNCH_LEAVING && l->elastic) {
    if (is_supervised(l)) by_elastic_leave(l->elastic, link->host->first, link->host->ranks, frame->payload);
  } else if (frame->type == BY_LAUNCH_ERROR && link->answer_by && is_supervised(l))
    fail_host(l, link, frame->payload); /* The others began without it. */
  else if (frame->type == BY_LAUNCH_ERROR) {
    report_host_failed(l, link, frame->payload); /* The payload is the host's text. */
    if (!link->host->beside) fail_job(l, frame->number <= 127 ? (int)frame->number : 1, ENDING);
  } else
    fail_host(l, link, "sent an unexpected message");
}

/* The link's output has ended: if ranks still run there, the host is lost. */
static void link_ended(struct launcher *l, struct by_launch_link *link) {
  char text[256];
  by_cli_close(&link->from_fd);
  if (!link->live && !is_supervised(l)) return; /* fini() waits for it. */
  if (!l->timeout) l->timeout = from_now(WAIT_SECONDS);
  int status = by_launch_link_wait(link, l->timeout);
  while (by_launch_link_print(link, &l->output)) continue;
  by_launch_link_lost(link, status, text, sizeof text);
  bool supervised = is_supervised(l);
  fail_host(l, link, text);
  if (supervised) return;
  for (int i = 0; i < link->host->ranks; i++) by_output_end(&l->output, link->host->first + i);
  link->live = 0;
}

static void handle_link(struct launcher *l, struct by_launch_link *link) {
  struct by_launch_frame frame;
  const char *chatter;
  size_t length;
  int found = 0;
  bool open = by_pipe_fill(&link->from, link->from_fd);
  if (!link->ready) {
    by_launch_link_find_hello(link, &chatter, &length);
    by_launch_link_print_lines(link, chatter, length, &l->output);
  }
  while (link->ready && (found = by_pipe_next(&link->from, &frame)) > 0) take_frame(l, link, &frame);
  if (found < 0) fail_host(l, link, "sent an unexpected message");
  if (!open || found < 0) link_ended(l, link);
}

/* Tells whether the host has not reported everything that it reports before its start. */
static bool is_awaited(const struct by_launch_link *link) {
  return !link->ready || link->searching;
}

static bool all_ready(const struct launcher *l) {
  for (size_t i = 0; i < l->n_links; i++)
    if (is_awaited(&l->links[i]) && !l->links[i].host->beside && !(l->elastic && l->links[i].from_fd < 0)) return false;
  return l->root.places.length > 0 || (l->elastic && l->links[0].from_fd < 0);
}

/* Counts live hosts: those that have not started when the job ends are not started any more. */
static int count_live(const struct launcher *l, bool beside) {
  int sum = 0;
  for (size_t i = 0; i < l->n_links && !l->given_up; i++)
    if ((l->links[i].host->beside != 0) == beside && (l->links[i].started || l->state <= RUNNING))
      sum += l->links[i].live;
  return sum;
}

static void stop_and_continue(struct launcher *l) {
  broadcast_signal(l, SIGSTOP);
  for (size_t i = 0; i < l->n_links; i++) by_pipe_flush(&l->links[i].to);
  raise(SIGSTOP);
  broadcast_signal(l, SIGCONT);
}

/* Forwards the first signal to the ranks, which have the time as after SIGTERM. The second one kills them, the third
 * one gives up hosts that do not answer. One request may come as several signals: from timeout(1), which sends one to
 * its child and one to its process group, or from a shell and the kernel when a terminal is closed. */
static void request_end(struct launcher *l, int signal_number) {
  uint64_t now = by_clock_now(&by_clock_system);
  bool again = l->requests > 0;
  uint64_t pause = (signal_number == SIGINT ? REPEAT_INT_MILLISECONDS : REPEAT_MILLISECONDS) * BY_MILLISECOND;
  if (again && now - l->request < pause) return;
  l->requests++;
  l->request = now;
  l->patience = again ? now : from_now(l->job->grace);
  if (again || l->state == STARTING || (is_supervised(l) && !count_live(l, false)))
    note_failure(l, 128 + signal_number);
  if (!again) l->forwarded = signal_number;
  if (l->state == STARTING || (again && l->state == KILLED))
    l->given_up = true;
  else if (again)
    enter_state(l, KILLED);
  else if (l->state < ENDING)
    enter_state(l, ENDING);
  else
    broadcast_signal(l, signal_number);
}

static void take_signal(struct launcher *l, int signal_number) {
  if (signal_number == SIGTSTP)
    stop_and_continue(l);
  else if (l->state == STARTING || (signal_number != SIGUSR1 && signal_number != SIGUSR2))
    request_end(l, signal_number);
  else if (is_supervised(l) && l->state == RUNNING && signal_number == SIGUSR1)
    by_elastic_leave_all(l->elastic, "SIGUSR1");
  else {
    if (!is_supervised(l)) l->forwarded = signal_number;
    broadcast_signal(l, signal_number);
  }
}

/* Kills what has not ended within the grace period. If the reader of our output delays it, the state is unknown. */
static void kill_rest(struct launcher *l) {
  int left = by_output_full(&l->output) || l->quiet ? 0 : count_live(l, false);
  if (l->requests) note_failure(l, 128 + l->forwarded);
  if (left)
    by_output_print(&l->output, "%s: %d rank%s not end within %g s (--grace): killing %s", l->job->title, left,
                    left == 1 ? " did" : "s did", l->job->grace, left == 1 ? "it" : "them");
  enter_state(l, KILLED);
}

/* Ends the ranks that continue after a failure: those of a job that waits, or of an elastic program. */
static void end_others(struct launcher *l) {
  int left = count_live(l, false);
  if (left && !l->quiet)
    by_output_print(&l->output, "%s: ending the other %d rank%s after the failure; with --min N an elastic job goes on",
                    l->job->title, left, by_plural(left));
  enter_state(l, ENDING);
}

/* Gives up silent hosts of an elastic job. */
static void lose_silent(struct launcher *l, uint64_t now) {
  for (size_t i = 0; i < l->n_links; i++) {
    struct by_launch_link *link = &l->links[i];
    if (is_awaited(link) && link->from_fd >= 0 && now >= (link->answer_by ? link->answer_by : l->deadline))
      fail_host(l, link, "no answer (--start-timeout)");
  }
}

/* Checks the paths, since ssh does not say why it waits. */
static void look_at_paths(struct launcher *l) {
  char text[512];
  l->paths_at = UINT64_MAX;
  for (size_t i = 0; i < l->n_links && l->state == STARTING; i++)
    if (by_launch_link_loses(&l->links[i], text, sizeof text))
      by_output_print(&l->output, "%s: host %s does not answer yet: %s", l->job->title, l->links[i].host->name, text);
}

static void pass_deadline(struct launcher *l) {
  uint64_t now = by_clock_now(&by_clock_system);
  if (now >= l->paths_at) look_at_paths(l);
  if (is_supervised(l)) lose_silent(l, now);
  if (now >= l->job_end && l->state < ENDING) {
    by_output_print(&l->output, "%s: not done after %g s (--timeout): ending all ranks", l->job->title,
                    l->job->timeout);
    fail_job(l, EXIT_TIMEOUT, ENDING);
  }
  if (now < l->deadline) return;
  if (is_supervised(l)) { /* All have answered, but the first one found no port; RUNNING has no deadline. */
    if (!all_ready(l)) fail_host(l, &l->links[0], "no port (--start-timeout)");
  } else if (l->state ==
             STARTING) { /* The first host that has not answered; rank 0's if all have, but it found no port. */
    size_t i = 0;
    while (i < l->n_links && (!is_awaited(&l->links[i]) || l->links[i].host->beside)) i++;
    fail_host(l, &l->links[i < l->n_links ? i : 0], "no answer (--start-timeout)");
  } else if (l->state == REPORTING)
    end_others(l);
  else if (l->state == ENDING)
    kill_rest(l);
  else
    l->given_up = true; /* A host that has become unreachable. */
}

/* Detects failed output. If the reader has gone (`| head`) it is not reported; a full disk is. */
static void check_output(struct launcher *l) {
  const struct by_pipe *out = &l->output.to[0];
  if (l->quiet || !out->closed) return;
  l->quiet = true;
  if (out->reason != EPIPE)
    by_output_print(&l->output, "%s: cannot write to standard output: %s: ending all ranks", l->job->title,
                    strerror(out->reason));
  fail_job(l, out->reason == EPIPE ? EXIT_PIPE : 1, ENDING);
}

static size_t fill_polled(struct launcher *l) {
  struct pollfd *p = l->polled;
  bool full = by_output_full(&l->output) && l->state < KILLED; /* Killed ranks print little. */
  *p++ = (struct pollfd){.fd = l->signals, .events = POLLIN};
  for (int i = 0; i < 2; i++)
    *p++ = (struct pollfd){.fd = by_pipe_waiting(&l->output.to[i]) ? l->output.to[i].fd : -1, .events = POLLOUT};
  for (size_t i = 0; i < l->n_links; i++) {
    struct by_launch_link *link = &l->links[i];
    *p++ = (struct pollfd){.fd = full ? -1 : link->from_fd, .events = POLLIN};
    *p++ = (struct pollfd){.fd = full ? -1 : link->error_fd, .events = POLLIN};
    *p++ = (struct pollfd){.fd = by_pipe_waiting(&link->to) ? link->to.fd : -1, .events = POLLOUT};
  }
  return (size_t)(p - l->polled);
}

static int milliseconds_left(const struct launcher *l) {
  uint64_t until = MIN(l->deadline, l->state < ENDING ? l->job_end : UINT64_MAX);
  until = MIN(until, MIN(l->paths_at, MIN(l->key.look_at, l->show_at)));
  if (is_supervised(l)) until = MIN(until, l->elastic_next);
  if (until == UINT64_MAX) return -1;
  uint64_t now = by_clock_now(&by_clock_system);
  return until <= now ? 0 : (int)MIN((until - now) / BY_MILLISECOND + 1, 3600000);
}

static void serve_links(struct launcher *l) {
  size_t n = fill_polled(l);
  if (poll(l->polled, n, milliseconds_left(l)) < 0) return;
  const struct pollfd *p = l->polled;
  for (int i = 0; i < 2; i++)
    if (p[1 + i].revents) by_pipe_flush(&l->output.to[i]);
  p += OUR_FDS;
  for (size_t i = 0; i < l->n_links; i++, p += 3) {
    if (p[2].revents) by_pipe_flush(&l->links[i].to);
    if (p[1].revents) by_launch_link_print(&l->links[i], &l->output);
    if (p[0].revents) handle_link(l, &l->links[i]);
  }
  struct signalfd_siginfo info;
  while (l->polled[0].revents && read(l->signals, &info, sizeof info) == sizeof info)
    if ((int)info.ssi_signo == BY_SIGNAL_ROTATE)
      rotate_key(l, info.ssi_int);
    else
      take_signal(l, (int)info.ssi_signo);
  show_lines(l);
  check_output(l);
  look_at_key(l);
  pass_deadline(l);
  if (is_supervised(l) && l->state == RUNNING) l->elastic_next = by_elastic_tick(l->elastic);
}

/* Asks hosts for addresses while rank 0's host is there, and before it starts, since it leaves if its command cannot be
 * run. */
static void ask_hosts(struct launcher *l) {
  for (size_t i = 1; i < l->n_links && l->links[0].from_fd >= 0; i++)
    if (l->links[i].ready && !l->links[i].started && l->links[i].from_fd >= 0)
      by_launch_send_reach(l->job, &l->root, &l->links[i]);
}

static void run_loop(struct launcher *l) {
  while (is_supervised(l) ? by_elastic_waits(l->elastic) : count_live(l, false)) {
    serve_links(l);
    if (l->state > RUNNING) continue;
    ask_hosts(l);
    if (l->state == STARTING && !all_ready(l)) continue;
    for (size_t i = 0; i < l->n_links; i++) { /* A helper's or server's host may answer later than all others. */
      struct by_launch_link *link = &l->links[i];
      if (is_awaited(link) || link->started || link->from_fd < 0) continue;
      link->started = true;
      send_start(l, link);
    }
    enter_state(l, RUNNING);
  }
}

static enum banyan_status open_link(struct launcher *l, const struct by_launch_host *host) {
  size_t n = l->n_links + 1;
  l->links = by_cli_alloc(l->links, n * sizeof *l->links);
  l->polled = by_cli_alloc(l->polled, (OUR_FDS + 3 * n) * sizeof *l->polled);
  size_t before = 0;
  while (before + 1 < n && strcmp(l->links[before].host->name, host->name) != 0) before++;
  enum banyan_status status = by_launch_link_open(l->job, host, &l->links[l->n_links++]);
  l->links[n - 1].group = before + 1 < n ? l->links[before].group : l->n_groups++;
  if (status == BANYAN_OK) return status;
  by_output_print(&l->output, "%s: host %s: %s", l->job->title, host->name, banyan_error_text());
  if (l->elastic) lose_host(l, &l->links[n - 1]);
  return status;
}

static void open_links(struct launcher *l) {
  const struct by_launch_hosts *hosts = l->job->hosts;
  for (size_t i = 0; i < hosts->count && !l->given_up; i++) {
    if (open_link(l, &hosts->items[i]) == BANYAN_OK || hosts->items[i].beside || l->elastic) continue;
    l->exit_code = 1;
    l->given_up = true;
  }
}

/* ---- elastic jobs */

static void send_about_process(void *context, int process, enum by_launch_frame_type type, const void *payload,
                               size_t length) {
  struct launcher *l = context;
  for (size_t i = 0; i < l->n_links; i++) {
    struct by_launch_link *link = &l->links[i];
    bool is_its = process >= link->host->first && process < link->host->first + link->host->ranks;
    if ((!is_its && process != BY_EVERY_PROCESS) || link->from_fd < 0) continue;
    by_pipe_frame(&link->to, type, (uint32_t)process, payload, length);
    if (type == BY_LAUNCH_RESTART) link->live++;
  }
}

static void open_more(void *context, const struct by_launch_host *host, int local, int local_size) {
  struct launcher *l = context;
  by_output_grow(&l->output, host->first + host->ranks);
  if (l->job->files && by_rank_files_open(l->job->files, host, l->job->ranks)) {
    by_output_print(&l->output, "%s: %s", l->job->title, banyan_error_text());
    l->job->files->failed = true;
  }
  if (open_link(l, host)) return;
  l->links[l->n_links - 1].local = local;
  l->links[l->n_links - 1].local_size = local_size;
  l->links[l->n_links - 1].answer_by = from_now(l->job->start);
}

static void print_line(void *context, const char *line) {
  struct launcher *l = context;
  if (!l->quiet && !by_command_is_quiet()) by_output_print(&l->output, "%s", line);
}

static void end_elastic(void *context, int exit_code) {
  fail_job(context, exit_code, ENDING);
}

static void begin_elastic(struct launcher *l) {
  const struct by_elastic_events events = {l, send_about_process, open_more, print_line, end_elastic};
  const char *key = by_variables_get(l->job->environment, "BANYAN_KEY");
  l->elastic = by_elastic_create(l->job->title, l->job->elastic, l->job->hosts, key ? key : "", &events);
}

/* All have ended: prints the remaining output, unless it is closed. */
static void print_remaining(struct launcher *l) {
  by_launch_reports_print_rest(&l->reports);
  if (l->exit_code == 128 + l->forwarded && l->forwarded && !l->quiet)
    by_output_print(&l->output, "%s: ended by signal %d (%s)", l->job->title, l->forwarded, strsignal(l->forwarded));
  for (size_t i = 0; i < l->n_links; i++) by_launch_link_shut(&l->links[i]);
  l->job_end = UINT64_MAX;
  l->deadline = l->patience;
  int requests = l->requests;
  for (bool waits = true; waits && by_output_waiting(&l->output) && l->requests == requests;) {
    size_t before = by_output_waiting(&l->output);
    serve_links(l);
    waits = by_clock_now(&by_clock_system) < l->patience || by_output_waiting(&l->output) < before;
  }
  if (by_output_waiting(&l->output) && l->forwarded) note_failure(l, 128 + l->forwarded);
}

static void free_launcher(struct launcher *l) {
  uint64_t until = from_now(WAIT_SECONDS);
  for (size_t i = 0; i < l->n_links; i++) by_launch_link_wait(&l->links[i], until);
  free(l->links);
  free(l->polled);
  by_launch_root_fini(&l->root);
  by_output_fini(&l->output);
  by_elastic_destroy(l->elastic);
  by_launch_key_fini(&l->key);
  close(l->signals);
}

int by_launch(const struct by_launch *job) {
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, BY_SIGNAL_ROTATE, 0};
  struct launcher l = {.job = job,
                       .deadline = from_now(job->start),
                       .job_end = UINT64_MAX,
                       .elastic_next = UINT64_MAX,
                       .paths_at = from_now(PATHS_SECONDS),
                       .show_at = UINT64_MAX,
                       .patience = UINT64_MAX};
  if (job->timeout > 0) l.job_end = from_now(job->timeout);
  by_output_init(&l.output, job->output, job->ranks + job->beside, job->labels);
  by_output_set_files(&l.output, job->files, job->title);
  l.reports = (struct by_launch_reports){.job = job, .output = &l.output};
  l.signals = by_signal_descriptor(signals);
  if (job->elastic) begin_elastic(&l);
  if (by_launch_key_init(&l.key, job->key_file, by_variables_get(job->environment, "BANYAN_KEY")) == BANYAN_OK)
    open_links(&l);
  else {
    by_output_print(&l.output, "%s: %s", job->title, banyan_error_text());
    l.exit_code = 1;
    l.given_up = true;
  }
  if (l.n_links) by_launch_request_ports(job, &l.links[0]);
  run_loop(&l);
  if (l.state == RUNNING || l.state == REPORTING) { /* Helpers and servers end with the job, and may print something. */
    l.deadline = from_now(BESIDE_SECONDS);
    l.job_end = UINT64_MAX;
    while (count_live(&l, true)) serve_links(&l);
  }
  if (is_supervised(&l)) l.exit_code = by_elastic_exit_code(l.elastic);
  print_remaining(&l);
  free_launcher(&l);
  if (job->files && job->files->failed) note_failure(&l, 1);
  return l.exit_code;
}
