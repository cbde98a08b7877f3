/* What okv lacks of Redis, for clients that ask for it. */
#ifndef OKV_SERVER_RESP_RUN_ABSENT_H
#define OKV_SERVER_RESP_RUN_ABSENT_H

struct okv_resp_arg;

/* What a command of Redis 7.0 that okv does not have is about, such as "lists". NULL: it is no such
 * command, or there is no word for it. */
const char *okv_resp_absent(const struct okv_resp_arg *name);

#endif
