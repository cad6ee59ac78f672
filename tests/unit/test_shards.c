#include "check.h"

#include "net/sock/shards.h"
#include "wire/keys.h"

/* The owner of each partition as a digit, by another program that was written for this alone. */
static const struct {
    size_t count;
    const char *names[4];
    const char *owners;
} rows[] = {
    {1,
     {"only:6379"},
     "0000000000000000000000000000000000000000000000000000000000000000"
     "0000000000000000000000000000000000000000000000000000000000000000"},
    {3,
     {"s1", "s2", "s3"},
     "2021100210000111212000020202110000211012012110111122222022111001"
     "0120210021121211210112100220121211110001100110200211022011200222"},
    {4,
     {"s1", "s2", "s3", "s4"},
     "3021303210030111232300020202130000213033013310311123223022111001"
     "0323313031121213310312100220131213110001130113300233022011230323"},
    {3,
     {"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
     "0010201002011222201221002021101020222110120120222012211210020011"
     "1222101020211022121021122122202211110112120211020200122100002101"},
    {3,
     {"a:6379", "[2001:db8::7]:7001", "locks.example.org:6379"},
     "2102000202200021120220100022200222202100222220021220111200111001"
     "2222120201012221112110010001020212122220121020202202221110122010"},
    /* These two have one hash: the name decides. */
    {2,
     {"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"},
     "1111111111111111111111111111111111111111111111111111111111111111"
     "1111111111111111111111111111111111111111111111111111111111111111"},
};

/* Row 1 has 43, 48 and 37; the fourth of row 2 takes 33. */
TEST(a_partition_has_the_server_that_all_clients_find)
{
    EACH_BY (row, rows, row->names[0]) {
        assert_int_equal(strlen(row->owners), RQLI_PARTITIONS);
        for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
            assert_int_equal(rqli_shard_of(row->names, row->count, p), row->owners[p] - '0');
        }
    }
}
