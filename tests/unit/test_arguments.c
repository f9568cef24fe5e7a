/* Every public function with NULL and with values out of range: it returns an error, or the value that its header
 * promises. The list is compared with that of the exported functions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/banyan.h>
#include <banyan/interrupted.h>

#include "check.h"
#include "job_keys.h"

static struct banyan_comm *comm;
static struct banyan_member *member;
static struct banyan_state *state;
static struct banyan_request *request;
static float memory[16];

#define REFUSES(call) assert_status(call, BANYAN_ERR_ARGUMENT)

static struct banyan_call usual(void) {
  return (struct banyan_call){.collective = BANYAN_ALLREDUCE, .send = memory, .recv = memory, .count = 4};
}

static void try_names(void) {
  for (int i = -1; i < 100; i += 100) {
    assert_string_equal(banyan_dtype_name((enum banyan_dtype)i), "?");
    assert_string_equal(banyan_op_name((enum banyan_op)i), "?");
    assert_string_equal(banyan_collective_name((enum banyan_collective)i), "?");
    assert_string_equal(banyan_plan_source_name((enum banyan_plan_source)i), "?");
    assert_string_equal(banyan_sparse_way_name((enum banyan_sparse_way)i), "?");
    assert_non_null(banyan_status_name((enum banyan_status)(i * 50)));
    assert_int_equal(banyan_dtype_size((enum banyan_dtype)i), 0);
  }
  assert_non_null(banyan_version());
  assert_non_null(banyan_error_text());
  banyan_version_numbers(NULL, NULL, NULL);
}

static void try_parsers(void) {
  enum banyan_dtype dtype;
  enum banyan_op op;
  enum banyan_collective collective;
  enum banyan_sparse_way way;
  const char *const texts[] = {NULL, "", "\n"};
  for (int i = 0; i < 3; i++) {
    REFUSES(banyan_dtype_parse(texts[i], &dtype));
    REFUSES(banyan_op_parse(texts[i], &op));
    REFUSES(banyan_collective_parse(texts[i], &collective));
    REFUSES(banyan_sparse_way_parse(texts[i], &way));
  }
  REFUSES(banyan_dtype_parse("f32", NULL));
  REFUSES(banyan_op_parse("sum", NULL));
  REFUSES(banyan_collective_parse("allreduce", NULL));
  REFUSES(banyan_sparse_way_parse("dense", NULL));
}

static void try_joining(void) {
  struct banyan_comm *other;
  struct banyan_options wrong[] = {{.rank_plus_1 = -1, .size = 2},
                                   {.size = -1},
                                   {.rank_plus_1 = 3, .size = 2},
                                   {.deadline = -1},
                                   {.deadline = (double)NAN}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) REFUSES(banyan_comm_create(&wrong[i], &other));
  REFUSES(banyan_comm_create(NULL, NULL));
  REFUSES(banyan_root_fingerprint(NULL));
  REFUSES(banyan_root_choose(true, NULL));
  REFUSES(banyan_key_create(NULL));
  REFUSES(banyan_member_create(NULL, NULL));
}

static void try_communicators(void) {
  struct banyan_comm *other;
  struct banyan_plan_info plan;
  struct banyan_counters counters = {.calls = 1};
  const int none[] = {-1}, beyond[] = {1}, twice[] = {0, 0};
  assert_int_equal(banyan_comm_rank(NULL), -1);
  assert_int_equal(banyan_comm_size(NULL), 0);
  assert_int_equal(banyan_comm_local_rank(NULL), -1);
  assert_int_equal(banyan_comm_local_size(NULL), 0);
  assert_int_equal(banyan_comm_number(NULL), 0);
  assert_int_equal(banyan_comm_calls(NULL), 0);
  assert_null(banyan_comm_host(NULL, 0));
  assert_null(banyan_comm_host(comm, -1));
  assert_null(banyan_comm_host(comm, 1));
  banyan_comm_destroy(NULL);
  banyan_comm_abort(NULL, NULL);
  banyan_comm_counters(NULL, &counters);
  assert_int_equal(counters.calls, 0);
  banyan_comm_counters(comm, NULL);
  REFUSES(banyan_comm_state(NULL));
  REFUSES(banyan_comm_split(NULL, 0, 0, &other));
  REFUSES(banyan_comm_split(comm, 0, 0, NULL));
  REFUSES(banyan_comm_duplicate(NULL, &other));
  REFUSES(banyan_comm_duplicate(comm, NULL));
  REFUSES(banyan_comm_subset(NULL, twice, 1, 0, &other));
  REFUSES(banyan_comm_subset(comm, NULL, 1, 0, &other));
  REFUSES(banyan_comm_subset(comm, twice, 1, 0, NULL));
  REFUSES(banyan_comm_subset(comm, none, 1, 0, &other));
  REFUSES(banyan_comm_subset(comm, beyond, 1, 0, &other));
  REFUSES(banyan_comm_subset(comm, twice, 2, 0, &other));
  REFUSES(banyan_comm_subset(comm, twice, 0, 0, &other));
  REFUSES(banyan_comm_subset(comm, twice, -1, 0, &other));
  REFUSES(banyan_comm_set_deadline(NULL, 1));
  REFUSES(banyan_comm_set_deadline(comm, 0));
  REFUSES(banyan_comm_set_deadline(comm, -1));
  REFUSES(banyan_comm_set_deadline(comm, (double)NAN));
  REFUSES(banyan_comm_set_tos(NULL, 0));
  REFUSES(banyan_comm_set_tos(comm, -1));
  REFUSES(banyan_comm_set_tos(comm, 256));
  REFUSES(banyan_comm_expect(NULL, 1));
  REFUSES(banyan_comm_expect(comm, UINT64_MAX));
  REFUSES(banyan_comm_plan(NULL, 1, &plan));
  REFUSES(banyan_comm_plan(comm, 1, NULL));
  REFUSES(banyan_comm_plan_of(NULL, BANYAN_REDUCE, 1, &plan));
  REFUSES(banyan_comm_plan_of(comm, BANYAN_REDUCE, 1, NULL));
  REFUSES(banyan_comm_plan_of(comm, (enum banyan_collective)99, 1, &plan));
  REFUSES(banyan_comm_set_plan(NULL, "ring"));
  assert_ok(banyan_comm_set_plan(comm, NULL)); /* the default plan */
  REFUSES(banyan_comm_propose_plan(NULL, "ring"));
  assert_ok(banyan_comm_propose_plan(comm, NULL));
}

