/*
 * The switch between fibers saves the registers that a function must preserve, changes the stack
 * and restores them. It skips floating-point control words, which kernels do not change.
 */
#include "fiber.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "emulator/state/sanitizer.h"

#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(EMU_ASAN) || defined(EMU_TSAN)
#define STACK_NBYTES (256u << 10) /* instrumented frames are several times larger */
#else
#define STACK_NBYTES (64u << 10)
#endif

/* Below each stack. Large, so that a frame with big arrays does not reach past it. */
#define GUARD_NBYTES (1u << 20)

/* Saves this context, its stack pointer in *save, and continues the context saved at `to`. */
void emu__fiber_swap(void **save, void *to);
/* The first code of a new fiber: calls its function with its argument. */
void emu__fiber_entry(void);

#if defined(__x86_64__)
__asm__(".pushsection .text,\"ax\",@progbits\n"
        ".globl emu__fiber_swap\n"
        ".hidden emu__fiber_swap\n"
        ".type emu__fiber_swap,@function\n"
        "emu__fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emu__fiber_swap,.-emu__fiber_swap\n"
        ".globl emu__fiber_entry\n"
        ".hidden emu__fiber_entry\n"
        ".type emu__fiber_entry,@function\n"
        "emu__fiber_entry:\n"
        "    movq %r12, %rdi\n"
        "    callq *%rbx\n"
        "    ud2\n"
        ".size emu__fiber_entry,.-emu__fiber_entry\n"
        ".popsection\n");

enum { FRAME_WORDS = 7, FRAME_ARG = 3, FRAME_FUNCTION = 4, FRAME_RETURN = 6 };
#elif defined(__aarch64__)
__asm__(".pushsection .text,\"ax\",@progbits\n"
        ".globl emu__fiber_swap\n"
        ".hidden emu__fiber_swap\n"
        ".type emu__fiber_swap,@function\n"
        "emu__fiber_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x2, sp\n"
        "    str x2, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size emu__fiber_swap,.-emu__fiber_swap\n"
        ".globl emu__fiber_entry\n"
        ".hidden emu__fiber_entry\n"
        ".type emu__fiber_entry,@function\n"
        "emu__fiber_entry:\n"
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #0\n"
        ".size emu__fiber_entry,.-emu__fiber_entry\n"
        ".popsection\n");

enum { FRAME_WORDS = 20, FRAME_ARG = 1, FRAME_FUNCTION = 0, FRAME_RETURN = 11 };
#else
#error "fibers are written for x86-64 and aarch64"
#endif

/* The thread that resumes fibers, to which they switch back. */
struct base {
    void *sp;
    const void *stack;
    size_t stack_nbytes;
    void *tsan;
};

static _Thread_local struct base base;

void *emu__fiber_top(const struct emu_fiber *fiber)
{
    return fiber->stack + fiber->stack_nbytes - fiber->skew;
}

bool emu__fiber_overflowed(const struct emu_fiber *fiber, const void *address)
{
    uintptr_t stack = (uintptr_t)fiber->stack, at = (uintptr_t)address;
    return at >= stack - GUARD_NBYTES && at < stack;
}

#ifdef EMU_TSAN
static void begin_tsan(struct emu_fiber *fiber)
{
    fiber->tsan = __tsan_create_fiber(0);
    __tsan_set_fiber_name(fiber->tsan, "CUDA thread");
}

static void end_tsan(struct emu_fiber *fiber)
{
    if (fiber->tsan)
        __tsan_destroy_fiber(fiber->tsan);
    fiber->tsan = NULL;
}
#else
static void begin_tsan(struct emu_fiber *fiber)
{
    (void)fiber;
}

static void end_tsan(struct emu_fiber *fiber)
{
    (void)fiber;
}
#endif

EMU_UNCHECKED static void first_run(void *arg)
{
    struct emu_fiber *fiber = arg;
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(NULL, &base.stack, &base.stack_nbytes);
#endif
    fiber->run(fiber->arg);
}

/* Makes a frame on the empty stack with which emu__fiber_swap "returns" into emu__fiber_entry. */
static void begin(struct emu_fiber *fiber)
{
    uintptr_t *frame = (uintptr_t *)emu__fiber_top(fiber) - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[FRAME_FUNCTION] = (uintptr_t)first_run;
    frame[FRAME_ARG] = (uintptr_t)fiber;
    frame[FRAME_RETURN] = (uintptr_t)emu__fiber_entry;
    fiber->sp = frame;
    fiber->fake_stack = NULL;
    begin_tsan(fiber);
}

/*
 * Stacks that no fiber has, each with the next one in its first word. They stay mapped: each is two
 * of the mappings of which a process may have 65530.
 */
static struct {
    pthread_mutex_t lock;
    char *first;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *take_stack(void)
{
    pthread_mutex_lock(&spare.lock);
    char *stack = spare.first;
    if (stack)
        memcpy(&spare.first, stack, sizeof spare.first);
    pthread_mutex_unlock(&spare.lock);
    return stack;
}

static void give_stack(char *stack)
{
    pthread_mutex_lock(&spare.lock);
    memcpy(stack, &spare.first, sizeof spare.first);
    spare.first = stack;
    pthread_mutex_unlock(&spare.lock);
}

static char *map_stack(void)
{
    char *map = mmap(NULL, GUARD_NBYTES + STACK_NBYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (mprotect(map + GUARD_NBYTES, STACK_NBYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, GUARD_NBYTES + STACK_NBYTES);
        return NULL;
    }
    return map + GUARD_NBYTES;
}

bool emu__fiber_create(struct emu_fiber *fiber, unsigned index, void (*run)(void *), void *arg)
{
    char *stack = take_stack();
    if (!stack)
        stack = map_stack();
    if (!stack)
        return false;
    *fiber = (struct emu_fiber){.stack = stack,
                                .stack_nbytes = STACK_NBYTES,
                                .skew = (index * 7u % 31u) * 64u,
                                .run = run,
                                .arg = arg};
    begin(fiber);
    return true;
}

void emu__fiber_destroy(struct emu_fiber *fiber)
{
    end_tsan(fiber);
#ifdef EMU_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_nbytes);
#endif
    give_stack(fiber->stack);
    fiber->stack = NULL;
}

void emu__fiber_restart(struct emu_fiber *fiber)
{
    end_tsan(fiber);
#ifdef EMU_ASAN
    __asan_unpoison_memory_region(fiber->stack, fiber->stack_nbytes);
#endif
    begin(fiber);
}

EMU_UNCHECKED void emu__fiber_resume(struct emu_fiber *fiber)
{
#ifdef EMU_ASAN
    void *fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, fiber->stack, fiber->stack_nbytes);
#endif
#ifdef EMU_TSAN
    base.tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    emu__fiber_swap(&base.sp, fiber->sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
}

EMU_UNCHECKED void emu__fiber_suspend(struct emu_fiber *fiber)
{
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&fiber->fake_stack, base.stack, base.stack_nbytes);
#endif
#ifdef EMU_TSAN
    __tsan_switch_to_fiber(base.tsan, __tsan_switch_to_fiber_no_sync);
#endif
    emu__fiber_swap(&fiber->sp, base.sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &base.stack, &base.stack_nbytes);
#endif
}
