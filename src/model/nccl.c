#include "nccl.h"

#include "cost.h"

enum protocol { LL, LL128, SIMPLE, PROTOCOLS };

/* Nanoseconds, by protocol. */
static const uint32_t tree_base[] = {6800, 14000, 8400}, ring_base[] = {6600, 14000, 8400};
static const uint32_t tree_link[] = {600, 1250, 4000}, ring_link[] = {600, 1900, 3400};
static const uint32_t tree_net[] = {5000, 8500, 14000}, ring_net[] = {2700, 4000, 14000};
enum {
    POST = 1000, /* of each step of a ring to the network */
    NVLS_LINK = 25000,
    NVLS_NET = 20900,
    PAT_BASE = 8000,
    PAT_RANK = 2800,
};

/* Bytes per us. [0]: of two hosts, [1]: of more. */
static const uint64_t ll_most[] = {39000, 20400}, tree_channel[] = {41400, 36000},
                      tree_ll128_channel[] = {36700, 29000}, nvls_channel[] = {57700, 45500};
enum { RING_LL128_CHANNEL = 36700 };

/* Tenths of the bandwidth of a tree, by protocol and powers of two from 64 bytes on. */
static const uint8_t tree_tenths[PROTOCOLS][23] = {
    {10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10},
    {10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10},
    {9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9},
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounded down; 0 for 0. */
static uint32_t log2_of(uint64_t n)
{
    uint32_t log = 0;

    while (n >>= 1)
        log++;
    return log;
}

static bool is_large(const struct symm_nccl_call *c)
{
    return c->nhosts > 2;
}

static uint64_t nranks_of(const struct symm_nccl_call *c)
{
    return (uint64_t)c->nhosts * c->width;
}

static uint64_t all_channels(const struct symm_nccl_call *c)
{
    return (uint64_t)c->channels * SYMM_MODEL_CHANNEL;
}

/* Of every byte of the buffer, so many steps. */
static uint64_t steps_of(const struct symm_nccl_call *c, uint64_t n)
{
    return c->operation == SYMM_MODEL_ALL_REDUCE ? 2 * (n - 1) : n - 1;
}

/* `bandwidth` is that of the links; each rank moves the buffer so often as a ring does. */
static uint64_t by_steps_ns(const struct symm_nccl_call *c, uint64_t bandwidth)
{
    const uint64_t n = nranks_of(c);

    return symm__transfer_ns(c->nbytes, most(bandwidth * n / steps_of(c, n), 1));
}

static uint64_t ring_ns(const struct symm_nccl_call *c, enum protocol p)
{
    const uint64_t n = nranks_of(c), steps = steps_of(c, n), between = steps_of(c, c->nhosts),
                   inside = most(ring_link[p], p == SIMPLE ? 3 * POST : POST),
                   /* With one GPU per host the latency is exposed. */
        net = c->width == 1 ? tree_net[p] : ring_net[p], links = all_channels(c);
    uint64_t latency = ring_base[p] + (steps - between) * inside + between * net;
    uint64_t bandwidth = links;

    if (p == LL)
        bandwidth = least(links / 2, ll_most[is_large(c)]);
    else if (p == LL128)
        bandwidth = least(links * 92 / 100, (uint64_t)c->channels * RING_LL128_CHANNEL);
    else if (c->operation == SYMM_MODEL_ALL_REDUCE && c->nbytes / (c->channels * n) >= 64)
        latency = latency * 14 / 10;
    return latency + by_steps_ns(c, bandwidth);
}

static uint64_t tree_ns(const struct symm_nccl_call *c, enum protocol p)
{
    const uint32_t size = log2_of(c->nbytes >> 6);
    const uint64_t latency = tree_base[p] + 2 * ((c->width - 1) * (uint64_t)tree_link[p] +
                                                 log2_of(c->nhosts) * (uint64_t)tree_net[p]);
    uint64_t bandwidth = least(all_channels(c) * 92 / 100, c->channels * tree_channel[is_large(c)]);

    if (p == LL)
        bandwidth = least(bandwidth * 10 / 38, ll_most[is_large(c)]);
    else if (p == LL128)
        bandwidth = least(bandwidth * 120 / 128, c->channels * tree_ll128_channel[is_large(c)]);
    if (size < sizeof tree_tenths[p])
        bandwidth = bandwidth * tree_tenths[p][size] / 10;
    return latency + symm__transfer_ns(c->nbytes, bandwidth / 2);
}

static uint64_t nvls_tree_ns(const struct symm_nccl_call *c)
{
    /* 0.85 of a link, one channel of them less, both directions. */
    const uint64_t inside =
        (uint64_t)SYMM_MODEL_CHANNEL * 2 * 85 * (c->channels - 1) / c->channels / 100;
    const uint64_t net = (uint64_t)SYMM_MODEL_CHANNEL * (is_large(c) ? 1 : 2);
    const uint64_t channel = least(least(inside, net), nvls_channel[is_large(c)]);

    return NVLS_LINK + 2 * log2_of(c->nhosts) * (uint64_t)NVLS_NET +
           by_steps_ns(c, c->channels * channel);
}

static uint64_t pat_ns(const struct symm_nccl_call *c)
{
    const uint64_t latency = PAT_BASE + log2_of(c->nhosts) * (uint64_t)tree_net[SIMPLE] * 10 / 35 +
                             nranks_of(c) * PAT_RANK;

    return latency + symm__transfer_ns(c->nbytes, all_channels(c) * 75 / 100);
}

uint64_t symm__nccl_ns(const struct symm_nccl_call *c)
{
    const bool reduces = c->operation == SYMM_MODEL_ALL_REDUCE;
    uint64_t ns = UINT64_MAX;

    for (enum protocol p = LL; p < PROTOCOLS; p++) {
        ns = least(ns, ring_ns(c, p));
        if (reduces)
            ns = least(ns, tree_ns(c, p));
    }
    if (reduces && c->nvls && c->channels > 1)
        ns = least(ns, nvls_tree_ns(c));
    if (!reduces && c->width == 1)
        ns = least(ns, pat_ns(c));
    return ns;
}
