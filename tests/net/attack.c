/* attack --key FILE --ranks N [OPTION...] ADDRESS:PORT...
 *
 * Attacks the ports of processes of a running job, each in every way that attack_kinds.c knows, and prints a table of
 * what became of that. It ends with 1 if an attack was accepted or its connection kept, and with 2 if it could not do
 * its work.
 *
 *   --key FILE                 the job's key, for attacks by those who have it
 *   --ranks N                  of the job
 *   --count N                  attacks in all (500)
 *   --rate N                   a second (100)
 *   --only NAME                this kind of attack alone
 *   --seed N                   draws other random numbers
 *   --recordings FOLDER        what clients have sent, in files ADDRESS:PORT-N, as alter_packets --record writes them
 *   --certificate NAME=FILE    connects with this certificate and key, or with NAME= without one; repeatable
 *   --valid NAME=FILE          the same with one that the manager is to accept: the test of the test
 *   --statement NAME=FILE      joins with the job's key and a statement that is signed with this agent's certificate;
 *                              with =FILE, of an agent that is believed, with right statements about others */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "host_trust.h"
#include "job_key.h"

enum {
  TARGETS = 64,
  KINDS = 32,
  THREADS = 12,
  WAITING = 4096, /* connections that the peer is to end */
  ENOUGH = 24     /* attempts, of which some must be genuine where a kind has such */
};

struct waiting {
  int fd; /* -1: none */
  uint64_t since;
  unsigned kind;
};

static struct attacker attacker;
static struct by_address targets[TARGETS];
static struct kind kinds[KINDS];
static unsigned n_targets, n_kinds, count = 500;
static double rate = 100;
static const char *only;
static uint64_t seed = 1, began;

/* Of all threads, under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned next_attack;
static bool over;
static unsigned long counts[KINDS][NOT_MADE + 1], made[KINDS];
static struct waiting waiting[WAITING];
static double longest; /* s for which a connection was kept that was to be ended */

static uint64_t now(void) {
  return by_clock_now(&by_clock_system);
}

static int connect_to(const struct by_address *to) {
  struct timeval limit = {.tv_sec = TRY_S};
  int fd = socket(by_address_family(to), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(fd, (const struct sockaddr *)&to->storage, to->length) == 0) return fd;
  close(fd);
  return -1;
}

static void finish(unsigned kind, enum outcome outcome, int fd) {
  if (fd >= 0) close(fd);
  counts[kind][outcome]++;
}

/* The peer is to end it within some seconds. */
static void leave_open(unsigned kind, int fd) {
  unsigned i = 0;
  while (i < WAITING && waiting[i].fd >= 0) i++;
  if (i < WAITING)
    waiting[i] = (struct waiting){.fd = fd, .since = now(), .kind = kind};
  else
    finish(kind, NOT_MADE, fd);
}

static bool has_ended(int fd) {
  char bytes[4096];
  ssize_t n;
  while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) continue;
  return n == 0 || errno != EAGAIN;
}

/* Returns how many are left. */
static unsigned look_at_waiting(void) {
  unsigned left = 0;
  for (unsigned i = 0; i < WAITING; i++) {
    struct waiting *one = &waiting[i];
    if (one->fd < 0) continue;
    double age = by_clock_to_seconds(now() - one->since);
    bool ended = has_ended(one->fd);
    if (ended || age > KEPT_S) {
      if (age > longest) longest = age;
      finish(one->kind, ended ? WAS_REFUSED : WAS_KEPT, one->fd);
      one->fd = -1;
    } else {
      left++;
    }
  }
  return left;
}

