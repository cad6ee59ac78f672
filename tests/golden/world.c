#include "golden.h"

#include <stdlib.h>

enum { TIMEOUT_MS = 20000 };

/* Scores as the recorded server printed them; newer ones print an exponent. */
static const char *const dump_script =
    "local function pairs_of(flat) local list = {}"
    "  for i = 1, #flat, 2 do list[#list + 1] = {flat[i], flat[i + 1]} end"
    "  return list end\n"
    "local readers = {"
    "  hash = function(key) return pairs_of(redis.call('HGETALL', key)) end,"
    "  zset = function(key) local list = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')"
    "    for i = 2, #list, 2 do list[i] = string.format('%.17g', list[i]) end"
    "    return pairs_of(list) end,"
    "  string = function(key) return redis.call('GET', key) end}\n"
    "local time = redis.call('TIME')\n"
    "local dump = {now = time[1] .. string.format('.%06d', time[2]), keys = {}}\n"
    "local keys = redis.call('KEYS', '*')\n"
    "table.sort(keys)\n"
    "for i, key in ipairs(keys) do"
    "  local type = redis.call('TYPE', key).ok"
    "  dump.keys[i] = {key = key, type = type, pttl = redis.call('PTTL', key),"
    "    value = readers[type](key)} end\n"
    "return cjson.encode(dump)";

void world_open(struct world *self)
{
    assert_int_equal(redis_server_start(&self->server), 0);
    self->raw = redis_server_connect(&self->server);
    assert_non_null(self->raw);
}

void world_close(struct world *self)
{
    redisFree(self->raw);
    redis_server_stop(&self->server);
}

void world_reset(struct world *self, const char *ruby, int64_t io_timeout_ms)
{
    assert_int_equal(redis_server_flush(&self->server), 0);
    self->ruby = ruby;
    self->io_timeout_ms = io_timeout_ms;
    self->proxy = io_timeout_ms > 0 ? proxy_start(self->server.socket_path) : NULL;
    self->names.n_ids = 0;
    self->names.n_times = 0;
}

void world_end_replay(struct world *self)
{
    if (self->proxy) {
        proxy_heal(self->proxy);
    }
    for (size_t i = 0; i < GOLDEN_CLIENTS; i++) {
        self->clients[i].swarm = rql_swarm_free(self->clients[i].swarm);
        self->clients[i].client = rql_client_free(self->clients[i].client);
        self->clients[i].name[0] = '\0';
    }
    self->proxy = proxy_stop(self->proxy);
}

bool world_is_ruby(const struct world *self, const char *process)
{
    return strstr(self->ruby, process) != NULL;
}

/* Only calls through a bad network may end by the silence of the server. */
static rql_client *make_client(struct world *self)
{
    rql_client *client = NULL;
    rql_options options;

    rql_options_init(&options);
    options.url = self->proxy ? proxy_url(self->proxy) : self->server.url;
    options.io_timeout_ms = self->proxy ? self->io_timeout_ms : TIMEOUT_MS;
    options.connect_timeout_ms = options.io_timeout_ms;
    CHECK_OK(rql_client_new(&client, &options, NULL));
    CHECK_OK(rql_client_connect(client, NULL));
    return client;
}

rql_client *world_client(struct world *self, const char *process, const char *identity)
{
    char name[sizeof self->clients[0].name];

    (void)snprintf(name, sizeof name, "%s%s", process, identity ? identity : "");
    for (size_t i = 0; i < GOLDEN_CLIENTS; i++) {
        if (!self->clients[i].client) {
            self->clients[i].client = make_client(self);
            (void)snprintf(self->clients[i].name, sizeof name, "%s", name);
        }
        if (strcmp(self->clients[i].name, name) == 0) {
            return self->clients[i].client;
        }
    }
    fail_msg("more than %d clients", GOLDEN_CLIENTS);
    return NULL;
}

rql_swarm **world_swarm(struct world *self, const rql_client *client)
{
    size_t i = 0;

    while (i < GOLDEN_CLIENTS - 1 && self->clients[i].client != client) {
        i++;
    }
    return &self->clients[i].swarm;
}

double world_now_s(struct world *self)
{
    redisReply *reply = redisCommand(self->raw, "TIME");
    double now_s;

    assert_non_null(reply);
    now_s = strtod(reply->element[0]->str, NULL) + strtod(reply->element[1]->str, NULL) / 1e6;
    freeReplyObject(reply);
    return now_s;
}

void world_send(struct world *self, const cJSON *command, double at_s)
{
    enum { MOST = 16 };

    static char texts[MOST][GOLDEN_TEXT_SIZE];
    const double at_and_now_s[2] = {at_s, world_now_s(self)};
    const char *words[MOST];
    const cJSON *word;
    redisReply *reply;
    int count = 0;

    cJSON_ArrayForEach(word, command)
    {
        assert_true(count < MOST);
        names_move(&self->names, word->valuestring, at_and_now_s, texts[count]);
        words[count] = texts[count];
        count++;
    }
    reply = redisCommandArgv(self->raw, count, words, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", words[0], reply->str);
    }
    freeReplyObject(reply);
}

cJSON *world_dump(struct world *self)
{
    redisReply *reply = redisCommand(self->raw, "EVAL %s 0", dump_script);
    cJSON *dump;

    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_STRING) {
        fail_msg("dump: %s", reply->str);
    }
    dump = cJSON_Parse(reply->str);
    freeReplyObject(reply);
    assert_non_null(dump);
    return dump;
}
