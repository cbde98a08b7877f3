#include "shared/base/number.h"

#define DIGITS_MAX 19u /* any number of this many digits fits 64 bits */

bool okv_number_parse(const void *text, size_t length, int64_t *number)
{
    const uint8_t *digits = text;
    bool is_negative = length > 0 && digits[0] == '-';
    size_t count = length - is_negative;
    uint64_t sum = 0;

    digits += is_negative;
    if (count == 0 || count > DIGITS_MAX || (digits[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        sum = sum * 10 + (unsigned)(digits[i] - '0');
    }
    if (sum > (uint64_t)INT64_MAX + is_negative)
        return false;
    *number = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}
