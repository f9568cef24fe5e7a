/* libmicrohttpd, loaded by whoever serves: the command shall run on hosts that
 * have none. */
#ifndef BY_WEB_WEB_LIBRARY_H
#define BY_WEB_WEB_LIBRARY_H

#include <stdarg.h>

#include <microhttpd.h>

#include "library.h"

#define BY_MICROHTTPD(each)                                                                                            \
  each(MHD_add_response_header) each(MHD_create_response_from_buffer) each(MHD_destroy_response)                       \
      each(MHD_get_connection_info) each(MHD_get_daemon_info) each(MHD_get_timeout) each(MHD_lookup_connection_value)  \
          each(MHD_queue_response) each(MHD_run) each(MHD_start_daemon) each(MHD_stop_daemon)

/* Its functions, by their names. */
struct by_microhttpd {
  BY_MICROHTTPD(BY_LIBRARY_MEMBER)
};

BANYAN_CHECK enum banyan_status by_microhttpd_load(struct by_microhttpd *out);

#endif
