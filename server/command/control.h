/* What an administrator changes in a server that runs, by a command instead of a signal. Each
 * logs a line with `by`, a client. Any thread. */
#ifndef OKV_SERVER_COMMAND_CONTROL_H
#define OKV_SERVER_COMMAND_CONTROL_H

#include <stdint.h>

struct okv_client;
struct okv_server;

/* Clients that --max-clients may be set to: those that the start made room for. */
uint32_t okv_control_clients_max(const struct okv_server *server);
/* Sets --max-clients, up to that number, for clients that come from now on, until the next SIGHUP
 * that reads a configuration file. */
void okv_control_set_clients(struct okv_server *server, uint32_t clients,
                             const struct okv_client *by);
/* Sets --idle-s; likewise. */
void okv_control_set_idle(struct okv_server *server, uint32_t idle_s, const struct okv_client *by);
/* Ends the server as SIGTERM does. Returns at once. */
void okv_control_end(struct okv_server *server, const struct okv_client *by);

#endif
