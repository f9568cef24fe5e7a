/* Golden lines: the JSON between ranks, agents and the manager (src/cluster/protocol), and between jobs and switches
 * (src/in_network/reservation). There is a line of every kind, with and without its optional members. Each is read
 * back and printed again. */
#include <arpa/inet.h>
#include <string.h>

#include "cluster_message.h"
#include "golden.h"
#include "reservation.h"

#define JOB "0123456789abcdef0123456789abcdef"
#define OTHER_JOB "fedcba9876543210fedcba9876543210"

/* ---- between ranks, agents and the manager ---- */

static void check_again(const struct by_text *line) {
  struct by_cluster_message message;
  struct by_text again;
  assert_ok(by_cluster_message_read(by_text_get(line), line->length, &message));
  by_text_init(&again);
  by_cluster_message_print(&message, &again);
  assert_string_equal(by_text_get(&again), by_text_get(line));
  by_text_fini(&again);
  by_cluster_message_fini(&message);
}

static bool kinds_seen[BY_MESSAGE_KINDS];

static void cluster(const char *name, struct by_cluster_message message) {
  struct by_text line;
  kinds_seen[message.type] = true;
  by_text_init(&line);
  by_cluster_message_print(&message, &line);
  golden_line(name, by_text_get(&line));
  check_again(&line);
  by_text_fini(&line);
}

static const struct by_cluster_interface interfaces[2] = {
    {.name = "eth0",
     .address = "10.0.0.1",
     .rate = 1e10,
     .sent = 5e8,
     .received = 0.1,
     .ours_sent = 4e8,
     .ours_received = 3,
     .neighbour = "s1",
     .neighbour_port = "p3"},
    {.name = "eth1", .address = ""},
};

static void test_hellos(void **state) {
  (void)state;
  cluster("hello of an agent", (struct by_cluster_message){.type = BY_MESSAGE_HELLO,
                                                           .version = BY_CLUSTER_VERSION,
                                                           .host = "h\"1\\",
                                                           .may_help = true,
                                                           .may_serve = true,
                                                           .age = 2.5,
                                                           .n_interfaces = 2,
                                                           .interfaces = interfaces});
  cluster("hello of a young agent",
          (struct by_cluster_message){.type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = "h1"});
  static const struct by_cluster_aggregates aggregates[2] = {
      {.cells = 4096, .bytes = 2048, .address = "10.0.0.1:7613", .key = "secret", .float32 = true},
      {.cells = 1, .bytes = 1024, .address = "10.0.0.2:7613"}};
  cluster("hello of a switch",
          (struct by_cluster_message){
              .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = "s1", .aggregates = &aggregates[0]});
  cluster("hello of a switch without a secret",
          (struct by_cluster_message){
              .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = "s2", .aggregates = &aggregates[1]});
  cluster("hello of a rank",
          (struct by_cluster_message){
              .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = "h1", .job = JOB, .rank = 65535});
  cluster("welcome of an agent",
          (struct by_cluster_message){
              .type = BY_MESSAGE_WELCOME, .version = BY_CLUSTER_VERSION, .host = "h1", .interval = 0.5, .rate = 1e9});
  cluster("welcome of a manager",
          (struct by_cluster_message){.type = BY_MESSAGE_WELCOME, .version = BY_CLUSTER_VERSION, .interval = 5});
  cluster("refused", (struct by_cluster_message){.type = BY_MESSAGE_REFUSED, .why = "there is another \"h1\""});
  cluster("again", (struct by_cluster_message){.type = BY_MESSAGE_AGAIN});
  cluster("certify", (struct by_cluster_message){.type = BY_MESSAGE_CERTIFY, .job = JOB, .process = JOB OTHER_JOB});
  cluster("certified", (struct by_cluster_message){.type = BY_MESSAGE_CERTIFIED, .statement = "00ff"});
  cluster("status", (struct by_cluster_message){.type = BY_MESSAGE_STATUS});
}

