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
 * This file is the top level and the calls from compiled.py, and the only one to compile; each header is one room:
 *
 *     scanner.h   the state, and what is shared with compiled.py
 *     event.h     one event to one row
 *     grammar.h   skipping JSON values
 *     number.h    exact decimals
 *     names.h     keys, and strings that may hold escapes
 *     intern.h    texts to codes
 *     input.h     the buffer, and damage
 *     bytes.h     bytes, several at once */
#include "event.h"

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* One element of the event list. */
static const byte *read_element(Scanner *s, const byte *p, enum status *status) {
    const byte *start = p;
    bool is_event = *p == '{';
    s->report.inside = true;
    s->report.found |= is_event;
    p = is_event ? walk_event(s, p) : skip_value(&s->in, p, 0);
    if (!p || (uint64_t)(p - start) > s->limit) return p;
    if (!is_event) {
        s->report.malformed++;
        return p;
    }
    Route spare;
    const Route *to = route(s, present(s, CAT), present(s, PH), &spare);
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
    Slice key;
    bool escaped;
    p = read_key(&s->in, p, &key, &escaped);
    if (!p) return NULL;
    const byte *value = p;
    bool opens_events = *p == '[' && is_text(events, sizeof events - 1, key);
    p = opens_events ? p + 1 : skip_value(&s->in, p, 0);
    if (!p || (uint64_t)(p - start) > s->limit) return p;
    if (opens_events) {
        s->report.found = true;
        s->report.where = EVENTS;
        return p;
    }
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
        if (*p != '{' && *p != '[') return stop_at(&s->in, p);
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
        if (*p != ',' && *p != '}') return stop_at(&s->in, p);
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
    return stop_at(&s->in, p);
}

static enum status damaged(Scanner *s, enum reason reason, const byte *p) {
    fail(&s->in, reason, p);
    return DAMAGED;
}

static enum status read_units(Scanner *s, const byte *p) {
    Input *in = &s->in;
    for (;;) {
        p = skip_blanks(p);
        in->begin = (size_t)(p - in->buffer);
        in->waiting = false;
        s->report.inside = false;
        if (p == in->end) return NEED_INPUT;
        enum status status = NEED_INPUT;
        const byte *next = read_unit(s, p, &status);
        if (s->no_memory) return NO_MEMORY;
        if (status == BLOCK_FULL) return BLOCK_FULL;
        uint64_t stopped = in->waiting ? in->size : in->position - in->offset; /* where there is no next */
        if ((next ? (uint64_t)(next - p) : stopped - in->begin) > s->limit) return damaged(s, TOO_LONG, p);
        if (!next) return in->waiting ? NEED_INPUT : DAMAGED;
        p = next;
        in->begin = (size_t)(p - in->buffer);
        if (status == HEADER) return HEADER;
    }
}

/* Takes one more piece (copied) and reads on. After HEADER and BLOCK_FULL call again without a piece. */
EXPORT int32_t gpuwhy_scan_step(Scanner *s, const byte *data, size_t size, int32_t is_last) {
    Input *in = &s->in;
    if ((size || !in->buffer) && !append(in, data, size)) return NO_MEMORY;
    if (in->size - in->begin < s->wanted && !is_last) return NEED_INPUT;
    const byte *p = in->buffer + in->begin;
    if (s->report.where == START && !in->offset && !in->begin) {
        if (in->size < 3 && !is_last) return NEED_INPUT;
        if (!memcmp(p, "\xef\xbb\xbf", 3)) p += 3;
    }
    enum status status = read_units(s, p);
    s->wanted = 0;
    if (status != NEED_INPUT) return status;
    if (!is_last) {
        size_t twice = (in->size - in->begin) * 2;
        s->wanted = twice > s->limit ? (size_t)s->limit + 1 : twice;
        return NEED_INPUT;
    }
    if (s->report.where == AFTER_ALL || (s->report.where == EVENTS && s->report.is_list && !s->report.inside))
        return FINISHED;
    return damaged(s, ENDS, in->end);
}

EXPORT void gpuwhy_scan_free(Scanner *s) {
    if (!s) return;
    intern_free(&s->texts);
    intern_free(&s->skipped);
    free(s->slots);
    free(s->in.buffer);
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
    r->reason = s->in.reason, r->position = s->in.position, r->byte_there = s->in.byte_there;
    r->size = s->in.offset + s->in.size;
    r->n_texts = s->texts.count, r->texts = s->texts.text, r->text_ends = s->texts.ends;
    r->n_skipped = s->skipped.count, r->skipped = s->skipped.text, r->skipped_ends = s->skipped.ends;
    return r;
}
