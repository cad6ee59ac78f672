#include "wire/partition.h"

/* CRC-16/XMODEM, computed by half bytes. */
static unsigned crc16(struct rqli_slice text)
{
    static const uint16_t of_half[] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    uint16_t crc = 0;

    for (size_t i = 0; i < text.length; i++) {
        unsigned byte = (unsigned char)text.data[i];

        crc = (uint16_t)(crc << 4) ^ of_half[(crc >> 12 ^ byte >> 4) & 0xf];
        crc = (uint16_t)(crc << 4) ^ of_half[(crc >> 12 ^ byte) & 0xf];
    }
    return crc;
}

/* Returns the text between the first brace and the first closing one after it, or all. */
static struct rqli_slice hashed_part(struct rqli_slice name)
{
    const char *end = name.data + name.length;
    const char *open = memchr(name.data, '{', name.length);
    const char *tag = open ? open + 1 : end;
    const char *close = memchr(tag, '}', (size_t)(end - tag));

    return close && close > tag ? (struct rqli_slice){tag, (size_t)(close - tag)} : name;
}

unsigned rqli_keyslot(struct rqli_slice name)
{
    return crc16(hashed_part(name)) % RQLI_KEYSLOTS;
}

unsigned rqli_partition_of(struct rqli_slice name)
{
    return rqli_keyslot(name) / (RQLI_KEYSLOTS / RQLI_PARTITIONS);
}
