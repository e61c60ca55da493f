/*
 * mbarriers: phases that end when all expected threads have arrived and all expected bytes have
 * come. Their state is the driver's; the word in shared memory has a mark only. Calls that break a
 * rule return false, and `rule` gets its text.
 */
#ifndef SYMM_EMULATOR_MBARRIER_H
#define SYMM_EMULATOR_MBARRIER_H

#include "emulator/blocks/weak.h"
#include "hopper.h"

struct emu_mbarrier {
    uint64_t *at;
    uint32_t expected, pending; /* arrivals of a phase; those that are missing */
    int64_t tx;                 /* bytes that are missing */
    uint64_t phase;
    unsigned thread;    /* that initialised it */
    bool async_ready;   /* that thread has passed fence.proxy.async since */
    bool cluster_ready; /* and fence.mbarrier_init.release.cluster */
    struct emu_released released;
};

/* Bytes of a copy have come, in the block `to` of the cluster. With the cluster's lock. */
bool emu__mbarrier_complete(const struct block *to, const void *at, uint32_t nbytes, char *rule);
/* An arrival of another block has come to block `to`. With the cluster's lock. */
bool emu__mbarrier_count(const struct block *to, const void *at, char *rule);
/* Whether block `from` may use the barrier of `to`. With the cluster's lock. */
bool emu__mbarrier_announced(const struct block *from, const struct block *to, const void *at,
                             char *rule);
/* Whether a copy by block `from` may use the barrier of `to`. With the cluster's lock. */
bool emu__mbarrier_serves(const struct block *from, const struct block *to, const void *at,
                          char *rule);

/* As in symm_emulated_hopper_ops. */
void emu__mbarrier_init(uint64_t *bar, uint32_t arrivals);
void emu__mbarrier_end(uint64_t *bar);
void emu__mbarrier_expect(uint64_t *bar, uint32_t nbytes);
void emu__mbarrier_arrive(uint64_t *bar, uint32_t block);
void emu__mbarrier_wait(uint64_t *bar, uint32_t parity);
void emu__mbarrier_fence_async(void);
void emu__mbarrier_fence_init(void);

#endif
