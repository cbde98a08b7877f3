#include "client/engine/refusal.h"

#include <stdarg.h>
#include <stdio.h>

int refuse(okv *handle, int code, const char *call, const char *format, ...)
{
    struct okv_diag *diag = handle ? &handle->refused : NULL;
    va_list args;

    if (!diag)
        return code;
    int used = snprintf(diag->text, sizeof diag->text, "%s: ", call);
    va_start(args, format);
    if (used > 0 && (size_t)used < sizeof diag->text)
        vsnprintf(diag->text + used, sizeof diag->text - (size_t)used, format, args);
    va_end(args);
    refusal_keep(handle);
    return code;
}
