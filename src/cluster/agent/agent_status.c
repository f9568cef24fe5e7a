/* What `banyan agent status` shows. */
#include "agent_parts.h"
#include "json_print.h"

static void add_text(struct by_text *text, const char *field, const char *value) {
  by_text_add(text, "\"%s\":", field);
  by_json_add_string(text, value);
}

static void add_real(struct by_text *text, const char *field, double value) {
  by_text_add(text, ",\"%s\":", field);
  by_json_add_real(text, value);
}

static void add_manager(const struct by_agent *agent, uint64_t now, struct by_text *text) {
  if (!agent->options.manager) return;
  by_text_add(text, ",\"manager\":{");
  add_text(text, "address", agent->options.manager);
  by_text_add(text, ",\"connected\":%s", agent->welcome ? "true" : "false");
  add_real(text, "for", by_clock_to_seconds(now - agent->link_since));
  if (agent->options.calls->expires)
    by_text_add(text, ",\"certificate_expires\":%lld",
                (long long)agent->options.calls->expires(agent->options.context));
  if (agent->why[0]) {
    by_text_add(text, ",");
    add_text(text, "why", agent->why);
  }
  by_text_add(text, "}");
}

static void add_interfaces(const struct by_agent *agent, struct by_text *text) {
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES];
  by_agent_share_ours(agent, interfaces);
  by_text_add(text, ",\"interfaces\":[");
  for (uint32_t i = 0; i < agent->n_interfaces; i++) {
    const struct by_cluster_interface *interface = &interfaces[i];
    by_text_add(text, "%s{", i ? "," : "");
    add_text(text, "name", interface->name);
    by_text_add(text, ",");
    add_text(text, "address", interface->address);
    add_real(text, "rate", interface->rate);
    add_real(text, "sent", interface->sent);
    add_real(text, "received", interface->received);
    add_real(text, "ours_sent", interface->ours_sent);
    add_real(text, "ours_received", interface->ours_received);
    by_text_add(text, ",\"queues\":%s}", agent->interfaces[i].counter.queues ? "true" : "false");
  }
  by_text_add(text, "]");
}

static int digits(bool all) {
  return all ? BY_CLUSTER_JOB_ID : 12;
}

static void add_job(const struct by_agent_job *job, const struct by_cluster_job *deeds, bool all,
                    struct by_text *text) {
  by_text_add(text, "{\"job\":\"%.*s\",", digits(all), job->id);
  if (job->name) {
    add_text(text, "name", job->name);
    by_text_add(text, ",");
  }
  by_text_add(text, "\"class\":%u,\"classed_by\":\"%s\",\"ranks\":[", job->class_, job->managed ? "manager" : "agent");
  for (uint32_t i = 0; i < deeds->n_ranks; i++) by_text_add(text, "%s%u", i ? "," : "", deeds->ranks[i]);
  by_text_add(text, "],\"iterations\":%llu", (unsigned long long)deeds->iterations);
  if (deeds->expected) by_text_add(text, ",\"expected\":%llu", (unsigned long long)deeds->expected);
  add_real(text, "iteration_time", deeds->iteration_time);
  by_cluster_paths_print(deeds, text);
  by_text_add(text, ",\"sent\":%llu,\"calls\":%llu}", (unsigned long long)deeds->sent,
              (unsigned long long)deeds->calls);
}

static void add_jobs(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text) {
  struct by_arena arena;
  struct by_cluster_job *deeds;
  uint32_t i = 0;
  by_arena_init(&arena);
  by_text_add(text, ",\"jobs\":[");
  if (by_agent_describe(agent, now, &arena, &deeds) == BANYAN_OK) {
    for (const struct by_agent_job *job = agent->jobs; job; job = job->next, i++) {
      if (i) by_text_add(text, ",");
      add_job(job, &deeds[i], uid == 0 || uid == job->user->uid, text);
    }
  }
  by_text_add(text, "]");
  by_arena_fini(&arena);
}

static void add_helpers(const struct by_agent *agent, bool all, struct by_text *text) {
  by_text_add(text, ",\"helpers\":[");
  for (const struct by_agent_helper *helper = agent->helpers; helper; helper = helper->next) {
    by_text_add(text, "%s{\"job\":\"%.*s\",", helper == agent->helpers ? "" : ",", digits(all), helper->job);
    add_text(text, "name", helper->name);
    by_text_add(text, ",\"joined\":%s}", helper->joined ? "true" : "false");
  }
  by_text_add(text, "]");
}

void by_agent_print(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text) {
  by_text_add(text, "{");
  add_text(text, "host", agent->options.host);
  by_text_add(text, ",\"version\":\"%s\"", BANYAN_VERSION);
  add_real(text, "seconds", by_clock_to_seconds(now - agent->started));
  add_real(text, "interval", agent->interval);
  by_text_add(text, ",\"may_help\":%s", agent->options.may_help ? "true" : "false");
  add_manager(agent, now, text);
  add_interfaces(agent, text);
  add_jobs(agent, uid, now, text);
  add_helpers(agent, uid == 0, text);
  by_text_add(text, ",\"counters\":{\"reports\":%llu,\"refused\":%llu}}", (unsigned long long)agent->reports,
              (unsigned long long)agent->refused);
}
