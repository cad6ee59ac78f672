#include "check.h"

#include "wire/keys.h"

/* Those of the cluster's specification first; what is behind '=' is by Python's binascii. */
TEST(a_name_has_the_slot_that_a_cluster_gives_it)
{
    const char *names = "123456789=12739|foo=12182|bar=5061|{user1000}.following=3443"
                        "|{user1000}.followers=3443|foo{}{bar}=8363|foo{{bar}}zap=4015"
                        "|foo{bar}{zap}=5061|foo{bar}zap{=5061|{bar=4015|}{bar}=5061|{}x=10595"
                        "|a}b{c=13587|x}{foo}y=12182|{=4092|}=12090";
    static const struct rqli_slice odd[] = {{"", 0}, {"bar}", 3}, {"{bar}", 5}, {"\0{bar}", 6}};
    static const unsigned slot_of_odd[] = {0, 5061, 5061, 5061};
    char name[PART_SIZE];
    int64_t slot;

    while (next_part(&names, name, &slot)) {
        assert_int_equal(rqli_keyslot(rqli_slice_of(name)), slot);
        assert_int_equal(rqli_partition_of(rqli_slice_of(name)), slot / 128);
    }
    EACH (row, odd) {
        assert_int_equal(rqli_keyslot(*row), slot_of_odd[row - odd]);
    }
}

/* What has another tag is nobody's: it is not read as if it were in a partition. */
TEST(a_key_tells_its_set_and_its_name)
{
    static const struct {
        const char *key;
        int set; /* -1: none */
        const char *name;
    } rows[] = {
        {"rql:lock:x", RQLI_WHOLE, "x"},
        {"rql:lock:{00axj}:lock:x", RQLI_WHOLE, "{00axj}:lock:x"},
        {"rql:lock_queue:x", RQLI_WHOLE, ""},
        {"rql:{00axj}:lock:x", 0, "x"},
        {"rql:{17ebn}:lock:{a}", 0x17, "{a}"},
        {"rql:{7ffbu}:lock_queue:x", 127, ""},
        {"rql:{00axj}:lock:", 0, ""},
        {"rql:{00axk}:lock:x", -1, ""},
        {"rql:{80axj}:lock:x", -1, ""},
        {"rql:{0gaxj}:lock:x", -1, ""},
        {"rql:{", -1, ""},
        {"rql:{00", -1, ""},
        {"rql:{00axj}:", 0, ""},
        {"rq", -1, ""},
        {"", -1, ""},
    };

    EACH (row, rows) {
        const struct rqli_slice key = rqli_slice_of(row->key);
        const struct rqli_slice name = rqli_name_in(key, RQLI_KEY_LOCK);

        assert_ptr_equal(rqli_key_set_in(key), row->set < 0 ? NULL : &rqli_key_sets[row->set]);
        assert_int_equal(name.length, strlen(row->name));
        assert_memory_equal(name.data, row->name, name.length);
    }
}
