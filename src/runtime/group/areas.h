/*
 * Areas: the symmetric memory through which the collectives of a group exchange data. Each group
 * has first areas from its creation on, and full areas once a call needs them. The two have nothing
 * in common, so that graphs with kernels on the first areas stay valid: each has its own counters,
 * and a call is on one of them.
 */
#ifndef SYMM_AREAS_H
#define SYMM_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/symm.h>

struct symm_areas_size {
    uint32_t packet_blocks; /* the most blocks of a grid that exchanges packets, or by lamport */
    uint32_t block_packets; /* of each of these blocks */
    uint32_t block_slots;   /* for packs that are their own flag */
    uint64_t staging_nbytes;
};

/* Window addresses on this rank. All zero: none. */
struct symm_areas {
    struct symm_areas_size size;
    symm_signal_pad *pad; /* channels of the stream barrier, and of the blocks of a collective */
    symm_packet *packets;
    char *staging;
    symm_packet *slots;
};

/*
 * The sizes of a group of nranks ranks. First: 2 MiB in all for up to 8 ranks, with packets for
 * calls of 64 KiB; the full ones if they are no larger. Full: staging_nbytes, an eighth of that for
 * packets, and as much for slots, but at most 4 MiB for each rank. Pure.
 */
struct symm_areas_size symm__areas_first(uint64_t staging_nbytes, int nranks);
struct symm_areas_size symm__areas_full(uint64_t staging_nbytes, int nranks);
size_t symm__areas_nbytes(const struct symm_areas_size *size, int nranks);

/*
 * Divides a block of this rank into the first areas of a new group, prepares them and waits for it.
 * Local.
 */
symm_status symm__group_take_areas(struct symm_group *group, void *block);

/* Whether multimem instructions can reach the staging area of all ranks. Local. */
bool symm__areas_are_bound(const struct symm_group *group, const struct symm_areas *areas);

/*
 * Makes full areas. Collective over the group, after symm__collective_begin(); text: that of the
 * call. Only votes if the group has full areas of that size, or one rank. Smaller ones stay until
 * the group goes, since graphs may use them. Errors: ERROR_MEMORY, ERROR_DRIVER, ERROR_SYSTEM
 * (the group keeps its areas), ERROR_MISMATCH, ERROR_PEER, ERROR_TIMEOUT
 */
symm_status symm__group_make_areas(struct symm_group *group, uint64_t staging_nbytes,
                                   const char *text);

#endif
