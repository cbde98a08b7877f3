/* How commands reach items, and what they say when they cannot. */
#ifndef OKV_SERVER_RESP_RUN_LOOKUP_H
#define OKV_SERVER_RESP_RUN_LOOKUP_H

#include "server/resp/run/call.h"
#include "server/store/commands.h"
#include "server/store/store.h"

/* Has `visit` look at an item, as okv_store_look(): within the gate of the log at the newest one. A
 * key that okv cannot have is OKV_ENOTFOUND. */
int okv_resp_look(struct okv_resp_call *call, const struct okv_resp_arg *key,
                  okv_store_visit *visit, void *user);
/* okv_store_modify(); counts what was changed. */
int okv_resp_modify(struct okv_resp_call *call, const struct okv_resp_arg *key,
                    okv_store_decide *decide, void *user);
/* Removes an item. 0; OKV_ENOTFOUND; as okv_store_delete(). */
int okv_resp_remove(struct okv_resp_call *call, const struct okv_resp_arg *key);
/* Whether the key is there. 1, 0, or a negative code. */
int okv_resp_has(struct okv_resp_call *call, const struct okv_resp_arg *key);

/* Replies with what a code of the store means. Returns 0; OKV_EAGAIN: the command is to begin again
 * later. */
int okv_resp_refuse(struct okv_resp_call *call, int code);

/* ---- times ---- */

/* The server's clock. */
uint64_t okv_resp_now_ms(const struct okv_resp_call *call);
/* The moment at which an item expires, on the server's clock, of one on the wall's. 0: it is past.
 */
uint64_t okv_resp_expiry_of(const struct okv_resp_call *call, int64_t wall_ms);
int64_t okv_resp_wall_of(const struct okv_resp_call *call, uint64_t expiry_ms);
/* The latest moment that an item can expire at. */
#define OKV_RESP_EXPIRY_MAX ((INT64_C(1) << 47) - 1)

#endif
