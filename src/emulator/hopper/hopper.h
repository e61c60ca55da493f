/*
 * What a block keeps for the units of Hopper GPUs: its mbarriers, the copies that the tensor memory
 * accelerator has not done yet, and its warpgroups. Kernels call the units by emu__hopper_ops.
 */
#ifndef SYMM_EMULATOR_HOPPER_H
#define SYMM_EMULATOR_HOPPER_H

#include <symm/detail/emulated_hopper.h>
#include "emulator/blocks/block.h"

#define EMU_WARPGROUP 128u
#define EMU_RULE_NBYTES 256u
#define EMU_NAMED_BARRIERS 16u
#define EMU_WARPS_MAX 32u

struct emu_mbarrier;
struct emu_operands;
struct emu_remote;
struct emu_tensor_copy;
struct emu_tensor_store;
struct emu_unfenced;
struct emu_warpgroup;

/* A barrier of bar.sync. */
struct emu_named_barrier {
    uint32_t lanes[EMU_WARPS_MAX]; /* that have come, of warps of which some have not */
    unsigned arrived;              /* threads of whole warps */
    unsigned nthreads;             /* that come; 0: none has come */
    uint64_t rounds;               /* that have ended */
};

struct emu_hopper {
    struct emu_units units;
    struct emu_mbarrier *mbarriers; /* under the cluster's lock */
    unsigned nmbarriers, mbarriers_capacity;
    struct emu_tensor_copy *copies; /* in weakly ordered memory: not done yet */
    unsigned ncopies, copies_capacity;
    struct emu_remote *remotes; /* in weakly ordered memory: not done yet */
    unsigned nremotes, remotes_capacity;
    struct emu_tensor_store *stores; /* not done yet */
    unsigned nstores, stores_capacity;
    uint64_t *committed; /* groups of stores, of each thread */
    unsigned groups_capacity;
    struct emu_unfenced *unfenced; /* of each thread */
    unsigned unfenced_capacity;
    char *box; /* of the copy that is done at the moment */
    size_t box_capacity;
    struct emu_operands *operands; /* of the multiplication that is done at the moment */
    struct emu_warpgroup *groups;  /* NULL: none has multiplied, or changed its registers */
    unsigned ngroups;
    unsigned spare_registers; /* that setmaxnreg has released */
    struct emu_named_barrier named[EMU_NAMED_BARRIERS];
};

/* Returns what this block keeps. A fault if there is no memory for it. */
struct emu_hopper *emu__hopper(struct block *b);

/*
 * Returns the address in the window .shared::cta. 0: the bytes are not in the block's dynamic
 * shared memory.
 */
uint32_t emu__window_address(const struct block *b, const void *p, size_t nbytes);
/* The bytes at an address of that window. NULL: not all of them are dynamic shared memory. */
char *emu__window_bytes(const struct block *b, uint32_t address, size_t nbytes);

/* The value of symm_emulated_module.hopper. */
extern const struct symm_emulated_hopper_ops emu__hopper_ops;

#endif
