/*
 * Physical objects: memory and multicast objects, each a memfd. So a killed process leaves nothing
 * behind, and two jobs share nothing. Everything here is guarded by emu__lock unless it says
 * otherwise.
 */
#ifndef SYMM_EMULATOR_OBJECT_H
#define SYMM_EMULATOR_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "abi/cuda_driver.h"

#define EMU_PAGE 4096u

enum emu_object_kind { EMU_OBJECT_MEMORY = 1, EMU_OBJECT_MULTICAST = 2 };

/* The first page of each memfd, by which an importer recognises a descriptor. */
struct emu_header {
    char magic[8];
    uint32_t abi;
    uint32_t kind;
    int32_t device;        /* of memory */
    uint32_t handle_types; /* that it may be exported as */
    uint64_t nbytes;       /* without the header */
};

struct emu_multicast; /* multicast.h */

/*
 * This process's view of one memfd, however often it was imported: it is found again by its inode.
 * The kernel's count of the memfd's users is the count of the physical memory.
 */
struct emu_object {
    struct emu_object *next;
    enum emu_object_kind kind;
    int fd; /* -1: known as a replica of another process only */
    ino_t inode;
    int device;
    unsigned handle_types;
    size_t nbytes;
    bool created_here; /* counted as used memory of its device while it has users */
    int users;         /* handles and mappings */
    int refs;          /* users, waiting calls and replicas; the last one frees the object */
    int binds;         /* of this process, of this memory or of this multicast object */
    char *file;        /* the whole memfd, mapped for as long as the object lives */
    size_t file_nbytes;
    struct emu_multicast *multicast;
};

/* The offset of the data in the file and at object->file. */
#define EMU_DATA EMU_PAGE

static inline char *emu__data(const struct emu_object *object)
{
    return object->file + EMU_DATA;
}

/*
 * Makes a new memfd with its header, the rest unpopulated. refs is 1. Needs no lock: the object
 * can be found from emu__object_add on, which needs it.
 */
CUresult emu__object_create(const struct emu_header *header, size_t file_nbytes,
                            struct emu_object **out);
void emu__object_add(struct emu_object *object);
/*
 * Finds or opens the object behind a descriptor, which stays the caller's, and adds a reference.
 * keep_fd: the object will be mapped or exported.
 */
CUresult emu__object_open(int fd, bool keep_fd, struct emu_object **out);
/* NULL: not open in this process. */
struct emu_object *emu__object_by_inode(uint64_t inode);
/* The open object with this descriptor of the driver. NULL: there is none. */
struct emu_object *emu__object_by_fd(int fd);
void emu__object_put(struct emu_object *object);

/* Users keep memory allocated. The last one may not go while the object is bound. */
void emu__object_use(struct emu_object *object);
/* Checks that rule for n users that go. */
CUresult emu__object_may_unuse(const struct emu_object *object, int n);
void emu__object_unuse(struct emu_object *object);

/* Checks the handle types of a new object. */
CUresult emu__check_handle_types(unsigned long long types);
/* The granularity for an option of the driver: the minimum, or at least `recommended`. */
CUresult emu__granularity(int option, size_t recommended, size_t *out);

/* Takes nbytes of the device's memory. False: they do not fit. */
bool emu__memory_take(int device, uint64_t nbytes);
void emu__memory_give(int device, uint64_t nbytes);
/* Fills new memory with bytes that are never zero, so that a missing write is noticed. */
void emu__fill_garbage(void *data, size_t nbytes);

/* Lists the binds of this process that are left at exit. */
void emu__bind_report(void);

#define EMU_MEMFD_NAME "symm-emulated"

#endif
