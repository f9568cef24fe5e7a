/* Encodes and decodes what rank 0 knows of the network. */
#include "adaptation.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "control.h"
#include "control_peers.h"
#include "log.h"

/* ---- the message */

static const struct by_field fields[] = {
    BY_FIELD(by_network_message, source, BY_FIELD_U8, .max = BANYAN_PLAN_SOURCES - 1)};

void by_network_message_write(struct by_writer *writer, const struct by_network_message *message) {
  by_fields_write(writer, BY_FIELDS(fields), message);
  by_write_blob(writer, message->nodes, 4 * (size_t)message->n_hosts);
  by_write_blob(writer, message->text, message->length);
}

enum banyan_status by_network_message_read(const void *bytes, size_t length, struct by_network_message *out) {
  static const char what[] = "a message about the network";
  struct by_reader reader;
  size_t capacity;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_network_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(fields), what, out));
  out->nodes = by_read_blob(&reader, &capacity);
  out->n_hosts = (uint32_t)(capacity / 4);
  out->text = (const char *)by_read_blob(&reader, &out->length);
  if (capacity % 4) return by_fail(BANYAN_ERR_PROTOCOL, "%s: its list of nodes has %zu bytes", what, capacity);
  return by_reader_check(&reader, what);
}

uint32_t by_network_message_node(const struct by_network_message *message, uint32_t host) {
  return by_get_u32(message->nodes + 4 * (size_t)host);
}

/* ---- successors */

uint32_t by_job_successors(const struct by_job *job, uint32_t out[BY_JOB_SUCCESSORS]) {
  uint32_t n = 0;
  for (uint32_t r = 1; r < by_job_size(job) && n < BY_JOB_SUCCESSORS; r++)
    if (by_job_hosts(job)->of[r] != by_job_hosts(job)->of[0] &&
        (!n || by_job_hosts(job)->of[r] != by_job_hosts(job)->of[out[0]]))
      out[n++] = r;
  return n;
}

static void send_message(const struct by_job *job, const struct by_network_message *message) {
  uint32_t ranks[BY_JOB_SUCCESSORS], n = by_job_successors(job, ranks);
  size_t capacity = BY_NETWORK_FIXED_BYTES + 4 * (size_t)message->n_hosts + message->length;
  struct by_writer writer;
  uint8_t *bytes = malloc(capacity);
  by_writer_init(&writer, bytes, bytes ? capacity : 0);
  by_network_message_write(&writer, message);
  for (uint32_t i = 0; i < n && !writer.failed; i++)
    by_control_send(by_job_control(job), ranks[i], NETWORK, bytes, writer.length, "the topology of the job");
  free(bytes);
}

static void send_network(const struct by_job *job, const struct by_job_network *network) {
  uint32_t ranks[BY_JOB_SUCCESSORS];
  struct by_text text;
  struct by_writer writer;
  if (!by_job_successors(job, ranks)) return;
  uint8_t *nodes = malloc(4 * (size_t)network->n_hosts);
  by_text_init(&text);
  by_topology_print(network->topology, &text);
  by_writer_init(&writer, nodes, nodes ? 4 * (size_t)network->n_hosts : 0);
  for (uint32_t h = 0; h < network->n_hosts; h++) by_write_u32(&writer, network->nodes[h]);
  if (!text.failed && !writer.failed)
    send_message(job, &(struct by_network_message){.source = network->source,
                                                   .nodes = nodes,
                                                   .n_hosts = network->n_hosts,
                                                   .text = by_text_get(&text),
                                                   .length = text.length});
  by_text_fini(&text);
  free(nodes);
}

/* ---- keeping */

/* Takes over the topology and the nodes, on failure too. Returns a reference; NULL: out of memory. */
static struct by_job_network *keep(struct by_job *job, struct by_topology *topology, uint32_t *nodes,
                                   enum banyan_plan_source source) {
  struct by_job_network *network = nodes ? calloc(1, sizeof *network) : NULL;
  if (!network) {
    by_topology_destroy(topology);
    free(nodes);
    return NULL;
  }
  *network = (struct by_job_network){
      .topology = topology, .nodes = nodes, .n_hosts = by_job_hosts(job)->n, .source = source, .references = 2};
  by_job_lock(job);
  struct by_job_network *before = by_adaptation_of(job)->network;
  by_adaptation_of(job)->network = network;
  by_job_unlock(job);
  by_job_network_release(before);
  return network;
}

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the topology of a job");
}

enum banyan_status by_job_network_keep(struct by_job *job, struct by_topology *topology, const uint32_t *nodes,
                                       enum banyan_plan_source source) {
  uint32_t *copy = calloc(by_job_hosts(job)->n, sizeof *copy);
  if (copy) memcpy(copy, nodes, by_job_hosts(job)->n * sizeof *copy);
  struct by_job_network *network = keep(job, topology, copy, source);
  if (!network) return no_memory();
  send_network(job, network);
  by_job_network_release(network);
  by_group_plans_network_kept(job);
  return BANYAN_OK;
}

static void drop(struct by_job *job) {
  by_job_lock(job);
  struct by_job_network *before = by_adaptation_of(job)->network;
  by_adaptation_of(job)->network = NULL;
  by_job_unlock(job);
  by_job_network_release(before);
}

void by_job_network_drop(struct by_job *job) {
  drop(job);
  if (by_job_rank(job) == 0) send_message(job, &(struct by_network_message){.text = ""});
}

static enum banyan_status take(struct by_job *job, const struct by_network_message *message) {
  struct by_topology *topology;
  uint32_t *nodes = calloc((size_t)message->n_hosts, sizeof *nodes), outside = 0;
  enum banyan_status status = by_topology_parse("rank 0's topology", message->text, message->length, &topology);
  if (status != BANYAN_OK) {
    free(nodes);
    return status;
  }
  for (uint32_t h = 0; nodes && h < message->n_hosts; h++) {
    nodes[h] = by_network_message_node(message, h);
    outside += nodes[h] >= topology->n_nodes;
  }
  if (message->n_hosts != by_job_hosts(job)->n || outside) {
    by_topology_destroy(topology);
    free(nodes);
    return by_fail(BANYAN_ERR_PROTOCOL, "it is about %u hosts, %u of them unknown; the job has %u", message->n_hosts,
                   outside, by_job_hosts(job)->n);
  }
  struct by_job_network *network = keep(job, topology, nodes, message->source);
  by_job_network_release(network);
  return network ? BANYAN_OK : no_memory();
}

void by_job_network_handle(void *context, const struct by_received *received) {
  struct by_network_message message;
  if (by_network_message_read(received->payload, received->length, &message) != BANYAN_OK)
    by_warn("control", "%s: malformed message about the network; ignored", by_stream_get_name(received->peer->stream));
  else if (!message.n_hosts)
    drop(context);
  else if (take(context, &message) != BANYAN_OK)
    by_warn("plan", "rank 0's topology is not kept here: %s", banyan_error_text());
}

struct by_job_network *by_job_network_hold(struct by_job *job) {
  by_job_lock(job);
  struct by_job_network *network = by_adaptation_of(job)->network;
  if (network) network->references++;
  by_job_unlock(job);
  return network;
}

void by_job_network_release(struct by_job_network *network) {
  if (!network || --network->references) return;
  by_topology_destroy(network->topology);
  free(network->nodes);
  free(network);
}
