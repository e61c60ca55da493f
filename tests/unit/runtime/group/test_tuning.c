/* SYMM_TUNING_FILE: what is a table, what is none and why, and which row is whose. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <symm/names.h>
#include "runtime/group/tuning.h"
#include "test.h"

#define MACHINE "cuda 1.2.3 Some GPU 80GB"

static symm_status parse(const char *text, struct symm_tuning **out)
{
    return symm__tuning_parse("SYMM_TUNING_FILE=some.file", MACHINE, text, strlen(text), out);
}

static struct symm_tuning *parsed(const char *text)
{
    struct symm_tuning *t = NULL;
    const symm_status st = parse(text, &t);

    ck_assert_msg(st == SYMM_OK && t, "%s", symm__failure_text());
    return t;
}

static const char *const operations[SYMM_OPERATION_COUNT] = {
    [SYMM_OPERATION_ALL_REDUCE] = "all-reduce",
    [SYMM_OPERATION_REDUCE_SCATTER] = "reduce-scatter",
    [SYMM_OPERATION_ALL_GATHER] = "all-gather",
    [SYMM_OPERATION_ALL_REDUCE_RMS_NORM] = "all-reduce-rms-norm",
    [SYMM_OPERATION_BROADCAST] = "broadcast"};

static symm_algo find(const struct symm_tuning *t, enum symm_operation operation, int nranks,
                      symm_dtype dtype, bool symmetric, uint64_t nbytes)
{
    return symm__tuning_find(t, &(struct symm_tuning_key){operation, nranks, dtype, symmetric, 0},
                             nbytes);
}

TEST_GROUP(tables, 20);

TEST(tables, each_row_holds_up_to_the_next_of_its_kind)
{
    struct symm_tuning *t = parsed("# what was measured\n"
                                   "\n"
                                   "symm-tuning 1 # the version\n"
                                   "all-reduce 4 bfloat16 any 0 low_latency\n"
                                   "\tall-reduce  4 float32\tany 0 one_shot # another type\r\n"
                                   "all-reduce 4 bf16 any 65536 low_latency_two_shot\n"
                                   "all-reduce 4 bfloat16 symmetric 100 multimem\n"
                                   "all-reduce 2 bfloat16 any 7 two_shot\n"
                                   "all-gather 4 bfloat16 symmetric 8 copy_engine\n"
                                   "reduce-scatter 72 int64 any 18446744073709551615 one_shot\n"
                                   "reduce-scatter 4 int64 any 5 copy_engine\n"
                                   "all-reduce 4 bfloat16 any 65537 two_shot");
    static const struct {
        struct symm_tuning_key key;
        uint64_t nbytes;
        symm_algo algo;
    } rows[] = {
#define ROW(OPERATION, nranks, DTYPE, symmetric, nbytes, ALGO)                                     \
    {{SYMM_OPERATION_##OPERATION, nranks, SYMM_##DTYPE, symmetric, 0}, nbytes, SYMM_ALGO_##ALGO}
        ROW(ALL_REDUCE, 4, BFLOAT16, false, 0, LOW_LATENCY),
        ROW(ALL_REDUCE, 4, BFLOAT16, false, 65535, LOW_LATENCY),
        ROW(ALL_REDUCE, 4, BFLOAT16, false, 65536, LOW_LATENCY_TWO_SHOT),
        ROW(ALL_REDUCE, 4, BFLOAT16, false, 65537, TWO_SHOT),
        ROW(ALL_REDUCE, 4, BFLOAT16, false, UINT64_MAX, TWO_SHOT),
        ROW(ALL_REDUCE, 4, FLOAT32, false, 9, ONE_SHOT),
        ROW(ALL_REDUCE, 4, BFLOAT16, true, 99, AUTO),
        ROW(ALL_REDUCE, 4, BFLOAT16, true, 100, MULTIMEM),
        ROW(ALL_REDUCE, 2, BFLOAT16, false, 6, AUTO),
        ROW(ALL_REDUCE, 2, BFLOAT16, false, 7, TWO_SHOT),
        ROW(ALL_REDUCE, 3, BFLOAT16, false, 7, AUTO),
        ROW(ALL_REDUCE, 4, FLOAT16, false, 9, AUTO),
        ROW(ALL_GATHER, 4, BFLOAT16, true, 8, COPY_ENGINE),
        ROW(ALL_GATHER, 4, BFLOAT16, false, 8, AUTO),
        ROW(REDUCE_SCATTER, 72, INT64, false, UINT64_MAX, ONE_SHOT),
        ROW(REDUCE_SCATTER, 4, INT64, false, 5, COPY_ENGINE),
        ROW(REDUCE_SCATTER, 72, INT64, false, UINT64_MAX - 1, AUTO),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(symm__tuning_find(t, &rows[i].key, rows[i].nbytes) == rows[i].algo, "row %zu",
                      i);
    symm__tuning_destroy(t);
}

TEST(tables, a_table_may_have_no_rows)
{
    struct symm_tuning *t = parsed("symm-tuning 1");

    ck_assert(find(t, SYMM_OPERATION_ALL_REDUCE, 4, SYMM_BFLOAT16, false, 1) == SYMM_ALGO_AUTO);
    symm__tuning_destroy(t);
    ck_assert(find(NULL, SYMM_OPERATION_ALL_REDUCE, 4, SYMM_BFLOAT16, false, 1) == SYMM_ALGO_AUTO);
}

static symm_algo find_form(const struct symm_tuning *t, enum symm_operation operation,
                           uint32_t ndomains, int width, uint64_t nbytes)
{
    return symm__tuning_find(
        t, &(struct symm_tuning_key){operation, width, SYMM_BFLOAT16, false, ndomains}, nbytes);
}

TEST(tables, rows_between_domains_are_of_their_number_and_width)
{
    struct symm_tuning *t = parsed("symm-tuning 1\n"
                                   "all-reduce 8 bfloat16 any 0 one_shot\n"
                                   "all-reduce 2x8 bfloat16 any 0 flat\n"
                                   "all-reduce 2x8 bfloat16 any 4096 hierarchical\n"
                                   "all-reduce 16x8 bfloat16 any 0 hierarchical\n"
                                   "broadcast 1024x1 bfloat16 any 7 flat\n"
                                   "all-gather 1048576x72 bfloat16 any 0 hierarchical\n");

    ck_assert(find(t, SYMM_OPERATION_ALL_REDUCE, 8, SYMM_BFLOAT16, false, 1) == SYMM_ALGO_ONE_SHOT);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_REDUCE, 2, 8, 4095) == SYMM_ALGO_FLAT);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_REDUCE, 2, 8, 4096) == SYMM_ALGO_HIERARCHICAL);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_REDUCE, 16, 8, 0) == SYMM_ALGO_HIERARCHICAL);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_REDUCE, 3, 8, 0) == SYMM_ALGO_AUTO);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_REDUCE, 2, 4, 0) == SYMM_ALGO_AUTO);
    ck_assert(find_form(t, SYMM_OPERATION_BROADCAST, 1024, 1, 6) == SYMM_ALGO_AUTO);
    ck_assert(find_form(t, SYMM_OPERATION_BROADCAST, 1024, 1, 7) == SYMM_ALGO_FLAT);
    ck_assert(find_form(t, SYMM_OPERATION_ALL_GATHER, 1 << 20, 72, 1) == SYMM_ALGO_HIERARCHICAL);
    ck_assert(!symm__tuning_knows_nccl(t, SYMM_OPERATION_ALL_REDUCE, 8));
    symm__tuning_destroy(t);
}

/* Every kind of rows that there can be, each with rows of its own. */
TEST(tables, kinds_of_rows_are_told_apart)
{
    static char text[SYMM_TUNING_NBYTES_MAX];
    static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT,
                                      SYMM_ALGO_MULTIMEM};
    int used = snprintf(text, sizeof text, "symm-tuning 1\n");
    int n = 0;

    for (int nranks = 8; nranks >= 2; nranks--) /* not in the order in which they are kept */
        for (int o = 0; o < SYMM_OPERATION_COUNT; o++)
            for (int d = 0; symm_dtype_name((symm_dtype)(SYMM_FLOAT32 + d)); d++)
                for (int m = 0; m < 2; m++, n++)
                    used += snprintf(
                        text + used, sizeof text - (size_t)used, "%s %d %s %s %d %s\n",
                        operations[o], nranks, symm_dtype_name((symm_dtype)(SYMM_FLOAT32 + d)),
                        m ? "symmetric" : "any", 1000 + n, symm_algo_name(algos[n % 3]));
    struct symm_tuning *t = parsed(text);
    n = 0;
    for (int nranks = 8; nranks >= 2; nranks--)
        for (int o = 0; o < SYMM_OPERATION_COUNT; o++)
            for (int d = 0; symm_dtype_name((symm_dtype)(SYMM_FLOAT32 + d)); d++)
                for (int m = 0; m < 2; m++, n++) {
                    const symm_dtype dtype = (symm_dtype)(SYMM_FLOAT32 + d);
                    const enum symm_operation operation = (enum symm_operation)o;
                    ck_assert(find(t, operation, nranks, dtype, m, 999 + (uint64_t)n) ==
                              SYMM_ALGO_AUTO);
                    ck_assert(find(t, operation, nranks, dtype, m, 1000 + (uint64_t)n) ==
                              algos[n % 3]);
                }
    symm__tuning_destroy(t);
}

