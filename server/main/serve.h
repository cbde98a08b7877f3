/* The life of a server from its configuration to its end. */
#ifndef OKV_SERVER_MAIN_SERVE_H
#define OKV_SERVER_MAIN_SERVE_H

#include "server/core/server.h"

/* Opens databases, listeners and workers as server->config says, and serves until SIGTERM, SIGINT
 * or okv_server_ask_end(). Blocks those signals, SIGHUP, SIGUSR1 and OKV_SERVER_END_SIGNAL in
 * the calling thread; every other thread of the process has to block them, too. Logs to stderr,
 * prints `ready URI...` on standard output. Returns 0, or why it could not start or ended, which
 * is logged. */
int okv_serve(struct okv_server *server, struct okv_diag *diag);

#endif
