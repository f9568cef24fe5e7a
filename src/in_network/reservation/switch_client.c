/* Connects to a switch and keeps the job's reservations granted there. */
#include "reservation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "socket.h"
#include "stream.h"

enum { NAME = 128 };

static const uint64_t retry_interval = BY_SECOND;     /* Interval of repeated requests. */
static const uint64_t timeout = 5 * BY_SECOND;        /* Timeout of a reply. */
static const uint64_t check_interval = 5 * BY_SECOND; /* Interval of requests that check the connection. */

enum state { WANTED, ASKED, GRANTED };

struct entry {
  LIST_ENTRY(entry) link;
  struct by_reservation reservation;
  enum state state;
  uint64_t asked; /* Time of the request, in ASKED. */
  bool notified;  /* The owner knows that it is not granted. */
  bool due;       /* The owner is to be notified of that, with the reason `why`. */
  enum by_reservation_lost why;
  struct by_granted granted;
};

struct by_switch_client {
  struct by_switch_client_options options;
  struct by_key key;
  struct by_process_identity *identity;
  char name[NAME], holder[BY_RESERVATION_HOLDER + 1];
  LIST_HEAD(, entry) entries;
  struct by_stream *stream;
  bool open;
  bool described; /* The last DESCRIBE was answered. */
  uint64_t described_asked;
  struct by_timer timer;
  char reason[BY_RESERVATION_REASON + 200]; /* Reason of the latest loss. */
  bool busy, destroyed;                     /* In a callback from the loop; destroyed in it. */
};

static struct entry *find_entry(const struct by_switch_client *client, uint16_t job) {
  struct entry *entry = LIST_FIRST(&client->entries);
  while (entry && entry->reservation.job != job) entry = LIST_NEXT(entry, link);
  return entry;
}

static void drop_entry(struct entry *entry) {
  LIST_REMOVE(entry, link);
  explicit_bzero(entry->reservation.secret, sizeof entry->reservation.secret);
  free(entry);
}

static void free_client(struct by_switch_client *client) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE, which the analyzer does not follow */
  while (!LIST_EMPTY(&client->entries)) drop_entry(LIST_FIRST(&client->entries));
  by_process_identity_destroy(client->identity);
  explicit_bzero(&client->key, sizeof client->key);
  free(client);
}

/* ---- notifying the owner */

static bool notify_one(struct by_switch_client *client) {
  struct entry *e;
  LIST_FOREACH(e, &client->entries, link) {
    if (!e->due) continue;
    uint16_t job = e->reservation.job;
    enum by_reservation_lost why = e->why;
    char text[sizeof client->reason];
    e->due = false;
    e->notified = true;
    memcpy(text, client->reason, sizeof text);
    if (why == BY_RESERVATION_TAKEN) drop_entry(e);
    client->options.lost(client->options.context, job, why, text);
    return true;
  }
  return false;
}

static void set_lost(struct entry *entry, enum by_reservation_lost why) {
  entry->state = WANTED;
  entry->why = why;
  entry->due = !entry->notified;
}

static void set_reason(struct by_switch_client *client, const char *reason) {
  char address[BY_ADDRESS_TEXT];
  snprintf(client->reason, sizeof client->reason, "switch %s (%s): %s", client->name,
           by_address_print(&client->options.address, address), reason);
}

/* Ends the connection. The state of all grants is then unknown. */
static void end_connection(struct by_switch_client *client, const char *reason) {
  by_stream_destroy(client->stream);
  client->stream = NULL;
  client->open = false;
  set_reason(client, reason);
  struct entry *e;
  LIST_FOREACH(e, &client->entries, link) set_lost(e, BY_RESERVATION_SILENT);
}

/* Ends a callback from the loop. The owner may change its reservations in each notification. */
static void end_callback(struct by_switch_client *client) {
  while (!client->destroyed && notify_one(client)) {
  }
  client->busy = false;
  if (client->destroyed) free_client(client);
}

/* ---- requests */

