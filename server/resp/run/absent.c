#include "server/resp/run/absent.h"

#include <stdio.h>
#include <string.h>

#include "server/resp/proto/parser.h"

/* Longer than any name. */
#define NAME_MAX_LENGTH 32

/* Each name is between two spaces. */
static const struct {
    const char *what, *names;
} absent[] = {
    {"lists", " BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LMPOP LPOP LPOS "
              "LPUSH LPUSHX LRANGE LREM LSET LTRIM RPOP RPOPLPUSH RPUSH RPUSHX SORT SORT_RO "},
    {"sets", " SADD SCARD SDIFF SDIFFSTORE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS "
             "SMISMEMBER SMOVE SPOP SRANDMEMBER SREM SSCAN SUNION SUNIONSTORE "},
    {"sorted sets",
     " BZMPOP BZPOPMAX BZPOPMIN ZADD ZCARD ZCOUNT ZDIFF ZDIFFSTORE ZINCRBY ZINTER ZINTERCARD "
     "ZINTERSTORE ZLEXCOUNT ZMPOP ZMSCORE ZPOPMAX ZPOPMIN ZRANDMEMBER ZRANGE ZRANGEBYLEX "
     "ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE "
     "ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION ZUNIONSTORE "},
    {"hashes", " HDEL HEXISTS HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HRANDFIELD "
               "HSCAN HSET HSETNX HSTRLEN HVALS "},
    {"streams", " XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE XREAD "
                "XREADGROUP XREVRANGE XSETID XTRIM "},
    {"geospatial indexes",
     " GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEORADIUS_RO GEORADIUSBYMEMBER "
     "GEORADIUSBYMEMBER_RO GEOSEARCH GEOSEARCHSTORE "},
    {"HyperLogLogs", " PFADD PFCOUNT PFDEBUG PFMERGE PFSELFTEST "},
    {"pub/sub", " PSUBSCRIBE PUBLISH PUBSUB PUNSUBSCRIBE SPUBLISH SSUBSCRIBE SUBSCRIBE "
                "SUNSUBSCRIBE UNSUBSCRIBE "},
    {"functions", " FCALL FCALL_RO FUNCTION "},
    {"clusters", " ASKING CLUSTER RESTORE-ASKING "},
    {"replicas", " FAILOVER PSYNC REPLCONF REPLICAOF SLAVEOF SYNC "},
    {"serialized values", " DUMP MIGRATE RESTORE "},
    {"modules", " MODULE "},
    {"such command", " BGREWRITEAOF DEBUG LCS LOLWUT MONITOR SWAPDB "},
};

const char *okv_resp_absent(const struct okv_resp_arg *name)
{
    char word[NAME_MAX_LENGTH + 3];

    if (name->length == 0 || name->length > NAME_MAX_LENGTH ||
        memchr(name->text, ' ', name->length) || memchr(name->text, '\0', name->length))
        return NULL;
    snprintf(word, sizeof word, " %.*s ", (int)name->length, (const char *)name->text);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (strcasestr(absent[i].names, word))
            return absent[i].what;
    return NULL;
}
