/*
 * The parser of control messages, on any bytes. The first byte is the number of descriptors. An
 * accepted message must be the same after it is built and parsed again.
 */
#include <stdlib.h>
#include <string.h>
#include "alone.h"
#include "runtime/comm/message.h"

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
    check(again.type == m.type && again.rank == m.rank && again.comm == m.comm &&
          again.seq == m.seq && again.op == m.op && again.status == m.status &&
          again.payload_nbytes == m.payload_nbytes && !strcmp(again.text, m.text) &&
          !strcmp(again.reason, m.reason) && !memcmp(again.args, m.args, sizeof m.args) &&
          symm__rank_set_equal(again.set, m.set) &&
          !memcmp(again.payload, m.payload, m.payload_nbytes));
    symm__frame_put(frame);
    return 0;
}

#ifndef SYMM_LIBFUZZER
enum { MADE_UP = 200000 };

/* A message of any type with a few bytes changed, often none that matters. */
static void make_up(void)
{
    static unsigned char payload[256];
    struct symm_message m = {.type = 1 + alone_chance(SYMM_MESSAGE_TYPES - 1),
                             .rank = (int)alone_chance(SYMM_MAX_RANKS),
                             .comm = alone_chance(5),
                             .seq = alone_chance(100),
                             .status = -(symm_status)alone_chance(11),
                             .text = alone_chance(2) ? "symm_alloc(4096)" : NULL,
                             .reason = alone_chance(2) ? "no memory" : NULL,
                             .payload = payload,
                             .payload_nbytes =
                                 alone_chance(4) ? 72 * alone_chance(3) : alone_chance(256)};
    struct symm_frame *frame = symm__frame_make(&m);
    check(frame);
    size_t nbytes = frame->nbytes - (alone_chance(4) ? 0 : alone_chance(16));
    uint8_t *input = malloc(nbytes + 1);
    check(input);
    input[0] = (uint8_t)(alone_chance(8) ? 0 : alone_chance(80));
    memcpy(input + 1, frame->bytes, nbytes);
    for (uint32_t n = alone_chance(3); n > 0; n--)
        input[1 + alone_chance((uint32_t)nbytes)] ^= (uint8_t)(1u << alone_chance(8));
    LLVMFuzzerTestOneInput(input, nbytes + 1);
    free(input);
    symm__frame_put(frame);
}

int main(int argc, char **argv)
{
    return alone_main(argc, argv, make_up, MADE_UP);
}
#endif
