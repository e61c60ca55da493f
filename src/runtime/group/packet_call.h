/*
 * The lower half of a packet's flag: the call of the packet. A rank that waits for a packet of its
 * own call does not accept one of another call.
 *
 * Operation, algorithm, dtype and reduction are exact. Count, number of blocks and root are hashed
 * modulo 509. If one of them differs, the hashes do: always for different grids or roots, and for
 * counts unless they are a multiple of 509 apart. If several differ, one pair in 509 collides.
 */
#ifndef SYMM_PACKET_CALL_H
#define SYMM_PACKET_CALL_H

#include <stddef.h>
#include "operation.h"

/* Bits of the lower half of a flag; the others are the epoch. */
enum { SYMM_PACKET_CALL_BITS = 16 };

struct symm_packet_call {
    enum symm_operation operation;
    symm_algo algo; /* low_latency or low_latency_two_shot */
    symm_dtype dtype;
    symm_redop op;
    uint64_t count; /* of a norm: that of its elements and of one row more */
    uint32_t blocks;
    int root; /* of a broadcast; else 0 */
};

/* 1 to 2^SYMM_PACKET_CALL_BITS - 1: never 0. */
uint32_t symm__packet_call(const struct symm_packet_call *call);

/* Whether two flags have the same epoch and different calls. An empty slot, 0, has no call. */
bool symm__packet_calls_differ(uint32_t flag, uint32_t other);

/*
 * Writes the calls of two flags, "all_reduce(low_latency, float32, sum)"; with the hash of count
 * and grid, and of the root, if the rest is equal. Writes an invalid call as a number.
 */
void symm__packet_call_texts(uint32_t flag, uint32_t other, char *text, char *other_text,
                             size_t nbytes);

#endif
