/* The work of a command, as its arguments have it (server/core/turn.h). */
#ifndef OKV_SERVER_RESP_RUN_PRICE_H
#define OKV_SERVER_RESP_RUN_PRICE_H

#include <stdint.h>

struct okv_resp_arg;
struct okv_resp_call;
struct okv_resp_client;
struct okv_resp_command;

/* Work that a command may do alone: --alone-ms. */
uint64_t okv_resp_alone_work(const struct okv_resp_client *client);
/* Number of keys among its arguments. */
uint32_t okv_resp_count_keys(const struct okv_resp_command *command, uint32_t count);
/* Work of a command, without that for values that are stored: an item's price for itself and for
 * each key, and one for each byte. */
uint64_t okv_resp_price_of_arguments(const struct okv_resp_client *client,
                                     const struct okv_resp_command *command,
                                     const struct okv_resp_arg *args, uint32_t count);
/* Replies that it would run alone for too long. */
void okv_resp_refuse_length(struct okv_resp_call *call);

#endif
