#include "server/resp/proto/bitfield.h"

#include <string.h>

#include "server/resp/proto/args.h"
#include "server/resp/proto/bits.h"
#include "shared/base/number.h"

/* Any sum of a number and a field. */
__extension__ typedef __int128 wide;

/* ---- arguments ---- */

static bool read_kind(struct okv_bitfield *fields, struct okv_bitfield_operation *operation)
{
    static const struct {
        const char *name;
        uint32_t args; /* after the name */
    } kinds[] = {{"GET", 2}, {"SET", 3}, {"INCRBY", 3}};

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (okv_resp_arg_is(&fields->args[fields->next], kinds[i].name) &&
            fields->count - fields->next > kinds[i].args) {
            operation->kind = (enum okv_bitfield_kind)i;
            return true;
        }
    fields->problem = "ERR syntax error";
    return false;
}

static bool read_type(struct okv_bitfield *fields, struct okv_bitfield_operation *operation)
{
    const struct okv_resp_arg *type = &fields->args[fields->next + 1];
    int64_t width = 0;

    operation->is_signed = type->length > 0 && type->text[0] == 'i';
    if (type->length > 1 && (operation->is_signed || type->text[0] == 'u') &&
        okv_number_parse(type->text + 1, type->length - 1, &width) && width >= 1 &&
        width <= 63 + operation->is_signed) {
        operation->width = (unsigned)width;
        return true;
    }
    fields->problem = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not "
                      "supported but i64 is.";
    return false;
}

/* With '#' it counts fields of this width. */
static bool read_offset(struct okv_bitfield *fields, struct okv_bitfield_operation *operation)
{
    const struct okv_resp_arg *arg = &fields->args[fields->next + 2];
    bool counts_fields = arg->length > 0 && arg->text[0] == '#';
    int64_t number = -1;

    if (okv_number_parse(arg->text + counts_fields, arg->length - counts_fields, &number) &&
        !__builtin_mul_overflow(number, counts_fields ? (int64_t)operation->width : 1, &number) &&
        number >= 0 && (uint64_t)number < OKV_BITFIELD_BITS_MAX) {
        operation->offset = (uint64_t)number;
        return true;
    }
    fields->problem = "ERR bit offset is not an integer or out of range";
    return false;
}

static bool read_number(struct okv_bitfield *fields, struct okv_bitfield_operation *operation)
{
    if (operation->kind == OKV_BITFIELD_GET ||
        okv_resp_arg_integer(&fields->args[fields->next + 3], &operation->number))
        return true;
    fields->problem = "ERR value is not an integer or out of range";
    return false;
}

/* OVERFLOW is of the operations after it. False: there is a problem. */
static bool read_overflow(struct okv_bitfield *fields)
{
    static const char *const names[] = {"WRAP", "SAT", "FAIL"};
    const struct okv_resp_arg *name = &fields->args[fields->next + 1];

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (okv_resp_arg_is(name, names[i])) {
            fields->overflow = (enum okv_bitfield_overflow)i;
            fields->next += 2;
            return true;
        }
    fields->problem = "ERR Invalid OVERFLOW type specified";
    return false;
}

bool okv_bitfield_next(struct okv_bitfield *fields, struct okv_bitfield_operation *operation)
{
    while (fields->count - fields->next >= 2 &&
           okv_resp_arg_is(&fields->args[fields->next], "OVERFLOW"))
        if (!read_overflow(fields))
            return false;
    if (fields->next == fields->count)
        return false;
    *operation = (struct okv_bitfield_operation){.overflow = fields->overflow};
    if (!read_kind(fields, operation) || !read_type(fields, operation) ||
        !read_offset(fields, operation) || !read_number(fields, operation))
        return false;
    fields->next += operation->kind == OKV_BITFIELD_GET ? 3 : 4;
    return true;
}

const char *okv_bitfield_check(struct okv_bitfield fields, struct okv_bitfield_summary *summary)
{
    struct okv_bitfield_operation operation;

    *summary = (struct okv_bitfield_summary){.end = 0};
    for (; okv_bitfield_next(&fields, &operation); summary->operations++) {
        uint64_t end = (operation.offset + operation.width + 7) / 8;
        if (operation.kind != OKV_BITFIELD_GET && end > summary->end)
            summary->end = end;
    }
    return fields.problem;
}

/* ---- operations ---- */

static wide least(const struct okv_bitfield_operation *operation)
{
    return operation->is_signed ? -((wide)1 << (operation->width - 1)) : 0;
}

static wide most(const struct okv_bitfield_operation *operation)
{
    return ((wide)1 << (operation->width - operation->is_signed)) - 1;
}

/* The lowest bits of a number as a field has them. */
static int64_t number_of(const struct okv_bitfield_operation *operation, uint64_t bits)
{
    unsigned unused = 64 - operation->width;

    bits <<= unused;
    return operation->is_signed ? (int64_t)bits >> unused : (int64_t)(bits >> unused);
}

int64_t okv_bitfield_get(const struct okv_bitfield_operation *operation, const uint8_t *value,
                         uint64_t size)
{
    return number_of(operation, okv_bits_read(value, size, operation->offset, operation->width));
}

/* What it wants to write. To an unsigned field a number below 0 is one above all others. */
static wide wanted(const struct okv_bitfield_operation *operation, int64_t before)
{
    if (operation->kind == OKV_BITFIELD_INCRBY)
        return (wide)before + operation->number;
    return operation->is_signed ? operation->number : (wide)(uint64_t)operation->number;
}

bool okv_bitfield_run(const struct okv_bitfield_operation *operation, uint8_t *value, uint64_t size,
                      int64_t *result, bool *changes)
{
    int64_t before = okv_bitfield_get(operation, value, size);

    *result = before;
    if (operation->kind == OKV_BITFIELD_GET)
        return true;
    wide number = wanted(operation, before), low = least(operation), high = most(operation);
    bool overflows = number < low || number > high;
    if (overflows && operation->overflow == OKV_BITFIELD_FAIL)
        return false;
    if (overflows && operation->overflow == OKV_BITFIELD_SAT)
        number = number < low ? low : high;
    int64_t after = number_of(operation, (uint64_t)number);
    okv_bits_write(value, operation->offset, operation->width, (uint64_t)after);
    *changes = *changes || after != before;
    if (operation->kind == OKV_BITFIELD_INCRBY)
        *result = after;
    return true;
}
