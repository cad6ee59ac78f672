#include "base/must.h"
#include "observe/observe_inside.h"

void rqli_log_begin(struct rqli_log_line *self, const char *name)
{
    self->record = (rql_log_record){.name = name, .fields = self->fields};
}

static rql_log_field *add(struct rqli_log_line *self, const char *name, rql_log_kind kind)
{
    rql_log_field *field = &self->fields[self->record.n_fields];

    RQLI_MUST(self->record.n_fields < RQLI_LOG_FIELDS_MAX);
    self->record.n_fields++;
    *field = (rql_log_field){.name = name, .kind = kind};
    return field;
}

void rqli_log_quoted(struct rqli_log_line *self, const char *name, const char *text)
{
    add(self, name, RQL_LOG_QUOTED)->text = text;
}

void rqli_log_list(struct rqli_log_line *self, const char *name, const char *const *items,
                   size_t n_items)
{
    rql_log_field *field = add(self, name, RQL_LOG_LIST);

    field->items = items;
    field->n_items = n_items;
}

void rqli_log_number(struct rqli_log_line *self, const char *name, rql_log_kind kind,
                     int64_t number)
{
    add(self, name, kind)->number = number;
}

void rqli_log_common(struct rqli_log_line *self, const struct rqli_log_subject *subject,
                     const char *host_name)
{
    static const char *const strategies[] = {"queued", "random"};

    rqli_log_number(self, "queue_ttl", RQL_LOG_SECONDS, subject->listeners->queue_ttl_ms);
    rqli_log_quoted(self, "acq_id", subject->acquirer);
    rqli_log_quoted(self, host_name, subject->host);
    rqli_log_quoted(self, "acs_strat", strategies[subject->listeners->access_strategy]);
}

void rqli_log_begin_lock(struct rqli_log_line *self, const char *name, const rql_lock *lock)
{
    const struct rqli_log_subject subject = {&lock->listeners, lock->acquirer, lock->host};

    rqli_log_begin(self, name);
    rqli_log_quoted(self, "lock_key", lock->keys.lock.data);
    rqli_log_common(self, &subject, "hst_id");
}

void rqli_log_send(struct rqli_log_line *self, const struct rqli_listeners *listeners)
{
    listeners->logger(&self->record, listeners->logger_data);
}

void rqli_log_plain(const rql_lock *lock, const char *name)
{
    struct rqli_log_line line;

    if (lock->listeners.logger) {
        rqli_log_begin_lock(&line, name, lock);
        rqli_log_send(&line, &lock->listeners);
    }
}
