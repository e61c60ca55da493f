/*
 * The places for blocks on the SMs of a device. A block takes one or more places of one SM: of the
 * emptiest SM, as on GPUs. So blocks spread over all SMs, and a block that needs a whole SM waits
 * until one is empty.
 */
#ifndef SYMM_EMULATOR_PLACES_H
#define SYMM_EMULATOR_PLACES_H

#include <stdint.h>
#include "emulator/state/machine.h"

struct emu_places {
    unsigned nsms;
    uint8_t of_sm, free[EMU_SMS_MAX]; /* of each SM: all its places, and the free ones */
};

void emu__places_init(struct emu_places *places, unsigned nsms, unsigned of_sm);
/* How many blocks of `size` places fit. */
uint64_t emu__places_fit(const struct emu_places *places, unsigned size);
/* Takes places for n blocks, which fit, and stores the SM of each. sms may be NULL. */
void emu__places_take(struct emu_places *places, unsigned size, uint64_t n, uint16_t *sms);
void emu__places_give_back(struct emu_places *places, unsigned size, uint16_t sm);

#endif
