#include "net/login/credentials.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "net/sock/site.h"
#include "wire/command.h"

/* The last fifth of the time is left for a late renewal, and for a second try. */
enum { RENEWED_PERCENT = 80 };

rql_status rqli_credentials_ask(const struct rqli_site *site, int64_t deadline_us,
                                rql_credentials *out, int64_t *renew_us_out, rql_error *error)
{
    RQLI_IGNORE_CANCEL_FD;
    int64_t asked_us = rqli_now_us();
    int64_t left_us = deadline_us - asked_us;
    rql_status status;

    *out = (rql_credentials){0};
    status = site->session->credentials(out, left_us > 0 ? left_us / 1000 : 0,
                                        site->session->credentials_data);
    if (status) {
        return rqli_fail(error, RQL_E_AUTH, "%s: no credentials to log in with: %s", site->where,
                         rql_status_text(status));
    }
    out->user[sizeof out->user - 1] = '\0';
    out->password[sizeof out->password - 1] = '\0';
    *renew_us_out = out->valid_ms > 0 && (*out->user || *out->password)
                        ? rqli_after_ms(asked_us, out->valid_ms / 100 * RENEWED_PERCENT +
                                                      out->valid_ms % 100 * RENEWED_PERCENT / 100)
                        : 0;
    return RQL_OK;
}

int64_t rqli_credentials_retry_us(int64_t now_us)
{
    return now_us + RQLI_PAUSE_SPARE.first_us;
}

void rqli_credentials_write(const char *user, const char *password, struct rqli_command *command)
{
    if (user && *user) {
        rqli_command_words(command, "AUTH", user, password, NULL);
    } else {
        rqli_command_words(command, "AUTH", password, NULL);
    }
}