TEST(tables, the_hash_is_of_the_rows)
{
    static const char *const others[] = {
        "symm-tuning 1",
        "symm-tuning 1\nall-gather 4 any any 0 low_latency\n",
        "symm-tuning 1\nall-reduce 5 any any 0 low_latency\n",
        "symm-tuning 1\nall-reduce 2x4 any any 0 flat\n",
        "symm-tuning 1\nall-reduce 4 int32 any 0 low_latency\n",
        "symm-tuning 1\nall-reduce 4 any symmetric 0 low_latency\n",
        "symm-tuning 1\nall-reduce 4 any any 1 low_latency\n",
        "symm-tuning 1\nall-reduce 4 any any 0 one_shot\n",
        "symm-tuning 1\nall-reduce 4 any any 0 low_latency\nall-reduce 4 any any 1 one_shot\n",
    };
    struct symm_tuning *one = parsed("symm-tuning 1\nall-reduce 4 any any 0 low_latency\n"),
                       *same = parsed("#\n symm-tuning 1\n\nall-reduce\t4 any any 00 low_latency");

    ck_assert_uint_eq(symm__tuning_hash(NULL), 0);
    ck_assert(symm__tuning_hash(one) == symm__tuning_hash(same));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct symm_tuning *other = parsed(others[i]);
        ck_assert(symm__tuning_hash(other) != symm__tuning_hash(one));
        ck_assert(symm__tuning_hash(other) != 0);
        symm__tuning_destroy(other);
    }
    symm__tuning_destroy(same);
    symm__tuning_destroy(one);
}

