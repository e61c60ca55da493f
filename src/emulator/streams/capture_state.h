/* The captures, for capture.c and capture_rules.c. */
#ifndef SYMM_EMULATOR_CAPTURE_STATE_H
#define SYMM_EMULATOR_CAPTURE_STATE_H

#include "capture.h"

/* A stream in a capture, which is a branch of the graph. */
struct emu_member {
    struct CUstream_st *stream; /* NULL: destroyed meanwhile */
    uint64_t *seen;             /* as in emu_node: the work before the stream's next work */
    unsigned nseen;
};

struct emu_capture {
    struct emu_capture *next;
    unsigned references; /* the list of active ones, events */
    int mode;
    uint64_t id;
    const void *owner; /* the thread that began it */
    bool active, invalid;
    struct emu_nodes *nodes;
    struct emu_member *members; /* the first began the capture */
    unsigned nmembers;
};

struct emu_captures {
    pthread_mutex_t lock; /* guards all captures */
    struct emu_capture *first;
    uint64_t last_id;
    atomic_int count; /* so that calls need no lock while there are none */
};

extern struct emu_captures emu__captures;

/* This thread's mode (cuThreadExchangeStreamCaptureMode). Its address identifies the thread. */
extern _Thread_local int emu__capture_mode;

/* Reports the rule and makes the capture invalid. */
CUresult emu__capture_invalidate_locked(struct emu_capture *capture, CUresult error,
                                        const char *rule);

#endif
