/*
 * Weakly ordered memory (SYMM_EMULATED_WEAK), for the files that make it up: the stores that a
 * block has pending (weak_stores.c), the values that it has read before (weak_reads.c), and the
 * accesses, fences and barriers that use both (weak.c). docs/emulation.md has the model.
 *
 * One state a block thread, which all CUDA threads of its block share: nothing here needs a lock.
 * An access lies in one granule, 16 aligned bytes at the place where this process keeps them.
 */
#ifndef SYMM_EMULATOR_WEAK_H
#define SYMM_EMULATOR_WEAK_H

#include "emulator/blocks/block.h"

#define EMU_GRANULE 16u
#define EMU_STORES 1024u /* that a block may have pending; the next one makes an older one real */
#define EMU_READS 512u   /* granules of which a block remembers a value */
#define EMU_NO_STORE UINT16_MAX

/* Whose a pending store is: which threads know of it. Below these, one thread's own. */
enum {
    EMU_OF_WARP = 1024,         /* and the warp's number: __syncwarp has made it known there */
    EMU_OF_BLOCK = 1024 + 32,   /* __syncthreads has made it known to all */
    EMU_OF_ENDED = EMU_OF_BLOCK /* its thread has ended: nobody can release it any more */
                   + 1
};

/* Bytes of one granule. */
struct emu_bytes {
    char *granule;
    uint16_t mask; /* a bit a byte */
    uint8_t first, nbytes;
};

struct emu_store {
    struct emu_bytes at;
    unsigned char value[EMU_GRANULE];
    void (*apply)(void *at, const void *operand); /* NULL: the value is stored */
    uint16_t owner, thread;                       /* thread: that made it */
    bool multicast; /* unicast accesses do not see it before an alias fence, nor does a release */
    bool aliased;   /* an alias fence came after it: both proxies see it */
    bool async;     /* of the copy unit, and not waited for yet */
    uint16_t next, place;
};

/* No byte is in two of them. */
struct emu_stores {
    struct emu_store slots[EMU_STORES];
    uint16_t order[EMU_STORES]; /* the slots in use, which are the first `count`, then the rest */
    uint16_t heads[EMU_STORES]; /* chains through emu_store.next, by granule */
    unsigned count;
};

/* What the block has read of a granule, by one proxy. */
struct emu_read {
    uintptr_t key;         /* the granule, plus 1 for multicast; 0: nothing */
    uint64_t stamp;        /* the block's clock at the oldest of these reads */
    uint16_t mask, wanted; /* the bytes that are there, and those that were ever read */
    unsigned char value[EMU_GRANULE];
};

struct emu_weak_thread {
    uint64_t fresh_from;  /* unicast loads return nothing older */
    uint64_t fresh_alias; /* the same for multicast loads */
    bool meets;           /* it comes to a warp exchange that orders memory */
};

struct emu_weak {
    uint64_t random;
    unsigned drain, stale, yield; /* how likely at an access, of 256: drawn for each block */
    uint64_t clock;               /* counts acquires */
    struct emu_weak_thread *threads;
    unsigned capacity;
    struct emu_stores stores;
    uint64_t layout; /* emu__layout when the block began: the granules below are mapped */
    struct emu_read reads[EMU_READS];
};

uint64_t emu__weak_draw(struct emu_weak *w);

/* Memory as hardware accesses it: 1, 2, 4 or 8 bytes at once, 16 in two halves. */
void emu__load(const void *at, size_t nbytes, void *out);
void emu__store(void *at, size_t nbytes, const void *value);

/* ---- weak_stores.c ---- */

void emu__stores_clear(struct emu_stores *stores);
/* Takes a copy; the slot it is in. Nothing pending may overlap it. */
unsigned emu__stores_add(struct emu_weak *w, const struct emu_store *store);
/* The first pending store to the granule; the others follow by `next`. EMU_NO_STORE: none. */
unsigned emu__stores_first(const struct emu_stores *stores, const char *granule);
/* Makes it real. */
void emu__stores_drain(struct emu_weak *w, unsigned slot);
void emu__stores_drain_any(struct emu_weak *w);
/* Makes all that a thread knows of real, in random order, except what a fence still has to come
 * for. */
void emu__stores_release(struct emu_weak *w, unsigned thread);
/* The block ends: all of them. */
void emu__stores_drain_all(struct emu_weak *w);
bool emu__store_known(const struct emu_store *store, unsigned thread);

/* ---- weak_reads.c ---- */

/* A value not older than `fresh`, if there is one. */
bool emu__reads_get(const struct emu_weak *w, const struct emu_bytes *at, bool multicast,
                    uint64_t fresh, void *out);
/* Remembers what has just been read, beside bytes of the granule that are not older than `fresh`.
 */
void emu__reads_put(struct emu_weak *w, const struct emu_bytes *at, bool multicast, uint64_t fresh,
                    const void *value);
/* The bytes are written: neither proxy returns what was there before. */
void emu__reads_drop(struct emu_weak *w, const struct emu_bytes *at);
/* An acquire: reads some of it again at once, as if loads from behind were made here. */
void emu__reads_ahead(struct emu_weak *w);
/* A block begins: reads again some of what the block before it on this thread has read. */
void emu__reads_prefetch(struct emu_weak *w);

#endif
