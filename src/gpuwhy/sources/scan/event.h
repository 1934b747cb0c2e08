/* One event: its walk, the table that it goes to, and its row there. */
#ifndef GPUWHY_EVENT_H
#define GPUWHY_EVENT_H

#include "grammar.h"
#include "scanner.h"

#define MAX_SKIPPED_NAME 256

/* Walks an object, p at its brace, and remembers the values that some table wants: an event, and where its `args`
 * holds an object, that. */
static const byte *walk_object(Scanner *s, const byte *p, bool in_args) {
    const Keys *keys = in_args ? &s->args_keys : &s->event_keys;
    uint64_t stamp = in_args ? s->args_stamp : s->event_stamp;
    p = skip_blanks(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        Slice key;
        bool escaped = false;
        const byte *value = p = read_key(&s->in, p, &key, &escaped);
        if (!p) return NULL;
        const byte *name = key.at + 1;
        int32_t slot = escaped ? find_escaped_key(keys, name, key.size - 2) : find_key(keys, name, key.size - 2);
        if (slot == ARGS) s->args_stamp = ++s->stamp; /* forgets what an earlier args held: the last one wins */
        p = slot == ARGS && *p == '{' ? walk_object(s, p, true) : skip_value(&s->in, p, in_args ? 2 : 1);
        if (!p) return NULL;
        if (slot >= 0) s->slots[slot] = (Slot){value, (size_t)(p - value), stamp};
        p = skip_blanks(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return stop_at(&s->in, p);
        p = skip_blanks(p + 1);
    }
}

static const byte *walk_event(Scanner *s, const byte *p) {
    s->event_stamp = ++s->stamp;
    s->args_stamp = ++s->stamp;
    return walk_object(s, p, false);
}

static inline Slice present(const Scanner *s, uint32_t slot) { /* the token, empty where absent or null */
    const Slot *at = &s->slots[slot];
    bool there = at->stamp == s->event_stamp && !(at->size == 4 && at->at[0] == 'n' && at->at[1] == 'u');
    return there ? (Slice){at->at, at->size} : (Slice){s->in.end, 0};
}

static int32_t find_table(const Scanner *s, Slice cat, Slice ph) {
    for (size_t i = 0; i < s->n_rules; i++) {
        const Rule *rule = &s->rules[i];
        if (is_text(rule->cat, rule->cat_size, cat) && is_text(rule->ph, rule->ph_size, ph))
            return (int32_t)rule->table;
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
        uint64_t h = load_up_to_8(cat.at, cat.size) ^ cat.size ^ (ph.size > 1 ? (uint64_t)ph.at[1] << 24 : 0);
        h *= 0x9e3779b97f4a7c15ULL;
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

static int32_t code_of(Scanner *s, Column *column, const byte *p, size_t size) {
    if (size == 4 && !memcmp(p, "null", 4)) return -1;
    if (column->last < s->texts.count && is_code(&s->texts, column->last, p, size)) return (int32_t)column->last;
    uint32_t code = intern(&s->texts, p, size, s->seed, INT32_MAX);
    if (code == UINT32_MAX) s->no_memory = true;
    else column->last = code;
    return (int32_t)code;
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
            ((int32_t *)column->out)[table->rows] = last ? code_of(s, column, last->at, last->size) : -1;
        else
            ((int64_t *)column->out)[table->rows] =
                last ? number(last->at, last->size, (enum kind)column->kind) : MISSING;
    }
    table->rows++;
}

#endif
