#include "server/resp/run/options.h"

#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/run/command.h"
#include "server/resp/run/lookup.h"

int okv_resp_syntax_error(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply, "ERR syntax error");
    return 0;
}

bool okv_resp_need_few(struct okv_resp_call *call, uint32_t most)
{
    if (call->count <= most)
        return true;
    okv_resp_error(&call->reply, "ERR %s takes at most %u arguments", call->command->name,
                   most - 1);
    return false;
}

bool okv_resp_need_integer(struct okv_resp_call *call, uint32_t index, int64_t *number)
{
    if (okv_resp_arg_integer(&call->args[index], number))
        return true;
    okv_resp_error(&call->reply, "ERR value is not an integer or out of range");
    return false;
}

/* ---- times ---- */

static bool refuse_time(struct okv_resp_call *call)
{
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    okv_resp_error(&call->reply, "ERR invalid expire time in '%s' command", name);
    return false;
}

bool okv_resp_need_expiry(struct okv_resp_call *call, uint32_t index, unsigned form,
                          uint64_t *expiry_ms)
{
    int64_t number;

    if (!okv_resp_need_integer(call, index, &number))
        return false;
    if (form & OKV_RESP_TIME_POSITIVE && number <= 0)
        return refuse_time(call);
    if (!(form & OKV_RESP_TIME_MS) && __builtin_mul_overflow(number, 1000, &number))
        return refuse_time(call);
    if (!(form & OKV_RESP_TIME_AT) &&
        __builtin_add_overflow(number, okv_resp_wall_ms(call), &number))
        return refuse_time(call);
    /* Times before 1970 are past, too, and sums stay in range. */
    number = number < 0 ? 0 : number > OKV_RESP_EXPIRY_MAX ? OKV_RESP_EXPIRY_MAX : number;
    *expiry_ms = okv_resp_expiry_of(call, number);
    return true;
}

bool okv_resp_read_expiry(const struct okv_resp_call *call, uint32_t *index,
                          struct okv_resp_expiry *expiry)
{
    static const struct {
        const char *name;
        unsigned form;
    } options[] = {{"EX", 0},
                   {"PX", OKV_RESP_TIME_MS},
                   {"EXAT", OKV_RESP_TIME_AT},
                   {"PXAT", OKV_RESP_TIME_MS | OKV_RESP_TIME_AT}};

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        unsigned form = options[i].form | OKV_RESP_TIME_POSITIVE;
        if (!okv_resp_arg_is(&call->args[*index], options[i].name))
            continue;
        if (*index + 1 == call->count || (expiry->index && expiry->form != form))
            return false;
        *expiry = (struct okv_resp_expiry){++*index, form};
        return true;
    }
    return false;
}

/* ---- databases ---- */

int okv_resp_database_of(const struct okv_resp_call *call, const struct okv_resp_arg *arg)
{
    const struct okv_server *server = call->client->resp->server;
    int64_t number = -1;
    bool is_number = okv_resp_arg_integer(arg, &number);

    for (unsigned i = 0; i < server->database_count && !is_number; i++) {
        const char *name = server->databases[i].config->name;
        if (strlen(name) == arg->length && memcmp(name, arg->text, arg->length) == 0)
            number = i;
    }
    bool is_there = number >= 0 && number < server->database_count &&
                    okv_resp_sees(call->client, (unsigned)number);
    return is_there ? (int)number : -1;
}

int okv_resp_refuse_database(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply,
                   "ERR DB index is out of range: okv-server has a database for each --database "
                   "NAME, from 0, and a user sees those with a right");
    return 0;
}

int okv_resp_refuse_target(struct okv_resp_call *call, uint32_t index)
{
    int64_t number;

    return okv_resp_need_integer(call, index, &number) ? okv_resp_refuse_database(call) : 0;
}
