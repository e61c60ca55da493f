/* cuGetProcAddress_v2, the only symbol of the library, and the table of entries. */
#include <string.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/fault.h"
#include "emulator/state/machine.h"

typedef void (*any_function)(void);

struct entry {
    const char *name;
    int version;
    any_function function;
};

static const struct entry entries[] = {
#define ENTRY_(fn, version, need, params) {#fn, version, (any_function)emu_##fn},
    CU_FUNCTIONS_EMULATED(ENTRY_)
#undef ENTRY_
        {"symm_emulated_objects", 0, (any_function)emu__counts},
    {"symm_emulated_last_rule", 0, (any_function)emu__last_rule},
    {"symm_emulated_set_fault", 0, (any_function)emu__faults_set},
    {"symm_emulated_calls", 0, (any_function)emu__fault_calls},
    {"symm_emulated_last_fault", 0, (any_function)emu__fault_last},
    {"symm_emulated_set_seed", 0, (any_function)emu__set_seed},
};

/* Finds an entry by its name with or without _v2. */
static const struct entry *find(const char *name)
{
    size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, "_v2") == 0)
        n -= 3;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strlen(entries[i].name) == n && memcmp(entries[i].name, name, n) == 0)
            return &entries[i];
    return NULL;
}

__attribute__((visibility("default"))) CUresult
cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status)
{
    int ignored;
    if (!status)
        status = &ignored;
    if (!symbol || !function || flags != CU_GET_PROC_ADDRESS_DEFAULT ||
        version > EMU_DRIVER_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    const struct entry *entry = find(symbol);
    if (!entry || version < entry->version) {
        *status = entry ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_ERROR_NOT_FOUND;
    }
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    memcpy(function, &entry->function, sizeof *function);
    return CUDA_SUCCESS;
}
