/*
 * What the memory half shares: physical objects, handles, and the table of address ranges.
 * Everything here is guarded by emu__lock unless it says otherwise.
 */
#ifndef SYMM_EMULATOR_MEMORY_H
#define SYMM_EMULATOR_MEMORY_H

#include "emulator/state/call.h"

#define EMU_PAGE 4096u

/* ---- Physical objects (object.c) ---- */

enum emu_object_kind { EMU_OBJECT_MEMORY = 1, EMU_OBJECT_MULTICAST = 2 };

/* The first page of each memfd; how an importer tells what a descriptor is. */
struct emu_header {
    char magic[8];
    uint32_t abi;
    uint32_t kind;
    int32_t device;        /* of memory */
    uint32_t handle_types; /* what it may be exported as */
    uint64_t nbytes;       /* without the header */
};

struct emu_multicast; /* multicast.c */

/*
 * This process's view of one memfd, however often it was imported: found again by its inode. The
 * kernel's count of the memfd's users is the count of the physical memory.
 */
struct emu_object {
    struct emu_object *next;
    enum emu_object_kind kind;
    int fd; /* -1: only seen as another's replica so far */
    ino_t inode;
    int device;
    unsigned handle_types;
    size_t nbytes;
    bool created_here; /* accounted on its device while it has users */
    int users;         /* handles and mappings */
    int refs;          /* users, waiting calls and replicas: the object lives while there are any */
    int binds;         /* of this process, of this memory or of this multicast object */
    char *file;        /* the whole memfd, mapped for as long as the object lives */
    size_t file_nbytes;
    struct emu_multicast *multicast;
};

struct emu_handle {
    struct emu_handle *next;
    CUmemGenericAllocationHandle value;
    struct emu_object *object;
    bool creator; /* of a multicast object: importers need it alive */
};

/* Where the data starts in the file and at object->file. */
#define EMU_DATA EMU_PAGE

static inline char *emu__data(const struct emu_object *object)
{
    return object->file + EMU_DATA;
}

/*
 * A new memfd with its header, none of the rest populated. refs is 1. Works without the lock; the
 * object can be found from emu__object_add on, which needs it.
 */
CUresult emu__object_create(const struct emu_header *header, size_t file_nbytes,
                            struct emu_object **out);
void emu__object_add(struct emu_object *object);
/*
 * The object behind a descriptor, which stays the caller's: an open one again, or a new one. refs
 * is one more. keep_fd: it must be possible to map and to export it.
 */
CUresult emu__object_open(int fd, bool keep_fd, struct emu_object **out);
/* NULL: not open in this process. */
struct emu_object *emu__object_by_inode(uint64_t inode);
void emu__object_put(struct emu_object *object);

/* Users keep memory allocated. The last one may not go while the object is bound. */
void emu__object_use(struct emu_object *object);
/* Whether n users may go, by that rule. */
CUresult emu__object_may_unuse(const struct emu_object *object, int n);
void emu__object_unuse(struct emu_object *object);

/* A handle is one user of its object. NULL: out of host memory. */
struct emu_handle *emu__handle_new(struct emu_object *object);
/* NULL after the report of the broken rule. */
struct emu_handle *emu__handle_find(CUmemGenericAllocationHandle value, const char *what);

/* Whether nbytes more fit on the device; if so they are taken. */
bool emu__memory_take(int device, uint64_t nbytes);
void emu__memory_give(int device, uint64_t nbytes);
/* New memory is never zero: what forgets to write it shall be seen. */
void emu__fill_garbage(void *data, size_t nbytes);

/* ---- Address ranges (range.c) ---- */

struct emu_range {
    enum emu_address_kind kind;
    uintptr_t start;
    size_t nbytes;
    int device;
    struct emu_object *object;             /* MAPPED, MULTICAST */
    unsigned char access[EMU_MAX_DEVICES]; /* enum emu_access, by device */
    void *base;                            /* DEVICE, HOST: with the guard pages */
    size_t base_nbytes;
};

struct emu_reservation {
    struct emu_reservation *next;
    uintptr_t start;
    size_t nbytes;
};

/* The reservation all of [start, start + nbytes) lies in. */
struct emu_reservation *emu__reservation_find(uintptr_t start, size_t nbytes);

/* The ranges, sorted by address. An index is good until the table changes. */
size_t emu__range_count(void);
struct emu_range *emu__range_at(size_t index);
/* The first range that ends beyond the address. */
size_t emu__range_after(uintptr_t address);
/* The range an address lies in. */
struct emu_range *emu__range_find(uintptr_t address);
/* Takes the range over; false: out of host memory. */
bool emu__range_add(struct emu_range *range);
void emu__range_remove(struct emu_range *range);

/*
 * Changes whenever a range or a bind of this process does, or a replica goes: what threads remember
 * of the table is good while it stays the same. May be read without the lock.
 */
extern _Atomic uint64_t emu__layout;

/* ---- Multicast objects (multicast.c) ---- */

/* Gives a new object what this process keeps of it; out of memory when the switch has no slot. */
CUresult emu__multicast_attach(struct emu_object *object);
void emu__multicast_detach(struct emu_object *object);
/*
 * What an import of *object gives: itself, or in its place a fresh one, if the creator has let go
 * of it already.
 */
CUresult emu__multicast_import(struct emu_object **object);
void emu__multicast_creator_released(struct emu_object *object);
/*
 * Waits, without the lock, until the object has all its devices. Called with the lock held and a
 * reference to the object.
 */
void emu__multicast_wait(struct emu_object *object);
/* A line for each bind of this process that is left. */
void emu__multicast_report(const struct emu_object *object);

/* ---- Reports of what is left at the end of the process (leaks.c) ---- */

/* One line for one thing, where the setting asks for a list. */
void emu__left(const char *format, ...) __attribute__((format(printf, 1, 2)));

void emu__object_report(void);
void emu__range_report(void);
/* Exported descriptors that the program has not closed; returns their number. */
int emu__descriptor_report(void);

#endif
