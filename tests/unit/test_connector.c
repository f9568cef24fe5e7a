#include "connector.h"
#include "job_keys.h"
#include "job_state.h"
#include "key_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "connection.h"
#include "refusal.h"
#include "socket.h"

enum { MANY = 1500 };

static void attach(void *context, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct by_job *job = context;
  by_job_lock(job);
  by_engine_attach(job->engine, process, lanes, n);
  by_job_unlock(job);
}

/* Rank 0 can be asked, but never answers. */
static bool ask(void *context) {
  (void)context;
  return true;
}

static struct by_connector_events events_of(struct by_job *job) {
  return (struct by_connector_events){attach, ask, job};
}

/* A world is a job of many ranks, of which this is the last one. No other rank runs. */
struct world {
  struct by_job job;
  struct by_connector *connector;
  int peer; /* This socket listens for the last rank but one. */
};

static void make_peer(struct world *world, struct by_address *address) {
  struct by_address at;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &world->peer, address));
}

static void make_world(struct world *world) {
  static struct by_address address;
  struct by_job *c = &world->job;
  *c = (struct by_job){.rank = MANY - 1, .size = MANY, .processes = MANY, .wake = eventfd(0, EFD_NONBLOCK)};
  c->settings = (struct by_settings){.transport = "tcp", .iface = "", .connections = "1", .tos = -1};
  by_arena_init(&c->arena);
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&by_clock_system, &c->loop));
  struct by_engine_options options = {.processes = MANY, .self = MANY - 1};
  assert_ok(by_engine_create(&options, &c->engine));
  make_peer(world, &address);
  c->members = calloc(MANY, sizeof *c->members);
  c->names = calloc(MANY, sizeof *c->names);
  c->left = calloc(MANY, sizeof *c->left);
  for (uint32_t i = 0; i < MANY; i++) {
    c->members[i] = (struct by_member){.host = "here", .machine = "this", .local = ""};
    c->names[i] = "a rank";
  }
  c->members[MANY - 2].addresses = &address;
  c->members[MANY - 2].n_addresses = 1;
  struct by_member self = {.host = "here", .machine = "this"};
  struct by_connector_events events = events_of(c);
  assert_ok(by_connector_create(c, &self, &events, &world->connector));
  assert_ok(by_connector_open(world->connector));
}

static void free_world(struct world *world) {
  struct by_job *c = &world->job;
  by_connector_destroy(world->connector);
  by_engine_destroy(c->engine);
  by_key_ring_destroy(c->keys);
  by_loop_destroy(c->loop);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  by_arena_fini(&c->arena);
  close(c->wake);
  close(world->peer);
  free(c->members);
  free(c->names);
  free(c->left);
}

/* More links are requested at once than a loop's queue has places: the last one is made too. */
static void test_many_requests(void **state) {
  (void)state;
  struct world world;
  int fd = -1;
  make_world(&world);
  for (uint32_t i = 0; i < MANY - 1; i++) by_connector_want(world.connector, i);
  for (int i = 0; i < 1000 && fd < 0; i++) {
    assert_ok(by_loop_run_once(world.job.loop, 10 * BY_MILLISECOND));
    assert_ok(by_socket_accept(world.peer, &fd, NULL));
  }
  assert_true(fd >= 0);
  close(fd);
  free_world(&world);
}

/* ---- verdicts ---- */

/* A helper, by the test's clock, that cannot reach a process of its job: the job has one rank and two helpers. */
struct unreachable {
  struct by_job job;
  struct by_connector connector;
  struct by_connect_target target;
  struct by_clock clock;
  uint64_t now;
  bool left[3];
  const char *names[3];
  struct by_member members[3];
};

static uint64_t now_of(void *context) {
  return ((struct unreachable *)context)->now;
}

