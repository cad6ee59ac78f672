#ifndef RQL_BASE_H
#define RQL_BASE_H

/**
 * @file base.h
 * @brief Linkage and annotation macros, and the limits that every header refers to.
 */

#include <stdint.h>

#if defined(__GNUC__)
/** Marks a function of the public interface. */
#define RQL_API __attribute__((visibility("default")))
/** Marks a function whose result must not be ignored. */
#define RQL_MUST_CHECK __attribute__((warn_unused_result))
#else
#define RQL_API
#define RQL_MUST_CHECK
#endif

#ifdef __cplusplus
/** Opens the declarations of a header for C++. */
#define RQL_BEGIN_DECLS extern "C" {
/** Closes what RQL_BEGIN_DECLS opened. */
#define RQL_END_DECLS }
#else
#define RQL_BEGIN_DECLS
#define RQL_END_DECLS
#endif

/** A duration that never elapses, or a count that is never used up. */
#define RQL_FOREVER INT64_C(-1)

/** Longest lock name in bytes. A name is 1 to this many bytes, without NUL or control bytes. */
#define RQL_NAME_MAX 512
/** Longest TTL in milliseconds: 30 days. */
#define RQL_TTL_MAX_MS INT64_C(2592000000)
/** Largest number of metadata pairs of one lock. */
#define RQL_META_MAX_PAIRS 64
/** Largest number of bytes of metadata of one lock, names and values together. */
#define RQL_META_MAX_BYTES 16384
/** Most units of a lock that is shared (share.h); the limit of readers. */
#define RQL_SHARE_MAX 4096
/** Most units of one share with slots: each slot costs the server time at the grant. */
#define RQL_SLOT_UNITS_MAX 64
/** Largest limit of a share with slots. */
#define RQL_SLOT_LIMIT_MAX 1024
/** Largest rql_lock_options::head_start_ms in milliseconds: one hour. */
#define RQL_HEAD_START_MAX_MS 3600000
/** Size of an acquirer or host id with its terminator. */
#define RQL_ID_SIZE 128
/** Size of a grant's secret with its terminator: 128 bits as hexadecimal digits. */
#define RQL_SECRET_SIZE 33

#endif