static bool send_request(struct by_switch_client *client, enum by_reservation_operation operation,
                         const struct by_reservation *reservation) {
  struct by_reservation_request request = {.operation = operation};
  struct by_text text;
  memcpy(request.holder, client->holder, sizeof request.holder);
  if (reservation) request.reservation = *reservation;
  by_text_init(&text);
  by_reservation_print_request(&request, &text);
  bool well = !text.failed && by_stream_send(client->stream, 0, by_text_get(&text), text.length) == BANYAN_OK;
  by_text_fini(&text);
  return well;
}

static void ask_for_grants(struct by_switch_client *client, uint64_t now) {
  struct entry *e;
  LIST_FOREACH(e, &client->entries, link) {
    if (e->state != WANTED || !send_request(client, BY_RESERVATION_GRANT, &e->reservation)) continue;
    e->state = ASKED;
    e->asked = now;
  }
}

static bool is_silent(const struct by_switch_client *client, uint64_t now) {
  const struct entry *e;
  if (!client->described && now >= client->described_asked + timeout) return true;
  LIST_FOREACH(e, &client->entries, link)
  if (e->state == ASKED && now >= e->asked + timeout) return true;
  return false;
}

static void send_requests(struct by_switch_client *client) {
  uint64_t now = by_loop_now(client->options.loop);
  if (!client->open) return;
  if (is_silent(client, now)) {
    end_connection(client, "no answer in time; is the host up? It is asked again every second");
    return;
  }
  ask_for_grants(client, now);
  if (client->described && now >= client->described_asked + check_interval &&
      send_request(client, BY_RESERVATION_DESCRIBE, NULL)) {
    client->described = false;
    client->described_asked = now;
  }
}

/* ---- replies */

static void handle_grant(struct by_switch_client *client, const struct by_reservation_reply *reply) {
  struct entry *entry = find_entry(client, reply->job);
  const struct by_granted *granted = &reply->granted;
  if (!entry || entry->reservation.key != reply->key) return; /* It answers an earlier request. */
  if (!reply->well) {
    set_reason(client, reply->text);
    set_lost(entry, reply->taken ? BY_RESERVATION_TAKEN : BY_RESERVATION_REFUSED);
    return;
  }
  bool news = entry->state != GRANTED || granted->slots != entry->granted.slots || granted->up != entry->granted.up ||
              granted->n_below != entry->granted.n_below ||
              memcmp(granted->below, entry->granted.below, granted->n_below) != 0;
  entry->state = GRANTED;
  entry->notified = entry->due = false;
  entry->granted = *granted;
  if (news) client->options.granted(client->options.context, reply->job, granted);
}

static void handle_reply(void *context, uint16_t type, const void *payload, size_t length) {
  struct by_switch_client *client = context;
  struct by_reservation_reply reply;
  client->busy = true;
  if (by_reservation_read_reply(payload, length, &reply) != BANYAN_OK || reply.operation == BY_RESERVATION_OPERATIONS)
    end_connection(client, "answers what cannot be understood; is it a switch of this version, and has it the key "
                           "(BANYAN_SWITCH_KEY_FILE) that the job has?");
  else if (reply.operation == BY_RESERVATION_GRANT && (!reply.well || reply.granted.n_below))
    handle_grant(client, &reply);
  else
    client->described |= reply.operation == BY_RESERVATION_DESCRIBE;
  end_callback(client);
}

static void handle_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct by_switch_client *client = context;
  client->open = client->described = true;
  client->described_asked = 0;
  by_loop_set_delay(client->options.loop, &client->timer, 0);
}

static void handle_ended(void *context, enum banyan_status status, const char *reason) {
  struct by_switch_client *client = context;
  char text[BY_RESERVATION_REASON];
  snprintf(text, sizeof text, "%s", reason);
  client->busy = true;
  end_connection(client, text);
  end_callback(client);
}

/* ---- connecting */