static void make_unreachable(struct unreachable *unreachable, uint32_t peer) {
  struct by_engine_options options = {.processes = 3, .self = 2};
  *unreachable = (struct unreachable){.names = {"a rank", "a helper", "this helper"},
                                      .members = {{.machine = "far"}, {.machine = "far"}, {.machine = "this"}}};
  struct by_job *c = &unreachable->job;
  *c = (struct by_job){.rank = 2, .size = 1, .processes = 3, .wake = -1, .left = unreachable->left};
  c->names = unreachable->names;
  c->members = unreachable->members;
  unreachable->connector.job = c;
  unreachable->connector.events = events_of(c);
  unreachable->clock = (struct by_clock){now_of, unreachable};
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&unreachable->clock, &c->loop));
  assert_ok(by_engine_create(&options, &c->engine));
  by_target_init(&unreachable->target, &unreachable->connector, peer);
  by_target_fail(&unreachable->target, "no route");
}

static enum banyan_status status_after(struct unreachable *unreachable, double seconds) {
  for (uint64_t end = unreachable->now + by_clock_from_seconds(seconds); unreachable->now < end;
       unreachable->now += BY_SECOND / 10)
    assert_ok(by_loop_run_once(unreachable->job.loop, 0));
  return by_engine_status(unreachable->job.engine);
}

static void free_unreachable(struct unreachable *unreachable) {
  struct by_job *c = &unreachable->job;
  by_target_fini(&unreachable->target);
  by_loop_destroy(c->loop);
  by_engine_destroy(c->engine);
  by_key_ring_destroy(c->keys);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
}

/* A rank's loss is reported at once. The loss of a helper's host is detected by asking it and waiting in vain. */
static void test_verdicts(void **state) {
  struct unreachable unreachable;
  (void)state;
  make_unreachable(&unreachable, 0);
  assert_status(status_after(&unreachable, 2), BANYAN_ERR_CONNECT);
  free_unreachable(&unreachable);
  make_unreachable(&unreachable, 1);
  assert_ok(status_after(&unreachable, 5.5));
  assert_status(status_after(&unreachable, 2), BANYAN_ERR_CONNECT);
  free_unreachable(&unreachable);
  make_unreachable(&unreachable, 1);
  assert_ok(status_after(&unreachable, 5.5));
  by_engine_lost(unreachable.job.engine, 1);
  assert_ok(status_after(&unreachable, 20));
  free_unreachable(&unreachable);
}

/* ---- addresses, by the test's clock: the first accepts connections and sends nothing, the second is rank 0's ---- */

struct pair {
  struct by_job job;
  struct by_connector connector;
  struct by_connect_target target;
  struct by_clock clock;
  uint64_t now;
  bool left[2];
  const char *names[2];
  struct by_member members[2];
  struct by_address addresses[2];
  int listeners[2];
};

static uint64_t now_of_pair(void *context) {
  return ((struct pair *)context)->now;
}

static void make_pair(struct pair *pair) {
  struct by_engine_options options = {.processes = 2, .self = 1};
  *pair = (struct pair){.names = {"rank 0", "rank 1"}, .now = BY_SECOND};
  struct by_job *c = &pair->job;
  for (int i = 0; i < 2; i++) {
    struct by_address at;
    pair->members[i] = (struct by_member){.host = "here", .machine = "this", .local = ""};
    assert_ok(by_address_parse("127.0.0.1:0", &at));
    assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &pair->listeners[i], &pair->addresses[i]));
  }
  pair->members[0].addresses = pair->addresses;
  pair->members[0].n_addresses = 2;
  *c = (struct by_job){.rank = 1, .size = 2, .processes = 2, .wake = -1, .left = pair->left};
  c->settings = (struct by_settings){.transport = "tcp", .iface = "", .connections = "2", .tos = -1};
  c->names = pair->names;
  c->members = pair->members;
  pair->connector.job = c;
  pair->connector.events = events_of(c);
  pair->clock = (struct by_clock){now_of_pair, pair};
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&pair->clock, &c->loop));
  assert_ok(by_engine_create(&options, &c->engine));
  by_target_init(&pair->target, &pair->connector, 0);
}

static void free_pair(struct pair *pair) {
  struct by_job *c = &pair->job;
  by_target_fini(&pair->target);
  by_loop_destroy(c->loop);
  by_engine_destroy(c->engine);
  by_key_ring_destroy(c->keys);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  for (int i = 0; i < 2; i++) close(pair->listeners[i]);
}

