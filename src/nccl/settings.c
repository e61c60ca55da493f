#include "settings.h"

#include <pthread.h>
#include <string.h>
#include "runtime/base/log.h"
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"

static struct nccl_settings settings;

/* Whether a list of words with commas has a word. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    }
    return false;
}

static void read_settings(void)
{
    const char *forward = symm__setting(SYMM_SETTING_NCCL_FORWARD);
    int64_t blocks = 0;

    settings.forwards_all = has_word(forward, "all");
    for (int i = 0; i < NCCL_OPERATIONS; i++)
        settings.forwards[i] = settings.forwards_all || has_word(forward, nccl__operation_name(i));
    settings.deterministic = strcmp(symm__setting(SYMM_SETTING_NCCL_DETERMINISTIC), "1") == 0;
    settings.stats = strcmp(symm__setting(SYMM_SETTING_NCCL_STATS), "1") == 0;
    if (symm__setting_int(SYMM_SETTING_NCCL_MAX_BLOCKS, 0, INT32_MAX, &blocks) != SYMM_OK)
        symm__log(&(struct symm_log){.rank = -1}, SYMM_LOG_ERROR, "%s", symm__failure_text());
    settings.max_blocks = (uint32_t)blocks;
}

const struct nccl_settings *nccl__settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_settings);
    return &settings;
}

uint32_t nccl__settings_hash(void)
{
    uint64_t hash = symm__mix(nccl__settings()->max_blocks, settings.deterministic);

    for (int i = 0; i < NCCL_OPERATIONS; i++)
        hash = symm__mix(hash, settings.forwards[i]);
    return (uint32_t)hash;
}
