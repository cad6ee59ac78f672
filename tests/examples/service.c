/* A service on a libuv loop. Once a second the service does work that only one of its instances may
 * do at a time. Link it with libuv, too: -luv. */
#include <rql/rql.h>
#include <stdio.h>
#include <uv.h>

static rql_loop *loop;
static uv_timer_t timer;
static uv_signal_t ending;
static rql_acquiring turn;

static void on_turn(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    (void)user_data;
    turn.request = NULL;
    if (status == RQL_OK) {
        printf("billing: acquired\n"); /* ... the work ... */
        status = rql_lock_release_async(loop, lock, NULL, NULL);
    }
    if (status < 0) {
        fprintf(stderr, "%s\n", error ? error->message : rql_status_text(status));
    }
}

static void on_second(uv_timer_t *self)
{
    (void)self;
    if (!turn.request && rql_lock_acquire_async(loop, "billing", NULL, &turn, NULL)) {
        fprintf(stderr, "out of memory\n");
    }
}

static void on_term(uv_signal_t *self, int number)
{
    (void)self, (void)number;
    uv_close((uv_handle_t *)&timer, NULL);
    uv_close((uv_handle_t *)&ending, NULL);
    /* Cancels a waiting request, and completes the release of a lock that is held. */
    if (rql_loop_close(loop, NULL, NULL, NULL)) {
        fprintf(stderr, "the loop is already closed\n");
    }
}

int main(void)
{
    rql_client *client = NULL;

    turn.done = on_turn;
    if (rql_client_open(NULL, &client, NULL) ||
        rql_loop_open(client, uv_default_loop(), &loop, NULL)) {
        return 1;
    }
    uv_timer_init(uv_default_loop(), &timer);
    uv_timer_start(&timer, on_second, 0, 1000);
    uv_signal_init(uv_default_loop(), &ending);
    uv_signal_start(&ending, on_term, SIGTERM);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    rql_client_free(client);
    return 0;
}