static void run_pair(struct pair *pair) {
  for (int i = 0; i < 20; i++) assert_ok(by_loop_run_once(pair->job.loop, BY_MILLISECOND));
}

/* Takes the connection that arrives at this address. */
static int take_connection(struct pair *pair, int address) {
  int fd = -1;
  for (int i = 0; i < 2000 && fd < 0; i++) {
    assert_ok(by_loop_run_once(pair->job.loop, BY_MILLISECOND));
    assert_ok(by_socket_accept(pair->listeners[address], &fd, NULL));
  }
  assert_true(fd >= 0);
  return fd;
}

/* Answers as rank 0 does. */
static void shake_hands(struct pair *pair, int fd) {
  struct by_handshake server;
  uint8_t hello[HELLO], byte;
  by_hello_write(&(struct by_link_hello){.from = 0, .to = UINT32_MAX, .lanes = 1}, hello);
  struct by_job_keys keys;
  by_key_ring_get(pair->job.keys, &keys);
  struct by_handshake_options options = {
      .role = BY_ROLE_SERVER, .key = &keys.own, .hello = hello, .hello_length = sizeof hello};
  assert_ok(by_handshake_init(&server, &options));
  for (int i = 0; i < 20000 && !by_handshake_done(&server); i++) {
    size_t used, length;
    if (recv(fd, &byte, 1, 0) == 1)
      assert_ok(by_handshake_feed(&server, &byte, 1, &used));
    else
      assert_ok(by_loop_run_once(pair->job.loop, BY_MILLISECOND));
    const uint8_t *bytes = by_handshake_output(&server, &length);
    if (!length) continue;
    assert_int_equal(send(fd, bytes, length, 0), length);
    by_handshake_sent(&server, length);
  }
  assert_true(by_handshake_done(&server));
  by_handshake_fini(&server);
}

/* The connection to the second address waits while the first one is silent. By then the other end of the second may
 * have closed it, so it is made again; so is a further connection of the link that its other end closes. */
static void test_connections_that_are_closed(void **state) {
  (void)state;
  struct pair pair;
  char byte;
  make_pair(&pair);
  by_target_begin(&pair.target);
  int silent = take_connection(&pair, 0);
  pair.now += BY_SECOND / 5;
  int waits = take_connection(&pair, 1);
  run_pair(&pair);
  assert_int_equal(recv(waits, &byte, 1, 0), -1);
  pair.now += GREET_S * BY_SECOND;
  int first = take_connection(&pair, 1);
  assert_int_equal(recv(waits, &byte, 1, 0), 0);
  shake_hands(&pair, first);
  /* This is the link's second connection, to the address that sends no greeting. */
  int other = take_connection(&pair, 0);
  run_pair(&pair);
  pair.now += GREET_S * BY_SECOND;
  int further = take_connection(&pair, 1);
  close(further);
  run_pair(&pair);
  pair.now += AGAIN_MS * BY_MILLISECOND;
  int again = take_connection(&pair, 1);
  assert_ok(by_engine_status(pair.job.engine));
  close(silent);
  close(other);
  close(waits);
  close(first);
  close(again);
  free_pair(&pair);
}

/* ---- incoming connections: rank 0 of two ranks, whose own addresses are those that it listens on ---- */

enum { FLOOD = 240, LANES = 2 };

struct flooded {
  struct by_job job;
  struct by_clock clock;
  uint64_t now;
  struct by_connector *connector;
  struct by_address address;
  bool left[4];
  const char *names[4];
  struct by_member members[4]; /* helpers behind the ranks */
  int fds[FLOOD];
  uint32_t attached; /* The number of lanes of the link to rank 1, once it has begun. */
};

static void attach_flooded(void *context, uint32_t process, struct by_lane *const *lanes, uint32_t n) {
  struct flooded *flooded = context;
  flooded->attached = n;
  attach(&flooded->job, process, lanes, n);
}

static uint64_t now_of_flooded(void *context) {
  return ((struct flooded *)context)->now;
}

