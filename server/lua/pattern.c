#include "server/lua/pattern.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "server/lua/slices.h"

/* Work of a level of the matcher, of a step there, of a byte that is held against an item of the
 * pattern, of a place that is looked at in a search without a pattern, and of a string that is
 * pushed. */
#define LEVEL 10u
#define STEP 5u
#define TEST 2u
#define PLACE 10u
#define PUSH 50u
/* Repetitions, options and captures of a pattern that may be open at a time: each takes C stack. */
#define DEPTH_MAX 400

/* Lengths of captures that have none. */
enum { OPEN = -1, POSITION = -2 };

static const char *match(struct okv_lua_match *m, const char *s, const char *p);

static int byte_of(char c)
{
    return (unsigned char)c;
}

/* ---- items that match a byte ---- */

/* `p` is at the '['. The first byte of a set may be a ']'. */
static const char *set_end(struct okv_lua_match *m, const char *p)
{
    p += p[1] == '^' ? 2 : 1;
    do {
        if (*p == '\0')
            luaL_error(m->meter.L, "malformed pattern (missing ']')");
        okv_lua_count(&m->meter, 1);
        p += p[0] == '%' && p[1] != '\0' ? 2 : 1;
    } while (*p != ']');
    return p + 1;
}

static const char *item_end(struct okv_lua_match *m, const char *p)
{
    if (*p == '[')
        return set_end(m, p);
    if (*p != '%')
        return p + 1;
    if (p[1] == '\0')
        luaL_error(m->meter.L, "malformed pattern (ends with '%%')");
    return p + 2;
}

static bool class_has(int class, int c)
{
    bool has;

    switch (tolower(class)) {
    case 'a':
        has = isalpha(c);
        break;
    case 'c':
        has = iscntrl(c);
        break;
    case 'd':
        has = isdigit(c);
        break;
    case 'l':
        has = islower(c);
        break;
    case 'p':
        has = ispunct(c);
        break;
    case 's':
        has = isspace(c);
        break;
    case 'u':
        has = isupper(c);
        break;
    case 'w':
        has = isalnum(c);
        break;
    case 'x':
        has = isxdigit(c);
        break;
    case 'z':
        has = c == 0;
        break;
    default:
        return class == c;
    }
    return islower(class) ? has : !has;
}

/* `p` is at the '[', `end` at the ']'. */
static bool set_has(struct okv_lua_match *m, const char *p, const char *end, int c)
{
    bool is_inverted = p[1] == '^', has = false;

    for (p += is_inverted ? 2 : 1; p < end && !has; p++) {
        okv_lua_count(&m->meter, TEST);
        if (*p == '%') {
            p++;
            has = class_has(byte_of(*p), c);
        } else if (p[1] == '-' && end - p > 2) {
            has = byte_of(p[0]) <= c && c <= byte_of(p[2]);
            p += 2;
        } else {
            has = byte_of(*p) == c;
        }
    }
    return has != is_inverted;
}

/* Whether the item from `p` to `end` matches the byte at `s`, if there is one. */
static bool item_has(struct okv_lua_match *m, const char *s, const char *p, const char *end)
{
    if (s >= m->end)
        return false;
    okv_lua_count(&m->meter, TEST);
    switch (*p) {
    case '.':
        return true;
    case '%':
        return class_has(byte_of(p[1]), byte_of(*s));
    case '[':
        return set_has(m, p, end - 1, byte_of(*s));
    default:
        return *p == *s;
    }
}

/* ---- repetitions ---- */

/* As many as there are, then fewer. */
static const char *longest(struct okv_lua_match *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t count = 0;

    while (item_has(m, s + count, p, end))
        count++;
    for (; count >= 0; count--) {
        const char *result = match(m, s + count, end + 1);
        if (result)
            return result;
    }
    return NULL;
}

/* None, then more. */
static const char *shortest(struct okv_lua_match *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *result = match(m, s, end + 1);
        if (result || !item_has(m, s, p, end))
            return result;
    }
}

/* ---- captures ---- */

static const char *open_capture(struct okv_lua_match *m, const char *s, const char *p)
{
    bool is_position = *p == ')';

    if (m->captures >= LUA_MAXCAPTURES)
        luaL_error(m->meter.L, "too many captures");
    m->capture[m->captures].begin = s;
    m->capture[m->captures].length = is_position ? POSITION : OPEN;
    m->captures++;
    const char *result = match(m, s, p + is_position);
    if (!result)
        m->captures--;
    return result;
}

static const char *close_capture(struct okv_lua_match *m, const char *s, const char *p)
{
    unsigned i = m->captures;

    while (i > 0 && m->capture[i - 1].length != OPEN)
        i--;
    if (i == 0)
        luaL_error(m->meter.L, "invalid pattern capture");
    i--;
    m->capture[i].length = s - m->capture[i].begin;
    const char *result = match(m, s, p);
    if (!result)
        m->capture[i].length = OPEN;
    return result;
}

/* The text of a capture again; no text is that of a position. */
static const char *again(struct okv_lua_match *m, const char *s, int digit)
{
    int i = digit - '1';

    if (i < 0 || i >= (int)m->captures || m->capture[i].length == OPEN)
        luaL_error(m->meter.L, "invalid capture index");
    ptrdiff_t length = m->capture[i].length;
    if (length < 0 || m->end - s < length ||
        okv_lua_compare(m->meter.L, m->capture[i].begin, s, (size_t)length) != 0)
        return NULL;
    return s + length;
}

/* ---- items that match a text ---- */

