/* Tensors for readers of DLPack: what groups have given away. */
#ifndef SYMM_RUNTIME_DLPACK_H
#define SYMM_RUNTIME_DLPACK_H

#include "runtime/group/context.h"

/*
 * The group is going, and its memory with it: deleters that run later leave both alone. Comes back
 * when no deleter is at work on the group any more. Local.
 */
void symm__dlpack_forget(struct symm_group *group);

#endif
