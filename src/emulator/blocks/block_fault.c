/*
 * Faults of kernel code. The signal handler makes a CUDA thread that faulted continue on its own
 * emptied stack, from which it gives way forever. The fault is then reported outside of fibers,
 * since the report takes locks.
 */
#include "block.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>
#include "emulator/memory/address.h"
#include "emulator/state/call.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"

EMU_UNCHECKED void emu__block_fault(struct block *b, CUresult error, const char *rule)
{
    const struct cuda_thread *t = b->running;
    char where[96] = "";
    if (t)
        snprintf(where, sizeof where, ", by thread (%u,%u,%u) of block (%u,%u,%u)",
                 t->self.thread.x, t->self.thread.y, t->self.thread.z, b->index.x, b->index.y,
                 b->index.z);
    emu__rule_at(b->grid->device->ordinal, b->grid->kernel->name, error, "%s%s", rule, where);
    emu__device_fail(b->grid->device, error);
}

EMU_UNCHECKED void emu__block_break(CUresult error, const char *format, ...)
{
    char rule[320];
    va_list args;
    va_start(args, format);
    vsnprintf(rule, sizeof rule, format, args);
    va_end(args);
    emu__block_fault(emu__this_block, error, rule);
    emu__block_leave(emu__this_block);
}

EMU_UNCHECKED void emu__block_leave(struct block *b)
{
    struct carrier *carrier = b->running->carrier;
    EMU_RELEASE(&b->sync_end);
    for (;;)
        emu__fiber_suspend(&carrier->fiber);
}

EMU_UNCHECKED void *emu__block_reach(const void *ptr)
{
    struct block *b = emu__this_block;
    struct emu_address address;
    char text[256];
    EMU_UNCHECKED_BEGIN();
    emu__address(b->grid->device, ptr, &address);
    bool accessible = address.kind == EMU_ADDRESS_FOREIGN && emu__machine.pageable;
    if (!accessible)
        emu__describe(b->grid->device, ptr, text, sizeof text);
    EMU_UNCHECKED_END();
    if (accessible)
        return (void *)(uintptr_t)ptr;
    emu__block_fault(b, CUDA_ERROR_ILLEGAL_ADDRESS, text);
    emu__block_leave(b);
}

/* A fiber continues here after the signal handler, on its own emptied stack. */
__attribute__((noreturn, no_sanitize("address"))) EMU_UNCHECKED static void after_fault(void)
{
    emu__block_leave(emu__this_block);
}

static void set_context(ucontext_t *context, void (*pc)(void), void *stack_top)
{
#if defined(__x86_64__)
    /* As after a call: the return address lies below an aligned stack pointer. */
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)stack_top - 8;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)pc;
#else
    context->uc_mcontext.sp = (uintptr_t)stack_top;
    context->uc_mcontext.pc = (uintptr_t)pc;
#endif
}

/* The signals of faults, and their previous handlers. */
enum { FAULTS = 3 };
static const int fault_signals[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE};
static struct sigaction previous_actions[FAULTS];

static const struct sigaction *previous_of(int sig)
{
    int i = 0;
    while (fault_signals[i] != sig)
        i++;
    return &previous_actions[i];
}

EMU_UNCHECKED static void on_fault(int sig, siginfo_t *info, void *context)
{
    struct block *b = emu__this_block;
    if (b && b->running && b->running->carrier && !b->fault_signal) {
        b->fault_signal = sig;
        b->fault_address = info->si_addr;
        b->fault_misaligned = sig == SIGBUS && info->si_code == BUS_ADRALN;
        set_context(context, after_fault, emu__fiber_top(&b->running->carrier->fiber));
        return;
    }
    const struct sigaction *previous = previous_of(sig);
    if (previous->sa_flags & SA_SIGINFO)
        previous->sa_sigaction(sig, info, context);
    else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN)
        previous->sa_handler(sig);
    else
        sigaction(sig, previous, NULL); /* the access runs again and takes the default action */
}

static void catch_faults_once(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < FAULTS; i++)
        sigaction(fault_signals[i], &action, &previous_actions[i]);
}

void emu__block_catch_faults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, catch_faults_once);
}

static void report_division(struct block *b)
{
    emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED,
                     "an integer division by zero or with overflow: a GPU continues with an "
                     "undefined result");
}

static void report_access(struct block *b)
{
    char text[256] = "the stack of a CUDA thread is exhausted";
    if (emu__shared_guards(&b->shared, b->fault_address))
        snprintf(text, sizeof text, "%p is outside of the %zu bytes of dynamic shared memory",
                 b->fault_address, b->shared.nbytes);
    else if (!emu__fiber_overflowed(&b->running->carrier->fiber, b->fault_address))
        emu__describe(b->grid->device, b->fault_address, text, sizeof text);
    emu__block_fault(
        b, b->fault_misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS, text);
}

void emu__block_report_fault(struct block *b)
{
    if (b->fault_signal == SIGFPE)
        report_division(b);
    else
        report_access(b);
    b->fault_signal = 0;
}