/* ---- Malformed tables ---- */

#define HEAD "symm-tuning 1\n"

static const struct {
    const char *text, *want; /* behind the name of the file */
} malformed[] = {
    {"", ", line 0: the first line must be \"symm-tuning 1\""},
    {"# nothing\n\n", ", line 2: the first line must be \"symm-tuning 1\""},
    {"all-reduce 4 any any 0 one_shot\n", ", line 1: the first line must be"},
    {"symm-tuning\n", ", line 1: the first line must be"},
    {"symm-tuning 1 2\n", ", line 1: the first line must be"},
    {"symm-tunin 1\n", ", line 1: the first line must be"},
    {"symm-tuning1\n", ", line 1: the first line must be"},
    {"symm-tuning 2\n", ", line 1: \"2\" is not a known version"},
    {"symm-tuning 1x\n", ", line 1: \"1x\" is not a known version"},
    {HEAD "all-reduce 4 any any 0\n", ", line 2: 5 of the 6 words of a row"},
    {HEAD "\n\nall-reduce # 4 any any 0 one_shot\n", ", line 4: 1 of the 6 words of a row"},
    {HEAD "all-reduce 4 any any 0 one_shot two\n", ", line 2: \"two\" is one word too many"},
    {HEAD "all-reduce 4 any any 0 one_shot two three\n", ", line 2: \"two\" is one word too many"},
    {HEAD "all-reduc 4 any any 0 one_shot\n", ", line 2: \"all-reduc\" is not an operation"},
    {HEAD "all-reduces 4 any any 0 one_shot\n", ", line 2: \"all-reduces\" is not an operation"},
    {HEAD "All-Reduce 4 any any 0 one_shot\n", ", line 2: \"All-Reduce\" is not an operation"},
    {HEAD "all-reduce 1 any any 0 one_shot\n", ", line 2: \"1\" is not a valid number of ranks"},
    {HEAD "all-reduce 73 any any 0 one_shot\n", ", line 2: \"73\" is not a valid number of ranks"},
    {HEAD "all-reduce -2 any any 0 one_shot\n", ", line 2: \"-2\" is not a valid number of ranks"},
    {HEAD "all-reduce 4x any any 0 flat\n", ", line 2: \"4x\" is not a valid number of ranks"},
    {HEAD "all-reduce x4 any any 0 flat\n", ", line 2: \"x4\" is not a valid number of ranks"},
    {HEAD "all-reduce x any any 0 flat\n", ", line 2: \"x\" is not a valid number of ranks"},
    {HEAD "all-reduce 1x8 any any 0 flat\n", ", line 2: \"1x8\" is not a valid number of ranks"},
    {HEAD "all-reduce 2x0 any any 0 flat\n", ", line 2: \"2x0\" is not a valid number of ranks"},
    {HEAD "all-reduce 2x73 any any 0 flat\n", "\"2x73\" is not a valid number of ranks"},
    {HEAD "all-reduce 2x2x2 any any 0 flat\n", "\"2x2x2\" is not a valid number of ranks"},
    {HEAD "all-reduce 1048577x8 any any 0 flat\n", "577x8\" is not a valid number of ranks"},
    {HEAD "all-reduce 2x8 any any 0 one_shot\n", "\"one_shot\" is neither flat nor hierarchical"},
    {HEAD "all-reduce 2x8 any any 0 forward\n", "\"forward\" is neither flat nor hierarchical"},
    {HEAD "all-reduce 2x8 any symmetric 0 flat\n", "\"flat\" is for memory any: domains"},
    {HEAD "all-reduce-rms-norm 2x8 any any 0 flat\n", "\"flat\" is of an operation that domains"},
    {HEAD "all-reduce 8 any any 0 hierarchical\n", "\"hierarchical\" needs a number of domains"},
    {HEAD "all-reduce 18446744073709551620 any any 0 one_shot\n",
     "20\" is not a valid number of ranks"},
    {HEAD "all-reduce 4 bf17 any 0 one_shot\n", ", line 2: \"bf17\" is not a dtype"},
    {HEAD "all-reduce 4 any all 0 one_shot\n", ", line 2: \"all\" is neither any nor symmetric"},
    {HEAD "all-gather 4 any symmetric 0 forward\n", ", line 2: \"forward\" is for memory any"},
    {HEAD "all-gather 4 any any 0 forwards\n", ", line 2: \"forwards\" is not an algorithm"},
    {HEAD "all-reduce 4 any any 64K one_shot\n", ", line 2: \"64K\" is not a number of bytes"},
    {HEAD "all-reduce 4 any any +1 one_shot\n", ", line 2: \"+1\" is not a number of bytes"},
    {HEAD "all-reduce 4 any any 18446744073709551616 one_shot\n", "616\" is not a number of bytes"},
    {HEAD "all-reduce 4 any any 0 ring\n", ", line 2: \"ring\" is not an algorithm"},
    {HEAD "all-reduce 4 any any 0 auto\n", ", line 2: \"auto\" is not an algorithm"},
    {HEAD "all-reduce 4 any any 0 multimem_one_shot\n", "different bits, so auto must not"},
    {HEAD "all-reduce 4 any any 0 copy_engine\n", "\"copy_engine\" needs symmetric memory"},
    {HEAD "all-gather 4 any any 0 copy_engine\n", "\"copy_engine\" needs symmetric memory"},
    {HEAD "all-reduce 4 any any 8 one_shot\nall-reduce 4 any any 8 two_shot\n",
     ", line 3: \"8\" is not more than the bytes of line 2"},
    {HEAD "all-reduce 4 any any 8 one_shot\n#\nall-reduce 5 any any 7 two_shot\n"
          "all-reduce 4 any any 7 two_shot\n",
     ", line 5: \"7\" is not more than the bytes of line 2"},
    {HEAD "all-reduce\x01\xff\x1b[31m 4 any any 0 one_shot\n",
     "\"all-reduce???[31m\" is not an op"},
    {HEAD "a23456789b123456789c123456789d123456789e123456789 4 any any 0 one_shot\n",
     "\"a23456789b123456789c123456789d123456789e\" is not an operation"},
};

