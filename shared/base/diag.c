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
