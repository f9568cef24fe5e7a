/* What the parts of the server share: web_server.c drives libmicrohttpd and
 * looks after connections, web_request.c answers. */
#ifndef BY_WEB_WEB_PARTS_H
#define BY_WEB_WEB_PARTS_H

#include "admission.h"
#include "web_library.h"
#include "web_server.h"

/* The last text of a route. */
struct by_web_kept {
  struct by_text text;
  unsigned status; /* 0: none yet */
  uint64_t made;
};

struct by_web {
  struct by_microhttpd mhd;
  struct by_web_options options;
  struct by_token token;
  struct by_address bound;
  struct MHD_Daemon *daemon;
  struct by_watch *watch;
  struct by_timer timer;
  struct by_admission admission; /* all connections: who has made a request counts as one who has greeted */
  bool has_room;                 /* a connection has gone since libmicrohttpd was called */
  struct by_web_kept kept[BY_WEB_MOST_ROUTES];
};

/* One connection; libmicrohttpd keeps the pointer. */
struct by_web_visitor {
  struct by_web *web;
  struct by_admission_entry admission;
  struct by_timer end;
  int fd;
  uint64_t came;
};

/* libmicrohttpd calls it with each request's head; `context` is the server. */
enum MHD_Result by_web_answer(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **of_request);

#endif
