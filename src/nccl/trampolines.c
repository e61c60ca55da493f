/*
 * In the library that replaces NCCL's: each function that entries.c does not define jumps to the
 * real one. A function that the real library lacks returns ncclInvalidUsage; the text of that is
 * there without a library, too.
 */
#include "alone.h"
#include "real.h"

const char nccl__replaces = 1;

/* Weak, so that entries.c has its own. A thread that jumps has all its arguments in place. */
#if defined __x86_64__
#define JUMP(name) "    jmp *nccl__to_" name "(%rip)\n"
#elif defined __aarch64__
#define JUMP(name)                                                                                 \
    "    adrp x16, nccl__to_" name "\n"                                                            \
    "    ldr x16, [x16, #:lo12:nccl__to_" name "]\n"                                               \
    "    br x16\n"
#else
#error "trampolines for this processor are missing"
#endif

#define TRAMPOLINE(name)                                                                           \
    __asm__(".pushsection .text\n"                                                                 \
            ".weak " name "\n"                                                                     \
            ".type " name ", %function\n" name ":\n" JUMP(name) ".popsection\n"                    \
                                                                ".pushsection .data\n"             \
                                                                ".balign 8\n"                      \
                                                                ".hidden nccl__to_" name "\n"      \
                                                                "nccl__to_" name ":\n"             \
                                                                "    .quad nccl__absent\n"         \
                                                                ".popsection\n");

#define NCCL_NAME(name, version) TRAMPOLINE(#name) TRAMPOLINE("p" #name)
#include "abi/nccl_names.def"
#undef NCCL_NAME

__attribute__((visibility("hidden"), used)) ncclResult_t nccl__absent(void);
ncclResult_t nccl__absent(void)
{
    return nccl__lacks("this function");
}

#define NCCL_NAME(name, version)                                                                   \
    extern __attribute__((visibility("hidden"))) void *nccl__to_##name, *nccl__to_p##name;
#include "abi/nccl_names.def"
#undef NCCL_NAME

static void aim(void **to, const char *name)
{
    void *function = nccl__real_function(name);

    if (function)
        *to = function;
}

/* When the library is loaded: a program may call any of its functions first. */
__attribute__((constructor)) static void aim_all(void)
{
    nccl__to_ncclGetErrorString = nccl__to_pncclGetErrorString =
        (void *)(uintptr_t)nccl__result_text;
#define NCCL_NAME(name, version)                                                                   \
    aim(&nccl__to_##name, #name);                                                                  \
    aim(&nccl__to_p##name, "p" #name);
#include "abi/nccl_names.def"
#undef NCCL_NAME
}