static void try_calls(void) {
  struct banyan_call call = usual(), wrong[12];
  bool done;
  size_t index = 7;
  int source;
  for (int i = 0; i < 12; i++) wrong[i] = usual();
  wrong[0].collective = (enum banyan_collective)99;
  wrong[1].collective = (enum banyan_collective) - 1;
  wrong[2].dtype = (enum banyan_dtype)99;
  wrong[3].dtype = (enum banyan_dtype) - 1;
  wrong[4].send = NULL;
  wrong[5].recv = NULL;
  wrong[6].count = SIZE_MAX;
  wrong[7].deadline = -1;
  wrong[8].deadline = (double)NAN;
  wrong[9].collective = BANYAN_BROADCAST, wrong[9].root = 1;
  wrong[10].collective = BANYAN_SEND, wrong[10].root = -1;
  wrong[11].counts = (size_t[]){4};
  for (int i = 0; i < 12; i++) {
    REFUSES(banyan_run(comm, &wrong[i]));
    REFUSES(banyan_start(comm, &wrong[i], &request));
  }
  wrong[0] = usual();
  wrong[0].op = (enum banyan_op)99;
  REFUSES(banyan_run(comm, &wrong[0]));
  REFUSES(banyan_run(NULL, &call));
  REFUSES(banyan_run(comm, NULL));
  REFUSES(banyan_run_polling(comm, &call, NULL, NULL));
  REFUSES(banyan_run_for(NULL, &call, 1, &request));
  REFUSES(banyan_run_for(comm, NULL, 1, &request));
  REFUSES(banyan_run_for(comm, &call, 1, NULL));
  REFUSES(banyan_run_for(comm, &call, -1, &request));
  REFUSES(banyan_run_for(comm, &call, NAN, &request));
  REFUSES(banyan_start(NULL, &call, &request));
  REFUSES(banyan_start(comm, NULL, &request));
  REFUSES(banyan_start(comm, &call, NULL));
  call.collective = BANYAN_RECV;
  REFUSES(banyan_recv_any(NULL, &call, &source, &request));
  REFUSES(banyan_recv_any(comm, NULL, &source, &request));
  REFUSES(banyan_recv_any(comm, &call, NULL, &request));
  REFUSES(banyan_recv_any(comm, &call, &source, NULL));
  call.deadline = (double)NAN;
  REFUSES(banyan_recv_any(comm, &call, &source, &request));
  REFUSES(banyan_wait(NULL));
  REFUSES(banyan_test(NULL, &done));
  REFUSES(banyan_wait_for(NULL, 1, &done));
  REFUSES(banyan_wait_any(NULL, 1, &index));
  REFUSES(banyan_wait_any(&request, 1, NULL));
  REFUSES(banyan_wait_all(NULL, 1));
  assert_ok(banyan_wait_all(NULL, 0));
  assert_ok(banyan_wait_any(NULL, 0, &index));
  assert_int_equal(index, 0);
  call = usual();
  assert_ok(banyan_start(comm, &call, &request));
  REFUSES(banyan_test(request, NULL));
  REFUSES(banyan_then(request, NULL, NULL));
  REFUSES(banyan_then(NULL, NULL, NULL));
  REFUSES(banyan_wait_for(request, 1, NULL));
  REFUSES(banyan_wait_for(request, -1, &done));
  REFUSES(banyan_wait_for(request, NAN, &done));
  done = false;
  assert_ok(banyan_wait_for(request, INFINITY, &done));
  assert_true(done);
}

