/* The keys of a process, derived again when their file is replaced. */
#include "key_ring.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "log.h"

/* Identifies a version of a file. */
struct state {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec changed;
};

enum { NAME = 256 };

/* In pages of its own, and copied nowhere else: leak checkers do not search them. */
struct by_key_ring {
  struct by_key job; /* As in the keys; it stays. */
  struct by_job_keys keys;
  char text[BY_JOB_KEY_MAX];
  bool helps;
  struct by_ticket_subject subject; /* Of a helper or server. */
  char name[NAME];                  /* The subject's name. */
  char path[PATH_MAX];              /* "": it does not change. */
  struct state seen;
  pthread_mutex_t lock; /* Protects all members above except the job. */
  _Atomic uint32_t holders;
};

/* ---- keys */

/* Derives the keys of one text. A helper has the secret of a ticket with this head under it. */
static enum banyan_status derive_pair(const char *text, const uint8_t *head, struct by_key *own,
                                      struct by_key *tickets) {
  char ticket_text[BY_TICKET_KEY_TEXT];
  enum banyan_status status = by_ticket_key_derive(text, ticket_text);
  if (status == BANYAN_OK) status = by_key_derive(ticket_text, tickets);
  if (status == BANYAN_OK) status = head ? by_ticket_prove(tickets, head, own) : by_key_derive(text, own);
  if (head) *tickets = *own;
  OPENSSL_cleanse(ticket_text, sizeof ticket_text);
  return status;
}

static enum banyan_status use_ticket(const char *text, const struct by_ticket_subject *subject,
                                     struct by_job_keys *out) {
  struct by_ticket ticket;
  if (!subject)
    return by_fail(BANYAN_ERR_ARGUMENT, "this is the ticket of a helper or server: give ranks the job's own key");
  BY_TRY(by_ticket_parse(text, &ticket));
  memcpy(out->ticket, ticket.head, sizeof out->ticket);
  out->own = out->tickets = ticket.secret;
  OPENSSL_cleanse(&ticket, sizeof ticket);
  return by_ticket_is_for(out->ticket, subject)
             ? BANYAN_OK
             : by_fail(BANYAN_ERR_ARGUMENT, "this is the ticket of another helper or server than %s", subject->name);
}

/* Derives the keys of a text. A helper that has issued itself a ticket with the head `before` keeps that head. */
static enum banyan_status renew_keys(const char *text, const struct by_ticket_subject *subject, const uint8_t *before,
                                     struct by_job_keys *out) {
  struct by_job_key parts;
  *out = (struct by_job_keys){.purpose = subject ? BY_PURPOSE_HELPER : 0};
  if (by_ticket_is_text(text)) return use_ticket(text, subject, out);
  const uint8_t *head = subject ? out->ticket : NULL;
  if (subject && before)
    memcpy(out->ticket, before, sizeof out->ticket);
  else if (subject)
    BY_TRY(by_ticket_begin(subject, BY_TICKET_NEVER, out->ticket));
  enum banyan_status status = by_job_key_split(text, &parts);
  if (status == BANYAN_OK) status = derive_pair(parts.now, head, &out->own, &out->tickets);
  if (status == BANYAN_OK && parts.old[0]) {
    status = derive_pair(parts.old, head, &out->old_own, &out->old_tickets);
    out->until = parts.until;
  }
  memcpy(out->job.bytes, parts.job, sizeof out->job.bytes);
  OPENSSL_cleanse(&parts, sizeof parts);
  return status;
}

enum banyan_status by_job_keys_derive(const char *text, const struct by_ticket_subject *subject,
                                      struct by_job_keys *out) {
  return renew_keys(text, subject, NULL, out);
}

/* ---- the ring */

/* The state of a file. A missing file has the empty state. */
static struct state get_state(const char *path) {
  struct stat file;
  if (stat(path, &file) != 0) return (struct state){0};
  return (struct state){file.st_dev, file.st_ino, file.st_size, file.st_ctim};
}

