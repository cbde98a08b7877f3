/* The first line of a script that has flags: #!lua flags=no-writes. */
#ifndef OKV_SERVER_RESP_SCRIPT_SHEBANG_H
#define OKV_SERVER_RESP_SCRIPT_SHEBANG_H

#include <stdbool.h>
#include <stddef.h>

#include "server/resp/proto/reply.h"

struct okv_resp_shebang {
    size_t length; /* without the end of the line; 0: there is none */
    bool is_read_only;
};

/* Returns false when the line is wrong, with an error as the reply. */
bool okv_resp_shebang_read(const char *text, size_t length, struct okv_resp_shebang *shebang,
                           const struct okv_resp_reply *to);

#endif
