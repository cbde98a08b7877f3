#include "client/api/argument_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "shared/base/error.h"

static void sentence_write(okv *handle, const char *call, const char *format, va_list args)
{
    struct okv_diag *diag = &handle->argument_error;
    int used = snprintf(diag->text, sizeof diag->text, "%s: ", call);

    if (used > 0 && (size_t)used < sizeof diag->text)
        vsnprintf(diag->text + used, sizeof diag->text - (size_t)used, format, args);
    argument_error_keep(handle);
}

int argument_error(okv *handle, int code, const char *call, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sentence_write(handle, call, format, args);
    va_end(args);
    return code;
}

int argument_refuse(okv *handle, const char *call, const char *format, ...)
{
    va_list args;

    if (!handle || call_enter(handle, call))
        return OKV_EINVAL;
    va_start(args, format);
    sentence_write(handle, call, format, args);
    va_end(args);
    return call_leave(handle, OKV_EINVAL);
}
