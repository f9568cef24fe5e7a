/* Prints the layout of the public headers according to the C compiler as JSON, for test_layouts.py to compare with
 * bindings/python and ctypes: for each struct its size and, for each member, offset and size; and for each enum the
 * values of its enumerators. */
#include <stdio.h>

#include <banyan/banyan.h>

static const char *separator = "";

static void begin_struct(const char *name, size_t size) {
  printf("%s\n  \"%s\": {\"size\": %zu, \"members\": {", separator, name, size);
  separator = "";
}

static void add_member(const char *name, size_t offset, size_t size) {
  printf("%s\"%s\": [%zu, %zu]", separator, name, offset, size);
  separator = ", ";
}

static void end_struct(void) {
  printf("}}");
  separator = ",";
}

static void begin_enum(const char *name) {
  printf("%s\n  \"%s\": {", separator, name);
  separator = "";
}

static void end_enum(void) {
  printf("}");
  separator = ",";
}

static void add_number(const char *name, int value) {
  printf("%s\"%s\": %d", separator, name, value);
  separator = ", ";
}

#define STRUCT(name) begin_struct(#name, sizeof(struct name))
#define MEMBER(name, member) add_member(#member, offsetof(struct name, member), sizeof(((struct name *)NULL)->member))
#define NUMBER(name) add_number(#name, (int)(name))

static void print_options(void) {
  STRUCT(banyan_options);
  MEMBER(banyan_options, size_of_struct);
  MEMBER(banyan_options, rank_plus_1);
  MEMBER(banyan_options, size);
  MEMBER(banyan_options, root);
  MEMBER(banyan_options, key);
  MEMBER(banyan_options, host);
  MEMBER(banyan_options, transport);
  MEMBER(banyan_options, plan);
  MEMBER(banyan_options, deadline);
  MEMBER(banyan_options, topology);
  MEMBER(banyan_options, timeline);
  MEMBER(banyan_options, quorum);
  MEMBER(banyan_options, join_deadline);
  end_struct();
}

static void print_call(void) {
  STRUCT(banyan_call);
  MEMBER(banyan_call, collective);
  MEMBER(banyan_call, dtype);
  MEMBER(banyan_call, op);
  MEMBER(banyan_call, root);
  MEMBER(banyan_call, send);
  MEMBER(banyan_call, recv);
  MEMBER(banyan_call, count);
  MEMBER(banyan_call, counts);
  MEMBER(banyan_call, scale);
  MEMBER(banyan_call, deadline);
  MEMBER(banyan_call, tag);
  MEMBER(banyan_call, name);
  end_struct();
}

static void print_sparse(void) {
  STRUCT(banyan_sparse);
  MEMBER(banyan_sparse, dtype);
  MEMBER(banyan_sparse, row_dtype);
  MEMBER(banyan_sparse, height);
  MEMBER(banyan_sparse, width);
  MEMBER(banyan_sparse, count);
  MEMBER(banyan_sparse, rows);
  MEMBER(banyan_sparse, values);
  MEMBER(banyan_sparse, unique);
  MEMBER(banyan_sparse, memory);
  MEMBER(banyan_sparse, room);
  end_struct();
}

static void print_sparse_call(void) {
  STRUCT(banyan_sparse_call);
  MEMBER(banyan_sparse_call, collective);
  MEMBER(banyan_sparse_call, op);
  MEMBER(banyan_sparse_call, way);
  MEMBER(banyan_sparse_call, in);
  MEMBER(banyan_sparse_call, out);
  MEMBER(banyan_sparse_call, counts);
  MEMBER(banyan_sparse_call, taken);
  MEMBER(banyan_sparse_call, memory);
  MEMBER(banyan_sparse_call, deadline);
  MEMBER(banyan_sparse_call, tables);
  end_struct();
}

static void print_submission(void) {
  STRUCT(banyan_submission);
  MEMBER(banyan_submission, size_of_struct);
  MEMBER(banyan_submission, calls);
  MEMBER(banyan_submission, n_calls);
  MEMBER(banyan_submission, sparse);
  MEMBER(banyan_submission, n_sparse);
  MEMBER(banyan_submission, priority);
  end_struct();
}

static void print_counters(void) {
  STRUCT(banyan_counters);
  MEMBER(banyan_counters, calls);
  MEMBER(banyan_counters, bytes_sent);
  MEMBER(banyan_counters, bytes_received);
  MEMBER(banyan_counters, frames_sent);
  MEMBER(banyan_counters, frames_received);
  MEMBER(banyan_counters, sleeps);
  MEMBER(banyan_counters, wakes_sent);
  MEMBER(banyan_counters, allocations);
  MEMBER(banyan_counters, links);
  MEMBER(banyan_counters, plan_switches);
  MEMBER(banyan_counters, in_network);
  MEMBER(banyan_counters, in_network_fallbacks);
  end_struct();
}

static void print_plan_info(void) {
  STRUCT(banyan_plan_info);
  MEMBER(banyan_plan_info, name);
  MEMBER(banyan_plan_info, part);
  MEMBER(banyan_plan_info, source);
  MEMBER(banyan_plan_info, supplied);
  MEMBER(banyan_plan_info, version);
  MEMBER(banyan_plan_info, trees);
  MEMBER(banyan_plan_info, up_to);
  MEMBER(banyan_plan_info, throughput);
  MEMBER(banyan_plan_info, bound);
  end_struct();
}

