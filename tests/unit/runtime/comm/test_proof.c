/* The keyed hash: the vectors of its authors. */
#include <stdio.h>
#include <string.h>
#include "runtime/comm/proof.h"
#include "test.h"

TEST_GROUP(proof, 10);

/* Key 00 01 .. 0f; the message of n bytes is 00 01 .. n - 1. */
static const struct vector {
    size_t nbytes;
    const char *hash;
} vectors[] = {
    {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
    {2, "8177228da4a45dc7fca38bdef60affe4"},  {3, "9c70b60c5267a94e5f33b6b02985ed51"},
    {4, "f88164c12d9c8faf7d0f6e7c7bcd5579"},  {5, "1368875980776f8854527a07690e9627"},
    {6, "14eeca338b208613485ea0308fd7a15e"},  {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
    {8, "3b62a9ba6258f5610f83e264f31497b4"},  {9, "264499060ad9baabc47f8b02bb6d71ed"},
    {10, "00110dc378146956c95447d3f3d0fbba"}, {11, "0151c568386b6677a2b4dc6f81e5dc18"},
    {12, "d626b266905ef35882634df68532c125"}, {13, "9869e247e9c08b10d029934fc4b952f7"},
    {14, "31fcefac66d7de9c7ec7485fe4494902"}, {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
};

TEST_LOOP(proof, it_is_the_hash_of_the_published_vectors, 0, sizeof vectors / sizeof vectors[0])
{
    uint8_t key[16], message[16], hash[16];
    char text[33];

    for (int i = 0; i < 16; i++)
        key[i] = message[i] = (uint8_t)i;
    symm__proof(key, message, vectors[_i].nbytes, hash);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    ck_assert_str_eq(text, vectors[_i].hash);
}

TEST(proof, every_bit_of_key_and_message_counts)
{
    uint8_t bytes[16 + 33] = {0}, first[16], hash[16]; /* the key, then a message of a handshake */

    symm__proof(bytes, bytes + 16, 33, first);
    for (size_t i = 0; i < 8 * sizeof bytes; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        symm__proof(bytes, bytes + 16, 33, hash);
        ck_assert_mem_ne(first, hash, sizeof hash);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}
