/* The bytes of an answer as they come, and the lines of one that goes on. */
#ifndef OKV_SERVER_ETCD_LINES_H
#define OKV_SERVER_ETCD_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct okv_etcd_lines {
    char *bytes;
    size_t length;
    size_t size;
};

/* False: that is more than OKV_ETCD_ANSWER_MAX, or there is no memory. */
bool okv_etcd_lines_add(struct okv_etcd_lines *lines, const char *bytes, size_t length);
/* Adds, and gives each line that is now whole to `line`, without its end. */
bool okv_etcd_lines_split(struct okv_etcd_lines *lines, const char *bytes, size_t length,
                          void (*line)(void *context, const char *text, size_t length),
                          void *context);
/* Wipes and frees them: there are tokens among answers. */
void okv_etcd_lines_fini(struct okv_etcd_lines *lines);

#endif
