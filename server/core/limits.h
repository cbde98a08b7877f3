/* Compile-time maxima: the dimensions of arrays. */
#ifndef OKV_SERVER_CORE_LIMITS_H
#define OKV_SERVER_CORE_LIMITS_H

#define OKV_DATABASES_MAX 16
#define OKV_LISTENERS_MAX 16
#define OKV_RESP_LISTENERS_MAX 8
#define OKV_WORKERS_MAX 64

#endif
