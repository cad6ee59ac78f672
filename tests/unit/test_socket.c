#include "check.h"

#include "base/clock.h"
#include "net/sock/socket.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>

static struct rqli_socket sock;
static int peer;

BEFORE_EACH(set_up)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    sock = (struct rqli_socket){.fd = fds[0]};
    assert_true(rqli_decoder_init(&sock.decoder));
    peer = fds[1];
}

AFTER_EACH(tear_down)
{
    rqli_socket_close(&sock);
    (void)close(peer);
}

/* The kernel's own limit is late by up to an eighth, and the reader must not be. */
TEST(a_read_of_so_many_ms_is_limited_to_less)
{
    static const int64_t left_ms[] = {100, 908, 1000, 5000, 59000};

    if (is_emulated() && sizeof(time_t) > sizeof(long)) {
        print_message("# QEMU does not know getsockopt() for a 64-bit time_t\n");
        return;
    }
    EACH (row, left_ms) {
        struct timeval limit;
        socklen_t size = sizeof limit;
        int64_t limit_us;

        tear_down();
        set_up();
        peer_say(peer, "+PONG\r\n");
        assert_int_equal(rqli_socket_read(&sock, rqli_after_ms(rqli_now_us(), *row), 0),
                         RQLI_SOCKET_BYTES);
        assert_int_equal(getsockopt(sock.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &size), 0);
        limit_us = limit.tv_sec * INT64_C(1000000) + limit.tv_usec;
        assert_in_range(limit_us, 1, *row * 1000 / 8 * 7);
    }
}

/* Here another descriptor of this process stands for the parent's. */
TEST(what_a_child_has_abandoned_leads_nowhere)
{
    int parents = dup(sock.fd);
    char byte;

    rqli_socket_abandon(&sock);
    assert_int_equal(fcntl(sock.fd, F_GETFD), FD_CLOEXEC); /* and is no other file's number */
    assert_int_equal(rqli_socket_send_some(&sock, "x", 1), -1);
    assert_int_equal(rqli_socket_read(&sock, 0, 0), RQLI_SOCKET_BROKEN);
    assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    (void)close(parents);
}
