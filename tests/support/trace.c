/* Files of one folder, PREFIX.RANK; calls before a rank is known are in PREFIX.none. */
#include "trace.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/symm.h>
#include <unistd.h>

enum { LINE = 1024 };

static char folder[64];

static void path_of(char path[LINE], const char *rank)
{
    snprintf(path, LINE, "%s/trace%s", folder, rank);
}

void trace_begin(void)
{
    char path[LINE];

    strcpy(folder, "/tmp/symm-trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    path_of(path, "");
    setenv("SYMM_EMULATED_TRACE", path, 1);
}

void trace_end(void)
{
    char path[LINE], rank[16];

    path_of(path, ".none");
    unlink(path);
    for (int r = 0; r < SYMM_MAX_RANKS; r++) {
        snprintf(rank, sizeof rank, ".%d", r);
        path_of(path, rank);
        unlink(path);
    }
    ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}

bool trace_read(int rank, long *at, bool (*take)(void *arg, const char *line), void *arg)
{
    char path[LINE], line[LINE], suffix[16];
    bool ok = true;

    snprintf(suffix, sizeof suffix, ".%d", rank);
    path_of(path, suffix);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    ok = take ? fseek(f, *at, SEEK_SET) == 0 : fseek(f, 0, SEEK_END) == 0;
    while (ok && take && fgets(line, sizeof line, f))
        ok = take(arg, line);
    *at = ftell(f);
    fclose(f);
    return ok;
}

struct count {
    const char *text;
    int n;
};

static bool count_line(void *arg, const char *line)
{
    struct count *c = arg;

    c->n += strstr(line, c->text) != NULL;
    return true;
}

int trace_count(int rank, const char *text)
{
    struct count c = {.text = text};
    long at = 0;

    trace_read(rank, &at, count_line, &c);
    return c.n;
}