static void try_submissions(void) {
  struct banyan_call call = usual();
  struct banyan_submission good = {.calls = &call, .n_calls = 1},
                           wrong[] = {{.n_calls = 1}, {.calls = &call}, {.n_sparse = 1}};
  struct banyan_negotiation negotiation = {.submitted = 1};
  const char *const none[] = {NULL}, *const name[] = {"name"};
  char longest[400] = {0};
  memset(longest, 'a', sizeof longest - 1);
  REFUSES(banyan_submit(NULL, "name", &good, &request));
  REFUSES(banyan_submit(comm, NULL, &good, &request));
  REFUSES(banyan_submit(comm, "", &good, &request));
  REFUSES(banyan_submit(comm, longest, &good, &request));
  REFUSES(banyan_submit(comm, "name", NULL, &request));
  REFUSES(banyan_submit(comm, "name", &good, NULL));
  for (int i = 0; i < 3; i++) REFUSES(banyan_submit(comm, "name", &wrong[i], &request));
  call.deadline = (double)NAN;
  REFUSES(banyan_submit(comm, "name", &good, &request));
  REFUSES(banyan_submit_all(NULL, name, &good, 1, &request));
  REFUSES(banyan_submit_all(comm, NULL, &good, 1, &request));
  REFUSES(banyan_submit_all(comm, none, &good, 1, &request));
  REFUSES(banyan_submit_all(comm, name, NULL, 1, &request));
  REFUSES(banyan_submit_all(comm, name, &good, 1, NULL));
  assert_ok(banyan_submit_all(comm, NULL, NULL, 0, NULL));
  REFUSES(banyan_step(NULL, 0));
  banyan_comm_negotiation(NULL, &negotiation);
  assert_int_equal(negotiation.submitted, 0);
  banyan_comm_negotiation(comm, NULL);
}

