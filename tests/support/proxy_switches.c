#include "proxy_parts.h"

#include <arpa/inet.h>

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

const char *proxy_socket_path(const struct proxy *proxy)
{
    return proxy->is_tcp ? "" : proxy->local_unix.sun_path;
}

int proxy_port(const struct proxy *proxy)
{
    return ntohs(proxy->local_tcp.sin_port);
}

struct proxy_counts proxy_counts(struct proxy *proxy)
{
    struct proxy_counts counts;

    proxy_lock(proxy);
    counts = (struct proxy_counts){
        .connections = proxy->shared.connections,
        .open = proxy->shared.open,
        .up_bytes = proxy->shared.up.bytes,
        .down_bytes = proxy->shared.down.bytes,
        .replies = proxy->shared.down.replies,
    };
    proxy_unlock(proxy);
    return counts;
}

/* Calls `change` on the rules of each direction that is named. */
static void each_direction(struct proxy *proxy, enum proxy_direction direction,
                           void (*change)(struct proxy_rules *rules, int64_t value), int64_t value)
{
    proxy_lock(proxy);
    if (direction & PROXY_UP) {
        change(&proxy->shared.up, value);
    }
    if (direction & PROXY_DOWN) {
        change(&proxy->shared.down, value);
    }
    proxy_unlock_and_poke(proxy);
}

static void set_dribble(struct proxy_rules *rules, int64_t on)
{
    rules->dribble = on != 0;
}

static void set_delay(struct proxy_rules *rules, int64_t delay_ms)
{
    rules->delay_us = delay_ms * 1000;
}

static void set_freeze(struct proxy_rules *rules, int64_t on)
{
    rules->freeze = on != 0;
}

static void set_cut_after(struct proxy_rules *rules, int64_t bytes)
{
    rules->cut_after = bytes;
}

static void set_drop(struct proxy_rules *rules, int64_t n)
{
    rules->drop_reply = n;
    rules->drop_cuts = false;
}

static void set_cut_reply(struct proxy_rules *rules, int64_t n)
{
    rules->drop_reply = n;
    rules->drop_cuts = true;
}

static void heal(struct proxy_rules *rules, int64_t unused)
{
    (void)unused;
    *rules = (struct proxy_rules){
        .cut_after = -1,
        .bytes = rules->bytes,
        .replies = rules->replies,
    };
}

void proxy_dribble(struct proxy *proxy, enum proxy_direction direction, bool on)
{
    each_direction(proxy, direction, set_dribble, on);
}

void proxy_delay(struct proxy *proxy, enum proxy_direction direction, int64_t delay_ms)
{
    each_direction(proxy, direction, set_delay, delay_ms);
}

void proxy_freeze(struct proxy *proxy, enum proxy_direction direction, bool on)
{
    each_direction(proxy, direction, set_freeze, on);
}

void proxy_mute_last(struct proxy *proxy)
{
    proxy_lock(proxy);
    if (proxy->shared.pairs) {
        proxy->shared.pairs->is_mute = true; /* the newest is the first */
    }
    proxy_unlock_and_poke(proxy);
}

void proxy_cut_after(struct proxy *proxy, enum proxy_direction direction, int64_t bytes)
{
    each_direction(proxy, direction, set_cut_after, bytes);
}

void proxy_drop_reply(struct proxy *proxy, int64_t n)
{
    each_direction(proxy, PROXY_DOWN, set_drop, n);
}

void proxy_cut_reply(struct proxy *proxy, int64_t n)
{
    each_direction(proxy, PROXY_DOWN, set_cut_reply, n);
}

void proxy_cut(struct proxy *proxy)
{
    proxy_lock(proxy);
    proxy_cut_all(proxy);
    proxy_unlock_and_poke(proxy);
}

void proxy_refuse(struct proxy *proxy, bool on)
{
    proxy_lock(proxy);
    if (on && proxy->shared.listener >= 0) {
        proxy_hang_up(proxy->shared.listener);
        proxy->shared.listener = -1;
    } else if (!on && proxy->shared.listener < 0) {
        proxy->shared.listener = proxy_open_listener(proxy);
    }
    proxy_unlock_and_poke(proxy);
}

void proxy_repeat(struct proxy *proxy, bool on)
{
    proxy_lock(proxy);
    proxy->shared.repeats = on;
    proxy_unlock(proxy);
}

void proxy_heal(struct proxy *proxy)
{
    struct pair *pair;

    proxy_lock(proxy);
    proxy->shared.repeats = false;
    for (pair = proxy->shared.pairs; pair; pair = pair->next) {
        pair->is_mute = false;
    }
    proxy_unlock(proxy);
    each_direction(proxy, PROXY_BOTH, heal, 0);
    proxy_refuse(proxy, false);
}
