#include <rql/version.h>

const char *rql_version(void)
{
    return RQL_VERSION;
}