TEST_GROUP(malformed, 20);

TEST_LOOP(malformed, the_malformed_word_is_named, 0, sizeof malformed / sizeof malformed[0])
{
    struct symm_tuning *t = NULL;
    char want[256];

    ck_assert_int_eq(parse(malformed[_i].text, &t), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(symm__failure_text(), malformed[_i].want), "%s", symm__failure_text());
    snprintf(want, sizeof want, "SYMM_TUNING_FILE=some.file, line ");
    ck_assert_msg(strncmp(symm__failure_text(), want, strlen(want)) == 0, "%s",
                  symm__failure_text());
}

TEST(malformed, a_byte_of_zero_is_no_end)
{
    static const char text[] = HEAD "all-reduce 4 any any 0 one_shot\n\0\n";
    struct symm_tuning *t = NULL;

    ck_assert_int_eq(symm__tuning_parse("f", MACHINE, text, sizeof text - 1, &t),
                     SYMM_ERROR_ARGUMENT);
    ck_assert_msg(strstr(symm__failure_text(), ", line 3: 1 of the 6 words"), "%s",
                  symm__failure_text());
}

/* Whatever stands in a file, it is a table or an error, and nothing is read behind its end. */
TEST_LOOP(malformed, garbage_is_an_error_or_a_table, 0, 4)
{
    static const char *const words[] = {"symm-tuning", "1",  "all-reduce", "any", "4",
                                        "one_shot",    " ",  "\n",         "#",   "8",
                                        "\n",          "\t", "symmetric",  "0",   "two_shot"};
    srand((unsigned)_i + 1);
    for (int round = 0; round < 2000; round++) {
        const int nwords = rand() % 24;
        struct symm_tuning *t = NULL;
        char *text = malloc(1024);
        size_t used = 0;

        if (rand() % 4)
            used = (size_t)sprintf(text, "symm-tuning 1\n");
        for (int i = 0; i < nwords; i++)
            used += (size_t)sprintf(text + used, "%s%s", words[(size_t)rand() % 15],
                                    rand() % 3 ? " " : "");
        text = realloc(text, used ? used : 1); /* what is behind it, a sanitizer sees */
        const symm_status st = symm__tuning_parse("f", MACHINE, text, used, &t);
        ck_assert(st == SYMM_OK ? t != NULL : st == SYMM_ERROR_ARGUMENT && !t);
        symm__tuning_destroy(t);
        free(text);
    }
}

