/* BITCOUNT and BITPOS: the bits of a range of a value. Those of a long one take several turns. */
#include "server/command/execute.h"
#include "server/resp/commands/commands.h"
#include "server/resp/proto/bits.h"
#include "server/resp/run/long_read.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

/* Bits of a value, from first to last; none if last < first. */
struct range {
    struct okv_resp_call *call;
    int64_t first, last;
    bool has_end; /* of BITPOS: bits after the last one are not 0 */
    bool is_over; /* the command has replied */
};

/* What the bits of a value from `first` to `last` add to the client's progress. Returns whether
 * that decides about the reply. */
typedef bool look_at_bits(const struct range *range, const uint8_t *bytes, uint64_t first,
                          uint64_t last);

/* ---- the range ---- */

static bool read_unit(struct okv_resp_call *call, uint32_t index, bool *in_bits)
{
    *in_bits = okv_resp_arg_is(&call->args[index], "BIT");
    if (*in_bits || okv_resp_arg_is(&call->args[index], "BYTE"))
        return true;
    okv_resp_syntax_error(call);
    return false;
}

/* From bits or bytes, of which those below 0 count from the end, to bits that are there. */
static void set_range(struct range *range, int64_t first, int64_t last, uint32_t length,
                      bool in_bits)
{
    const int64_t unit = in_bits ? 1 : 8, count = (int64_t)length * (in_bits ? 8 : 1);

    first = first < 0 ? first + count : first;
    last = last < 0 ? last + count : last;
    first = first < 0 ? 0 : first;
    last = last < 0 ? 0 : last;
    last = last >= count ? count - 1 : last;
    if (first > last)
        return; /* it stays empty */
    range->first = first * unit;
    range->last = last * unit + unit - 1;
}

/* [START END [UNIT]]; false: there is nothing more to do. */
static bool read_count_range(struct range *range, uint32_t length)
{
    struct okv_resp_call *call = range->call;
    int64_t first = 0, last = -1;
    bool in_bits = false;

    if (call->count == 3 || call->count > 5) {
        okv_resp_syntax_error(call);
        return false;
    }
    if (call->count > 2 &&
        (!okv_resp_need_integer(call, 2, &first) || !okv_resp_need_integer(call, 3, &last)))
        return false;
    /* Before it looks at the unit, as Redis. */
    if (call->count > 2 && first < 0 && last < 0 && first > last)
        return true;
    if (call->count == 5 && !read_unit(call, 4, &in_bits))
        return false;
    set_range(range, first, last, length, in_bits);
    return true;
}

/* [START [END [UNIT]]] after the bit. */
static bool read_find_range(struct range *range, uint32_t length)
{
    struct okv_resp_call *call = range->call;
    int64_t first = 0, last = -1;
    bool in_bits = false;

    if (call->count > 6) {
        okv_resp_syntax_error(call);
        return false;
    }
    range->has_end = call->count > 4;
    if ((call->count > 3 && !okv_resp_need_integer(call, 3, &first)) ||
        (call->count == 6 && !read_unit(call, 5, &in_bits)) ||
        (call->count > 4 && !okv_resp_need_integer(call, 4, &last)))
        return false;
    set_range(range, first, last, length, in_bits);
    return true;
}

/* ---- its bits ---- */

/* Looks at those that lie in the bytes [from, to) of the value. */
static bool look_at(const struct range *range, const uint8_t *bytes, uint64_t from, uint64_t to,
                    look_at_bits *look)
{
    uint64_t first = (uint64_t)range->first, last = (uint64_t)range->last;

    okv_turn_spend(&range->call->client->resp->turn, to - from);
    first = first > from * 8 ? first : from * 8;
    last = last < to * 8 ? last : to * 8 - 1;
    return look(range, bytes, first, last);
}

/* A step of the client's long value. Returns whether the command is over. */
static bool step(const struct range *range, look_at_bits *look)
{
    struct okv_resp_read *read = &range->call->client->read;
    uint64_t end = (uint64_t)range->last / 8 + 1, from = read->done;
    uint64_t to = end - from < OKV_RESP_READ_STEP ? end : from + OKV_RESP_READ_STEP;

    read->done = (uint32_t)to;
    return look_at(range, read->bytes, from, to, look) || to == end;
}

