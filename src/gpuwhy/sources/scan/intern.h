/* Interning: texts to codes 0, 1, 2, ... in order of first sight. */
#ifndef GPUWHY_INTERN_H
#define GPUWHY_INTERN_H

#include "bytes.h"

typedef struct {
    byte *text;
    uint64_t *ends, *hashes; /* by code; text of code c lies between ends[c] and ends[c + 1] */
    uint32_t *slots;         /* code + 1, or 0 */
    size_t text_size, text_room, room, mask;
    uint32_t count;
} Intern;

static inline uint64_t mix(uint64_t a, uint64_t b) { /* both halves of the product, folded */
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t ah = a >> 32, al = (uint32_t)a, bh = b >> 32, bl = (uint32_t)b;
    uint64_t m = ah * bl + (al * bl >> 32), n = al * bh + (uint32_t)m;
    return (a * b) ^ (ah * bh + (m >> 32) + (n >> 32));
#endif
}

static inline uint64_t hash_of(const byte *p, size_t size, uint64_t seed) { /* p lies in the padded buffer */
    uint64_t h = seed ^ (size * 0x9e3779b97f4a7c15ULL);
    for (; size > 8; p += 8, size -= 8) h = mix(h ^ load8(p), seed ^ 0xd6e8feb86659fd93ULL);
    return mix(h ^ load_up_to_8(p, size), 0xa0761d6478bd642fULL ^ (seed << 1 | 1));
}

static bool intern_room(Intern *in) { /* for one more code, at most half of the slots used */
    if (in->count + 2 > in->room) {
        size_t room = in->room;
        if (!grow(&in->ends, &room, in->count + 2, sizeof *in->ends)) return false;
        room = in->room;
        if (!grow(&in->hashes, &room, in->count + 2, sizeof *in->hashes)) return false;
        in->room = room;
        if (!in->count) in->ends[0] = 0;
    }
    if (in->slots && (size_t)in->count * 2 <= in->mask) return true;
    size_t slots = in->slots ? (in->mask + 1) * 2 : 2048;
    uint32_t *bigger = calloc(slots, sizeof *bigger);
    if (!bigger) return false;
    for (uint32_t code = 0; code < in->count; code++) {
        size_t i = in->hashes[code] & (slots - 1);
        while (bigger[i]) i = (i + 1) & (slots - 1);
        bigger[i] = code + 1;
    }
    free(in->slots);
    in->slots = bigger;
    in->mask = slots - 1;
    return true;
}

static inline bool is_code(const Intern *in, uint32_t code, const byte *p, size_t size) {
    uint64_t from = in->ends[code];
    return in->ends[code + 1] - from == size && same(in->text + from, p, size);
}

/* The code of a text, a new one if it has none; UINT32_MAX without memory, or at `most` codes. */
static uint32_t intern(Intern *in, const byte *p, size_t size, uint64_t seed, uint32_t most) {
    if (!intern_room(in)) return UINT32_MAX;
    uint64_t h = hash_of(p, size, seed);
    size_t i = h & in->mask;
    for (; in->slots[i]; i = (i + 1) & in->mask) {
        uint32_t code = in->slots[i] - 1;
        if (in->hashes[code] == h && is_code(in, code, p, size)) return code;
    }
    if (in->count >= most) return UINT32_MAX;
    if (in->text_size + size + 8 > in->text_room && !grow(&in->text, &in->text_room, in->text_size + size + 8, 1))
        return UINT32_MAX;
    memcpy(in->text + in->text_size, p, size);
    in->text_size += size;
    in->hashes[in->count] = h;
    in->ends[in->count + 1] = in->text_size;
    in->slots[i] = in->count + 1;
    return in->count++;
}

static void intern_free(Intern *in) { free(in->text), free(in->ends), free(in->hashes), free(in->slots); }

#endif
