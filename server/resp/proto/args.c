#include "server/resp/proto/args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/number.h"

/* Redis takes more. INCRBYFLOAT writes at most 328, and a longer text takes longer to read. */
#define FLOAT_MAX_TEXT 1024

void okv_resp_lower(const char *text, char *out, size_t size)
{
    size_t i = 0;

    for (; text[i] && i + 1 < size; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

bool okv_resp_arg_is(const struct okv_resp_arg *arg, const char *word)
{
    return strlen(word) == arg->length &&
           strncasecmp((const char *)arg->text, word, arg->length) == 0;
}

bool okv_resp_arg_integer(const struct okv_resp_arg *arg, int64_t *number)
{
    return okv_number_parse(arg->text, arg->length, number);
}

bool okv_resp_parse_float(const uint8_t *text, size_t length, long double *number)
{
    char copy[FLOAT_MAX_TEXT];
    char *end;

    if (length == 0 || length >= sizeof copy || isspace(text[0]) || memchr(text, '\0', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    *number = strtold(copy, &end);
    bool is_out_of_range = errno == ERANGE && (isinf(*number) || *number == 0);
    return *end == '\0' && !isnan(*number) && !is_out_of_range;
}