TEST_GROUP(machines, 20);

TEST(machines, a_table_of_this_machine_is_taken)
{
    static const char *const lines[] = {"machine " MACHINE, " machine\t " MACHINE " \t# here\r",
                                        "# machine emulated 1.2.3 another", ""};
    char text[256];

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        snprintf(text, sizeof text, HEAD "%s\nall-reduce 4 any any 0 one_shot\n", lines[i]);
        struct symm_tuning *t = parsed(text);
        ck_assert(find(t, SYMM_OPERATION_ALL_REDUCE, 4, (symm_dtype)0, false, 1) ==
                  SYMM_ALGO_ONE_SHOT);
        symm__tuning_destroy(t);
    }
}

static const struct {
    const char *text, *want; /* behind the name of the file */
} foreign[] = {
    {HEAD "machine emulated 1.2.3 Some GPU 80GB\n",
     ", line 2: measured on \"emulated 1.2.3 Some GPU 80GB\", and this is \"" MACHINE "\": "},
    {HEAD "machine cuda 1.2.4 Some GPU 80GB\n",
     ", line 2: measured on \"cuda 1.2.4 Some GPU 80GB\""},
    {HEAD "machine cuda 1.2.3 Some GPU 80GB HBM\n",
     ", line 2: measured on \"cuda 1.2.3 Some GPU 80GB HBM\""},
    {HEAD "machine cuda 1.2.3 Some GPU\n", ", line 2: measured on \"cuda 1.2.3 Some GPU\""},
    {HEAD "machine\n", ", line 2: measured on \"\", and this is \"" MACHINE "\": "},
    {HEAD "machine " MACHINE "\nmachine another\n", ", line 3: measured on \"another\""},
    {HEAD "all-reduce 4 any any 0 one_shot\nmachine another\n",
     ", line 3: measured on \"another\""},
    {HEAD "machine a\x1b[31m b\n", ", line 2: measured on \"a?[31m b\""},
    {HEAD "machines " MACHINE "\n", ", line 2: \"machines\" is not an operation"},
};

