/* The sections of INFO. Each adds lines "NAME:VALUE". */
#ifndef OKV_SERVER_RESP_COMMANDS_INFO_H
#define OKV_SERVER_RESP_COMMANDS_INFO_H

#include "server/resp/proto/buffer.h"

struct okv_resp_client;

/* Adds a line, or a part of one, of at most 511 bytes. */
__attribute__((format(printf, 2, 3))) void okv_resp_info_add(struct okv_resp_buffer *out,
                                                             const char *format, ...);

/* What the client may know: docs/users.md, "Figures over RESP". */
typedef void okv_resp_info_section(const struct okv_resp_client *client,
                                   struct okv_resp_buffer *out);

/* info_figures.c */
okv_resp_info_section okv_resp_info_memory, okv_resp_info_persistence, okv_resp_info_stats,
    okv_resp_info_commandstats, okv_resp_info_errorstats;

#endif