static enum banyan_status connect_to_switch(struct by_switch_client *client) {
  struct by_handshake_options handshake = {
      .role = BY_ROLE_CLIENT,
      .purpose = BY_RESERVATION_PURPOSE,
      .key = &client->key,
      .hello = "",
      .encryption = client->options.encryption == BY_ENCRYPT_ALWAYS ? BY_ENCRYPT_ALWAYS : BY_ENCRYPT_BETWEEN_HOSTS,
      .identity = client->identity};
  struct by_stream_options options = {.loop = client->options.loop,
                                      .connecting = &client->options.address,
                                      .handshake = client->options.key ? &handshake : NULL,
                                      .max_frame = BY_RESERVATION_LINE,
                                      .max_line = BY_RESERVATION_REPLY,
                                      .max_queued = 64 * BY_RESERVATION_LINE,
                                      .opened = handle_opened,
                                      .frame = handle_reply,
                                      .ended = handle_ended,
                                      .context = client};
  BY_TRY(by_socket_connect_start(&client->options.address, &options.fd));
  BY_TRY(by_stream_create(&options, &client->stream));
  return by_socket_set(options.fd, BY_SOCKET_USER_TIMEOUT, (int)(timeout / BY_MILLISECOND));
}

static void handle_timer(void *context) {
  struct by_switch_client *client = context;
  client->busy = true;
  if (!LIST_EMPTY(&client->entries)) by_loop_set_delay(client->options.loop, &client->timer, retry_interval);
  if (client->stream)
    send_requests(client);
  else if (!LIST_EMPTY(&client->entries) && connect_to_switch(client) != BANYAN_OK)
    end_connection(client, banyan_error_text());
  end_callback(client);
}

/* ---- functions for the owner */

enum banyan_status by_switch_client_create(const struct by_switch_client_options *options,
                                           struct by_switch_client **out) {
  char random[BY_KEY_TEXT];
  BY_TRY(by_key_random(random));
  struct by_switch_client *client = calloc(1, sizeof *client);
  *out = client;
  if (!client) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a connection to switch %s", options->name);
  client->options = *options;
  if (options->key) client->key = *options->key;
  enum banyan_status status = BANYAN_OK;
  if (options->identity)
    client->identity = by_process_identity_hold(options->identity);
  else if (options->key)
    status = by_process_identity_create(&client->identity);
  if (status != BANYAN_OK) {
    free_client(client);
    *out = NULL;
    return status;
  }
  by_keep_printable(options->name, client->name, sizeof client->name);
  if (options->family)
    snprintf(client->holder, sizeof client->holder, "%.*s/%.*s", BY_RESERVATION_FAMILY, options->family,
             BY_RESERVATION_HOLDER - BY_RESERVATION_FAMILY - 1, random);
  else
    snprintf(client->holder, sizeof client->holder, "%.*s", BY_RESERVATION_HOLDER, random);
  by_timer_init(&client->timer, handle_timer, client);
  return BANYAN_OK;
}

void by_switch_client_destroy(struct by_switch_client *client) {
  if (!client) return;
  while (!LIST_EMPTY(&client->entries)) by_switch_client_drop(client, LIST_FIRST(&client->entries)->reservation.job);
  by_loop_cancel_timer(&client->timer);
  by_stream_destroy(client->stream);
  client->stream = NULL;
  client->destroyed = true;
  if (!client->busy) free_client(client);
}

enum banyan_status by_switch_client_want(struct by_switch_client *client, const struct by_reservation *reservation) {
  BY_TRY(by_reservation_check(reservation));
  if (reservation->keyed && !client->options.key && !by_address_is_loopback(&client->options.address))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "switch %s is on another host and this job has no secret of switches: nothing shows that it is the "
                   "switch which answers; set BANYAN_SWITCH_KEY_FILE to a file with what --secret-file has there",
                   client->name);
  struct entry *entry = find_entry(client, reservation->job);
  if (entry)
    LIST_REMOVE(entry, link);
  else if (!(entry = malloc(sizeof *entry)))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a reservation at switch %s", client->name);
  *entry = (struct entry){.reservation = *reservation};
  LIST_INSERT_HEAD(&client->entries, entry, link);
  if (client->open || !client->stream) by_loop_set_delay(client->options.loop, &client->timer, 0);
  return BANYAN_OK;
}

void by_switch_client_drop(struct by_switch_client *client, uint16_t job) {
  struct entry *entry = find_entry(client, job);
  if (!entry) return;
  if (client->open && entry->state != WANTED) (void)send_request(client, BY_RESERVATION_REVOKE, &entry->reservation);
  drop_entry(entry);
}
