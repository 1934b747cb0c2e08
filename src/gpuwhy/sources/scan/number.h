/* Numbers: their grammar, and their value without any float (number.py is the same in Python). */
#ifndef GPUWHY_NUMBER_H
#define GPUWHY_NUMBER_H

#include "bytes.h"

enum kind { NS, INT, CODE };

#define MISSING INT64_MIN
#define MOST_NS (1ULL << 62)

static inline const byte *skip_digits(const byte *p) {
    while (is_digit(*p)) p++;
    return p;
}

/* Where the JSON number at p ends: p itself where there is none, NULL where it may go on beyond `end`. */
static inline const byte *number_end(const byte *p, const byte *end) {
    const byte *start = p;
    if (*p == '-') p++;
    if (!is_digit(*p)) return p >= end ? NULL : start;
    p = *p == '0' ? p + 1 : skip_digits(p);
    if (*p == '.') {
        if (is_digit(p[1])) p = skip_digits(p + 2);
        else if (p + 1 >= end) return NULL;
    }
    if ((*p | 32) == 'e') {
        const byte *q = p + 1;
        if (*q == '+' || *q == '-') q++;
        if (is_digit(*q)) p = skip_digits(q);
        else if (q >= end) return NULL;
    }
    return p >= end ? NULL : p;
}

/* The digits of a JSON number shifted `shift` places to the left, rounded half to even (or, with `exact`, refused
 * where that changes it). False where the result is beyond `most`. No float anywhere, however long the text. */
static bool decimal(const byte *p, const byte *end, int shift, bool exact, uint64_t most, uint64_t *out) {
    const byte *mantissa_end = p, *point = NULL;
    for (; mantissa_end < end && (*mantissa_end | 32) != 'e'; mantissa_end++)
        if (*mantissa_end == '.') point = mantissa_end;
    int64_t exponent = 0;
    if (mantissa_end < end) {
        const byte *q = mantissa_end + 1;
        bool negative = *q == '-';
        for (q += *q == '-' || *q == '+'; q < end; q++)
            if (exponent < 1000000000000) exponent = exponent * 10 + (*q - '0');
        if (negative) exponent = -exponent;
    }
    int64_t places = ((point ? point : mantissa_end) - p) + exponent + shift; /* digits left of the point */
    uint64_t value = 0;
    int64_t i = 0;
    byte next = 0;
    bool rest = false;
    for (; p < mantissa_end; p++) {
        if (p == point) continue;
        byte digit = *p - '0';
        if (i < places) {
            if (value > (UINT64_MAX - 9) / 10) return false;
            value = value * 10 + digit;
        } else if (i == places) next = digit;
        else rest |= digit != 0;
        i++;
    }
    for (; value && i < places; i++) {
        if (value > (UINT64_MAX - 9) / 10) return false;
        value *= 10;
    }
    if (exact && (next || rest)) return false;
    value += next > 5 || (next == 5 && (rest || (value & 1)));
    *out = value;
    return value <= most;
}

/* Decimal microseconds to nanoseconds (NS), or a whole number in the range of int64 (INT); MISSING for any other
 * value. The token is one that the grammar has let pass. */
static int64_t number(const byte *p, size_t size, enum kind kind) {
    static const uint64_t powers[] = {1, 10, 100, 1000};
    const byte *end = p + size;
    if (*p == '"') { /* a number in a string: the quote behind it ends it as well as a comma would */
        p++, end--;
        if (number_end(p, end + 1) != end) return MISSING;
    }
    bool negative = *p == '-';
    p += negative;
    if (!is_digit(*p)) return MISSING;
    int places = kind == NS ? 3 : 0;
    uint64_t value = 0;
    if (end - p <= 18) { /* nearly all: no digit to round off, and the digits fit */
        int left = places;
        const byte *q = p;
        while (is_digit(*q)) value = value * 10 + (*q++ - '0');
        if (*q == '.')
            for (q++; left && is_digit(*q); left--) value = value * 10 + (*q++ - '0');
        if (q == end && !__builtin_mul_overflow(value, powers[left], &value) && value <= MOST_NS)
            return negative ? -(int64_t)value : (int64_t)value;
    }
    uint64_t most = kind == NS ? MOST_NS : (uint64_t)INT64_MAX + negative;
    if (!decimal(p, end, places, kind == INT, most, &value)) return MISSING;
    return negative ? (int64_t)(0 - value) : (int64_t)value;
}

#endif
