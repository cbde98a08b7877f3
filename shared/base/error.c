#include "shared/base/error.h"

#include <errno.h>

#define OKV_ERROR_IS_LISTED(name, number, text) \
    _Static_assert((number) < 0 && (number) >= OKV_ERROR_LAST, "OKV_ERROR_LAST is out of date");
OKV_ERROR_LIST(OKV_ERROR_IS_LISTED)

const char *okv_error_text(int code)
{
    switch (code) {
    case OKV_OK:
        return "done";
#define OKV_ERROR_TEXT(name, number, text) \
    case number:                           \
        return text;
        OKV_ERROR_LIST(OKV_ERROR_TEXT)
#undef OKV_ERROR_TEXT
    default:
        return "unknown error";
    }
}

const char *okv_error_name(int code)
{
    switch (code) {
    case OKV_OK:
        return "OKV_OK";
#define OKV_ERROR_NAME(name, number, text) \
    case number:                           \
        return "OKV_E" #name;
        OKV_ERROR_LIST(OKV_ERROR_NAME)
#undef OKV_ERROR_NAME
    default:
        return "OKV_E?";
    }
}

int okv_error_from_errno(int errnum)
{
    switch (errnum) {
    case 0:
        return OKV_OK;
    case ENOMEM:
        return OKV_ENOMEM;
    case EACCES:
    case EPERM:
        return OKV_EPERM;
    case ENODEV:
        return OKV_ENODEVICE;
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return OKV_EADDRESS;
    case ECONNREFUSED:
    case ENOENT:
        return OKV_EREFUSED;
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
        return OKV_EDISCONNECTED;
    case ETIMEDOUT:
        return OKV_ETIMEDOUT;
    case EAGAIN:
        return OKV_EAGAIN;
    case EINVAL:
        return OKV_EINVAL;
    case EOPNOTSUPP:
        return OKV_EUNSUPPORTED;
    default:
        return OKV_EIO;
    }
}
