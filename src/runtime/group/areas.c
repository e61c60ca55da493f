/* Sizes, makes and clears the areas of a group. */
#include "areas.h"

#include "runtime/base/numbers.h"
#include "runtime/memory/heap.h"
#include "call.h"
#include "pad.h"

enum {
    NCHANNELS = SYMM_CHANNEL_BLOCKS + 4 * SYMM_BLOCKS_MAX,
    FIRST_NBYTES = 2 << 20,
    FIRST_STAGING = 256 << 10, /* at least */
    FIRST_BLOCKS = 48,         /* 64 KiB travel in 43 blocks of 128 packets (plan.c) */
    FIRST_BLOCK_PACKETS = 128, /* of each rank, in each set */
    FIRST_BLOCK_SLOTS = 4,     /* of each rank, in each half of each set */
    PACKET_SETS = 2,
    SLOTS_NBYTES = 4 << 20,
    SLOT_FREE = 0xff /* each byte of a free slot: symm_dev_take_packs() */
};

/* At least one pack of every rank in each chunk slot of two_shot, for one block. */
static uint64_t round_staging(uint64_t wanted, int nranks)
{
    return symm__round_up(symm__max(wanted, 128 * (uint64_t)nranks), SYMM_HEAP_ALIGNMENT);
}

static size_t pad_nbytes(int nranks)
{
    return symm__round_up(symm__pad_nbytes(NCHANNELS, nranks), SYMM_HEAP_ALIGNMENT);
}

/* For n packets or slots of each block. */
static size_t blocks_nbytes(const struct symm_areas_size *size, uint32_t n)
{
    return symm__round_up((size_t)n * size->packet_blocks * sizeof(symm_packet),
                          SYMM_HEAP_ALIGNMENT);
}

static size_t packets_nbytes(const struct symm_areas_size *size)
{
    return blocks_nbytes(size, size->block_packets);
}

static size_t slots_nbytes(const struct symm_areas_size *size)
{
    return blocks_nbytes(size, size->block_slots);
}

size_t symm__areas_nbytes(const struct symm_areas_size *size, int nranks)
{
    return pad_nbytes(nranks) + packets_nbytes(size) + size->staging_nbytes + slots_nbytes(size);
}

static struct symm_areas_size first_size(int nranks)
{
    struct symm_areas_size size = {
        .packet_blocks = FIRST_BLOCKS,
        .block_packets = FIRST_BLOCK_PACKETS * PACKET_SETS * (uint32_t)nranks,
        .block_slots = FIRST_BLOCK_SLOTS * 2 * PACKET_SETS * (uint32_t)nranks,
    };
    const uint64_t used = symm__areas_nbytes(&size, nranks),
                   left = used < FIRST_NBYTES ? FIRST_NBYTES - used : 0;

    size.staging_nbytes = round_staging(symm__max(left, FIRST_STAGING), nranks);
    return size;
}

/*
 * Packets and slots of each block: an eighth of the staging area in all, but at least two for every
 * rank in each of the four parts of a block (packets.cuh, lamport.cuh). More slots than
 * SLOTS_NBYTES for each rank would only fill the caches.
 */
struct symm_areas_size symm__areas_full(uint64_t staging, int nranks)
{
    const uint64_t wanted = staging / 8 / sizeof(symm_packet) / SYMM_BLOCKS_MAX,
                   each = symm__max(wanted, 8 * (uint64_t)nranks),
                   most = (uint64_t)SLOTS_NBYTES * (uint64_t)nranks / sizeof(symm_packet) /
                          SYMM_BLOCKS_MAX;

    return (struct symm_areas_size){
        .packet_blocks = SYMM_BLOCKS_MAX,
        .block_packets = (uint32_t)each,
        .block_slots = (uint32_t)symm__min(each, most),
        .staging_nbytes = round_staging(staging, nranks),
    };
}

struct symm_areas_size symm__areas_first(uint64_t staging, int nranks)
{
    const struct symm_areas_size first = first_size(nranks),
                                 full = symm__areas_full(staging, nranks);

    return symm__areas_nbytes(&full, nranks) <= symm__areas_nbytes(&first, nranks) ? full : first;
}

/* Divides a block. */
static struct symm_areas areas_in(void *block, const struct symm_areas_size *size, int nranks)
{
    char *const packets = (char *)block + pad_nbytes(nranks);

