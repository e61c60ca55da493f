/* Marks: a point in a stream, reached when the work enqueued before it is done. */
#ifndef SYMM_EMULATOR_MARK_H
#define SYMM_EMULATOR_MARK_H

#include "execution.h"

struct emu_mark {
    atomic_int references;
    pthread_mutex_t lock;
    pthread_cond_t reached_cond;
    bool reached;
    int64_t ns;
};

struct emu_mark *emu__mark_create(void);
struct emu_mark *emu__mark_retain(struct emu_mark *mark);
void emu__mark_release(struct emu_mark *mark); /* NULL is allowed */
void emu__mark_reach(struct emu_mark *mark);
bool emu__mark_reached(struct emu_mark *mark);
/* Waits until the mark is reached or the device of `execution` fails. NULL: has none. */
void emu__mark_wait(struct emu_mark *mark, const struct emu_execution *execution);

#endif
