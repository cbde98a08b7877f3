#include "bench/replay/trace.h"

#include <errno.h>
#include <okv.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/workload.h"
#include "shared/base/size.h"
#include "shared/format/hash.h"

#define VALUE_MAX (UINT64_C(1) << 30)
/* A key, a size and blanks around them. */
#define LINE_BYTES (OKV_KEY_MAX_BYTES + 128)
/* Ids and places of requests are 32 bits, one of which says "none". */
#define IDS_MAX (UINT32_MAX - 1)
#define TABLE_BITS_FIRST 10
/* No key begins with it, so no two keys become one when they are filled up. */
#define FILLER '#'

/* Sizes of a key that comes without one. */
#define KEY_SHORT 24
#define KEY_LONG 32
#define VALUE_LOW 100
#define VALUE_HIGH 1024

struct reader {
    struct trace *trace;
    const char *name;
    uint64_t line;
    uint32_t *table; /* ids + 1 by the hash of the key, 0: free */
    size_t mask;
    size_t requests_room, keys_room, bytes_room;
    char *why;
};

/* A key as the file has it. */
struct word {
    const char *bytes;
    size_t length;
    uint64_t hash;
};

static int __attribute__((format(printf, 2, 3)))
refuse(const struct reader *reader, const char *format, ...)
{
    int used = snprintf(reader->why, TRACE_WHY_TEXT, "%.200s:%llu: ", reader->name,
                        (unsigned long long)reader->line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why + used, TRACE_WHY_TEXT - (size_t)used, format, arguments);
    va_end(arguments);
    return OKV_EINVAL;
}

static int lack_memory(const struct reader *reader)
{
    refuse(reader, "out of memory for %u keys and %zu requests", reader->trace->keys,
           reader->trace->count);
    return OKV_ENOMEM;
}

/* ---- memory -------------------------------------------------------------- */

/* Room for `count` elements in an array. False: no memory; it is as it was. */
static bool make_room(void *array, size_t *room, size_t count, size_t element)
{
    void **at = array;

    if (count <= *room)
        return true;
    size_t more = *room > 512 ? *room * 2 : 1024;
    if (more < count)
        more = count;
    void *grown = realloc(*at, more * element);
    if (!grown)
        return false;
    *at = grown;
    *room = more;
    return true;
}

/* The same for the two arrays that have an element for each key. */
static bool make_room_for_key(struct reader *reader)
{
    struct trace *trace = reader->trace;
    size_t room = reader->keys_room;

    return make_room(&trace->sizes, &room, (size_t)trace->keys + 1, sizeof *trace->sizes) &&
           make_room(&trace->ends, &reader->keys_room, (size_t)trace->keys + 1,
                     sizeof *trace->ends);
}

/* ---- keys ---------------------------------------------------------------- */

/* Whether the key of this id is the word, apart from what fills it up. */
static bool is_key(const struct trace *trace, uint32_t id, const struct word *word)
{
    size_t length;
    const char *key = trace_key(trace, id, &length);

    for (; length > 0 && *key == FILLER; key++)
        length--;
    return length == word->length && memcmp(key, word->bytes, length) == 0;
}

/* Where the word is in the table, or is to be. */
static uint32_t *find(const struct reader *reader, const struct word *word)
{
    size_t at = (size_t)word->hash & reader->mask;

    while (reader->table[at] && !is_key(reader->trace, reader->table[at] - 1, word))
        at = (at + 1) & reader->mask;
    return &reader->table[at];
}

static uint64_t hash_of_id(const struct trace *trace, uint32_t id)
{
    size_t length;
    const char *key = trace_key(trace, id, &length);

    for (; length > 0 && *key == FILLER; key++)
        length--;
    return okv_hash_key(key, length, 0);
}

/* A table of twice the size, at most half full. */
static bool widen(struct reader *reader)
{
    size_t slots = reader->table ? 2 * (reader->mask + 1) : (size_t)1 << TABLE_BITS_FIRST;
    uint32_t *table = calloc(slots, sizeof *table);

    if (!table)
        return false;
    free(reader->table);
    reader->table = table;
    reader->mask = slots - 1;
    for (uint32_t id = 0; id < reader->trace->keys; id++) {
        size_t at = (size_t)hash_of_id(reader->trace, id) & reader->mask;
        while (table[at])
            at = (at + 1) & reader->mask;
        table[at] = id + 1;
    }
    return true;
}

static void note_sizes(struct trace *trace, uint32_t key, uint32_t value)
{
    bool first = trace->keys == 0;

    trace->key_least = first || key < trace->key_least ? key : trace->key_least;
    trace->key_most = key > trace->key_most ? key : trace->key_most;
    trace->value_least = first || value < trace->value_least ? value : trace->value_least;
    trace->value_most = value > trace->value_most ? value : trace->value_most;
}

/* A new key, filled up to `length` bytes. False: no memory. */
static bool add_key(struct reader *reader, const struct word *word, size_t length, uint32_t value)
{
    struct trace *trace = reader->trace;
    uint64_t start = trace->keys > 0 ? trace->ends[trace->keys - 1] : 0;

    if (!make_room_for_key(reader) ||
        !make_room(&trace->bytes, &reader->bytes_room, (size_t)start + length, 1))
        return false;
    memset(trace->bytes + start, FILLER, length - word->length);
    memcpy(trace->bytes + start + length - word->length, word->bytes, word->length);
    note_sizes(trace, (uint32_t)length, value);
    trace->ends[trace->keys] = start + length;
    trace->sizes[trace->keys++] = value;
    return true;
}

