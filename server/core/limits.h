/* Compile-time maxima: the dimensions of arrays. */
#ifndef OKV_SERVER_CORE_LIMITS_H
#define OKV_SERVER_CORE_LIMITS_H

#define OKV_DATABASES_MAX 16
#define OKV_LISTENERS_MAX 16
#define OKV_RESP_LISTENERS_MAX 8
#define OKV_ADVERTISED_MAX 8
#define OKV_WORKERS_MAX 64

/* Connections for metrics, and those that libmicrohttpd has to admit: one that ends is there for
 * another moment. */
#define OKV_SCRAPERS_MAX 64u
#define OKV_SCRAPERS_ADMITTED (2 * OKV_SCRAPERS_MAX)

#endif