static void try_sparse(void) {
  float table[4] = {0};
  struct banyan_sparse in = {.height = 4, .width = 1}, out = {0}, wrong = {.height = 4, .width = 1, .count = 1};
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .op = BANYAN_SUM, .in = &in, .out = &out};
  struct banyan_sparse_call bad[6];
  for (int i = 0; i < 6; i++) bad[i] = call;
  bad[0].in = NULL;
  bad[1].out = NULL;
  bad[2].out = &in;
  bad[3].way = (enum banyan_sparse_way)99;
  bad[4].in = &wrong;
  bad[5].deadline = (double)NAN;
  for (int i = 0; i < 6; i++) {
    REFUSES(banyan_sparse_run(comm, &bad[i]));
    enum banyan_status status = banyan_sparse_start(comm, &bad[i], &request);
    REFUSES(status == BANYAN_OK ? banyan_wait(request) : status); /* what ranks agree on ends the call */
  }
  REFUSES(banyan_sparse_run(NULL, &call));
  REFUSES(banyan_sparse_run(comm, NULL));
  REFUSES(banyan_sparse_start(NULL, &call, &request));
  REFUSES(banyan_sparse_start(comm, NULL, &request));
  REFUSES(banyan_sparse_start(comm, &call, NULL));
  REFUSES(banyan_sparse_merge(NULL, &out));
  REFUSES(banyan_sparse_merge(&in, NULL));
  REFUSES(banyan_sparse_merge(&in, &in));
  REFUSES(banyan_sparse_merge(&wrong, &out));
  REFUSES(banyan_sparse_apply_sgd(NULL, table, 1));
  REFUSES(banyan_sparse_apply_sgd(&in, NULL, 1));
  REFUSES(banyan_sparse_apply_sgd(&wrong, table, 1));
  REFUSES(banyan_sparse_apply_adagrad(NULL, table, table, 1, 1));
  REFUSES(banyan_sparse_apply_adagrad(&in, NULL, table, 1, 1));
  REFUSES(banyan_sparse_apply_adagrad(&in, table, NULL, 1, 1));
  banyan_sparse_free(NULL);
}

static void try_states(void) {
  struct banyan_state *other;
  struct banyan_state_buffer wrong[] = {{NULL, memory, 1, BANYAN_FLOAT32},
                                        {"", memory, 1, BANYAN_FLOAT32},
                                        {"a", NULL, 1, BANYAN_FLOAT32},
                                        {"a", memory, 1, (enum banyan_dtype)99},
                                        {"a", memory, SIZE_MAX, BANYAN_FLOAT32}};
  const void *bytes;
  size_t length;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    REFUSES(banyan_state_create(&wrong[i], 1, &other));
    REFUSES(banyan_state_set_buffers(state, &wrong[i], 1));
  }
  REFUSES(banyan_state_create(NULL, 1, &other));
  REFUSES(banyan_state_create(NULL, 0, NULL));
  REFUSES(banyan_state_set_buffers(NULL, NULL, 0));
  REFUSES(banyan_state_set_buffers(state, NULL, 1));
  REFUSES(banyan_state_set_value(NULL, "a", "b", 1));
  REFUSES(banyan_state_set_value(state, NULL, "b", 1));
  REFUSES(banyan_state_set_value(state, "", "b", 1));
  REFUSES(banyan_state_set_value(state, "a", NULL, 1));
  REFUSES(banyan_state_set_value(state, "a", "b", SIZE_MAX));
  REFUSES(banyan_state_get_value(NULL, "a", &bytes, &length));
  REFUSES(banyan_state_get_value(state, NULL, &bytes, &length));
  REFUSES(banyan_state_get_value(state, "a", NULL, &length));
  REFUSES(banyan_state_get_value(state, "a", &bytes, NULL));
  REFUSES(banyan_state_commit(NULL, 0));
  REFUSES(banyan_state_commit(state, -1));
  REFUSES(banyan_state_restore(NULL));
  REFUSES(banyan_state_restore(state));
  REFUSES(banyan_state_sync(NULL, comm, NULL, NULL));
  REFUSES(banyan_state_sync(state, NULL, NULL, NULL));
  assert_int_equal(banyan_state_version(NULL), -1);
  banyan_state_destroy(NULL);
}

static void try_memory_and_metrics(void) {
  void *allocated;
  char text[8];
  REFUSES(banyan_alloc(NULL, 1, &allocated));
  REFUSES(banyan_alloc(comm, 1, NULL));
  assert_true(banyan_alloc(comm, SIZE_MAX, &allocated) != BANYAN_OK);
  banyan_free(NULL, memory);
  banyan_free(comm, NULL);
  banyan_free(comm, memory);
  assert_int_equal(banyan_comm_metrics(NULL, text, sizeof text), 0);
  assert_true(banyan_comm_metrics(comm, NULL, 0) > 0);
  assert_true(banyan_comm_metrics(comm, NULL, 8) > 0);
  REFUSES(banyan_timeline_start(NULL, "/dev/null"));
  REFUSES(banyan_timeline_start(comm, NULL));
  REFUSES(banyan_timeline_stop(NULL));
  REFUSES(banyan_timeline_stop(comm)); /* no recording is in progress */
}

