#include "server/resp/script/shebang.h"

#include <ctype.h>
#include <string.h>

#define MARK "#!"
#define ENGINE "#!lua"
#define OPTION "flags="

/* A part of the line. */
struct part {
    const char *text;
    size_t length;
};

static bool is_text(struct part part, const char *text)
{
    return part.length == strlen(text) && memcmp(part.text, text, part.length) == 0;
}

static bool begins(struct part part, const char *text)
{
    return part.length >= strlen(text) && memcmp(part.text, text, strlen(text)) == 0;
}

static struct part without_first(struct part part, size_t count)
{
    return (struct part){part.text + count, part.length - count};
}

/* Takes the first word off the line. Its length is 0 at the end. */
static struct part next_word(struct part *line)
{
    while (line->length > 0 && isspace((unsigned char)*line->text))
        *line = without_first(*line, 1);
    struct part word = {line->text, 0};
    while (word.length < line->length && !isspace((unsigned char)word.text[word.length]))
        word.length++;
    *line = without_first(*line, word.length);
    return word;
}

static bool refuse(const struct okv_resp_reply *to, const char *problem, struct part part)
{
    okv_resp_error(to, "ERR %s: %.*s", problem, (int)part.length, part.text);
    return false;
}

/* Names with commas between them; nothing is none. All but one tell of what okv does not have:
 * a limit of memory that evicts, replicas, and slots. */
static bool read_flags(struct part names, struct okv_resp_shebang *shebang,
                       const struct okv_resp_reply *to)
{
    static const char *const flags[] = {"no-writes", "allow-oom", "allow-stale", "no-cluster",
                                        "allow-cross-slot-keys"};
    const unsigned count = sizeof flags / sizeof *flags;
    bool has_more = names.length > 0;

    while (has_more) {
        const char *comma = memchr(names.text, ',', names.length);
        struct part name = {names.text, comma ? (size_t)(comma - names.text) : names.length};
        unsigned i = 0;
        while (i < count && !is_text(name, flags[i]))
            i++;
        if (i == count)
            return refuse(to, "Unexpected flag in script shebang", name);
        shebang->is_read_only = shebang->is_read_only || i == 0;
        has_more = comma;
        if (has_more)
            names = without_first(names, name.length + 1);
    }
    return true;
}

bool okv_resp_shebang_read(const char *text, size_t length, struct okv_resp_shebang *shebang,
                           const struct okv_resp_reply *to)
{
    *shebang = (struct okv_resp_shebang){.length = 0};
    if (!begins((struct part){text, length}, MARK))
        return true;
    const char *end = memchr(text, '\n', length);
    if (!end) {
        okv_resp_error(to, "ERR Invalid script shebang");
        return false;
    }
    shebang->length = (size_t)(end - text);
    struct part line = {text, shebang->length};
    struct part word = next_word(&line);
    if (!is_text(word, ENGINE))
        return refuse(to, "Unexpected engine in script shebang", word);
    while ((word = next_word(&line)).length > 0) {
        if (!begins(word, OPTION))
            return refuse(to, "Unknown lua shebang option", word);
        if (!read_flags(without_first(word, strlen(OPTION)), shebang, to))
            return false;
    }
    return true;
}
