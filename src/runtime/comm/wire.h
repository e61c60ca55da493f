/*
 * Frames on a TCP connection between hosts. Both ends first prove to each other that they know the
 * job's key. A connection that does not prove it in time, sends more than a frame may have, or is
 * silent, ends. One thread uses a wire, polls it and calls symm__wire_serve(). Nothing here blocks.
 * The proof is of the beginning only: frames are neither encrypted nor signed.
 *
 * An open wire sends a sign of life each SYMM_WIRE_BEAT_US if nothing else was sent. It ends if
 * nothing has come for SYMM_WIRE_SILENT_US: the other host, its process or the network is lost.
 */
#ifndef SYMM_WIRE_H
#define SYMM_WIRE_H

#include <poll.h>
#include "address.h"
#include "message.h"

enum {
    SYMM_WIRE_BEAT_US = 1000000,
    SYMM_WIRE_SILENT_US = 5000000,
    SYMM_WIRE_PROOF_US = 5000000, /* time limit for both proofs, with the connect */
};

/* What both ends know: the token of the job, or without one a hash of its session. */
struct symm_wire_key {
    uint8_t bytes[16];
};

struct symm_wire; /* on the heap */

enum symm_wire_state { SYMM_WIRE_PROVING, SYMM_WIRE_OPEN, SYMM_WIRE_ENDED };

/* The listening end. Takes fd, also on failure. Errors: ERROR_MEMORY, ERROR_SYSTEM */
symm_status symm__wire_accept(int fd, const struct symm_wire_key *key, struct symm_wire **out);
/* The other end; the connection is made by symm__wire_serve(). Errors: as symm__wire_accept */
symm_status symm__wire_connect(const struct symm_address *to, const struct symm_wire_key *key,
                               struct symm_wire **out);
void symm__wire_close(struct symm_wire *wire); /* NULL is fine. Frames not yet sent are lost */

enum symm_wire_state symm__wire_state(const struct symm_wire *wire);
/* Why it ended: "has not proved that it knows the token", "was silent for 5 s", "Connection ..." */
const char *symm__wire_why(const struct symm_wire *wire);
/*
 * The same as a status, OK before the end:
 *     ERROR_VERSION   the other end is another version of symm, which `why` names
 *     ERROR_ARGUMENT  the other end has not proved the key, or is no symm
 *     ERROR_MISMATCH  it sent a frame that is none
 *     ERROR_TIMEOUT   it was silent, or too slow in the proof
 *     ERROR_PEER      it has closed, or there is no connection to it
 *     ERROR_MEMORY
 */
symm_status symm__wire_status(const struct symm_wire *wire);

/* To poll for. Poll at most SYMM_WIRE_BEAT_US / 2, then serve, also without an event. */
struct pollfd symm__wire_poll(const struct symm_wire *wire);
/* Connects, proves, sends, reads and watches the time. */
void symm__wire_serve(struct symm_wire *wire, short revents);

/*
 * The next frame that has come; it has no descriptors. *out points into the wire until
 * symm__wire_serve(), symm__wire_next() or symm__wire_close() is called. Returns false if there is
 * none. A frame that is none ends the wire. Frames that came before the end are still given out
 * after it. Take all of them after each symm__wire_serve(), which reads no more while one waits.
 */
bool symm__wire_next(struct symm_wire *wire, struct symm_message *out);

/*
 * Sends a frame, or keeps it until the wire is open and the socket takes it. Takes the caller's
 * reference of the frame, which must have no descriptors. A frame for an ended wire is dropped.
 */
void symm__wire_send(struct symm_wire *wire, struct symm_frame *frame);
bool symm__wire_idle(const struct symm_wire *wire); /* everything is sent, or the wire has ended */

#endif