    return (struct symm_areas){
        .size = *size,
        .pad = block,
        .packets = (symm_packet *)(void *)packets,
        .staging = packets + packets_nbytes(size),
        .slots = (symm_packet *)(void *)(packets + packets_nbytes(size) + size->staging_nbytes),
    };
}

/* Prepares the pad, the packets and the slots of this rank, and waits for it. */
static symm_status clear(const struct symm_group *group, const struct symm_areas *areas)
{
    const struct symm_context *ctx = group->ctx;
    symm_status st;

    TRY_CU(ctx->drv, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)areas->packets, 0,
           packets_nbytes(&areas->size), ctx->own_stream);
    TRY_CU(ctx->drv, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)areas->slots, SLOT_FREE,
           slots_nbytes(&areas->size), ctx->own_stream);
    TRY(symm__pad_clear(ctx, areas->pad, NCHANNELS, group->nranks));
out:
    return st;
}

symm_status symm__group_take_areas(struct symm_group *group, void *block)
{
    const struct symm_areas_size size =
        symm__areas_first(group->ctx->agreed.staging_nbytes, group->nranks);

    group->first = areas_in(block, &size, group->nranks);
    if (size.packet_blocks == SYMM_BLOCKS_MAX)
        group->full = group->first;
    return clear(group, &group->first);
}

/* Allocates areas on all ranks, or on none. The window may be too small for them. */
static symm_status alloc(struct symm_group *group, const struct symm_areas_size *size,
                         const char *text, struct symm_areas *out)
{
    const size_t nbytes = symm__areas_nbytes(size, group->nranks);
    void *block = NULL;
    symm_status st = symm__memory_alloc(group->ctx->memory, group->comm, group, SYMM_BLOCK_INTERNAL,
                                        nbytes, text, &block);

    if (st != SYMM_OK)
        return symm__fail_in(st == SYMM_ERROR_ARGUMENT ? SYMM_ERROR_MEMORY : st,
                             "%zu bytes for the group's areas: ", nbytes);
    *out = areas_in(block, size, group->nranks);
    return SYMM_OK;
}

bool symm__areas_are_bound(const struct symm_group *group, const struct symm_areas *areas)
{
    const struct symm_context *ctx = group->ctx;
    const char *base = symm__memory_window(ctx->memory, ctx->join.rank);

    return symm__multicast_covers(group->mc, (uint64_t)(areas->staging - base),
                                  areas->size.staging_nbytes);
}

/*
 * New areas must not take algorithms away: if the first ones are bound to the multicast object,
 * they must be, too. The same on all ranks.
 */
static symm_status check_bound(const struct symm_group *group, const struct symm_areas *areas)
{
    if (symm__areas_are_bound(group, areas) || !symm__areas_are_bound(group, &group->first))
        return SYMM_OK;
    return symm__fail(SYMM_ERROR_DRIVER,
                      "the group's areas could not be bound to its multicast object");
}

symm_status symm__group_make_areas(struct symm_group *group, uint64_t staging, const char *text)
{
    struct symm_context *ctx = group->ctx;
    const struct symm_areas_size size = symm__areas_full(staging, group->nranks);
    struct symm_vote ready = {.text = text, .fd = -1};
    struct symm_areas areas = {.staging = NULL};
    symm_status st = SYMM_OK;

    /* With nothing to make, a vote: another rank may have failed before, and has voted that. */
    if (group->nranks == 1 ||
        (group->full.staging && group->full.size.staging_nbytes >= size.staging_nbytes))
        return symm__host_comm_vote(group->comm, &ready, symm__deadline_in(ctx->timeout_ms));
    TRY(alloc(group, &size, text, &areas));
    /* No rank may send before all areas are ready. If one rank failed, all ranks fail. */
    ready.status = check_bound(group, &areas);
    if (ready.status == SYMM_OK)
        ready.status = clear(group, &areas);
    st = symm__host_comm_vote(group->comm, &ready, symm__deadline_in(ctx->timeout_ms));
    if (st != SYMM_OK) {
        symm__memory_free_internal(ctx->memory, group, areas.pad);
        goto out;
    }
    pthread_mutex_lock(&group->lock);
    group->full = areas; /* the I/O thread reads it */
    pthread_mutex_unlock(&group->lock);
    group->areas_refused = false;
out:
    return st;
}
