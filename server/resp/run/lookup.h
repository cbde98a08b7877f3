/* Access of commands to items, and replies about what fails. */
#ifndef OKV_SERVER_RESP_RUN_LOOKUP_H
#define OKV_SERVER_RESP_RUN_LOOKUP_H

#include "server/store/store.h"

struct okv_resp_arg;
struct okv_resp_call;

/* okv_store_look(): in a change scope at the newest item, else at the published one. A key that okv
 * cannot store is OKV_ENOTFOUND. It is a use of the item, unless CLIENT NO-TOUCH is on. */
int okv_resp_look(struct okv_resp_call *call, const struct okv_resp_arg *key,
                  okv_store_visit *visit, void *user);
/* The same, which is no use. */
int okv_resp_peek(struct okv_resp_call *call, const struct okv_resp_arg *key,
                  okv_store_visit *visit, void *user);
/* okv_store_modify(); counts what was changed. OKV_RESP_GOES_ON: it makes a long value first, and
 * is to be called again in the client's next turn. */
int okv_resp_modify(struct okv_resp_call *call, const struct okv_resp_arg *key,
                    okv_store_decide *decide, void *user);
/* Removes an item. 0; OKV_ENOTFOUND; as okv_store_delete(). */
int okv_resp_remove(struct okv_resp_call *call, const struct okv_resp_arg *key);
/* Whether the key is there. 1, 0, or a negative code. The first is no use, the second one as of
 * okv_resp_look(), and the third one always. */
int okv_resp_has(struct okv_resp_call *call, const struct okv_resp_arg *key);
int okv_resp_exists(struct okv_resp_call *call, const struct okv_resp_arg *key);
int okv_resp_touch(struct okv_resp_call *call, const struct okv_resp_arg *key);

/* Replies with what a code of the store means, in place of what the call has replied so far.
 * Returns 0; OKV_EAGAIN or OKV_RESP_GOES_ON: the command is to run again later. */
int okv_resp_refuse(struct okv_resp_call *call, int code);

/* ---- times ---- */

/* On the server's clock. */
uint64_t okv_resp_now_ms(const struct okv_resp_call *call);
/* Unix time in ms; that of a script stands still. */
int64_t okv_resp_wall_ms(const struct okv_resp_call *call);
/* Expiry on the server's clock, of a Unix time in ms. 0: it is past. */
uint64_t okv_resp_expiry_of(const struct okv_resp_call *call, int64_t wall_ms);
int64_t okv_resp_wall_of(const struct okv_resp_call *call, uint64_t expiry_ms);
/* The latest expiry of an item. */
#define OKV_RESP_EXPIRY_MAX ((INT64_C(1) << 47) - 1)

#endif
