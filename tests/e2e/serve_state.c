/* serve_state STATE TOKEN-FILE: serves the page with the state of the file, which is read again for each answer, on
 * a port that it prints. It runs until it is killed, or for 120 s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "text.h"
#include "web_server.h"

enum { MOST_STATE = 64 << 20 };

static unsigned print_state(void *context, struct by_text *out) {
  char *text;
  size_t length;
  if (by_read_file("state", context, MOST_STATE, &text, &length) != BANYAN_OK) return 503;
  by_text_add(out, "%.*s", (int)length, text);
  free(text);
  return 200;
}

static enum banyan_status print_of_topology(const json_t *topology, struct by_text *out) {
  struct by_topology *parsed;
  char *text = json_dumps(topology, 0);
  enum banyan_status status = by_topology_parse("state", text, strlen(text), &parsed);
  free(text);
  BY_TRY(status);
  status = by_web_layout_print(parsed, out);
  by_topology_destroy(parsed);
  return status;
}

static unsigned print_layout(void *context, struct by_text *out) {
  json_t *state = json_load_file(context, 0, NULL);
  enum banyan_status status = print_of_topology(json_object_get(state, "topology"), out);
  json_decref(state);
  if (status != BANYAN_OK) by_text_add(out, "%s\n", banyan_error_text());
  return status == BANYAN_OK ? 200 : 503;
}

static unsigned print_metrics(void *context, struct by_text *out) {
  json_t *state = json_load_file(context, 0, NULL);
  by_web_metrics_print(state, out);
  json_decref(state);
  return 200;
}

static enum banyan_status serve(char *path, const char *token_file, const char *at) {
  struct by_web_route routes[] = {{"/state", "application/json", false, print_state, path},
                                  {"/layout", "application/json", false, print_layout, path},
                                  {"/metrics", BY_WEB_METRICS_TYPE, true, print_metrics, path}};
  struct by_token token;
  struct by_web_options options = {.token = &token, .routes = routes, .n_routes = 3};
  struct by_web *web;
  char bound[BY_ADDRESS_TEXT];
  BY_TRY(by_token_read_or_make(token_file, &token));
  BY_TRY(by_address_parse(at, &options.at));
  BY_TRY(by_loop_create(&by_clock_system, &options.loop));
  BY_TRY(by_web_create(&options, &web));
  printf("http://%s/?token=%s\n", by_address_print(by_web_get_address(web), bound), token.text);
  fflush(stdout);
  return by_loop_run(options.loop);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  alarm(120);
  enum banyan_status status = serve(argv[1], argv[2], argc > 3 ? argv[3] : "127.0.0.1:0");
  fprintf(stderr, "serve_state: %s\n", banyan_error_text());
  return status == BANYAN_OK ? 0 : 1;
}