static void try_members(void) {
  struct banyan_comm *other, *none = NULL;
  struct banyan_call call = usual();
  struct banyan_completion completion = {0};
  const struct banyan_interrupted *interrupted;
  const char *const *handles, *const wrong[] = {NULL}, *const strange[] = {"\n"};
  const char *const own[] = {banyan_member_handle(member)};
  const double timeouts[] = {0, -1, (double)NAN, (double)INFINITY};
  assert_null(banyan_member_handle(NULL));
  assert_int_equal(banyan_member_handles(NULL, &handles), 0);
  assert_null(handles);
  assert_int_equal(banyan_member_handles(member, NULL), 0);
  assert_int_equal(banyan_member_interrupted(NULL, &interrupted), 0);
  assert_null(interrupted);
  assert_int_equal(banyan_member_interrupted(member, NULL), 0);
  assert_int_equal(banyan_member_change_wanted(NULL), 0);
  banyan_member_destroy(NULL);
  for (int i = 0; i < 4; i++) {
    REFUSES(banyan_member_reconfigure(member, "a", own, 1, timeouts[i], &other));
    REFUSES(banyan_member_recover(member, timeouts[i], &other));
    REFUSES(banyan_member_join(member, own, 1, timeouts[i], &other));
    REFUSES(banyan_member_start(member, timeouts[i], &other));
  }
  REFUSES(banyan_member_reconfigure(NULL, "a", own, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, NULL, own, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "", own, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", NULL, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", wrong, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", strange, 1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", own, 0, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", own, -1, 1, &other));
  REFUSES(banyan_member_reconfigure(member, "a", own, 1, 1, NULL));
  REFUSES(banyan_member_recover(NULL, 1, &other));
  REFUSES(banyan_member_recover(member, 1, NULL));
  REFUSES(banyan_member_join(NULL, own, 1, 1, &other));
  REFUSES(banyan_member_join(member, NULL, 1, 1, &other));
  REFUSES(banyan_member_join(member, wrong, 1, 1, &other));
  REFUSES(banyan_member_join(member, own, 0, 1, &other));
  REFUSES(banyan_member_join(member, own, 1, 1, NULL));
  REFUSES(banyan_member_start(NULL, 1, &other));
  REFUSES(banyan_member_start(member, 1, NULL));
  REFUSES(banyan_member_leave(NULL));
  REFUSES(banyan_member_copy_result(NULL, NULL, memory, 4, 1));
  REFUSES(banyan_member_copy_result(member, NULL, memory, 4, 1));
  REFUSES(banyan_member_allreduce(NULL, &comm, &call, &completion));
  REFUSES(banyan_member_allreduce(member, NULL, &call, &completion));
  REFUSES(banyan_member_allreduce(member, &none, &call, &completion));
  REFUSES(banyan_member_allreduce(member, &comm, NULL, &completion));
  REFUSES(banyan_member_allreduce(member, &comm, &call, NULL));
  completion.timeout = (double)NAN;
  REFUSES(banyan_member_allreduce(member, &comm, &call, &completion));
}

static void test_arguments(void **unused) {
  (void)unused;
  setenv("BANYAN_KEY", JOB_KEY, 1);
  assert_ok(banyan_comm_create(NULL, &comm));
  assert_ok(banyan_member_create(NULL, &member));
  assert_ok(banyan_state_create(NULL, 0, &state));
  try_names();
  try_parsers();
  try_joining();
  try_communicators();
  try_calls();
  try_submissions();
  try_sparse();
  try_states();
  try_memory_and_metrics();
  try_members();
  banyan_state_destroy(state);
  banyan_member_destroy(member);
  banyan_comm_destroy(comm);
}

static char *read_file(const char *name) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", getenv("BANYAN_SOURCE"), name);
  FILE *file = fopen(path, "r");
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_non_null(file);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

/* A function that is exported and not tried here. */
static void test_all(void **unused) {
  (void)unused;
  char *map = read_file("dist/libbanyan.map"), *own = read_file("tests/unit/test_arguments.c"), *rest = NULL;
  for (char *word = strtok_r(map, " \n;", &rest); word; word = strtok_r(NULL, " \n;", &rest)) {
    char call[100];
    snprintf(call, sizeof call, "%s(", word);
    if (!strncmp(word, "banyan_", 7) && !strstr(own, call)) fail_msg("%s is not tried", word);
  }
  free(map);
  free(own);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_arguments), cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
