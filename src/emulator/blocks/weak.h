/*
 * Weakly ordered memory (SYMM_EMULATED_WEAK): the functions that blocks call while block.weak is
 * set. docs/emulation.md describes the model.
 */
#ifndef SYMM_EMULATOR_WEAK_H
#define SYMM_EMULATOR_WEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ways to memory, which are not coherent with each other without a fence. */
enum emu_proxy { EMU_UNICAST, EMU_MULTICAST_PROXY, EMU_ASYNC, EMU_PROXIES };

struct block;
struct cuda_thread;
struct emu_weak;

/* Called before the first thread of a block. False: no memory. */
bool emu__weak_begin(struct block *b, uint64_t seed);
void emu__weak_free(struct emu_weak *w); /* NULL is allowed */
/* Called before each operation of a thread: at random, drains stores, gives way, or sleeps. */
void emu__weak_pause(struct block *b);
/* A poll found nothing. */
void emu__weak_idle(struct block *b);
/* All threads are at the barrier. */
void emu__weak_block_met(struct block *b);
/* These lanes of the warp that begins at thread `first` are at an exchange. */
void emu__weak_warp_met(struct block *b, unsigned first, uint32_t lanes);
/* The thread ends, still on its own stack. The last one drains all stores. */
void emu__weak_thread_left(struct block *b, const struct cuda_thread *t);

/* What arrivals at an mbarrier of the block release, and what waits for it acquire. */
struct emu_released {
    uint64_t mark; /* of the stores that arriving threads knew of; one bit */
    uint64_t fresh[EMU_PROXIES];
};

/* The running thread arrives at an mbarrier, or has waited for it. */
void emu__weak_arrive(struct block *b, struct emu_released *released);
void emu__weak_waited(struct block *b, const struct emu_released *released);

/* Loads by the asynchronous proxy return nothing older, if the running thread issues them now. */
uint64_t emu__weak_async_fresh(const struct block *b);
/* Such a load, by a unit of the block, from a home address. */
void emu__weak_async_read(struct block *b, const char *home, size_t nbytes, uint64_t fresh,
                          char *out);

/* As in symm_emulated_ops. */
void emu__weak_read(const void *p, size_t nbytes, void *out, uint32_t how);
void emu__weak_write(void *p, size_t nbytes, const void *value, uint32_t how);
void emu__weak_update(void *p, size_t nbytes, const void *operand,
                      void (*apply)(void *at, const void *operand), uint32_t how);
void emu__weak_fence(uint32_t fences);
void emu__weak_settle(void *p, size_t nbytes);

#endif