/* Of a value that is locked: a short one at once, a long one is taken. */
static int begin(struct range *range, const struct okv_store_now *now, look_at_bits *look)
{
    uint64_t from = (uint64_t)range->first / 8, to = (uint64_t)range->last / 8 + 1;

    if (range->last < range->first)
        return 0;
    if (to - from < OKV_RESP_LONG_MIN || !okv_resp_read_is_long(range->call, now)) {
        look_at(range, now->value, from, to, look);
        return 0;
    }
    int rc = okv_resp_read_begin(range->call, now, true);
    if (rc == 0)
        range->call->client->read.done = (uint32_t)from;
    return rc;
}

/* Looks at all bits, in steps if they are many. `visit` begins. Returns 0; OKV_ENOTFOUND;
 * OKV_RESP_GOES_ON, or a code to refuse. */
static int run(struct range *range, okv_store_visit *visit, look_at_bits *look)
{
    struct okv_resp_client *client = range->call->client;
    int rc = 0;

    if (client->read.length == 0) {
        client->progress.sum = 0;
        rc = okv_resp_look(range->call, &range->call->args[1], visit, range);
    }
    if (rc || client->read.length == 0)
        return rc;
    if (!step(range, look))
        return OKV_RESP_GOES_ON;
    okv_resp_read_end(client);
    return 0;
}

/* ---- BITCOUNT ---- */

static bool count_bits(const struct range *range, const uint8_t *bytes, uint64_t first,
                       uint64_t last)
{
    range->call->client->progress.sum += okv_bits_count(bytes, first, last);
    return false;
}

static int visit_count(void *user, const struct okv_store_now *now)
{
    struct range *range = user;

    range->is_over = !read_count_range(range, now->value_length);
    return range->is_over ? 0 : begin(range, now, count_bits);
}

int okv_resp_cmd_bitcount(struct okv_resp_call *call)
{
    struct range range = {.call = call, .last = -1};

    if (call->client->read.length)
        read_count_range(&range, call->client->read.length);
    int rc = run(&range, visit_count, count_bits);
    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    if (!range.is_over)
        okv_resp_integer(&call->reply, (int64_t)call->client->progress.sum);
    return 0;
}

/* ---- BITPOS ---- */

static bool wants_set(const struct range *range)
{
    return okv_resp_arg_is(&range->call->args[2], "1");
}

/* The sum is its position + 1; 0: none was found. */
static bool find_bit(const struct range *range, const uint8_t *bytes, uint64_t first, uint64_t last)
{
    int64_t at = okv_bits_find(bytes, first, last, wants_set(range));

    range->call->client->progress.sum = (uint64_t)(at + 1);
    return at >= 0;
}

static int visit_find(void *user, const struct okv_store_now *now)
{
    struct range *range = user;

    range->is_over = !read_find_range(range, now->value_length);
    return range->is_over ? 0 : begin(range, now, find_bit);
}

static bool need_bit(struct okv_resp_call *call)
{
    int64_t bit;

    if (!okv_resp_need_integer(call, 2, &bit))
        return false;
    if (bit != 0 && bit != 1)
        okv_resp_error(&call->reply, "ERR The bit argument must be 1 or 0.");
    return bit == 0 || bit == 1;
}

/* Without an END, zeros follow the value. */
static int64_t position_of(const struct range *range)
{
    int64_t position = (int64_t)range->call->client->progress.sum - 1;

    if (position < 0 && !wants_set(range) && !range->has_end && range->first <= range->last)
        return range->last + 1;
    return position;
}

int okv_resp_cmd_bitpos(struct okv_resp_call *call)
{
    struct range range = {.call = call, .last = -1};

    if (!need_bit(call))
        return 0;
    if (call->client->read.length)
        read_find_range(&range, call->client->read.length);
    int rc = run(&range, visit_find, find_bit);
    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    if (rc == OKV_ENOTFOUND)
        okv_resp_integer(&call->reply, wants_set(&range) ? -1 : 0);
    else if (!range.is_over)
        okv_resp_integer(&call->reply, position_of(&range));
    return 0;
}
