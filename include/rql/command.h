#ifndef RQL_COMMAND_H
#define RQL_COMMAND_H

/**
 * @file command.h
 * @brief Send a command of your own to a server, for diagnosis.
 *
 * A tool that examines a server needs commands such as `INFO`, `CONFIG GET` or `ACL WHOAMI`. With
 * rql_client_command() it sends them over the connections of its client. Locks need none of this.
 *
 * A tool whose user has hardly any rights sets rql_options::bare_login.
 *
 * Example: why the server refuses a command.
 *
 * @code
 * static const char *const words[] = {"CONFIG", "GET", "maxmemory"};
 * const rql_command command = {.argc = 3, .argv = words};
 * rql_reply *reply = NULL;
 *
 * if (rql_client_command(client, 0, &command, &reply, &error) == RQL_OK) {
 *     if (rql_reply_get_type(reply) == RQL_REPLY_ERROR) {
 *         fprintf(stderr, "refused: %s\n", rql_reply_text(reply, NULL));
 *     }
 *     rql_free(reply);
 * }
 * @endcode
 */

#include <rql/base.h>
#include <rql/client.h>
#include <rql/inspect.h>
#include <rql/status.h>

RQL_BEGIN_DECLS

/** One command: its name and its arguments. This struct does not grow. */
typedef struct rql_command {
    size_t argc;             /**< Number of words, 1 or more. */
    const char *const *argv; /**< The words. */
    /** Number of bytes of each word, which may then contain any bytes; NULL: each word ends at its
     *  terminator. */
    const size_t *argvlen;
} rql_command;

/** The type of a reply. */
typedef enum rql_reply_type {
    RQL_REPLY_NIL = 0,     /**< No value. */
    RQL_REPLY_INTEGER = 1, /**< An integer. */
    RQL_REPLY_TEXT = 2,    /**< Bytes. */
    RQL_REPLY_STATUS = 3,  /**< A short text of the server, such as `OK`. */
    RQL_REPLY_ERROR = 4,   /**< The text of an error, which begins with a word such as `NOPERM`. */
    RQL_REPLY_ARRAY = 5,   /**< A list of replies. */
} rql_reply_type;

/** A reply of a server. Opaque; made by rql_client_command(). It outlives its client. */
typedef struct rql_reply rql_reply;

/**
 * Sends one command to one server, and waits for its reply.
 *
 * The client passes the command on as it is. It follows no redirect and repeats nothing: `MOVED`,
 * `ASK` and every other error of the server is a reply of type ::RQL_REPLY_ERROR, and the status is
 * ::RQL_OK. The command is not kept from doing harm. It uses a connection that locks use too, so do
 * not send a command that blocks, that changes the state of its connection (`SELECT`, `HELLO`,
 * `MULTI`, `SUBSCRIBE`, `CLIENT REPLY`), or that has no reply.
 *
 * @param[in]  client   The client. It connects if necessary.
 * @param[in]  node     Index of the server, as for rql_client_ping_node(): 0 for the first.
 * @param[in]  command  The command. Its words are copied.
 * @param[out] out      The reply; untouched unless RQL_OK.
 * @param[out] error    Why the call did not return RQL_OK, or NULL.
 *
 * @retval RQL_OK         `*out` is set. The reply may be an error of the server.
 * @retval RQL_NOT_FOUND  The client knows no server with this index. Nothing was sent.
 * @retval RQL_E_INVALID  A pointer or a word is NULL, or there is no word. Nothing was sent.
 * @retval RQL_E_IO       The server cannot be reached. Nothing was sent.
 * @retval RQL_E_UNKNOWN  The connection broke, or no reply came in time. The server may have
 *                        executed the command. A reply of more than 16 MiB or 262144 elements, or
 *                        of lists in each other more than 7 deep, breaks the connection, for the
 *                        locks that use it, too.
 * @retval RQL_E_AUTH     The login failed; also other faults of rql_client_connect().
 * @retval RQL_E_NOMEM    Out of memory.
 * @retval RQL_E_FORKED   The client belongs to the parent process.
 *
 * @owner   The caller owns `*out`; release with rql_free().
 * @threads Callable from any thread.
 */
RQL_API RQL_MUST_CHECK rql_status rql_client_command(rql_client *client, size_t node,
                                                     const rql_command *command, rql_reply **out,
                                                     rql_error *error);

/**
 * Returns the type of a reply.
 *
 * @param[in] reply  The reply, or NULL.
 * @return The type; ::RQL_REPLY_NIL for NULL.
 * @threads Callable from any thread.
 */
RQL_API rql_reply_type rql_reply_get_type(const rql_reply *reply);

/**
 * Returns the number in a reply.
 *
 * @param[in] reply  The reply, or NULL.
 * @return The integer; 0 if the reply has another type.
 * @threads Callable from any thread.
 */
RQL_API int64_t rql_reply_integer(const rql_reply *reply);

/**
 * Returns the text of a reply: of bytes, of a status, or of an error.
 *
 * @param[in]  reply       The reply, or NULL.
 * @param[out] out_length  The number of bytes, without the terminator; or NULL.
 * @return The text, which is terminated and belongs to the reply; "" if the reply has another type.
 * @threads Callable from any thread.
 */
RQL_API const char *rql_reply_text(const rql_reply *reply, size_t *out_length);

/**
 * Returns the number of items of a list.
 *
 * @param[in] reply  The reply, or NULL.
 * @return The number; 0 if the reply has another type.
 * @threads Callable from any thread.
 */
RQL_API size_t rql_reply_count(const rql_reply *reply);

/**
 * Returns an item of a list.
 *
 * @param[in] reply  The reply, or NULL.
 * @param[in] index  0 for the first item.
 * @return The item, which belongs to the reply; NULL if there is no such item.
 * @threads Callable from any thread.
 */
RQL_API const rql_reply *rql_reply_item(const rql_reply *reply, size_t index);

RQL_END_DECLS

#endif
