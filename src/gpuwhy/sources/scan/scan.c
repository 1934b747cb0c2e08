/* Chrome-trace JSON to columns: the compiled scanner (pure.py is the same scanner in Python).
 *
 * The caller feeds pieces of JSON; every step works on one unit that must lie in the buffer as a whole: a
 * top-level key with its value, or one event. A unit that is cut by the end of the buffer is read again from its
 * start once the buffer holds twice as much of it, so nothing below keeps state between calls except the unit's
 * start, and no byte is read more than a constant number of times on average.
 *
 * An event is walked once. The values of the keys that some table wants are remembered as slices of the buffer;
 * when the event is complete its `cat` and `ph` choose the table, and the slices become one row. So the order of
 * the keys does not matter, and whatever no table wants is only skipped.
 *
 * What is checked: the grammar of the top level, of an event and of its args; inside any other value only that
 * strings end and brackets match. pure.py accepts and refuses exactly the same bytes.
 *
 * Memory safety rests on one rule: PAD zero bytes follow the input in the buffer. Zero is never part of a token,
 * so loops over digits, letters and blanks stop at the end by themselves, and wide loads may look past it. A byte
 * that is not the expected one is then either an error or, at the end, a reason to wait for more (`stop_at`). */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define PAD 64
#define MAX_DEPTH 512
#define MAX_NAME 512        /* longest key, cat or ph that can match after unescaping */
#define MAX_SKIPPED 1000    /* different cats whose skipped events are counted apart */
#define MAX_SKIPPED_NAME 256
#define KEY_SLOTS 512       /* at most a quarter of them used, so that an unknown key meets an empty one */
#define ROUTES 64
#define ROUTE_TEXT 56

typedef uint8_t byte;
typedef struct { const byte *at; size_t size; } Slice;

enum status { NEED_INPUT, HEADER, BLOCK_FULL, FINISHED, DAMAGED, NO_MEMORY };
enum reason { NONE, ENDS, UNEXPECTED, TOO_DEEP, TOO_LONG };
enum where { START, FIRST_KEY, NEXT_KEY, AFTER_VALUE, EVENTS, AFTER_ALL };
enum kind { NS, INT, CODE };
enum { CAT, PH, ARGS, FIXED_SLOTS }; /* slots that the scanner itself reads */

/* Texts to codes 0, 1, 2, ... in order of first sight. */
typedef struct {
    byte *text;
    uint64_t *ends, *hashes; /* by code; text of code c lies between ends[c] and ends[c + 1] */
    uint32_t *slots;         /* code + 1, or 0 */
    size_t text_size, text_room, room, mask;
    uint32_t count;
} Intern;

typedef struct { const byte *at; size_t size; uint64_t stamp; } Slot;
/* How the caller describes the tables; compiled.py declares the same and keeps the memory. Texts have 8 bytes of
 * padding. `cat`, `ph` and `args` of the event itself have the slots CAT, PH and ARGS. */
typedef struct { const byte *text; uint32_t size, slot, in_args, pad; } Key;
typedef struct {
    void *out; /* the column's block */
    const uint32_t *slots;
    uint32_t n_slots, kind, in_args;
    uint32_t last; /* the code of the row before: in most columns it comes again */
} Column;
typedef struct { Column *columns; uint64_t n_columns, rows, room; } Table;
typedef struct { const byte *cat, *ph; uint32_t cat_size, ph_size, table, pad; } Rule;

typedef struct { const Key *keys[KEY_SLOTS]; } Keys;
typedef struct { uint32_t cat_size, ph_size; int32_t table; uint32_t skip; byte text[ROUTE_TEXT + 8]; } Route;

/* What the caller reads; compiled.py declares the same fields. */
typedef struct {
    uint64_t count, malformed, position, size;
    int32_t reason, where, table, is_list, found, inside, byte_there, pad;
    Slice key, value;
    uint64_t n_texts, n_skipped;
    const byte *texts, *skipped;
    const uint64_t *text_ends, *skipped_ends;
    uint64_t skipped_counts[MAX_SKIPPED + 1]; /* by code; the last one counts what has no place of its own */
} Report;

