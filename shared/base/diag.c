#include "shared/base/diag.h"

#include <stdarg.h>
#include <stdio.h>

int okv_diag_set(struct okv_diag *diag, int code, const char *format, ...)
{
    if (diag) {
        va_list args;
        va_start(args, format);
        vsnprintf(diag->text, sizeof diag->text, format, args);
        va_end(args);
    }
    return code;
}

void okv_diag_begin(struct okv_diag *diag, const char *what)
{
    const struct okv_diag sentence = *diag;

    okv_diag_set(diag, 0, "%s: %s", what, sentence.text);
}