static void make_flooded(struct flooded *flooded) {
  struct by_engine_options options = {.processes = 2};
  *flooded = (struct flooded){.names = {"rank 0", "rank 1", "helper 2", "helper 3"}, .now = BY_SECOND};
  struct by_job *c = &flooded->job;
  for (int i = 0; i < 4; i++)
    flooded->members[i] = (struct by_member){
        .host = "here", .machine = "this", .local = "", .kind = i < 2 ? BY_MEMBER_RANK : BY_MEMBER_HELPER};
  *c = (struct by_job){.size = 2, .processes = 2, .wake = eventfd(0, EFD_NONBLOCK), .left = flooded->left};
  c->settings = (struct by_settings){.transport = "tcp", .iface = "", .connections = "2", .tos = -1};
  c->names = flooded->names;
  c->members = flooded->members;
  flooded->clock = (struct by_clock){now_of_flooded, flooded};
  by_arena_init(&c->arena);
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&flooded->clock, &c->loop));
  assert_ok(by_engine_create(&options, &c->engine));
  struct by_connector_events events = {attach_flooded, ask, flooded};
  assert_ok(by_connector_create(c, &flooded->members[0], &events, &flooded->connector));
  assert_ok(by_connector_open(flooded->connector));
  assert_true(flooded->members[0].n_addresses > 0);
  flooded->address = flooded->members[0].addresses[0];
}

static void free_flooded(struct flooded *flooded) {
  struct by_job *c = &flooded->job;
  by_connector_destroy(flooded->connector);
  by_engine_destroy(c->engine);
  by_key_ring_destroy(c->keys);
  by_loop_destroy(c->loop);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  by_arena_fini(&c->arena);
  close(c->wake);
}

static void run_flooded(struct flooded *flooded) {
  for (int i = 0; i < 20; i++) assert_ok(by_loop_run_once(flooded->job.loop, BY_MILLISECOND));
}

static int connect_flooded(struct flooded *flooded) {
  int fd = socket(by_address_family(&flooded->address), SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&flooded->address.storage, flooded->address.length), 0);
  return fd;
}

/* A connection of rank 1, and its end of the handshake. */
struct proving {
  struct by_handshake handshake;
  uint8_t hello[HELLO];
  int fd;
};

static void send_proving(struct proving *proving) {
  size_t length;
  const uint8_t *bytes = by_handshake_output(&proving->handshake, &length);
  if (!length) return;
  assert_int_equal(send(proving->fd, bytes, length, MSG_NOSIGNAL), length);
  by_handshake_sent(&proving->handshake, length);
}

/* Connects and sends the greeting. */
static void greet(struct flooded *flooded, struct proving *proving, uint8_t lane) {
  proving->fd = connect_flooded(flooded);
  by_hello_write(&(struct by_link_hello){.from = 1, .to = 0, .lane = lane, .lanes = LANES}, proving->hello);
  struct by_job_keys keys;
  by_key_ring_get(flooded->job.keys, &keys);
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = PURPOSE_TCP,
                                         .key = &keys.own,
                                         .hello = proving->hello,
                                         .hello_length = sizeof proving->hello};
  assert_ok(by_handshake_init(&proving->handshake, &options));
  send_proving(proving);
  run_flooded(flooded);
}

/* Sends the proof of the key. Fails if the connection has been closed. */
static void prove(struct flooded *flooded, struct proving *proving) {
  uint8_t byte;
  size_t used;
  for (int i = 0; i < 20000 && !by_handshake_done(&proving->handshake); i++) {
    ssize_t n = recv(proving->fd, &byte, 1, MSG_DONTWAIT);
    assert_int_not_equal(n, 0);
    if (n == 1)
      assert_ok(by_handshake_feed(&proving->handshake, &byte, 1, &used));
    else
      assert_ok(by_loop_run_once(flooded->job.loop, BY_MILLISECOND));
    send_proving(proving);
  }
  assert_true(by_handshake_done(&proving->handshake));
  by_handshake_fini(&proving->handshake);
  run_flooded(flooded);
}