typedef struct {
    Report report;
    byte *buffer;
    size_t room, begin, size; /* the unread input is buffer[begin .. size) */
    size_t wanted;            /* do not try again before this much is unread */
    uint64_t offset, limit;   /* of buffer[0] in the whole input; longest unit */
    const byte *end;
    bool waiting, no_memory;
    uint64_t seed, stamp, event_stamp, args_stamp;
    Slot *slots;
    Keys event_keys, args_keys;
    Table *tables;
    const Rule *rules;
    size_t n_rules;
    Route routes[ROUTES];
    Intern texts, skipped;
} Scanner;

/* ---- bytes ---- */

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
    return (Mask)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)), _mm_cmpeq_epi8(v, _mm_set1_epi8(d))));
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

/* ---- interning ---- */

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

static bool grow(void *array, size_t *room, size_t needed, size_t item) {
    size_t bigger = *room ? *room : 1024;
    while (bigger < needed) bigger *= 2;
    void *moved = realloc(*(void **)array, bigger * item);
    if (!moved) return false;
    *(void **)array = moved;
    *room = bigger;
    return true;
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

/* ---- values ---- */

static const byte *fail(Scanner *s, enum reason reason, const byte *p) {
    s->report.reason = reason;
    s->report.position = s->offset + (uint64_t)(p - s->buffer);
    s->report.byte_there = *p;
    return NULL;
}

static const byte *wait_for_more(Scanner *s) {
    s->waiting = true;
    return NULL;
}

static const byte *stop_at(Scanner *s, const byte *p) { /* p is not what should stand there */
    return p >= s->end ? wait_for_more(s) : fail(s, UNEXPECTED, p);
}

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

static const byte *skip_brackets(Scanner *s, const byte *p, uint32_t depth) { /* p at the opening bracket */
    byte open[MAX_DEPTH + 1];
    uint32_t top = 0, most = MAX_DEPTH - depth;
    bool escaped;
    while (p < s->end) {
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
                next = closing_quote(at + 1, s->end, &escaped);
                if (!next) return wait_for_more(s);
                next++;
                break;
            }
            if (*at == '[' || *at == '{') {
                if (top == most) return fail(s, TOO_DEEP, at);
                open[top++] = *at;
            } else {
                if (*at != open[--top] + 2) return fail(s, UNEXPECTED, at); /* ']' is '[' + 2, '}' is '{' + 2 */
                if (!top) return at + 1;
            }
        }
        p = next;
    }
    return wait_for_more(s);
}

static inline const byte *skip_number(Scanner *s, const byte *p) {
    const byte *start = p;
    if (*p == '-') p++;
    if (*p == '0') p++;
    else if (is_digit(*p)) while (is_digit(*p)) p++;
    else return p >= s->end ? wait_for_more(s) : fail(s, UNEXPECTED, start);
    if (*p == '.') {
        if (is_digit(p[1])) for (p += 2; is_digit(*p);) p++;
        else if (p + 1 >= s->end) return wait_for_more(s);
    }
    if ((*p | 32) == 'e') {
        const byte *q = p + 1;
        if (*q == '+' || *q == '-') q++;
        if (is_digit(*q)) for (p = q + 1; is_digit(*p);) p++;
        else if (q >= s->end) return wait_for_more(s);
    }
    return p >= s->end ? wait_for_more(s) : p; /* more digits may follow */
}

/* true, false, null, and the numbers that JSON does not have, as C and Python print them. */
static const byte *skip_word(Scanner *s, const byte *p) {
    static const char *const odd[] = {"nan", "inf", "infinity"};
    const byte *word = p + (*p == '-');
    byte low[10] = {0};
    size_t size = 0;
    for (; size < 9 && is_letter(word[size]); size++) low[size] = word[size] | 32;
    if (word + size >= s->end) return wait_for_more(s);
    for (size_t i = 0; i < 3; i++)
        if (!strcmp((const char *)low, odd[i])) return word + size;
    if ((size == 4 && (!memcmp(p, "true", 4) || !memcmp(p, "null", 4))) || (size == 5 && !memcmp(p, "false", 5)))
        return word + size;
    return fail(s, UNEXPECTED, p);
}