static void test_jobs(void **state) {
  static const char *const hosts[3] = {"a", "b", "a"};
  (void)state;
  struct by_cluster_message job = {
      .type = BY_MESSAGE_JOB, .job = JOB, .name = "train", .root = "[fd00::1]:7000", .n_hosts = 3, .hosts = hosts};
  cluster("job", job);
  job.key = "secret";
  job.began = 1790000000.125;
  cluster("job with a key and its time", job);
  job.own_plan = "by hand";
  job.plan = "{\"format\":\"banyan-plan 1\"}";
  job.replace_plan = true;
  job.ways = "ring,switches";
  job.tree_penalty = 0.02;
  job.steps = 8;
  job.trees = 4;
  cluster("job with a plan and wishes", job);
  cluster("left", (struct by_cluster_message){.type = BY_MESSAGE_LEFT, .job = JOB, .rank = 5});
}

static void test_reports(void **state) {
  static const uint32_t ranks[2] = {0, 3};
  static const struct by_cluster_size sizes[2] = {{20, 8}, {63, 1ull << 62}};
  static const struct by_cluster_path paths[2] = {{.to = "b", .sent = 1e8, .busy = 0.5, .bandwidth = 2e8}, {.to = "c"}};
  static const struct by_cluster_job jobs[2] = {{.job = JOB,
                                                 .class_ = 2,
                                                 .n_ranks = 2,
                                                 .ranks = ranks,
                                                 .n_paths = 2,
                                                 .paths = paths,
                                                 .n_sizes = 2,
                                                 .sizes = sizes,
                                                 .iterations = 7,
                                                 .expected = 500,
                                                 .ends_in = 3600,
                                                 .iteration_time = 0.25,
                                                 .sent = INT64_MAX,
                                                 .input = 4096,
                                                 .calls = 9},
                                                {.job = OTHER_JOB, .class_ = 3}};
  (void)state;
  cluster("report",
          (struct by_cluster_message){
              .type = BY_MESSAGE_REPORT, .n_interfaces = 2, .interfaces = interfaces, .n_jobs = 2, .jobs = jobs});
  cluster("report of a switch",
          (struct by_cluster_message){
              .type = BY_MESSAGE_REPORT, .n_interfaces = 1, .interfaces = interfaces, .used_cells = 96});
  cluster("report of nothing", (struct by_cluster_message){.type = BY_MESSAGE_REPORT});
  cluster("classes", (struct by_cluster_message){.type = BY_MESSAGE_CLASSES, .n_jobs = 2, .jobs = jobs});
}

static void test_plans(void **state) {
  (void)state;
  struct by_cluster_message plan = {
      .type = BY_MESSAGE_PLAN, .job = JOB, .number = 3, .plan = "{\"format\":[1,2],\"name\":\"p\"}"};
  cluster("plan", plan);
  static const struct by_cluster_switch switches[2] = {{.at = "s1", .address = "10.0.0.1:7613", .key = "secret"},
                                                       {.at = "s2", .address = "10.0.0.2:7613"}};
  static const struct by_cluster_cells cells[2] = {{.at = "s1", .server = "h0/0", .slots = 64},
                                                   {.at = "s2", .server = "h0/0", .slots = 32}};
  plan.n_switches = plan.n_cells = 2;
  plan.switches = switches;
  plan.cells = cells;
  plan.replace_plan = true;
  cluster("plan with switches", plan);
  plan.topology = "{\"format\":\"banyan-topology 1\"}";
  cluster("plan with a topology", plan);
  plan.topology = NULL;
  plan.replace_plan = false;
  plan.n_switches = plan.n_cells = 0;
  /* The plan is sent as one line, which differs from what reading it gives. */
  plan.plan = "{\"format\": [1,\n 2],\r\n \"name\": \"p\"}\n";
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(&plan, &line);
  golden_line("plan with line breaks", by_text_get(&line));
  by_text_fini(&line);
  cluster("switched",
          (struct by_cluster_message){.type = BY_MESSAGE_SWITCHED, .job = JOB, .number = 3, .at = 1ull << 60});
  cluster("kept", (struct by_cluster_message){.type = BY_MESSAGE_KEPT, .job = JOB, .number = 3, .why = "no helper h9"});
}