static void print_state(void) {
  STRUCT(banyan_state_buffer);
  MEMBER(banyan_state_buffer, name);
  MEMBER(banyan_state_buffer, data);
  MEMBER(banyan_state_buffer, count);
  MEMBER(banyan_state_buffer, dtype);
  end_struct();
  STRUCT(banyan_state_sync_options);
  MEMBER(banyan_state_sync_options, size_of_struct);
  MEMBER(banyan_state_sync_options, adopt);
  MEMBER(banyan_state_sync_options, prepare);
  MEMBER(banyan_state_sync_options, argument);
  end_struct();
  STRUCT(banyan_state_report);
  MEMBER(banyan_state_report, version);
  MEMBER(banyan_state_report, holders);
  MEMBER(banyan_state_report, receivers);
  MEMBER(banyan_state_report, bytes);
  MEMBER(banyan_state_report, seconds);
  end_struct();
}

static void print_interrupted(void) {
  STRUCT(banyan_interrupted);
  MEMBER(banyan_interrupted, communicator);
  MEMBER(banyan_interrupted, name);
  MEMBER(banyan_interrupted, call);
  MEMBER(banyan_interrupted, n_calls);
  MEMBER(banyan_interrupted, known);
  MEMBER(banyan_interrupted, sparse);
  MEMBER(banyan_interrupted, collective);
  MEMBER(banyan_interrupted, dtype);
  MEMBER(banyan_interrupted, root);
  MEMBER(banyan_interrupted, count);
  MEMBER(banyan_interrupted, completed);
  MEMBER(banyan_interrupted, failed);
  MEMBER(banyan_interrupted, not_begun);
  MEMBER(banyan_interrupted, size);
  MEMBER(banyan_interrupted, outcomes);
  MEMBER(banyan_interrupted, ranks);
  end_struct();
  STRUCT(banyan_completion);
  MEMBER(banyan_completion, size_of_struct);
  MEMBER(banyan_completion, recover);
  MEMBER(banyan_completion, argument);
  MEMBER(banyan_completion, timeout);
  MEMBER(banyan_completion, contributors);
  MEMBER(banyan_completion, interruptions);
  end_struct();
}

static void print_dtypes(void) {
  begin_enum("banyan_dtype");
  NUMBER(BANYAN_FLOAT32);
  NUMBER(BANYAN_FLOAT64);
  NUMBER(BANYAN_FLOAT16);
  NUMBER(BANYAN_BFLOAT16);
  NUMBER(BANYAN_INT8);
  NUMBER(BANYAN_UINT8);
  NUMBER(BANYAN_INT32);
  NUMBER(BANYAN_INT64);
  NUMBER(BANYAN_DTYPES);
  end_enum();
}

static void print_ops(void) {
  begin_enum("banyan_op");
  NUMBER(BANYAN_SUM);
  NUMBER(BANYAN_AVERAGE);
  NUMBER(BANYAN_MIN);
  NUMBER(BANYAN_MAX);
  NUMBER(BANYAN_PRODUCT);
  NUMBER(BANYAN_AND);
  NUMBER(BANYAN_OR);
  NUMBER(BANYAN_XOR);
  NUMBER(BANYAN_OPS);
  end_enum();
}

static void print_collectives(void) {
  begin_enum("banyan_collective");
  NUMBER(BANYAN_ALLREDUCE);
  NUMBER(BANYAN_REDUCE);
  NUMBER(BANYAN_BROADCAST);
  NUMBER(BANYAN_REDUCE_SCATTER);
  NUMBER(BANYAN_ALLGATHER);
  NUMBER(BANYAN_GATHER);
  NUMBER(BANYAN_SCATTER);
  NUMBER(BANYAN_ALLTOALL);
  NUMBER(BANYAN_BARRIER);
  NUMBER(BANYAN_SEND);
  NUMBER(BANYAN_RECV);
  NUMBER(BANYAN_COLLECTIVES);
  end_enum();
}

static void print_sparse_ways(void) {
  begin_enum("banyan_sparse_way");
  NUMBER(BANYAN_SPARSE_CHOSEN);
  NUMBER(BANYAN_SPARSE_PADDED);
  NUMBER(BANYAN_SPARSE_GATHER);
  NUMBER(BANYAN_SPARSE_BROADCAST);
  NUMBER(BANYAN_SPARSE_MERGE);
  NUMBER(BANYAN_SPARSE_DENSE);
  NUMBER(BANYAN_SPARSE_WAYS);
  end_enum();
}

static void print_statuses(void) {
  begin_enum("banyan_status");
  NUMBER(BANYAN_OK);
  NUMBER(BANYAN_ERR_ARGUMENT);
  NUMBER(BANYAN_ERR_UNSUPPORTED);
  NUMBER(BANYAN_ERR_NO_MEMORY);
  NUMBER(BANYAN_ERR_SYSTEM);
  NUMBER(BANYAN_ERR_PARSE);
  NUMBER(BANYAN_ERR_PLAN);
  NUMBER(BANYAN_ERR_TOPOLOGY);
  NUMBER(BANYAN_ERR_CONNECT);
  NUMBER(BANYAN_ERR_AUTH);
  NUMBER(BANYAN_ERR_PROTOCOL);
  NUMBER(BANYAN_ERR_PEER_DEAD);
  NUMBER(BANYAN_ERR_TIMEOUT);
  NUMBER(BANYAN_ERR_MISMATCH);
  NUMBER(BANYAN_ERR_ABORTED);
  NUMBER(BANYAN_ERR_CLOSED);
  end_enum();
}

int main(void) {
  printf("{\"structs\": {");
  print_options();
  print_call();
  print_sparse();
  print_sparse_call();
  print_submission();
  print_counters();
  print_plan_info();
  print_state();
  print_interrupted();
  separator = "";
  printf("},\n\"enums\": {");
  print_dtypes();
  print_ops();
  print_collectives();
  print_sparse_ways();
  print_statuses();
  printf("}}\n");
  return 0;
}
