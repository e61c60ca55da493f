/*
 * What is in the memfd of a multicast object, seen by all processes that imported it, and what one
 * process keeps of it.
 */
#ifndef SYMM_EMULATOR_MULTICAST_H
#define SYMM_EMULATOR_MULTICAST_H

#include "emulator/memory/object.h"

#define EMU_MAX_BINDS 4096

/* One bind. Others reach the memory through the binder's descriptor, /proc/PID/fd/FD. */
struct emu_bind {
    int32_t device;
    pid_t pid;
    int32_t fd;
    uint64_t inode; /* of the memory: tells a descriptor that was used again */
    uint64_t mc_off, mem_off, nbytes;
};

struct emu_control {
    struct emu_header header;
    pthread_mutex_t lock; /* robust, shared; guards what follows */
    uint32_t ndevices;    /* that belong to the object */
    _Atomic uint32_t nadded;
    bool added[EMU_MAX_DEVICES];
    bool creator_released;
    _Atomic uint64_t generation; /* changes with every bind and unbind */
    uint32_t nbinds;
    struct emu_bind binds[EMU_MAX_BINDS];
};

/* Memory bound by somebody, in this process. */
struct emu_replica {
    uint64_t inode;
    struct emu_object *object; /* NULL: the binder is dead */
    char *data;
    size_t nbytes; /* of data that stands in for a dead binder's memory */
};

/* Guarded by emu__lock. */
struct emu_multicast {
    uint64_t generation; /* of the control when replicas was cleaned last */
    struct emu_replica *replicas;
    size_t nreplicas;
};

static inline struct emu_control *emu__control(const struct emu_object *object)
{
    return (struct emu_control *)object->file;
}

void emu__control_lock(struct emu_control *control);
void emu__control_unlock(struct emu_control *control);

/* replica.c: forgets all replicas. */
void emu__replicas_drop(struct emu_multicast *multicast);

#endif