/* A key that is new; `size` is that of its value, NULL: the line has none. */
static int meet_key(struct reader *reader, const struct word *word, const uint64_t *size)
{
    uint32_t value = VALUE_LOW + (uint32_t)(word->hash >> 33) % (VALUE_HIGH - VALUE_LOW + 1);
    size_t length = word->hash >> 32 & 1 ? KEY_LONG : KEY_SHORT;

    if (size) {
        value = *size < WORKLOAD_VALUE_MIN ? WORKLOAD_VALUE_MIN : (uint32_t)*size;
        length = word->length;
    }
    if (length < word->length)
        length = word->length;
    return add_key(reader, word, length, value) ? OKV_OK : lack_memory(reader);
}

static int add_request(struct reader *reader, const struct word *word, const uint64_t *size)
{
    struct trace *trace = reader->trace;

    if (trace->count == IDS_MAX)
        return refuse(reader, "a trace has at most %u requests", IDS_MAX);
    if ((size_t)trace->keys * 2 >= reader->mask && !widen(reader))
        return lack_memory(reader);
    if (!make_room(&trace->requests, &reader->requests_room, trace->count + 1,
                   sizeof *trace->requests))
        return lack_memory(reader);
    uint32_t *slot = find(reader, word);
    if (*slot == 0) {
        int rc = meet_key(reader, word, size);
        if (rc != OKV_OK)
            return rc;
        *slot = trace->keys;
    }
    trace->requests[trace->count++] = *slot - 1;
    return OKV_OK;
}

/* ---- lines --------------------------------------------------------------- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* The length of the word at `text`. */
static size_t word_length(const char *text)
{
    size_t length = 0;

    while (text[length] && !is_blank(text[length]))
        length++;
    return length;
}

static const char *skip_blanks(const char *text)
{
    while (is_blank(*text))
        text++;
    return text;
}

static bool is_printable(const struct word *word)
{
    for (size_t i = 0; i < word->length; i++)
        if ((unsigned char)word->bytes[i] <= ' ' || word->bytes[i] == 0x7f)
            return false;
    return true;
}

static int parse_size(const struct reader *reader, char *text, uint64_t *size)
{
    char why[OKV_SIZE_WHY_TEXT];
    size_t length = word_length(text);

    if (*skip_blanks(text + length))
        return refuse(reader, "more than KEY and SIZE");
    text[length] = '\0';
    if (okv_size_read(text, 0, VALUE_MAX, size, why) != OKV_OK)
        return refuse(reader, "SIZE '%.40s': %s", text, why);
    return OKV_OK;
}

static int parse_line(struct reader *reader, char *line)
{
    struct word word = {.bytes = skip_blanks(line)};
    uint64_t size;

    if (*word.bytes == '\0' || *word.bytes == '#')
        return OKV_OK;
    word.length = word_length(word.bytes);
    if (word.length > OKV_KEY_MAX_BYTES)
        return refuse(reader, "the key has %zu bytes: give at most %d", word.length,
                      OKV_KEY_MAX_BYTES);
    if (!is_printable(&word))
        return refuse(reader, "the key has a control character: give printable words");
    word.hash = okv_hash_key(word.bytes, word.length, 0);
    char *rest = line + (skip_blanks(word.bytes + word.length) - line);
    if (*rest == '\0')
        return add_request(reader, &word, NULL);
    int rc = parse_size(reader, rest, &size);
    return rc == OKV_OK ? add_request(reader, &word, &size) : rc;
}

/* A line that does not end in the buffer, and one with a zero byte. */
static bool is_cut(const char *line, FILE *file)
{
    size_t length = strlen(line);

    return length == 0 || (line[length - 1] != '\n' && !feof(file));
}

static int read_lines(struct reader *reader, FILE *file)
{
    char line[LINE_BYTES];
    int rc = OKV_OK;

    while (rc == OKV_OK && fgets(line, sizeof line, file)) {
        reader->line++;
        if (is_cut(line, file))
            return refuse(reader, "longer than a key of %d bytes and a size, or no text",
                          OKV_KEY_MAX_BYTES);
        rc = parse_line(reader, line);
    }
    if (rc == OKV_OK && ferror(file))
        return refuse(reader, "%s", strerror(errno));
    if (rc != OKV_OK || reader->trace->count > 0)
        return rc;
    snprintf(reader->why, TRACE_WHY_TEXT, "%.200s: no request: give lines of KEY or KEY SIZE",
             reader->name);
    return OKV_EINVAL;
}

int trace_read(const char *path, struct trace *trace, char why[TRACE_WHY_TEXT])
{
    bool is_stdin = strcmp(path, "-") == 0;
    struct reader reader = {.trace = trace, .name = is_stdin ? "standard input" : path, .why = why};
    FILE *file = is_stdin ? stdin : fopen(path, "re");

    memset(trace, 0, sizeof *trace);
    if (!file) {
        snprintf(why, TRACE_WHY_TEXT, "%.300s: %s", path, strerror(errno));
        return OKV_EINVAL;
    }
    int rc = widen(&reader) ? read_lines(&reader, file) : lack_memory(&reader);
    free(reader.table);
    if (!is_stdin)
        fclose(file);
    return rc;
}

uint64_t trace_number(const struct trace *trace, uint64_t id)
{
    return hash_of_id(trace, (uint32_t)id);
}

void trace_fini(struct trace *trace)
{
    free(trace->requests);
    free(trace->bytes);
    free(trace->ends);
    free(trace->sizes);
}
