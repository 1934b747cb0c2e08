/* The scanner's state, and what the caller shares with it: compiled.py declares `Report`, `Key`, `Column`, `Table` and
 * `Rule` with the same fields. */
#ifndef GPUWHY_SCANNER_H
#define GPUWHY_SCANNER_H

#include "input.h"
#include "intern.h"
#include "names.h"
#include "number.h"

#define MAX_SKIPPED 1000 /* different cats whose skipped events are counted apart */
#define ROUTES 64
#define ROUTE_TEXT 56

enum status { NEED_INPUT, HEADER, BLOCK_FULL, FINISHED, DAMAGED, NO_MEMORY };
enum where { START, FIRST_KEY, NEXT_KEY, AFTER_VALUE, EVENTS, AFTER_ALL };
enum { CAT, PH, ARGS, FIXED_SLOTS }; /* slots of the event's own keys that the scanner itself reads */

/* How the caller, who keeps the memory, describes the tables. Texts have 8 bytes of padding. */
typedef struct {
    void *out; /* the column's block */
    const uint32_t *slots;
    uint32_t n_slots, kind, in_args;
    uint32_t last; /* the code of the row before: in most columns it comes again */
} Column;
typedef struct { Column *columns; uint64_t n_columns, rows, room; } Table;
typedef struct { const byte *cat, *ph; uint32_t cat_size, ph_size, table; } Rule;

/* What the caller reads. */
typedef struct {
    uint64_t count, malformed, position, size;
    int32_t reason, where, table, is_list, found, inside, byte_there;
    Slice key, value; /* of a HEADER */
    uint64_t n_texts, n_skipped;
    const byte *texts, *skipped;
    const uint64_t *text_ends, *skipped_ends;
    uint64_t skipped_counts[MAX_SKIPPED + 1]; /* by code; the last one counts what has no place of its own */
} Report;

typedef struct { const byte *at; size_t size; uint64_t stamp; } Slot; /* a value, seen in the event of that stamp */
typedef struct { uint32_t cat_size, ph_size; int32_t table; uint32_t skip; byte text[ROUTE_TEXT + 8]; } Route;

typedef struct {
    Report report;
    Input in;
    size_t wanted;  /* do not try again before this much is unread */
    uint64_t limit; /* longest unit */
    bool no_memory;
    uint64_t seed, stamp, event_stamp, args_stamp;
    Slot *slots;
    Keys event_keys, args_keys;
    Table *tables;
    const Rule *rules;
    size_t n_rules;
    Route routes[ROUTES];
    Intern texts, skipped;
} Scanner;

#endif
