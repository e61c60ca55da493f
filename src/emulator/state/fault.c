/*
 * SYMM_EMULATED_FAULT is a list of CALL@RANK#NTH=CODE|hang|kill, separated by semicolons. RANK may
 * be * or left out (all ranks). NTH counts from 1, the default; "NTH+" means all calls from there
 * on. The call `any` counts all calls of a rank.
 */
#include "fault.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"

#define MAX_FAULTS 64
#define ANY_RANK (-2)

/* Ranks from -1 (unknown) on. */
#define RANK_SLOTS (EMU_MAX_DEVICES + 1)

struct fault {
    char call[64];
    int rank;
    uint64_t nth;
    bool onward;
    struct emu_fault fault;
    uint64_t seen[RANK_SLOTS];
};

static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[MAX_FAULTS];
static int nfaults;
static uint64_t calls[RANK_SLOTS];
static const char *last_call; /* the name of the entry that got the last fault */

static const char *const driver_calls[] = {
#define NAME_(fn, version, need, params) #fn,
    CU_FUNCTIONS_EMULATED(NAME_)
#undef NAME_
};

static bool is_driver_call(const char *name)
{
    for (size_t i = 0; i < sizeof driver_calls / sizeof *driver_calls; i++)
        if (strcmp(driver_calls[i], name) == 0)
            return true;
    return false;
}

static int slot_of(int rank)
{
    return rank >= -1 && rank < EMU_MAX_DEVICES ? rank + 1 : 0;
}

static bool parse_number(const char **text, uint64_t *out)
{
    char *end = NULL;
    if (**text < '0' || **text > '9')
        return false;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return true;
}

static bool parse_action(const char *text, struct emu_fault *out)
{
    uint64_t code = 0;
    if (strcmp(text, "hang") == 0) {
        *out = (struct emu_fault){.action = EMU_FAULT_HANG};
        return true;
    }
    if (strcmp(text, "kill") == 0) {
        *out = (struct emu_fault){.action = EMU_FAULT_KILL};
        return true;
    }
    if (!parse_number(&text, &code) || *text || code == 0 || code > 9999)
        return false;
    *out = (struct emu_fault){.action = EMU_FAULT_ERROR, .error = (CUresult)code};
    return true;
}

/* Parses one clause of the list. */
static bool parse_clause(const char *text, struct fault *out)
{
    *out = (struct fault){.rank = ANY_RANK, .nth = 1};
    size_t n = strcspn(text, "@#=");
    if (n == 0 || n >= sizeof out->call)
        return false;
    memcpy(out->call, text, n);
    if (strcmp(out->call, "any") != 0 && !is_driver_call(out->call))
        return false;
    text += n;
    if (*text == '@') {
        uint64_t rank = 0;
        text++;
        if (*text == '*')
            text++;
        else if (parse_number(&text, &rank) && rank < EMU_MAX_DEVICES)
            out->rank = (int)rank;
        else
            return false;
    }
    if (*text == '#') {
        text++;
        if (!parse_number(&text, &out->nth) || out->nth == 0)
            return false;
        if (*text == '+') {
            out->onward = true;
            text++;
        }
    }
    return *text == '=' && parse_action(text + 1, &out->fault);
}

/* Adds the fault of a clause of n characters. False after a line on stderr: malformed. */
static bool add_fault(const char *text, size_t n)
{
    char clause[128] = "";
    bool ok = n < sizeof clause && nfaults < MAX_FAULTS;
    if (ok) {
        memcpy(clause, text, n);
        ok = parse_clause(clause, &faults[nfaults]);
    }
    if (ok)
        nfaults++;
    else
        fprintf(stderr,
                "symm-emulated: SYMM_EMULATED_FAULT: \"%.*s\": expected "
                "CALL@RANK#NTH=CODE|hang|kill\n",
                (int)n, text);
    return ok;
}

bool emu__faults_set(const char *spec)
{
    bool ok = true;
    pthread_mutex_lock(&fault_lock);
    memset(calls, 0, sizeof calls);
    last_call = NULL;
    nfaults = 0;
    for (const char *at = spec; ok && at && *at;) {
        size_t n = strcspn(at, ";");
        ok = n == 0 || add_fault(at, n);
        at += n + (at[n] == ';');
    }
    if (!ok)
        nfaults = 0;
    pthread_mutex_unlock(&fault_lock);
    return ok;
}

struct emu_fault emu__fault_next(const char *call, int rank)
{
    struct emu_fault fault = {EMU_FAULT_NONE, CUDA_SUCCESS};
    int slot = slot_of(rank);
    pthread_mutex_lock(&fault_lock);
    calls[slot]++;
    for (int i = 0; i < nfaults; i++) {
        struct fault *f = &faults[i];
        if ((f->rank != ANY_RANK && f->rank != rank) ||
            (strcmp(f->call, "any") != 0 && strcmp(f->call, call) != 0))
            continue;
        uint64_t seen = ++f->seen[slot];
        if (fault.action == EMU_FAULT_NONE && (seen == f->nth || (f->onward && seen > f->nth)))
            fault = f->fault;
    }
    if (fault.action != EMU_FAULT_NONE)
        last_call = call;
    pthread_mutex_unlock(&fault_lock);
    return fault;
}

const char *emu__fault_last(void)
{
    pthread_mutex_lock(&fault_lock);
    const char *call = last_call;
    pthread_mutex_unlock(&fault_lock);
    return call;
}

uint64_t emu__fault_calls(int rank)
{
    pthread_mutex_lock(&fault_lock);
    uint64_t n = calls[slot_of(rank)];
    pthread_mutex_unlock(&fault_lock);
    return n;
}
