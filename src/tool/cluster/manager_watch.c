#include "manager_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "manager_status.h"

/* To the left upper corner; what is left of the line, and of the screen, is wiped as it is written over. */
#define HOME "\033[H"
#define WIPE_LINE "\033[K"
#define WIPE_REST "\033[J"

static struct by_screen find_screen(bool again) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return (struct by_screen){0};
  return (struct by_screen){.width = size.ws_col, .height = again ? size.ws_row : 0};
}

static void print_json(const json_t *state) {
  char *text = json_dumps(state, JSON_COMPACT | JSON_PRESERVE_ORDER);
  if (text) printf("%s\n", text);
  free(text);
}

/* Line by line, so that nothing flickers. What does not fit is cut: a line that goes on in the next, or one too many,
 * would move the screen. */
static void print_in_place(const char *text, struct by_screen screen) {
  unsigned column = 0, line = 1;
  fputs(HOME, stdout);
  for (; *text && line < screen.height; text++) {
    bool starts = ((unsigned char)*text & 0xc0) != 0x80; /* a character of UTF-8 */
    if (*text == '\n') {
      fputs(WIPE_LINE "\n", stdout);
      column = 0;
      line++;
    } else if ((column += starts) <= screen.width)
      putchar(*text);
  }
  fputs(WIPE_REST, stdout);
}

static void print_tables(const json_t *state, bool again) {
  struct by_text text;
  struct by_screen screen = find_screen(again);
  by_text_init(&text);
  by_manager_status_print(state, screen, &text);
  if (screen.height)
    print_in_place(by_text_get(&text), screen);
  else
    printf("%s%s", by_text_get(&text), again ? "\n" : "");
  by_text_fini(&text);
}

static enum banyan_status show(struct by_manager_client *client, const struct by_manager_watch *watch) {
  json_t *state;
  BY_TRY(by_manager_client_get(client, &state));
  if (watch->json)
    print_json(state);
  else
    print_tables(state, watch->again);
  json_decref(state);
  fflush(stdout);
  return BANYAN_OK;
}

static void say_away(void) {
  char clock[16] = "";
  time_t now = time(NULL);
  struct tm at;
  if (localtime_r(&now, &at)) strftime(clock, sizeof clock, "%T", &at);
  struct by_text line;
  by_text_init(&line);
  by_text_add(&line, "%s: %s; trying again", clock, banyan_error_text());
  if (isatty(STDERR_FILENO)) /* over itself, below the tables that were */
    fprintf(stderr, "\r%.*s" WIPE_LINE, (int)find_screen(true).width - 1, by_text_get(&line));
  else
    fprintf(stderr, "%s\n", by_text_get(&line));
  by_text_fini(&line);
}

enum banyan_status by_manager_watch_run(const struct by_manager_watch *watch) {
  struct by_manager_client *client;
  BY_TRY(by_manager_client_create(&watch->client, &client));
  if (watch->again && find_screen(true).height && !watch->json) fputs(HOME WIPE_REST, stdout);
  enum banyan_status status = show(client, watch);
  while (watch->again && status == BANYAN_OK && !ferror(stdout)) {
    sleep(1);
    if (show(client, watch) != BANYAN_OK) say_away();
  }
  by_manager_client_destroy(client);
  return status;
}
