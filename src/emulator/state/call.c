#include "call.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "devices.h"
#include "fault.h"
#include "machine.h"

/* The process that called cuInit; 0 before. */
static _Atomic(pid_t) owner;

static _Thread_local const char *current_call;
_Thread_local bool emu__in_host_function;

static pthread_mutex_t rule_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_rule[512];

enum emu_state emu__state(void)
{
    pid_t pid = atomic_load(&owner);
    return pid == 0 ? EMU_STATE_NEW : pid == getpid() ? EMU_STATE_READY : EMU_STATE_FORKED;
}

void emu__state_ready(void)
{
    atomic_store(&owner, getpid());
}

/*
 * Appends one line to the rank's file. Opens the file for each line, so that the trace holds no
 * descriptor that a test would count, and lines of several threads or ranks do not mix.
 */
static void trace(const struct emu_call *call, const char *ending)
{
    if (!emu__machine.trace_prefix)
        return;
    char path[4096], line[512], number[16];
    snprintf(path, sizeof path, "%s.%s", emu__machine.trace_prefix,
             emu__rank_text(emu__rank(), "none", number));
    int n = snprintf(line, sizeof line, "%s(%s) = %s\n", call->name, call->args, ending);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
    (void)written; /* a full disk must not change what the traced program does */
    close(fd);
}

CUresult emu__end(struct emu_call *call, CUresult result)
{
    char ending[16];
    snprintf(ending, sizeof ending, "%d", result);
    trace(call, ending);
    current_call = NULL;
    call->result = result;
    return result;
}

static CUresult check_need(enum emu_need need)
{
    if (need < EMU_NEED_CONTEXT)
        return CUDA_SUCCESS;
    CUcontext ctx = emu__context_current();
    if (!ctx)
        return emu__rule(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
    if (!emu__context_live(ctx))
        return emu__rule(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context is destroyed");
    return need == EMU_NEED_HEALTHY ? atomic_load(&ctx->device->sticky) : CUDA_SUCCESS;
}

/* Applies the injected fault of this call: returns its error; does not return for hang and kill. */
static CUresult inject(const struct emu_call *call)
{
    struct emu_fault fault = emu__fault_next(call->name, emu__rank());
    switch (fault.action) {
    case EMU_FAULT_NONE:
        return CUDA_SUCCESS;
    case EMU_FAULT_ERROR:
        return fault.error;
    case EMU_FAULT_KILL:
        trace(call, "kill");
        kill(getpid(), SIGKILL);
        break;
    case EMU_FAULT_HANG:
        trace(call, "hang");
        break;
    }
    for (;;)
        pause();
}

bool emu__begin(struct emu_call *call, enum emu_need need, const char *name, const char *format,
                ...)
{
    enum emu_state state = emu__state();
    call->name = name;
    call->args[0] = '\0';
    call->result = CUDA_ERROR_NOT_INITIALIZED;
    if (state == EMU_STATE_FORKED || (state == EMU_STATE_NEW && need != EMU_NEED_NOTHING))
        return false;
    if (emu__machine.trace_prefix) {
        va_list list;
        va_start(list, format);
        vsnprintf(call->args, sizeof call->args, format, list);
        va_end(list);
    }
    current_call = name;
    CUresult result = emu__in_host_function
                          ? emu__rule(CUDA_ERROR_NOT_PERMITTED, "a host function calls the driver")
                          : inject(call);
    if (result == CUDA_SUCCESS)
        result = check_need(need);
    if (result != CUDA_SUCCESS)
        emu__end(call, result);
    return result == CUDA_SUCCESS;
}

static void report(int rank, const char *call, const char *format, va_list list)
{
    char text[384], line[sizeof last_rule], number[16];
    vsnprintf(text, sizeof text, format, list);
    int n = snprintf(line, sizeof line, "symm-emulated[rank %s]: %s: rule: %s\n",
                     emu__rank_text(rank, "?", number), call, text);
    if (n >= (int)sizeof line)
        n = (int)sizeof line - 1;
    pthread_mutex_lock(&rule_lock);
    memcpy(last_rule, line, (size_t)n);
    last_rule[n - 1] = '\0'; /* without the newline */
    pthread_mutex_unlock(&rule_lock);
    fwrite(line, 1, (size_t)n, stderr);
}

CUresult emu__rule(CUresult result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report(emu__rank(), current_call ? current_call : "?", format, list);
    va_end(list);
    return result;
}

CUresult emu__rule_at(int rank, const char *call, CUresult result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    report(rank, call, format, list);
    va_end(list);
    return result;
}

CUresult emu__no_device(CUdevice dev)
{
    return emu__rule(CUDA_ERROR_INVALID_DEVICE, "there is no device %d, only %d devices", dev,
                     emu__machine.ndevices);
}

const char *emu__last_rule(void)
{
    static _Thread_local char copy[sizeof last_rule];
    pthread_mutex_lock(&rule_lock);
    memcpy(copy, last_rule, sizeof copy);
    pthread_mutex_unlock(&rule_lock);
    return copy;
}
