/* Names: the texts of strings, compared as texts and not as they are written, and the table of wanted keys. */
#ifndef GPUWHY_NAMES_H
#define GPUWHY_NAMES_H

#include "bytes.h"

#define MAX_NAME 512  /* longest key, cat or ph that can match after unescaping */
#define KEY_SLOTS 512 /* at most a quarter of them used, so that an unknown key meets an empty one */

/* As compiled.py declares it. The text has 8 bytes of padding. */
typedef struct { const byte *text; uint32_t size, slot, in_args; } Key;
typedef struct { const Key *keys[KEY_SLOTS]; } Keys;

static int hex4(const byte *p) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = is_digit(p[i]) ? p[i] - '0' : (byte)((p[i] | 32) - 'a') < 6 ? (p[i] | 32) - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* The text of a string's inside into `out` (MAX_NAME + 4); SIZE_MAX where it is too long or a bad escape. */
static size_t unescape(const byte *p, size_t size, byte *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const byte *end = p + size;
    size_t n = 0;
    while (p < end) {
        if (n >= MAX_NAME) return SIZE_MAX;
        if (*p != '\\') {
            out[n++] = *p++;
            continue;
        }
        const char *known = p[1] ? strchr(from, p[1]) : NULL;
        p += 2;
        if (known) {
            out[n++] = (byte)to[known - from];
            continue;
        }
        int code = p[-1] == 'u' && end - p >= 4 ? hex4(p) : -1;
        if (code < 0) return SIZE_MAX;
        p += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
            int low = hex4(p + 2);
            if (low >= 0xdc00 && low < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), p += 6;
        }
        if (code < 0x80) out[n++] = (byte)code;
        else if (code < 0x800) out[n++] = (byte)(0xc0 | code >> 6), out[n++] = (byte)(0x80 | (code & 63));
        else {
            if (code < 0x10000) out[n++] = (byte)(0xe0 | code >> 12);
            else out[n++] = (byte)(0xf0 | code >> 18), out[n++] = (byte)(0x80 | (code >> 12 & 63));
            out[n++] = (byte)(0x80 | (code >> 6 & 63)), out[n++] = (byte)(0x80 | (code & 63));
        }
    }
    return n;
}

static inline uint32_t key_place(const byte *p, size_t size) {
    uint64_t head = load_up_to_8(p, size), tail = size > 8 ? load8(p + size - 8) : 0;
    return (uint32_t)(((head ^ (tail << 7) ^ (tail >> 11) ^ size) * 0x9e3779b97f4a7c15ULL) >> 55); /* 9 bits */
}

/* The slot of a key, or -1. At least 8 readable bytes follow p. */
static inline int32_t find_key(const Keys *keys, const byte *p, size_t size) {
    const Key *key;
    for (uint32_t i = key_place(p, size); (key = keys->keys[i]); i = (i + 1) % KEY_SLOTS)
        if (key->size == size && same(key->text, p, size)) return (int32_t)key->slot;
    return -1;
}

static int32_t find_escaped_key(const Keys *keys, const byte *p, size_t size) {
    byte text[MAX_NAME + 8];
    size_t n = unescape(p, size, text);
    return n == SIZE_MAX ? -1 : find_key(keys, text, n);
}

static bool is_text(const byte *name, size_t name_size, Slice token) { /* is the string token this text? */
    byte text[MAX_NAME + 8];
    if (!token.size) return name_size == 0; /* absent */
    if (token.at[0] != '"') return false;
    const byte *p = token.at + 1;
    size_t size = token.size - 2;
    if (memchr(p, '\\', size)) {
        size = unescape(p, size, text);
        p = text;
    }
    return size == name_size && memcmp(p, name, size) == 0;
}

#endif