static bool is_same(const struct state *a, const struct state *b) {
  return a->device == b->device && a->inode == b->inode && a->size == b->size &&
         a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

enum banyan_status by_key_ring_create(const char *text, const char *path, const struct by_ticket_subject *subject,
                                      struct by_key_ring **out) {
  struct by_key_ring *ring =
      mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* Pages of its own. */
  if (ring == MAP_FAILED) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for keys");
  if (madvise(ring, sizeof *ring, MADV_DONTDUMP) != 0) by_debug("net", "core dumps contain the job's key");
  pthread_mutex_init(&ring->lock, NULL);
  ring->holders = 1;
  ring->helps = subject;
  if (subject) ring->subject = (struct by_ticket_subject){subject->kind, ring->name};
  bool fits = (!path || strlen(path) < sizeof ring->path) && (!subject || strlen(subject->name) < sizeof ring->name);
  if (fits && path) strcpy(ring->path, path);
  if (fits && subject) strcpy(ring->name, subject->name);
  enum banyan_status status = fits ? by_job_keys_derive(text, subject, &ring->keys) /* This limits the text's length. */
                                   : by_fail(BANYAN_ERR_ARGUMENT, "the path of the key file or the name is too long");
  if (status != BANYAN_OK) {
    by_key_ring_destroy(ring);
    return status;
  }
  ring->job = ring->keys.job;
  strcpy(ring->text, text);
  /* A job's key is read once more, since it may have been replaced after it was read. A ticket may be newer than the
   * file. */
  if (path && by_ticket_is_text(text)) ring->seen = get_state(path);
  *out = ring;
  return BANYAN_OK;
}

struct by_key_ring *by_key_ring_hold(struct by_key_ring *ring) {
  if (ring) ring->holders++;
  return ring;
}

void by_key_ring_destroy(struct by_key_ring *ring) {
  if (!ring || --ring->holders) return;
  pthread_mutex_destroy(&ring->lock);
  OPENSSL_cleanse(ring, sizeof *ring);
  munmap(ring, sizeof *ring);
}

static enum banyan_status read_again(const struct by_key_ring *ring, const uint8_t *ticket, char *text,
                                     struct by_job_keys *keys) {
  BY_TRY(by_job_key_read(ring->path, text));
  (void)by_job_key_drop_ended(text, time(NULL));
  BY_TRY(renew_keys(text, ring->helps ? &ring->subject : NULL, ticket, keys));
  if (CRYPTO_memcmp(&keys->job, &ring->job, sizeof keys->job) == 0) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH,
                 "key file %s: this key does not take the place of the job's: replace it by `banyan "
                 "keys rotate`, which makes one from the other",
                 ring->path);
}

/* Takes the result of reading the file, under the lock. */
static void take_keys(struct by_key_ring *ring, enum banyan_status status, const char *text,
                      const struct by_job_keys *keys) {
  if (status != BANYAN_OK) {
    by_warn("net", "the job's key stays as it was: %s", banyan_error_text());
    return;
  }
  if (CRYPTO_memcmp(&keys->own, &ring->keys.own, sizeof keys->own) != 0)
    by_info("net", "the job's key has been replaced by that of %s", ring->path);
  OPENSSL_cleanse(ring->text, sizeof ring->text);
  ring->keys = *keys;
  strcpy(ring->text, text);
}

/* Reads the file if it has changed, without the lock, since that may take long. A file that changes meanwhile is read
 * again next time: its state was taken before. */
static void follow_file(struct by_key_ring *ring) {
  struct by_job_keys keys = {.purpose = 0};
  char text[BY_JOB_KEY_MAX];
  uint8_t ticket[BY_TICKET_HEAD];
  struct state now = get_state(ring->path);
  pthread_mutex_lock(&ring->lock);
  struct state seen = ring->seen;
  memcpy(ticket, ring->keys.ticket, sizeof ticket);
  pthread_mutex_unlock(&ring->lock);
  if (is_same(&now, &seen) || !now.inode) return;
  enum banyan_status status = read_again(ring, ticket, text, &keys);
  pthread_mutex_lock(&ring->lock);
  if (is_same(&seen, &ring->seen)) { /* Otherwise another thread has read it at the same time. */
    ring->seen = now;
    take_keys(ring, status, text, &keys);
  }
  pthread_mutex_unlock(&ring->lock);
  OPENSSL_cleanse(&keys, sizeof keys);
  OPENSSL_cleanse(text, sizeof text);
}

/* Checks the file, drops an old key that has ended, and returns with the lock. */
static void lock_current(struct by_key_ring *ring) {
  if (ring->path[0]) follow_file(ring);
  pthread_mutex_lock(&ring->lock);
  if (!ring->keys.until || ring->keys.until > time(NULL)) return;
  OPENSSL_cleanse(&ring->keys.old_own, sizeof ring->keys.old_own);
  OPENSSL_cleanse(&ring->keys.old_tickets, sizeof ring->keys.old_tickets);
  ring->keys.until = 0;
  (void)by_job_key_drop_ended(ring->text, time(NULL));
}

void by_key_ring_get(struct by_key_ring *ring, struct by_job_keys *out) {
  lock_current(ring);
  *out = ring->keys;
  pthread_mutex_unlock(&ring->lock);
}

void by_job_keys_use(const struct by_job_keys *keys, bool helpers, struct by_handshake_options *handshake) {
  handshake->key = &keys->own;
  handshake->old_key = keys->until ? &keys->old_own : NULL;
  handshake->ticket = keys->purpose ? keys->ticket : NULL;
  handshake->tickets = helpers ? &keys->tickets : NULL;
  handshake->old_tickets = helpers && keys->until ? &keys->old_tickets : NULL;
}

const struct by_key *by_key_ring_job(const struct by_key_ring *ring) {
  return &ring->job;
}

void by_key_ring_text(struct by_key_ring *ring, char *out) {
  lock_current(ring);
  strcpy(out, ring->text);
  pthread_mutex_unlock(&ring->lock);
}

enum banyan_status by_key_ring_ticket_text(struct by_key_ring *ring, char *out) {
  char text[BY_JOB_KEY_MAX];
  by_key_ring_text(ring, text);
  enum banyan_status status = by_ticket_key_derive(text, out);
  OPENSSL_cleanse(text, sizeof text);
  return status;
}
