/* Bytes: loads and comparisons of several at once. Everything here may read up to 16 bytes from where it is pointed,
 * which PAD in input.h allows. */
#ifndef GPUWHY_BYTES_H
#define GPUWHY_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef uint8_t byte;
typedef struct { const byte *at; size_t size; } Slice;

static inline uint64_t load8(const byte *p) {
    uint64_t word;
    memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t load_up_to_8(const byte *p, size_t size) { /* reads 8 bytes, keeps `size` of them */
    return size >= 8 ? load8(p) : load8(p) & ((1ULL << (8 * size)) - 1);
}

static inline bool is_digit(byte c) { return (byte)(c - '0') < 10; }
static inline bool is_letter(byte c) { return (byte)((c | 32) - 'a') < 26; }
static inline bool is_blank(byte c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static inline bool same(const byte *a, const byte *b, size_t size) { /* both with 8 readable bytes behind them */
    for (; size > 8; a += 8, b += 8, size -= 8)
        if (load8(a) != load8(b)) return false;
    return load_up_to_8(a, size) == load_up_to_8(b, size);
}

/* WIDTH bytes at a time. In a Mask each byte has one bit, or without SSE2 the highest of its eight. */
#if defined(__SSE2__)
#define WIDTH 16
typedef uint32_t Mask;
typedef __m128i Bytes;
#define MASK_INDEX(mask) ((size_t)__builtin_ctz(mask))
static inline Bytes load(const byte *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline Bytes lowered(Bytes v) { return _mm_or_si128(v, _mm_set1_epi8(32)); }
static inline Mask equal(Bytes v, char c) { return (Mask)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c))); }
static inline Mask either(Bytes v, char c, char d) {
    Bytes found = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)), _mm_cmpeq_epi8(v, _mm_set1_epi8(d)));
    return (Mask)_mm_movemask_epi8(found);
}
#else
#define WIDTH 8
typedef uint64_t Mask, Bytes;
#define MASK_INDEX(mask) ((size_t)__builtin_ctzll(mask) >> 3)
#define EVERY(c) (0x0101010101010101ULL * (byte)(c))
static inline Bytes load(const byte *p) { return load8(p); }
static inline Bytes lowered(Bytes v) { return v | EVERY(32); }
static inline Mask equal(Bytes v, char c) { /* exact in every byte, unlike the shorter classic */
    uint64_t x = v ^ EVERY(c);
    return ~(((x & EVERY(0x7f)) + EVERY(0x7f)) | x | EVERY(0x7f));
}
static inline Mask either(Bytes v, char c, char d) { return equal(v, c) | equal(v, d); }
#endif

static inline const byte *skip_blanks(const byte *p) {
    if (*p > ' ' || !is_blank(*p)) return p;
    if (*++p > ' ') return p; /* mostly one blank, or a line break and an indent */
    for (;; p++) {
        while (load8(p) == 0x2020202020202020ULL) p += 8;
        if (!is_blank(*p)) return p;
    }
}

/* Makes room for `needed` items in the array at *array, by doubling. */
static bool grow(void *array, size_t *room, size_t needed, size_t item) {
    size_t bigger = *room ? *room : 1024;
    while (bigger < needed) bigger *= 2;
    void *moved = realloc(*(void **)array, bigger * item);
    if (!moved) return false;
    *(void **)array = moved;
    *room = bigger;
    return true;
}

#endif
