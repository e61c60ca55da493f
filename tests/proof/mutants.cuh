/* PROOF_MUTANT=N puts the N-th mutation of mutate.py in force; 0: none. Emulated driver only. */
#ifndef PROOF_MUTANTS_CUH
#define PROOF_MUTANTS_CUH

#include <stdlib.h>

static int proof_mutant;

__attribute__((constructor)) static void proof_choose_mutant(void)
{
    const char *text = getenv("PROOF_MUTANT");
    proof_mutant = text ? atoi(text) : 0;
}

/* symm_dev_arrive_both without the first of its arrivals. */
SYMM_DEV void symm_dev_arrive_next(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t,
                                   uint32_t next_word)
{
    symm_dev_arrive(v, pad, channel + 1, next_word);
}

/* symm_dev_wait_all_both without the first of its waits. */
SYMM_DEV bool symm_dev_wait_all_next(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t, uint32_t next_word, bool *agreed)
{
    *agreed = true;
    return symm_dev_wait_all_require_equal(v, pad, channel + 1, next_word);
}

namespace symm_detail
{

/* fetch_add without one side of its order, and compare_and_swap without its only one. */
template <typename T> SYMM_DEV T fetch_add_acquire(T *p, decltype(T()) x)
{
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    const T was = __atomic_fetch_add(home(p), x, __ATOMIC_ACQUIRE);
    fence(SYMM_EMULATED_ACQUIRE);
    return was;
}

template <typename T> SYMM_DEV T fetch_add_release(T *p, decltype(T()) x)
{
    if (weak()) {
        fence(SYMM_EMULATED_RELEASE);
        symm_emulated_driver->settle(p, sizeof *p);
    }
    return __atomic_fetch_add(home(p), x, __ATOMIC_RELEASE);
}

SYMM_DEV bool compare_and_swap_relaxed(uint32_t *p, uint32_t from, uint32_t to)
{
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    return __atomic_compare_exchange_n(home(p), &from, to, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

} /* namespace symm_detail */

#endif