/* From the byte at `p` to the one behind it that closes it. */
static const char *balanced(struct okv_lua_match *m, const char *s, const char *p)
{
    size_t open = 0;

    if (p[0] == '\0' || p[1] == '\0')
        luaL_error(m->meter.L, "unbalanced pattern");
    if (s >= m->end || *s != *p)
        return NULL;
    for (open = 1, s++; s < m->end; s++) {
        okv_lua_count(&m->meter, 1);
        if (*s == p[1] && --open == 0)
            return s + 1;
        if (*s == p[0] && p[0] != p[1])
            open++;
    }
    return NULL;
}

/* Between a byte that is not in the set at `p` and one that is. *end: of the set. */
static bool is_frontier(struct okv_lua_match *m, const char *s, const char *p, const char **end)
{
    int before = s == m->begin ? 0 : byte_of(s[-1]), behind = s == m->end ? 0 : byte_of(*s);

    if (*p != '[')
        luaL_error(m->meter.L, "missing '[' after '%%f' in pattern");
    *end = set_end(m, p);
    return !set_has(m, p, *end - 1, before) && set_has(m, p, *end - 1, behind);
}

/* ---- the matcher ---- */

/* step() of an item that matches a byte, and of what says how often. */
static bool step_item(struct okv_lua_match *m, const char **s, const char **p)
{
    const char *end = item_end(m, *p), *result;

    switch (*end) {
    case '?':
        result = item_has(m, *s, *p, end) ? match(m, *s + 1, end + 1) : NULL;
        if (result)
            *s = result;
        *p = end + 1;
        return !result;
    case '*':
        *s = longest(m, *s, *p, end);
        return false;
    case '+':
        *s = item_has(m, *s, *p, end) ? longest(m, *s + 1, *p, end) : NULL;
        return false;
    case '-':
        *s = shortest(m, *s, *p, end);
        return false;
    default:
        *s = item_has(m, *s, *p, end) ? *s + 1 : NULL;
        *p = end;
        return *s != NULL;
    }
}

/* The same of what begins with a '%'. */
static bool step_escape(struct okv_lua_match *m, const char **s, const char **p)
{
    const char *at = *p;

    if (at[1] == 'b') {
        *s = balanced(m, *s, at + 2);
        *p = at + 4;
    } else if (at[1] == 'f') {
        if (!is_frontier(m, *s, at + 2, p))
            *s = NULL;
    } else if (isdigit(byte_of(at[1]))) {
        *s = again(m, *s, byte_of(at[1]));
        *p = at + 2;
    } else {
        return step_item(m, s, p);
    }
    return *s != NULL;
}

/* Moves *s and *p behind what is at *p, and returns true; or returns false with *s at the end of
 * the whole match, or NULL. */
static bool step(struct okv_lua_match *m, const char **s, const char **p)
{
    okv_lua_count(&m->meter, STEP);
    switch (**p) {
    case '\0':
        return false;
    case '(':
        *s = open_capture(m, *s, *p + 1);
        return false;
    case ')':
        *s = close_capture(m, *s, *p + 1);
        return false;
    case '%':
        return step_escape(m, s, p);
    case '$':
        if ((*p)[1] != '\0')
            return step_item(m, s, p);
        *s = *s == m->end ? *s : NULL;
        return false;
    default:
        return step_item(m, s, p);
    }
}

static const char *match(struct okv_lua_match *m, const char *s, const char *p)
{
    if (++m->depth > DEPTH_MAX)
        luaL_error(m->meter.L, "pattern too complex");
    okv_lua_count(&m->meter, LEVEL);
    while (step(m, &s, &p))
        ;
    m->depth--;
    return s;
}

void okv_lua_match_init(struct okv_lua_match *m, lua_State *L, const char *text, size_t length)
{
    m->meter = (struct okv_lua_meter){L, 0};
    m->begin = text;
    m->end = text + length;
    m->captures = 0;
}

const char *okv_lua_match_at(struct okv_lua_match *m, const char *at, const char *pattern)
{
    m->captures = 0;
    m->depth = 0;
    return match(m, at, pattern);
}

const char *okv_lua_match_plain(struct okv_lua_match *m, const char *at, const char *needle,
                                size_t length)
{
    if (length == 0)
        return at;
    while ((size_t)(m->end - at) >= length) {
        size_t places = okv_lua_slice((size_t)(m->end - at) - length + 1);
        const char *found = memchr(at, *needle, places);
        okv_lua_count(&m->meter, PLACE + (found ? (size_t)(found - at) : places));
        if (found && okv_lua_compare(m->meter.L, found, needle, length) == 0)
            return found;
        at = found ? found + 1 : at + places;
    }
    return NULL;
}

/* ---- results ---- */

static void push_text(struct okv_lua_match *m, const char *text, size_t length)
{
    okv_lua_count(&m->meter, PUSH + length);
    okv_lua_push_bytes(m->meter.L, text, length);
}

void okv_lua_match_push(struct okv_lua_match *m, unsigned i, const char *begin, const char *end)
{
    if (i >= m->captures && i > 0)
        luaL_error(m->meter.L, "invalid capture index");
    if (i >= m->captures)
        push_text(m, begin, (size_t)(end - begin));
    else if (m->capture[i].length == OPEN)
        luaL_error(m->meter.L, "unfinished capture");
    else if (m->capture[i].length == POSITION)
        lua_pushnumber(m->meter.L, (lua_Number)(m->capture[i].begin - m->begin + 1));
    else
        push_text(m, m->capture[i].begin, (size_t)m->capture[i].length);
}

int okv_lua_match_push_all(struct okv_lua_match *m, const char *begin, const char *end)
{
    unsigned count = m->captures == 0 && begin ? 1 : m->captures;

    luaL_checkstack(m->meter.L, (int)count, "too many captures");
    for (unsigned i = 0; i < count; i++)
        okv_lua_match_push(m, i, begin, end);
    return (int)count;
}
