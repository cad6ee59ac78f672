#ifndef PROXY_PARTS_H
#define PROXY_PARTS_H

/* What the proxy's thread (proxy.c) and its switches (proxy_switches.c) share. */

#include "proxy.h"
#include "proxy_stream.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/un.h>

struct pair {
    struct pair *next;
    int client;
    int server;
    int again; /* to the server as well, for what is said twice; -1: none */
    struct proxy_stream up;
    struct proxy_stream down;
    bool is_mute;
    bool cut; /* shut down; the thread closes and frees it */
};

struct proxy {
    pthread_t thread;
    int poke; /* eventfd: the switches have changed */
    bool is_tcp;
    struct sockaddr_un server;
    struct sockaddr_un local_unix;
    struct sockaddr_in local_tcp;
    char url[160];

    struct {
        pthread_mutex_t mutex;
        bool stop;
        int listener; /* -1: refusing */
        bool repeats;
        struct proxy_rules up;
        struct proxy_rules down;
        struct pair *pairs;
        int64_t connections;
        int64_t open;
    } shared; /* everything in here under shared.mutex */
};

void proxy_lock(struct proxy *proxy);
void proxy_unlock(struct proxy *proxy);
void proxy_unlock_and_poke(struct proxy *proxy); /* the thread looks again */

/* shutdown(), then close(): a forked child of the test may have copies of the descriptor. */
void proxy_hang_up(int fd);

/* Under the mutex. */
void proxy_cut_all(struct proxy *proxy);
int proxy_open_listener(struct proxy *proxy);

#endif