static void test_helpers(void **state) {
  (void)state;
  cluster("help", (struct by_cluster_message){
                      .type = BY_MESSAGE_HELP, .job = JOB, .root = "h:1", .key = "secret", .helper = "h9"});
  cluster("help by a server", (struct by_cluster_message){.type = BY_MESSAGE_HELP,
                                                          .job = JOB,
                                                          .root = "h:1",
                                                          .key = "secret",
                                                          .helper = "h9",
                                                          .server = true,
                                                          .trees = 2});
  cluster("release", (struct by_cluster_message){.type = BY_MESSAGE_REST, .job = JOB});
  cluster("release of a server", (struct by_cluster_message){.type = BY_MESSAGE_REST, .job = JOB, .server = true});
  cluster("helping",
          (struct by_cluster_message){.type = BY_MESSAGE_HELPING, .job = JOB, .helper = "h9", .joined = true});
  cluster("serving", (struct by_cluster_message){
                         .type = BY_MESSAGE_HELPING, .job = JOB, .helper = "h9", .server = true, .joined = true});
  cluster("not helping",
          (struct by_cluster_message){.type = BY_MESSAGE_HELPING, .job = JOB, .helper = "h9", .why = "it has ended"});
}

static void test_offers(void **state) {
  static const char *const hosts[] = {"h3", "h4"};
  (void)state;
  cluster("wanted", (struct by_cluster_message){.type = BY_MESSAGE_WANTED, .number = 7, .count = 2});
  cluster("offered",
          (struct by_cluster_message){.type = BY_MESSAGE_OFFERED, .number = 7, .n_hosts = 2, .hosts = hosts});
}

static void test_meetings(void **state) {
  static const char *const handles[] = {"banyan1:a", "banyan1:b"};
  (void)state;
  cluster("meet", (struct by_cluster_message){
                      .type = BY_MESSAGE_MEET, .job = JOB, .number = 7, .count = 2, .handle = "banyan1:a"});
  cluster("meet of a member",
          (struct by_cluster_message){
              .type = BY_MESSAGE_MEET, .job = JOB, .number = 7, .count = 2, .handle = "banyan1:a", .member = true});
  cluster("parted", (struct by_cluster_message){.type = BY_MESSAGE_PARTED, .job = JOB, .number = 7});
  cluster("members of a first group",
          (struct by_cluster_message){
              .type = BY_MESSAGE_MEMBERS, .job = JOB, .number = 7, .attempt = 3, .n_handles = 2, .handles = handles});
  cluster("members to ask",
          (struct by_cluster_message){
              .type = BY_MESSAGE_MEMBERS, .job = JOB, .number = 7, .n_handles = 1, .handles = handles});
}

static void test_cells(void **state) {
  static const struct by_cluster_cells cells[2] = {
      {.at = "s1", .server = "h0", .slots = 64, .bytes = 4096, .has = true, .given = 32}, {.at = "s2", .slots = 8}};
  (void)state;
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = JOB, .n_cells = 2, .cells = cells};
  cluster("reserve", message);
  message.type = BY_MESSAGE_CELLS;
  cluster("cells", message);
  message.n_cells = 0;
  cluster("no cells", message);
  cluster("released", (struct by_cluster_message){.type = BY_MESSAGE_RELEASED, .job = JOB, .number = 3});
}

static void test_all_kinds(void **state) {
  (void)state;
  for (int type = 0; type < BY_MESSAGE_KINDS; type++)
    if (!kinds_seen[type])
      fail_msg("there is no golden line of kind %s", by_cluster_type_name((enum by_cluster_type)type));
}

/* ---- between jobs and switches ---- */

static void request(const char *name, const struct by_reservation_request *wanted) {
  struct by_reservation_request read;
  struct by_text line, again;
  by_text_init(&line);
  by_text_init(&again);
  by_reservation_print_request(wanted, &line);
  golden_line(name, by_text_get(&line));
  assert_ok(by_reservation_read_request(by_text_get(&line), line.length, &read));
  by_reservation_print_request(&read, &again);
  assert_string_equal(by_text_get(&again), by_text_get(&line));
  by_text_fini(&line);
  by_text_fini(&again);
}

