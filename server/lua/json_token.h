/* The tokens of a JSON text, for the parser (json_parse.c). */
#ifndef OKV_SERVER_LUA_JSON_TOKEN_H
#define OKV_SERVER_LUA_JSON_TOKEN_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/lua/meter.h"
#include "server/lua/output.h"

enum okv_json_type {
    OKV_JSON_OBJECT_BEGIN,
    OKV_JSON_OBJECT_END,
    OKV_JSON_ARRAY_BEGIN,
    OKV_JSON_ARRAY_END,
    OKV_JSON_STRING,
    OKV_JSON_NUMBER,
    OKV_JSON_BOOLEAN,
    OKV_JSON_NULL,
    OKV_JSON_COLON,
    OKV_JSON_COMMA,
    OKV_JSON_END,
    OKV_JSON_ERROR,
};

/* A text that ends with its first zero byte, and the token that was read last. */
struct okv_json_reader {
    lua_State *L;
    struct okv_lua_meter meter;
    const char *text, *at;
    enum okv_json_type type;
    const char *begin;  /* of the token, or where it is wrong */
    const char *error;  /* of OKV_JSON_ERROR */
    const char *string; /* of OKV_JSON_STRING, until the next token */
    size_t length;
    double number;
    bool boolean;
    struct okv_lua_output scratch; /* a string without its escapes */
};

/* Takes a slot of the stack. The text stays where it is. */
void okv_json_reader_begin(lua_State *L, struct okv_json_reader *reader, const char *text);
/* Reads the next token; stays at an error and at the end. */
void okv_json_next(struct okv_json_reader *reader);
/* What the token is called in errors. */
const char *okv_json_found(const struct okv_json_reader *reader);

#endif
