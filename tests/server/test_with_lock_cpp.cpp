#include <rql/admin.h>

extern "C" int throw_out_of_block(rql_client *client, const char *name, int value);

namespace
{

struct Thrown {
    int value;
};

int throw_it(rql_lock *lock, void *user_data)
{
    if (rql_lock_verify(lock, nullptr) == RQL_OK) {
        throw Thrown{*static_cast<int *>(user_data)};
    }
    return 0;
}

} // namespace

int throw_out_of_block(rql_client *client, const char *name, int value)
{
    rql_block block{};

    block.run = throw_it;
    block.user_data = &value;
    try {
        (void)!rql_lock_run(client, name, nullptr, &block, nullptr);
    } catch (const Thrown &thrown) {
        return thrown.value;
    }
    return 0;
}
