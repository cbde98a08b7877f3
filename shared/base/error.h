/*
 * All result codes: numbers, names and texts.
 *
 * Every function returns 0 or one of these negative codes. The numbers also
 * travel in replies and rejections (docs/protocol.md section 2.3), so a number is
 * never reused or changed. OKV_ENOTFOUND is an answer, not a failure.
 */
#ifndef OKV_SHARED_BASE_ERROR_H
#define OKV_SHARED_BASE_ERROR_H

#define OKV_ERROR_LIST(X)                                                                  \
    X(NOTFOUND, -1, "the key is not in the table")                                         \
    X(INVAL, -2, "an argument is outside its documented range")                            \
    X(KEYSIZE, -3, "the key is not 1 to 1024 bytes long")                                  \
    X(VALUESIZE, -4, "the value is larger than the server accepts")                        \
    X(TOOSMALL, -5, "the buffer is smaller than the value")                                \
    X(FULL, -6, "the server's region has no room for this item")                           \
    X(AGAIN, -7, "no free slot or registration, or operations in flight: end some")        \
    X(TIMEDOUT, -8, "the deadline passed before an answer came")                           \
    X(UNKNOWN, -9, "no answer came: the write may or may not have happened")               \
    X(DISCONNECTED, -10, "the connection to the server is gone")                           \
    X(SHUTDOWN, -11, "the server is shutting down")                                        \
    X(PROTO, -12, "the peer sent a malformed message")                                     \
    X(VERSION, -13, "the peer speaks another protocol version")                            \
    X(CORRUPT, -14, "an image read from the table failed its checks on every attempt")     \
    X(REFUSED, -15, "the connection was refused")                                          \
    X(NODEVICE, -16, "no usable RDMA device")                                              \
    X(ADDRESS, -17, "the address cannot be resolved or used")                              \
    X(PERM, -18, "a permission or resource limit of the system is in the way")             \
    X(NOMEM, -19, "out of memory")                                                         \
    X(IO, -20, "a call to the system or the device failed")                                \
    X(URI, -21, "the URI is not one that okv understands")                                 \
    X(UNSUPPORTED, -22, "the other side or the device does not support this")              \
    X(CREDIT, -23, "the peer sent more requests than it was granted")                      \
    X(CONFLICT, -24, "the item has another version than the one that was required")        \
    X(EXISTS, -25, "the key is in the table already")                                      \
    X(NUMBER, -26, "the value is not a decimal integer of 64 bits without leading zeros")  \
    X(RENDEZVOUS, -27, "the server could not read the value from the client's memory")     \
    X(OVERFLOW, -28, "the result does not fit a signed integer of 64 bits")                \
    X(TTL, -29, "a time to live is 1 ms to 2^47 - 1 ms")                                   \
    X(DENIED, -30, "the user may not do this, or the server does not accept who asks")     \
    X(BUCKETFULL, -31, "the bucket of this key has no room for the item; other keys have") \
    X(READONLY, -32, "the database takes no writes: its log failed")                       \
    X(LOST, -33, "the server restarted without the items that it had")                     \
    X(DISKFULL, -34, "the database takes no writes until its disk has space")              \
    X(FEWCOPIES, -35, "the database takes no writes: too few of its copies are in sync")

/* The public header lists the same codes. A file that includes both only checks that they agree. */
#ifdef OKV_H
#define OKV_ERROR_AGREES(name, number, text) \
    _Static_assert(OKV_E##name == (number),  \
                   "okv.h and shared/base/error.h disagree on OKV_E" #name);
OKV_ERROR_LIST(OKV_ERROR_AGREES)
#undef OKV_ERROR_AGREES
#else
#define OKV_ERROR_ENUM(name, number, text) OKV_E##name = (number),
enum okv_error { OKV_OK = 0, OKV_ERROR_LIST(OKV_ERROR_ENUM) };
#undef OKV_ERROR_ENUM
#endif

/* The lowest code in the list: what a peer may send lies in [OKV_ERROR_LAST, 0]. */
#define OKV_ERROR_LAST (-35)

/* Text of a code: a static string, never NULL; "unknown error" for a number that is not listed. */
const char *okv_error_text(int code);

/* Name of a code, as "OKV_ENOTFOUND"; "OKV_E?" for a number that is not listed. */
const char *okv_error_name(int code);

/* The code for the errno value of a failed system or verbs call. */
int okv_error_from_errno(int errnum);

#endif
