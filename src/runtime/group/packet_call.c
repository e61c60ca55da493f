/* Encodes a call in the lower half of its packets' flags, and decodes it. */
#include "packet_call.h"

#include <stdio.h>
#include <symm/names.h>

enum {
    SIZES = 509,                            /* a prime: the modulus of count and grid */
    SIZE_BITS = 9,                          /* SIZES fits */
    BLOCK = 100,                            /* less than SIZES, so that all grids differ */
    ROOT = 211,                             /* the same for roots */
    DTYPES = SYMM_INT64 - SYMM_FLOAT32 + 1, /* of arithmetic */
    OPS = SYMM_MAX - SYMM_SUM + 1,
    GATHER = 1 + 3 * DTYPES * OPS, /* the number of the first all-gather; 0 is no call */
    NORM = GATHER + SYMM_FLOAT8_E5M2 - SYMM_FLOAT32 + 1, /* of the first norm */
    NORM_DTYPES = 2,                                     /* float16, bfloat16 */
    BROADCAST = NORM + 2 * NORM_DTYPES                   /* of the first broadcast */
};

/* The reductions by packets, in the order of their numbers. */
static const struct {
    enum symm_operation operation;
    symm_algo algo;
} reductions[] = {
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},
    {SYMM_OPERATION_ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {SYMM_OPERATION_REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY},
};

/* The algorithms of norms, in the order of their numbers. */
static const symm_algo norms[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT};

static uint32_t number_of(const struct symm_packet_call *c)
{
    const uint32_t dtype = (uint32_t)c->dtype - SYMM_FLOAT32;
    uint32_t r = 0;

    if (c->operation == SYMM_OPERATION_ALL_GATHER)
        return GATHER + dtype;
    if (c->operation == SYMM_OPERATION_BROADCAST)
        return BROADCAST + dtype;
    if (c->operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM)
        return NORM + (c->algo == norms[1] ? NORM_DTYPES : 0) + dtype - 1;
    while (reductions[r].operation != c->operation || reductions[r].algo != c->algo)
        r++;
    return 1 + (r * DTYPES + dtype) * OPS + (uint32_t)c->op;
}

uint32_t symm__packet_call(const struct symm_packet_call *call)
{
    const uint64_t size =
        (call->count % SIZES + (uint64_t)call->blocks * BLOCK + (uint64_t)call->root * ROOT) %
        SIZES;

    return number_of(call) << SIZE_BITS | (uint32_t)size;
}

static void write_call(uint32_t call, bool with_size, char *text, size_t nbytes)
{
    const uint32_t number = call >> SIZE_BITS, size = call & ((1u << SIZE_BITS) - 1);
    const uint32_t r = (number - 1) / (DTYPES * OPS), dtype = (number - 1) / OPS % DTYPES;
    const char *const gathered = symm_dtype_name(number - GATHER + SYMM_FLOAT32),
                      *const sent = symm_dtype_name(number - BROADCAST + SYMM_FLOAT32);
    char sized[64] = "";

    if (with_size)
        snprintf(sized, sizeof sized, ", count%s grid%s %u modulo %d",
                 number >= BROADCAST ? "," : " and", number >= BROADCAST ? " and root" : "", size,
                 SIZES);
    if (number >= 1 && number < GATHER)
        snprintf(text, nbytes, "%s(%s, %s, %s%s)", symm__operation_name(reductions[r].operation),
                 symm_algo_name(reductions[r].algo), symm_dtype_name(dtype + SYMM_FLOAT32),
                 symm_redop_name((number - 1) % OPS), sized);
    else if (number >= NORM && number < NORM + NORM_DTYPES * sizeof norms / sizeof norms[0])
        snprintf(text, nbytes, "all_reduce_rms_norm(%s, %s%s)",
                 symm_algo_name(norms[(number - NORM) / NORM_DTYPES]),
                 symm_dtype_name(SYMM_FLOAT16 + (number - NORM) % NORM_DTYPES), sized);
    else if (number >= BROADCAST && sent)
        snprintf(text, nbytes, "broadcast(low_latency, %s%s)", sent, sized);
    else if (number >= GATHER && number < NORM && gathered)
        snprintf(text, nbytes, "all_gather(low_latency, %s%s)", gathered, sized);
    else
        snprintf(text, nbytes, "an unknown call, %#x", call);
}

bool symm__packet_calls_differ(uint32_t flag, uint32_t other)
{
    return other != 0 && flag != other &&
           flag >> SYMM_PACKET_CALL_BITS == other >> SYMM_PACKET_CALL_BITS;
}

void symm__packet_call_texts(uint32_t flag, uint32_t other, char *text, char *other_text,
                             size_t nbytes)
{
    const uint32_t mask = (1u << SYMM_PACKET_CALL_BITS) - 1, a = flag & mask, b = other & mask;
    const bool alike = a >> SIZE_BITS == b >> SIZE_BITS;

    write_call(a, alike, text, nbytes);
    write_call(b, alike, other_text, nbytes);
}