/* More connections arrive than may be unauthenticated at once, and send nothing: only a limited number stay open. The
 * flood displaces neither the connection that has authenticated nor the one that has sent its greeting. */
static void test_flood(void **state) {
  (void)state;
  struct flooded flooded;
  struct proving first, second;
  char byte;
  make_flooded(&flooded);
  const struct by_connector *connector = flooded.connector;
  const struct by_connect_target *target = connector->targets[1];
  uint32_t most = by_acceptor_max_unauthenticated(96 + BY_LANES * 2), closed = 0;
  assert_true(most + 1 < FLOOD);
  greet(&flooded, &first, 0);
  prove(&flooded, &first);
  assert_int_equal(target->have, 1);
  assert_int_equal(by_admission_count(&connector->tcp_admission), 0);
  greet(&flooded, &second, 1);
  assert_int_equal(by_admission_count(&connector->tcp_admission), 1);
  for (int i = 0; i < FLOOD; i++) {
    flooded.fds[i] = connect_flooded(&flooded);
    if (i % 8 == 7) run_flooded(&flooded);
    assert_true(by_admission_count(&connector->tcp_admission) <= most);
  }
  run_flooded(&flooded);
  assert_int_equal(by_admission_count(&connector->tcp_admission), most);
  for (int i = 0; i < FLOOD; i++) closed += recv(flooded.fds[i], &byte, 1, MSG_DONTWAIT) == 0;
  assert_int_equal(closed, FLOOD - (most - 1));
  prove(&flooded, &second);
  assert_int_equal(flooded.attached, LANES);
  assert_int_equal(by_admission_count(&connector->tcp_admission), most - 1);
  assert_ok(by_engine_status(flooded.job.engine));
  assert_int_equal(recv(first.fd, &byte, 1, MSG_DONTWAIT), -1);
  for (int i = 0; i < FLOOD; i++) close(flooded.fds[i]);
  close(first.fd);
  close(second.fd);
  free_flooded(&flooded);
}

/* ---- who connects with which ticket: rank 0 of two ranks, with helpers 2 and 3 */

struct claim {
  uint32_t holder, from; /* whose ticket it shows, 0: none; who it says it is */
  const char *text;      /* NULL: it may */
};

/* A process of the job that plays by the rules of the handshake, and claims this. */
static void claims(struct flooded *flooded, const struct by_key *links, const struct claim *claim) {
  uint64_t before = by_refusals(BY_REFUSED_IDENTITY);
  struct by_job_keys keys;
  struct proving proving = {.fd = connect_flooded(flooded)};
  uint8_t head[BY_TICKET_HEAD], byte;
  by_hello_write(&(struct by_link_hello){.from = claim->from, .to = 0, .lanes = LANES}, proving.hello);
  by_key_ring_get(flooded->job.keys, &keys);
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = PURPOSE_TCP,
                                         .key = &keys.own,
                                         .hello = proving.hello,
                                         .hello_length = sizeof proving.hello};
  if (claim->holder) {
    assert_ok(by_links_ticket(&flooded->job, claim->holder, head));
    assert_ok(by_ticket_prove(links, head, &keys.own));
    options.ticket = head;
    options.purpose |= BY_PURPOSE_HELPER;
  }
  assert_ok(by_handshake_init(&proving.handshake, &options));
  send_proving(&proving);
  run_flooded(flooded);
  prove(flooded, &proving);
  assert_int_equal(recv(proving.fd, &byte, 1, MSG_DONTWAIT), claim->text ? 0 : -1);
  assert_int_equal(by_refusals(BY_REFUSED_IDENTITY), before + (claim->text != NULL));
  assert_int_equal(flooded->connector->targets[claim->from]->have, claim->text == NULL);
  if (claim->text) assert_non_null(strstr(banyan_error_text(), claim->text));
  close(proving.fd);
}

