#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sanitizer.h"

struct emu_machine emu__machine;
_Atomic uint64_t emu__seeds;

void emu__set_seed(uint64_t seed)
{
    emu__machine.seed = seed;
    emu__seeds++;
}

static const char *setting(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static bool refuse(const char *name, const char *text, const char *wanted)
{
    fprintf(stderr, "symm-emulated: %s=%s: expected %s\n", name, text, wanted);
    return false;
}

/* The number may have a suffix K, M or G. */
static bool read_number(const char *name, uint64_t fallback, uint64_t min, uint64_t max,
                        uint64_t *out)
{
    const char *text = setting(name);
    *out = fallback;
    if (!text)
        return true;
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift)
        end++;
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a number from %llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    if (errno || end == text || *end || *text == '-' || value > UINT64_MAX >> shift)
        return refuse(name, text, wanted);
    *out = (uint64_t)value << shift;
    return (*out >= min && *out <= max) || refuse(name, text, wanted);
}

/* Reads one of `words` (separated by |); *out is its position in the list. */
static bool read_word(const char *name, const char *words, int fallback, int *out)
{
    const char *text = setting(name);
    *out = fallback;
    if (!text)
        return true;
    size_t length = strlen(text);
    const char *word = words;
    for (int i = 0; word; i++) {
        size_t n = strcspn(word, "|");
        if (n == length && memcmp(word, text, n) == 0) {
            *out = i;
            return true;
        }
        word = word[n] ? word + n + 1 : NULL;
    }
    return refuse(name, text, words);
}

bool emu__machine_read(void)
{
    uint64_t devices, island, memory, multicast, granularity, sms, blocks_per_sm, block, pageable,
        seed, weak, early, busy;
    int order, leaks;
    if (!read_number("SYMM_EMULATED_DEVICES", 8, 0, EMU_MAX_DEVICES, &devices) ||
        !read_number("SYMM_EMULATED_ISLAND", 0, 0, EMU_MAX_DEVICES, &island) ||
        !read_number("SYMM_EMULATED_MEMORY", 4ull << 30, 1 << 16, 1ull << 44, &memory) ||
        !read_number("SYMM_EMULATED_MULTICAST", 1, 0, 1, &multicast) ||
        !read_number("SYMM_EMULATED_GRANULARITY", 2 << 20, 4096, 1 << 30, &granularity) ||
        !read_number("SYMM_EMULATED_SMS", 8, 1, EMU_SMS_MAX, &sms) ||
        !read_number("SYMM_EMULATED_PLACES", 2, 1, 2, &blocks_per_sm) ||
        !read_number("SYMM_EMULATED_BLOCK", 1024, 1, 1024, &block) ||
        !read_number("SYMM_EMULATED_PAGEABLE", 0, 0, 1, &pageable) ||
        !read_number("SYMM_EMULATED_SEED", 1, 0, UINT64_MAX, &seed) ||
        !read_number("SYMM_EMULATED_WEAK", 0, 0, 1, &weak) ||
        !read_number("SYMM_EMULATED_EARLY", 0, 0, 1, &early) ||
        !read_number("SYMM_EMULATED_BUSY", 0, 0, 1, &busy) ||
        !read_word("SYMM_EMULATED_ORDER", "rank|reverse|random", SYMM_EMULATED_BY_RANK, &order) ||
        !read_word("SYMM_EMULATED_LEAKS", "report|list|fail|off", EMU_LEAKS_REPORT, &leaks))
        return false;
    if (granularity & (granularity - 1))
        return refuse("SYMM_EMULATED_GRANULARITY", setting("SYMM_EMULATED_GRANULARITY"),
                      "a power of two");
#ifdef EMU_TSAN
    if (weak)
        return refuse("SYMM_EMULATED_WEAK", "1",
                      "0: a build with ThreadSanitizer has the host's memory order only");
#endif
    emu__machine = (struct emu_machine){
        .ndevices = (int)devices,
        .island = (int)island,
        .memory_nbytes = memory,
        .multicast = multicast,
        .pageable = pageable,
        .granularity = granularity,
        .sms = (int)sms,
        .blocks_per_sm = (int)blocks_per_sm,
        .max_block_threads = (int)block,
        .seed = seed,
        .weak = weak,
        .early = early,
        .busy = busy,
        .order = (enum symm_emulated_order)order,
        .leaks = (enum emu_leaks)leaks,
        .trace_prefix = setting("SYMM_EMULATED_TRACE"),
    };
    return true;
}

uint64_t emu__random(uint64_t seed, uint64_t index)
{
    /* The finalizer of splitmix64: each input bit reaches each output bit. */
    uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
