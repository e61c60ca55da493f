/*
 * The state of weakly ordered memory: a block's pending stores (weak_stores.c) and the values that
 * it has read (weak_reads.c). The accesses (weak_access.c), fences and barriers (weak.c) use both.
 *
 * Each block thread has one state, which all CUDA threads of its block share: nothing here needs a
 * lock. An access lies in one granule, 16 aligned bytes at their home address in this process.
 */
#ifndef SYMM_EMULATOR_WEAK_STATE_H
#define SYMM_EMULATOR_WEAK_STATE_H

#include "emulator/state/machine.h"
#include "block.h"

#define EMU_GRANULE 16u
#define EMU_STORES 1024u /* pending stores of a block at most; one more drains an older one */
#define EMU_READS 512u   /* granules of which a block keeps an old value */
#define EMU_NO_STORE UINT16_MAX

/* The owner of a pending store: the threads that know of it. Smaller numbers: one thread. */
enum {
    EMU_OF_WARP = 1024,              /* plus the warp's number: after __syncwarp */
    EMU_OF_BLOCK = EMU_OF_WARP + 32, /* all threads of the block: after __syncthreads */
    EMU_OF_ENDED = EMU_OF_BLOCK + 1  /* its thread has ended: no thread can release it */
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
    uint16_t owner, thread;                       /* thread: the one that stored */
    uint32_t warps; /* whose threads have waited for an mbarrier of `marks` */
    uint64_t marks; /* of mbarriers at which a thread that knew of it has arrived since */
    bool multicast; /* before an alias fence, neither seen by unicast accesses nor released */
    bool aliased;   /* an alias fence came after it: both proxies see it */
    bool async;     /* of the copy unit, and not waited for yet */
    uint16_t next, position; /* in the chain; in order[] */
};

/* No byte is in two pending stores. */
struct emu_stores {
    struct emu_store slots[EMU_STORES];
    uint16_t order[EMU_STORES]; /* the slots in use, which are the first `count`, then the rest */
    uint16_t heads[EMU_STORES]; /* chains through emu_store.next, by granule */
    unsigned count;
};

/* The values that the block has read of a granule, by one proxy. */
struct emu_read {
    uintptr_t key;         /* the granule, plus the proxy; 0: nothing */
    uint64_t stamp;        /* the block's clock at the oldest of these reads */
    uint16_t mask, wanted; /* the bytes in value[], and all bytes ever read */
    unsigned char value[EMU_GRANULE];
};

struct emu_weak_thread {
    uint64_t fresh[EMU_PROXIES]; /* loads by this proxy return nothing older */
    bool meets;                  /* its next warp exchange orders memory */
};

struct emu_weak {
    uint64_t random;
    unsigned drain, stale, yield, work; /* chances of 256 at an access, drawn for each block */
    uint64_t clock;                     /* counts acquires */
    struct emu_weak_thread *threads;
    unsigned capacity;
    struct emu_stores stores;
    uint64_t layout; /* emu__layout when the block began: the granules below are mapped */
    struct emu_read reads[EMU_READS];
};

static inline uint64_t emu__weak_draw(struct emu_weak *w)
{
    return emu__draw(&w->random);
}

/* Access memory as hardware does: 1, 2, 4 or 8 bytes at once, 16 in two halves. */
void emu__load(const void *at, size_t nbytes, void *out);
void emu__store(void *at, size_t nbytes, const void *value);

/* ---- weak_stores.c ---- */

void emu__stores_clear(struct emu_stores *stores);
/* Adds a copy and returns its slot. No pending store may overlap it. */
unsigned emu__stores_add(struct emu_weak *w, const struct emu_store *store);
/* Returns the first pending store to the granule; the others follow by `next`. */
unsigned emu__stores_first(const struct emu_stores *stores, const char *granule);
/* Writes the store to memory and removes it. */
void emu__stores_drain(struct emu_weak *w, unsigned slot);
void emu__stores_drain_any(struct emu_weak *w);
/* Drains the stores that a thread knows of, in random order, unless they need another fence. */
void emu__stores_release(struct emu_weak *w, unsigned thread);
/* Drains all stores at the end of the block. */
void emu__stores_drain_all(struct emu_weak *w);
bool emu__store_known(const struct emu_store *store, unsigned thread);

/* ---- weak_reads.c ---- */

/* Finds a value not older than `fresh`. False: there is none. */
bool emu__reads_get(const struct emu_weak *w, const struct emu_bytes *at, enum emu_proxy proxy,
                    uint64_t fresh, void *out);
/* Keeps a value just read, beside bytes of the granule that are not older than `fresh`. */
void emu__reads_put(struct emu_weak *w, const struct emu_bytes *at, enum emu_proxy proxy,
                    uint64_t fresh, const void *value);
/* The bytes are written: no proxy returns their old value any more. */
void emu__reads_drop(struct emu_weak *w, const struct emu_bytes *at);
/* An acquire: reads some of the granules again, as if later loads were made early. */
void emu__reads_ahead(struct emu_weak *w);
/* A block begins: reads some granules again that the last block of this thread has read. */
void emu__reads_prefetch(struct emu_weak *w);

#endif
