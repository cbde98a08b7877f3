/* Commands that add to numbers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"
#include "shared/base/number.h"

/* ---- integers ---- */

struct sum {
    int64_t delta, result;
    char text[24];
};

static int decide_sum(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct sum *sum = user;
    int64_t number = 0;

    if (now && !okv_number_parse(now->value, now->value_length, &number))
        return OKV_ENUMBER;
    if (__builtin_add_overflow(number, sum->delta, &sum->result))
        return OKV_EOVERFLOW;
    int length = snprintf(sum->text, sizeof sum->text, "%lld", (long long)sum->result);
    *next = (struct okv_store_next){sum->text, (uint32_t)length, now ? now->expiry_ms : 0};
    return 0;
}

static int add(struct okv_resp_call *call, int64_t delta)
{
    struct sum sum = {.delta = delta};
    int rc = okv_resp_modify(call, &call->args[1], decide_sum, &sum);

    if (rc == OKV_ENUMBER)
        okv_resp_error(&call->reply, "ERR value is not an integer or out of range");
    else if (rc == OKV_EOVERFLOW)
        okv_resp_error(&call->reply, "ERR increment or decrement would overflow");
    else if (rc)
        return okv_resp_refuse(call, rc);
    else
        okv_resp_integer(&call->reply, sum.result);
    return 0;
}

int okv_resp_cmd_incr(struct okv_resp_call *call)
{
    return add(call, 1);
}

int okv_resp_cmd_decr(struct okv_resp_call *call)
{
    return add(call, -1);
}

int okv_resp_cmd_incrby(struct okv_resp_call *call)
{
    int64_t delta;

    return okv_resp_need_integer(call, 2, &delta) ? add(call, delta) : 0;
}

int okv_resp_cmd_decrby(struct okv_resp_call *call)
{
    int64_t delta;

    if (!okv_resp_need_integer(call, 2, &delta))
        return 0;
    if (delta == INT64_MIN) {
        okv_resp_error(&call->reply, "ERR decrement would overflow");
        return 0;
    }
    return add(call, -delta);
}

/* ---- decimal numbers ---- */

/* A sign, the digits of the largest double, and 17 after the point. Redis has those of a long
 * double: some thousand, which take a millisecond to write. */
#define FLOAT_TEXT 336
/* Work of a digit that is written. */
#define DIGIT_PRICE 25u

struct float_sum {
    struct okv_resp_call *call;
    long double delta;
    char text[FLOAT_TEXT];
    uint32_t length;
};

/* As Redis writes it: 17 digits after the point, without trailing zeros. */
static uint32_t write_float(long double number, char text[FLOAT_TEXT])
{
    int length = snprintf(text, FLOAT_TEXT, "%.17Lf", number);

    while (text[length - 1] == '0')
        length--;
    length -= text[length - 1] == '.';
    if (length == 2 && memcmp(text, "-0", 2) == 0) {
        text[0] = '0';
        length = 1;
    }
    return (uint32_t)length;
}

static int decide_float(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct float_sum *sum = user;
    long double number = 0;

    if (now && !okv_resp_parse_float(now->value, now->value_length, &number))
        return OKV_ENUMBER;
    number += sum->delta;
    if (isnan(number) || fabsl(number) > (long double)DBL_MAX)
        return OKV_EOVERFLOW;
    sum->length = write_float(number, sum->text);
    okv_turn_spend(&sum->call->client->resp->turn, sum->length * DIGIT_PRICE);
    *next = (struct okv_store_next){sum->text, sum->length, now ? now->expiry_ms : 0};
    return 0;
}

int okv_resp_cmd_incrbyfloat(struct okv_resp_call *call)
{
    struct float_sum sum = {.call = call};
    int rc = OKV_ENUMBER;

    if (okv_resp_parse_float(call->args[2].text, call->args[2].length, &sum.delta))
        rc = okv_resp_modify(call, &call->args[1], decide_float, &sum);
    if (rc == OKV_ENUMBER)
        okv_resp_error(&call->reply, "ERR value is not a valid float");
    else if (rc == OKV_EOVERFLOW)
        okv_resp_error(&call->reply, "ERR increment would produce NaN or Infinity");
    else if (rc)
        return okv_resp_refuse(call, rc);
    else
        okv_resp_bulk(&call->reply, sum.text, sum.length);
    return 0;
}
