/*
 * Memory shared by kernels and the host: the cells of a signal pad, the record of a long wait, and
 * the words that end a group. Internal; for C, nvcc and the emulated build.
 */
#ifndef SYMM_DETAIL_WAIT_RECORD_H
#define SYMM_DETAIL_WAIT_RECORD_H

#include <stdint.h>

/*
 * A pad is cell[channel][nranks] in symmetric device memory. In rank m's pad, the cell (channel, r)
 * counts the signals of r to m (`arrived`), those of m to r (`sent`), and the signals of r that m
 * has taken (`taken`). Only r writes `arrived`, with one 8-byte store for count and word. Only m
 * uses the rest. Counts start at SYMM_EPOCH_START, only grow, and are compared cyclically. In the
 * cell of m with itself, `sent` may instead count blocks of a grid at a barrier, with `taken` as
 * the count at the barrier before, or epochs of packets.
 */
struct symm_signal_cell {
    uint64_t arrived; /* low half: number of signals; high half: the word of the last one */
    uint32_t sent, taken;
};

/*
 * The cell behind the last cell of a pad. Signals cannot produce these values, so emulated kernels
 * recognise the end of the pad.
 */
#define SYMM_PAD_END_ARRIVED UINT64_C(0x53594d4d20454e44)
#define SYMM_PAD_END_SENT UINT32_C(0xaca6b2b2)
#define SYMM_PAD_END_TAKEN UINT32_C(0x50414453)

enum symm_wait_kind {
    SYMM_WAIT_SIGNAL = 1, /* waits until the count is `expected`; it was `seen` */
    SYMM_WAIT_MISMATCH,   /* rank `from` came with another word, `seen` */
    SYMM_WAIT_PACKET,     /* waits for a packet at `pad` with flag `expected`; it was `seen` */
    SYMM_WAIT_GRID,       /* waits for `expected` arrivals of its own grid; there were `seen` */
    SYMM_WAIT_PACK        /* waits for a pack in the free slot at `pad` */
};

/*
 * The record of a long wait, in pinned host memory, one per group. The thread that holds the claim
 * fills it in, `valid` last (release at system scope), and zeroes `valid` before it releases the
 * claim. The record of a mismatch stays.
 */
struct symm_wait_record {
    uint32_t valid; /* 0: no long wait; else differs from the wait before */
    uint32_t kind;
    int32_t from; /* in the group */
    int32_t channel;
    uint32_t expected, seen;
    uint64_t pad; /* this rank's address of the pad or packet */
    uint32_t reserved[8];
};

/*
 * The host part of an abort line, in pinned host memory, one per group. view.abort points at
 * `abort`, view.record at `record`.
 */
struct symm_host_line {
    uint32_t abort;
    uint32_t reserved[15];
    struct symm_wait_record record;
};

/* The device part of an abort line, in device memory, one per group. view.poison points at it. */
struct symm_device_line {
    /* set by the first thread that sees the abort word: this rank then sends nothing */
    uint32_t poison;
    uint32_t claim;  /* 0: free; 1: a thread of this rank holds the record */
    uint32_t serial; /* the last value of record.valid; used by the holder of the claim only */
    uint32_t reserved[29];
};

#endif