static void reply(const char *name, const struct by_reservation_reply *given) {
  struct by_reservation_reply read;
  struct by_text line, again;
  by_text_init(&line);
  by_text_init(&again);
  by_reservation_print_reply(given, &line);
  golden_line(name, by_text_get(&line));
  assert_ok(by_reservation_read_reply(by_text_get(&line), line.length, &read));
  by_reservation_print_reply(&read, &again);
  assert_string_equal(by_text_get(&again), by_text_get(&line));
  by_text_fini(&line);
  by_text_fini(&again);
}

static struct by_udp_end end_of(const char *host, uint16_t port) {
  struct by_address address;
  assert_ok(by_address_parse_host(host, port, &address));
  return by_udp_end_of(&address);
}

static void test_requests(void **state) {
  (void)state;
  request("switch, describe", &(struct by_reservation_request){.operation = BY_RESERVATION_DESCRIBE});
  request("switch, status", &(struct by_reservation_request){.operation = BY_RESERVATION_STATUS});
  struct by_reservation_request grant = {.operation = BY_RESERVATION_GRANT, .holder = "job \"a\""};
  grant.reservation = (struct by_reservation){.job = 65535, .key = 1, .place = 7, .slots = 65536, .up = "eth0"};
  grant.reservation.server = end_of("10.0.0.9", 7612);
  grant.reservation.n_below = 1;
  grant.reservation.below[0] = (struct by_reservation_below){.interface = "eth1", .n = 1};
  grant.reservation.workers[grant.reservation.n_workers++] = end_of("10.0.0.1", 7612);
  request("switch, grant with a worker", &grant);
  grant.reservation.float32 = true;
  grant.reservation.n_below = 2;
  grant.reservation.below[1] =
      (struct by_reservation_below){.interface = "eth2", .is_switch = true, .first = 1, .n = 2};
  grant.reservation.workers[grant.reservation.n_workers++] = end_of("10.0.1.1", 1);
  grant.reservation.workers[grant.reservation.n_workers++] = end_of("10.0.1.2", 65535);
  request("switch, grant of float32 with a switch below", &grant);
  grant.reservation.server = end_of("fd00::9", 7612);
  for (unsigned w = 0; w < 3; w++) grant.reservation.workers[w] = end_of("fd00::1:ffff", (uint16_t)(7612 + w));
  request("switch, grant of IPv6", &grant);
  grant.operation = BY_RESERVATION_REVOKE;
  request("switch, revoke", &grant);
}

static void test_replies(void **state) {
  (void)state;
  struct by_reservation_reply granted = {.operation = BY_RESERVATION_GRANT, .well = true, .job = 7, .key = 1};
  granted.granted = (struct by_granted){.slots = 256, .up = 2, .n_below = 3, .below = {0, 1, 63}};
  reply("switch, granted", &granted);
  reply("switch, revoked", &(struct by_reservation_reply){.operation = BY_RESERVATION_REVOKE, .well = true, .job = 7});
  reply("switch, grant failed",
        &(struct by_reservation_reply){
            .operation = BY_RESERVATION_GRANT, .job = 7, .key = 1, .text = "no interface \"eth7\""});
  reply("switch, grant taken",
        &(struct by_reservation_reply){
            .operation = BY_RESERVATION_GRANT, .job = 7, .key = 1, .taken = true, .text = "another's"});
  reply("switch, revoke failed",
        &(struct by_reservation_reply){.operation = BY_RESERVATION_REVOKE, .job = 7, .text = "not yours"});
  reply("switch, unreadable",
        &(struct by_reservation_reply){.operation = BY_RESERVATION_OPERATIONS, .text = "no JSON"});
}

int golden_lines(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hellos),   cmocka_unit_test(test_jobs),    cmocka_unit_test(test_reports),
      cmocka_unit_test(test_plans),    cmocka_unit_test(test_helpers), cmocka_unit_test(test_offers),
      cmocka_unit_test(test_meetings), cmocka_unit_test(test_cells),   cmocka_unit_test(test_all_kinds),
      cmocka_unit_test(test_requests), cmocka_unit_test(test_replies), cmocka_unit_test(golden_end),
  };
  golden_begin("lines", "JSON between ranks, agents and the manager, and between jobs and switches.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