/* `depth`: how many brackets are open around the value. */
static inline const byte *skip_value(Scanner *s, const byte *p, uint32_t depth) {
    bool escaped;
    const byte *q;
    if (*p == '"') {
        q = closing_quote(p + 1, s->end, &escaped);
        return q ? q + 1 : wait_for_more(s);
    }
    if (*p == '[' || *p == '{') return skip_brackets(s, p, depth);
    if (is_digit(*p) || (*p == '-' && !is_letter(p[1]))) return skip_number(s, p);
    return p >= s->end ? wait_for_more(s) : skip_word(s, p);
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

static int64_t number(Scanner *s, const byte *p, size_t size, enum kind kind) {
    const byte *end = p + size;
    if (*p == '"') { /* a number in a string: the quote behind it ends it as well as a comma would */
        p++, end--;
        if (p == end || !(is_digit(*p) || *p == '-') || skip_number(s, p) != end) {
            s->report.reason = NONE;
            return INT64_MIN;
        }
    }
    bool negative = *p == '-';
    p += negative;
    if (!is_digit(*p)) return INT64_MIN;
    uint64_t value = 0;
    const byte *q = p;
    if (end - p <= 18) {
        while (is_digit(*q)) value = value * 10 + (*q++ - '0');
        if (kind == NS && q != end && *q == '.' && end - q <= 4) {
            int digits = 0;
            for (q++; is_digit(*q); digits++) value = value * 10 + (*q++ - '0');
            for (; q == end && digits < 3; digits++) value *= 10;
        } else if (kind == NS && q == end) {
            if (value > (1ULL << 62) / 1000) q = p;
            value *= 1000;
        }
        if (q == end && value <= 1ULL << 62) return negative ? -(int64_t)value : (int64_t)value;
    }
    uint64_t most = kind == NS ? 1ULL << 62 : (uint64_t)INT64_MAX + negative;
    if (!decimal(p, end, kind == NS ? 3 : 0, kind == INT, most, &value)) return INT64_MIN;
    return negative ? (int64_t)(0 - value) : (int64_t)value;
}

/* ---- names ---- */

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

/* ---- events ---- */

/* Walks one event, p at its brace, and remembers the values that some table wants. Two levels of one loop: the
 * event's own keys and, where `args` holds an object, the keys in that. */
static const byte *walk_event(Scanner *s, const byte *p) {
    const byte *args = NULL; /* where args begins, while inside it */
    const Keys *keys = &s->event_keys;
    uint64_t stamp = s->event_stamp = ++s->stamp;
    s->args_stamp = ++s->stamp;
    p = skip_blanks(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        bool escaped = false;
        if (*p != '"') return stop_at(s, p);
        const byte *key = p + 1, *quote = closing_quote(key, s->end, &escaped);
        if (!quote) return wait_for_more(s);
        size_t size = (size_t)(quote - key);
        int32_t slot = escaped ? find_escaped_key(keys, key, size) : find_key(keys, key, size);
        p = skip_blanks(quote + 1);
        if (*p != ':') return stop_at(s, p);
        p = skip_blanks(p + 1);
        if (slot == ARGS && !args) {
            s->args_stamp = ++s->stamp; /* forgets what an earlier args held: the last one wins */
            if (*p == '{') {
                args = p;
                keys = &s->args_keys;
                stamp = s->args_stamp;
                p = skip_blanks(p + 1);
                if (*p != '}') continue;
                goto closed;
            }
        }
        const byte *value = p;
        p = skip_value(s, p, args ? 2 : 1);
        if (!p) return NULL;
        if (slot >= 0) s->slots[slot] = (Slot){value, (size_t)(p - value), stamp};
        p = skip_blanks(p);
    separator:
        if (*p == ',') {
            p = skip_blanks(p + 1);
            continue;
        }
        if (*p != '}') return stop_at(s, p);
    closed:
        p++;
        if (!args) return p;
        stamp = s->event_stamp;
        s->slots[ARGS] = (Slot){args, (size_t)(p - args), stamp};
        args = NULL;
        keys = &s->event_keys;
        p = skip_blanks(p);
        goto separator;
    }
}

static inline Slice present(const Scanner *s, uint32_t slot) { /* the token, empty where absent or null */
    const Slot *at = &s->slots[slot];
    bool there = at->stamp == s->event_stamp && !(at->size == 4 && at->at[0] == 'n' && at->at[1] == 'u');
    return (Slice){at->at, there ? at->size : 0};
}

static int32_t find_table(const Scanner *s, Slice cat, Slice ph) {
    for (size_t i = 0; i < s->n_rules; i++) {
        const Rule *rule = &s->rules[i];
        if (is_text(rule->cat, rule->cat_size, cat) && is_text(rule->ph, rule->ph_size, ph)) return (int32_t)rule->table;
    }
    return -1;
}

static uint32_t skip_code(Scanner *s, Slice cat) {
    if (cat.size && cat.at[0] == '"') cat.at++, cat.size -= 2;
    if (!cat.size || cat.size > MAX_SKIPPED_NAME) return MAX_SKIPPED;
    uint32_t code = intern(&s->skipped, cat.at, cat.size, s->seed, MAX_SKIPPED);
    return code == UINT32_MAX ? MAX_SKIPPED : code;
}

/* Where events of this cat and ph go. The few pairs of a file stay in a small cache; the pairs of a hostile one
 * only push each other out of it. */
static const Route *route(Scanner *s, Slice cat, Slice ph, Route *spare) {
    Route *found = spare;
    if (cat.size + ph.size <= ROUTE_TEXT) {
        uint64_t h = cat.size ? load_up_to_8(cat.at, cat.size) : 0;
        h = (h ^ cat.size ^ (ph.size > 1 ? (uint64_t)ph.at[1] << 24 : 0)) * 0x9e3779b97f4a7c15ULL;
        found = &s->routes[h >> 58];
        if (found->cat_size == cat.size && found->ph_size == ph.size && same(found->text, cat.at, cat.size) &&
            same(found->text + cat.size, ph.at, ph.size))
            return found;
        memcpy(found->text, cat.at, cat.size);
        memcpy(found->text + cat.size, ph.at, ph.size);
    }
    found->cat_size = (uint32_t)cat.size;
    found->ph_size = (uint32_t)ph.size;
    found->table = find_table(s, cat, ph);
    found->skip = found->table < 0 ? skip_code(s, cat) : 0;
    return found;
}

static int64_t code_of(Scanner *s, Column *column, const byte *p, size_t size) {
    if (size == 4 && !memcmp(p, "null", 4)) return -1;
    if (column->last < s->texts.count && is_code(&s->texts, column->last, p, size)) return column->last;
    uint32_t code = intern(&s->texts, p, size, s->seed, INT32_MAX);
    if (code == UINT32_MAX) s->no_memory = true;
    else column->last = code;
    return code;
}

static void write_row(Scanner *s, Table *table) {
    for (uint64_t i = 0; i < table->n_columns; i++) {
        Column *column = &table->columns[i];
        uint64_t stamp = column->in_args ? s->args_stamp : s->event_stamp;
        const Slot *last = NULL;
        for (uint32_t k = 0; k < column->n_slots; k++) {
            const Slot *slot = &s->slots[column->slots[k]];
            if (slot->stamp == stamp && (!last || slot->at > last->at)) last = slot;
        }
        if (column->kind == CODE)
            ((int32_t *)column->out)[table->rows] = last ? (int32_t)code_of(s, column, last->at, last->size) : -1;
        else
            ((int64_t *)column->out)[table->rows] =
                last ? number(s, last->at, last->size, (enum kind)column->kind) : INT64_MIN;
    }
    table->rows++;
}

/* One element of the event list. */
static const byte *read_element(Scanner *s, const byte *p, enum status *status) {
    s->report.inside = true;
    if (*p != '{') {
        p = skip_value(s, p, 0);
        if (p) s->report.malformed++;
        return p;
    }
    s->report.found = true;
    const byte *start = p;
    p = walk_event(s, p);
    if (!p || (uint64_t)(p - start) > s->limit) return p;
    Slice cat = present(s, CAT), ph = present(s, PH);
    Route spare;
    const Route *to = route(s, cat.size ? cat : (Slice){p, 0}, ph.size ? ph : (Slice){p, 0}, &spare);
    if (to->table >= 0) {
        Table *table = &s->tables[to->table];
        if (table->rows == table->room) {
            s->report.table = to->table;
            *status = BLOCK_FULL;
            return NULL;
        }
        write_row(s, table);
    } else s->report.skipped_counts[to->skip]++;
    s->report.count++;
    return p;
}

/* A top-level key and its value, or the key and the bracket that opens the event list. */
static const byte *read_member(Scanner *s, const byte *p, enum status *status) {
    static const byte events[] = "traceEvents";
    s->report.inside = true;
    const byte *start = p;
    if (*p != '"') return stop_at(s, p);
    bool escaped;
    const byte *quote = closing_quote(p + 1, s->end, &escaped);
    if (!quote) return wait_for_more(s);
    Slice key = {p, (size_t)(quote + 1 - p)};
    p = skip_blanks(quote + 1);
    if (*p != ':') return stop_at(s, p);
    p = skip_blanks(p + 1);
    if (*p == '[' && is_text(events, sizeof events - 1, key)) {
        s->report.found = true;
        s->report.where = EVENTS;
        return p + 1;
    }
    const byte *value = p;
    p = skip_value(s, p, 0);
    if (!p || (uint64_t)(p - start) > s->limit) return p;
    s->report.where = AFTER_VALUE;
    s->report.key = key;
    s->report.value = (Slice){value, (size_t)(p - value)};
    *status = HEADER;
    return p;
}

/* One unit from p, which is not blank; `*status` becomes something else than NEED_INPUT to return to the caller. */
static const byte *read_unit(Scanner *s, const byte *p, enum status *status) {
    switch ((enum where)s->report.where) {
    case START:
        if (*p != '{' && *p != '[') return stop_at(s, p);
        s->report.is_list = *p == '[';
        s->report.where = *p == '[' ? EVENTS : FIRST_KEY;
        return p + 1;
    case FIRST_KEY:
        if (*p != '}') return read_member(s, p, status);
        s->report.where = AFTER_ALL;
        return p + 1;
    case NEXT_KEY:
        return read_member(s, p, status);
    case AFTER_VALUE:
        if (*p != ',' && *p != '}') return stop_at(s, p);
        s->report.where = *p == ',' ? NEXT_KEY : AFTER_ALL;
        return p + 1;
    case EVENTS: /* some writers leave out the commas, or end with one */
        if (*p == ',') return p + 1;
        if (*p != ']') return read_element(s, p, status);
        s->report.where = s->report.is_list ? AFTER_ALL : AFTER_VALUE;
        return p + 1;
    case AFTER_ALL:
        break;
    }
    return stop_at(s, p);
}

static enum status damaged(Scanner *s, enum reason reason, const byte *p) {
    fail(s, reason, p);
    return DAMAGED;
}

static bool append(Scanner *s, const byte *data, size_t size) {
    if (s->begin) { /* what is left of the piece before is mostly one unfinished event */
        memmove(s->buffer, s->buffer + s->begin, s->size - s->begin);
        s->offset += s->begin;
        s->size -= s->begin;
        s->begin = 0;
    }
    if (s->size + size + PAD > s->room && !grow(&s->buffer, &s->room, s->size + size + PAD, 1)) return false;
    if (size) memcpy(s->buffer + s->size, data, size);
    s->size += size;
    memset(s->buffer + s->size, 0, PAD);
    return true;
}

/* Takes one more piece (copied) and reads on. After HEADER and BLOCK_FULL call again without a piece. */
EXPORT int32_t gpuwhy_scan_step(Scanner *s, const byte *data, size_t size, int32_t is_last) {
    if (size && !append(s, data, size)) return NO_MEMORY;
    s->report.size += size;
    if (!s->buffer && !append(s, data, 0)) return NO_MEMORY;
    if (s->size - s->begin < s->wanted && !is_last) return NEED_INPUT;
    s->end = s->buffer + s->size;
    const byte *p = s->buffer + s->begin;
    if (s->report.where == START && !s->offset && !s->begin) {
        if (s->size < 3 && !is_last) return NEED_INPUT;
        if (!memcmp(p, "\xef\xbb\xbf", 3)) p += 3;
    }
    enum status status = NEED_INPUT;
    while (status == NEED_INPUT) {
        p = skip_blanks(p);
        s->begin = (size_t)(p - s->buffer);
        s->report.inside = false;
        s->waiting = false;
        if (p == s->end) break;
        const byte *next = read_unit(s, p, &status);
        if (s->no_memory) return NO_MEMORY;
        if (status == BLOCK_FULL) break;
        if (next ? (uint64_t)(next - p) > s->limit
                 : s->waiting ? (uint64_t)(s->end - p) > s->limit
                              : s->report.position - s->offset - s->begin > s->limit)
            return damaged(s, TOO_LONG, p);
        if (!next && !s->waiting) return DAMAGED;
        if (!next) break;
        p = next;
        s->begin = (size_t)(p - s->buffer);
    }
    if (status != NEED_INPUT) {
        s->wanted = 0;
        return status;
    }
    s->wanted = (s->size - s->begin) * 2;
    if (s->wanted > s->limit + 1) s->wanted = (size_t)s->limit + 1;
    if (!is_last) return NEED_INPUT;
    if (s->report.where == AFTER_ALL || (s->report.where == EVENTS && s->report.is_list && !s->report.inside))
        return FINISHED;
    return damaged(s, ENDS, s->end);
}

/* ---- the life of a scanner ---- */

EXPORT void gpuwhy_scan_free(Scanner *s) {
    if (!s) return;
    free(s->texts.text), free(s->texts.ends), free(s->texts.hashes), free(s->texts.slots);
    free(s->skipped.text), free(s->skipped.ends), free(s->skipped.hashes), free(s->skipped.slots);
    free(s->slots);
    free(s->buffer);
    free(s);
}

/* At most KEY_SLOTS / 4 keys of each level, none longer than MAX_NAME. */
EXPORT Scanner *gpuwhy_scan_new(uint64_t seed, uint64_t limit, const Key *keys, size_t n_keys, Table *tables,
                                const Rule *rules, size_t n_rules) {
    Scanner *s = calloc(1, sizeof *s);
    Slot *slots = calloc(n_keys + FIXED_SLOTS, sizeof *slots);
    if (!s || !slots) {
        free(s), free(slots);
        return NULL;
    }
    s->slots = slots;
    s->seed = seed, s->limit = limit;
    s->tables = tables;
    s->rules = rules, s->n_rules = n_rules;
    for (int i = 0; i < ROUTES; i++) s->routes[i].cat_size = UINT32_MAX; /* matches nothing */
    for (size_t k = 0; k < n_keys; k++) {
        Keys *level = keys[k].in_args ? &s->args_keys : &s->event_keys;
        uint32_t i = key_place(keys[k].text, keys[k].size);
        while (level->keys[i]) i = (i + 1) % KEY_SLOTS;
        level->keys[i] = &keys[k];
    }
    return s;
}

EXPORT const Report *gpuwhy_scan_report(Scanner *s) {
    Report *r = &s->report;
    r->n_texts = s->texts.count, r->texts = s->texts.text, r->text_ends = s->texts.ends;
    r->n_skipped = s->skipped.count, r->skipped = s->skipped.text, r->skipped_ends = s->skipped.ends;
    return r;
}