TEST_LOOP(machines, a_table_of_another_machine_is_refused, 0, sizeof foreign / sizeof foreign[0])
{
    char want[256];
    struct symm_tuning *t = NULL;

    ck_assert_int_eq(parse(foreign[_i].text, &t), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_null(t);
    snprintf(want, sizeof want, "SYMM_TUNING_FILE=some.file%s", foreign[_i].want);
    ck_assert_msg(strncmp(symm__failure_text(), want, strlen(want)) == 0, "%s",
                  symm__failure_text());
}

static char path[64];

static void write_file(const char *text, size_t nbytes)
{
    snprintf(path, sizeof path, "/tmp/symm-test-XXXXXX");
    const int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, nbytes), (ssize_t)nbytes);
    close(fd);
    setenv("SYMM_TUNING_FILE", path, 1);
}

static void load_fails(const char *part)
{
    char want[128];
    struct symm_tuning *t = NULL;

    ck_assert_int_eq(symm__tuning_load(NULL, MACHINE, &t), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_null(t);
    snprintf(want, sizeof want, "SYMM_TUNING_FILE=%s%s", path, part);
    ck_assert_msg(strncmp(symm__failure_text(), want, strlen(want)) == 0, "%s",
                  symm__failure_text());
}

TEST_GROUP(files, 20);

TEST(files, the_setting_names_the_file)
{
    struct symm_tuning *t = (void *)&t;

    unsetenv("SYMM_TUNING_FILE");
    ck_assert_int_eq(symm__tuning_load(NULL, MACHINE, &t), SYMM_OK);
    ck_assert_ptr_null(t);
    setenv("SYMM_TUNING_FILE", "", 1);
    ck_assert_int_eq(symm__tuning_load(NULL, MACHINE, &t), SYMM_OK);
    ck_assert_ptr_null(t);
    write_file(HEAD "all-reduce 4 any any 3 one_shot\n", 46);
    ck_assert_int_eq(symm__tuning_load("", MACHINE, &t), SYMM_OK);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(symm__tuning_load(NULL, MACHINE, &t), SYMM_OK);
    unlink(path);
    ck_assert(find(t, SYMM_OPERATION_ALL_REDUCE, 4, (symm_dtype)0, false, 3) == SYMM_ALGO_ONE_SHOT);
    symm__tuning_destroy(t);
}

TEST(files, files_that_cannot_be_read_are_named)
{
    static char much[SYMM_TUNING_NBYTES_MAX + 1];

    write_file(HEAD "all-reduce 4 any any 3 ring\n", 42);
    load_fails(", line 2: \"ring\" is not an algorithm");
    unlink(path);
    load_fails(": No such file or directory (2)");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    load_fails(" is not a regular file");
    rmdir(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    load_fails(" is not a regular file");
    unlink(path);
    memset(much, '#', sizeof much);
    memcpy(much, HEAD, strlen(HEAD));
    write_file(much, sizeof much);
    load_fails(" has more than 1048576 bytes");
    unlink(path);
    write_file(much, sizeof much - 1);
    struct symm_tuning *t = NULL;
    ck_assert_int_eq(symm__tuning_load(NULL, MACHINE, &t), SYMM_OK);
    symm__tuning_destroy(t);
    unlink(path);
}