static void test_tickets(void **state) {
  (void)state;
  static const struct claim all[] = {
      {2, 1, "rank 1 connects with the ticket of a helper or server"},
      {0, 2, "helper 2 connects without the ticket of a helper or server"},
      {2, 3, "helper 3 connects with the ticket of another one"},
      {2, 2, NULL},
      {3, 3, NULL},
      {0, 1, NULL},
  };
  struct flooded flooded;
  struct by_key links = {{7}};
  make_flooded(&flooded);
  flooded.job.processes = 4;
  for (int i = 2; i < 4; i++) assert_ok(by_connector_add(flooded.connector));
  assert_ok(by_connector_take_keys(flooded.connector, &links, NULL, 0));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) claims(&flooded, &links, &all[i]);
  free_flooded(&flooded);
}

/* Prevents this process from opening descriptors for some seconds of the job's clock. */
static void run_without_descriptors(struct flooded *flooded, int seconds) {
  struct rlimit kept, none;
  enum banyan_status status = BANYAN_OK;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  none = kept;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 2 * seconds && status == BANYAN_OK; i++) {
    status = by_loop_run_once(flooded->job.loop, 10 * BY_MILLISECOND);
    flooded->now += BY_SECOND / 2;
  }
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  assert_ok(status);
}

/* Without descriptors, a connection waits as long as no call needs it, and is accepted afterwards. A call that waits
 * for its peer's connection fails, and the error gives the reason. */
static void test_no_descriptors(void **state) {
  (void)state;
  struct flooded flooded;
  struct by_team *team;
  struct by_plan *plan;
  struct by_call *started;
  uint32_t all[] = {0, 1};
  float data[4] = {0};
  make_flooded(&flooded);
  struct by_job *c = &flooded.job;
  int waits = connect_flooded(&flooded);
  run_without_descriptors(&flooded, 20);
  assert_ok(by_engine_status(c->engine));
  assert_int_equal(by_admission_count(&flooded.connector->tcp_admission), 0);
  flooded.now += BY_SECOND;
  run_flooded(&flooded);
  assert_int_equal(by_admission_count(&flooded.connector->tcp_admission), 1);

  assert_ok(by_team_create(c->engine, 0, 0, 2, all, &team));
  assert_ok(by_plan_builtin("star", 2, &plan));
  by_team_set_plan(team, plan);
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .count = 4,
                             .send = data,
                             .recv = data};
  assert_ok(by_engine_start(team, &call, 0, &started));
  flooded.now += 10 * BY_SECOND;
  run_flooded(&flooded);
  int needed = connect_flooded(&flooded);
  run_without_descriptors(&flooded, 20);
  assert_status(by_engine_status(c->engine), BANYAN_ERR_CONNECT);
  assert_non_null(strstr(by_engine_get_state(c->engine)->error, "takes no connections"));
  by_call_release(started);
  by_team_destroy(team);
  close(waits);
  close(needed);
  free_flooded(&flooded);
}

/* ---- hellos ---- */

static enum banyan_status read_hello(struct by_link_hello hello, size_t length) {
  struct by_job job = {.rank = 2, .size = 4, .processes = 4};
  struct by_link_hello out;
  uint8_t bytes[HELLO + 1] = {0};
  by_hello_write(&hello, bytes);
  return by_hello_read(&job, bytes, length, &out);
}

static void test_hello(void **state) {
  (void)state;
  struct by_link_hello good = {.from = 3, .to = 2, .lane = 1, .lanes = 2}, bad = good;
  assert_ok(read_hello(good, HELLO));
  assert_status(read_hello(good, HELLO - 1), BANYAN_ERR_PROTOCOL);
  assert_status(read_hello(good, HELLO + 1), BANYAN_ERR_PROTOCOL);
  bad.from = 4;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
  bad.from = 2;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
  bad = good, bad.to = 1;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
  bad = good, bad.lane = 2;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
  bad = good, bad.lanes = BY_LANES + 1;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
  bad = good, bad.lane = bad.lanes = 0;
  assert_status(read_hello(bad, HELLO), BANYAN_ERR_PROTOCOL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_requests),
      cmocka_unit_test(test_verdicts),
      cmocka_unit_test(test_connections_that_are_closed),
      cmocka_unit_test(test_flood),
      cmocka_unit_test(test_tickets),
      cmocka_unit_test(test_no_descriptors),
      cmocka_unit_test(test_hello),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
