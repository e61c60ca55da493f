/* The works of a graph, in the order in which they were captured. */
#ifndef SYMM_EMULATOR_NODES_H
#define SYMM_EMULATOR_NODES_H

#include "execution.h"

/*
 * A work, and the work of each branch that comes before it: seen[i] is the number of works of
 * branch i, plus one for the beginning of the branch; 0: not even its beginning.
 */
struct emu_node {
    struct emu_work *work;
    unsigned branch;
    uint64_t *seen;
    unsigned nseen;
};

/* The branches run concurrently. Not changed once it is shared. */
struct emu_nodes {
    atomic_int references;
    size_t count, capacity;
    struct emu_node *nodes;
    unsigned nbranches;
};

struct emu_nodes *emu__nodes_create(void);
bool emu__nodes_add(struct emu_nodes *nodes, struct emu_work *work, unsigned branch,
                    const uint64_t *seen, unsigned nseen);
struct emu_nodes *emu__nodes_retain(struct emu_nodes *nodes);
void emu__nodes_release(struct emu_nodes *nodes);

/*
 * Runs all works, each branch on a thread: branch 0 on this one, which is the thread of `stream`.
 * node_priorities: kernels keep the priorities of their capture; else they get the stream's.
 */
void emu__nodes_run(const struct emu_nodes *nodes, bool node_priorities,
                    struct CUstream_st *stream);

/* Whether kernels on this thread get the priority of the stream in which their graph runs. */
extern _Thread_local bool emu__stream_priorities;

#endif
