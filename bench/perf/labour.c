#include "perf/labour.h"

#include "common/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_MANY = 3000 };

struct labourer {
    struct crew *crew;
    struct seat *seat;
    const struct contender *contender;
    void *hand;
    struct prize own;
    unsigned seed;
    pthread_t thread;
};

struct team {
    struct crew *crew;
    void *shared; /* the contender's */
    int hired;
    struct labourer labourer[SEATS_MAX];
};

static const struct prize common = {0, "bench:one"};

static bool give(struct labourer *self, const struct prize *prize)
{
    return !self->contender->give || self->contender->give(self->hand, prize);
}

/* An operation that ended now and took so long. */
static void note(struct labourer *self, int64_t ended_ns, int64_t took_ns)
{
    self->seat->done++;
    if (ended_ns >= self->crew->count_from_ns && ended_ns < self->crew->stop_ns) {
        self->seat->counted++;
        histogram_add(&self->seat->times, took_ns);
    }
}

/* One reading of the clock for each operation: the end of one is the start of the next. */
static void repeat_pairs(struct labourer *self)
{
    int64_t begun_ns = now_ns();
    int64_t ended_ns;

    while (begun_ns < self->crew->stop_ns && self->contender->take(self->hand, &self->own) &&
           give(self, &self->own)) {
        ended_ns = now_ns();
        note(self, ended_ns, ended_ns - begun_ns);
        begun_ns = ended_ns;
    }
}

static void draw(struct labourer *self, struct prize *out)
{
    int drawn = rand_r(&self->seed) % N_MANY;

    out->number = SEATS_MAX + 1 + drawn;
    (void)snprintf(out->name, sizeof out->name, "bench:many:%d", drawn);
}

static void repeat_many(struct labourer *self)
{
    int64_t begun_ns = now_ns();
    int64_t ended_ns;
    struct prize prize;

    draw(self, &prize);
    while (begun_ns < self->crew->stop_ns && self->contender->take(self->hand, &prize) &&
           give(self, &prize)) {
        ended_ns = now_ns();
        note(self, ended_ns, ended_ns - begun_ns);
        begun_ns = ended_ns;
        draw(self, &prize);
    }
}

static void repeat_paced(struct labourer *self)
{
    int64_t begun_ns = now_ns();
    int64_t ended_ns;

    while (begun_ns < self->crew->stop_ns) {
        sleep_until_ns(begun_ns + self->crew->order.pause_ns);
        begun_ns = now_ns();
        if (!self->contender->take(self->hand, &self->own) || !give(self, &self->own)) {
            return;
        }
        ended_ns = now_ns();
        note(self, ended_ns, ended_ns - begun_ns);
        begun_ns = ended_ns;
    }
}

/* Told apart by the clock, so that it means the same for every contender: who asked before the
 * holder gave the lock back has waited, the others found it free. */
static void note_turn(struct labourer *self, int64_t asked_ns, int64_t entered_ns)
{
    int64_t released_ns = atomic_load(&self->crew->released_ns);

    self->seat->done++;
    if (entered_ns < self->crew->count_from_ns || entered_ns >= self->crew->stop_ns) {
        return;
    }
    self->seat->counted++;
    if (asked_ns < released_ns) {
        self->seat->waited++;
        histogram_add(&self->seat->times, entered_ns - released_ns);
    }
}

static void repeat_turns(struct labourer *self)
{
    int64_t asked_ns = now_ns();
    int64_t entered_ns;

    while (asked_ns < self->crew->stop_ns && self->contender->take(self->hand, &common)) {
        entered_ns = now_ns();
        note_turn(self, asked_ns, entered_ns);
        if (self->crew->order.pause_ns > 0 && entered_ns < self->crew->stop_ns) {
            sleep_until_ns(entered_ns + self->crew->order.pause_ns);
        }
        atomic_store(&self->crew->released_ns, now_ns());
        if (!give(self, &common)) {
            return;
        }
        asked_ns = now_ns();
    }
}

/* False: time to go. */
static bool carry_out(struct labourer *self)
{
    switch (self->crew->order.shape) {
    case SHAPE_PAIRS:
        repeat_pairs(self);
        break;
    case SHAPE_TURNS:
        repeat_turns(self);
        break;
    case SHAPE_PACED:
        repeat_paced(self);
        break;
    case SHAPE_MANY:
        repeat_many(self);
        break;
    case SHAPE_QUIT:
        return false;
    }
    return true;
}

static void *serve(void *argument)
{
    struct labourer *self = argument;

    do {
        (void)sem_post(&self->crew->done);
        while (sem_wait(&self->seat->go) != 0 && errno == EINTR) {
        }
    } while (carry_out(self));
    return NULL;
}

static bool hire(struct team *self, int seat)
{
    struct labourer *labourer = &self->labourer[self->hired];
    const struct contender *contender = self->crew->contender;

    *labourer = (struct labourer){
        .crew = self->crew,
        .seat = &self->crew->seat[seat],
        .contender = contender,
        .hand = contender->enter(self->shared, seat),
        .own.number = seat + 1,
        .seed = (unsigned)seat + 1,
    };
    if (!labourer->hand) {
        return false;
    }
    (void)snprintf(labourer->own.name, sizeof labourer->own.name, "bench:%s:%d", contender->name,
                   seat);
    if (pthread_create(&labourer->thread, NULL, serve, labourer) != 0) {
        fault_raise(&self->crew->fault, "cannot start a thread");
        contender->leave(labourer->hand);
        return false;
    }
    self->hired++;
    return true;
}

int labour(struct crew *crew, int process)
{
    const struct site site = {.address = crew->address, .fault = &crew->fault};
    struct team team = {.crew = crew, .shared = crew->contender->open(&site)};
    int seat = process;

    if (!team.shared) {
        return 1;
    }
    while (seat < crew->threads && hire(&team, seat)) {
        seat += crew->processes;
    }
    while (team.hired > 0) {
        struct labourer *last = &team.labourer[--team.hired];

        (void)pthread_join(last->thread, NULL);
        crew->contender->leave(last->hand);
    }
    crew->contender->close(team.shared);
    return 0;
}
