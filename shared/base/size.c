#include "shared/base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shared/base/error.h"

static const char UNIT_LETTERS[] = "KMGTPE";

/* log2 of a unit ("" and "B" are bytes), or -1. */
static int unit_shift(const char *unit)
{
    if (unit[0] == '\0' || strcasecmp(unit, "b") == 0)
        return 0;
    char letter = unit[0] >= 'a' && unit[0] <= 'z' ? (char)(unit[0] - 'a' + 'A') : unit[0];
    const char *found = strchr(UNIT_LETTERS, letter);
    if (!found || (unit[1] != '\0' && strcasecmp(unit + 1, "ib") != 0))
        return -1;
    return 10 * (int)(found - UNIT_LETTERS + 1);
}

int okv_size_parse(const char *text, uint64_t *bytes)
{
    uint64_t number = 0;
    const char *rest = text;

    for (; *rest >= '0' && *rest <= '9'; rest++) {
        uint64_t digit = (uint64_t)(*rest - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return OKV_EINVAL;
        number = number * 10 + digit;
    }
    if (rest == text)
        return OKV_EINVAL;
    if (rest[0] == ' ' && rest[1] != '\0')
        rest++;
    int shift = unit_shift(rest);
    if (shift < 0 || number > UINT64_MAX >> shift)
        return OKV_EINVAL;
    *bytes = number << shift;
    return OKV_OK;
}

void okv_size_format(uint64_t bytes, char *out, size_t size)
{
    int unit = 0;
    while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
        unit++;
    if (unit == 0) {
        snprintf(out, size, "%llu B", (unsigned long long)bytes);
        return;
    }

    int shift = 10 * unit;
    unsigned long long whole = bytes >> shift;
    uint64_t rest = bytes & ((UINT64_C(1) << shift) - 1);
    /* The rest has up to 60 bits: 16 of them are enough for a decimal and leave room to multiply.
     */
    unsigned tenths =
        (unsigned)(shift > 16 ? (rest >> (shift - 16)) * 10 >> 16 : rest * 10 >> shift);
    if (rest == 0)
        snprintf(out, size, "%llu %ciB", whole, UNIT_LETTERS[unit - 1]);
    else
        snprintf(out, size, "%llu.%u %ciB", whole, tenths, UNIT_LETTERS[unit - 1]);
}

int okv_size_read(const char *text, uint64_t low, uint64_t high, uint64_t *bytes,
                  char why[OKV_SIZE_WHY_TEXT])
{
    char least[OKV_SIZE_TEXT], most[OKV_SIZE_TEXT];
    uint64_t size;

    if (okv_size_parse(text, &size) == OKV_OK && size >= low && size <= high) {
        *bytes = size;
        return OKV_OK;
    }
    okv_size_format(low, least, sizeof least);
    okv_size_format(high, most, sizeof most);
    snprintf(why, OKV_SIZE_WHY_TEXT,
             "give a size from %s%s%s: a whole number, then K, M, G or T for powers of 1024 "
             "(512M, not 512MB or 0.5G)",
             least, high == UINT64_MAX ? "" : " to ", high == UINT64_MAX ? " on" : most);
    return OKV_EINVAL;
}
