/* Requests of RESP with arguments that are as long, or as many, as a test needs. */
#ifndef OKV_TESTS_RESP_REQUEST_H
#define OKV_TESTS_RESP_REQUEST_H

#include <stddef.h>

#define LONG (4u << 20) /* bytes of the longest values */
#define KEY_MAX 1024u
#define KEYS 3000u /* with names of KEY_MAX bytes */

/* Words of a line that stand for others. */
#define VALUE "%v"    /* a value of LONG bytes */
#define KEY "%k"      /* a key of KEY_MAX bytes, which is there */
#define KEYS_ALL "%m" /* KEYS such keys */
#define PAIRS "%p"    /* each of them with a short value */
#define WORDS "%w"    /* many words */
#define NAMES "%n"    /* as many as a command takes, each the name of one with subcommands */
#define PATTERN "%t"  /* what takes longest to compare with such a key */
#define FIELDS "%f"   /* as many operations of BITFIELD as a command may have after another one */

struct bytes {
    char *bytes; /* the user frees them */
    size_t used, capacity;
};

void bytes_add(struct bytes *to, const void *bytes, size_t length);
/* One of KEYS; until the next call. */
const char *key_of(unsigned number);
/* Adds the words of a line as the array of a request. */
void add_request(struct bytes *to, const char *line);

#endif
