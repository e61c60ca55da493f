/* Texts that are written after their arguments are gone. */
#include <limits.h>
#include <stdio.h>
#include "runtime/base/late_text.h"
#include "test.h"

__attribute__((format(printf, 2, 3))) static void keep(struct symm_late_text *text,
                                                       const char *format, ...)
{
    va_list args;

    va_start(args, format);
    symm__late_text_keep(text, format, args);
    va_end(args);
}

#define CHECK_TEXT(...)                                                                            \
    do {                                                                                           \
        struct symm_late_text text;                                                                \
        char late[200], now[200];                                                                  \
        keep(&text, __VA_ARGS__);                                                                  \
        snprintf(now, sizeof now, __VA_ARGS__);                                                    \
        ck_assert_str_eq(symm__late_text_write(&text, late, sizeof late), now);                    \
    } while (0)

TEST_GROUP(late_text, 10);

TEST(late_text, is_what_printf_writes)
{
    int object;

    CHECK_TEXT("symm_barrier()%s", "");
    CHECK_TEXT("%d, %d and %d", INT_MIN, -1, INT_MAX);
    CHECK_TEXT("%u, %u", 0u, UINT_MAX);
    CHECK_TEXT("%zu bytes", (size_t)SIZE_MAX);
    CHECK_TEXT("call %llu: %s", ULLONG_MAX, "x");
    CHECK_TEXT("pad %p%s", (void *)&object, "!");
    CHECK_TEXT("eps %g, %g and %g", 1e-5, 0.0, -2.5);
    CHECK_TEXT("alpha %a, beta %a", 0.1, -0.0);
    CHECK_TEXT("%s(count %zu, %s, %s%s%s, flags %u, max_blocks %u)", "a", (size_t)1 << 40, "b", "",
               "c", "d", 3u, 4u);
}

TEST(late_text, is_empty_without_a_format)
{
    char out[4] = "abc";

    ck_assert_str_eq(
        symm__late_text_write(&(struct symm_late_text){.format = NULL}, out, sizeof out), "");
}

TEST(late_text, is_cut)
{
    struct symm_late_text text;
    char out[8], one[1];

    keep(&text, "call %u of %s%d", 12u, "many", 7);
    ck_assert_str_eq(symm__late_text_write(&text, out, sizeof out), "call 12");
    ck_assert_str_eq(symm__late_text_write(&text, one, sizeof one), "");
}