static void make_attack(unsigned n) {
  unsigned kind = n % n_kinds;
  struct attempt attempt = {.attacker = &attacker, .to = &targets[n / n_kinds % n_targets]};
  by_rng_init(&attempt.rng, seed * 1000003 + n);
  attempt.fd = connect_to(attempt.to);
  enum outcome outcome = attempt.fd < 0 ? NOT_MADE : kinds[kind].run(&attempt, kinds[kind].variant);
  pthread_mutex_lock(&lock);
  made[kind]++;
  if (outcome == WAS_ACCEPTED || outcome == WAS_KEPT) {
    char to[BY_ADDRESS_TEXT];
    fprintf(stderr, "%s at %s, number %u, was %s\n", kinds[kind].name, by_address_print(attempt.to, to), n,
            outcome == WAS_ACCEPTED ? "accepted" : "not ended");
  }
  if (outcome == STILL_OPEN)
    leave_open(kind, attempt.fd);
  else
    finish(kind, outcome, attempt.fd);
  pthread_mutex_unlock(&lock);
}

static void *work(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    unsigned n = next_attack < count ? next_attack++ : count;
    pthread_mutex_unlock(&lock);
    if (n == count) return unused;
    uint64_t at = began + by_clock_from_seconds(n / rate), time = now();
    if (at > time) usleep((useconds_t)((at - time) / BY_MICROSECOND));
    make_attack(n);
  }
}

static void *watch(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    bool done = !look_at_waiting() && over;
    pthread_mutex_unlock(&lock);
    if (done) return unused;
    usleep(50000);
  }
}

/* ---- what was recorded */

static void read_recordings(const char *folder) {
  DIR *files = opendir(folder);
  for (struct dirent *file; files && (file = readdir(files)) && attacker.n_recordings < RECORDINGS;) {
    struct recording *recording = &attacker.recordings[attacker.n_recordings];
    char path[512], address[256];
    snprintf(address, sizeof address, "%s", file->d_name);
    char *end = strrchr(address, '-');
    if (!end) continue;
    *end = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
    FILE *in = by_address_parse(address, &recording->to) == BANYAN_OK ? fopen(path, "re") : NULL;
    if (!in) continue;
    recording->bytes = malloc(RECORDED);
    if (recording->bytes) recording->length = fread(recording->bytes, 1, RECORDED, in);
    if (recording->length) attacker.n_recordings++;
    fclose(in);
  }
  if (files) closedir(files);
}

/* ---- command line and report */

static void add_certificate(char *text, bool valid) {
  struct certificate *certificate = &attacker.certificates[attacker.n_certificates];
  char *path = strchr(text, '=');
  if (!path || attacker.n_certificates == CERTIFICATES) exit(2);
  *path++ = 0;
  attacker.n_certificates++;
  snprintf(certificate->name, sizeof certificate->name, "%s", text);
  certificate->valid = valid;
  certificate->context = make_client(text, *path ? path : NULL);
}

static void add_signer(char *text) {
  struct signer *signer = &attacker.signers[attacker.n_signers];
  char *path = strchr(text, '=');
  if (!path || attacker.n_signers == CERTIFICATES) exit(2);
  *path++ = 0;
  attacker.n_signers++;
  snprintf(signer->name, sizeof signer->name, "%s", text);
  signer->identity.context = make_client(text, path);
  if (by_tls_subject_read(SSL_CTX_get0_certificate(signer->identity.context), &signer->identity.subject) != BANYAN_OK)
    exit(2);
}

static void read_key(const char *path) {
  char text[BY_JOB_KEY_MAX], foreign[BY_JOB_KEY_TEXT];
  struct by_job_keys keys, other;
  if (by_job_key_read(path, text) != BANYAN_OK ||
      by_job_keys_derive(text, &(struct by_ticket_subject){BY_TICKET_HELPER, "attacker"}, &attacker.helper) !=
          BANYAN_OK ||
      by_job_key_create(foreign) != BANYAN_OK || by_job_keys_derive(text, NULL, &keys) != BANYAN_OK ||
      by_job_keys_derive(foreign, NULL, &other) != BANYAN_OK ||
      by_statement_name_job(&keys.job, attacker.job) != BANYAN_OK) {
    fprintf(stderr, "attack: %s\n", banyan_error_text());
    exit(2);
  }
  attacker.key = keys.own;
  attacker.foreign = other.own;
}

