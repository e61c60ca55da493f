/* The leak report of the emulated driver. */
#include "driver_table.h"

enum leak {
    NO_LEAK,
    LEAK_CONTEXT,
    LEAK_HANDLE,
    LEAK_MAPPING,
    LEAK_RESERVATION,
    LEAK_DESCRIPTOR,
    LEAK_ALLOCATION,
    LEAK_PINNED,
    NLEAKS
};

/* The line of the report for each. */
static const char *const leak_texts[NLEAKS] = {
    [NO_LEAK] = "",
    [LEAK_CONTEXT] = "left at exit: 1 references to primary contexts",
    [LEAK_HANDLE] = "left at exit: memory handle 0x",
    [LEAK_MAPPING] = "left at exit: mapping at 0x",
    [LEAK_RESERVATION] = "left at exit: reservation at 0x",
    [LEAK_DESCRIPTOR] = "left at exit: exported descriptor ",
    [LEAK_ALLOCATION] = "left at exit: device memory at 0x",
    [LEAK_PINNED] = "left at exit: pinned host memory at 0x",
};

static enum leak leak;

/* Writes its report to the socket. */
static void leaker(int socket)
{
    dup2(socket, STDERR_FILENO);
    CUdeviceptr ptr;
    void *host;
    int fd;
    driver_open(0);
    CUmemGenericAllocationHandle handle = memory_create(0, GRANULE);
    if (leak == LEAK_MAPPING)
        memory_map(handle, GRANULE, 0);
    if (leak == LEAK_RESERVATION)
        memory_reserve(GRANULE);
    if (leak == LEAK_DESCRIPTOR)
        OK(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0));
    if (leak == LEAK_ALLOCATION)
        OK(cu.cuMemAlloc(&ptr, 256));
    if (leak == LEAK_PINNED)
        OK(cu.cuMemHostAlloc(&host, 256, 0));
    if (leak != LEAK_HANDLE)
        OK(cu.cuMemRelease(handle));
    if (leak != LEAK_CONTEXT)
        driver_close(0);
}

static char leaker_text[4096]; /* the last report */

/* Runs the leaker, whose report must contain `part`, and returns its status. */
static int status_of_leaker(const char *part)
{
    struct peer peer = peer_start(leaker);
    char *const text = leaker_text;
    size_t used = 0;
    memset(leaker_text, 0, sizeof leaker_text);
    for (ssize_t n = 1; n > 0 && used < sizeof leaker_text - 1; used += (size_t)n) {
        n = recv(peer.socket, text + used, sizeof leaker_text - 1 - used, 0);
        ck_assert_int_ge(n, 0);
    }
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in: %s", part, text);
    if (!*part)
        ck_assert_str_eq(text, "");
    return peer_wait(&peer);
}

TEST_GROUP(leaks, 30);

TEST_LOOP(leaks, a_leak_fails_the_process, 0, NLEAKS)
{
    leak = (enum leak)_i;
    setenv("SYMM_EMULATED_LEAKS", "fail", 1);
    ck_assert_int_eq(WEXITSTATUS(status_of_leaker(leak_texts[_i])), leak == NO_LEAK ? 0 : 97);
}

static int lines_of_leaker(void)
{
    int n = 0;
    for (const char *c = leaker_text; *c; c++)
        n += *c == '\n';
    return n;
}

/* A mapping also holds a reservation and memory. */
TEST(leaks, leaks_that_are_only_reported)
{
    leak = LEAK_MAPPING;
    setenv("SYMM_EMULATED_LEAKS", "report", 1);
    ck_assert_int_eq(status_of_leaker("left at exit: 1 mappings, 1 reservations, 1 descriptors"),
                     0);
    ck_assert_msg(lines_of_leaker() == 1, "%s", leaker_text);
    setenv("SYMM_EMULATED_LEAKS", "list", 1);
    ck_assert_int_eq(status_of_leaker(leak_texts[leak]), 0);
    ck_assert_msg(lines_of_leaker() == 3, "%s", leaker_text);
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    ck_assert_int_eq(status_of_leaker(""), 0);
}

TEST(leaks, an_exported_descriptor_is_counted)
{
    leak = LEAK_DESCRIPTOR;
    setenv("SYMM_EMULATED_LEAKS", "report", 1);
    ck_assert_int_eq(status_of_leaker("left at exit: 1 exported descriptors"), 0);
    ck_assert_msg(lines_of_leaker() == 1, "%s", leaker_text);
}
