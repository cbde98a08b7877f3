/*
 * The commands of an ADMIN request, as text: docs/protocol-admin.md section 2.5. The caller has the
 * right admin in the database. The commands concern its sessions, or the server as a whole.
 */
#ifndef OKV_SERVER_COMMAND_ADMIN_H
#define OKV_SERVER_COMMAND_ADMIN_H

#include <stdint.h>

struct okv_database;
struct okv_server;

/* The text of a command, "%" in it for a number in hexadecimal digits; NULL behind the last one. */
const char *okv_admin_command(unsigned index);
/* Runs a command and writes its answer to out[0..size), *used bytes. Any thread. OKV_EINVAL: there
 * is no such command; OKV_ENOTFOUND: no such session; OKV_EUNSUPPORTED: the server has no users, or
 * the answer does not fit. */
int okv_admin_run(struct okv_server *server, const struct okv_database *database,
                  const uint8_t *text, uint32_t length, char *out, uint32_t size, uint32_t *used);

#endif
