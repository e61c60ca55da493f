/*
 * Multicast objects: the control block in the memfd, seen by all processes that imported it, and
 * the state that one process keeps of it. All of it is guarded by emu__lock unless it says
 * otherwise.
 */
#ifndef SYMM_EMULATOR_MULTICAST_H
#define SYMM_EMULATOR_MULTICAST_H

#include <pthread.h>
#include <stdatomic.h>
#include "emulator/state/machine.h"
#include "object.h"

#define EMU_MAX_BINDS 4096

/* One bind. Other processes open the memory by the binder's descriptor, /proc/PID/fd/FD. */
struct emu_bind {
    int32_t device;
    pid_t pid;
    int32_t fd;
    uint64_t inode; /* of the memory: detects a descriptor number that was used again */
    uint64_t mc_off, mem_off, nbytes;
};

struct emu_control {
    struct emu_header header;
    pthread_mutex_t lock; /* robust, shared; guards the rest */
    uint32_t ndevices;    /* of the object, as announced */
    _Atomic uint32_t nadded;
    bool added[EMU_MAX_DEVICES];
    bool creator_released;
    bool imported_late;          /* a new object, in place of one whose creator had released it */
    _Atomic uint64_t generation; /* changes with every bind and unbind */
    uint32_t nbinds;
    struct emu_bind binds[EMU_MAX_BINDS];
};

/* Bound memory of any process, mapped into this one. */
struct emu_replica {
    uint64_t inode;
    struct emu_object *object; /* NULL: the binder is dead */
    char *data;
    size_t nbytes; /* of data that replaces a dead binder's memory */
};

struct emu_multicast {
    uint64_t generation; /* of the control at the last cleaning of the replicas */
    struct emu_replica *replicas;
    size_t nreplicas;
};

static inline struct emu_control *emu__control(const struct emu_object *object)
{
    return (struct emu_control *)object->file;
}

void emu__control_lock(struct emu_control *control);
void emu__control_unlock(struct emu_control *control);

/* Adds this process's state to a new object. Out of memory when the switch has no slot left. */
CUresult emu__multicast_attach(struct emu_object *object);
void emu__multicast_detach(struct emu_object *object);
/*
 * Imports *object. If its creator has released it already, the import gives a new object without
 * devices in its place. To bind or map that object breaks a rule. To import it, to add a device and
 * to release it do not: a process that fails releases its object while others may still import it.
 */
CUresult emu__multicast_import(struct emu_object **object);
void emu__multicast_creator_released(struct emu_object *object);
/* The object of a multicast handle. NULL after the report of the broken rule. */
struct emu_object *emu__multicast_find(CUmemGenericAllocationHandle value);
/*
 * Waits, with emu__lock released, until the object has all its devices. Reports an object that was
 * imported too late. The caller holds emu__lock and a reference to the object.
 */
void emu__multicast_wait(struct emu_object *object);
/* Prints a line for each bind of this process that is left. */
void emu__multicast_report(const struct emu_object *object);

/* Forgets all replicas (replica.c). */
void emu__replicas_drop(struct emu_multicast *multicast);

#endif
