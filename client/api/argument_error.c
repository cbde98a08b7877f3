#include "client/api/argument_error.h"

#include <stdarg.h>
#include <stdio.h>

int argument_error(okv *handle, int code, const char *call, const char *format, ...)
{
    struct okv_diag *diag = handle ? &handle->argument_error : NULL;
    va_list args;

    if (!diag)
        return code;
    int used = snprintf(diag->text, sizeof diag->text, "%s: ", call);
    va_start(args, format);
    if (used > 0 && (size_t)used < sizeof diag->text)
        vsnprintf(diag->text + used, sizeof diag->text - (size_t)used, format, args);
    va_end(args);
    argument_error_keep(handle);
    return code;
}
