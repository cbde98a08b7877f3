#include "tests/support/resp_request.h"

#include "tests/support/test.h"

#define MANY 20000u
#define FEW 990u
/* Three words each; COMMAND, key and four words more are before them. */
#define FIELD_COUNT 330u

void bytes_add(struct bytes *to, const void *bytes, size_t length)
{
    if (to->used + length > to->capacity) {
        to->capacity = 2 * (to->used + length);
        to->bytes = realloc(to->bytes, to->capacity);
        assert_non_null(to->bytes);
    }
    memcpy(to->bytes + to->used, bytes, length);
    to->used += length;
}

static void add_arg(struct bytes *to, const void *bytes, size_t length)
{
    char head[32];

    bytes_add(to, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", length));
    bytes_add(to, bytes, length);
    bytes_add(to, "\r\n", 2);
}

const char *key_of(unsigned number)
{
    static char key[KEY_MAX + 1];

    memset(key, 'a', KEY_MAX);
    key[snprintf(key, sizeof key, "%u", number)] = 'a';
    return key;
}

static unsigned add_times(struct bytes *to, const char *word, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        add_arg(to, word, strlen(word));
    return times;
}

static unsigned add_fields(struct bytes *to)
{
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        add_arg(to, "GET", 3);
        add_arg(to, "i64", 3);
        add_arg(to, "0", 1);
    }
    return 3 * FIELD_COUNT;
}

/* Returns how many it adds. */
static unsigned add_word(struct bytes *to, const char *word)
{
    static char value[LONG], pattern[KEY_MAX];
    unsigned count = 0;

    if (strcmp(word, VALUE) == 0) {
        add_arg(to, value, sizeof value);
        return 1;
    }
    if (strcmp(word, FIELDS) == 0)
        return add_fields(to);
    if (strcmp(word, KEY) == 0) {
        add_arg(to, key_of(0), KEY_MAX);
        return 1;
    }
    if (strcmp(word, PATTERN) == 0) {
        memset(pattern, 'a', sizeof pattern);
        pattern[0] = pattern[sizeof pattern - 1] = '*';
        pattern[sizeof pattern - 2] = 'b';
        add_arg(to, pattern, sizeof pattern);
        return 1;
    }
    if (strcmp(word, WORDS) == 0)
        return add_times(to, "get", MANY);
    if (strcmp(word, NAMES) == 0)
        return add_times(to, "client", FEW);
    for (unsigned i = 0; word[0] == '%' && i < KEYS; i++) {
        add_arg(to, key_of(i), KEY_MAX);
        if (strcmp(word, PAIRS) == 0)
            add_arg(to, "v", 1);
        count += strcmp(word, PAIRS) == 0 ? 2 : 1;
    }
    if (word[0] != '%')
        add_arg(to, word, strlen(word));
    return count ? count : 1;
}

void add_request(struct bytes *to, const char *line)
{
    struct bytes args = {.used = 0};
    char copy[256], head[32];
    unsigned count = 0;

    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        count += add_word(&args, word);
    bytes_add(to, head, (size_t)snprintf(head, sizeof head, "*%u\r\n", count));
    bytes_add(to, args.bytes, args.used);
    free(args.bytes);
}
