/* The grammar of JSON values: each function takes the place where something begins and returns the place behind it,
 * or what `fail` and `wait_for_more` return (grammar.py is the same in Python). */
#ifndef GPUWHY_GRAMMAR_H
#define GPUWHY_GRAMMAR_H

#include "input.h"
#include "number.h"

#define MAX_DEPTH 512

/* From behind the opening quote to the closing one, or NULL where it is not in the buffer yet. */
static inline const byte *closing_quote(const byte *p, const byte *end, bool *escaped) {
    while (p < end) {
        Mask mask = either(load(p), '"', '\\');
        if (!mask) {
            p += WIDTH;
            continue;
        }
        p += MASK_INDEX(mask);
        if (*p == '"') return p;
        *escaped = true;
        p += 2;
    }
    return NULL;
}

static const byte *skip_brackets(Input *in, const byte *p, uint32_t depth) { /* p at the opening bracket */
    byte open[MAX_DEPTH + 1];
    uint32_t top = 0, most = MAX_DEPTH - depth;
    bool escaped;
    while (p < in->end) {
        Bytes v = load(p), low = lowered(v); /* '[' | 32 is '{', and ']' | 32 is '}' */
        Mask strings = equal(v, '"'), mask = either(low, '{', '}') | strings;
        bool plain = !equal(v, '\\');
        const byte *next = p + WIDTH;
        while (mask) {
            const byte *at = p + MASK_INDEX(mask);
            Mask up_to_here = mask ^ (mask - 1);
            mask &= ~up_to_here;
            if (*at == '"') {
                Mask later = strings & ~up_to_here;
                if (plain && later) { /* a short string: the rest of these bytes need not be looked at again */
                    mask &= ~(later ^ (later - 1));
                    continue;
                }
                next = closing_quote(at + 1, in->end, &escaped);
                if (!next) return wait_for_more(in);
                next++;
                break;
            }
            if (*at == '[' || *at == '{') {
                if (top == most) return fail(in, TOO_DEEP, at);
                open[top++] = *at;
            } else {
                if (*at != open[--top] + 2) return fail(in, UNEXPECTED, at); /* ']' is '[' + 2, '}' is '{' + 2 */
                if (!top) return at + 1;
            }
        }
        p = next;
    }
    return wait_for_more(in);
}

/* true, false, null, and the numbers that JSON does not have, as C and Python print them. */
static const byte *skip_word(Input *in, const byte *p) {
    static const char *const odd[] = {"nan", "inf", "infinity"};
    const byte *word = p + (*p == '-');
    byte low[10] = {0};
    size_t size = 0;
    for (; size < 9 && is_letter(word[size]); size++) low[size] = word[size] | 32;
    if (word + size >= in->end) return wait_for_more(in);
    for (size_t i = 0; i < 3; i++)
        if (!strcmp((const char *)low, odd[i])) return word + size;
    if ((size == 4 && (!memcmp(p, "true", 4) || !memcmp(p, "null", 4))) || (size == 5 && !memcmp(p, "false", 5)))
        return word + size;
    return fail(in, UNEXPECTED, p);
}

/* `depth`: how many brackets are open around the value. */
static inline const byte *skip_value(Input *in, const byte *p, uint32_t depth) {
    if (*p == '"') {
        bool escaped;
        const byte *quote = closing_quote(p + 1, in->end, &escaped);
        return quote ? quote + 1 : wait_for_more(in);
    }
    if (*p == '[' || *p == '{') return skip_brackets(in, p, depth);
    if (is_digit(*p) || (*p == '-' && !is_letter(p[1]))) {
        const byte *end = number_end(p, in->end);
        return !end ? wait_for_more(in) : end == p ? fail(in, UNEXPECTED, p) : end;
    }
    return p >= in->end ? wait_for_more(in) : skip_word(in, p);
}

/* A key with its quotes; the place of its value. `*escaped` becomes true where the key holds escapes. */
static inline const byte *read_key(Input *in, const byte *p, Slice *key, bool *escaped) {
    if (*p != '"') return stop_at(in, p);
    const byte *quote = closing_quote(p + 1, in->end, escaped);
    if (!quote) return wait_for_more(in);
    *key = (Slice){p, (size_t)(quote + 1 - p)};
    p = skip_blanks(quote + 1);
    return *p == ':' ? skip_blanks(p + 1) : stop_at(in, p);
}

#endif