static int report(void) {
  unsigned long all = 0, accepted = 0, kept = 0, unreached = 0, lacking = 0;
  printf("%-32s %8s %8s %8s %8s\n", "attack", "made", "refused", "accepted", "not made");
  for (unsigned k = 0; k < n_kinds; k++) {
    const unsigned long *of = counts[k];
    printf("%-32s %8lu %8lu %8lu %8lu", kinds[k].name, made[k] - of[WAS_GENUINE], of[WAS_REFUSED], of[WAS_ACCEPTED],
           of[NOT_MADE]);
    if (of[WAS_KEPT]) printf("  and %lu not ended in %d s", of[WAS_KEPT], KEPT_S);
    if (of[WAS_GENUINE]) printf("  and %lu genuine ones, accepted", of[WAS_GENUINE]);
    printf("\n");
    if (kinds[k].genuine && made[k] >= ENOUGH && !of[WAS_GENUINE]) lacking++;
    all += made[k] - of[WAS_GENUINE];
    accepted += of[WAS_ACCEPTED];
    kept += of[WAS_KEPT];
    unreached += of[NOT_MADE];
  }
  printf("%lu attacks, %lu accepted, %lu not made; a connection was kept for %.1f s at most\n", all, accepted,
         unreached, longest);
  if (lacking) printf("nothing genuine was accepted either: is this the right key, and are these the right ports?\n");
  return accepted || kept || lacking || unreached > all / 5;
}

static void parse(int argc, char **argv) {
  static const struct option options[] = {
      {"key", 1, NULL, 'k'},        {"ranks", 1, NULL, 'r'},       {"count", 1, NULL, 'n'}, {"rate", 1, NULL, 't'},
      {"recordings", 1, NULL, 'o'}, {"certificate", 1, NULL, 'c'}, {"valid", 1, NULL, 'v'}, {"seed", 1, NULL, 's'},
      {"only", 1, NULL, 'l'},       {"statement", 1, NULL, 'm'},   {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    if (option == 'k') read_key(optarg);
    if (option == 'r') attacker.ranks = (uint32_t)strtoul(optarg, NULL, 10);
    if (option == 'n') count = (unsigned)strtoul(optarg, NULL, 10);
    if (option == 't') rate = strtod(optarg, NULL);
    if (option == 's') seed = strtoull(optarg, NULL, 10);
    if (option == 'l') only = optarg;
    if (option == 'o') read_recordings(optarg);
    if (option == 'm') add_signer(optarg);
    if (option == 'c' || option == 'v') add_certificate(optarg, option == 'v');
    if (option == '?') exit(2);
  }
  for (int i = optind; i < argc && n_targets < TARGETS; i++)
    if (by_address_parse(argv[i], &targets[n_targets++]) != BANYAN_OK) exit(2);
  if (n_targets && attacker.ranks && rate > 0) return;
  fprintf(stderr, "usage: attack --key FILE --ranks N [OPTION...] ADDRESS:PORT...\n");
  exit(2);
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS], watcher;
  struct rlimit files;
  signal(SIGPIPE, SIG_IGN);
  by_crypto_init();
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  parse(argc, argv);
  if (by_process_identity_create(&attacker.identity) != BANYAN_OK) return 2;
  n_kinds = list_kinds(&attacker, kinds, KINDS);
  for (unsigned i = 0; only && i < n_kinds; i++)
    if (!strcmp(kinds[i].name, only)) kinds[0] = kinds[i], n_kinds = 1;
  for (unsigned i = 0; i < WAITING; i++) waiting[i].fd = -1;
  began = now();
  for (unsigned i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, NULL)) return 2;
  if (pthread_create(&watcher, NULL, watch, NULL)) return 2;
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_mutex_lock(&lock);
  over = true;
  pthread_mutex_unlock(&lock);
  pthread_join(watcher, NULL);
  by_process_identity_destroy(attacker.identity);
  return report();
}
