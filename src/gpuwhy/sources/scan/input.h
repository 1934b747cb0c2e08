/* The input as far as it is in memory, and where and why the reading of it stopped.
 *
 * Memory safety rests on one rule: PAD zero bytes follow the input in the buffer. Zero is never part of a token,
 * so loops over digits, letters and blanks stop at the end by themselves, and wide loads may look past it. A byte
 * that is not the expected one is then either an error or, at the end, a reason to wait for more (`stop_at`). */
#ifndef GPUWHY_INPUT_H
#define GPUWHY_INPUT_H

#include "bytes.h"

#define PAD 64

enum reason { NONE, ENDS, UNEXPECTED, TOO_DEEP, TOO_LONG };

typedef struct {
    byte *buffer;
    const byte *end;
    size_t room, begin, size; /* the unread input is buffer[begin .. size), and `end` is there */
    uint64_t offset;          /* of buffer[0] in the whole input */
    bool waiting;             /* what was begun ends beyond the buffer */
    enum reason reason;       /* the damage: why, where in the whole input, and the byte there */
    byte byte_there;
    uint64_t position;
} Input;

static bool append(Input *in, const byte *data, size_t size) {
    if (in->begin) { /* what is left of the piece before is mostly one unfinished event */
        memmove(in->buffer, in->buffer + in->begin, in->size - in->begin);
        in->offset += in->begin;
        in->size -= in->begin;
        in->begin = 0;
    }
    if (in->size + size + PAD > in->room && !grow(&in->buffer, &in->room, in->size + size + PAD, 1)) return false;
    if (size) memcpy(in->buffer + in->size, data, size);
    in->size += size;
    in->end = in->buffer + in->size;
    memset(in->buffer + in->size, 0, PAD);
    return true;
}

/* The next three return NULL, for their callers to return. */
static const byte *fail(Input *in, enum reason reason, const byte *p) {
    in->reason = reason;
    in->position = in->offset + (uint64_t)(p - in->buffer);
    in->byte_there = *p;
    return NULL;
}

static const byte *wait_for_more(Input *in) {
    in->waiting = true;
    return NULL;
}

static const byte *stop_at(Input *in, const byte *p) { /* p is not what should stand there */
    return p >= in->end ? wait_for_more(in) : fail(in, UNEXPECTED, p);
}

#endif
