/*
 * The parser of control messages, on whatever bytes. The first byte says how many descriptors came.
 * What is accepted must survive being built and parsed again unchanged.
 *
 * With clang: a libFuzzer target. Without: a program that replays the files (or folders of files)
 * it is given, and with none makes up damaged messages from a fixed seed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check(bool right)
{
    if (!right)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct symm_message m, again;

    if (!nbytes || symm__message_parse(data + 1, nbytes - 1, data[0], &m) != SYMM_OK)
        return 0;
    check(m.type > SYMM_MESSAGE_NONE && m.type < SYMM_MESSAGE_TYPES);
    check(m.rank >= -1 && m.rank < SYMM_MAX_RANKS);
    check(m.nfds == data[0] && m.nfds <= SYMM_MAX_RANKS);
    check(strlen(m.text) < SYMM_TEXT_MAX && strlen(m.reason) < SYMM_TEXT_MAX);
    check(m.payload_nbytes <= SYMM_PAYLOAD_MAX);
    struct symm_frame *frame = symm__frame_make(&m);
    check(frame);
    check(symm__message_parse(frame->bytes, frame->nbytes, m.nfds, &again) == SYMM_OK);
    check(again.type == m.type && again.rank == m.rank && again.lane == m.lane &&
          again.seq == m.seq && again.op == m.op && again.status == m.status &&
          again.payload_nbytes == m.payload_nbytes && !strcmp(again.text, m.text) &&
          !strcmp(again.reason, m.reason) && !memcmp(again.args, m.args, sizeof m.args) &&
          symm__rank_set_equal(again.set, m.set) &&
          !memcmp(again.payload, m.payload, m.payload_nbytes));
    symm__frame_put(frame);
    return 0;
}

#ifndef SYMM_LIBFUZZER
#include <dirent.h>
#include <stdio.h>

enum { MADE_UP = 200000, INPUT_MAX = SYMM_MESSAGE_MAX + 64 };

static uint64_t state = 1;

static uint32_t chance(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

/* A message of any type with a few bytes changed, often none that matters. */
static void make_up(void)
{
    static unsigned char payload[256];
    struct symm_message m = {.type = 1 + chance(SYMM_MESSAGE_TYPES - 1),
                             .rank = (int)chance(SYMM_MAX_RANKS),
                             .lane = chance(5),
                             .seq = chance(100),
                             .status = -(symm_status)chance(11),
                             .text = chance(2) ? "symm_alloc(4096)" : NULL,
                             .reason = chance(2) ? "no memory" : NULL,
                             .payload = payload,
                             .payload_nbytes = chance(4) ? 72 * chance(3) : chance(256)};
    struct symm_frame *frame = symm__frame_make(&m);
    check(frame);
    size_t nbytes = frame->nbytes - (chance(4) ? 0 : chance(16));
    uint8_t *input = malloc(nbytes + 1);
    check(input);
    input[0] = (uint8_t)(chance(8) ? 0 : chance(80));
    memcpy(input + 1, frame->bytes, nbytes);
    for (uint32_t n = chance(3); n > 0; n--)
        input[1 + chance((uint32_t)nbytes)] ^= (uint8_t)(1u << chance(8));
    LLVMFuzzerTestOneInput(input, nbytes + 1);
    free(input);
    symm__frame_put(frame);
}

static int replay_file(const char *path)
{
    uint8_t *input = malloc(INPUT_MAX);
    FILE *f = fopen(path, "re");
    int n = f && input;

    if (n)
        LLVMFuzzerTestOneInput(input, fread(input, 1, INPUT_MAX, f));
    if (f)
        fclose(f);
    free(input);
    return n;
}

static int replay(const char *path)
{
    DIR *dir = opendir(path);
    char name[4096];
    int n = 0;

    if (!dir)
        return replay_file(path);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' &&
            snprintf(name, sizeof name, "%s/%s", path, e->d_name) < (int)sizeof name)
            n += replay_file(name);
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    for (; argc == 1 && n < MADE_UP; n++)
        make_up();
    printf("# fuzz_message: %d inputs\n", n);
    return n == 0;
}
#endif
