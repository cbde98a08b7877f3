/* What kv-bench does to a record, and how much of each: one list for options, loop and report. */
#ifndef OKV_BENCH_LOAD_OPERATION_H
#define OKV_BENCH_LOAD_OPERATION_H

/*
 * X(NAME, name, text)
 * The last two are of --floor.
 *   insert  puts a record that is new, the next one in number
 *   rmw     read, modify, write: a get, then a put of the same record; timed as one
 *   cas     the same, and the put only if the record has the version that was got
 *   incr    on numbers, which have keys of their own
 */
#define OPERATION_LIST(X)                                      \
    X(GET, get, "gets")                                        \
    X(PUT, put, "puts of a record that is there")              \
    X(INSERT, insert, "puts of a new record")                  \
    X(DELETE, delete, "deletes")                               \
    X(RMW, rmw, "gets, each followed by a put")                \
    X(CAS, cas, "gets, each followed by a put on its version") \
    X(INCR, incr, "additions to a number")                     \
    X(PING, ping, "requests without a payload")                \
    X(ECHO, echo, "requests with the payload of a put, which the server drops")

enum operation {
#define OPERATION_ENUM(NAME, name, text) OPERATION_##NAME,
    OPERATION_LIST(OPERATION_ENUM)
#undef OPERATION_ENUM
        OPERATION_COUNT
};

/* The ones that --mix takes: before this one. */
#define OPERATION_MIXED_COUNT OPERATION_PING

/* "get", "rmw"; static. */
const char *operation_name(enum operation operation);

#endif
