#include "tests/support/resp_count.h"

#include "tests/support/test.h"

/* How many elements follow a line. */
static uint64_t elements_of(const char *line)
{
    int64_t number = strtoll(line + 1, NULL, 10);

    if (number <= 0) /* null is -1 */
        return 0;
    if (line[0] == '%')
        return 2 * (uint64_t)number;
    return line[0] == '*' || line[0] == '~' ? (uint64_t)number : 0;
}

/* How many bytes follow a line, with their CR LF. */
static uint64_t bytes_of(const char *line)
{
    int64_t number = strtoll(line + 1, NULL, 10);

    return (line[0] == '$' || line[0] == '=') && number >= 0 ? (uint64_t)number + 2 : 0;
}

static void end_element(struct resp_count *count)
{
    if (--count->missing == 0)
        count->replies++;
}

static void end_line(struct resp_count *count)
{
    count->line[count->line_used] = '\0';
    count->line_used = 0;
    if (!count->line[0] || !strchr("+-:$*_,#=%~(", count->line[0]))
        fail_msg("this is no reply: %s", count->line);
    count->missing += count->missing == 0; /* the first line of a reply is one of it */
    count->missing += elements_of(count->line);
    count->bulk = bytes_of(count->line);
    if (count->bulk == 0)
        end_element(count);
}

void resp_count_add(struct resp_count *count, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        if (count->bulk > 0) {
            size_t taken = count->bulk < length - at ? (size_t)count->bulk : length - at;
            at += taken;
            count->bulk -= taken;
            if (count->bulk == 0)
                end_element(count);
            continue;
        }
        char byte = bytes[at++];
        if (byte == '\n')
            end_line(count);
        else if (count->line_used < sizeof count->line - 1)
            count->line[count->line_used++] = byte;
    }
}
