#include "counts.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "devices.h"
#include "machine.h"

static _Atomic int64_t counts[EMU_COUNTS];

void emu__count(enum emu_count kind, int by)
{
    atomic_fetch_add(&counts[kind], by);
}

int64_t emu__count_of(enum emu_count kind)
{
    return atomic_load(&counts[kind]);
}

int emu__counts(struct symm_emulated_objects *out)
{
    memset(out, 0, sizeof *out);
#define FILL_(count, field, name) out->field = emu__count_of(count);
    EMU_COUNT_LIST(FILL_)
#undef FILL_
    return CUDA_SUCCESS;
}

void emu__left_line(const char *text, const char *hint)
{
    char number[16];
    fprintf(stderr, "symm-emulated[rank %s]: process %d: left at exit: %s%s\n",
            emu__rank_text(emu__rank(), "?", number), (int)getpid(), text, hint);
}

void emu__left(const char *format, ...)
{
    char text[192];
    va_list list;
    if (emu__machine.leaks == EMU_LEAKS_REPORT)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    emu__left_line(text, "");
}
